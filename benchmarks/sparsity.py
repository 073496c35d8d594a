"""How sparse the models are that BilevelSearchCV finds, beside what else one would do.

    python benchmarks/sparsity.py {cancer,accuracy,diabetes,recovery,digits,mlp,swarm} [--seeds K] [--first-seed S]

Each table has the number of groups (features, weights, hidden units) of the sparsest model whose training objective
is within the slack of its minimum; of a perceptron, of its value at the plain fit. All baselines are judged by the
same inner fits; "s" are the seconds of the search alone. With OMP_NUM_THREADS=1 on one core it takes about

    cancer --seeds 10       2 minutes    accuracy           5 minutes
    diabetes               25 seconds    recovery --seeds 10    40 seconds
    digits                  6 minutes    mlp                9 minutes
    swarm                  40 seconds

Baselines: "L1" counts the coefficients of the strongest L1 penalty whose own weights are good enough, "L1 refit" those
whose refit is; "magnitude" prunes the smallest groups at once, "backward" a few at a time with a refit in between;
"exact backward" drops what increases the objective least; "swaps" is a local search by drops and swaps; "abess" is
shown where that package is installed. "swarm" compares the search over supports with local searches from random
supports that make as many inner fits.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_validate
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, scale

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import membership_of
from sklearn_scb2o.model_selection.inner_fit import fit_active
from sklearn_scb2o.model_selection.local_search import descend
from sklearn_scb2o.model_selection.pruning import backward_elimination, magnitude_pruning
from sklearn_scb2o.model_selection.seeds import MoreL1, l1_path, seed_supports
from sklearn_scb2o.model_selection.support_search import search_supports
from sklearn_scb2o.model_selection.supports import WeightSupports

try:
    import abess
except ImportError:
    abess = None


def supports_of(
    estimator: Any, X: np.ndarray, y: np.ndarray, group_by: str = "feature", **options: Any
) -> WeightSupports:
    """Supports of a fitted estimator."""
    space = make_weight_space(estimator, X, y)
    return WeightSupports(space, membership_of(space, group_by, X.shape[1]), space.weights_of(estimator), **options)


def everything(supports: WeightSupports) -> np.ndarray:
    return np.ones(supports.n_groups, dtype=bool)


def search(estimator: Any, X: np.ndarray, y: np.ndarray, slack: float, seed: int, **options: Any) -> dict[str, Any]:
    """The number of groups that BilevelSearchCV selects, its seconds, and the fitted search as "found"."""
    start = time.perf_counter()
    found = BilevelSearchCV(estimator, lower_tol=slack, random_state=seed, **options).fit(X, y)
    return {"search": int(found.upper_), "s": time.perf_counter() - start, "found": found}


def l1_raw(supports: WeightSupports, limit: float) -> int:
    """Groups of the strongest L1 penalty whose weights, not fitted again, are within the limit."""
    space, everything = supports.space, np.arange(supports.space.n_weights)
    members = supports.membership.sum(axis=0) > 0
    weights = supports.weights(np.zeros(supports.n_groups, dtype=bool))
    strongest = (np.abs(space.gradient(weights[None])[0]) * members).max()
    for penalty in strongest * np.geomspace(1.0, 1e-6, 120):
        weights = fit_active(MoreL1(space, penalty * members), everything, weights, tol=1e-8, max_iter=500).weights
        if space.objective(weights[None])[0] <= limit:
            return int(np.count_nonzero(supports.membership @ np.abs(weights)))
    return supports.n_groups


def by_size(supports: WeightSupports, limit: float) -> dict[str, int]:
    """Groups of the baselines that look at the sizes of weights."""
    row = {}
    if supports.space.is_convex:
        row = {"L1": l1_raw(supports, limit), "L1 refit": int(l1_path(supports, limit).sum())}
    else:
        row = {"magnitude": int(magnitude_pruning(supports, limit).sum())}
    return {**row, "backward": int(backward_elimination(supports, limit).sum())}


def by_abess(model: Any, X: np.ndarray, y: np.ndarray, supports: WeightSupports, limit: float) -> dict[str, int]:
    """The same of abess, an algorithm for best subsets of a given size."""
    if abess is None:
        return {}

    def select(k: int) -> np.ndarray:
        return np.ravel(getattr(abess, type(model).__name__)(support_size=[k]).fit(X, y).coef_) != 0.0

    return {"abess": fewest(select, supports, limit)}


def greedy_by_objective(supports: WeightSupports, limit: float) -> int:
    """Exact backward elimination: the group whose loss costs least goes, by inner fits of all of them."""
    support = everything(supports)
    while support.any():
        smaller = np.repeat(support[None], support.sum(), axis=0)
        smaller[np.arange(len(smaller)), np.flatnonzero(support)] = False
        values = supports.values(smaller, support)
        if values.min() > limit:
            break
        support = smaller[np.argmin(values)]
    return int(support.sum())


def swap_search(supports: WeightSupports, limit: float) -> int:
    """Local search by drops and swaps from the plain fit."""
    return int(descend(supports, everything(supports), limit, np.ones(supports.n_groups)).sum())


def fewest(select: Callable[[int], np.ndarray], supports: WeightSupports, limit: float) -> int:
    """The fewest features of a selector, as a function of their number, within the limit."""
    return next((k for k in range(1, supports.n_groups) if supports.value(select(k)) <= limit), supports.n_groups)


def show(label: str, row: dict[str, Any]) -> None:
    cells = [
        f"{name} {value:.1f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
        if name != "found"
    ]
    print(f"{label:<28}", "  ".join(cells), flush=True)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    expand = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), StandardScaler())
    return expand.fit_transform(X), y


def run_cancer(seeds: range) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    ranking = RFE(model, n_features_to_select=1).fit(X, y).ranking_
    scoring, chosen = "neg_log_loss", {}

    def forward(k: int) -> np.ndarray:
        if k not in chosen:
            selector = SequentialFeatureSelector(model, n_features_to_select=k, scoring=scoring, cv=3)
            chosen[k] = selector.fit(X, y).get_support()
        return chosen[k]

    for slack in (0.1, 0.3):
        supports = supports_of(model, X, y, tol=1e-8)
        limit = supports.value(everything(supports)) * (1.0 + slack)
        baselines = {
            **by_size(supports, limit),
            "RFE": fewest(lambda k: ranking <= k, supports, limit),
            "SequentialFeatureSelector": fewest(forward, supports, limit),
            "swaps": swap_search(supports, limit),
            **by_abess(model, X, y, supports, limit),
        }
        show(f"slack {slack:.0%} baselines", baselines)
        for seed in seeds:
            show(f"slack {slack:.0%} seed {seed}", search(model, X, y, slack, seed))


def run_accuracy(seeds: range) -> None:
    """Accuracy on held-out rows, five folds for each seed.

    The error is that of the mean of five folds: to divide the rows again adds no rows.
    """
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(max_iter=1000)
    several = {"lower_tol": [0.03, 0.1, 0.3, 1.0], "cv": 5}
    models = {
        "full model": model,
        "slack 10%": BilevelSearchCV(model, lower_tol=0.1, random_state=0),
        "slack 30%": BilevelSearchCV(model, lower_tol=0.3, random_state=0),
        "several, best": BilevelSearchCV(model, random_state=0, **several),
        "several, 1se": BilevelSearchCV(model, refit="1se", random_state=0, **several),
        "several, best log loss": BilevelSearchCV(model, scoring="neg_log_loss", random_state=0, **several),
        "several, 1se of log loss": BilevelSearchCV(
            model, refit="1se", scoring="neg_log_loss", random_state=0, **several
        ),
    }
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=len(seeds), random_state=seeds.start)
    for name, selected in models.items():
        results = cross_validate(
            make_pipeline(StandardScaler(), selected), X, y, cv=folds, scoring="accuracy", return_estimator=True
        )
        scores = results["test_score"].reshape(len(seeds), 5)
        error = np.sqrt(np.mean(scores.var(axis=1, ddof=1)) / 5)
        features = np.mean([np.count_nonzero(fitted[-1].coef_) for fitted in results["estimator"]])
        seconds = results["fit_time"].mean()
        print(f"{name:<28} {scores.mean():.4f} +- {error:.4f}  features {features:4.1f}  s {seconds:.1f}", flush=True)


def run_diabetes(seeds: range) -> None:
    X, y = diabetes()
    model = LinearRegression().fit(X, y)
    for slack in (0.01, 0.02, 0.05, 0.1):
        supports = supports_of(model, X, y, tol=1e-8)
        limit = supports.value(everything(supports)) * (1.0 + slack)
        baselines = {
            **by_size(supports, limit),
            "exact backward": greedy_by_objective(supports, limit),
            "swaps": swap_search(supports, limit),
            **by_abess(model, X, y, supports, limit),
        }
        show(f"slack {slack:.0%} baselines", baselines)
        for seed in seeds:
            show(f"slack {slack:.0%} seed {seed}", search(model, X, y, slack, seed))


def correlated(
    seed: int, n: int = 60, p: int = 200, correlation: float = 0.9, k: int = 6
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A design whose columns are an autoregressive process, and k of them with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    truth = rng.choice(p, k, replace=False)
    noise = 0.01 * rng.standard_normal(n)
    return X, X[:, truth] @ (rng.choice([-1, 1], k) * rng.uniform(1.0, 2.0, k)) + noise, np.isin(np.arange(p), truth)


def noiseless(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent columns, five of them in the target."""
    X, y, coef = make_regression(60, 200, n_informative=5, noise=0.0, coef=True, random_state=seed)
    return X, y, coef != 0.0


