"""Supports: which groups of weights are in. The objective of a support is that of its inner fit, kept once known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any

import numpy as np
from scipy import sparse

from .inner_fit import Fit, fit_active
from .second_order import Changes, predict_changes
from .weight_spaces import WeightSpace

# groups outside the support that are looked at as possible entries, the most promising by gradient
MAX_ENTERING = 400


class Supports(ABC):
    """Objective of the best model on each support, a boolean vector over the groups.

    Attributes
    ----------
    n_groups : int
        Length of a support.
    n_fits : int
        Inner fits so far.
    """

    def __init__(self, n_groups: int, max_kept: int = 2000) -> None:
        self.n_groups, self.n_fits = n_groups, 0
        self._values: dict[bytes, float] = {}
        self._models: OrderedDict[bytes, Any] = OrderedDict()
        self._max_kept = max_kept

    @abstractmethod
    def fit(self, support: np.ndarray, near: np.ndarray | None) -> tuple[Any, float]:
        """Model on a support and its objective; `near` is a support whose model may serve as a start."""

    @abstractmethod
    def changes(self, support: np.ndarray) -> tuple[np.ndarray, np.ndarray, Changes]:
        """Groups that may leave, groups that may enter (indices), and the predicted changes of the objective."""

    def value(self, support: np.ndarray, near: np.ndarray | None = None) -> float:
        """Objective of the best model on a support."""
        key = np.packbits(support).tobytes()
        if key not in self._values:
            model, self._values[key] = self.fit(support, near)
            self.n_fits += 1
            self._keep(key, model)
        return self._values[key]

    def values(self, supports: np.ndarray, near: np.ndarray | None = None) -> np.ndarray:
        """The same for each row of `supports`, (k, n_groups) -> (k,)."""
        return np.array([self.value(support, near) for support in supports])

    def model(self, support: np.ndarray) -> Any:
        """The model on a support."""
        key = np.packbits(support).tobytes()
        if key not in self._models:
            model, self._values[key] = self.fit(support, None)
            self._keep(key, model)
        return self._models[key]

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
    """

    def __init__(
        self, space: WeightSpace, membership: Any, start: np.ndarray, *, tol: float = 1e-6, max_iter: int = 100
    ) -> None:
        super().__init__(membership.shape[0])
        self.space, self.start, self.tol, self.max_iter = space, start, tol, max_iter
        self.membership = sparse.csr_array(membership)
        self._by_weight = sparse.csr_array(self.membership.T)

    def missing(self, support: np.ndarray) -> np.ndarray:
        """Number of the groups of each weight that are out; the weight is free when there are none."""
        return self._by_weight @ (~support).astype(float)

    def fit(self, support: np.ndarray, near: np.ndarray | None) -> Fit:
        """Weights and objective of the inner fit."""
        start = self.start if near is None else self.model(near)
        return fit_active(
            self.space, np.flatnonzero(self.missing(support) == 0.0), start, tol=self.tol, max_iter=self.max_iter
        )

    def weights(self, support: np.ndarray) -> np.ndarray:
        """Weights of the inner fit, (n_weights,)."""
        return self.model(support)

    def weights_of_group(self, group: int) -> np.ndarray:
        """Indices of the weights of a group."""
        return self.membership.indices[self.membership.indptr[group] : self.membership.indptr[group + 1]]

    def changes(self, support: np.ndarray) -> tuple[np.ndarray, np.ndarray, Changes]:
        """Predictions of the quadratic model at the inner fit."""
        weights = self.model(support)
        gradient = self.space.gradient(weights[None])[0]
        missing = self.missing(support)
        free = missing == 0.0
        leaving, outside = np.flatnonzero(support), np.flatnonzero(~support)
        promise = self.membership @ np.where(free, 0.0, gradient**2)
        entering = outside[np.argsort(-promise[outside], kind="stable")[:MAX_ENTERING]]
        free_weights = np.flatnonzero(free)
        # the weights that become free when a group enters
        opened = [w[missing[w] == 1.0] for w in map(self.weights_of_group, entering)]
        order = np.concatenate([free_weights, *opened]).astype(int)
        curvature = self.space.hessian(weights, order)
        if curvature is None:
            curvature = np.eye(len(order))
        position = np.full(self.space.n_weights, -1)
        position[free_weights] = np.arange(len(free_weights))
        closed = [position[w[free[w]]] for w in map(self.weights_of_group, leaving)]
        ends = len(free_weights) + np.cumsum([0, *(len(w) for w in opened)])
        slices = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        return leaving, entering, predict_changes(weights[order], gradient[order], curvature, closed, slices)
