"""Time and memory of an iteration as the population grows: N to a million, d to a hundred thousand.

Run: python benchmarks/scaling.py [--quick]

Time of one ask + tell, the objectives not counted: median, with quartiles, in ns per number of the population, beside
the normals alone. Peak of memory in units of the population, the points asked included; measured in another pass.
"""

from __future__ import annotations

import argparse

import numpy as np
from steps import Normals, Ours, clock, peak

CASES = [
    (100, 2), (1000, 2), (10_000, 2), (100_000, 2), (1_000_000, 2), (1_000_000, 10),
    (100, 100), (100, 1000), (100, 10_000), (100, 100_000),
]  # fmt: skip
QUICK = [(100, 2), (1000, 2), (20, 1000)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small populations, to see that it works")
    quick = parser.parse_args().quick
    print(f"{'(N, d)':>16} {'ms':>26} {'ns / number':>12} {'normals':>9} {'/ normals':>10} {'peak':>6}")
    for n, d in QUICK if quick else CASES:
        ours, normals = Ours((1, n, d)), Normals((1, n, d))
        repeats = 3 if quick else max(5, min(100, 10_000_000 // (n * d)))
        times = np.array([(ours.step(), clock(normals.one)) for _ in range(repeats)])
        low, median, high = np.quantile(times, [0.25, 0.5, 0.75], axis=0)
        cell = f"{median[0] * 1e3:.3g} [{low[0] * 1e3:.3g}-{high[0] * 1e3:.3g}]"
        print(
            f"{f'({n}, {d})':>16} {cell:>26} {median[0] * 1e9 / (n * d):12.1f} {median[1] * 1e9 / (n * d):9.1f} "
            f"{median[0] / median[1]:10.2f} {peak((1, n, d)):6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
