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
    """A problem whose evaluation takes log-normal time, 10 ms at the median, the same at the same point."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __call__(self, x: np.ndarray) -> tuple[float, float, float]:
        seed = np.frombuffer(x.tobytes(), dtype=np.uint32)
        duration = 0.01 * np.random.default_rng(seed).lognormal()
        time.sleep(duration)
        return float(self.problem.lower(x[None])[0]), float(self.problem.upper(x[None])[0])


class Clocked:
    """The same; adds up the time that it takes in a file."""

    def __init__(self, function: Waits, path: str) -> None:
        self.function, self.path = function, path

    def __call__(self, x: np.ndarray) -> tuple[float, float]:
        start = time.perf_counter()
        values = self.function(x)
        with open(self.path, "a") as file:
            file.write(f"{time.perf_counter() - start}\n")
        return values


def on_real_workers(evaluations: int) -> None:
    import tempfile
    from pathlib import Path

    print(f"circle, 2 processes, {evaluations} evaluations of 16 ms on average:")
    for name, asynchronous in (("batches", False), ("one by one", True)):
        with tempfile.TemporaryDirectory() as folder:
            options = {"workers": 2, "asynchronous": asynchronous, "random_state": 0, "n_particles": PARTICLES}
            function = Clocked(Waits(circle()), f"{folder}/seconds")
            minimize(function, bounds=circle().bounds, max_evals=20, **{**options, "n_particles": 10})  # starts them
            Path(function.path).unlink()
            start = time.perf_counter()
            minimize(function, bounds=circle().bounds, max_evals=evaluations, **options)
            passed = time.perf_counter() - start
            busy = sum(map(float, Path(function.path).read_text().split()))
        print(f"  {name:<12} busy {busy / (2 * passed):4.0%}   {passed:.1f} s")


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
    on_real_workers(2_000)


if __name__ == "__main__":
    main()
