"""The loops of `minimize`: batch by batch, or point by point as results come in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..particles.backend import to_numpy
from .archive import Seen
from .evaluation import Evaluator
from .optimizer import SCB2OOptimizer
from .pool import Key


class BatchLoop:
    """A batch, of one or several runs, is evaluated as a whole before the particles move.

    Iterating it runs the optimizer until it or the budget says stop; each turn is an iteration that is done.

    Parameters
    ----------
    optimizer, evaluator
        Whose points, by whose values.
    budget : int or None
        Evaluations of L at most, with one left for the consensus point of each run.
    seen : Seen or None
        Where points and values are kept.
    track_consensus : bool
        Whether the consensus is evaluated in each iteration.
    """

    def __init__(
        self, optimizer: SCB2OOptimizer, evaluator: Evaluator, budget: int | None, seen: Seen | None,
        track_consensus: bool,
    ) -> None:  # fmt: skip
        self._optimizer, self._evaluator = optimizer, evaluator
        self._budget, self._seen, self._track = budget, seen, track_consensus

    def __iter__(self) -> Iterator[None]:
        optimizer, evaluator = self._optimizer, self._evaluator
        while not (optimizer.stop() or self._budget_is_spent()):
            x = to_numpy(optimizer.ask())
            shape = x.shape[:-1]  # (N,) or (R, N)

            def needs_upper(L: Any, shape: Any = shape) -> Any:
                return to_numpy(optimizer.needs_upper(L.reshape(shape))).reshape(-1)

            points = x.reshape(-1, x.shape[-1])
            L, G = evaluator.batch(points, evaluator.n_asked, needs_upper)
            if self._seen is not None:
                self._seen.add(points, L, G)
            optimizer.tell(L.reshape(shape), G.reshape(shape))
            if self._track:
                evaluate_consensus(optimizer, evaluator)
            yield

    def _budget_is_spent(self) -> bool:
        """Whether another batch and the consensus points do not fit; tracked consensus points count too."""
        needed = self._optimizer.n_runs * (self._optimizer.batch_size + 1)
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
    optimizer, evaluator, budget, seen
        As for `BatchLoop`.
    """

    def __init__(self, optimizer: SCB2OOptimizer, evaluator: Evaluator, budget: int | None, seen: Seen | None) -> None:
        self._optimizer, self._evaluator, self._budget, self._seen = optimizer, evaluator, budget, seen
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
        x = self._points.pop(number)
        lower = self._lower.pop(number) if kind == "G" else values[0]
        upper = np.nan if kind == "L" else values[-1]
        if self._seen is not None:
            self._seen.add(x[None], np.array([lower]), np.array([upper]))
        self._optimizer.tell([lower], [upper], ids=[number])

    @property
    def unsettled(self) -> list[Key]:
        """Evaluations that are finished, and whose values the optimizer has not been told."""
        return [(number, "L") for number in self._lower]


def evaluate_consensus(optimizer: SCB2OOptimizer, evaluator: Evaluator, runs: Any = True) -> None:
    """Tell the optimizer the values at the consensus points, of some of its runs (R,), that are not known."""
    consensus = optimizer.intermediate_result().consensus
    if consensus is None:
        return
    x = consensus.x.reshape(optimizer.n_runs, -1)
    L, G = (np.array(np.atleast_1d(v), dtype=float) for v in (consensus.lower, consensus.upper))
    rows = np.flatnonzero(runs & np.isfinite(x).all(axis=1) & np.isnan([L, G]).any(axis=0))
    if len(rows):
        L[rows], G[rows] = evaluator.both(x[rows])
        optimizer.tell_consensus(L, G)
