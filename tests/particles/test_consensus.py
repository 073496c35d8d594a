import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from sklearn_scb2o.particles import (
    consensus_point,
    effective_sample_size,
    gibbs_weights,
    hard_selection,
    soft_selection,
)


def upper_values(N, seed, scale=1.0, excluded=0.0):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=N) * scale
    G[1:][rng.random(N - 1) < excluded] = math.inf
    return G


cases = st.builds(
    upper_values,
    st.integers(1, 80),
    st.integers(0, 10_000),
    st.floats(-300, 300).map(lambda e: 10.0**e),
    st.sampled_from([0.0, 0.3]),
)
alphas = st.one_of(st.just(0.0), st.floats(-300, 300).map(lambda e: 10.0**e))


# --- Gibbs weights


@settings(max_examples=150)
@given(G=cases, alpha=alphas)
def test_weights_are_non_negative_and_sum_to_one(G, alpha):
    w = gibbs_weights(G, alpha)
    assert (w >= 0).all()
    assert abs(math.fsum(w) - 1.0) <= 1e-14


@settings(max_examples=100)
@given(G=cases, alpha=alphas, seed=st.integers(0, 1000))
def test_weights_with_selection_sum_to_one(G, alpha, seed):
    log_eta = -np.random.default_rng(seed).exponential(size=G.size) * 50
    assert abs(math.fsum(gibbs_weights(G, alpha, log_eta)) - 1.0) <= 1e-14


def test_weights_of_each_run_sum_to_one(xp):
    rng = np.random.default_rng(0)
    w = gibbs_weights(xp.array(rng.normal(size=(2, 3, 20))), 4.0, xp.array(-rng.exponential(size=(2, 3, 20))))
    np.testing.assert_allclose(xp.numpy(w).sum(axis=-1), np.ones((2, 3)), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_kept(xp, dtype):
    G, log_eta = xp.array([1.0, 2.0], dtype=dtype), xp.array([0.0, -1.0], dtype=dtype)
    w = gibbs_weights(G, 2.0, log_eta)
    m = consensus_point(xp.array([[1.0], [2.0]], dtype=dtype), w)
    assert w.dtype == m.dtype == effective_sample_size(w).dtype == G.dtype


@given(seed=st.integers(0, 1000), N=st.integers(1, 50), shift=st.integers(-(10**6), 10**6), alpha=st.floats(0, 1e3))
def test_exact_shifts_of_the_values_change_nothing(seed, N, shift, alpha):
    G = np.random.default_rng(seed).integers(-8000, 8000, size=N) / 8.0
    np.testing.assert_array_equal(gibbs_weights(G + shift, alpha), gibbs_weights(G, alpha))


@given(seed=st.integers(0, 1000), N=st.integers(1, 50), shift=st.floats(-1e6, 1e6), alpha=st.floats(0, 1e3))
def test_shifts_of_the_values_change_the_weights_by_rounding_only(seed, N, shift, alpha):
    G = np.random.default_rng(seed).normal(size=N)
    rounding = 4 * alpha * np.spacing(abs(shift) + np.max(np.abs(G)))
    np.testing.assert_allclose(gibbs_weights(G + shift, alpha), gibbs_weights(G, alpha), rtol=0, atol=rounding + 1e-14)


@given(seed=st.integers(0, 1000), N=st.integers(1, 50), k=st.integers(-900, 900), alpha=st.floats(1e-3, 1e3))
def test_scaling_values_and_inverse_alpha_by_a_power_of_two_is_exact(seed, N, k, alpha):
    G = np.random.default_rng(seed).normal(size=N)
    np.testing.assert_array_equal(gibbs_weights(G * 2.0**k, alpha * 2.0**-k), gibbs_weights(G, alpha))


@given(G=cases, alpha=alphas, shift=st.floats(-700.0, 0.0))
def test_a_common_factor_of_the_selection_weights_cancels(G, alpha, shift):
    base = gibbs_weights(G, alpha)
    np.testing.assert_allclose(gibbs_weights(G, alpha, np.full(G.size, shift)), base, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1e6, 1e300])
