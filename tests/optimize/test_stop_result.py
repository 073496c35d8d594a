import time
import tracemalloc

import numpy as np
import pytest
from optimize_cases import BOX, advance, same, values
from scipy.optimize import OptimizeResult

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.problems import circle


def run(opt, most=5000):
    """Go on until the optimizer stops; its reasons."""
    while not opt.stop():
        assert opt.n_iter < most
        advance(opt, 1)
    return opt.stop()


def test_new_optimizer_has_no_reason_to_stop(make):
    assert make().stop() == {}


@pytest.mark.parametrize("max_iter", [0, 1, 7])
def test_max_iter(make, max_iter):
    opt = make(max_iter=max_iter)
    reasons = run(opt)
    assert list(reasons) == ["max_iter"]
    assert f"max_iter={max_iter}" in reasons["max_iter"]
    assert opt.n_iter == opt.result.nit == max_iter
    assert not opt.result.success


@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"n_runs": 2}])
@pytest.mark.parametrize("max_evals", [0, 19, 20, 39, 40, 101])
def test_max_evals_is_never_exceeded(make, max_evals, options):
    opt = make(max_evals=max_evals, **options)
    reasons = run(opt)
    assert list(reasons) == ["max_evals"]
    assert f"max_evals={max_evals}" in reasons["max_evals"]
    batch = options.get("batch_size", 20)
    np.testing.assert_array_equal(opt.result.nfev_lower, max_evals // batch * batch)
    assert not opt.result.success


def test_max_time(make):
    opt = make(max_time=0.05)
    begin = time.monotonic()
    reasons = run(opt)
    assert list(reasons) == ["max_time"]
    assert "max_time=0.05" in reasons["max_time"]
    assert time.monotonic() - begin >= 0.05
    assert not opt.result.success


def test_time_starts_with_the_first_ask(make):
    opt = make(max_time=1000.0)
    assert opt.elapsed == 0
    opt.ask()
    assert opt.elapsed > 0


def test_time_spent_before_a_restart_counts(make):
    opt = make()
    advance(opt, 1)
    time.sleep(0.02)
    again = make()
    again.load_state_dict(opt.state_dict())
    assert again.elapsed >= 0.02


def test_spread(make):
    opt = make(tol=1e-2)
    first = opt.ask().std(axis=0).mean()
    reasons = run(opt)
    assert list(reasons) == ["spread"]
    assert "tol=0.01" in reasons["spread"]
    assert opt.result.population.x.std(axis=0).mean() <= 1.01e-2 * first
    assert opt.result.success
    assert opt.result.message == reasons["spread"]


def test_spread_of_several_runs_waits_for_the_last(make):
    opt = make(tol=1e-2, n_runs=4)
    first = opt.ask().std(axis=1).mean(axis=1)
    run(opt)
    assert np.all(opt.result.population.x.std(axis=1).mean(axis=1) <= 1.01e-2 * first)


def test_spread_without_tolerance_does_not_stop(make):
    opt = make(tol=0.0)
    advance(opt, 300)
    assert opt.stop() == {}


def test_stagnation(make):
    # without selection and with equal values the consensus is the mean, which noise of size 0 does not move
    opt = make(stagnation=5, tol=1e-6, sigma=0.0, lam=1e-3)
    while not opt.stop():
        advance(opt, 1, lambda X: (np.zeros(20), np.zeros(20)))
        assert opt.n_iter <= 7
    assert list(opt.stop()) == ["stagnation"]
    assert "5 iterations" in opt.stop()["stagnation"]
    assert opt.result.success


def test_moving_consensus_does_not_stagnate(make):
    opt = make(stagnation=5, tol=1e-9)
    advance(opt, 50)
    assert opt.stop() == {}


def test_several_reasons_hold_together(make):
    opt = make(max_iter=2, max_evals=40)
    assert set(run(opt)) == {"max_iter", "max_evals"}
    for reason in opt.stop().values():
        assert reason in opt.result.message


def test_status_tells_the_reasons_apart(make):
    statuses = {"none": make().result.status}
    for name, options in {
        "max_iter": {"max_iter": 1},
        "max_evals": {"max_evals": 20},
        "max_time": {"max_time": 0.0},
        "spread": {"tol": 0.5},
    }.items():
        opt = make(**options)
        run(opt)
        statuses[name] = opt.result.status
    assert len(set(statuses.values())) == len(statuses)


def test_limits_do_not_refuse_to_go_on(make):
    opt = make(max_iter=1)
    advance(opt, 3)
    assert opt.n_iter == 3


def test_result_before_the_first_tell(make):
    opt = make()
    for _ in range(2):
        result = opt.result
        assert isinstance(result, OptimizeResult)
        assert result.x is None
        assert np.isnan([result.fun, result.lower_fun]).all()
        assert (result.nit, result.nfev, result.nfev_lower, result.nfev_upper, result.n_failed) == (0, 0, 0, 0, 0)
        assert not result.success
        assert "told" in result.message
        opt.ask()


def test_result_has_the_documented_fields(make):
    opt = make()
    advance(opt, 3)
    result = opt.result
    assert set(result) == {
        "x", "fun", "lower_fun", "consensus", "best", "population", "nit", "nfev", "nfev_lower", "nfev_upper",
        "n_failed", "success", "status", "message", "history",
    }  # fmt: skip
    assert result.x.shape == (2,)
    for name in ("nit", "nfev", "nfev_lower", "nfev_upper", "n_failed", "status"):
        assert type(result[name]) is int
    assert type(result.success) is bool
    assert isinstance(result.fun, float)
    assert isinstance(result.lower_fun, float)


def test_result_of_several_runs_leads_with_them(make):
    opt = make(n_runs=3)
    advance(opt, 2)
    result = opt.result
    assert result.x.shape == result.consensus.x.shape == result.best.x.shape == (3, 2)
    assert result.fun.shape == result.best.lower.shape == result.nfev_lower.shape == result.n_failed.shape == (3,)
    assert result.population.x.shape == (3, 20, 2)
    assert result.population.lower.shape == (3, 20)
    assert result.history["spread"].shape == (2, 3)


def test_x_is_the_consensus_while_its_values_are_unknown(make):
    opt = make()
    advance(opt, 4)
    result = opt.result
    assert same([result.x, result.consensus.x], [opt.consensus, opt.consensus])
    assert np.isnan([result.fun, result.lower_fun, result.consensus.lower, result.consensus.upper]).all()


def test_told_consensus_is_in_result_and_history(make):
    opt = make()
    advance(opt, 4)
    opt.tell_consensus(0.0, -1e9)  # nothing dominates that
    result = opt.result
    assert same([result.x], [opt.consensus])
    assert (result.lower_fun, result.fun) == (0.0, -1e9)
    assert (result.consensus.lower, result.consensus.upper) == (0.0, -1e9)
    assert (result.history["lower"][-1], result.history["upper"][-1]) == (0.0, -1e9)
    assert np.isnan(result.history["lower"][:-1]).all()


def test_x_is_the_best_particle_where_it_is_as_good_in_both(make):
    opt = make()
    advance(opt, 4)
    best = opt.result.best
    opt.tell_consensus(best.lower, best.upper + 1.0)
    assert same([opt.result.x], [best.x])
    assert (opt.result.lower_fun, opt.result.fun) == (best.lower, best.upper)


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 1.0), (1.0, -1.0), (-1e-9, 0.0), (0.0, -1e-9)])
def test_x_is_the_consensus_where_it_is_better_in_one(make, lower, upper):
    opt = make()
    advance(opt, 4)
    best = opt.result.best
    opt.tell_consensus(best.lower + lower, best.upper + upper)
    assert same([opt.result.x], [opt.consensus])


