"""Supports: which groups of weights are in. The objective of a support is that of its inner fit, kept once known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .inner_fit import Fit, fit_active
from .second_order import Changes, QuadraticModel
from .weight_spaces import WeightSpace

# Weights of a quadratic model at most, if the support is not larger; the groups outside that the gradient finds the
# most promising are among them.
MAX_MODEL_WEIGHTS = 1500
NONCONVEX_ENTERING = 300  # of them outside at most, where the model is not exact anyway
FLOOR = 1e-6  # accuracy below this part of the objective of the constant model is of no use
CURVATURE_WIDTH = 0.1  # over which kinks are rounded for it, in units of the linear predictor


class Supports(ABC):
    """Objective of the best model on each support, a boolean vector over the groups.

    Attributes
    ----------
    n_groups : int
        Length of a support.
    n_fits : int
        Inner fits so far.
    is_convex : bool
        Whether the inner fit is known to be the best.
    """

    is_convex = True

    def __init__(self, n_groups: int, max_kept: int = 2000) -> None:
        self.n_groups, self.n_fits = n_groups, 0
        self._values: dict[bytes, float] = {}
        self._models: OrderedDict[bytes, Any] = OrderedDict()
        self._max_kept = max_kept

    @abstractmethod
    def fit(self, support: np.ndarray, near: np.ndarray | None) -> tuple[Any, float]:
        """Model on a support and its objective; `near` is a support whose model may serve as a start."""

    def quadratic_model(self, support: np.ndarray) -> QuadraticModel | None:
        """A quadratic model of the objective around the model on a support; None where there is none."""
        return None

    def changes(self, support: np.ndarray) -> tuple[np.ndarray, np.ndarray, Changes]:
        """Groups that are in, groups that are out (indices), and how the objective changes when they move.

        By a fit for each group that leaves; of those that enter nothing is known.
        """
        leaving, entering = np.flatnonzero(support), np.flatnonzero(~support)
        smaller = np.repeat(support[None], len(leaving), axis=0)
        smaller[np.arange(len(leaving)), leaving] = False
        drop = self.values(smaller, support) - self.value(support)
        return leaving, entering, Changes(drop, np.zeros(len(entering)), np.zeros((len(leaving), len(entering))))

    def value(self, support: np.ndarray, near: np.ndarray | None = None) -> float:
        """Objective of the best model on a support."""
        return self._known(support, lambda: self.fit(support, near))

    def values(self, supports: np.ndarray, near: np.ndarray | None = None) -> np.ndarray:
        """The same for each row of `supports`, (k, n_groups) -> (k,)."""
        return np.array([self.value(support, near) for support in supports])

    def value_from(self, support: np.ndarray, start: np.ndarray) -> float:
        """The same where weights are known, (n_weights,), from which a fit may start."""
        return self.value(support)

    def model(self, support: np.ndarray) -> Any:
        """The model on a support."""
        key = np.packbits(support).tobytes()
        if key not in self._models:
            model, self._values[key] = self.fit(support, None)
            self._keep(key, model)
        return self._models[key]

    def _known(self, support: np.ndarray, fit: Callable[[], tuple[Any, float]]) -> float:
        """The objective of a support, from `fit` if it is not known yet."""
        key = np.packbits(support).tobytes()
        if key not in self._values:
            model, self._values[key] = fit()
            self.n_fits += 1
            self._keep(key, model)
        return self._values[key]

    def _keep(self, key: bytes, model: Any) -> None:
        self._models[key] = model
        if len(self._models) > self._max_kept:
            self._models.popitem(last=False)


class WeightSupports(Supports):
    """Supports of a weight space: the model is the weight vector of smallest objective on the support.

    Parameters
    ----------
    space : WeightSpace
        The objective.
    membership : sparse array of shape (n_groups, n_weights)
        Which weights a group has. A weight is free when all groups that have it are in.
    start : ndarray of shape (n_weights,)
        Weights of the plain fit.
    tol, max_iter
        Accuracy of an inner fit, see `fit_active`.

    Attributes
    ----------
    constant : float
        Objective of the constant model.
    """

    def __init__(
        self, space: WeightSpace, membership: Any, start: np.ndarray, *, tol: float = 1e-6, max_iter: int = 100
    ) -> None:
        super().__init__(membership.shape[0])
        self.space, self.start, self.tol, self.max_iter = space, start, tol, max_iter
        self.is_convex = space.is_convex
        self.membership = sparse.csr_array(membership)
        self._by_weight = sparse.csr_array(self.membership.T)
        intercepts = np.flatnonzero(space.is_intercept)
        self.constant = fit_active(space, intercepts, np.zeros_like(start), max_iter=100).objective

    def missing(self, support: np.ndarray) -> np.ndarray:
        """Number of the groups of each weight that are out; the weight is free when there are none."""
        return self._by_weight @ (~support).astype(float)

    def fit(self, support: np.ndarray, near: np.ndarray | None) -> Fit:
        """Weights and objective of the inner fit."""
        return self._fit_from(support, self.start if near is None else self.model(near))

    def value_from(self, support: np.ndarray, start: np.ndarray) -> float:
        """Objective of the best model on a support, whose fit starts from given weights."""
        return self._known(support, lambda: self._fit_from(support, start))

    def _fit_from(self, support: np.ndarray, start: np.ndarray) -> Fit:
        free = np.flatnonzero(self.missing(support) == 0.0)
        return fit_active(
            self.space, free, start, tol=self.tol, max_iter=self.max_iter, floor=FLOOR * abs(self.constant)
        )

    def weights(self, support: np.ndarray) -> np.ndarray:
        """Weights of the inner fit, (n_weights,)."""
        return self.model(support)

    def quadratic_model(self, support: np.ndarray) -> QuadraticModel:
        """The quadratic model around the inner fit: of its free weights and of the groups that may enter."""
        weights = self.model(support)
        space = self.space if self.space.is_smooth else self.space.smoothed(CURVATURE_WIDTH)
        gradient = space.gradient(weights[None])[0]
        held = np.zeros(self.space.n_weights, dtype=bool)
        if space.l1 is not None:  # at zero only what exceeds the L1 part of the slope moves a weight
            at_zero = weights == 0.0
            gradient[at_zero] = (np.sign(gradient) * np.maximum(np.abs(gradient) - space.l1, 0.0))[at_zero]
            held = at_zero & (gradient == 0.0)
        missing = self.missing(support)
        outside = np.flatnonzero(~support)
        promise = self.membership @ np.where(missing == 0.0, 0.0, gradient**2)
        outside = outside[np.argsort(-promise[outside], kind="stable")]
        sizes = np.diff(self.membership.indptr)[outside]
        room = MAX_MODEL_WEIGHTS - int(np.count_nonzero(missing == 0.0))
        if not self.is_convex:
            room = min(room, NONCONVEX_ENTERING)
        may_enter = support.copy()
        may_enter[outside[np.cumsum(sizes) <= room]] = True
        # all that may be free: weights whose groups are all in or may enter
        order = np.flatnonzero(self.missing(may_enter) == 0.0)
        curvature = space.hessian(weights, order)
        if curvature is None:
            curvature = np.eye(len(order))
        return QuadraticModel(
            self.value(support),
            weights[order],
            gradient[order],
            curvature,
            self.membership[:, order],
            support,
            may_enter=may_enter,
            held=held[order],
            place=order,
            n_weights=self.space.n_weights,
        )
