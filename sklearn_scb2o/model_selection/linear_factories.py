"""The linear models of scikit-learn as weight spaces: the loss, the weights of rows and the penalty of each."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    MultiTaskElasticNet,
    MultiTaskLasso,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.svm import LinearSVC
from sklearn.utils import column_or_1d, compute_class_weight

from .linear_spaces import LinearWeightSpace
from .losses import (
    EpsilonInsensitive,
    HalfPoisson,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Multinomial,
    Perceptron,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)
from .space_registry import register_weight_space
from .targets import class_indicators, class_indices, real_targets
from .weight_spaces import WeightSpace


def _refuse_positive(estimator: Any) -> None:
    if estimator.positive:
        raise ValueError(
            f"positive=True of {type(estimator).__name__} is a constraint, which a weight space cannot express; "
            "refit with positive=False"
        )


def _least_squares(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> WeightSpace:
    """Half the mean squared error, of LinearRegression, Ridge, Lasso and ElasticNet, summed over the outputs."""
    _refuse_positive(estimator)
    total = sample_weight.sum()
    l1: float | np.ndarray = 0.0
    l2: float | np.ndarray = 0.0
    if isinstance(estimator, Ridge):
        l2 = np.asarray(estimator.alpha, dtype=float) / total
    elif isinstance(estimator, ElasticNet):
        l1 = estimator.alpha * estimator.l1_ratio
        l2 = estimator.alpha * (1.0 - estimator.l1_ratio)
    return LinearWeightSpace(
        X,
        real_targets(y),
        SquaredError(),
        row_weight=sample_weight / total,
        fit_intercept=estimator.fit_intercept,
        l2=l2,
        l1=l1,
    )


def _poisson(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> WeightSpace:
    targets = real_targets(column_or_1d(y))
    if np.any(targets < 0):
        raise ValueError(f"y of PoissonRegressor has the value {targets.min()}; none may be negative")
    return LinearWeightSpace(
        X,
        targets,
        HalfPoisson(),
        row_weight=sample_weight / sample_weight.sum(),
        fit_intercept=estimator.fit_intercept,
        l2=estimator.alpha,
    )


def _class_weights(estimator: Any, y: Any, sample_weight: np.ndarray | None) -> np.ndarray:
    """Weight of each class by the parameter `class_weight`, shape (n_classes,).

    Newer versions of scikit-learn count the classes with `sample_weight` where class_weight="balanced".
    """
    takes_weight = "sample_weight" in inspect.signature(compute_class_weight).parameters
    options = {"sample_weight": sample_weight} if takes_weight and sample_weight is not None else {}
    return compute_class_weight(estimator.class_weight, classes=estimator.classes_, y=np.asarray(y), **options)


def _one_vs_rest_weights(sample_weight: np.ndarray, class_weights: np.ndarray, indicators: np.ndarray) -> np.ndarray:
    """Weights (n_outputs, n_samples) where the weight of a class is that of the rows of it against all others.

    Of two classes either has its own; of more, the others have weight one: so do liblinear and SGDClassifier.
    """
    if len(class_weights) == 2:
        return sample_weight * np.where(indicators, class_weights[1], class_weights[0])
    return sample_weight * np.where(indicators, class_weights[:, None], 1.0)


def _logistic_regression(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> WeightSpace:
    y = column_or_1d(y)
    liblinear, n_classes = estimator.solver == "liblinear", len(estimator.classes_)
    multi_class = getattr(estimator, "multi_class", "deprecated")  # until 1.7
    if multi_class == "multinomial" and n_classes == 2:
        raise ValueError('multi_class="multinomial" with two classes is not supported; leave it to its default')
    one_vs_rest = n_classes == 2 or liblinear or multi_class == "ovr"

    indicators = class_indicators(estimator, y)
    if liblinear:
        class_weights = _class_weights(estimator, y, sample_weight)
        row_weight = _one_vs_rest_weights(sample_weight, class_weights, indicators)
    elif one_vs_rest and n_classes > 2 and estimator.class_weight == "balanced":
        share = indicators.mean(axis=1, keepdims=True)  # each class is balanced against its rest
        row_weight = sample_weight * np.where(indicators, 0.5 / share, 0.5 / (1.0 - share))
    else:
        class_weights = _class_weights(estimator, y, sample_weight)
        row_weight = sample_weight * class_weights[class_indices(estimator, y)][None]

    # until 1.7 `penalty` names the penalty, later it is only C and l1_ratio
    penalty = getattr(estimator, "penalty", "deprecated")
    l1_ratio = {"l2": 0.0, "l1": 1.0}.get(penalty, estimator.l1_ratio or 0.0)
    total = row_weight.sum() / len(row_weight)
    strength = 0.0 if penalty is None else 1.0 / (estimator.C * total)
    return LinearWeightSpace(
        X,
        2.0 * indicators - 1.0 if one_vs_rest else indicators,
        Logistic() if one_vs_rest else Multinomial(),
        row_weight=row_weight / total,
        fit_intercept=estimator.fit_intercept,
        l2=strength * (1.0 - l1_ratio),
        l1=strength * l1_ratio,
        intercept_scaling=estimator.intercept_scaling if liblinear else None,
    )


def _linear_svc(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> WeightSpace:
    if estimator.multi_class != "ovr":
        raise ValueError(
            f"multi_class={estimator.multi_class!r} of LinearSVC has no weight space; refit with multi_class='ovr'"
        )
    y = column_or_1d(y)
    indicators = class_indicators(estimator, y)
    row_weight = _one_vs_rest_weights(sample_weight, _class_weights(estimator, y, sample_weight), indicators)
    total = row_weight.sum() / len(row_weight)
    strength = 1.0 / (estimator.C * total)
    return LinearWeightSpace(
        X,
        2.0 * indicators - 1.0,
        Hinge() if estimator.loss == "hinge" else SquaredHinge(),
        row_weight=row_weight / total,
        fit_intercept=estimator.fit_intercept,
        l2=strength if estimator.penalty == "l2" else 0.0,
        l1=strength if estimator.penalty == "l1" else 0.0,
        intercept_scaling=estimator.intercept_scaling,
    )


def _sgd(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> WeightSpace:
    """SGDClassifier and SGDRegressor: every step takes the whole penalty, whatever the weight of its row."""
    y = column_or_1d(y)
    losses = {
        "hinge": Hinge(),
        "log_loss": Logistic(),
        "modified_huber": ModifiedHuber(),
        "squared_hinge": SquaredHinge(),
        "perceptron": Perceptron(),
        "squared_error": SquaredError(),
        "huber": Huber(estimator.epsilon),
        "epsilon_insensitive": EpsilonInsensitive(estimator.epsilon),
        "squared_epsilon_insensitive": SquaredEpsilonInsensitive(estimator.epsilon),
    }
    if isinstance(estimator, SGDClassifier):
        indicators = class_indicators(estimator, y)
        targets = 2.0 * indicators - 1.0
        row_weight = _one_vs_rest_weights(sample_weight, _class_weights(estimator, y, None), indicators)
    else:
        targets, row_weight = real_targets(y), sample_weight[None]
    l1_ratio = {"l2": 0.0, "l1": 1.0}.get(estimator.penalty, estimator.l1_ratio)
    alpha = 0.0 if estimator.penalty is None else estimator.alpha
    return LinearWeightSpace(
        X,
        targets,
        losses[estimator.loss],
        row_weight=row_weight / len(y),
        fit_intercept=estimator.fit_intercept,
        l2=alpha * (1.0 - l1_ratio),
        l1=alpha * l1_ratio,
    )


for _class in (LinearRegression, Ridge, Lasso, ElasticNet):
    register_weight_space(_class, _least_squares)
register_weight_space(PoissonRegressor, _poisson)
register_weight_space(LogisticRegression, _logistic_regression)
register_weight_space(LinearSVC, _linear_svc)
for _class in (SGDClassifier, SGDRegressor):
    register_weight_space(_class, _sgd)
for _class in (MultiTaskLasso, MultiTaskElasticNet, LogisticRegressionCV):  # objectives other than their bases'
    register_weight_space(_class, None)
