"""The library as it is."""

from __future__ import annotations

from typing import Any

from sklearn_scb2o import minimize

from ..problems.problem import Floats
from ..recorder import Recorder
from .local import quietly

#: Part of the tolerance of L within which L counts as lowest. Of the answers of solvers without a view of their own the
#: best within a quarter is taken; a search that makes use of all that it is allowed must be allowed less, as on some
#: problems a violation of half of 1e-3 is worth more than the 1% by which G may be wrong.
LOWEST = 0.01


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
    """`minimize` with local searches, L being low up to a tenth of the violation with which a run counts."""
    swarm(recorder, seed, local_search=True, lower_tol=LOWEST * recorder.problem.lower_tol)
