"""The loops of `minimize`: batch by batch, or point by point as results come in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .evaluation import Evaluator
from .optimizer import SCB2OOptimizer
from .workers import Pool


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
            x = np.asarray(optimizer.ask())
            L, G = evaluator.batch(x, optimizer.n_iter * len(x), lambda L: np.asarray(optimizer.needs_upper(L)))
            optimizer.tell(L, G)
            if self._track:
                evaluate_consensus(optimizer, evaluator)
            yield

    def _budget_is_spent(self) -> bool:
        """Whether another batch and the consensus point do not fit; tracked consensus points count too."""
        needed = self._optimizer.batch_size + 1
        return self._budget is not None and self._evaluator.nfev_lower + needed > self._budget

    def state(self) -> list[list[float]]:
        """What is known about points that the optimizer has not been told: nothing."""
        return []


class TicketLoop:
    """Every worker gets a new point as soon as it is free; the particles move with what is known then.

    Iterating it is as for `BatchLoop`; at the end what is still running is waited for.

    Parameters
    ----------
    optimizer, evaluator, budget
        As for `BatchLoop`.
    pool : Pool
        Whose capacity is to be used.
    known : list of pairs
        Lower values of points that were out when a checkpoint was saved, by number: what `state` returned.
    """

    def __init__(
        self,
        optimizer: SCB2OOptimizer,
        evaluator: Evaluator,
        budget: int | None,
        pool: Pool,
        known: list[list[float]] | None = None,
    ) -> None:
        self._optimizer, self._evaluator, self._budget, self._pool = optimizer, evaluator, budget, pool
        self._lower = {int(number): value for number, value in known or []}
        self._points: dict[int, np.ndarray] = {}

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
        while (free := self._pool.capacity - evaluator.n_running) > 0 and not optimizer.stop():
            if self._budget is not None:
                # those that run, and one for the consensus point
                running = sum(number not in self._lower for number in self._points)
                free = min(free, self._budget - 1 - evaluator.nfev_lower - running)
            numbers, points = optimizer.ask(max(free, 0))
            if not len(numbers):
                return
            for number, point in zip(map(int, numbers), np.asarray(points), strict=True):
                self._points[number] = point
                if number in self._lower:
                    self._need_upper(number, self._lower[number])
                else:
                    evaluator.submit(evaluator.first_kind, number, point)

    def _take(self, number: int, kind: str, values: tuple[float, ...]) -> None:
        """Use what is known now about a point: tell it, or have its upper value evaluated."""
        if kind == "L":
            self._need_upper(number, values[0])
        else:
            lower = self._lower.pop(number) if kind == "G" else values[0]
            self._tell(number, lower, values[-1])

    def _need_upper(self, number: int, lower: float) -> None:
        if self._optimizer.needs_upper([lower], ids=[number])[0]:
            self._lower[number] = lower
            self._evaluator.submit("G", number, self._points[number])
        else:
            self._tell(number, lower, np.nan)

    def _tell(self, number: int, lower: float, upper: float) -> None:
        del self._points[number]
        self._optimizer.tell([lower], [upper], ids=[number])

    def state(self) -> list[list[float]]:
        """Lower values of the points whose upper value is being evaluated."""
        return [[number, value] for number, value in self._lower.items()]


def evaluate_consensus(optimizer: SCB2OOptimizer, evaluator: Evaluator) -> None:
    """Tell the optimizer the values at its consensus point."""
    point = np.asarray(optimizer.consensus)[None, :]
    if np.isfinite(point).all():
        L, G = evaluator.both(point)
        optimizer.tell_consensus(L[0], G[0])
