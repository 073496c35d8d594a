"""NestedOptimizer: the loop of two levels."""

import copy
import pickle

import numpy as np
import pytest
from nested_cases import CIRCLE, assert_same_result, make, small, solve, step
from optimize_cases import same
from scipy.optimize import Bounds

from sklearn_scb2o import NestedOptimizer


def test_shapes_of_both_levels():
    opt = NestedOptimizer([(0, 1)] * 2, [(0, 1)] * 3, n_outer=7, n_inner=11, random_state=0)
    phi, theta = opt.ask()
    assert phi.shape == (7, 2)
    assert theta.shape == (7, 11, 3)


def test_asking_twice_returns_the_same_pairs():
    opt = make()
    for _ in range(6):
        asked, again = opt.ask(), opt.ask()
        assert same(asked, again)
        step(opt)


def test_pairs_asked_are_the_callers_own():
    opt, other = make(), make()
    for _ in range(8):
        phi, theta = opt.ask()
        values = CIRCLE.lower(phi[:, None], theta), CIRCLE.upper(phi[:, None], theta)
        phi[...], theta[...] = np.nan, np.nan
        opt.tell(*values)
        step(other)
    assert_same_result(opt.result, other.result)


def test_outer_points_stay_until_their_inner_problems_are_solved():
    opt = make()
    asked = [step(opt)[0] for _ in range(4 + 3 + 3)]
    for start, end in ((0, 4), (4, 7), (7, 10)):
        assert all(same([asked[start]], [phi]) for phi in asked[start:end])
    assert not same([asked[0]], [asked[4]])
    assert opt.n_iter == 3


def test_last_outer_point_is_the_consensus_of_the_iteration_before():
    opt = make()
    for _ in range(4):
        step(opt)
    consensus = opt.consensus
    np.testing.assert_array_equal(opt.ask()[0][-1], consensus)


def test_last_inner_batch_has_the_consensus_points():
    opt = make()
    for _ in range(3):
        step(opt)
    inner = np.asarray(opt._inner.consensus)
    theta = opt.ask()[1]
    assert (theta == inner[:, None, :]).all(axis=-1).any(axis=1).all()


def test_every_pair_asked_lies_inside_the_bounds():
    opt = NestedOptimizer([(0.1, 0.3), (-1, None)], Bounds([-0.7, 5.0], [0.1, 5.0]), n_outer=5, random_state=0)
    for _ in range(80):
        phi, theta = opt.ask()
        assert ((phi[:, 0] >= 0.1) & (phi[:, 0] <= 0.3) & (phi[:, 1] >= -1)).all()
        assert ((theta[..., 0] >= -0.7) & (theta[..., 0] <= 0.1) & (theta[..., 1] == 5.0)).all()
        opt.tell((theta[..., 0] - phi[:, :1]) ** 2, -phi[:, :1] * theta[..., 1])


def test_start_points_replace_bounds():
    distances = []
    for seed in range(5):
        opt = NestedOptimizer(
            None, None, outer_options={"x0": [1.0]}, inner_options={"x0": [1.0, 1.0]}, max_iter=60, random_state=seed
        )
        while not opt.stop():
            step(opt)
        distances.append(CIRCLE.distance(np.abs(opt.result.x_outer), opt.result.x_inner))
    assert np.median(distances) < 0.1


def test_upper_values_that_are_not_needed_do_not_matter():
    opt, other = make(), make()
    for _ in range(12):
        step(opt)
        phi, theta = other.ask()
        L, G = CIRCLE.lower(phi[:, None], theta), CIRCLE.upper(phi[:, None], theta)
        needed = other.needs_upper(L)
        assert needed.any(axis=1).all()
        other.tell(L, np.where(needed, G, np.nan))
    assert_same_result(opt.result, other.result)


@pytest.mark.parametrize("method", ["tell", "needs_upper"])
def test_nothing_can_be_told_before_it_is_asked(method):
    opt = make()
    arguments = (np.zeros((5, 8)),) * (2 if method == "tell" else 1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=method):
            getattr(opt, method)(*arguments)
        step(opt)


