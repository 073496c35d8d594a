"""Simulators for worker processes, in a module that imports quickly, and what the tests of workers share."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil


def total(x):
    return float(x.sum())


def power(x, exponent):
    return float(x.sum() ** exponent)


def sleeps(x):
    time.sleep(x[0] if x.size == 1 else 0.0)
    return 0.0


def process_id(x):
    return os.getpid()


def slow_process_id(x):
    time.sleep(0.02)
    return os.getpid()


def spoils_its_argument(x):
    value = float(x.sum())
    x[...] = np.nan
    return value


def divides_by_zero(x):
    return 1 / 0


def exits(x):
    raise SystemExit("no licence")


def dies(x):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_at_five(x):
    time.sleep(0.01)
    return dies(x) if x[0] == 5 else float(x.sum())


def kills_its_worker(x, program):
    """Kill the worker of a program, also from a process that the worker has started for it."""
    os.kill(os.getpid() if os.getppid() == program else os.getppid(), signal.SIGKILL)


def hangs(x):
    time.sleep(60)


def hangs_dies_or_raises(x):
    return {3: hangs, 5: dies, 7: divides_by_zero}.get(int(x[0]), total)(x)


def records(x, path):
    """Note the process and wait, as a simulator that takes long."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(x[0])
    return float(x[0])


class Strange(Exception):
    """Cannot be unpickled: its arguments are not those of its constructor."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def raises_strange(x):
    raise Strange(1, 2)


def points(n, d=3):
    return [np.full(d, float(i)) for i in range(n)]


def outcomes(pool, call, x):
    """What the pool makes of a call at these points, in their order."""
    for number, point in enumerate(x):
        pool.submit((number, "L"), call, point)
    finished = dict(pool.next() for _ in x)
    assert sorted(finished) == [(number, "L") for number in range(len(x))]
    return [finished[number, "L"] for number in range(len(x))]


def values(pool, call, x):
    result = outcomes(pool, call, x)
    assert [(o.failure, o.message) for o in result] == [(None, "")] * len(result)
    return [outcome.value for outcome in result]


def is_running(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def numbers_in(path):
    return [int(line) for line in Path(path).read_text(encoding="utf-8").splitlines()] if Path(path).exists() else []