@pytest.mark.parametrize("low", [-1e300, -1.0, 1e-300, 1e300])
def test_huge_values_and_alpha_give_no_nan(xp, alpha, low):
    w = xp.numpy(gibbs_weights(xp.array([low, 1e300, 1e300, math.inf]), alpha, xp.array([-3.0, 0.0, -1e300, 0.0])))
    assert np.isfinite(w).all()
    assert abs(w.sum() - 1.0) < 1e-14


def test_opposite_values_around_the_largest_float_give_no_nan(xp):
    w = xp.numpy(gibbs_weights(xp.array([-1.7e308, 1.7e308]), 1e300))
    np.testing.assert_array_equal(w, [1.0, 0.0])


@pytest.mark.parametrize("offset", [-1e300, 1e300])
def test_equal_huge_values_have_equal_weights(xp, offset):
    w = xp.numpy(gibbs_weights(xp.array([offset] * 4), 1e6))
    np.testing.assert_array_equal(w, [0.25] * 4)


def test_huge_alpha_puts_all_weight_on_the_best(xp):
    w = xp.numpy(gibbs_weights(xp.array([2.0, 1.0, 1.0 + 1e-12, 3.0]), 1e300))
    np.testing.assert_array_equal(w, [0, 1, 0, 0])


def test_alpha_zero_leaves_the_selection_weights(xp):
    w = xp.numpy(gibbs_weights(xp.array([5.0, -1e250, 7.0]), 0.0, xp.array(np.log([0.5, 0.25, 0.25]))))
    np.testing.assert_allclose(w, [0.5, 0.25, 0.25], rtol=1e-14)


@settings(max_examples=100)
@given(seed=st.integers(0, 1000), N=st.integers(1, 60), alpha=alphas)
def test_infinite_values_exclude_exactly(seed, N, alpha):
    G = upper_values(N, seed, excluded=0.5)
    kept = np.isfinite(G)
    w = gibbs_weights(G, alpha)
    assert (w[~kept] == 0).all()
    np.testing.assert_allclose(w[kept], gibbs_weights(G[kept], alpha), rtol=1e-13, atol=1e-300)


def test_infinite_values_exclude_with_alpha_zero(xp):
    np.testing.assert_array_equal(xp.numpy(gibbs_weights(xp.array([1.0, math.inf, 2.0]), 0.0)), [0.5, 0, 0.5])


def test_infinite_values_exclude_with_alpha_zero_in_one_run(xp):
    w = gibbs_weights(xp.array([[1.0, math.inf, 2.0]] * 2), xp.array([[0.0], [1e6]]))
    np.testing.assert_array_equal(xp.numpy(w), [[0.5, 0, 0.5], [1, 0, 0]])


def test_weights_do_not_vanish_together(xp):
    # the best upper value has next to no selection weight, the selected ones are far from the best
    w = xp.numpy(gibbs_weights(xp.array([0.0, 1.0, 1.0]), 5e3, xp.array([-1e4, 0.0, math.log(0.5)])))
    np.testing.assert_allclose(w, [0, 2 / 3, 1 / 3], rtol=1e-12)


def test_particles_outside_a_hard_selection_have_no_weight(xp):
    L, G = xp.array([0.0, 3.0, 1.0, 2.0]), xp.array([2.0, 0.0, 2.0, 1.0])
    w = xp.numpy(gibbs_weights(G, 1.0, hard_selection(L, 0.5).log_eta))
    np.testing.assert_allclose(w, [0.5, 0, 0.5, 0], rtol=1e-14)


@given(G=cases, alpha=alphas)
def test_no_selection_equals_equal_selection_weights(G, alpha):
    np.testing.assert_array_equal(gibbs_weights(G, alpha), gibbs_weights(G, alpha, np.zeros(G.size)))


