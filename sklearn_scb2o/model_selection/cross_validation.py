"""Tolerances compared by cross-validation, and the choice among them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning
from sklearn.utils.parallel import Parallel, delayed

from .plan import Data, Plan
from .selection import select_models

FIGURES = ("n_features", "lower", "upper")


@dataclass(frozen=True)
class Fold:
    """What one fold says about each tolerance, arrays of shape (n_tolerances,), and the errors of fit and scorer."""

    scores: np.ndarray
    figures: dict[str, np.ndarray]
    fit_time: float
    score_time: float
    error: str | None = None
    score_error: str | None = None


def cross_validate_tolerances(
    plan: Plan,
    data: Data,
    tolerances: list[float],
    splits: list[tuple[np.ndarray, np.ndarray]],
    scorer: Callable[..., float],
    score_params: dict[str, Any],
    seeds: list[np.random.SeedSequence],
    *,
    n_jobs: int | None,
    verbose: int,
    error_score: Any,
) -> dict[str, Any]:
    """Select models on each training part, score them on the rest; returns a `cv_results_`.

    Parameters
    ----------
    plan, data
        What is selected, on which rows.
    tolerances : list of float
        The candidates.
    splits : list of pairs of arrays
        Rows to train and to test on.
    scorer : callable
        Larger is better.
    score_params : dict
        What the scorer is given, entry by row.
    seeds : list of SeedSequence
        One for each fold.
    n_jobs, verbose, error_score
        As in scikit-learn's searches.
    """
    held = Data(data.X, data.y, {}, score_params)
    folds = Parallel(n_jobs=n_jobs, verbose=verbose)(
        delayed(_fold)(plan, data, held, tolerances, training, testing, scorer, seed, error_score)
        for (training, testing), seed in zip(splits, seeds, strict=True)
    )
    errors = [fold.error for fold in folds if fold.error is not None]
    if errors:
        report = f"{len(errors)} of {len(folds)} folds failed; the last error was:\n{errors[-1]}"
        if len(errors) == len(folds):
            raise ValueError(f"all the {report}")
        warnings.warn(f"{report}\nTheir scores are error_score={error_score}.", FitFailedWarning, stacklevel=3)
    errors = [fold.score_error for fold in folds if fold.score_error is not None]
    if errors:
        warnings.warn(
            f"the scorer failed in {len(errors)} of {len(folds)} folds; the last error was:\n{errors[-1]}\n"
            f"These scores are error_score={error_score}.",
            UserWarning,
            stacklevel=3,
        )
    return _results(tolerances, folds)


def _fold(
    plan: Plan,
    data: Data,
    held: Data,
    tolerances: list[float],
    training: np.ndarray,
    testing: np.ndarray,
    scorer: Callable[..., float],
    seed: np.random.SeedSequence,
    error_score: Any,
) -> Fold:
    start = time.perf_counter()
    try:
        models = select_models(plan, data.take(training), tolerances, seed)
    except Exception as error:
        if error_score == "raise":
            raise
        nothing = np.full(len(tolerances), np.nan)
        scores = np.full(len(tolerances), float(error_score))
        return Fold(scores, dict.fromkeys(FIGURES, nothing), 0.0, 0.0, f"{type(error).__name__}: {error}")
    fitted = time.perf_counter()
    test = held.take(testing)
    scores, score_error = np.full(len(models), np.nan), None
    for i, model in enumerate(models):
        try:
            scores[i] = scorer(model.estimator, test.X, test.y, **test.upper_params)
        except Exception as error:
            if error_score == "raise":
                raise
            scores[i], score_error = error_score, f"{type(error).__name__}: {error}"
    scored = time.perf_counter()
    figures = {name: np.array([getattr(model, name) for model in models], dtype=float) for name in FIGURES}
    # the search for one tolerance uses what those for the smaller ones have found: its time is a share
    share = 1.0 / len(models)
    return Fold(scores, figures, (fitted - start) * share, (scored - fitted) * share, score_error=score_error)


def _results(tolerances: list[float], folds: list[Fold]) -> dict[str, Any]:
    shares = np.ones(len(tolerances))
    tables = {
        "fit_time": np.array([fold.fit_time * shares for fold in folds]),
        "score_time": np.array([fold.score_time * shares for fold in folds]),
        "test_score": np.array([fold.scores for fold in folds]),
        **{name: np.array([fold.figures[name] for fold in folds]) for name in FIGURES},
    }
    results: dict[str, Any] = {
        "params": [{"lower_tol": tol} for tol in tolerances],
        "param_lower_tol": np.ma.MaskedArray(tolerances, mask=False, dtype=float),
    }
    for name, table in tables.items():
        if not name.endswith("time"):
            results |= {f"split{k}_{name}": row for k, row in enumerate(table)}
        results[f"mean_{name}"], results[f"std_{name}"] = np.mean(table, axis=0), np.std(table, axis=0)
    means = results["mean_test_score"]
    worst = np.where(np.isnan(means), -np.inf, means)
    results["rank_test_score"] = rankdata(-worst, method="min").astype(np.int32)
    return results


def best_index(results: dict[str, Any], refit: Any) -> int:
    """The candidate that `refit` chooses.

    True: the largest mean score, of equal ones the largest tolerance. "1se": the largest tolerance whose mean score is
    within one standard error (over the folds) of the largest. A callable: what it returns for `results`.
    """
    if callable(refit):
        index = refit(results)
        if not isinstance(index, Integral):
            raise TypeError(f"refit returned {index!r}, expected the index of a candidate, an integer")
        if not 0 <= int(index) < len(results["params"]):
            raise IndexError(f"refit returned {index}, but there are {len(results['params'])} candidates")
        return int(index)
    means = results["mean_test_score"]
    if np.all(np.isnan(means)):
        raise ValueError("the mean score of every candidate is NaN: no tolerance can be chosen")
    best = int(np.nanargmax(means))
    least = means[best]
    if isinstance(refit, str):
        scores = np.array([v[best] for k, v in results.items() if k.startswith("split") and k.endswith("_test_score")])
        if len(scores) > 1:  # a single fold says nothing about the error
            least = means[best] - np.std(scores, ddof=1) / np.sqrt(len(scores))
    tolerances = np.where(means >= least, results["param_lower_tol"].data, -np.inf)
    return int(np.argmax(tolerances))
