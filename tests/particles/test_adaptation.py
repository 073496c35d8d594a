import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from sklearn_scb2o.particles import (
    NOISES,
    alpha_from_rank,
    contraction_rate,
    effective_sample_size,
    euler_maruyama_step,
    gibbs_weights,
    hard_selection,
    order_statistics,
    sigma_from_rate,
    soft_selection,
    tau_from_spread,
)

every_noise = pytest.mark.parametrize("noise", NOISES)


def swarm_values(N, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=N), rng.random(N) < 0.6


# --- alpha from a rank


@settings(max_examples=100)
@given(seed=st.integers(0, 1000), N=st.integers(3, 80), rank=st.integers(1, 10), decay=st.floats(0.1, 10.0))
def test_alpha_is_decay_over_the_gap_of_the_sorted_selected_values(seed, N, rank, decay):
    G, selected = swarm_values(N, seed)
    selected[:3] = True
    ordered = np.sort(G[selected])
    expected = decay / (ordered[min(rank, ordered.size - 1)] - ordered[0])
    alpha = alpha_from_rank(G, selected, rank, decay)
    assert alpha.shape == (1,)
    np.testing.assert_allclose(alpha, expected, rtol=1e-14)


@settings(max_examples=50)
@given(seed=st.integers(0, 1000), N=st.integers(3, 40), rank=st.integers(1, 5))
def test_particle_of_the_rank_has_weight_exp_minus_decay_of_the_best(seed, N, rank):
    G, _ = swarm_values(N, seed)
    rank = min(rank, N - 1)
    w = np.sort(gibbs_weights(G, alpha_from_rank(G, np.full(N, True), rank, 3.0)))[::-1]
    np.testing.assert_allclose(w[rank] / w[0], math.exp(-3.0), rtol=1e-12)


@given(seed=st.integers(0, 1000), N=st.integers(2, 40), rank=st.integers(1, 10), shift=st.integers(-(10**6), 10**6))
def test_alpha_is_invariant_under_shifts(seed, N, rank, shift):
    G = np.random.default_rng(seed).integers(-1000, 1000, size=N) / 8.0
    selected = np.full(N, True)
    np.testing.assert_array_equal(alpha_from_rank(G + shift, selected, rank), alpha_from_rank(G, selected, rank))


@given(seed=st.integers(0, 1000), N=st.integers(2, 40), rank=st.integers(1, 10), k=st.integers(-900, 900))
def test_alpha_scales_inversely_and_exactly_with_powers_of_two(seed, N, rank, k):
    G, _ = swarm_values(N, seed)
    selected = np.full(N, True)
    scaled = alpha_from_rank(G * 2.0**k, selected, rank)
    np.testing.assert_array_equal(scaled, alpha_from_rank(G, selected, rank) * 2.0**-k)


def test_alpha_does_not_depend_on_values_above_the_rank(xp):
    selected = xp.array([True] * 5, dtype=bool)
    low = alpha_from_rank(xp.array([0.0, 1.0, 2.0, 3.0, 4.0]), selected, 2)
    high = alpha_from_rank(xp.array([0.0, 1.0, 2.0, 1e300, math.inf]), selected, 2)
    np.testing.assert_array_equal(xp.numpy(low), xp.numpy(high))