def run_recovery(seeds: range) -> None:
    """The supports of interpolating models; what "true" counts is whether they are those of the target."""
    for name, problem, atol in (("independent", noiseless, 1e-6), ("correlated", correlated, 1e-4)):
        for seed in seeds:
            X, y, truth = problem(seed)
            model = LinearRegression().fit(X, y)
            row = search(model, X, y, 0.0, seed, lower_atol=atol)
            supports = supports_of(model, X, y, tol=1e-8)
            limit = atol * supports.value(~everything(supports))
            lasso = LassoCV(max_iter=100_000).fit(X, y).coef_ != 0.0
            exact = {
                "true": bool(np.array_equal(row["found"].support_, truth)),
                **by_size(supports, limit),
                **by_abess(model, X, y, supports, limit),
                "LassoCV": int(lasso.sum()),
                "Lasso true": bool(np.array_equal(lasso, truth)),
            }
            show(f"{name} n=60 p=200 seed {seed}", {**row, **exact})


def run_digits(seeds: range) -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    model = LogisticRegression(max_iter=1000).fit(X, y)
    for group_by in ("feature", "weight"):
        for slack in (0.05, 0.1, 0.3):
            supports = supports_of(model, X, y, group_by)
            limit = supports.value(everything(supports)) * (1.0 + slack)
            show(f"{group_by} slack {slack:.0%} baselines", by_size(supports, limit))
            for seed in seeds:
                row = search(model, X, y, slack, seed, group_by=group_by, max_fits=200)
                show(f"{group_by} slack {slack:.0%} seed {seed}", row)


