"""Run r of several equals the same run alone, to the bit; shortcuts of usual runs are what arrays give."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.optimize.many_runs import RankingOfRuns
from sklearn_scb2o.optimize.one_run import RankingOfOne
from sklearn_scb2o.optimize.ranking import Settings, rank, rank_on_arrays
from sklearn_scb2o.optimize.update import update_consensus
from sklearn_scb2o.particles import SELECTORS, soft_selection
from sklearn_scb2o.problems import circle, sphere, star

RUNS, STEPS = 5, 60
#: One dimension: the problems of the library have two or more.
LINE = SimpleNamespace(
    name="line",
    bounds=np.asarray([[-3.0, 3.0]]),
    lower=lambda x: (x[..., 0] ** 2 - 1.0) ** 2,
    upper=lambda x: (x[..., 0] - 2.0) ** 2,
)
CASES = [
    *[(problem, n, {}) for problem in (LINE, sphere(2), sphere(5), circle(), star()) for n in (7, 100, 300)],
    (circle(), 100, {"boundary": "periodic"}),
    (circle(), 100, {"boundary": "clip", "noise": "anisotropic", "selector": "gumbel"}),
    (circle(), 100, {"batch_size": 40, "alpha": 30.0}),
    (circle(), 600, {}),
    (circle(), 600, {"selector": "gumbel", "lower_tol": 0.01}),
    (sphere(600), 20, {}),
    (circle(), 100, {"dtype": "float32"}),
]


def trace(problem, n, options, seed, n_runs, fail=None):
    """Every population asked, (steps, R, n, d), and the result of some iterations."""
    optimizer = SCB2OOptimizer(problem.bounds, n_particles=n, n_runs=n_runs, random_state=seed, **options)
    asked = []
    for step in range(STEPS):
        x = optimizer.ask()
        lower, upper = problem.lower(x), problem.upper(x)
        if fail is not None:
            lower = fail(step, x, lower)
        optimizer.tell(lower, upper)
        asked.append(x if n_runs > 1 else x[None])
    return np.stack(asked), optimizer.result


def check_runs(problem, n, options, fail=None):
    asked, result = trace(problem, n, options, np.random.SeedSequence(11), RUNS, fail)
    for r, seed in enumerate(np.random.SeedSequence(11).spawn(RUNS)):
        asked_alone, alone = trace(problem, n, options, seed, 1, fail)
        np.testing.assert_array_equal(asked_alone[:, 0], asked[:, r])
        np.testing.assert_array_equal(alone.consensus.x, result.consensus.x[r])
        for name in ("x", "lower", "upper"):
            np.testing.assert_array_equal(alone.best[name], result.best[name][r])
        assert (alone.nfev_lower, alone.nfev_upper, alone.n_failed) == (
            result.nfev_lower[r], result.nfev_upper[r], result.n_failed[r],
        )  # fmt: skip
        for name, column in alone.history.items():
            np.testing.assert_array_equal(column, result.history[name][:, r], err_msg=name)


@pytest.mark.parametrize(
    ("problem", "n", "options"), CASES, ids=[f"{p.name}-{p.bounds.shape[0]}-{n}-{'-'.join(o)}" for p, n, o in CASES]
)
def test_runs_equal_single_runs(problem, n, options):
    check_runs(problem, n, options)


@pytest.mark.parametrize("selector", ["logistic", "gumbel"])
def test_the_history_of_several_runs_holds_nothing_of_the_size_of_the_population(selector):
    optimizer = SCB2OOptimizer([(-3, 3)] * 2, n_particles=100, n_runs=50, selector=selector, random_state=0)
    used = []
    tracemalloc.start()
    for _ in range(60):
        x = optimizer.ask()
        optimizer.tell(circle().lower(x), circle().upper(x))
        del x
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[-1] - used[30] < 10 * 8 * 50 * 100  # values of these iterations would be three times as much


def test_soft_selection_keeps_float32():
    L = np.random.default_rng(0).exponential(size=(5, 100)).astype(np.float32)
    selection = soft_selection(L, 0.1, 0.01)
    assert selection.quantile.dtype == selection.log_eta.dtype == np.float32


@pytest.mark.parametrize("n", [100, 600])
def test_runs_with_failures_equal_single_runs(n):
    # more failures in some runs than in others: fewer values count there
    check_runs(circle(), n, {}, fail=lambda step, x, lower: np.where(x[..., 0] > 0.6, np.nan, lower))


def values(kind, rng, n):
    if kind == "normal":
        return rng.normal(size=n)
    if kind == "heavy":
        return rng.standard_cauchy(size=n) ** 3
    if kind == "ties":
        return np.round(rng.normal(size=n), 1)
    if kind == "clusters":
        return rng.normal(size=n) * 1e-3 + rng.integers(0, 5, size=n)
    return 10.0 ** rng.uniform(-30, 30, size=n)


@pytest.mark.parametrize("kind", ["normal", "heavy", "ties", "clusters", "scales"])
@pytest.mark.parametrize("alpha", [None, 30.0])
@pytest.mark.parametrize("is_complete", [True, False], ids=["", "unknown where it is not needed"])
def test_floats_equal_arrays(kind, alpha, is_complete):
    rng, used = np.random.default_rng(5), 0
    for _ in range(200):
        n, d = int(rng.choice([7, 40, 100, 300])), int(rng.choice([1, 2, 5]))
        beta = float(rng.choice([0.02, 0.1, 0.3, 0.7]))
        L, G, y = values(kind, rng, n)[None], values(kind, rng, n)[None], rng.normal(size=(1, n, d))
        settings = Settings("soft", SELECTORS["logistic"], alpha, beta, None, None, 0.0, None, None)
        best = np.full((1, 1), np.inf)
        known = rank(L, settings, best, np)
        used += isinstance(known, RankingOfOne)
        on_arrays = rank_on_arrays(L, settings, best, np)
        np.testing.assert_array_equal(known.needed, on_arrays.needed)
        if not is_complete:
            G[~known.needed] = np.nan
        floats, arrays = (update_consensus(y, L, G, settings, best, np, r) for r in (known, on_arrays))
        for name in ("quantile", "tau", "alpha"):
            np.testing.assert_array_equal(
                np.ravel(getattr(floats, name)), np.ravel(getattr(arrays, name)), err_msg=name
            )
        for name in ("weights", "consensus"):  # offsets are as accurate as asked, not the same
            np.testing.assert_allclose(getattr(floats, name), getattr(arrays, name), rtol=1e-9, atol=1e-14)
    assert used > 20


def several(kind, n, rng):
    """Values (6, n) of which some are out of the ordinary."""
    rows = np.stack([values(one, rng, n) for one in ["normal", "heavy", "ties", "clusters", "scales", "normal"]])
    if kind == "failed":
        rows[[1, 4], :3] = np.nan
    if kind == "infinite":
        rows[2, 1], rows[5, 0] = np.inf, -np.inf
    if kind == "dead":
        rows[3] = np.nan
    if kind == "all failed":
        rows[:, 0] = np.nan
    return rows


KINDS = ("usual", "failed", "infinite", "dead", "all failed")


@pytest.mark.parametrize("alpha", [None, 30.0])
@pytest.mark.parametrize("of_upper", KINDS)
@pytest.mark.parametrize("of_lower", KINDS)
@pytest.mark.parametrize("n", [7, 100, 600])
def test_runs_of_any_kind_are_ranked_and_weighed_as_each_alone(n, of_lower, of_upper, alpha):
    rng = np.random.default_rng(8)
    for beta in (0.02, 0.1, 0.3, 0.7):
        settings = Settings("soft", SELECTORS["logistic"], alpha, beta, None, None, 0.0, None, None)
        L, G, y = several(of_lower, n, rng), several(of_upper, n, rng), rng.normal(size=(6, n, 2))
        best = np.full((6, 1), np.inf)
        joint = update_consensus(y, L, G, settings, best, np)
        needed = rank(L, settings, best, np).needed
        for r in range(6):
            own = slice(r, r + 1)
            alone = update_consensus(y[own], L[own], G[own], settings, best[own], np)
            np.testing.assert_array_equal(rank(L[own], settings, best[own], np).needed, needed[own])
            for name, none in (("dead", False), ("failed", False), ("evaluated_upper", True)):
                a, b = (none if v is None else v for v in (getattr(alone, name), getattr(joint, name)))
                np.testing.assert_array_equal(a, b if b is none else b[own], err_msg=name)
            if alone.dead is not None:
                continue
            for name in ("weights", "consensus", "quantile", "alpha", "tau"):
                a, b = getattr(alone, name), getattr(joint, name)
                np.testing.assert_array_equal(np.ravel(a), np.ravel(b[own] if np.ndim(b) else b), err_msg=name)


def test_usual_runs_are_weighed_side_by_side():
    rng = np.random.default_rng(9)
    settings = Settings("soft", SELECTORS["logistic"], None, 0.1, None, None, 0.0, None, None)
    assert isinstance(rank(rng.normal(size=(6, 100)), settings, np.full((6, 1), np.inf), np), RankingOfRuns)
