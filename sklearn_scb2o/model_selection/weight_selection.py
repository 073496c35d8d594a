"""Selection where the estimator has a weight space: over supports, or over the weights themselves."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from ..particles.backend import Array, move, to_numpy
from .column_selection import cross_validated, feature_names_of
from .criteria import GroupCosts, ModelCriterion, WeightCriterion
from .groups import feature_labels, groups_in, membership_of
from .inner_fit import fit_active
from .plan import Data, Plan, Selected, Selection
from .seeds import seed_supports, smallest_l1_norm
from .space_registry import make_weight_space
from .support_search import search_supports
from .supports import WeightSupports
from .weight_search import Coordinates, Thresholded, lone_moves, search_weights
from .weight_spaces import WeightSpace

UNIQUE = (
    "lower_tol=0 and the training objective is strictly convex: its minimiser is unique, so the plain fit is returned; "
    "choose a positive lower_tol for a choice among models that train almost as well"
)


class WeightSelection(Selection):
    """Selection in the weight space of the estimator.

    Parameters
    ----------
    plan, data, judged
        See `Selection`.
    plain : estimator
        The estimator fitted to `data`.
    search_space : {"support", "weights"}
        What the particles are.
    """

    def __init__(self, plan: Plan, data: Data, judged: Data, plain: Any, search_space: str) -> None:
        self.plan, self.data, self.judged, self.search_space = plan, data, judged, search_space
        self.like = plan.like
        if plan.judges_by_folds:
            _check_can_refit(plain, search_space)
        self.plain, self.scratch = plain, copy.deepcopy(plain)
        if isinstance(plan.criterion, ModelCriterion) and isinstance(plain, Pipeline) and len(plain.steps) > 1:
            self.scratch = _PipelineOnRows(self.scratch, judged.X)
        self.space: WeightSpace = make_weight_space(plain, data.X, data.y, data.sample_weight)
        self.n_features = int(self.space.feature_of_weight.max(initial=-1)) + 1
        self.feature_names = feature_names_of(plain)
        self.start = self.space.weights_of(plain)
        if self.space.is_convex:  # no fit is exact, and what is called minimal is measured from here
            self.start = fit_active(
                self.space, np.arange(self.space.n_weights), self.start, tol=1e-10, max_iter=200
            ).weights
        self.lower_min = float(self.space.objective(self.start[None])[0])
        self.membership = membership_of(self.space, plan.group_by, self.n_features)
        self.group_costs = self.costs(self.membership.shape[0])
        self.supports = WeightSupports(self.space, self.membership, self.start)
        self.constant = self.supports.constant
        self.found: list[np.ndarray] = []  # weights selected so far
        self.upper_at_fit = self._upper_of_model(self.start)

    def select(self, tol: float, rng: np.random.Generator) -> Selected:
        """The model that is best in the upper criterion at one tolerance."""
        limit = self.limit(tol)
        if tol == 0.0 and self.space.is_strictly_convex and limit < 2.0 * self.lower_min:
            nothing = OptimizeResult(x=self.start, nit=0, success=True, message=UNIQUE)
            return self._selected(self.start, nothing, UNIQUE)
        if self.search_space == "support":
            weights, result = self._search_supports(limit, rng)
        else:
            weights, result = self._search_weights(limit, rng)
        self.found.append(weights)
        return self._selected(weights, result)

    def _search_supports(self, limit: float, rng: np.random.Generator) -> tuple[np.ndarray, OptimizeResult]:
        seeds = [*seed_supports(self.supports, limit).values(), *(self._support_of(w) for w in self.found)]
        found = search_supports(
            self.supports,
            self.upper_of_support,
            limit,
            seeds,
            costs=self.group_costs,
            max_fits=self.plan.max_fits,
            **self.settings(rng),
        )
        return self.supports.weights(found.support), found.optimizer_result

    def _search_weights(self, limit: float, rng: np.random.Generator) -> tuple[np.ndarray, OptimizeResult]:
        seeds = [self.start, *self.found]
        coordinates: Coordinates | Thresholded
        if isinstance(self.plan.criterion, GroupCosts) or getattr(self.plan.criterion, "skips_intercepts", False):
            seeds += [self.supports.weights(support) for support in seed_supports(self.supports, limit).values()]
            if self.space.is_convex:
                seeds.append(smallest_l1_norm(self.space, self.start, limit))
            coordinates = Thresholded(
                lone_moves(self.space, self.start, limit - self.lower_min), self.space.is_intercept
            )
        else:
            coordinates = Coordinates(self.space, self.start, limit - self.lower_min)
        found = search_weights(self.space, self.upper, limit, seeds, coordinates, **self.settings(rng))
        return found.weights, found.optimizer_result

    def upper(self, weights: Array) -> Array:
        """The criterion of weight vectors, (k, n_weights) -> (k,), arrays of any library; of models one of NumPy."""
        criterion = self.plan.criterion
        if self.group_costs is not None:
            return move(self.group_costs, weights) @ groups_in(self.membership, weights).T
        if isinstance(criterion, WeightCriterion):
            if isinstance(weights, np.ndarray):
                weights = move(weights, self.like)
            values = np.asarray(to_numpy(criterion(weights, self.space.is_intercept)), dtype=float)
            if values.shape != (weights.shape[0],):
                raise ValueError(
                    f"upper returned shape {values.shape} for weights of shape {tuple(weights.shape)}; expected is a "
                    f"value for each row, ({weights.shape[0]},)"
                )
            return values
        return np.array([self.judge(self._put(row, self.scratch)) for row in to_numpy(weights)])

    def upper_of_support(self, support: np.ndarray) -> float:
        """The criterion of the inner fit on a support."""
        if self.group_costs is not None:
            return float(self.group_costs[support].sum())
        if self.plan.judges_by_folds:
            columns = np.flatnonzero(support[feature_labels(self.plan.group_by, self.n_features)])
            return cross_validated(self.plan, self.data, columns)
        return float(self.upper(self.supports.weights(support)[None])[0])

    def _upper_of_model(self, weights: np.ndarray) -> float:
        if self.plan.judges_by_folds:
            return self.upper_of_support(self._support_of(weights))
        return float(self.upper(weights[None])[0])

    def _put(self, weights: np.ndarray, model: Any) -> Any:
        self.space.put(weights, model)
        return model

    def _support_of(self, weights: np.ndarray) -> np.ndarray:
        return self.membership @ (weights != 0.0).astype(float) > 0.0

    def _selected(self, weights: np.ndarray, result: OptimizeResult, message: str = "") -> Selected:
        if self.space.is_convex and self.search_space == "support":  # accurate enough for predictions to agree
            weights = fit_active(self.space, np.flatnonzero(weights), weights, tol=1e-14, max_iter=100).weights
        owner = self.space.feature_of_weight
        used = np.zeros(self.n_features, dtype=bool)
        used[owner[(weights != 0.0) & (owner >= 0)]] = True
        return Selected(
            self._put(weights, copy.deepcopy(self.plain)),
            used,
            float(self.space.objective(weights[None])[0]),
            self._upper_of_model(weights),
            self.lower_min,
            self.upper_at_fit,
            result,
            message,
        )


def _last_step_has(method: str) -> Any:
    return available_if(lambda self: hasattr(self.steps[-1][1], method))


class _PipelineOnRows(Pipeline):  # type: ignore[misc]  # untyped base
    """A fitted pipeline that transforms rows which it is asked about many times only once."""

    def __init__(self, pipeline: Pipeline, rows: Any) -> None:
        super().__init__(pipeline.steps)
        self._rows, self._transformed = rows, pipeline[:-1].transform(rows)

    def _ask(self, method: str, X: Any) -> Any:
        if X is self._rows:
            return getattr(self.steps[-1][1], method)(self._transformed)
        return getattr(super(), method)(X)

    def predict(self, X: Any) -> Any:
        return self._ask("predict", X)

    @_last_step_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        return self._ask("predict_proba", X)

    @_last_step_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        return self._ask("decision_function", X)


def _check_can_refit(plain: Any, search_space: str) -> None:
    if search_space == "weights":
        raise ValueError(
            "upper_on='cv' judges supports, refitted on folds; with search_space='weights' there is nothing to refit: "
            "choose upper_on='train' or 'validation', or search_space='support'"
        )
    if isinstance(plain, Pipeline):
        raise ValueError(
            "upper_on='cv' refits on columns of X, and the estimator is a Pipeline: put BilevelSearchCV inside the "
            "pipeline, as its last step"
        )
