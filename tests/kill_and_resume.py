"""Kill runs at random moments, start them again each time, and compare the result with that of a run nobody killed.

    python tests/kill_and_resume.py [--kills 100] [--workers 1] [--seed 0]

Exits with an error if a result differs in a bit, or if more evaluations were repeated than can have been in flight.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from sklearn_scb2o import minimize

ITERATIONS, PARTICLES = 12, 20


class Simulator:
    """L and G of a circle; each point that was evaluated is noted in a file."""

    def __init__(self, log):
        self.log = log

    def __call__(self, x):
        time.sleep(0.001)
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, (x.tobytes().hex() + "\n").encode())
        os.close(file)
        return (x @ x - 1.0) ** 2, (x[0] - 2.0) ** 2 + x[1] ** 2


def run(directory, workers):
    """A run that leaves its result in a file."""
    result = minimize(
        Simulator(directory / "evaluated.txt"),
        bounds=[(-3, 3), (-3, 3)],
        n_particles=PARTICLES,
        max_iter=ITERATIONS,
        random_state=0,
        workers=workers,
        checkpoint=directory / "run.scb2o",
        checkpoint_every=2,
    )
    (directory / "result.new").write_bytes(pickle.dumps({name: result[name] for name in result if name != "message"}))
    os.replace(directory / "result.new", directory / "result.pickle")


def start(directory, workers):
    """The same in a process of its own, which has imported everything already where processes can be forked."""
    process = get_context("fork" if hasattr(os, "fork") and workers == 1 else "spawn").Process(
        target=run, args=(directory, workers)
    )
    process.start()
    return process


def finish(directory, workers):
    """Run to the end without a kill; returns the seconds that it takes and the result."""
    began = time.perf_counter()
    process = start(directory, workers)
    process.join()
    if process.exitcode:
        sys.exit(f"a run ended with exit status {process.exitcode}")
    return time.perf_counter() - began, pickle.loads((directory / "result.pickle").read_bytes())


def same(a, b):
    """Whether two results are equal to the bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return a == b or (a != a and b != b)


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder, "reference")
        reference.mkdir()
        seconds, expected = finish(reference, arguments.workers)
        kills = runs = repeated = most = 0
        while kills < arguments.kills:
            directory = Path(folder, str(runs))
            directory.mkdir()
            runs += 1
            before = kills
            while kills < arguments.kills:
                process = start(directory, arguments.workers)
                process.join(rng.uniform(0.0, 0.5 * seconds))
                if not process.is_alive():
                    break
                os.kill(process.pid, signal.SIGKILL)
                process.join()
                kills += 1
            _, result = finish(directory, arguments.workers)
            if not same(result, expected):
                sys.exit(f"after {kills - before} kills the result differs: {result} instead of {expected}")
            evaluated = (directory / "evaluated.txt").read_text().split()
            again = len(evaluated) - len(set(evaluated))
            repeated, most = repeated + again, most + arguments.workers * (kills - before)
            if again > arguments.workers * (kills - before):
                sys.exit(f"{again} evaluations were repeated after {kills - before} kills")
    print(
        f"{kills} kills in {runs} runs: every result as without a kill, to the bit; {repeated} evaluations repeated, "
        f"{most} may have been in flight"
    )


if __name__ == "__main__":
    main()
