"""Supports that a practitioner would try first; they enter the first population."""

from __future__ import annotations

import numpy as np

from .inner_fit import fit_active
from .pruning import backward_elimination, group_magnitudes, magnitude_pruning
from .shrinking import shrunk_support
from .supports import WeightSupports
from .weight_spaces import WeightSpace, WrappedSpace

PATH_LENGTH = 40
PATH_RATIO = 1e-4  # smallest over largest penalty of the path


def seed_supports(supports: WeightSupports, limit: float) -> dict[str, np.ndarray]:
    """Supports by name: the plain fit, the L1 path, magnitude pruning, backward elimination by weight.

    Where the objective is not convex, shrinkage by a concave penalty is in the place of the L1 path. All but the first
    are the smallest of their kind whose inner fit keeps the objective within the limit; those that find none are left
    out.

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
    if not supports.space.is_convex:
        found["shrunk"] = shrunk_support(supports, limit)
    return {name: support for name, support in found.items() if supports.value(support) <= limit}


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
        more = MoreL1(space, penalties[middle] * members)
        fitted = fit_active(more, everything, weights, tol=1e-6, max_iter=100).weights
        support = group_magnitudes(supports, fitted) > 0.0
        if supports.value(support) <= limit:
            found, enough = support, middle
        else:
            weights, too_strong = fitted, middle
    return found


def smallest_l1_norm(space: WeightSpace, start: np.ndarray, limit: float) -> np.ndarray:
    """Weights of smallest L1 norm within the limit, of a convex objective: where the L1 path crosses the limit.

    Parameters
    ----------
    space : WeightSpace
        The objective.
    start : ndarray of shape (n_weights,)
        Its minimiser.
    limit : float
        Objectives up to here are good enough.

    Returns
    -------
    ndarray of shape (n_weights,)
        `start` if rounding leaves nothing better.
    """
    counted = ~space.is_intercept
    constant = fit_active(space, np.flatnonzero(~counted), start, max_iter=100)
    if constant.objective <= limit:
        return constant.weights
    strongest = np.log(np.abs(space.gradient(constant.weights[None])[0, counted]).max())
    weights, enough, too_strong = start, strongest - 30.0, strongest
    while too_strong - enough > 1e-4:
        middle = (enough + too_strong) / 2.0
        more = MoreL1(space, np.exp(middle) * counted)
        fitted = fit_active(more, np.arange(space.n_weights), weights, tol=1e-9, max_iter=500)
        if float(space.objective(fitted.weights[None])[0]) <= limit:
            weights, enough = fitted.weights, middle
        else:
            too_strong = middle
    return weights


class MoreL1(WrappedSpace):
    """The objective of a space plus ``sum_j more_j |w_j|``."""

    def __init__(self, space: WeightSpace, more: np.ndarray) -> None:
        super().__init__(space)
        self._more = more
        self.l1 = more if space.l1 is None else space.l1 + more

    def around(self, space: WeightSpace) -> WeightSpace:
        """The same L1 part on another space."""
        return MoreL1(space, self._more)

    def objective(self, weights: np.ndarray) -> np.ndarray:
        """Training objective of each row, with the added part."""
        return self.space.objective(weights) + np.abs(weights) @ self._more

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Gradient at each row, with the added part."""
        return self.space.gradient(weights) + np.sign(weights) * self._more