def test_refused_values_leave_the_optimizer_as_it_was():
    opt, other = make(), make()
    for _ in range(8):
        opt.ask()
        with pytest.raises(ValueError, match=r"\(5, 7\), expected \(5, 8\)"):
            opt.tell(np.zeros((5, 8)), np.zeros((5, 7)))
        with pytest.raises(ValueError, match="real numbers"):
            opt.tell([["a"] * 8] * 5, np.zeros((5, 8)))
        step(opt)
        step(other)
    assert_same_result(opt.result, other.result)


@pytest.mark.parametrize("duplicate", [lambda opt: pickle.loads(pickle.dumps(opt)), copy.deepcopy])
@pytest.mark.parametrize("pending", [False, True])
def test_copied_optimizer_goes_on_bit_for_bit(duplicate, pending):
    opt = make()
    for n in range(12):
        if pending:
            opt.ask()
        other = duplicate(opt)
        assert same(opt.ask(), other.ask())
        step(opt)
        step(other)
        if n % 2:
            opt = other
    assert same(opt.ask(), other.ask())
    assert_same_result(opt.result, other.result)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_sizes_follow_the_inner_dimension(d):
    opt = NestedOptimizer([(0, 1)], [(0, 1)] * d, random_state=0)
    assert (opt.n_inner, opt.first_iter, opt.inner_iter) == (8 + 2 * d, 10 + 2 * d, 3 + d // 2)
    given = NestedOptimizer([(0, 1)], [(0, 1)] * d, n_inner=9, first_iter=5, inner_iter=2)
    assert (given.n_inner, given.first_iter, given.inner_iter) == (9, 5, 2)


@pytest.mark.parametrize(("factor", "shift"), [(2.0**40, 0.0), (2.0**-40, 0.0), (1.0, 2.0**-4)])
def test_units_of_the_objectives_do_not_matter(factor, shift):
    opt, other = make(), make()
    for _ in range(10):
        step(opt)
        phi, theta = other.ask()
        L, G = CIRCLE.lower(phi[:, None], theta), CIRCLE.upper(phi[:, None], theta)
        other.tell(factor * L + shift, factor * G + shift)
    np.testing.assert_allclose(other.result.x_outer, opt.result.x_outer, rtol=1e-6)
    np.testing.assert_allclose(other.result.x_inner, opt.result.x_inner, rtol=1e-6)


def test_inner_solution_of_a_quadratic_lower_level_is_exact():
    opt = NestedOptimizer([(0, 1)], [(-2, 2)] * 2, random_state=0)
    while opt.n_iter < 1:
        phi, theta = opt.ask()
        L = np.sum((theta - np.stack([phi, -phi], axis=-1)) ** 2 * [1.0, 3.0], axis=-1)
        opt.tell(L, np.sum(theta, axis=-1))
    found = opt.result.population
    np.testing.assert_allclose(found.x_inner, found.x_outer * [1.0, -1.0], atol=1e-6)


def test_points_moved_by_the_model_stay_within_the_tolerance():
    # within lower_tol the upper objective decides, not the least L
    opt = make(inner_options={"lower_tol": 1e3})
    while opt.n_iter < 3:
        step(opt)
    assert opt.result.lower_fun > 1e-6


def test_result_before_the_first_outer_iteration_is_done_has_no_solution():
    opt = make()
    step(opt)
    result = opt.result
    assert result.x_outer is result.x_inner is None
    assert result.nit == 0
    assert result.nfev_lower == 40


def test_history_has_a_row_for_each_outer_iteration():
    result = small()
    assert {name: column.shape for name, column in result.history.items()} == {
        "x_outer": (3, 1), "x_inner": (3, 2), "lower": (3,), "upper": (3,), "spread": (3,), "inner_spread": (3,),
        "nfev_lower": (3,),
    }  # fmt: skip
    np.testing.assert_allclose(
        result.history["upper"], CIRCLE.upper(result.history["x_outer"], result.history["x_inner"]), rtol=1e-12
    )
    np.testing.assert_array_equal(result.history["nfev_lower"], 40 * np.array([4, 7, 10]))


def test_particles_of_both_levels_contract():
    history = solve(CIRCLE, max_iter=60).history
    assert history["spread"][-1] < 0.1 * history["spread"][0]
    # some inner particles are always drawn from the whole box
    assert history["inner_spread"][-1] < 0.5 * history["inner_spread"][0]
