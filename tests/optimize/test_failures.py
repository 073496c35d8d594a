import warnings

import numpy as np
import pytest
from optimize_cases import BOX, advance, same, values

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning

SELECTIONS = ["soft", "hard", "none"]


def nans(X):
    return tuple(np.full(np.shape(X)[:-1], np.nan) for _ in range(2))


def assert_inside(*arrays, box=BOX):
    low, high = np.transpose(box)
    for x in arrays:
        assert np.all((x >= low) & (x <= high))


@pytest.mark.parametrize("failure", [np.nan, np.inf])
@pytest.mark.parametrize("n_runs", [1, 2])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_one_failed_lower_value_among_100_has_no_weight(make_each, failure, n_runs, selection):
    opt = make_each(n_particles=100, selection=selection, n_runs=n_runs)
    for _ in range(5):
        L, G = values(opt.ask())
        L[..., 17], G[..., 17] = failure, -1e6  # the best of all, had it not failed
        opt.tell(L, G)
    assert np.max(opt.result.best.upper) < 1e3
    assert np.min(opt.result.best.upper) > -1.0
    assert_inside(opt.ask(), opt.consensus)
    np.testing.assert_array_equal(opt.result.n_failed, 5)


@pytest.mark.parametrize("n_runs", [1, 2])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_one_failed_upper_value_that_is_needed_has_no_weight(make_each, n_runs, selection):
    opt = make_each(n_particles=100, selection=selection, n_runs=n_runs)
    for _ in range(5):
        X = opt.ask()
        L, G = values(X)
        L[..., 17], G[..., 17] = 0.0, np.nan
        opt.tell(L, G)
        assert np.isfinite(opt.result.best.upper).all()
        assert not np.any(np.all(np.reshape(opt.result.best.x, (-1, 1, 2)) == X[..., 17, :].reshape(-1, 1, 2), axis=-1))
    assert_inside(opt.ask(), opt.consensus)
    np.testing.assert_array_equal(opt.result.n_failed, 5)


def test_the_other_99_decide(make_each):
    # the failed particle sits far from all others, which are one point
    x0 = np.tile([1.0, -2.0], (100, 1))
    x0[40] = -3.0, 3.0
    for which in range(2):
        opt = make_each(n_particles=100, x0=x0)
        told = values(opt.ask())
        told[which][40] = np.nan
        if which:
            told[0][40] = 0.0
        opt.tell(*told)
        np.testing.assert_allclose(opt.consensus, [1.0, -2.0], rtol=1e-14)


def test_particle_whose_evaluation_failed_moves_on(make_each):
    opt = make_each()
    X = opt.ask()
    L, G = values(X)
    L[4] = np.nan
    opt.tell(L, G)
    moved = opt.ask()[4]
    assert np.all(moved != X[4])
    assert_inside(moved)


@pytest.mark.parametrize("n_runs", [1, 3])
def test_half_of_the_box_fails(make, n_runs):
    def f(X):
        L, G = values(X)
        return np.where(X[..., 0] < 0, np.nan, L), G

    opt = make(n_particles=50, n_runs=n_runs)
    failed = 0
    for _ in range(150):
        X = opt.ask()
        failed += (X[..., 0] < 0).sum(axis=-1)
        opt.tell(*f(X))
    result = opt.result
    np.testing.assert_array_equal(result.n_failed, failed)
    assert np.all(failed > 20)
    np.testing.assert_array_equal(result.history["n_failed"].sum(axis=0), failed)
    np.testing.assert_allclose(opt.consensus, np.broadcast_to([2 / 5**0.5, 1 / 5**0.5], opt.consensus.shape), atol=0.1)


@pytest.mark.parametrize("n_runs", [1, 2])
def test_failed_first_batch_gives_fresh_points(make, n_runs):
    opt = make(n_runs=n_runs)
    X = opt.ask()
    with pytest.warns(SCB2OWarning, match="20 evaluations.*fresh") as caught:
        opt.tell(*nans(X))
    assert len(caught) == 1
    fresh = opt.ask()
    assert_inside(fresh)
    assert not np.isin(fresh, X).any()
    assert np.all(fresh.std(axis=-2) > 1.0)
    opt.tell(*values(fresh))
    assert np.isfinite(opt.consensus).all()
    np.testing.assert_array_equal(opt.result.n_failed, 20)


