"""The library as it is, and the crude hybrid of a swarm with local searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from sklearn_scb2o import SCB2OOptimizer, minimize

from ..problems.problem import Floats
from ..recorder import Recorder
from .local import lower_descent, quietly, upper_descent


def swarm(recorder: Recorder, seed: int, **options: Any) -> None:
    """`minimize` with its defaults."""

    def both(x: Floats) -> tuple[Floats, Floats]:
        values = recorder.at(x)
        return values.lower, values.upper

    def callback(x: Floats) -> None:
        recorder.propose(x)

    result = quietly(
        minimize, both, bounds=recorder.problem.bounds, vectorized=True, max_evals=recorder.budget, random_state=seed,
        callback=callback, **options,
    )  # fmt: skip
    if result.x is not None:
        recorder.propose(result.x)


def polished(recorder: Recorder, seed: int) -> None:
    """`minimize` with its local search at the end."""
    swarm(recorder, seed, polish=True)


def hybrid(recorder: Recorder, seed: int) -> None:
    """A swarm for 40% of the budget, then local searches from good points that lie apart; then shorter swarms."""
    rng, budget = np.random.default_rng(seed), recorder.budget
    share = 0.4
    while True:
        points = _swarm(recorder, rng, int(share * budget))
        for start in _apart(*points):
            foot = lower_descent(recorder, start)
            for step in (1e-6, 1e-3):
                upper_descent(recorder, foot, step)
        share = 0.1


def _swarm(recorder: Recorder, rng: np.random.Generator, evaluations: int) -> tuple[Floats, Floats, Floats]:
    """All points of a swarm of 50 with their values."""
    optimizer = SCB2OOptimizer([(0.0, 1.0)] * recorder.d, n_particles=50, random_state=rng)
    seen = []
    while (len(seen) + 1) * 50 <= evaluations and not optimizer.stop():
        z = optimizer.ask()
        values = recorder(z)
        optimizer.tell(values.lower, values.upper)
        seen.append((z, values.lower, values.upper))
    z, L, G = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    return z, L, G


def _apart(z: Floats, L: Floats, G: Floats, most: int = 5, distance: float = 0.05) -> list[Floats]:
    """Of the tenth with the lowest L, in the order of G, points that differ by 5% of the box in a coordinate."""
    good = np.flatnonzero(np.isfinite(L) & np.isfinite(G))
    good = good[np.argsort(L[good], kind="stable")][: max(1, good.size // 10)]
    chosen: list[Floats] = []
    for i in good[np.argsort(G[good], kind="stable")]:
        if all(np.abs(z[i] - other).max() >= distance for other in chosen):
            chosen.append(z[i])
            if len(chosen) == most:
                break
    return chosen
