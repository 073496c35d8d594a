"""Overhead of an evaluation in each pool, and how busy two workers are kept by a simulator of 20 ms.

Run: python benchmarks/evaluation.py [--repeats K]

Batches of N = 100, medians. The overhead is the time of a batch of a function that does nothing, per evaluation. The
efficiency is that of a function that takes 20 ms of CPU time: the time of the same evaluations in plain processes, each
with its equal part and nothing to communicate, by the time of the pool, measured in turn. Isolated evaluations are made
in processes of their own, as with ``timeout=``.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np

from sklearn_scb2o.optimize.calls import Call
from sklearn_scb2o.optimize.pool import Pool
from sklearn_scb2o.optimize.workers import make_pool

N = 100
POINTS = np.random.default_rng(0).uniform(-3, 3, (N, 10))


def nothing(x: object) -> float:
    return 0.0


def simulator(x: object) -> float:
    """Use 20 ms of a core."""
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        sum(range(1000))
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


def seconds(pool: Pool, call: Call, n: int = N) -> float:
    """Time of a batch."""
    start = time.perf_counter()
    for i, x in enumerate(POINTS[:n]):
        pool.submit((i, "L"), call, x)
    for _ in range(n):
        outcome = pool.next()[1]
        assert outcome.failure is None, outcome.message
    return time.perf_counter() - start


def plain_seconds(processes: Any, n: int) -> float:
    """Time of the same evaluations in n processes that need not be told."""
    start = time.perf_counter()
    processes.map(part, [N // n] * n, chunksize=1)
    return time.perf_counter() - start


def part(n: int) -> None:
    for x in POINTS[:n]:
        simulator(x)


def measured(name: str, repeats: int, processes: Any) -> tuple[list[float], list[float]]:
    """Overheads and efficiencies, without isolation and with it."""
    overheads, efficiencies = [], []
    with opened(name) as pool:
        for timeout in (None, math.inf):
            trivial, busy = Call(nothing, timeout=timeout), Call(simulator, timeout=timeout)
            for call in (trivial, busy):
                seconds(pool, call, 8)  # processes start and load it
            overheads.append(statistics.median(seconds(pool, trivial) / N for _ in range(3 * repeats)))
            efficiencies.append(
                statistics.median(plain_seconds(processes, pool.capacity) / seconds(pool, busy) for _ in range(repeats))
            )
    return overheads, efficiencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="batches per number")
    repeats = parser.parse_args().repeats
    print(f"{'pool':<24} {'overhead per evaluation':>24} {'isolated':>12} {'efficiency':>12} {'isolated':>12}")
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        plain_seconds(processes, 2)
        for name in ("serial", "threading", "threading, asynchronous", "loky", "loky, asynchronous", "dask"):
            try:
                overheads, efficiencies = measured(name, repeats, processes)
            except ImportError:
                print(f"{name:<24} is not installed")
                continue
            us = [f"{1e6 * value:.0f} us" for value in overheads]
            percent = [f"{value:.1%}" for value in efficiencies]
            print(f"{name:<24} {us[0]:>24} {us[1]:>12} {percent[0]:>12} {percent[1]:>12}", flush=True)


if __name__ == "__main__":
    main()
