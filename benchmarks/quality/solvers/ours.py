"""The library as it is."""

from __future__ import annotations

from typing import Any

from sklearn_scb2o import minimize

from ..problems.problem import Floats
from ..recorder import Recorder
from .local import quietly

#: As the answers of solvers without a view of their own: part of the tolerance of L within which L counts as lowest.
LOWEST = 0.25


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


def with_local_search(recorder: Recorder, seed: int) -> None:
    """`minimize` with local searches, L being low up to the tolerance that the other solvers are given."""
    swarm(recorder, seed, local_search=True, lower_tol=LOWEST * recorder.problem.lower_tol)
