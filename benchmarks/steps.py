"""Time and memory of one ask + tell, against one step of cbx and against drawing the normals alone.

Run: python benchmarks/steps.py [--repeats K] [--quick]

Everything is measured in turn in the same process, some steps of one and then some of the other, as a user runs them;
the objectives are not counted. Given are the medians and quartiles of the mean times per step. Both optimizers run with
their defaults, each keeping the history that it keeps by itself. Normals are those of ``numpy.random.default_rng``,
drawn into an array that exists; on two threads, half of them in each. Ours are measured with one thread and with two
asked for, which only large populations use. The peak is that of the memory that construction and some iterations take,
with two threads and the points asked included, in units of the population.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from cbx.dynamics import CBO
from threadpoolctl import threadpool_limits

from sklearn_scb2o import SCB2OOptimizer

CASES = [(1, 100, 2), (100, 100, 2), (1, 10_000, 100), (1, 50, 10_000), (1, 1000, 1000), (1, 100_000, 2)]
QUICK = [(1, 100, 2), (3, 20, 2), (1, 1000, 20)]

#: A sphere, and the point of it that is nearest to (1, 1, ...).
BOX = (-3.0, 3.0)


def lower(x: np.ndarray) -> np.ndarray:
    return (np.vecdot(x, x) / x.shape[-1] - 0.5) ** 2


def upper(x: np.ndarray) -> np.ndarray:
    return np.vecdot(x, x) / x.shape[-1] - 2.0 * x.mean(axis=-1)


def clock(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def mean_time(step: Callable[[], float], n: int) -> float:
    """Mean of n steps, after a third as many that bring what they use into the caches and the other core to speed."""
    for _ in range(n // 3):
        step()
    return float(np.mean([step() for _ in range(n)]))


class Ours:
    def __init__(self, shape: tuple[int, int, int], n_threads: int = 1) -> None:
        self.shape, self.n_threads = shape, n_threads
        self.restart(0)

    def restart(self, seed: int) -> None:
        n_runs, n, d = self.shape
        self.optimizer = SCB2OOptimizer([BOX] * d, n_particles=n, n_runs=n_runs, random_state=seed)
        self.step()

    def step(self) -> float:
        if self.optimizer.n_iter == 200:  # stay in the phase that a user sees
            self.restart(self.optimizer.n_iter)
        os.environ["SCB2O_NUM_THREADS"] = str(self.n_threads)
        start = time.perf_counter()
        x = self.optimizer.ask()
        asked = time.perf_counter() - start
        L, G = lower(x), upper(x)
        return asked + clock(lambda: self.optimizer.tell(L, G))


class Cbx:
    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.spent, f = 0.0, upper
        self.dynamics = CBO(
            lambda x: self.timed(f, x), x=np.random.default_rng(0).uniform(-3, 3, shape), f_dim="3D",
            max_it=10**9, term_criteria=[],
        )  # fmt: skip
        self.dynamics.step()

    def timed(self, f: Callable[[object], object], x: object) -> object:
        start = time.perf_counter()
        y = f(x)
        self.spent += time.perf_counter() - start
        return y

    def step(self) -> float:
        self.spent = 0.0
        return clock(self.dynamics.step) - self.spent


class Normals:
    def __init__(self, shape: tuple[int, int, int]) -> None:
        out = np.empty(shape)
        halves = np.array_split(out.reshape(-1), 2)
        self.one = partial(np.random.default_rng(0).standard_normal, out=out)
        self.parts = [
            partial(np.random.default_rng(seed).standard_normal, out=half) for seed, half in enumerate(halves)
        ]
        self.pool = ThreadPoolExecutor(1)

    def two(self) -> None:
        other = self.pool.submit(self.parts[1])
        self.parts[0]()
        other.result()


def peak(shape: tuple[int, int, int]) -> float:
    """Largest memory that is in use at a time, in units of the population."""
    n_runs, n, d = shape
    values = [np.random.default_rng(0).random((5, *((n,) if n_runs == 1 else (n_runs, n)))) for _ in range(2)]
    os.environ["SCB2O_NUM_THREADS"] = "2"
    tracemalloc.start()
    optimizer = SCB2OOptimizer([BOX] * d, n_particles=n, n_runs=n_runs, random_state=0)
    for L, G in zip(*values, strict=True):
        x = optimizer.ask()
        optimizer.tell(L, G)
        del x
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / (8 * n_runs * n * d)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=0, help="means per case, 15 by default")
    parser.add_argument("--quick", action="store_true", help="small cases and a few steps, to see that it works")
    options = parser.parse_args()
    threadpool_limits(1)  # BLAS: its threads wait busily, and would disturb what is measured after
    names = ("ours", "ours, 2 threads", "cbx step", "normals", "normals, 2 threads")
    print("ask + tell in us, mean over some steps: median [quartiles]")
    print(f"{'(R, N, d)':>17}", *(f"{name:>27}" for name in names))
    rows = []
    for shape in QUICK if options.quick else CASES:
        normals = Normals(shape)
        steps = (
            Ours(shape).step, Ours(shape, 2).step, Cbx(shape).step,
            partial(clock, normals.one), partial(clock, normals.two),
        )  # fmt: skip
        burst = 5 if options.quick else min(100, max(40, 2_000_000 // int(np.prod(shape))))
        repeats = options.repeats or (2 if options.quick else 15)
        times = np.asarray([[mean_time(step, burst) for step in steps] for _ in range(repeats)])
        low, median, high = np.quantile(times, [0.25, 0.5, 0.75], axis=0) * 1e6
        cells = [f"{m:9.1f} [{a:.0f}-{b:.0f}]".rjust(27) for a, m, b in zip(low, median, high, strict=True)]
        print(f"{shape!s:>17}", *cells, flush=True)
        rows.append((shape, *median, peak(shape)))
    print("\nratios of medians; peak memory in units of the population")
    print("ours / cbx: with one thread and two; ours / normals of one thread: the same")
    print(f"{'(R, N, d)':>17} {'ours / cbx':>14} {'ours / normals':>16} {'normals 2 / 1':>14} {'peak':>6}")
    for shape, one, two, step, floor, halves, memory in rows:
        print(
            f"{shape!s:>17} {one / step:9.2f} {two / step:4.2f} {one / floor:11.2f} {two / floor:4.2f} "
            f"{halves / floor:14.2f} {memory:6.2f}"
        )


if __name__ == "__main__":
    main()
