"""Long rows, which are not sorted, against sorting and against short ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from sklearn_scb2o.particles import SELECTORS, alpha_from_rank, order_statistics, soft_quantile, soft_selection
from sklearn_scb2o.particles.long_rows import offset_near, parted

KINDS = {
    "exponential": lambda rng, n: rng.exponential(size=n),
    "ties": lambda rng, n: np.round(rng.exponential(size=n), 1),
    "clusters": lambda rng, n: rng.normal(size=n) * 1e-3 + rng.integers(0, 5, size=n),
    "scales": lambda rng, n: 10.0 ** rng.uniform(-30, 30, size=n),
    "equal": lambda rng, n: np.full(n, 3.0),
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [513, 20_000])
@pytest.mark.parametrize("beta", [1e-5, 0.1, 0.7, 1.0])
def test_order_statistics_are_those_of_the_sorted_row(kind, n, beta):
    row = KINDS[kind](np.random.default_rng(0), n)
    order, ordered, k = order_statistics(row, beta), np.sort(row), math.ceil(beta * n * (1 - 1e-12))
    assert (order.count, order.rank) == (n, k)
    assert (order.first[0], order.at[0]) == (ordered[0], ordered[k - 1])
    assert order.after[0] == (ordered[k] if k < n else math.inf)


@given(st.integers(1, 20_000), st.floats(0.0, 1.0), st.sampled_from([*KINDS, "failed"]), st.integers(0, 100))
def test_parted_values_are_the_same_with_the_smallest_first(size, share, kind, seed):
    rng = np.random.default_rng(seed)
    row = np.where(rng.random(size) < 0.3, math.inf, 1.0) if kind == "failed" else KINDS[kind](rng, size)
    before, n = row.copy(), max(1, round(share * size))
    values, ordered = parted(row, n), np.sort(row)
    np.testing.assert_array_equal(row, before)
    np.testing.assert_array_equal(np.sort(values), ordered)
    np.testing.assert_array_equal(np.sort(values[:n]), ordered[:n])
    assert values[n - 1] == ordered[n - 1]


def test_a_sample_that_misleads_does_no_harm():
    row = np.ones(8192)
    row[::8] = 0.0  # what the sample consists of
    np.testing.assert_array_equal(np.sort(parted(row, 5000)[:5000]), np.sort(row)[:5000])


def test_failed_evaluations_do_not_count():
    rows = np.random.default_rng(0).exponential(size=(3, 700))
    rows[0, ::2] = math.inf
    rows[1, :-1] = math.inf
    order = order_statistics(rows, 0.1)
    np.testing.assert_array_equal(order.count[:, 0], [350, 1, 700])
    np.testing.assert_array_equal(order.rank[:, 0], [35, 1, 70])
    assert order.at[0, 0] == np.sort(rows[0])[34]
    assert order.after[1, 0] == math.inf
    weights = np.exp(soft_selection(rows, 0.1, 0.01).log_eta)
    np.testing.assert_allclose(weights.sum(axis=-1), 0.1 * np.array([350, 1, 700]), rtol=1e-12)


@pytest.mark.parametrize("kind", ["exponential", "ties", "clusters", "sorted"])
@pytest.mark.parametrize("tau", [1e-3, 0.02, 3.0])
@pytest.mark.parametrize("selector", SELECTORS)
def test_the_mean_weight_is_beta(kind, tau, selector):
    row = KINDS[kind](np.random.default_rng(2), 20_000)
    selection = soft_selection(row, 0.1, tau, selector=SELECTORS[selector])
    np.testing.assert_allclose(np.exp(selection.log_eta).mean(), 0.1, rtol=1e-12)


def test_the_soft_quantile_is_the_root():
    row = np.random.default_rng(3).exponential(size=5000)
    root = brentq(lambda q: expit((q - row) / 0.02).mean() - 0.1, 0.0, 1.0, xtol=1e-14)
    np.testing.assert_allclose(soft_quantile(row, 0.1, 0.02), root, rtol=1e-12)


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("shift", [-3.0, -1.0, 0.0, 0.3, 1.0, 3.0])
def test_a_start_changes_the_soft_quantile_by_rounding_only(selector, shift):
    row, options = np.random.default_rng(4).exponential(size=20_000), {"selector": SELECTORS[selector]}
    cold = soft_quantile(row, 0.1, 0.01, **options)
    warm = soft_quantile(row, 0.1, 0.01, start=cold + 0.01 * shift, **options)
    np.testing.assert_allclose(warm, cold, rtol=1e-12)
    near = offset_near(SELECTORS[selector], row, float(cold) + 0.01 * shift, 0.01, 0.1, 1e-13)
    assert (near is None) == (abs(shift) > 2)


@pytest.mark.parametrize("n", [513, 5000, 16_383, 16_384, 100_001])
@pytest.mark.parametrize("tau", [0.02, np.array([0.02])], ids=["number", "array"])
def test_a_start_may_be_given_for_a_row_of_any_length(n, tau):
    row = np.random.default_rng(4).exponential(size=n)
    cold = soft_quantile(row, 0.1, tau)
    assert cold.shape == ()
    np.testing.assert_allclose(expit((cold - row) / 0.02).mean(), 0.1, rtol=1e-11)
    warm = soft_quantile(row, 0.1, tau, start=cold)
    assert warm.shape == ()
    np.testing.assert_allclose(warm, cold, rtol=1e-12)


@pytest.mark.parametrize("n_finite", [1, 3, 200])
@pytest.mark.parametrize("tau", [1e-3, 1.0])
def test_nearly_all_evaluations_of_a_very_long_row_may_have_failed(n_finite, tau):
    row = np.full(200_000, math.inf)
    row[1 : 1 + n_finite] = np.arange(n_finite)
    q = soft_quantile(row, 0.1, tau)
    np.testing.assert_allclose(expit((q - row) / tau).sum(), 0.1 * n_finite, rtol=1e-11)


def test_a_start_far_off_is_no_harm():
    row = np.random.default_rng(5).exponential(size=20_000)
    for start in (-1e300, 0.0, 50.0, 1e300):
        np.testing.assert_allclose(
            soft_quantile(row, 0.1, 0.01, start=start), soft_quantile(row, 0.1, 0.01), rtol=1e-12
        )


@pytest.mark.parametrize("n", [100, 5000])
def test_weights_below_the_least_that_is_needed_may_be_left_out(n):
    L = np.random.default_rng(6).exponential(size=(2, n))
    whole, part = (soft_selection(L, 0.1, 0.01, least=least).log_eta for least in (-math.inf, -36.0))
    np.testing.assert_array_equal(part[whole >= -36.0], whole[whole >= -36.0])
    assert np.isneginf(part).any()
    assert np.isfinite(whole).all()
    assert np.isneginf(part[whole < -40.0]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_independent_of_each_other(dtype):
    L = np.random.default_rng(7).exponential(size=(3, 600)).astype(dtype) * np.array([[1], [10], [0.1]], dtype)
    together = soft_selection(L, 0.1, 0.01)
    assert together.log_eta.dtype == together.quantile.dtype == dtype
    for row, log_eta in zip(L, together.log_eta, strict=True):
        np.testing.assert_array_equal(soft_selection(row, 0.1, 0.01).log_eta, log_eta)


def test_alpha_of_a_long_row_is_that_of_the_sorted_values():
    rng = np.random.default_rng(8)
    G, selected = rng.normal(size=(2, 3000)), rng.random((2, 3000)) < 0.01
    ordered = [np.sort(g[mask]) for g, mask in zip(G, selected, strict=True)]
    for rank in (1, 5, 500):
        expected = [[2.0 / (v[min(rank, v.size - 1)] - v[0])] for v in ordered]
        np.testing.assert_array_equal(alpha_from_rank(G, selected, rank), expected)


def test_a_long_row_is_that_of_the_definition():
    row = np.random.default_rng(9).exponential(size=2000)
    selection = soft_selection(row, 0.1, 0.02)
    np.testing.assert_allclose(selection.log_eta, log_expit((selection.quantile - row) / 0.02), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["exponential", "ties", "clusters", "sorted", "failed", "alternating"])
@pytest.mark.parametrize("tau", [1e-3, 0.05, 3.0])
def test_the_soft_quantile_of_a_very_long_row_is_the_root(kind, tau):
    rng = np.random.default_rng(6)
    if kind == "failed":
        row = np.where(rng.random(200_000) < 0.5, math.inf, rng.exponential(size=200_000))
    elif kind == "alternating":  # the quantile of every twelfth is not that of all
        row = np.where(np.arange(200_000) % 12 == 0, 100.0, 0.0) + rng.exponential(size=200_000)
    else:
        row = KINDS[kind](rng, 200_000)
    q = soft_quantile(row, 0.1, tau)
    np.testing.assert_allclose(expit((q - row) / tau).sum(), 0.1 * np.isfinite(row).sum(), rtol=1e-11)
