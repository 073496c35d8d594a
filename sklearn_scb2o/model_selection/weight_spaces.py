"""The map between a fitted estimator and a vector of weights, with the estimator's own training objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import sklearn
from scipy import sparse
from sklearn.pipeline import Pipeline

__all__ = ["WeightSpace", "has_weight_space", "make_weight_space", "register_weight_space"]

# The largest block of (n_samples, n_particles, n_outputs) numbers made at once; a smaller `working_memory` of
# scikit-learn's configuration is honoured. Larger blocks leave the cache and are no faster.
BLOCK_MIB = 64

_FACTORIES: dict[type, Callable[..., WeightSpace]] = {}


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
    is_smooth : bool
        Whether the objective, apart from its L1 part, has a continuous gradient.
    is_strictly_convex : bool
        Whether the penalty makes the minimiser unique for any data.
    """

    feature_of_weight: np.ndarray
    is_intercept: np.ndarray
    l1: np.ndarray | None = None
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


def register_weight_space(estimator_class: type, factory: Callable[..., WeightSpace]) -> None:
    """Make `factory(estimator, X, y, sample_weight)` the weight space of an estimator class and its subclasses."""
    _FACTORIES[estimator_class] = factory


def _factory_of(estimator: Any) -> Callable[..., WeightSpace] | None:
    if isinstance(estimator, Pipeline):
        return _factory_of(estimator.steps[-1][1])
    return next((_FACTORIES[base] for base in type(estimator).__mro__ if base in _FACTORIES), None)


def has_weight_space(estimator: Any) -> bool:
    """Whether a weight space is registered for the class of `estimator` (of a pipeline: of its last step)."""
    return _factory_of(estimator) is not None


def make_weight_space(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> WeightSpace:
    """Weight space of a *fitted* estimator on the data it was fitted to."""
    ...


def blocks_of_particles(n_particles: int, numbers_per_particle: int) -> Iterator[slice]:
    """Slices of a population such that a block holds at most BLOCK_MIB of float64 numbers."""
    mib = min(BLOCK_MIB, sklearn.get_config()["working_memory"])
    size = max(1, int(mib * 2**20 / 8) // max(1, numbers_per_particle))
    for start in range(0, n_particles, size):
        yield slice(start, min(start + size, n_particles))
