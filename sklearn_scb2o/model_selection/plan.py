"""What a selection is made of: its parameters, its data, its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from .criteria import Criterion, GroupCosts, ModelCriterion, group_costs
from .rows import n_rows, take_params, take_rows

ROUNDING = 1e-7  # relative accuracy of inner fits that counts as no loss


@dataclass(frozen=True)
class Plan:
    """What is to be selected, and how: the parameters of `BilevelSearchCV` that a selection needs."""

    estimator: Any
    criterion: Criterion
    lower: Any
    lower_atol: float
    search_space: str
    group_by: Any
    upper_on: str
    validation_fraction: float
    cv: Any
    n_particles: int | None
    max_iter: int | None
    max_fits: int | None
    optimizer_params: dict[str, Any] | None


@dataclass(frozen=True)
class Selected:
    """A model chosen at one tolerance.

    Attributes
    ----------
    estimator : estimator
        Fitted.
    support : ndarray of bool, shape (n_features,)
        Columns that it uses.
    lower, upper : float
        Training objective and upper criterion.
    lower_min, upper_at_fit : float
        The same of the plain fit.
    message : str
        What there is to say about the choice.
    """

    estimator: Any
    support: np.ndarray
    lower: float
    upper: float
    lower_min: float
    upper_at_fit: float
    optimizer_result: OptimizeResult
    message: str = ""

    @property
    def n_features(self) -> int:
        """Number of columns used."""
        return int(np.count_nonzero(self.support))


@dataclass(frozen=True)
class Data:
    """Rows, with what `fit` and the upper criterion are given for them."""

    X: Any
    y: Any
    fit_params: dict[str, Any]
    upper_params: dict[str, Any]
    sample_weight: Any = None

    def take(self, rows: np.ndarray) -> Data:
        """Some of the rows."""
        n = n_rows(self.X)
        return Data(
            take_rows(self.X, rows),
            take_rows(self.y, rows),
            take_params(self.fit_params, rows, n),
            take_params(self.upper_params, rows, n),
            take_rows(self.sample_weight, rows),
        )


def lower_limit(lower_min: float, constant: float, tol: float, atol: float) -> float:
    """Largest training objective that counts as minimal: ``(1 + tol) lower_min``, more where that is about zero.

    A minimum below `atol` times the objective of the constant model says no more than that the model interpolates:
    that amount is added then.
    """
    near_zero = lower_min <= atol * constant
    return lower_min + (tol + ROUNDING) * abs(lower_min) + (atol * constant if near_zero else 0.0)


class Selection:
    """Selections on the same rows at several tolerances; the subclasses say what is searched.

    Attributes
    ----------
    plan : Plan
        The parameters.
    data, judged : Data
        Rows of the training objective, and rows on which a criterion of the model is evaluated.
    n_features : int
        Number of columns that are selected from.
    feature_names : array of str or None
        Their names.
    lower_min, constant : float
        Training objective of the plain fit and of the constant model.
    """

    plan: Plan
    data: Data
    judged: Data
    n_features: int
    feature_names: Any
    lower_min: float
    constant: float

    def select(self, tol: float, rng: np.random.Generator) -> Selected:
        """The model that is best in the upper criterion at one tolerance."""
        raise NotImplementedError

    def limit(self, tol: float) -> float:
        """Largest training objective that counts as minimal."""
        return lower_limit(self.lower_min, self.constant, tol, self.plan.lower_atol)

    def costs(self, n_groups: int) -> np.ndarray | None:
        """Costs of the groups, where the criterion is their sum."""
        if not isinstance(self.plan.criterion, GroupCosts):
            return None
        return group_costs(self.plan.criterion.costs, self.plan.group_by, n_groups, self.feature_names, self.n_features)

    def judge(self, model: Any) -> float:
        """The criterion of a fitted model."""
        assert isinstance(self.plan.criterion, ModelCriterion)
        return self.plan.criterion(model, self.judged.X, self.judged.y, **self.judged.upper_params)

    def settings(self, rng: np.random.Generator) -> dict[str, Any]:
        """Parameters of the particle system."""
        sizes = {"n_particles": self.plan.n_particles, "max_iter": self.plan.max_iter}
        return {
            **{name: value for name, value in sizes.items() if value is not None},
            "optimizer_params": self.plan.optimizer_params,
            "rng": rng,
        }