def test_no_selection_equals_equal_selection_weights_in_any_namespace(xp):
    G = np.random.default_rng(0).normal(size=(2, 9))
    none, zeros = gibbs_weights(xp.array(G), 3.0), gibbs_weights(xp.array(G), 3.0, xp.array(np.zeros((2, 9))))
    np.testing.assert_array_equal(xp.numpy(none), xp.numpy(zeros))


def test_each_run_has_its_own_alpha(xp):
    G = np.random.default_rng(0).normal(size=7)
    w = xp.numpy(gibbs_weights(xp.array([G, G, G]), xp.array([[0.0], [2.0], [50.0]])))
    for row, alpha in zip(w, [0.0, 2.0, 50.0], strict=True):
        np.testing.assert_allclose(row, gibbs_weights(G, alpha), rtol=1e-15)


@given(G=cases, alpha=alphas, seed=st.integers(0, 1000))
def test_permuting_the_particles_permutes_the_weights(G, alpha, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(G.size)
    log_eta = -rng.exponential(size=G.size)
    permuted = gibbs_weights(G[order], alpha, log_eta[order])
    np.testing.assert_allclose(permuted, gibbs_weights(G, alpha, log_eta)[order], rtol=1e-13, atol=1e-300)


@settings(max_examples=50)
@given(seed=st.integers(0, 1000), N=st.integers(1, 20), alpha=st.floats(0.0, 100.0))
def test_weights_and_consensus_agree_with_the_formula_in_50_digits(seed, N, alpha):
    rng = np.random.default_rng(seed)
    G, log_eta, x = rng.normal(size=N), -5 * rng.exponential(size=N), rng.normal(size=(N, 3))
    with mpmath.workdps(50):
        exact = [mpmath.exp(mpmath.mpf(e) - alpha * mpmath.mpf(g)) for e, g in zip(log_eta, G, strict=True)]
        exact = [weight / sum(exact) for weight in exact]
        mean = [float(mpmath.fdot(exact, map(mpmath.mpf, column))) for column in x.T]
    w = gibbs_weights(G, alpha, log_eta)
    np.testing.assert_allclose(w, [float(v) for v in exact], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(consensus_point(x, w), mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("selector_tau", [1e-3, 0.1, 10.0])
def test_soft_selection_and_gibbs_weights_give_the_formula_of_the_paper(xp, selector_tau):
    rng = np.random.default_rng(4)
    L, G, x = rng.random(30), rng.random(30), rng.normal(size=(30, 2))
    selection = soft_selection(xp.array(L), 0.2, selector_tau)
    m = consensus_point(xp.array(x), gibbs_weights(xp.array(G), 5.0, selection.log_eta))
    q = float(xp.numpy(selection.quantile)[0])
    weights = np.exp(-5.0 * G) / (1.0 + np.exp(-np.clip((q - L) / selector_tau, -700, 700)))
    np.testing.assert_allclose(xp.numpy(m), weights @ x / weights.sum(), rtol=1e-9)


def test_gibbs_weights_do_not_modify_their_inputs(xp):
    originals = [np.asarray([3.0, 1.0, math.inf]), np.asarray([2.0]), np.asarray([-1.0, 0.0, 0.0])]
    arrays = [xp.array(v) for v in originals]
    gibbs_weights(*arrays)
    for array, original in zip(arrays, originals, strict=True):
        np.testing.assert_array_equal(xp.numpy(array), original)


# --- consensus point


@settings(max_examples=100)
@given(
    seed=st.integers(0, 1000),
    N=st.integers(1, 60),
    d=st.integers(1, 6),
    alpha=alphas,
    scale=st.floats(-200, 200).map(lambda e: 10.0**e),
)
def test_each_coordinate_of_the_consensus_lies_between_those_of_the_particles(seed, N, d, alpha, scale):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, d)) * scale + rng.normal(size=d) * scale
    m = consensus_point(x, gibbs_weights(rng.normal(size=N), alpha))
    rounding = 1e-14 * np.max(np.abs(x))
    assert (m >= x.min(axis=0) - rounding).all()
    assert (m <= x.max(axis=0) + rounding).all()


@settings(max_examples=40)
@given(seed=st.integers(0, 1000), N=st.integers(3, 40), alpha=st.floats(0.0, 1e3))
def test_the_consensus_lies_in_the_convex_hull_in_the_plane(seed, N, alpha):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    m = consensus_point(x, gibbs_weights(rng.normal(size=N), alpha))
    faces = ConvexHull(x).equations
    assert (faces[:, :-1] @ m + faces[:, -1] <= 1e-12).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), N=st.integers(1, 25), d=st.integers(1, 5), alpha=st.floats(0.0, 1e3))
