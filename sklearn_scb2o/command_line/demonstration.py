"""What ``scb2o`` shows without a command."""

from __future__ import annotations

import numpy as np

from ..optimize import minimize
from ..problems import circle, star
from .reproduce import reproduce

DEMO_SEEDS = 20
DEMO_EVALUATIONS = 5_000


def demonstrate() -> None:
    """Solve two problems of the paper many times, and print the paper's table beside ours."""
    print("Two problems of the paper: the Ackley function on a circle and on a star.")
    print(
        f"\nDefaults, {DEMO_EVALUATIONS:,} evaluations, {DEMO_SEEDS} seeds: "
        "best, median and worst distance to the solution"
    )
    for problem in (circle(), star()):
        results = [
            minimize(
                problem.lower,
                problem.upper,
                problem.bounds,
                vectorized=True,
                max_evals=DEMO_EVALUATIONS,
                random_state=seed,
            )
            for seed in range(DEMO_SEEDS)
        ]
        distances = sorted(float(problem.distance(result.x)) for result in results)
        median = results[int(np.argsort([problem.distance(r.x) for r in results])[DEMO_SEEDS // 2])]
        print(
            f"  {problem.name:<7} {distances[0]:.1e}  {distances[DEMO_SEEDS // 2]:.1e}  {distances[-1]:.1e}"
            f"   x = ({median.x[0]:.4f}, {median.x[1]:.4f}), L = {median.lower_fun:.1e}, G = {median.fun:.4f};"
            f" the solution is ({problem.x_opt[0]:.4f}, {problem.x_opt[1]:.4f}), G = {problem.upper_opt:.4f}"
        )
    print("\nThe paper's settings against the paper's table:")
    reproduce("2d", DEMO_SEEDS, None)
    print("\nThe figure to it: scb2o reproduce 2d --seeds 20")
