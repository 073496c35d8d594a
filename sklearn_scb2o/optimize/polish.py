"""A local search from the result of the particles."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, NonlinearConstraint, OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from .evaluation import Evaluator

#: Evaluations at most, times d + 1.
EVALUATIONS = 100


class _BudgetSpentError(Exception):
    """Ends the local search, which does not count all of its evaluations by itself."""


class _Visited:
    """The objectives at one point at a time, remembering the last point and the best one not worse than the start."""

    def __init__(self, evaluator: Evaluator, result: OptimizeResult, left: int) -> None:
        self._evaluator, self._left = evaluator, left
        self._last: tuple[NDArray[Any], float, float] = np.array(result.x), float(result.lower_fun), float(result.fun)
        self.x, self.lower, self.upper = np.asarray(result.x), float(result.lower_fun), float(result.fun)

    def __call__(self, x: NDArray[Any]) -> tuple[float, float]:
        if not np.array_equal(self._last[0], x):
            if not self._left:
                raise _BudgetSpentError
            self._left -= 1
            L, G = (float(v[0]) for v in self._evaluator.both(np.asarray(x, dtype=float)[None, :]))
            self._last = np.array(x), L, G
            if self.lower >= L and self.upper >= G:
                self.x, self.lower, self.upper = np.array(x), L, G
        return self._last[1], self._last[2]


def polish_result(result: OptimizeResult, evaluator: Evaluator, bounds: Bounds, budget: int | None) -> OptimizeResult:
    """Minimise G subject to ``L <= L(x)`` by COBYQA, from ``result.x``.

    Parameters
    ----------
    result : OptimizeResult
        Of the particles; its values at x are known.
    evaluator : Evaluator
        The objectives, whose counts go on.
    bounds : scipy.optimize.Bounds
        The box.
    budget : int or None
        Evaluations that are allowed in all.

    Returns
    -------
    OptimizeResult
        The same with x, fun and lower_fun replaced where a point was found that is not worse in either.
    """
    free = np.flatnonzero(bounds.lb < bounds.ub)
    left = EVALUATIONS * (free.size + 1)
    if budget is not None:
        left = min(left, budget - evaluator.nfev_lower)
    if left < 2 * free.size + 2 or not free.size or not np.isfinite([result.fun, result.lower_fun]).all():
        return result
    visited = _Visited(evaluator, result, left)
    start, reached = visited.x.copy(), visited.lower
    # a radius on the scale at which the particles last differed
    radius = max(float(result.history["spread"][-1]), 1e-6 * max(1.0, float(np.abs(start).max())))
    scale = min(1.0 / abs(reached), 1e12) if reached else 1.0  # of the constraint, to the size of L

    def full(z: NDArray[Any]) -> NDArray[Any]:
        x = start.copy()
        x[free] = np.clip(start[free] + radius * z, bounds.lb[free], bounds.ub[free])
        return x

    def failed_is_huge(value: float) -> float:
        return value if np.isfinite(value) else 1e30

    with contextlib.suppress(_BudgetSpentError):
        scipy_minimize(
            lambda z: failed_is_huge(visited(full(z))[1]),
            np.zeros(free.size),
            method="COBYQA",
            bounds=Bounds((bounds.lb[free] - start[free]) / radius, (bounds.ub[free] - start[free]) / radius),
            constraints=NonlinearConstraint(
                lambda z: failed_is_huge(visited(full(z))[0] - reached) * scale, -np.inf, 0
            ),
            options={"maxfev": left, "initial_tr_radius": 1.0, "final_tr_radius": 1e-8},
        )
    result.x, result.lower_fun, result.fun = visited.x, visited.lower, visited.upper
    return result
