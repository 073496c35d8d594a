"""The map between a fitted estimator and a vector of weights, with the estimator's own training objective."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import sklearn
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from ..particles.backend import Array, get_namespace, move, to_numpy

__all__ = ["WeightSpace", "has_weight_space", "make_weight_space", "register_weight_space"]

# The largest block of (n_samples, n_particles, n_outputs) numbers made at once; a smaller `working_memory` of
# scikit-learn's configuration is honoured. Larger blocks leave the cache and are no faster.
BLOCK_MIB = 64

# None for a class whose base classes have another objective
_FACTORIES: dict[type, Callable[..., WeightSpace] | None] = {}


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


def register_weight_space(estimator_class: type, factory: Callable[..., WeightSpace] | None) -> None:
    """Make `factory` the maker of weight spaces of an estimator class and of its subclasses.

    Parameters
    ----------
    estimator_class : type
        Class of the estimator.
    factory : callable or None
        Called as ``factory(estimator, X, y, sample_weight)`` with the fitted estimator, X an array or CSR array of
        float64, y as the user gave it, and sample_weight an array of shape (n_samples,), of ones without weights;
        returns a `WeightSpace`. None: the class has none, whatever its base classes have.

    Examples
    --------
    With the scale that it has found kept, HuberRegressor minimises a Huber loss plus an L2 penalty:

    >>> from sklearn.datasets import make_regression
    >>> from sklearn.linear_model import HuberRegressor
    >>> from sklearn_scb2o.model_selection import make_weight_space, register_weight_space
    >>> from sklearn_scb2o.model_selection.linear_spaces import LinearWeightSpace
    >>> from sklearn_scb2o.model_selection.losses import Huber
    >>> def huber_space(estimator, X, y, sample_weight):
    ...     total = sample_weight.sum()
    ...     return LinearWeightSpace(
    ...         X,
    ...         y,
    ...         Huber(estimator.epsilon * estimator.scale_),
    ...         row_weight=sample_weight / total,
    ...         fit_intercept=estimator.fit_intercept,
    ...         l2=estimator.alpha * estimator.scale_ / total,
    ...     )
    >>> register_weight_space(HuberRegressor, huber_space)
    >>> X, y = make_regression(n_features=3, noise=1.0, random_state=0)
    >>> model = HuberRegressor(tol=1e-9).fit(X, y)
    >>> space = make_weight_space(model, X, y)
    >>> abs(space.gradient(space.weights_of(model)[None])).max() < 1e-6  # the minimum
    np.True_
    """
    _FACTORIES[estimator_class] = factory


def _factory_of(estimator: Any) -> Callable[..., WeightSpace] | None:
    if isinstance(estimator, Pipeline):
        return _factory_of(estimator.steps[-1][1])
    return next((_FACTORIES[base] for base in type(estimator).__mro__ if base in _FACTORIES), None)


def has_weight_space(estimator: Any) -> bool:
    """Whether a weight space is registered for the class of an estimator.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Fitted or not; of a pipeline its last step counts.

    Returns
    -------
    bool
        Whether `make_weight_space` makes one.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from sklearn_scb2o.model_selection import has_weight_space
    >>> has_weight_space(Ridge()), has_weight_space(DecisionTreeRegressor())
    (True, False)
    """
    return _factory_of(estimator) is not None


def make_weight_space(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> WeightSpace:
    """Weight space of a *fitted* estimator on the data it was fitted to.

    The objective is the mean loss over the rows, weighted by `sample_weight` and the estimator's `class_weight`, plus
    the penalty of the estimator's parameters: what its `fit` minimises, up to a positive factor. With early_stopping
    `fit` holds rows out; the objective is that of all rows given.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Fitted; of a pipeline the last step has the weights, and X is transformed by the steps before it.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Training targets.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights that were given to `fit`.

    Returns
    -------
    WeightSpace
        Its `weights_of` and `put` take estimators of the kind of `estimator`, pipelines if it is one.

    Raises
    ------
    TypeError
        No weight space is registered for the class of the estimator.
    sklearn.exceptions.NotFittedError
        The estimator is not fitted.
    ValueError
        The data do not fit the estimator or each other, or the estimator has a setting with another objective.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn_scb2o.model_selection import make_weight_space
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    >>> model = Ridge(alpha=2.0).fit(X, y)
    >>> space = make_weight_space(model, X, y)
    >>> space.weights_of(model)
    array([1., 2.])
    >>> space.objective(np.array([[1.0, 2.0], [1.0, 3.0]]))
    array([0.66666667, 1.16666667])
    """
    factory = _factory_of(estimator)
    if factory is None:
        last = estimator
        while isinstance(last, Pipeline):
            last = last.steps[-1][1]
        known = ", ".join(sorted(base.__name__ for base, known_factory in _FACTORIES.items() if known_factory))
        raise TypeError(
            f"no weight space for {type(last).__name__}; there are some for {known}; "
            "add others with register_weight_space"
        )
    check_is_fitted(estimator)
    if isinstance(estimator, Pipeline):
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        return _PipelineSpace(make_weight_space(estimator.steps[-1][1], X, y, sample_weight))
    X = check_array(X, accept_sparse="csr", dtype=np.float64)
    n_features = getattr(estimator, "n_features_in_", X.shape[1])
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features; {type(estimator).__name__} was fitted to {n_features}")
    check_consistent_length(X, y)
    return factory(estimator, X, y, _checked_sample_weight(sample_weight, X.shape[0]))


def _checked_sample_weight(sample_weight: Any, n_samples: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_samples)
    weight = np.asarray(sample_weight, dtype=float)
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {weight.shape}; {(n_samples,)} is needed")
    if not (np.all(np.isfinite(weight)) and np.all(weight >= 0) and weight.sum() > 0):
        raise ValueError("sample_weight must be finite and not negative, with at least one weight above zero")
    return weight


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


class _PipelineSpace(WrappedSpace):
    """The weight space of the last step of a pipeline, on the transformed data."""

    def on(self, like: Array) -> WeightSpace:
        return self.around(self.space.on(like))

    def weights_of(self, estimator: Any) -> np.ndarray:
        return self.space.weights_of(estimator.steps[-1][1])

    def put(self, weights: np.ndarray, estimator: Any) -> None:
        self.space.put(weights, estimator.steps[-1][1])


class TrainingData(NamedTuple):
    """The arrays of an objective, all of one library and floating type."""

    X: Any  #: (n_samples, n_features)
    targets: Array  #: (n_outputs, n_samples)
    row_weight: Array
    l2: Array  #: (n_weights,)
    l1: Array | None

    def on(self, like: Array) -> TrainingData:
        """The same arrays in the library, on the device and of the floating type of `like`."""
        if sparse.issparse(self.X):
            if not isinstance(like, np.ndarray):
                raise ValueError(
                    f"X is sparse, which works with NumPy only, and xp is {get_namespace(like).__name__}: leave xp out "
                    "of optimizer_params, or give a dense X"
                )
            X = self.X.astype(like.dtype)
        else:
            X = move(np.asarray(self.X, dtype=float), like)
        others = (None if v is None else move(np.asarray(v, dtype=float), like) for v in self[1:])
        return TrainingData(X, *others)

    def weights(self, weights: Any) -> tuple[Array, ModuleType]:
        """Weights as an array of the same library, and that library."""
        if isinstance(self.l2, np.ndarray):
            return np.asarray(weights, dtype=self.l2.dtype), np
        return weights, get_namespace(weights)


def add_blocks(values: Array, blocks: list[Array], xp: ModuleType) -> Array:
    """Values of a population plus those of its blocks, which are none where there are no particles."""
    if not blocks:
        return values
    return values + (blocks[0] if len(blocks) == 1 else xp.concat(blocks))


def class_indices(estimator: Any, y: Any) -> np.ndarray:
    """Index in `classes_` of each entry of y, (n_samples,)."""
    y, classes = np.asarray(y), estimator.classes_
    indices = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = np.unique(y[classes[indices] != y])
    if len(unknown):
        raise ValueError(f"y has classes that {type(estimator).__name__} was not fitted to: {unknown.tolist()}")
    return indices


def blocks_of_particles(n_particles: int, numbers_per_particle: int) -> Iterator[slice]:
    """Slices of a population such that a block holds at most BLOCK_MIB of float64 numbers."""
    mib = min(BLOCK_MIB, sklearn.get_config()["working_memory"])
    size = max(1, int(mib * 2**20 / 8) // max(1, numbers_per_particle))
    for start in range(0, n_particles, size):
        yield slice(start, min(start + size, n_particles))
