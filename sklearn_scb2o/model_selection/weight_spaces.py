"""The map between a fitted estimator and a vector of weights, with the estimator's own training objective."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from ..particles.backend import Array, move, to_numpy

__all__ = ["WeightSpace", "WrappedSpace"]


class WeightSpace(ABC):
    """The weights of an estimator as one vector, and its training objective as a function of that vector.

    The objective is the mean loss over the (weighted) rows plus the estimator's own penalty: the function whose
    minimiser `fit` looks for, up to a positive factor. Subclasses hold the data they are evaluated on.

    To add an estimator, subclass this, implement the abstract methods, and hand a factory to
    `register_weight_space`.

    Attributes
    ----------
    feature_of_weight : ndarray of int, shape (n_weights,)
        The column of X that a weight multiplies; -1 for those that belong to no column (intercepts, inner layers).
    is_intercept : ndarray of bool, shape (n_weights,)
        Weights that are never removed and never counted.
    l1 : ndarray of shape (n_weights,) or None
        Coefficients of an L1 part ``sum_j l1_j |w_j|`` that the objective contains; None without one.
    is_convex : bool
        Whether the objective is convex, so that a fit is the smallest objective there is.
    is_smooth : bool
        Whether the objective, apart from its L1 part, has a continuous gradient.
    is_strictly_convex : bool
        Whether the penalty makes the minimiser unique for any data.

    Examples
    --------
    The least squares line through the origin, with an estimator of one's own:

    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, RegressorMixin
    >>> from sklearn_scb2o.model_selection import WeightSpace, make_weight_space, register_weight_space
    >>> class Proportional(RegressorMixin, BaseEstimator):
    ...     def fit(self, X, y):
    ...         self.slope_ = (X[:, 0] @ y) / (X[:, 0] @ X[:, 0])
    ...         return self
    >>> class ProportionalSpace(WeightSpace):
    ...     feature_of_weight, is_intercept = np.array([0]), np.array([False])
    ...     def __init__(self, estimator, X, y, sample_weight):
    ...         self._x, self._y, self._row_weight = X[:, 0], y, sample_weight / sample_weight.sum()
    ...     def weights_of(self, estimator):
    ...         return np.array([estimator.slope_])
    ...     def put(self, weights, estimator):
    ...         estimator.slope_ = weights[0]
    ...     def objective(self, weights):
    ...         return (weights * self._x - self._y) ** 2 @ self._row_weight
    >>> register_weight_space(Proportional, ProportionalSpace)
    >>> X, y = np.array([[1.0], [2.0]]), np.array([2.0, 4.0])
    >>> space = make_weight_space(Proportional().fit(X, y), X, y)
    >>> space.objective(np.array([[2.0], [1.0]]))
    array([0. , 2.5])
    >>> space.gradient(np.array([[3.0], [1.0]])).round(6)  # by differences, as it is not defined
    array([[ 5.],
           [-5.]])
    """

    feature_of_weight: np.ndarray
    is_intercept: np.ndarray
    l1: np.ndarray | None = None
    is_convex: bool = False
    is_smooth: bool = True
    is_strictly_convex: bool = False

    @property
    def n_weights(self) -> int:
        """Length of the weight vector."""
        return len(self.feature_of_weight)

    @abstractmethod
    def weights_of(self, estimator: Any) -> np.ndarray:
        """Weights of a fitted estimator, as a new array of shape (n_weights,)."""

    @abstractmethod
    def put(self, weights: np.ndarray, estimator: Any) -> None:
        """Write `weights`, shape (n_weights,), into a fitted estimator."""

    @abstractmethod
    def objective(self, weights: np.ndarray) -> np.ndarray:
        """Training objective of each row of `weights`, (n_particles, n_weights) -> (n_particles,)."""

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Gradient of the objective at each row, (n_particles, n_weights) -> (n_particles, n_weights).

        At kinks of a piecewise smooth objective, one of the subgradients. Without an implementation of its own it is
        taken by central differences, with 2 n_weights evaluations a row.
        """
        weights = np.asarray(weights, dtype=float)
        gradient = np.empty_like(weights)
        for j in range(self.n_weights):
            step = np.cbrt(np.finfo(float).eps) * np.maximum(1.0, np.abs(weights[:, j]))
            forward, backward = weights.copy(), weights.copy()
            forward[:, j] += step
            backward[:, j] -= step
            gradient[:, j] = (self.objective(forward) - self.objective(backward)) / (forward[:, j] - backward[:, j])
        return gradient

    def hessian(self, weights: np.ndarray, active: np.ndarray) -> np.ndarray | None:
        """Curvature at one weight vector, (n_weights,), among its `active` entries (an array of indices), or None.

        A positive semidefinite matrix of shape (len(active), len(active)): the second derivative where the objective
        is convex and smooth, its Gauss-Newton part otherwise. None where there is no cheap one.
        """
        return None

    def smoothed(self, width: float) -> WeightSpace:
        """The same space with every kink of the loss rounded over `width` (in units of the linear predictor).

        For solvers; itself where the loss has no kink. The smoothed loss is at most `width` away from the loss.
        """
        return self

    def units(self) -> sparse.csr_array | None:
        """Membership (n_units, n_weights) of weights in hidden units; None for a model without such."""
        return None

    def on(self, like: Array) -> WeightSpace:
        """The same space for weights that are arrays such as `like`: of its library, device and floating type.

        Such arrays are what `objective` and `gradient` take and return; all else is as it was. Where this is not
        overridden, NumPy computes both.
        """
        return self if isinstance(like, np.ndarray) else _ThroughNumPy(self, like)