def run_mlp(seeds: range) -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    for group_by in ("unit", "weight"):
        for seed in seeds:
            model = MLPClassifier((16,), max_iter=200, random_state=seed).fit(X, y)
            supports = supports_of(model, X, y, group_by)
            limit = 1.05 * float(supports.space.objective(supports.start[None])[0])
            baselines = by_size(supports, limit)
            row = search(model, X, y, 0.05, seed, group_by=group_by)
            show(f"{group_by} slack 5% seed {seed}", {**row, **baselines})


def run_swarm(seeds: range) -> None:
    """The search against local searches from random supports, with as many inner fits."""
    X, y = diabetes()
    model = LinearRegression().fit(X, y)
    problems = [(f"diabetes {slack:.0%}", X, y, slack) for slack in (0.01, 0.02, 0.05)]
    for seed in seeds:
        X, y, _ = correlated(seed, n=300)
        problems.append((f"correlated n=300 p=200 #{seed}", X, y, 0.3))
    for name, X, y, slack in problems:
        model = LinearRegression().fit(X, y)
        ours, others, fits = [], [], []
        for seed in seeds:
            supports = supports_of(model, X, y)
            limit = supports.value(everything(supports)) * (1.0 + slack)
            costs, seeds_of_search = np.ones(X.shape[1]), seed_supports(supports, limit).values()
            found = search_supports(
                supports,
                lambda support: float(support.sum()),
                limit,
                seeds_of_search,
                costs=costs,
                rng=np.random.default_rng(seed),
            )
            ours.append(int(found.upper))
            fits.append(supports.n_fits)
            supports = supports_of(model, X, y)
            limit, rng = supports.value(everything(supports)) * (1.0 + slack), np.random.default_rng(seed)
            starts, best = list(seed_supports(supports, limit).values()), X.shape[1]
            while supports.n_fits < fits[-1]:
                start = starts.pop() if starts else rng.random(X.shape[1]) < rng.uniform(best / X.shape[1], 1.0)
                found = descend(supports, start, limit, costs)
                if supports.value(found) <= limit:
                    best = min(best, int(found.sum()))
            others.append(best)
        print(f"{name:<28} search {ours}  multistart {others}  fits {fits}", flush=True)


def main() -> None:
    runs = {
        "cancer": run_cancer,
        "accuracy": run_accuracy,
        "diabetes": run_diabetes,
        "recovery": run_recovery,
        "digits": run_digits,
        "mlp": run_mlp,
        "swarm": run_swarm,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", choices=runs)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    runs[arguments.problem](range(arguments.first_seed, arguments.first_seed + arguments.seeds))


if __name__ == "__main__":
    main()
