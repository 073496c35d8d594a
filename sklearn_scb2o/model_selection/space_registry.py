"""Which weight space belongs to which estimator: a factory for each class of estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from ..particles.backend import Array
from .weight_spaces import WeightSpace, WrappedSpace

__all__ = ["has_weight_space", "make_weight_space", "register_weight_space"]

# None for a class whose base classes have another objective
_FACTORIES: dict[type, Callable[..., WeightSpace] | None] = {}


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


class _PipelineSpace(WrappedSpace):
    """The weight space of the last step of a pipeline, on the transformed data."""

    def on(self, like: Array) -> WeightSpace:
        return self.around(self.space.on(like))

    def weights_of(self, estimator: Any) -> np.ndarray:
        return self.space.weights_of(estimator.steps[-1][1])

    def put(self, weights: np.ndarray, estimator: Any) -> None:
        self.space.put(weights, estimator.steps[-1][1])