def test_failed_later_batch_keeps_the_consensus(make):
    opt = make()
    advance(opt, 2)
    before, best = opt.consensus, opt.result.best
    X = opt.ask()
    with pytest.warns(SCB2OWarning, match="20 evaluations of iteration 3.*consensus is kept") as caught:
        opt.tell(*nans(X))
    assert len(caught) == 1
    assert same([opt.consensus], [before])
    assert same([opt.result.best.x, opt.result.best.upper], [best.x, best.upper])
    moved = opt.ask()
    assert np.all(moved != X)
    assert_inside(moved)
    opt.tell(*values(moved))
    assert not np.array_equal(opt.consensus, before)


def test_needed_upper_values_that_all_fail_keep_the_consensus(make):
    opt = make()
    advance(opt, 1)
    before = opt.consensus
    L, _ = values(opt.ask())
    with pytest.warns(SCB2OWarning, match="consensus is kept"):
        opt.tell(L, np.full(20, np.nan))
    assert same([opt.consensus], [before])


def test_failed_run_does_not_disturb_the_others(make):
    opt, other = make(n_runs=3), make(n_runs=3)
    advance(opt, 2)
    advance(other, 2)
    before = opt.consensus
    L, G = values(opt.ask())
    L[1] = np.nan
    with pytest.warns(SCB2OWarning, match="1 of 3 runs"):
        opt.tell(L, G)
    advance(other, 1)
    assert same([opt.consensus[1]], [before[1]])
    np.testing.assert_allclose(opt.consensus[[0, 2]], other.consensus[[0, 2]], rtol=1e-9)
    np.testing.assert_array_equal(opt.result.n_failed, [0, 20, 0])


def test_run_that_failed_at_first_starts_afresh_while_others_go_on(make):
    opt = make(n_runs=2)
    X = opt.ask()
    L, G = values(X)
    L[0] = np.nan
    with pytest.warns(SCB2OWarning, match="1 of 2 runs"):
        opt.tell(L, G)
    assert np.isnan(opt.result.x[0]).all()
    assert np.isfinite(opt.result.x[1]).all()
    Y = opt.ask()
    assert not np.isin(Y[0], X[0]).any()
    opt.tell(*values(Y))
    assert np.isfinite(opt.consensus).all()


def test_result_after_a_failed_first_batch_knows_no_point(make):
    opt = make()
    with pytest.warns(SCB2OWarning):
        advance(opt, 1, nans)
    assert np.isnan(opt.result.x).all()
    assert not opt.result.success


def test_warning_comes_once_per_run_of_the_loop(make):
    opt = make()
    with pytest.warns(SCB2OWarning) as caught:
        advance(opt, 5, nans)
    assert len(caught) == 1


def test_every_batch_failing_is_an_error(make):
    opt = make(max_failed_batches=4)
    with pytest.warns(SCB2OWarning):
        advance(opt, 3, nans)
    opt.ask()
    with pytest.raises(RuntimeError, match=r"4 batches in a row.*max_failed_batches=4"):
        opt.tell(*nans(np.empty((20, 2))))


def test_failed_batches_are_counted_in_a_row(make):
    opt = make(max_failed_batches=3)
    with pytest.warns(SCB2OWarning):
        advance(opt, 2, nans)
    for _ in range(3):
        advance(opt, 1)
        advance(opt, 2, nans)  # the warning came already
    assert opt.result.n_failed == 160


def test_one_run_alive_is_no_error(make):
    def f(X):
        L, G = values(X)
        L[0] = np.nan
        return L, G

    opt = make(n_runs=2, max_failed_batches=2)
    with pytest.warns(SCB2OWarning):
        advance(opt, 6, f)
    np.testing.assert_array_equal(opt.result.n_failed, [120, 0])


def check_extreme_value(opt, which, value):
    advance(opt, 1)
    for _ in range(5):
        told = values(opt.ask())
        told["LG".index(which)][..., 3] = value
        opt.tell(*told)
        assert_inside(opt.consensus)
    assert_inside(opt.ask())
    np.testing.assert_array_equal(opt.result.n_failed, 0)


each_extreme_value = pytest.mark.parametrize(
    ("which", "value"),
    [("L", -np.inf), ("L", -1e300), ("L", 1e300), ("G", np.inf), ("G", 1e300), ("G", -1e300), ("G", -np.inf)],
)


