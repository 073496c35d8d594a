"""What a selection is made of: its parameters, its data, its results."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from sklearn.metrics import get_scorer_names

from ..optimize import SCB2OOptimizer
from ..optimize.values import pick_dtype, pick_namespace
from ..particles.backend import Array
from .criteria import Criterion, GroupCosts, ModelCriterion, group_costs
from .groups import GROUP_BY
from .rows import n_rows, take_params, take_rows

SEARCH_SPACES = ("auto", "support", "weights")
UPPER_ON = ("train", "validation", "cv")
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

    def __post_init__(self) -> None:
        choices = {"search_space": SEARCH_SPACES, "upper_on": UPPER_ON}
        for name, accepted in choices.items():
            value = getattr(self, name)
            if not (isinstance(value, str) and value in accepted):
                raise ValueError(f"{name}={value!r}: choose one of {accepted}")
        for name, least in {"n_particles": 2, "max_iter": 0, "max_fits": 0}.items():
            value = getattr(self, name)
            if not (value is None or (isinstance(value, Integral) and int(value) >= least)):
                raise ValueError(f"{name}={value!r}: give None or an integer, {least} or larger")
        if isinstance(self.group_by, str) and self.group_by not in GROUP_BY:
            raise ValueError(f"group_by={self.group_by!r}: choose one of {GROUP_BY}, or give a label for each column")
        if not (self.lower is None or callable(self.lower) or self.lower in get_scorer_names()):
            raise ValueError(f"lower={self.lower!r}: give None, the name of a scorer or a callable(estimator, X, y)")
        if self.lower is not None and self.search_space == "weights":
            raise ValueError(
                f"search_space='weights' needs the estimator's own objective, but lower={self.lower!r} is given: "
                "choose search_space='support' or 'auto', or lower=None"
            )
        if not (_is_number(self.validation_fraction) and 0.0 < self.validation_fraction < 1.0):
            raise ValueError(f"validation_fraction={self.validation_fraction!r} must lie between 0 and 1")
        if not (_is_number(self.lower_atol) and 0.0 <= self.lower_atol < np.inf):
            raise ValueError(f"lower_atol={self.lower_atol!r} must be a number, 0 or larger")
        _check_optimizer_params(self.optimizer_params)

    @property
    def like(self) -> Array:
        """An array of the library, on the device and of the type that particles have."""
        params = self.optimizer_params or {}
        xp, device = pick_namespace(params.get("xp"), None, params.get("device"))
        return xp.asarray(np.empty(0, dtype=pick_dtype(params.get("dtype"), None)), device=device)

    @property
    def judges_by_folds(self) -> bool:
        """Whether the criterion is that of refits on folds."""
        return self.upper_on == "cv" and isinstance(self.criterion, ModelCriterion)


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
    """Rows, with what `fit`, the upper criterion and the splitter of folds are given for them."""

    X: Any
    y: Any
    fit_params: dict[str, Any]
    upper_params: dict[str, Any]
    sample_weight: Any = None
    split_params: dict[str, Any] = field(default_factory=dict)

    def take(self, rows: np.ndarray) -> Data:
        """Some of the rows."""
        n = n_rows(self.X)
        return Data(
            take_rows(self.X, rows),
            take_rows(self.y, rows),
            take_params(self.fit_params, rows, n),
            take_params(self.upper_params, rows, n),
            take_rows(self.sample_weight, rows),
            take_params(self.split_params, rows, n),
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


def _check_optimizer_params(params: Any) -> None:
    if params is None:
        return
    accepted = sorted(
        {*inspect.signature(SCB2OOptimizer).parameters, "gamma"} - {"x0", "bounds", "n_runs", "random_state"}
    )
    if not isinstance(params, Mapping):
        raise ValueError(f"optimizer_params={params!r}: give None or a dict of some of {accepted}")
    unknown = [name for name in params if name not in accepted]
    if unknown:
        raise ValueError(f"optimizer_params={params!r} has {unknown}; accepted are {accepted}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real)
