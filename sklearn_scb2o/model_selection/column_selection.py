"""Selection where the estimator has no weight space: over supports, with the estimator fitted to their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.metrics import get_scorer, log_loss, mean_squared_error, zero_one_loss
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from .criteria import ModelCriterion, WeightCriterion
from .groups import feature_labels
from .plan import Data, Plan, Selected, Selection
from .support_search import search_supports
from .supports import Supports


def training_loss(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Log loss of a classifier with `predict_proba`, zero-one loss of another, mean squared error of a regressor.

    Of a classifier with several outputs, the share of rows that are not right in all of them.
    """
    if not is_classifier(estimator):
        return float(mean_squared_error(y, estimator.predict(X), sample_weight=sample_weight))
    if np.ndim(y) > 1:
        wrong = np.any(np.asarray(estimator.predict(X)) != np.asarray(y), axis=1)
        return float(np.average(wrong, weights=sample_weight))
    if hasattr(estimator, "predict_proba"):
        if len(estimator.classes_) < 2:
            return 0.0
        probabilities = estimator.predict_proba(X)
        return float(log_loss(y, probabilities, sample_weight=sample_weight, labels=estimator.classes_))
    return float(zero_one_loss(y, estimator.predict(X), sample_weight=sample_weight))


class KeepColumns(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Transformer that keeps some columns.

    Parameters
    ----------
    columns : ndarray of int
        Their indices.
    """

    def __init__(self, columns: np.ndarray) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> KeepColumns:
        """Note the number and the names of the columns."""
        validate_data(self, X, accept_sparse=["csr", "csc"], dtype=None, ensure_all_finite=False)
        return self

    def _get_support_mask(self) -> np.ndarray:
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.columns] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags


def fit_on_columns(estimator: Any, columns: np.ndarray, data: Data) -> Pipeline:
    """A pipeline of a selection of columns and the estimator, fitted."""
    select = KeepColumns(columns)
    # fitted step by step: with metadata routing a pipeline would want to be told what its steps request
    fitted = clone(estimator).fit(select.fit_transform(data.X), data.y, **data.fit_params)
    return Pipeline([("columns", select), ("estimator", fitted)])


def cross_validated(plan: Plan, data: Data, columns: np.ndarray) -> float:
    """Mean of the upper criterion over the folds in `plan.cv`, with the estimator refitted to some columns.

    Infinite without columns.
    """
    assert isinstance(plan.criterion, ModelCriterion)
    if len(columns) == 0:
        return np.inf
    values = []
    for training, testing in plan.cv:
        held_out = data.take(testing)
        model = fit_on_columns(plan.estimator, columns, data.take(training))
        values.append(plan.criterion(model, held_out.X, held_out.y, **held_out.upper_params))
    return float(np.mean(values))


def feature_names_of(model: Any) -> Any:
    """Names of the columns that the last step of a fitted model sees; None where they have none."""
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        names = getattr(model.steps[-1][1], "feature_names_in_", None)
        if names is None and hasattr(model[:-1], "get_feature_names_out"):
            try:
                return model[:-1].get_feature_names_out()
            except (AttributeError, ValueError):  # a step that cannot name its columns
                return None
        return names
    return getattr(model, "feature_names_in_", None)


class EstimatorSupports(Supports):
    """Supports whose model is a fitted pipeline of a column selection and the estimator.

    Parameters
    ----------
    estimator : estimator
        Cloned and fitted to the columns of each support.
    data : Data
        Training data.
    labels : ndarray of int, shape (n_features,)
        Group of each column.
    lower : callable
        ``lower(fitted, data)`` is the objective.
    """

    def __init__(
        self,
        estimator: Any,
        data: Data,
        labels: np.ndarray,
        lower: Callable[[Any, Data], float],
    ) -> None:
        super().__init__(int(labels.max()) + 1, max_kept=200)
        self._estimator, self._data, self._labels, self._lower = estimator, data, labels, lower

    def fit(self, support: np.ndarray, near: np.ndarray | None) -> tuple[Any, float]:
        """The estimator on the columns of a support; without columns there is no model, and the objective is inf."""
        columns = np.flatnonzero(support[self._labels])
        if len(columns) == 0:
            return None, np.inf
        model = fit_on_columns(self._estimator, columns, self._data)
        return model, self._lower(model, self._data)


class ColumnSelection(Selection):
    """Selection of columns for an estimator that offers `fit` and `predict` and nothing else.

    The lower objective is `plan.lower`, or the training loss.

    Parameters
    ----------
    plan, data, judged
        See `Selection`.
    plain : estimator
        The estimator fitted to `data`.
    """

    def __init__(self, plan: Plan, data: Data, judged: Data, plain: Any) -> None:
        self.plan, self.data, self.judged = plan, data, judged
        self.n_features = getattr(plain, "n_features_in_", np.shape(data.X)[1])
        self.feature_names = feature_names_of(plain)
        if plan.lower is None:
            why = f"{type(plain).__name__} has none: add one with register_weight_space, or use"
        else:
            why = f"with lower={plan.lower!r} none is searched: choose lower=None, or"
        if isinstance(plan.group_by, str) and plan.group_by != "feature":
            raise ValueError(
                f"group_by={plan.group_by!r} needs a weight space, and {why} group_by='feature' or labels of the "
                "columns"
            )
        if isinstance(plan.criterion, WeightCriterion):
            raise ValueError(
                f"upper={plan.criterion.name} needs a weight space, and {why} 'l0', costs, a scorer or a "
                "callable(estimator, X, y)"
            )
        self.labels = feature_labels(plan.group_by, self.n_features)
        self.supports = EstimatorSupports(plan.estimator, data, self.labels, self.lower)
        self.everything = np.ones(self.supports.n_groups, dtype=bool)
        self.group_costs = self.costs(self.supports.n_groups)
        self.lower_min = self.supports.value(self.everything)
        self.constant = 0.0
        self.upper_at_fit = self.upper(self.everything)
        self.found: list[np.ndarray] = []

    def lower(self, model: Any, data: Data) -> float:
        """The lower objective of a fitted model."""
        if self.plan.lower is None:
            return training_loss(model, data.X, data.y, data.sample_weight)
        if isinstance(self.plan.lower, str):
            return -float(get_scorer(self.plan.lower)(model, data.X, data.y))
        return float(self.plan.lower(model, data.X, data.y))

    def upper(self, support: np.ndarray) -> float:
        """The upper criterion of a support."""
        if self.group_costs is not None:
            return float(self.group_costs[support].sum())
        if self.plan.judges_by_folds:
            return cross_validated(self.plan, self.data, np.flatnonzero(support[self.labels]))
        model = self.supports.model(support)
        return np.inf if model is None else self.judge(model)

    def select(self, tol: float, rng: np.random.Generator) -> Selected:
        """The model that is best in the upper criterion at one tolerance."""
        found = search_supports(
            self.supports,
            self.upper,
            self.limit(tol),
            [self.everything, *self.found],
            costs=self.group_costs,
            max_fits=self.plan.max_fits,
            **self.settings(rng),
        )
        self.found.append(found.support)
        return Selected(
            self.supports.model(found.support),
            found.support[self.labels],
            found.lower,
            found.upper,
            self.lower_min,
            self.upper_at_fit,
            found.optimizer_result,
        )
