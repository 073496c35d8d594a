"""Supports that a practitioner would try first; they enter the first population."""

from __future__ import annotations

import numpy as np

from .inner_fit import fit_active
from .supports import WeightSupports
from .weight_spaces import WeightSpace

PATH_LENGTH = 40
PATH_RATIO = 1e-4  # smallest over largest penalty of the path
SHARE = 0.05  # of a large support, so much leaves at a time


def seed_supports(supports: WeightSupports, limit: float) -> dict[str, np.ndarray]:
    """Supports by name: the plain fit, the L1 path, magnitude pruning, backward elimination by weight.

    All but the first are the smallest of their kind whose inner fit keeps the objective within the limit; those that
    find none are left out.

    Parameters
    ----------
    supports : WeightSupports
        Inner fits.
    limit : float
        Objectives up to here are good enough.

    Returns
    -------
    dict of str to boolean array of shape (n_groups,)
    """
    found = {"plain": np.ones(supports.n_groups, dtype=bool)}
    if supports.space.is_convex:
        found["l1"] = l1_path(supports, limit)
    found["magnitude"] = magnitude_pruning(supports, limit)
    found["backward"] = backward_elimination(supports, limit)
    return {name: support for name, support in found.items() if supports.value(support) <= limit}


def group_magnitudes(supports: WeightSupports, weights: np.ndarray) -> np.ndarray:
    """Euclidean norm of the weights of each group."""
    return np.sqrt(supports.membership @ weights**2)


def magnitude_pruning(supports: WeightSupports, limit: float) -> np.ndarray:
    """The fewest groups of largest weights in the plain fit whose inner fit keeps within the limit, by bisection."""
    order = np.argsort(-group_magnitudes(supports, supports.start), kind="stable")
    too_few, enough = 0, supports.n_groups
    while enough - too_few > 1:
        count = (too_few + enough) // 2
        if supports.value(_among(order[:count], supports.n_groups)) <= limit:
            enough = count
        else:
            too_few = count
    return _among(order[:enough], supports.n_groups)


def backward_elimination(supports: WeightSupports, limit: float) -> np.ndarray:
    """Drop the group of smallest weights and fit again, until the objective would exceed the limit."""
    support = np.ones(supports.n_groups, dtype=bool)
    count = supports.n_groups
    while support.any():
        inside = np.flatnonzero(support)
        size = group_magnitudes(supports, supports.weights(support))[inside]
        count = max(1, min(count, round(SHARE * len(inside))))
        smaller = support.copy()
        smaller[inside[np.argsort(size, kind="stable")[:count]]] = False
        if supports.value(smaller, support) <= limit:
            support = smaller
        elif count > 1:
            count //= 2
        else:
            break
    return support


def l1_path(supports: WeightSupports, limit: float) -> np.ndarray:
    """The support of the strongest L1 penalty, on a geometric path, whose inner fit keeps within the limit."""
    space = supports.space
    empty = supports.weights(np.zeros(supports.n_groups, dtype=bool))
    members = supports.membership.sum(axis=0) > 0
    slopes = np.abs(space.gradient(empty[None])[0]) * members
    everything = np.arange(space.n_weights)
    penalties = slopes.max() * np.geomspace(1.0, PATH_RATIO, PATH_LENGTH)
    found = np.ones(supports.n_groups, dtype=bool)
    weights, too_strong, enough = empty, 0, PATH_LENGTH
    while enough - too_strong > 1:  # the fits of a bisection start from the strongest penalty that was too strong
        middle = (too_strong + enough) // 2
        more = _MoreL1(space, penalties[middle] * members)
        fitted = fit_active(more, everything, weights, tol=1e-7, max_iter=200).weights
        support = group_magnitudes(supports, fitted) > 0.0
        if supports.value(support) <= limit:
            found, enough = support, middle
        else:
            weights, too_strong = fitted, middle
    return found


class _MoreL1(WeightSpace):
    """The objective of a space plus ``sum_j more_j |w_j|``."""

    def __init__(self, space: WeightSpace, more: np.ndarray) -> None:
        self._space, self._more = space, more
        self.feature_of_weight, self.is_intercept = space.feature_of_weight, space.is_intercept
        self.l1 = more if space.l1 is None else space.l1 + more
        self.is_smooth = space.is_smooth

    def objective(self, weights: np.ndarray) -> np.ndarray:
        return self._space.objective(weights) + np.abs(weights) @ self._more

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return self._space.gradient(weights) + np.sign(weights) * self._more

    def smoothed(self, width: float) -> WeightSpace:
        return _MoreL1(self._space.smoothed(width), self._more)

    def weights_of(self, estimator: object) -> np.ndarray:
        return self._space.weights_of(estimator)

    def put(self, weights: np.ndarray, estimator: object) -> None:
        self._space.put(weights, estimator)


def _among(groups: np.ndarray, n_groups: int) -> np.ndarray:
    support = np.zeros(n_groups, dtype=bool)
    support[groups] = True
    return support