class WrappedSpace(WeightSpace):
    """A weight space that differs from another one in what its subclass says.

    Parameters
    ----------
    space : WeightSpace
        The other one.
    """

    def __init__(self, space: WeightSpace) -> None:
        self.space = space
        self.feature_of_weight, self.is_intercept, self.l1 = space.feature_of_weight, space.is_intercept, space.l1
        self.is_convex, self.is_smooth = space.is_convex, space.is_smooth
        self.is_strictly_convex = space.is_strictly_convex

    def around(self, space: WeightSpace) -> WeightSpace:
        """The same difference from another space."""
        wrapped = copy.copy(self)
        WrappedSpace.__init__(wrapped, space)
        return wrapped

    def weights_of(self, estimator: Any) -> np.ndarray:
        """Weights of a fitted estimator, (n_weights,)."""
        return self.space.weights_of(estimator)

    def put(self, weights: np.ndarray, estimator: Any) -> None:
        """Write weights into a fitted estimator."""
        self.space.put(weights, estimator)

    def objective(self, weights: np.ndarray) -> np.ndarray:
        """Training objective of each row."""
        return self.space.objective(weights)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Gradient at each row."""
        return self.space.gradient(weights)

    def hessian(self, weights: np.ndarray, active: np.ndarray) -> np.ndarray | None:
        """Curvature at one weight vector."""
        return self.space.hessian(weights, active)

    def smoothed(self, width: float) -> WeightSpace:
        """The same with the kinks of the loss rounded; itself where there are none to round."""
        smoothed = self.space.smoothed(width)
        return self if smoothed is self.space else self.around(smoothed)

    def units(self) -> sparse.csr_array | None:
        """Membership of weights in hidden units."""
        return self.space.units()


class _ThroughNumPy(WrappedSpace):
    """A weight space for arrays such as `like`, whose objective is computed by NumPy."""

    def __init__(self, space: WeightSpace, like: Array) -> None:
        super().__init__(space)
        self._like = like

    def objective(self, weights: Array) -> Array:
        return move(self.space.objective(to_numpy(weights).astype(float)), self._like)

    def gradient(self, weights: Array) -> Array:
        return move(self.space.gradient(to_numpy(weights).astype(float)), self._like)