@pytest.mark.parametrize("told", [(None, None), (np.nan, 0.0), (0.0, np.nan)])
def test_failed_evaluation_of_the_consensus_keeps_it(make, told):
    opt = make()
    advance(opt, 4)
    opt.tell_consensus(*told)
    assert same([opt.result.x], [opt.consensus])


def test_values_of_the_consensus_do_not_outlive_it(make):
    opt = make()
    advance(opt, 1)
    opt.tell_consensus(0.0, -1e9)
    advance(opt, 1)
    assert np.isnan(opt.result.fun)


def test_told_consensus_does_not_change_the_run(make):
    opt, other = make(), make()
    for _ in range(4):
        assert same(advance(opt, 1), advance(other, 1))
        opt.tell_consensus(1.0, 2.0)


@pytest.mark.parametrize("told", [np.zeros(2), np.zeros((1, 1)), [1.0, 2.0, 3.0]])
def test_told_consensus_of_a_wrong_shape_is_refused(make, told):
    opt = make()
    advance(opt, 1)
    with pytest.raises(ValueError, match="consensus has shape"):
        opt.tell_consensus(told, 0.0)
    assert np.isnan(opt.result.lower_fun)


def test_told_consensus_of_several_runs(make):
    opt = make(n_runs=3)
    advance(opt, 1)
    opt.tell_consensus([1.0, 2.0, 3.0], np.asarray([-1e9, -2e9, -3e9]))
    np.testing.assert_array_equal(opt.result.lower_fun, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(opt.result.fun, [-1e9, -2e9, -3e9])


def test_best_is_an_evaluated_particle_with_its_values(make):
    opt = make()
    X = np.concatenate(advance(opt, 10))
    best = opt.result.best
    assert best.x.tolist() in X.tolist()
    np.testing.assert_allclose([best.lower, best.upper], values(best.x), rtol=1e-12)


def test_best_is_selected_by_lower_and_then_upper(make):
    opt = make(selection="hard", beta=0.5)
    X = opt.ask()
    L, G = values(X)
    opt.tell(L, G)
    chosen = np.sort(L)[9] >= L
    assert opt.result.best.upper == G[chosen].min()


def test_population_is_the_last_batch_with_its_values(make):
    opt = make()
    X = advance(opt, 3)[-1]
    population = opt.result.population
    assert same([population.x, population.lower, population.upper], [X, *values(X)])


def test_history_has_a_row_per_iteration(make):
    opt = make()
    batches = advance(opt, 40)
    history = opt.result.history
    assert {"lower", "upper", "distance", "spread", "ess", "alpha", "tau", "quantile", "n_failed"} == set(history)
    assert all(column.shape == (40,) for column in history.values())
    np.testing.assert_allclose(history["spread"], [X.std(axis=0).mean() for X in batches], rtol=1e-6)
    np.testing.assert_allclose(history["quantile"], [np.sort(values(X)[0])[1] for X in batches], rtol=1e-12)
    assert np.all((history["ess"] >= 1 - 1e-12) & (history["ess"] <= 20))
    assert np.all(history["alpha"] > 0)
    assert np.all(history["tau"] > 0)
    assert np.isnan(history["distance"]).all()


def test_history_records_the_distance_to_a_known_solution():
    problem = circle()
    opt = SCB2OOptimizer(problem.bounds, x_opt=problem.x_opt, random_state=0)
    distances = []
    for _ in range(5):
        X = opt.ask()
        opt.tell(problem.lower(X), problem.upper(X))
        distances.append(problem.distance(opt.consensus))
    np.testing.assert_allclose(opt.result.history["distance"], distances, rtol=1e-12)


def test_history_is_in_the_attribute_by_columns(make):
    opt = make()
    advance(opt, 3)
    assert same(list(opt.history.columns().values()), list(opt.result.history.values()))


def test_intermediate_result_leaves_out_the_history(make):
    opt = make()
    advance(opt, 3)
    light, full = opt.intermediate_result(), opt.result
    assert light.history is None
    assert same([light.x, light.nit], [full.x, full.nit])


@pytest.mark.slow
def test_memory_stays_flat_over_2000_iterations():
    opt = SCB2OOptimizer(BOX * 5, n_particles=20, random_state=0, tol=0.0)
    advance(opt, 20)
    tracemalloc.start()
    advance_quietly(opt, 1980)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 9 numbers of 8 bytes per iteration, at most twice that with room to grow; positions would take 3 MB
    assert kept < 2 * 9 * 8 * 2048 + 100_000
    assert opt.result.history["spread"].nbytes == 2000 * 8


def advance_quietly(opt, n):
    for _ in range(n):
        opt.tell(*values(opt.ask()))


def test_bounds_of_the_optimizer_are_those_given(make):
    bounds = make([(0.1, 1 / 3), (None, 7)]).bounds
    np.testing.assert_array_equal(bounds.lb, [0.1, -np.inf])
    np.testing.assert_array_equal(bounds.ub, [1 / 3, 7])
