"""A simulator that raises, hangs, and kills its process, at random.

    python benchmarks/failures.py [--seeds K] [--first-seed S] [--evaluations n]

The problem is `circle`. Of all evaluations 30% raise, 2% hang until they are killed after a quarter of a second, and
1% kill their process. Prints for each seed the distance to the solution and the failures as the result counts them
beside those that the simulator meant to make; then in how many runs the distance is at most 0.01.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from sklearn_scb2o import minimize
from sklearn_scb2o.problems import circle

KINDS = ("exception", "timeout", "killed")


class Unreliable:
    """L and G of `circle`; what it does instead it notes in a file first. It needs nothing but NumPy."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, x: np.ndarray) -> tuple[float, float]:
        chance = np.random.default_rng(np.frombuffer(x.tobytes(), dtype=np.uint32)).random()
        kind = "exception" if chance < 0.3 else "timeout" if chance < 0.32 else "killed" if chance < 0.33 else ""
        if kind:
            with open(self.path, "a") as file:
                file.write(kind + "\n")
        if kind == "exception":
            raise ArithmeticError("diverged")
        if kind == "timeout":
            time.sleep(60.0)
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return (x @ x - 1.0) ** 2, ackley(x)


def ackley(x: np.ndarray) -> float:
    """The upper objective of `circle`."""
    z = x - np.array([0.5, 1.0 / 3.0])
    return float(
        20.0
        + np.e
        - 20.0 * np.exp(-0.2 * 3.0 * np.sqrt(np.mean(z**2)))
        - np.exp(np.mean(np.cos(2.0 * np.pi * 3.0 * z)))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=5_000)
    arguments = parser.parse_args()
    problem, near = circle(), 0
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = minimize(
                Unreliable(f"{folder}/meant"),
                bounds=problem.bounds,
                workers=2,
                asynchronous=True,
                on_error="fail",
                timeout=0.25,
                max_evals=arguments.evaluations,
                random_state=seed,
            )
            meant = Counter(Path(folder, "meant").read_text().split())
        distance = float(problem.distance(result.x))
        near += distance <= 1e-2
        counts = "  ".join(f"{kind} {result.failures[kind]} (meant {meant[kind]})" for kind in KINDS)
        print(f"seed {seed:<3} distance {distance:.1e}  {counts}  {time.perf_counter() - start:.0f} s", flush=True)
    print(f"within 0.01 of the solution in {near} of {arguments.seeds} runs")


if __name__ == "__main__":
    main()
