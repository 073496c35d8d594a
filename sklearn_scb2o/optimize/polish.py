"""A local search from the result of the particles, where there are no other local searches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .archive import Archive, Floats
from .descent import descend
from .hybrid import Evaluate, Hybrid

#: Evaluations for a polish at most, times d + 1, and as part of all.
EVALUATIONS, SHARE = 300, 0.5


def polish_evaluations(budget: int, d: int) -> int:
    """Evaluations of a budget that are kept for a polish."""
    return int(min(EVALUATIONS * (d + 1), SHARE * budget))


class Polish(Hybrid):
    """The searches of a `Hybrid` that begin at the answer of a swarm: nothing else can become the answer.

    Where the objectives look smooth one by differences, further ones that are more exact while they move it, and a
    refinement; elsewhere one with models.

    Parameters
    ----------
    evaluate, archive, answer, budget, lower_tol, seed
        As of `Hybrid`. The archive need not know more than how large L usually is.
    """

    def __init__(
        self, evaluate: Evaluate, archive: Archive, answer: tuple[float, float, Floats], budget: int | None,
        lower_tol: float, seed: Any,
    ) -> None:  # fmt: skip
        most = EVALUATIONS * (archive.d + 1)
        budget = most if budget is None else min(most, budget)
        super().__init__(evaluate, archive, answer, budget, lower_tol, seed, refine=True)
        self._first = len(archive.z) - 1

    def _rounds(self) -> Iterator[None]:
        start, begun = self._archive.z[self._best].copy(), len(self._archive.z)
        if not self._looks_smooth(start):
            self._by_models(start)
            yield
            return
        self._search(descend, start, self._lower_tol)  # whatever G is there, where L is higher
        yield
        yield from self._go_on(len(self._archive.z) - begun)
