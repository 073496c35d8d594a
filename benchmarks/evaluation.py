"""Overhead of an evaluation in each pool, and how busy two workers are kept by a simulator of 20 ms.

Run: python benchmarks/evaluation.py [--repeats K]

Batches of N = 100, medians. The overhead is the time of a batch of a function that does nothing, per evaluation. The
efficiency is that of a function that takes 20 ms of CPU time, against the serial batch of the same run: half of its
time on two workers is 100%. Isolated evaluations are made in processes of their own, as with ``timeout=``.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import joblib
import numpy as np

from sklearn_scb2o.optimize.calls import Call
from sklearn_scb2o.optimize.workers import Pool, make_pool

N = 100
POINTS = np.random.default_rng(0).uniform(-3, 3, (N, 10))


def nothing(x: object) -> float:
    return 0.0


def simulator(x: object) -> float:
    """Use 20 ms of a core."""
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    return 0.0


@contextmanager
def opened(name: str) -> Iterator[Pool]:
    if name == "serial":
        with make_pool(1, asynchronous=False) as pool:
            yield pool
    elif name == "dask":
        import dask  # noqa: F401 - not there by default
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster),
            joblib.parallel_config("dask"),
            make_pool(2, asynchronous=False) as pool,
        ):
            yield pool
    else:
        backend, _, asynchronous = name.partition(", ")
        with joblib.parallel_config(backend), make_pool(2, asynchronous=bool(asynchronous)) as pool:
            yield pool


def seconds(pool: Pool, call: Call, repeats: int) -> float:
    """Median time of a batch."""
    times = []
    for repeat in range(repeats + 1):  # the first one starts processes and loads the function
        start = time.perf_counter()
        for i, x in enumerate(POINTS[:8] if repeat == 0 else POINTS):
            pool.submit((i, "L"), call, x)
        for _ in range(8 if repeat == 0 else N):
            outcome = pool.next()[1]
            assert outcome.failure is None, outcome.message
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="batches per number")
    repeats = parser.parse_args().repeats
    names = ["serial", "threading", "threading, asynchronous", "loky", "loky, asynchronous", "dask"]
    serial = None
    print(f"{'pool':<24} {'overhead per evaluation':>24} {'isolated':>12} {'efficiency':>12} {'isolated':>12}")
    for name in names:
        try:
            with opened(name) as pool:
                overheads = [seconds(pool, Call(nothing, timeout=t), 3 * repeats) / N for t in (None, math.inf)]
                batches = [seconds(pool, Call(simulator, timeout=t), repeats) for t in (None, math.inf)]
        except ImportError:
            print(f"{name:<24} is not installed")
            continue
        serial = serial or batches[0]
        us = [f"{1e6 * value:.0f} us" for value in overheads]
        percent = [f"{serial / batch / pool.capacity:.1%}" for batch in batches]
        print(f"{name:<24} {us[0]:>24} {us[1]:>12} {percent[0]:>12} {percent[1]:>12}", flush=True)


if __name__ == "__main__":
    main()
