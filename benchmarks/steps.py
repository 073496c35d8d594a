"""Time of one ask + tell against one step of cbx, and against drawing the normals alone.

Run: python benchmarks/steps.py [--repeats K]

All three are measured in turn in the same process; the objectives are not counted. Medians, with quartiles. Both
optimizers run with their defaults, each keeping the history that it keeps by itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from cbx.dynamics import CBO

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.problems import sphere

CASES = [(100, 2), (10_000, 100)]


def clock(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


class Ours:
    def __init__(self, n: int, d: int, problem: object) -> None:
        self.problem, self.n, self.d = problem, n, d
        self.restart(0)

    def restart(self, seed: int) -> None:
        self.optimizer = SCB2OOptimizer(self.problem.bounds, n_particles=self.n, random_state=seed)
        self.step()

    def step(self) -> float:
        if self.optimizer.n_iter == 200:  # stay in the phase that a user sees
            self.restart(self.optimizer.n_iter)
        start = time.perf_counter()
        x = self.optimizer.ask()
        asked = time.perf_counter() - start
        lower, upper = self.problem.lower(x), self.problem.upper(x)
        return asked + clock(lambda: self.optimizer.tell(lower, upper))


class Cbx:
    def __init__(self, n: int, d: int, problem: object) -> None:
        self.spent, f = 0.0, problem.upper
        self.dynamics = CBO(
            lambda x: self.timed(f, x), x=np.random.default_rng(0).uniform(-3, 3, (1, n, d)), f_dim="3D",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=0, help="steps per case; by default by size")
    repeats = parser.parse_args().repeats
    print(f"{'(N, d)':>15} {'ask + tell':>22} {'cbx step':>22} {'normals':>22} {'/ cbx':>7} {'/ normals':>9}")
    for n, d in CASES:
        problem = sphere(d)
        ours, cbx = Ours(n, d, problem), Cbx(n, d, problem)
        normals = partial(np.random.default_rng(0).standard_normal, out=np.empty((n, d)))
        times = np.asarray(
            [(ours.step(), cbx.step(), clock(normals)) for _ in range(repeats or max(30, 200_000 // (n * d)))]
        )
        low, median, high = np.quantile(times, [0.25, 0.5, 0.75], axis=0) * 1e6
        cells = " ".join(f"{m:9.1f} [{a:.0f}-{b:.0f}] us".rjust(22) for a, m, b in zip(low, median, high, strict=True))
        print(f"{f'({n}, {d})':>15} {cells} {median[0] / median[1]:7.2f} {median[0] / median[2]:9.2f}")


if __name__ == "__main__":
    main()
