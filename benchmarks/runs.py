"""Time of many runs in one call of `minimize`, against as many calls.

Run: python benchmarks/runs.py [--runs R] [--separate K] [--quick]

Runs of (N, d) = (100, 2) for 200 iterations on the circle, with vectorized objectives, which both evaluate. Of the
separate calls K are made, spread over the measurement, and their median is multiplied by R.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sklearn_scb2o import minimize
from sklearn_scb2o.problems import circle


def clock(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--separate", type=int, default=60, help="separate calls that are made")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="few runs, to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.separate, options.iterations = 10, 4, 10
    problem = circle()

    def run(**more: Any) -> None:
        minimize(
            problem.lower, problem.upper, problem.bounds, vectorized=True, max_iter=options.iterations, tol=0.0, **more
        )

    half = options.separate // 2
    alone = [clock(lambda s=seed: run(random_state=s)) for seed in range(half)]
    together = clock(lambda: run(n_runs=options.runs, random_state=0))
    alone += [clock(lambda s=seed: run(random_state=s)) for seed in range(half)]
    low, median, high = np.quantile(alone, [0.25, 0.5, 0.75])
    print(f"{options.runs} runs of (100, 2), {options.iterations} iterations")
    print(f"{'one call':>30} {together:8.2f} s")
    print(f"{'separate calls':>30} {median * options.runs:8.2f} s [{low * options.runs:.2f}-{high * options.runs:.2f}]")
    print(f"{'ratio':>30} {median * options.runs / together:8.1f}")


if __name__ == "__main__":
    main()