def test_alpha_does_not_depend_on_particles_that_are_not_selected(xp):
    selected = xp.array([True, False, True, False, True], dtype=bool)
    alpha = alpha_from_rank(xp.array([1.0, -1e300, 2.0, math.inf, 5.0]), selected, 1)
    np.testing.assert_array_equal(xp.numpy(alpha), [2.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ties_up_to_the_rank_keep_weight_alone(xp, dtype):
    G = xp.array([1.0, 1.0, 1.0, 1.001, 2.0], dtype=dtype)
    alpha = alpha_from_rank(G, xp.array([True] * 5, dtype=bool), 2)
    assert alpha.dtype == G.dtype
    np.testing.assert_allclose(xp.numpy(gibbs_weights(G, alpha)), [1 / 3, 1 / 3, 1 / 3, 0, 0], rtol=1e-6)


def test_equal_values_give_a_finite_alpha(xp):
    G = xp.array([[-1e300] * 3, [0.0] * 3, [1e300] * 3])
    alpha = alpha_from_rank(G, xp.array(np.full((3, 3), True), dtype=bool), 1)
    assert np.isfinite(xp.numpy(alpha)).all()
    np.testing.assert_allclose(xp.numpy(gibbs_weights(G, alpha)), 1 / 3, rtol=1e-14)


def test_with_fewer_selected_than_the_rank_the_largest_value_counts(xp):
    G = xp.array([3.0, 1.0, -9.0, 5.0])
    alpha = alpha_from_rank(G, xp.array([True, True, False, True], dtype=bool), 3)
    np.testing.assert_array_equal(xp.numpy(alpha), [0.5])


def test_a_rank_beyond_the_particles_counts_as_the_last(xp):
    alpha = alpha_from_rank(xp.array([3.0, 1.0, 5.0]), xp.array([True] * 3, dtype=bool), 100)
    np.testing.assert_array_equal(xp.numpy(alpha), [0.5])


def test_one_selected_particle_gets_all_weight(xp):
    G, selected = xp.array([3.0, 1.0, 5.0]), xp.array([True, False, False], dtype=bool)
    alpha = xp.numpy(alpha_from_rank(G, selected, 2))
    assert np.isfinite(alpha).all()
    assert (alpha > 0).all()


def test_each_run_has_its_own_rank(xp):
    G = [[4.0, 1.0, 2.0, 9.0]] * 4
    ranks = xp.array([[1], [2], [3], [50]], dtype=np.int64)
    alpha = alpha_from_rank(xp.array(G), xp.array(np.full((4, 4), True), dtype=bool), ranks)
    np.testing.assert_allclose(xp.numpy(alpha), [[2.0], [2 / 3], [0.25], [0.25]], rtol=1e-15)


def test_each_run_has_its_own_rank_where_fewer_are_selected(xp):
    G, selected = [[4.0, 1.0, 2.0, 9.0]] * 2, [[True, True, False, False], [True, True, True, True]]
    alpha = alpha_from_rank(xp.array(G), xp.array(selected, dtype=bool), xp.array([[3], [3]], dtype=np.int64))
    np.testing.assert_allclose(xp.numpy(alpha), [[2 / 3], [0.25]], rtol=1e-15)


def test_each_run_has_its_own_alpha(xp):
    G = np.random.default_rng(0).normal(size=(2, 3, 12))
    selected = np.random.default_rng(1).random((2, 3, 12)) < 0.7
    alpha = xp.numpy(alpha_from_rank(xp.array(G), xp.array(selected, dtype=bool), 2))
    expected = [
        [alpha_from_rank(g, s, 2) for g, s in zip(*pair, strict=True)] for pair in zip(G, selected, strict=True)
    ]
    np.testing.assert_array_equal(alpha, expected)


@pytest.mark.parametrize("rank", [3, 10, 30])
@pytest.mark.parametrize("decay", [1.0, 2.0, 4.0])
def test_effective_sample_size_for_evenly_spaced_values_is_twice_rank_over_decay(rank, decay):
    G = np.random.default_rng(0).permutation(1000) * 0.37 - 5.0
    w = gibbs_weights(G, alpha_from_rank(G, np.full(1000, True), rank, decay))
    # exactly (1 + r)/(1 - r) with the ratio r = exp(-decay/rank) of neighbouring weights
    np.testing.assert_allclose(effective_sample_size(w), 1.0 / math.tanh(0.5 * decay / rank), rtol=1e-9)
    np.testing.assert_allclose(effective_sample_size(w), 2 * rank / decay, rtol=0.15)


def test_alpha_does_not_modify_its_inputs(xp):
    G, selected = np.asarray([3.0, 1.0, 2.0]), np.asarray([True, True, False])
    arrays = xp.array(G), xp.array(selected, dtype=bool)
    alpha_from_rank(*arrays, 1)
    np.testing.assert_array_equal(xp.numpy(arrays[0]), G)
    np.testing.assert_array_equal(xp.numpy(arrays[1]), selected)


# --- tau from the spread


@given(seed=st.integers(0, 1000), N=st.integers(2, 60), k=st.integers(1, 60), fraction=st.floats(1e-3, 1.0))
def test_tau_is_a_fraction_of_the_spread_inside_the_quantile(seed, N, k, fraction):
    L = np.random.default_rng(seed).normal(size=N)
    k = min(k, N)
    ordered = np.sort(L)
    tau = tau_from_spread(order_statistics(L, k / N), fraction)
    np.testing.assert_allclose(tau, max(fraction * (ordered[k - 1] - ordered[0]), 2.0**-1022), rtol=1e-14)


@given(seed=st.integers(0, 1000), k=st.integers(-900, 900))
def test_tau_scales_exactly_with_powers_of_two(seed, k):
    L = np.random.default_rng(seed).normal(size=20)
    base = tau_from_spread(order_statistics(L, 0.3), 0.05)
    np.testing.assert_array_equal(tau_from_spread(order_statistics(L * 2.0**k, 0.3), 0.05), base * 2.0**k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tau_is_the_smallest_normal_float_without_spread(xp, dtype):
    L = xp.array([[1.0, 1.0, 2.0, 1.0]], dtype=dtype)
    tau = tau_from_spread(order_statistics(L, 0.5), 0.05)
    assert tau.dtype == L.dtype
    np.testing.assert_array_equal(xp.numpy(tau), [[np.finfo(dtype).smallest_normal]])


def test_each_run_has_its_own_tau(xp):
    L = xp.array([[0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 20.0, math.inf]])
    tau = tau_from_spread(order_statistics(L, 0.75), 0.1)
    np.testing.assert_allclose(xp.numpy(tau), [[0.2], [2.0]], rtol=1e-15)


def test_tau_without_spread_selects_as_the_hard_quantile(xp):
    L = xp.array([[1.0, 2.0, 1.0, 3.0], [4.0, 2.0, 2.0, 3.0]])
    soft = soft_selection(L, 0.5, tau_from_spread(order_statistics(L, 0.5), 0.05)).log_eta
    hard = hard_selection(L, 0.5).log_eta
    np.testing.assert_allclose(np.exp(xp.numpy(soft)), np.exp(xp.numpy(hard)), rtol=0, atol=1e-12)


# --- contraction rate


@every_noise
@pytest.mark.parametrize(("d", "sigma"), [(1, 1.4), (2, 0.5), (3, 1.4), (10, 3.0), (50, 0.7)])
def test_contraction_rate_agrees_with_monte_carlo(noise, d, sigma):
    lam, dt, count = 1.0, 0.1, 4_000_000 // (20 + d)
    b = np.random.default_rng(5).standard_normal((count, 1 if noise == "anisotropic" else d))
    x = np.zeros_like(b)
    x[:, 0] = 1.0
    moved = euler_maruyama_step(x, np.zeros(b.shape[1]), b, lam=lam, sigma=sigma, dt=dt, noise=noise)
    logs = -np.log(np.linalg.norm(moved, axis=-1))
    error = logs.mean() - contraction_rate(sigma, d, lam, dt, noise)
    assert abs(error) <= 5 * logs.std() / math.sqrt(count)


@pytest.mark.parametrize(("sigma", "lam", "dt"), [(1.4, 1.0, 0.1), (0.3, 1.0, 0.5), (5.0, 2.0, 0.01), (1.0, 3.0, 0.5)])
def test_contraction_rate_agrees_with_quadrature_in_one_dimension(sigma, lam, dt):
    drift, s = 1.0 - lam * dt, sigma * math.sqrt(dt)

    def integrand(b):
        return -math.log(abs(drift + s * b)) * math.exp(-0.5 * b * b) / math.sqrt(2 * math.pi)

    singular = -drift / s
    pieces = sorted({-12.0, 12.0, min(max(singular, -12.0), 12.0)})
    expected = sum(quad(integrand, a, b, limit=500, epsabs=1e-12)[0] for a, b in pairwise(pieces))
    np.testing.assert_allclose(contraction_rate(sigma, 1, lam, dt, "anisotropic"), expected, atol=1e-8)


@every_noise
@pytest.mark.parametrize("d", [1, 2, 30])
@pytest.mark.parametrize("sigma", [0.0, 1e-12, 1e-6, 1e-4])
@pytest.mark.parametrize(("lam", "dt"), [(1.0, 0.1), (1.0, 0.5), (3.0, 0.5)])
def test_contraction_rate_without_noise_is_that_of_the_drift(noise, d, sigma, lam, dt):
    rate = contraction_rate(sigma, d, lam, dt, noise)
    np.testing.assert_allclose(rate, -math.log(abs(1.0 - lam * dt)), rtol=0, atol=20 * d * sigma**2 + 1e-12)


def test_a_full_step_without_noise_contracts_at_once():
    assert contraction_rate(0.0, 3, 1.0, 1.0) == math.inf


@every_noise
def test_contraction_rate_is_continuous_where_the_expansion_takes_over(noise):
    # the expansion in small noise replaces the series at half (drift/s)^2 = 1e6, here at d = 3
    s = 0.9 / math.sqrt(2e6)
    sigma = s / math.sqrt(0.1) * (math.sqrt(3) if noise == "scaled" else 1.0)
    below, above = (contraction_rate(sigma * factor, 3, 1.0, 0.1, noise) for factor in (1 - 1e-6, 1 + 1e-6))
    assert abs(below - above) < 1e-8


@every_noise
def test_contraction_rate_falls_with_strong_noise(noise):
    rates = [contraction_rate(sigma, 5, 1.0, 0.1, noise) for sigma in (3.0, 6.0, 12.0, 100.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0


@pytest.mark.parametrize("d", [1, 3, 20])
def test_scaled_noise_is_isotropic_noise_over_the_root_of_the_dimension(d):
    scaled = contraction_rate(1.4, d, 1.0, 0.1, "scaled")
    np.testing.assert_allclose(scaled, contraction_rate(1.4 / math.sqrt(d), d, 1.0, 0.1, "isotropic"), rtol=1e-12)


@pytest.mark.parametrize("d", [2, 3, 20])
def test_anisotropic_rate_does_not_depend_on_the_dimension(d):
    assert contraction_rate(1.4, d, 1.0, 0.1, "anisotropic") == contraction_rate(1.4, 1, 1.0, 0.1, "anisotropic")


@every_noise
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_the_sign_of_the_rate_decides_whether_a_swarm_contracts(noise, factor):
    d, lam, dt, steps = 4, 1.0, 0.1, 600
    limit = sigma_from_rate(0.0, d, lam, dt, noise)
    rng = np.random.default_rng(8)
    x, m = rng.normal(size=(200, d)), np.zeros(d)
    start = np.median(np.log(np.abs(x[:, 0])))
    for _ in range(steps):
        x = euler_maruyama_step(x, m, rng.standard_normal(x.shape), lam=lam, sigma=factor * limit, dt=dt, noise=noise)
    end = np.median(np.log(np.abs(x[:, 0])))
    rate = contraction_rate(factor * limit, d, lam, dt, noise)
    assert (rate > 0) == (factor < 1)
    assert (end < start - 2) if factor < 1 else (end > start + 2)
    np.testing.assert_allclose((start - end) / steps, rate, atol=0.02)


# --- sigma from a rate


@every_noise
@pytest.mark.parametrize("d", [1, 2, 10, 100])
@pytest.mark.parametrize("rate", [-1.0, 0.0, 0.02, 0.1])
def test_sigma_from_rate_inverts_contraction_rate(noise, d, rate):
    sigma = sigma_from_rate(rate, d, 1.0, 0.1, noise)
    assert sigma > 0
    np.testing.assert_allclose(contraction_rate(sigma, d, 1.0, 0.1, noise), rate, rtol=0, atol=1e-10)


@every_noise
def test_sigma_from_rate_is_on_the_side_where_more_noise_contracts_less(noise):
    sigma = sigma_from_rate(0.05, 3, 1.0, 0.1, noise)
    assert contraction_rate(1.01 * sigma, 3, 1.0, 0.1, noise) < 0.05


@every_noise
@pytest.mark.parametrize("d", [2, 10])
def test_a_rate_above_the_highest_is_refused_with_its_value(noise, d):
    with pytest.raises(ValueError, match=r"rate=3\.5.*not reached.*highest contraction"):
        sigma_from_rate(3.5, d, 1.0, 0.1, noise)
