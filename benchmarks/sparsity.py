"""How sparse the models are that the search over supports finds, beside what else one would do.

Run: python benchmarks/sparsity.py {cancer,diabetes,recovery,digits,mlp,swarm} [--seeds K] [--first-seed S]

Each table counts the groups (features, weights, hidden units) of the sparsest model whose training objective is
within the slack of its minimum; of a perceptron, of its value at the plain fit. All baselines are judged by the same
inner fits. "fits" and "s" are those of the search, with its seeds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, scale

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import membership_of
from sklearn_scb2o.model_selection.local_search import descend
from sklearn_scb2o.model_selection.seeds import seed_supports
from sklearn_scb2o.model_selection.support_search import search_supports
from sklearn_scb2o.model_selection.supports import WeightSupports


def supports_of(
    estimator: Any, X: np.ndarray, y: np.ndarray, group_by: str = "feature", **options: Any
) -> WeightSupports:
    """Supports of a fitted estimator."""
    space = make_weight_space(estimator, X, y)
    return WeightSupports(space, membership_of(space, group_by, X.shape[1]), space.weights_of(estimator), **options)


def everything(supports: WeightSupports) -> np.ndarray:
    return np.ones(supports.n_groups, dtype=bool)


def search(supports: WeightSupports, limit: float, seed: int, **options: Any) -> dict[str, Any]:
    """Numbers of groups of the seeds and of the search, its inner fits and its time."""
    start, before = time.perf_counter(), supports.n_fits
    seeds = seed_supports(supports, limit)
    counts = {name: int(support.sum()) for name, support in seeds.items() if name != "plain"}
    found = search_supports(
        supports,
        lambda support: float(support.sum()),
        limit,
        seeds.values(),
        costs=np.ones(supports.n_groups),
        rng=np.random.default_rng(seed),
        **options,
    )
    seconds = time.perf_counter() - start
    return {
        **counts,
        "search": int(found.upper),
        "fits": supports.n_fits - before,
        "s": seconds,
        "found": found.support,
    }


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


def fewest(select: Any, supports: WeightSupports, limit: float) -> int:
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
        baselines = supports_of(model, X, y, tol=1e-8)
        limit = baselines.value(everything(baselines)) * (1.0 + slack)
        common = {
            "RFE": fewest(lambda k: ranking <= k, baselines, limit),
            "SequentialFeatureSelector": fewest(forward, baselines, limit),
            "swaps": swap_search(baselines, limit),
        }
        for seed in seeds:
            show(
                f"slack {slack:.0%} seed {seed}", {**search(supports_of(model, X, y, tol=1e-8), limit, seed), **common}
            )


def run_diabetes(seeds: range) -> None:
    X, y = diabetes()
    model = LinearRegression().fit(X, y)
    for slack in (0.01, 0.02, 0.05, 0.1):
        baselines = supports_of(model, X, y, tol=1e-8)
        limit = baselines.value(everything(baselines)) * (1.0 + slack)
        common = {"exact backward": greedy_by_objective(baselines, limit), "swaps": swap_search(baselines, limit)}
        for seed in seeds:
            show(
                f"slack {slack:.0%} seed {seed}", {**search(supports_of(model, X, y, tol=1e-8), limit, seed), **common}
            )


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


def run_recovery(seeds: range) -> None:
    for seed in seeds:
        X, y, truth = correlated(seed)
        supports = supports_of(LinearRegression().fit(X, y), X, y, tol=1e-8)
        limit = 1e-4 * supports.value(~everything(supports))
        row = search(supports, limit, seed)
        lasso = LassoCV(max_iter=100_000).fit(X, y).coef_ != 0.0
        exact = {
            "true": bool(np.array_equal(row["found"], truth)),
            "LassoCV": int(lasso.sum()),
            "Lasso true": bool(np.array_equal(lasso, truth)),
        }
        show(f"n=60 p=200 seed {seed}", {**row, **exact})


def run_digits(seeds: range) -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    model = LogisticRegression(max_iter=1000).fit(X, y)
    for group_by in ("feature", "weight"):
        for slack in (0.05, 0.1, 0.3):
            for seed in seeds:
                supports = supports_of(model, X, y, group_by)
                limit = supports.value(everything(supports)) * (1.0 + slack)
                show(f"{group_by} slack {slack:.0%} seed {seed}", search(supports, limit, seed, max_fits=200))


def run_mlp(seeds: range) -> None:
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    for group_by in ("unit", "weight"):
        for seed in seeds:
            model = MLPClassifier((16,), max_iter=100, random_state=seed).fit(X, y)
            supports = supports_of(model, X, y, group_by)
            limit = 1.05 * float(supports.space.objective(supports.start[None])[0])
            show(f"{group_by} slack 5% seed {seed}", search(supports, limit, seed, max_fits=60))


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
            row = search(supports, limit, seed)
            ours.append(row["search"])
            fits.append(row["fits"])
            supports = supports_of(model, X, y)
            limit, costs, rng = (
                supports.value(everything(supports)) * (1.0 + slack),
                np.ones(X.shape[1]),
                np.random.default_rng(seed),
            )
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
