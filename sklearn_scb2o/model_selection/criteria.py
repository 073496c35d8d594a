"""Upper criteria: what is to be small among the models that train equally well."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, get_scorer, get_scorer_names, make_scorer

from ..particles.backend import Array, get_namespace, move
from .groups import feature_labels

UPPER_HELP = (
    "'l0', 'l1', ('lp', p), ('cost', costs), the name of a scorer, a callable of the weights, or a "
    "callable(estimator, X, y)"
)
_Scorer = type(make_scorer(accuracy_score))


@dataclass(frozen=True)
class GroupCosts:
    """The sum of the costs of the groups that are in, or their number."""

    costs: Any = None  # None: one each


@dataclass(frozen=True)
class WeightCriterion:
    """A function of weight vectors, (n_particles, n_weights) -> (n_particles,), arrays of any library."""

    function: Callable[[Array], Any]
    skips_intercepts: bool = False  # whether it is given the intercepts as zeros
    name: str = ""  # what the user gave

    def __call__(self, weights: Array, is_intercept: np.ndarray) -> Any:
        """Values of the criterion."""
        if self.skips_intercepts:
            weights = get_namespace(weights).where(move(is_intercept, weights), 0.0, weights)
        return self.function(weights)


@dataclass(frozen=True)
class ModelCriterion:
    """A function of a fitted estimator and rows, smaller is better; of a scorer, its negative."""

    function: Callable[..., float]
    sign: float = 1.0

    def __call__(self, estimator: Any, X: Any, y: Any, **params: Any) -> float:
        """Value of the criterion."""
        return self.sign * float(self.function(estimator, X, y, **params))


Criterion = GroupCosts | WeightCriterion | ModelCriterion


def as_criterion(upper: Any) -> Criterion:
    """The criterion that a value of the parameter `upper` stands for.

    Parameters
    ----------
    upper : str, tuple or callable
        See `BilevelSearchCV`.

    Returns
    -------
    GroupCosts, WeightCriterion or ModelCriterion

    Raises
    ------
    ValueError
        For anything else, with what is accepted.
    """
    if isinstance(upper, str):
        if upper == "l0":
            return GroupCosts()
        if upper == "l1":
            return _norm(1.0, repr(upper))
        if upper in get_scorer_names():
            return ModelCriterion(get_scorer(upper), sign=-1.0)
    elif isinstance(upper, tuple) and len(upper) == 2 and isinstance(upper[0], str):
        kind, value = upper
        if kind == "cost":
            return GroupCosts(value)
        if kind == "lp":
            if not (isinstance(value, Real) and 0.0 < float(value) < np.inf):
                raise ValueError(f"upper=('lp', {value!r}): p must be a positive number")
            return _norm(float(value), repr(upper))
    elif isinstance(upper, _Scorer):
        return ModelCriterion(upper, sign=-1.0)
    elif callable(upper):
        return WeightCriterion(upper, name=repr(upper)) if _n_required(upper) == 1 else ModelCriterion(upper)
    raise ValueError(f"upper={upper!r} is not understood: give {UPPER_HELP}")


def group_costs(costs: Any, group_by: Any, n_groups: int, feature_names: Any, n_features: int) -> np.ndarray:
    """Cost of each group from the costs that the user gave: of groups, or of the columns that they consist of.

    Parameters
    ----------
    costs : None, array-like of shape (n_groups,) or (n_features,), or mapping
        Groups are in the order of `np.unique` of their labels; as many costs as columns are those of the columns. A
        mapping goes from names of columns, or from labels of groups; what it lacks costs nothing.
    group_by, n_groups
        The groups.
    feature_names : array of str or None
        Names of the columns.
    n_features : int
        Number of columns.

    Returns
    -------
    ndarray of shape (n_groups,)
    """
    if costs is None:
        return np.ones(n_groups)
    has_labels = not isinstance(group_by, str)
    if isinstance(costs, Mapping):
        by_column = has_labels and not set(costs) <= set(np.unique(group_by).tolist())
        if has_labels and not by_column:
            names = np.unique(group_by)
        else:
            names = np.arange(n_features) if feature_names is None else feature_names
        unknown = set(costs) - set(np.asarray(names).tolist())
        if unknown:
            raise ValueError(
                f"upper=('cost', {costs!r}): {sorted(map(str, unknown))} are no columns or groups; there are "
                f"{np.asarray(names).tolist()}"
            )
        values = np.array([costs.get(name, 0.0) for name in np.asarray(names).tolist()], dtype=float)
    else:
        values = np.asarray(costs, dtype=float)
        by_column = has_labels and values.shape == (n_features,)
    if by_column:
        values = np.bincount(feature_labels(group_by, n_features), weights=values, minlength=n_groups)
    if values.shape != (n_groups,):
        raise ValueError(
            f"upper=('cost', {costs!r}): these costs have shape {values.shape}, expected is one for each of the "
            f"{n_groups} groups"
        )
    if not (np.all(np.isfinite(values)) and np.all(values >= 0.0)):
        raise ValueError(f"upper=('cost', {costs!r}): costs must be finite and not negative")
    return values


def _norm(p: float, name: str) -> WeightCriterion:
    def norm(weights: Array) -> Array:
        xp = get_namespace(weights)
        return xp.sum(xp.abs(weights) ** p, axis=1)

    return WeightCriterion(norm, skips_intercepts=True, name=name)


def _n_required(function: Callable[..., Any]) -> int:
    """Number of positional arguments without default."""
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)
