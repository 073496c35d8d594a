"""Supports by the sizes of weights."""

from __future__ import annotations

import numpy as np

from .supports import WeightSupports


def group_magnitudes(supports: WeightSupports, weights: np.ndarray) -> np.ndarray:
    """Euclidean norm of the weights of each group."""
    return np.sqrt(supports.membership @ weights**2)


def magnitude_pruning(supports: WeightSupports, limit: float, weights: np.ndarray | None = None) -> np.ndarray:
    """The fewest of the largest groups of the plain fit, or of other weights, within the limit, by bisection."""
    weights = supports.start if weights is None else weights
    order = np.argsort(-group_magnitudes(supports, weights), kind="stable")
    too_few, enough = 0, supports.n_groups
    while enough - too_few > 1:
        count = (too_few + enough) // 2
        if supports.value_from(_among(order[:count], supports.n_groups), weights) <= limit:
            enough = count
        else:
            too_few = count
    return _among(order[:enough], supports.n_groups)


def backward_elimination(
    supports: WeightSupports, limit: float, support: np.ndarray | None = None, share: float = 0.05
) -> np.ndarray:
    """Drop the group of smallest weights and fit again, until the objective would exceed the limit.

    From all groups, or from a support. Of a large one, a share leaves at a time.
    """
    support = np.ones(supports.n_groups, dtype=bool) if support is None else support
    count = supports.n_groups
    while support.any():
        inside = np.flatnonzero(support)
        size = group_magnitudes(supports, supports.weights(support))[inside]
        count = max(1, min(count, round(share * len(inside))))
        smaller = support.copy()
        smaller[inside[np.argsort(size, kind="stable")[:count]]] = False
        if supports.value(smaller, support) <= limit:
            support = smaller
        elif count > 1:
            count //= 2
        else:
            break
    return support


def _among(groups: np.ndarray, n_groups: int) -> np.ndarray:
    support = np.zeros(n_groups, dtype=bool)
    support[groups] = True
    return support
