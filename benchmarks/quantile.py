"""Time of the soft quantile of many values, against numpy.partition at the same rank.

Run: python benchmarks/quantile.py [--n N] [--repeats K] [--quick]

Cold: the hard and the soft quantile from the values alone. Warm: with the quantile of values that differ by 1% as the
first guess. Weights: the selection weights as well, as an iteration needs them. tau is 0.05 of the spread inside the
quantile, beta 0.1. Everything is measured in turn; medians, with quartiles.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from sklearn_scb2o.particles import order_statistics, soft_quantile, soft_selection

BETA = 0.1
#: Lower values of particles about a smooth minimum in two dimensions, in ten, and with a heavy tail.
KINDS = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    "chi-squared, 10": lambda rng, n: rng.chisquare(10, size=n),
    "lognormal, 3": lambda rng, n: rng.lognormal(sigma=3.0, size=n),
}


def clock(f: Callable[[], object]) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def measure(values: np.ndarray, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Seconds of np.partition, cold, warm, weights; (repeats, 4)."""
    k = math.ceil(BETA * values.size)
    order = order_statistics(values, BETA)
    tau = 0.05 * float(order.at[0] - order.first[0])
    before = soft_quantile(values * (1.0 + 0.01 * rng.standard_normal(values.size)), BETA, tau)
    return np.array(
        [
            (
                clock(lambda: np.partition(values, k - 1)),
                clock(lambda: soft_quantile(values, BETA, tau)),
                clock(lambda: soft_quantile(values, BETA, tau, start=before)),
                clock(lambda: soft_selection(values, BETA, tau, rtol=1e-9, least=-36.0)),
            )
            for _ in range(repeats)
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000, help="number of values")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="few values, to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.n, options.repeats = 20_000, 3
    names = ("np.partition", "cold", "warm", "weights")
    print(f"N = {options.n}; ms: median [quartiles]")
    print(f"{'values':>16}", *(f"{name:>22}" for name in names), f"{'cold':>7} {'warm':>6} / np.partition")
    rng = np.random.default_rng(0)
    for kind, draw in KINDS.items():
        times = measure(draw(rng, options.n), options.repeats, rng)
        low, median, high = np.quantile(times, [0.25, 0.5, 0.75], axis=0) * 1e3
        cells = [f"{m:.2f} [{a:.2f}-{b:.2f}]".rjust(22) for a, m, b in zip(low, median, high, strict=True)]
        print(f"{kind:>16}", *cells, f"{median[1] / median[0]:7.2f} {median[2] / median[0]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
