"""Sparse supports where the objective is not convex: training under a penalty that pulls small groups to zero."""

from __future__ import annotations

import numpy as np

from .inner_fit import fit_active
from .pruning import backward_elimination, group_magnitudes, magnitude_pruning
from .supports import WeightSupports
from .weight_spaces import WeightSpace, WrappedSpace

STEPS = 60  # penalties one after the other in the first course, half as many in the later ones
STEP_ITER = 20  # iterations of the solver for each of them
GROWTH = 1.12  # of the penalty from one to the next while the objective is below the limit
WIDTHS = (1.0, 0.15)  # first and last width of the rounding at zero, relative to the mean size of the groups
SHARE = 0.03  # of a large support, so much leaves at a time in the elimination
MAX_COURSES = 8
PATIENCE = 2  # courses without a smaller support after which there are no more


def shrunk_support(supports: WeightSupports, limit: float) -> np.ndarray:
    """A small support within the limit: what remains of training under a concave penalty, then backward elimination.

    The penalty of a group g is ``strength sqrt(||w_g||)``, rounded at zero. As the weights are not yet far below the
    limit and small ones are pulled to zero, their sizes say more about what is needed than after a fit without a
    penalty. Further courses start from the smallest support so far, from which groups that are out may grow again.
    """
    best, failures = np.ones(supports.n_groups, dtype=bool), 0
    weights, strength, steps = supports.start, None, STEPS
    for _ in range(MAX_COURSES):
        weights, strength = shrink(supports, limit, weights, strength, steps)
        found = backward_elimination(supports, limit, magnitude_pruning(supports, limit, weights), SHARE)
        failures = 0 if found.sum() < best.sum() else failures + 1
        if found.sum() <= best.sum() and supports.value(found) <= limit:
            best = found
        if failures == PATIENCE or not supports.value(best) <= limit:
            break
        weights, strength, steps = supports.weights(best), strength / GROWTH ** (STEPS // 6), STEPS // 2
    return best


def shrink(
    supports: WeightSupports, limit: float, weights: np.ndarray, strength: float | None = None, steps: int = STEPS
) -> tuple[np.ndarray, float]:
    """Weights of an objective near the limit under a penalty that leaves few groups large, and its last strength."""
    space, everything = supports.space, np.arange(supports.space.n_weights)
    sizes = group_magnitudes(supports, supports.start)
    mean = float(np.sqrt(np.mean(sizes**2))) or 1.0
    if strength is None:  # the penalty is as large as the limit
        strength = limit / np.sum(np.sqrt(sizes + mean))
    for step in range(steps):
        width = mean * WIDTHS[0] * (WIDTHS[1] / WIDTHS[0]) ** min(1.0, step / (0.7 * steps))
        pull = 0.25 * strength * (supports.membership @ weights**2 + width**2) ** -0.75
        more = _MoreL2(space, supports.membership.T @ pull)
        weights = fit_active(more, everything, weights, max_iter=STEP_ITER).weights
        strength *= GROWTH if space.objective(weights[None])[0] < limit else GROWTH**-0.7
    return weights, strength


class _MoreL2(WrappedSpace):
    """The objective of a space plus ``sum_j more_j w_j^2``."""

    def __init__(self, space: WeightSpace, more: np.ndarray) -> None:
        super().__init__(space)
        self._more = more

    def objective(self, weights: np.ndarray) -> np.ndarray:
        return self.space.objective(weights) + weights**2 @ self._more

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return self.space.gradient(weights) + 2.0 * weights * self._more

    def hessian(self, weights: np.ndarray, active: np.ndarray) -> np.ndarray | None:
        hessian = self.space.hessian(weights, active)
        return None if hessian is None else hessian + 2.0 * np.diag(self._more[active])
