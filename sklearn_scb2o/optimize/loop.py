"""The loops of `minimize`: batch by batch, or point by point as results come in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..particles.backend import to_numpy
from .evaluation import Evaluator
from .optimizer import SCB2OOptimizer
from .workers import Key


class BatchLoop:
    """A batch is evaluated as a whole before the particles move.

    Iterating it runs the optimizer until it or the budget says stop; each turn is an iteration that is done.

    Parameters
    ----------
    optimizer, evaluator
        Whose points, by whose values.
    budget : int or None
        Evaluations of L at most, with one left for the consensus point.
    track_consensus : bool
        Whether the consensus is evaluated in each iteration.
    """

    def __init__(
        self, optimizer: SCB2OOptimizer, evaluator: Evaluator, budget: int | None, track_consensus: bool
    ) -> None:
        self._optimizer, self._evaluator = optimizer, evaluator
        self._budget, self._track = budget, track_consensus

    def __iter__(self) -> Iterator[None]:
        optimizer, evaluator = self._optimizer, self._evaluator
        while not (optimizer.stop() or self._budget_is_spent()):
            x = to_numpy(optimizer.ask())
            L, G = evaluator.batch(x, optimizer.n_iter * len(x), lambda L: to_numpy(optimizer.needs_upper(L)))
            optimizer.tell(L, G)
            if self._track:
                evaluate_consensus(optimizer, evaluator)
            yield

    def _budget_is_spent(self) -> bool:
        """Whether another batch and the consensus point do not fit; tracked consensus points count too."""
        needed = self._optimizer.batch_size + 1
        return self._budget is not None and self._evaluator.nfev_lower + needed > self._budget

    @property
    def unsettled(self) -> list[Key]:
        """Evaluations that are finished, and whose values the optimizer has not been told: none."""
        return []


class TicketLoop:
    """Every worker gets a new point as soon as it is free; the particles move with what is known then.

    Iterating it is as for `BatchLoop`; at the end what is still running is waited for.

    Parameters
    ----------
    optimizer, evaluator, budget
        As for `BatchLoop`.
    """

    def __init__(self, optimizer: SCB2OOptimizer, evaluator: Evaluator, budget: int | None) -> None:
        self._optimizer, self._evaluator, self._budget = optimizer, evaluator, budget
        self._points: dict[int, np.ndarray] = {}  # that are out
        self._lower: dict[int, float] = {}  # those whose upper value is being evaluated

    def __iter__(self) -> Iterator[None]:
        done = self._optimizer.n_iter
        while True:
            self._hand_out()
            if not self._evaluator.n_running:
                return
            self._take(*self._evaluator.next())
            if self._optimizer.n_iter > done:
                done = self._optimizer.n_iter
                yield

    def _hand_out(self) -> None:
        optimizer, evaluator = self._optimizer, self._evaluator
        while (free := evaluator.capacity - evaluator.n_running) > 0 and not optimizer.stop():
            if self._budget is not None:
                # those that run, and one for the consensus point
                running = len(self._points) - len(self._lower)
                free = min(free, self._budget - 1 - evaluator.nfev_lower - running)
            numbers, points = optimizer.ask(max(free, 0))
            if not len(numbers):
                return
            for number, point in zip(map(int, numbers), to_numpy(points), strict=True):
                self._points[number] = point
                evaluator.submit(evaluator.first_kind, number, point)

    def _take(self, number: int, kind: str, values: tuple[float, ...]) -> None:
        """Use what is known now about a point: tell it, or have its upper value evaluated."""
        if kind == "L" and self._optimizer.needs_upper([values[0]], ids=[number])[0]:
            self._lower[number] = values[0]
            self._evaluator.submit("G", number, self._points[number])
            return
        del self._points[number]
        lower = self._lower.pop(number) if kind == "G" else values[0]
        upper = np.nan if kind == "L" else values[-1]
        self._optimizer.tell([lower], [upper], ids=[number])

    @property
    def unsettled(self) -> list[Key]:
        """Evaluations that are finished, and whose values the optimizer has not been told."""
        return [(number, "L") for number in self._lower]


def evaluate_consensus(optimizer: SCB2OOptimizer, evaluator: Evaluator) -> None:
    """Tell the optimizer the values at its consensus point, if there is one and they are not known."""
    consensus = optimizer.intermediate_result().consensus
    if consensus is not None and np.isfinite(consensus.x).all() and np.isnan([consensus.lower, consensus.upper]).any():
        L, G = evaluator.both(consensus.x[None, :])
        optimizer.tell_consensus(L[0], G[0])
