"""What it costs, and what it gains, not to wait for the slowest evaluation of a batch.

    python benchmarks/asynchronous.py [--seeds K] [--first-seed S] [--evaluations n]

Run times are log-normal (sigma 1) and pass on a virtual clock. For batches and for points one by one, on several
numbers of workers: the part of the time in which workers are busy, and the distance to the solution after the same
number of evaluations (median over the seeds, and the standard error of the mean of its logarithm in decades). Then the
same on two real workers, processes that wait.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time

import numpy as np

from sklearn_scb2o import SCB2OOptimizer, minimize
from sklearn_scb2o.problems import Problem, circle, sphere

PARTICLES = 100


def in_batches(problem: Problem, evaluations: int, workers: int, seed: int) -> tuple[float, float]:
    """Busy part of the time, distance to the solution."""
    rng = np.random.default_rng(seed)
    optimizer = SCB2OOptimizer(problem.bounds, max_evals=evaluations, n_particles=PARTICLES, tol=0.0, random_state=seed)
    busy = passed = 0.0
    while not optimizer.stop():
        x = optimizer.ask()
        free = [0.0] * workers  # when each worker is
        for duration in rng.lognormal(size=len(x)):
            busy += duration
            heapq.heapreplace(free, free[0] + duration)
        passed += max(free)
        optimizer.tell(problem.lower(x), problem.upper(x))
    return busy / (workers * passed), float(problem.distance(optimizer.consensus))


def one_by_one(problem: Problem, evaluations: int, workers: int, seed: int) -> tuple[float, float]:
    """The same with tickets."""
    rng = np.random.default_rng(seed)
    optimizer = SCB2OOptimizer(problem.bounds, max_evals=evaluations, n_particles=PARTICLES, tol=0.0, random_state=seed)
    busy = now = 0.0
    running: list[tuple[float, int, np.ndarray]] = []
    while True:
        if not optimizer.stop():
            for number, x in zip(*optimizer.ask(workers - len(running)), strict=True):
                duration = rng.lognormal()
                busy += duration
                heapq.heappush(running, (now + duration, int(number), x))
        if not running:
            return busy / (workers * now), float(problem.distance(optimizer.consensus))
        now, number, x = heapq.heappop(running)
        optimizer.tell(problem.lower(x[None]), problem.upper(x[None]), ids=[number])


def show(name: str, rows: list[tuple[float, float]]) -> None:
    busy, distances = np.array(rows).T
    logs = np.log10(np.maximum(distances, 1e-16))
    error = logs.std(ddof=1) / np.sqrt(len(logs))
    print(f"  {name:<12} busy {busy.mean():4.0%}   distance {np.median(distances):.1e}   +- {error:.2f} decades")


class Waits:
    """A problem whose evaluation takes log-normal time, 50 ms at the median, the same at the same point.

    Notes in a file when each began and ended.
    """

    def __init__(self, problem: Problem, path: str) -> None:
        self.problem, self.path = problem, path

    def __call__(self, x: np.ndarray) -> tuple[float, float]:
        start = time.time()
        seed = np.frombuffer(x.tobytes(), dtype=np.uint32)
        time.sleep(0.05 * np.random.default_rng(seed).lognormal())
        values = float(self.problem.lower(x[None])[0]), float(self.problem.upper(x[None])[0])
        with open(self.path, "a") as file:
            file.write(f"{start!r} {time.time()!r}\n")
        return values


def on_real_workers(evaluations: int) -> None:
    print(f"circle, 2 processes, {evaluations} evaluations of 82 ms on average, from the first start to the last end:")
    for name, asynchronous in (("batches", False), ("one by one", True)):
        with tempfile.TemporaryDirectory() as folder:
            function = Waits(circle(), f"{folder}/times")
            minimize(
                function, bounds=circle().bounds, max_evals=evaluations, workers=2, asynchronous=asynchronous,
                random_state=0, n_particles=PARTICLES,
            )  # fmt: skip
            starts, ends = np.loadtxt(function.path).T
        passed = ends.max() - starts.min()
        print(f"  {name:<12} busy {np.sum(ends - starts) / (2 * passed):4.0%}   {passed:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=10_000)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for problem in (circle(), sphere(5), sphere(10)):
        for workers in (2, 8, 50):
            print(f"{problem.name}, d = {len(problem.bounds)}, {workers} workers, {arguments.evaluations} evaluations:")
            for name, loop in (("batches", in_batches), ("one by one", one_by_one)):
                show(name, [loop(problem, arguments.evaluations, workers, seed) for seed in seeds])
    on_real_workers(500)


if __name__ == "__main__":
    main()