def test_the_consensus_is_a_convex_combination_by_linear_programming(seed, N, d, alpha):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, d))
    m = consensus_point(x, gibbs_weights(rng.normal(size=N), alpha))
    found = linprog(np.zeros(N), A_eq=np.vstack([x.T, np.ones(N)]), b_eq=np.append(m, 1.0), bounds=(0, None))
    assert found.status == 0


def test_the_consensus_of_one_particle_is_that_particle(xp):
    x = xp.array([[0.1, -7.3, 1e300]])
    m = consensus_point(x, gibbs_weights(xp.array([1e300]), 1e6))
    np.testing.assert_array_equal(xp.numpy(m), [0.1, -7.3, 1e300])


@given(seed=st.integers(0, 1000), N=st.integers(1, 50))
def test_the_consensus_does_not_depend_on_the_order_of_the_particles(seed, N):
    rng = np.random.default_rng(seed)
    x, w, order = rng.normal(size=(N, 3)), rng.dirichlet(np.ones(N)), rng.permutation(N)
    np.testing.assert_allclose(consensus_point(x[order], w[order]), consensus_point(x, w), rtol=0, atol=1e-13)


def test_the_consensus_of_a_batch_is_that_of_each_run(xp):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 3, 8, 4)), rng.dirichlet(np.ones(8), size=(2, 3))
    m = xp.numpy(consensus_point(xp.array(x), xp.array(w)))
    assert m.shape == (2, 3, 4)
    np.testing.assert_allclose(m, np.einsum("abn,abnd->abd", w, x), rtol=1e-12)


def test_the_consensus_does_not_modify_its_inputs(xp):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 4)), rng.dirichlet(np.ones(8))
    arrays = xp.array(x), xp.array(w)
    consensus_point(*arrays)
    np.testing.assert_array_equal(xp.numpy(arrays[0]), x)
    np.testing.assert_array_equal(xp.numpy(arrays[1]), w)


# --- effective sample size


@settings(max_examples=100)
@given(G=cases, alpha=alphas)
def test_effective_sample_size_lies_between_one_and_n(G, alpha):
    size = effective_sample_size(gibbs_weights(G, alpha))
    assert 1.0 - 1e-13 <= size <= G.size * (1.0 + 1e-13)


@given(N=st.integers(1, 1000), weight=st.floats(1e-100, 1e100))
def test_effective_sample_size_of_equal_weights_is_n(N, weight):
    np.testing.assert_allclose(effective_sample_size(np.full(N, weight)), N, rtol=1e-12)


def test_effective_sample_size_of_one_particle_is_one(xp):
    size = xp.numpy(effective_sample_size(xp.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.125]])))
    np.testing.assert_array_equal(size, [1.0, 1.0])


@pytest.mark.parametrize("scale", [1e-50, 0.3, 7.0, 1e50])
def test_effective_sample_size_does_not_depend_on_normalisation(xp, scale):
    w = np.random.default_rng(0).random((2, 9))
    size = xp.numpy(effective_sample_size(xp.array(w * scale)))
    np.testing.assert_allclose(size, w.sum(axis=-1) ** 2 / (w**2).sum(axis=-1), rtol=1e-13)


def test_effective_sample_size_falls_with_alpha(xp):
    G = xp.array(np.random.default_rng(0).normal(size=50))
    sizes = [float(effective_sample_size(gibbs_weights(G, alpha))) for alpha in (0.0, 0.1, 1.0, 10.0, 1e3, 1e6)]
    assert sizes == sorted(sizes, reverse=True)