@pytest.mark.parametrize("options", [{}, {"alpha": 1e6}, {"alpha": 1e6, "xi": 1e3, "n_runs": 2}, {"lower_tol": 1.0}])
@pytest.mark.parametrize("selection", SELECTIONS)
@each_extreme_value
def test_extreme_value_is_data(make, which, value, options, selection):
    check_extreme_value(make(selection=selection, **options), which, value)


@each_extreme_value
def test_extreme_value_is_data_on_each_library(make_each, which, value):
    check_extreme_value(make_each(), which, value)


@pytest.mark.parametrize("alpha", ["auto", 1e6])
@pytest.mark.parametrize("factor", [1e300, -1e300, 1e-300, 1e305])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_values_around_the_ends_of_the_float_range(make, alpha, factor, selection):
    opt = make(alpha=alpha, selection=selection)
    advance(opt, 20, lambda X: tuple(v * factor for v in values(X)))
    assert_inside(opt.ask(), opt.consensus)


def test_infinite_upper_value_is_as_bad_as_can_be(make_each):
    opt = make_each(selection="none", alpha=1.0)
    X = opt.ask()
    G = np.full(20, np.inf)
    G[6] = 1e300
    opt.tell(None, G)
    np.testing.assert_allclose(opt.consensus, X[6], rtol=1e-14)


def test_lower_value_of_minus_infinity_is_the_minimiser(make_each):
    opt = make_each(beta=0.05)
    X = opt.ask()
    told = values(X)
    told[0][6] = -np.inf
    opt.tell(*told)
    np.testing.assert_allclose(opt.consensus, X[6], atol=0.05)


@pytest.mark.parametrize("options", [{}, {"tau": 0.1}, {"xi": 10.0}, {"alpha": 30.0}])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("value", [0.0, -7.25, 1e300])
def test_all_values_equal_give_the_mean(make_each, options, selection, beta, value):
    opt = make_each(selection=selection, beta=beta, **options)
    X = opt.ask()
    opt.tell(np.full(20, value), np.full(20, value))
    np.testing.assert_allclose(opt.consensus, X.mean(axis=0), rtol=1e-12)
    assert opt.result.history["ess"][-1] == pytest.approx(20)


def test_all_lower_values_equal_leave_the_choice_to_upper(make):
    opt = make(n_particles=50)
    advance(opt, 150, lambda X: (np.ones(50), values(X)[1]))
    np.testing.assert_allclose(opt.consensus, [2.0, 1.0], atol=0.01)


def test_all_upper_values_equal_leave_the_choice_to_lower(make):
    opt = make(n_particles=50)
    advance(opt, 150, lambda X: (np.sum((X - [0.5, -1.0]) ** 2, axis=1), np.ones(50)))
    np.testing.assert_allclose(opt.consensus, [0.5, -1.0], atol=0.01)


def test_ties_at_the_minimum_are_all_in_and_upper_decides(make):
    # the feasible set is a disc: many particles tie, more than beta N
    opt = make(n_particles=100, beta=0.05)
    X = opt.ask()
    L = np.maximum(np.sum(X**2, axis=1) - 4.0, 0.0)
    tied = L == 0
    assert tied.sum() > 20
    assert opt.needs_upper(L)[tied].all()
    advance(opt, 150, lambda X: (np.maximum(np.sum(X**2, axis=1) - 4.0, 0.0), np.sum((X - [0.5, 0.5]) ** 2, axis=1)))
    np.testing.assert_allclose(opt.consensus, [0.5, 0.5], atol=0.01)


def test_counts_without_failures(make_each):
    opt = make_each(n_particles=30)
    advance(opt, 3)
    result = opt.result
    assert (result.nfev_lower, result.nfev_upper, result.nfev, result.n_failed, result.nit) == (90, 90, 90, 0, 3)


def test_upper_evaluations_count_where_they_are_known_or_were_needed(make_each):
    opt = make_each(n_particles=30)
    L, G = values(opt.ask())
    needed = opt.needs_upper(L)
    known = needed.copy()
    known[np.flatnonzero(~needed)[:2]] = True
    opt.tell(L, np.where(known, G, np.nan))
    assert opt.result.nfev_lower == 30
    assert opt.result.nfev_upper == needed.sum() + 2


def test_nothing_warns_in_a_plain_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"dtype": "float32"}, {"n_runs": 2}):
            advance(SCB2OOptimizer(BOX, n_particles=10, random_state=1, **options), 300)
