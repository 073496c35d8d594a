"""One selection: on given rows, for each tolerance, the model that is best in the upper criterion."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv, train_test_split
from threadpoolctl import threadpool_limits

from .column_selection import ColumnSelection
from .criteria import GroupCosts, ModelCriterion
from .plan import Data, Plan, Selected, Selection
from .rows import n_rows
from .space_registry import has_weight_space
from .weight_selection import WeightSelection

SMALL = 1_000_000  # numbers in X


def select_models(plan: Plan, data: Data, tolerances: list[float], seed: np.random.SeedSequence) -> list[Selected]:
    """For each tolerance, in the order given, the model that is best in the upper criterion.

    A model that is found for one tolerance is a candidate for the larger ones.
    """
    judged = data
    if plan.upper_on == "validation" and isinstance(plan.criterion, ModelCriterion):
        data, judged = _hold_out(plan, data, seed)
    elif plan.upper_on == "cv":  # the same folds for all supports
        plan = replace(plan, cv=folds_of(plan, data))
    with _threads_for(data.X):
        return _select(plan, data, judged, tolerances, seed)


def folds_of(plan: Plan, data: Data) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train and to test on, of each fold of `cv`."""
    folds = check_cv(plan.cv, data.y, classifier=is_classifier(plan.estimator))
    return list(folds.split(data.X, data.y, **data.split_params))


def _select(
    plan: Plan, data: Data, judged: Data, tolerances: list[float], seed: np.random.SeedSequence
) -> list[Selected]:
    plain = clone(plan.estimator).fit(data.X, data.y, **data.fit_params)
    in_weights = has_weight_space(plain) and plan.lower is None
    search_space = plan.search_space
    if search_space == "auto":
        search_space = "weights" if in_weights and not isinstance(plan.criterion, GroupCosts) else "support"
    if search_space == "weights" and not in_weights:
        raise ValueError(
            f"search_space='weights' needs a weight space, and {type(plain).__name__} has none: choose 'support' or "
            "'auto', or add one with register_weight_space"
        )
    selection: Selection
    if in_weights:
        selection = WeightSelection(plan, data, judged, plain, search_space)
    else:
        selection = ColumnSelection(plan, data, judged, plain)
    ascending = sorted(set(tolerances))
    streams = map(np.random.default_rng, seed.spawn(len(ascending)))
    found = {tol: selection.select(tol, rng) for tol, rng in zip(ascending, streams, strict=True)}
    return [found[tol] for tol in tolerances]


def _threads_for(X: Any) -> AbstractContextManager[Any]:
    """One thread for linear algebra on small data: there, starting others costs many times what they save."""
    return threadpool_limits(1) if np.prod(np.shape(X)) < SMALL else nullcontext()


def _hold_out(plan: Plan, data: Data, seed: np.random.SeedSequence) -> tuple[Data, Data]:
    """Rows of the training objective and rows of the upper criterion, of the same mixture of classes."""
    labels = np.asarray(data.y) if is_classifier(plan.estimator) else None
    if labels is not None and (labels.ndim > 1 or np.unique(labels, return_counts=True)[1].min() < 2):
        labels = None
    training, validation = train_test_split(
        np.arange(n_rows(data.X)),
        test_size=plan.validation_fraction,
        stratify=labels,
        random_state=int(seed.generate_state(1)[0]),
    )
    return data.take(np.sort(training)), data.take(np.sort(validation))
