import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import brentq
from scipy.special import erf, expit, log_ndtr, ndtr, ndtri

from sklearn_scb2o.particles import (
    SELECTORS,
    Selector,
    check_selector,
    hard_quantile,
    hard_selection,
    order_statistics,
    soft_quantile,
    soft_selection,
)

LOGISTIC, GUMBEL = SELECTORS["logistic"], SELECTORS["gumbel"]
both_selectors = pytest.mark.parametrize("selector", [LOGISTIC, GUMBEL], ids=lambda s: s.name)


def make_values(kind, N, seed):
    rng = np.random.default_rng(seed)
    return {
        "normal": lambda: rng.normal(size=N),
        "heavy": lambda: rng.standard_cauchy(size=N) ** 3,
        "ties": lambda: rng.integers(0, 3, size=N).astype(float),
        "adjacent floats": lambda: 1.0 + 2.0**-52 * rng.integers(0, 5, size=N),
        "huge": lambda: rng.normal(size=N) * 1e299,
        "many scales": lambda: 10.0 ** rng.uniform(-300, 300, size=N) * rng.choice([-1, 1], size=N),
        "two clusters": lambda: np.where(np.arange(N) < N // 2, 0.0, 1e6) + rng.normal(size=N),
        "all equal": lambda: np.full(N, rng.normal()),
        "mostly minimal": lambda: np.where(np.arange(N) < N // 3, 10.0 ** rng.uniform(-20, 20, size=N), 0.0),
    }[kind]()


KINDS = [
    "normal",
    "heavy",
    "ties",
    "adjacent floats",
    "huge",
    "many scales",
    "two clusters",
    "all equal",
    "mostly minimal",
]
sizes = st.one_of(st.integers(1, 8), st.integers(1, 300))
values = st.builds(make_values, st.sampled_from(KINDS), sizes, st.integers(0, 2**32 - 1))
plain_values = hnp.arrays(float, st.integers(1, 12), elements=st.floats(-1e300, 1e300))
exponents = st.floats(-300.0, 300.0)


@st.composite
def betas(draw, N, lowest=1e-3):
    kind = draw(st.sampled_from(["any", "small", "rank", "near 1"]))
    if kind == "rank":
        beta = draw(st.integers(1, N)) / N
    elif kind == "near 1":
        beta = 1.0 - 10.0 ** draw(st.floats(-12.0, -1.0))
    elif kind == "small":
        beta = 10.0 ** draw(st.floats(math.log10(lowest), 0.0))
    else:
        beta = draw(st.floats(0.01, 0.99))
    return min(beta, 1.0 - 1e-12)


@st.composite
def softnesses(draw, L):
    spread = float(np.ptp(L)) or 1.0
    relative = draw(st.booleans())
    tau = spread * 10.0 ** draw(st.floats(-4.0, 2.0)) if relative else 10.0 ** draw(exponents)
    return min(max(tau, 1e-300), 1e300)


@st.composite
def problems(draw, strategy=values, lowest=1e-3):
    L = draw(strategy)
    return L, draw(betas(L.size, lowest)), draw(softnesses(L))


def mean_weight(selection):
    log_eta = np.asarray(selection.log_eta, dtype=float)
    return math.fsum(np.exp(log_eta)) / log_eta.size


def reference_weights(L, beta, tau, selector_name):
    """Weights at the soft quantile that bisection with 50 digits finds."""
    with mpmath.workdps(50):
        L, beta, tau = [mpmath.mpf(float(v)) for v in L], mpmath.mpf(float(beta)), mpmath.mpf(float(tau))
        if selector_name == "logistic":

            def psi(u):
                return 1 / (1 + mpmath.exp(-u))

            inverse = mpmath.log(beta / (1 - beta))
        else:

            def psi(u):
                return -mpmath.expm1(-mpmath.exp(u)) if u < 20 else mpmath.mpf(1)

            inverse = mpmath.log(-mpmath.log1p(-beta))
        z = [(v - min(L)) / tau for v in L]
        low, high = inverse, inverse + max(z)
        while high - low > mpmath.mpf(10) ** -22:
            middle = (low + high) / 2
            if sum(psi(middle - v) for v in z) < beta * len(z):
                low = middle
            else:
                high = middle
        return np.asarray([float(psi(low - v)) for v in z])


# --- soft quantile: accuracy


@settings(max_examples=250)
@given(problems())
def test_logistic_weights_have_mean_beta(problem):
    L, beta, tau = problem
    assert abs(mean_weight(soft_selection(L, beta, tau)) - beta) <= 1e-12 * beta


@settings(max_examples=150)
@given(problems(plain_values))
def test_logistic_weights_have_mean_beta_for_arbitrary_floats(problem):
    L, beta, tau = problem
    assert abs(mean_weight(soft_selection(L, beta, tau)) - beta) <= 1e-12 * beta


@settings(max_examples=200)
@given(problems())
def test_gumbel_weights_have_mean_beta(problem):
    L, beta, tau = problem
    assert abs(mean_weight(soft_selection(L, beta, tau, selector=GUMBEL)) - beta) <= 1e-12 * beta


@both_selectors
@settings(max_examples=100)
@given(problem=problems(lowest=1e-9))
def test_small_beta_is_met_to_rounding_of_one(selector, problem):
    L, beta, tau = problem
    assume(beta * L.size < 1 - 1e-3)
    error = abs(mean_weight(soft_selection(L, beta, tau, selector=selector)) - beta)
    assert error <= 1e-12 * beta


@pytest.mark.slow
@settings(max_examples=200)
@given(problems())
def test_logistic_weights_have_mean_beta_in_float32(problem):
    L, beta, tau = problem
    with np.errstate(over="ignore", under="ignore"):
        L = np.clip(L, -1e37, 1e37).astype(np.float32)
    selection = soft_selection(L, beta, min(max(tau, 1e-37), 1e37))
    assert selection.log_eta.dtype == selection.quantile.dtype == np.float32
    assert abs(mean_weight(selection) - beta) <= 1e-5 * beta


@pytest.mark.slow
@settings(max_examples=150)
@given(problems())
def test_gumbel_weights_have_mean_beta_in_float32(problem):
    L, beta, tau = problem
    with np.errstate(over="ignore", under="ignore"):
        L = np.clip(L, -1e37, 1e37).astype(np.float32)
    selection = soft_selection(L, beta, min(max(tau, 1e-37), 1e37), selector=GUMBEL)
    assert abs(mean_weight(selection) - beta) <= 1e-5 * beta


@both_selectors
@pytest.mark.parametrize("tau", [1e-3, 0.3, 10.0])
@pytest.mark.parametrize("beta", [0.013, 0.5, 0.9])
def test_weights_have_mean_beta_in_any_namespace(xp, selector, beta, tau):
    L = np.random.default_rng(3).normal(size=(4, 37))
    log_eta = xp.numpy(soft_selection(xp.array(L), beta, tau, selector=selector).log_eta)
    np.testing.assert_allclose(np.exp(log_eta).mean(axis=-1), beta, rtol=1e-12)


@settings(max_examples=40)
@given(st.builds(make_values, st.sampled_from(KINDS), st.integers(1, 10), st.integers(0, 1000)), st.data())
def test_logistic_weights_agree_with_bisection_in_50_digits(L, data):
    beta = data.draw(betas(L.size))
    tau = (float(np.ptp(L)) or 1.0) * 10.0 ** data.draw(st.floats(-5.0, 5.0))
    expected = reference_weights(L, beta, tau, "logistic")
    # all weights move the same way with the quantile: none is off by more than their sum
    weights = np.exp(soft_selection(L, beta, tau).log_eta)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=2e-12 * L.size * beta)


@settings(max_examples=25)
@given(st.builds(make_values, st.sampled_from(KINDS), st.integers(1, 10), st.integers(0, 1000)), st.data())
def test_gumbel_weights_agree_with_bisection_in_50_digits(L, data):
    beta = data.draw(betas(L.size))
    tau = (float(np.ptp(L)) or 1.0) * 10.0 ** data.draw(st.floats(-5.0, 5.0))
    expected = reference_weights(L, beta, tau, "gumbel")
    weights = np.exp(soft_selection(L, beta, tau, selector=GUMBEL).log_eta)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=2e-12 * L.size * beta)


@both_selectors
@settings(max_examples=40)
@given(N=sizes, seed=st.integers(0, 1000), beta=st.floats(0.02, 0.98), tau=st.floats(0.2, 20.0))
def test_soft_quantile_agrees_with_brentq(selector, N, seed, beta, tau):
    L = np.random.default_rng(seed).normal(size=N)
    psi = expit if selector is LOGISTIC else lambda u: -np.expm1(-np.exp(u))
    expected = brentq(lambda q: np.mean(psi((q - L) / tau)) - beta, -1e3, 1e2, xtol=1e-14, rtol=1e-14)
    np.testing.assert_allclose(soft_quantile(L, beta, tau, selector=selector), expected, rtol=1e-10, atol=1e-10)


def test_soft_quantile_is_that_of_soft_selection(xp):
    L = xp.array(np.random.default_rng(0).normal(size=(3, 20)))
    q = xp.numpy(soft_quantile(L, 0.3, 0.1))
    assert q.shape == (3,)
    np.testing.assert_array_equal(q, xp.numpy(soft_selection(L, 0.3, 0.1).quantile)[:, 0])


@both_selectors
@pytest.mark.parametrize("tau", [1e-300, 1e-3, 1.0, 1e300])
def test_one_particle_has_weight_beta(xp, selector, tau):
    log_eta = xp.numpy(soft_selection(xp.array([7.0]), 0.3, tau, selector=selector).log_eta)
    np.testing.assert_allclose(np.exp(log_eta), 0.3, rtol=1e-12)


@both_selectors
def test_beta_one_selects_every_particle(xp, selector):
    log_eta = xp.numpy(soft_selection(xp.array([3.0, 1.0, 2.0]), 1.0, 0.1, selector=selector).log_eta)
    np.testing.assert_allclose(np.exp(log_eta), 1.0, rtol=1e-12)


@both_selectors
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_and_shapes_are_kept(xp, selector, dtype):
    L = xp.array(np.random.default_rng(0).normal(size=(2, 3, 9)), dtype=dtype)
    selection = soft_selection(L, 0.4, 0.5, selector=selector)
    assert selection.quantile.shape == (2, 3, 1)
    assert selection.log_eta.shape == (2, 3, 9)
    assert selection.quantile.dtype == selection.log_eta.dtype == L.dtype


@both_selectors
@pytest.mark.parametrize("tau", [1e-300, 1e-5, 1.0])
def test_values_around_the_largest_float_give_no_nan(xp, selector, tau):
    L = xp.array([-1.7e308, 0.0, 1.7e308, 1e300, -1e300])
    selection = soft_selection(L, 0.5, tau, selector=selector)
    assert not np.isnan(xp.numpy(selection.log_eta)).any()
    assert np.isfinite(xp.numpy(selection.quantile)).all()


@both_selectors
@given(problem=problems())
def test_log_weights_fall_with_the_value_and_are_never_nan(selector, problem):
    L, beta, tau = problem
    log_eta = soft_selection(L, beta, tau, selector=selector).log_eta
    assert not np.isnan(log_eta).any()
    assert (log_eta <= 0).all()
    ordered = log_eta[np.argsort(L)]
    assert (ordered[1:] <= ordered[:-1] * (1.0 - 1e-14)).all()  # to rounding


# --- soft quantile: symmetries

dyadic_values = hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-8000, 8000)).map(lambda v: v / 8.0)


@both_selectors
@given(L=dyadic_values, shift=st.integers(-(10**6), 10**6), beta=st.floats(0.01, 0.99), tau=st.floats(1e-6, 1e6))
def test_shifting_the_values_leaves_the_weights_to_the_bit(selector, L, shift, beta, tau):
    base = soft_selection(L, beta, tau, selector=selector)
    moved = soft_selection(L + shift, beta, tau, selector=selector)
    np.testing.assert_array_equal(moved.log_eta, base.log_eta)


@both_selectors
@given(L=dyadic_values, shift=st.integers(-(10**6), 10**6), beta=st.floats(0.01, 0.99), tau=st.floats(1e-6, 1e6))
def test_shifting_the_values_shifts_the_quantile(selector, L, shift, beta, tau):
    base = soft_selection(L, beta, tau, selector=selector).quantile[0]
    moved = soft_selection(L + shift, beta, tau, selector=selector).quantile[0]
    scale = max(abs(moved), abs(base), abs(shift), np.max(np.abs(L)))
    assert abs(moved - (base + shift)) <= 4e-16 * scale + 1e-300


@both_selectors
@given(L=dyadic_values, k=st.integers(-900, 900), beta=st.floats(0.01, 0.99), tau=st.floats(1e-6, 1e6))
def test_scaling_by_a_power_of_two_is_exact(selector, L, k, beta, tau):
    scale = 2.0**k
    base = soft_selection(L, beta, tau, selector=selector)
    scaled = soft_selection(L * scale, beta, tau * scale, selector=selector)
    np.testing.assert_array_equal(scaled.log_eta, base.log_eta)
    np.testing.assert_allclose(scaled.quantile, base.quantile * scale, rtol=1e-15)


@both_selectors
@given(problem=problems(), seed=st.integers(0, 1000))
def test_permuting_the_values_permutes_the_weights_to_the_bit(selector, problem, seed):
    L, beta, tau = problem
    order = np.random.default_rng(seed).permutation(L.size)
    base = soft_selection(L, beta, tau, selector=selector)
    permuted = soft_selection(L[order], beta, tau, selector=selector)
    np.testing.assert_array_equal(permuted.log_eta, base.log_eta[order])
    assert permuted.quantile == base.quantile


@both_selectors
@given(seed=st.integers(0, 1000), N=st.integers(2, 100), beta=st.floats(0.01, 1.0), tau=exponents.map(lambda e: 10**e))
def test_ties_share_equal_weight(selector, seed, N, beta, tau):
    L = np.random.default_rng(seed).integers(0, 4, size=N).astype(float)
    log_eta = soft_selection(L, beta, tau, selector=selector).log_eta
    for value in np.unique(L):
        assert np.unique(log_eta[value == L]).size == 1


def test_ties_across_the_quantile_share_what_is_left(xp):
    # beta N = 2: the minimum has weight 1, the three tied values share the other 1
    log_eta = xp.numpy(soft_selection(xp.array([1.0, 0.0, 1.0, 1.0]), 0.5, 1e-3).log_eta)
    np.testing.assert_allclose(np.exp(log_eta), [1 / 3, 1.0, 1 / 3, 1 / 3], rtol=1e-12)


@both_selectors
def test_equal_values_all_get_weight_beta(xp, selector):
    log_eta = xp.numpy(soft_selection(xp.array([2.5] * 50), 0.1, 1e-3, selector=selector).log_eta)
    np.testing.assert_allclose(np.exp(log_eta), 0.1, rtol=1e-12)


# --- soft quantile: limits in tau


@both_selectors
@given(seed=st.integers(0, 1000), N=st.integers(1, 100), data=st.data())
def test_tau_to_zero_is_the_hard_selection(selector, seed, N, data):
    L = np.random.default_rng(seed).permutation(N) * 0.25
    beta = data.draw(st.integers(1, N)) / N
    soft = soft_selection(L, beta, 1e-300, selector=selector).log_eta
    hard = hard_selection(L, beta).log_eta
    np.testing.assert_allclose(np.exp(soft), np.exp(hard), rtol=0, atol=1e-12)


@both_selectors
def test_tau_to_zero_is_the_hard_selection_in_any_namespace(xp, selector):
    L = xp.array([[4.0, 1.0, 3.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    log_eta = xp.numpy(soft_selection(L, 0.5, 1e-300, selector=selector).log_eta)
    np.testing.assert_allclose(np.exp(log_eta), [[0, 1, 0, 1], [1, 1, 0, 0]], rtol=0, atol=1e-12)


@both_selectors
@given(seed=st.integers(0, 1000), N=st.integers(1, 300), beta=st.floats(0.01, 0.99))
def test_tau_to_infinity_gives_every_particle_weight_beta(selector, seed, N, beta):
    L = np.random.default_rng(seed).normal(size=N)
    log_eta = soft_selection(L, beta, 1e300, selector=selector).log_eta
    np.testing.assert_allclose(np.exp(log_eta), beta, rtol=1e-12)


@both_selectors
@given(
    seed=st.integers(0, 1000),
    N=st.integers(1, 50),
    first=st.floats(0.05, 0.9),
    more=st.floats(0.01, 0.05),
    tau=st.floats(0.1, 10.0),
)
def test_quantile_grows_with_beta(selector, seed, N, first, more, tau):
    L = np.random.default_rng(seed).normal(size=N)
    q = [soft_quantile(L, beta, tau, selector=selector) for beta in (first, first + more)]
    assert q[0] < q[1]


# --- soft quantile: batches, failures, start


def assert_same_weights(log_eta, expected, beta, rtol=2e-12):
    n = np.isfinite(expected).sum()
    np.testing.assert_allclose(np.exp(log_eta), np.exp(expected), rtol=0, atol=rtol * max(n, 1) * beta)


@given(
    seed=st.integers(0, 1000),
    N=st.integers(1, 60),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    data=st.data(),
)
def test_each_row_of_a_batch_is_as_that_row_alone(seed, N, kinds, data):
    L = np.stack([make_values(kind, N, seed + i) for i, kind in enumerate(kinds)])
    beta = data.draw(betas(N))
    tau = np.asarray([[data.draw(softnesses(row))] for row in L])
    together = soft_selection(L, beta, tau)
    for i in range(len(kinds)):
        alone = soft_selection(L[i], beta, float(tau[i, 0]))
        np.testing.assert_allclose(np.exp(together.log_eta[i]), np.exp(alone.log_eta), rtol=0, atol=2.5e-12 * N * beta)


@both_selectors
def test_quantiles_of_a_batch_are_those_of_its_rows(xp, selector):
    L = np.random.default_rng(5).normal(size=(2, 3, 41))
    q = xp.numpy(soft_quantile(xp.array(L), 0.33, 0.5, selector=selector))
    expected = [[float(soft_quantile(row, 0.33, 0.5, selector=selector)) for row in rows] for rows in L]
    np.testing.assert_allclose(q, expected, rtol=1e-12)


def test_each_row_has_its_own_softness(xp):
    L = np.random.default_rng(5).normal(size=41)
    tau = [[1e-6], [0.3], [100.0]]
    log_eta = xp.numpy(soft_selection(xp.array([L] * 3), 0.33, xp.array(tau)).log_eta)
    for row, softness in zip(log_eta, tau, strict=True):
        assert_same_weights(row, soft_selection(L, 0.33, softness[0]).log_eta, 0.33)


@both_selectors
def test_failed_evaluations_have_weight_zero(xp, selector):
    L = xp.array([[1.0, math.inf, 0.5, math.inf], [1.0, 2.0, math.inf, 0.0]])
    log_eta = xp.numpy(soft_selection(L, 0.5, 0.1, selector=selector).log_eta)
    np.testing.assert_array_equal(log_eta == -math.inf, np.isinf(xp.numpy(L)))


@both_selectors
def test_failed_evaluations_do_not_count_in_the_mean(xp, selector):
    rng = np.random.default_rng(1)
    L = rng.normal(size=(6, 30))
    for i in range(6):
        L[i, rng.permutation(30)[: 5 * i]] = math.inf  # 0, 5, ..., 25 failures
    log_eta = xp.numpy(soft_selection(xp.array(L), 0.37, 0.2, selector=selector).log_eta)
    counts = np.isfinite(L).sum(axis=-1)
    np.testing.assert_allclose(np.exp(log_eta).sum(axis=-1) / counts, 0.37, rtol=1e-12)


@given(
    problem=problems(st.builds(make_values, st.sampled_from(KINDS), st.integers(1, 60), st.integers(0, 1000))),
    failures=st.integers(1, 40),
    seed=st.integers(0, 1000),
)
def test_the_others_are_weighted_as_if_failures_were_absent(problem, failures, seed):
    L, beta, tau = problem
    padded = np.concatenate([L, np.full(failures, math.inf)])
    order = np.random.default_rng(seed).permutation(padded.size)
    log_eta = soft_selection(padded[order], beta, tau).log_eta
    kept = order < L.size
    assert (log_eta[~kept] == -math.inf).all()
    expected = soft_selection(L, beta, tau).log_eta[order[kept]]
    np.testing.assert_allclose(np.exp(log_eta[kept]), np.exp(expected), rtol=0, atol=2.5e-12 * L.size * beta)


def test_one_evaluation_that_did_not_fail_has_weight_beta(xp):
    L = xp.array([[math.inf, math.inf, 3.0], [1.0, 2.0, 3.0]])
    log_eta = xp.numpy(soft_selection(L, 0.25, 0.1).log_eta)
    np.testing.assert_allclose(np.exp(log_eta[0]), [0.0, 0.0, 0.25], rtol=1e-12)


@settings(max_examples=150)
@given(problem=problems(), start=st.one_of(st.floats(-1e300, 1e300), st.floats(-10, 10)))
@example(problem=(np.arange(5.0), 0.5, 1e-300), start=1e300)
@example(problem=(np.arange(5.0), 0.5, 1e-300), start=-1e300)
@example(problem=(np.arange(5.0), 0.5, 0.1), start=math.inf)
@example(problem=(np.arange(5.0), 0.5, 0.1), start=-math.inf)
def test_any_start_gives_the_weights_of_a_cold_start(problem, start):
    L, beta, tau = problem
    warm = soft_selection(L, beta, tau, start=np.asarray([start]))
    cold = soft_selection(L, beta, tau)
    np.testing.assert_allclose(np.exp(warm.log_eta), np.exp(cold.log_eta), rtol=0, atol=2.5e-12 * L.size * beta)


@pytest.mark.parametrize("start", [-1e300, -3.0, 0.0, 0.2, 5.0, 1e300])
@both_selectors
def test_any_start_gives_the_quantile_of_a_cold_start(xp, selector, start):
    L = np.random.default_rng(2).normal(size=(3, 50))
    warm = soft_selection(xp.array(L), 0.21, 0.3, selector=selector, start=xp.array(np.full((3, 1), start)))
    cold = soft_selection(L, 0.21, 0.3, selector=selector)
    np.testing.assert_allclose(xp.numpy(warm.quantile), cold.quantile, rtol=1e-11)


def test_known_order_statistics_give_the_same_selection(xp):
    L = xp.array(np.random.default_rng(2).normal(size=(3, 50)))
    given_order = soft_selection(L, 0.21, 0.3, order=order_statistics(L, 0.21))
    np.testing.assert_array_equal(xp.numpy(given_order.log_eta), xp.numpy(soft_selection(L, 0.21, 0.3).log_eta))


def test_inputs_are_not_modified(xp):
    L, tau, start = np.random.default_rng(0).normal(size=(3, 20)), np.full((3, 1), 0.1), np.zeros((3, 1))
    L[1, 4] = math.inf
    arrays = xp.array(L), xp.array(tau), xp.array(start)
    soft_selection(arrays[0], 0.3, arrays[1], start=arrays[2])
    hard_selection(arrays[0], 0.3)
    for array, original in zip(arrays, (L, tau, start), strict=True):
        np.testing.assert_array_equal(xp.numpy(array), original)


def test_memory_order_and_strides_do_not_matter():
    L = np.random.default_rng(0).normal(size=(40, 6))
    expected = soft_selection(np.ascontiguousarray(L[::2, ::-1].T), 0.3, 0.1)
    actual = soft_selection(L[::2, ::-1].T, 0.3, 0.1)
    np.testing.assert_allclose(actual.log_eta, expected.log_eta, rtol=1e-11)


# --- hard quantile


@settings(max_examples=200)
@given(L=st.one_of(values, plain_values), beta=st.floats(1e-9, 1.0))
def test_hard_quantile_is_the_sorted_value_of_rank_ceil_beta_n(L, beta):
    expected = Fraction(beta) * L.size
    assume(abs(expected - round(expected)) > Fraction(1, 10**9) * (expected + 1) or expected < 0.5)
    assert hard_quantile(L, beta) == np.sort(L)[math.ceil(expected) - 1]


@pytest.mark.parametrize("N", [1, 2, 7, 100, 300])
def test_hard_quantile_takes_rank_k_for_beta_k_over_n(N):
    L = np.random.default_rng(0).permutation(N).astype(float)
    for k in range(1, N + 1):
        assert hard_quantile(L, k / N) == k - 1


def test_rounding_of_beta_n_does_not_raise_the_rank():
    assert 0.07 * 100 > 7
    assert hard_quantile(np.arange(100.0), 0.07) == 6


def test_hard_quantile_of_a_batch_with_ties_and_failures(xp):
    L = xp.array([[1.0, 1.0, 2.0, 1.0], [4.0, math.inf, 2.0, 3.0], [math.inf, math.inf, math.inf, 5.0]])
    np.testing.assert_array_equal(xp.numpy(hard_quantile(L, 0.5)), [1.0, 3.0, 5.0])


def test_hard_selection_includes_all_ties(xp):
    log_eta = xp.numpy(hard_selection(xp.array([[3.0, 1.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0]]), 0.5).log_eta)
    np.testing.assert_array_equal(np.exp(log_eta), [[0, 1, 1, 1], [1, 1, 1, 1]])


def test_hard_selection_never_includes_failures(xp):
    log_eta = xp.numpy(hard_selection(xp.array([math.inf, 1.0, math.inf, 0.0]), 1.0).log_eta)
    np.testing.assert_array_equal(np.exp(log_eta), [0, 1, 0, 1])


@given(L=st.one_of(values, plain_values), beta=st.floats(1e-9, 1.0))
def test_hard_selection_is_the_indicator_of_values_up_to_the_quantile(L, beta):
    selection = hard_selection(L, beta)
    np.testing.assert_array_equal(np.exp(selection.log_eta), selection.quantile >= L)
    assert np.exp(selection.log_eta).sum() >= math.ceil(beta * L.size * (1 - 1e-9))


def test_order_statistics_with_failures_in_some_rows(xp):
    order = order_statistics(xp.array([[3.0, 1.0, 2.0, math.inf], [4.0, 3.0, 2.0, 1.0]]), 0.5)
    np.testing.assert_array_equal(xp.numpy(order.count), [[3], [4]])
    np.testing.assert_array_equal(xp.numpy(order.rank), [[2], [2]])
    np.testing.assert_array_equal(xp.numpy(order.first), [[1], [1]])
    np.testing.assert_array_equal(xp.numpy(order.at), [[2], [2]])
    np.testing.assert_array_equal(xp.numpy(order.after), [[3], [3]])


def test_order_statistics_without_a_next_value(xp):
    order = order_statistics(xp.array([[3.0, 1.0, 2.0]]), 1.0)
    np.testing.assert_array_equal(xp.numpy(order.after), [[math.inf]])


# --- selectors


def laplace():
    """The Laplace distribution: psi(u) = exp(u)/2 on the left and 1 - exp(-u)/2 on the right."""

    def log_psi(u, xp):
        return xp.where(u < 0, u - math.log(2.0), xp.log1p(-0.5 * xp.exp(-xp.maximum(u, 0.0))))

    def psi_and_slope(u, xp):
        half = 0.5 * xp.exp(-xp.abs(u))
        return xp.where(u < 0, half, 1.0 - half), half

    def inverse(p, xp):
        return xp.where(p < 0.5, xp.log(2.0 * xp.minimum(p, 0.5)), -xp.log(2.0 * (1.0 - xp.maximum(p, 0.5))))

    return Selector("laplace", log_psi, psi_and_slope, inverse)


@pytest.mark.parametrize("selector", [LOGISTIC, GUMBEL, laplace()], ids=lambda s: s.name)
def test_check_selector_accepts(selector):
    check_selector(selector)


@pytest.mark.parametrize("selector", [GUMBEL, laplace()], ids=lambda s: s.name)
def test_check_selector_accepts_in_any_namespace(xp, selector):
    check_selector(selector, xp.module)


@settings(max_examples=100)
@given(problem=problems())
def test_a_custom_selector_plugs_in(problem):
    L, beta, tau = problem
    assert abs(mean_weight(soft_selection(L, beta, tau, selector=laplace())) - beta) <= 1e-12 * beta


def test_a_custom_selector_plugs_in_in_any_namespace(xp):
    L = xp.array(np.random.default_rng(0).normal(size=(2, 30)))
    log_eta = xp.numpy(soft_selection(L, 0.3, 0.2, selector=laplace()).log_eta)
    np.testing.assert_allclose(np.exp(log_eta).mean(axis=-1), 0.3, rtol=1e-12)


@both_selectors
def test_log_psi_is_right_far_to_the_left(xp, selector):
    u = np.asarray([-1e300, -1e4, -745.0, -50.0])
    np.testing.assert_allclose(xp.numpy(selector.log_psi(xp.array(u), xp.module)), u, rtol=1e-14)


@both_selectors
def test_log_psi_agrees_with_50_digits(xp, selector):
    u = np.linspace(-60.0, 4.0, 257)
    with mpmath.workdps(50):
        exact = {
            "logistic": lambda v: -mpmath.log1p(mpmath.exp(-mpmath.mpf(v))),
            "gumbel": lambda v: mpmath.log(-mpmath.expm1(-mpmath.exp(mpmath.mpf(v)))),
        }[selector.name]
        expected = [float(exact(float(v))) for v in u]
    np.testing.assert_allclose(xp.numpy(selector.log_psi(xp.array(u), xp.module)), expected, rtol=1e-13, atol=1e-16)


@both_selectors
@given(e=st.floats(-300.0, -0.01))
def test_inverse_undoes_log_psi(selector, e):
    p = np.asarray([10.0**e])
    u = selector.inverse(p, np)
    np.testing.assert_allclose(selector.log_psi(u, np), np.log(p), rtol=1e-12)


def test_check_selector_rejects_a_gaussian():
    gaussian = Selector(
        "gaussian",
        lambda u, xp: log_ndtr(u),
        lambda u, xp: (ndtr(u), np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)),
        lambda p, xp: ndtri(p),
    )
    with pytest.raises(ValueError, match=r"selector 'gaussian'.*left tail"):
        check_selector(gaussian)


def test_check_selector_rejects_an_arctan():
    def psi(u):
        return np.where(u < 0, np.arctan2(1.0, -u), math.pi - np.arctan2(1.0, u)) / math.pi

    arctan = Selector(
        "arctan",
        lambda u, xp: np.log(psi(u)),
        lambda u, xp: (psi(u), 1.0 / (math.pi * (1.0 + u * u))),
        lambda p, xp: np.tan(math.pi * (p - 0.5)),
    )
    with pytest.raises(ValueError, match=r"selector 'arctan'.*(left tail|tend to 0)"):
        check_selector(arctan)


def test_check_selector_rejects_a_tail_of_another_rate():
    half = Selector(
        "half",
        lambda u, xp: LOGISTIC.log_psi(0.5 * u, xp),
        lambda u, xp: (expit(0.5 * u), 0.5 * expit(0.5 * u) * expit(-0.5 * u)),
        lambda p, xp: 2.0 * LOGISTIC.inverse(p, xp),
    )
    with pytest.raises(ValueError, match="left tail must be that of exp"):
        check_selector(half)


def test_check_selector_rejects_a_function_that_falls_somewhere():
    def psi_and_slope(u, xp):
        psi, slope = LOGISTIC.psi_and_slope(u, xp)
        bump = 0.2 * np.exp(-((u - 2.0) ** 2) * 4.0)
        return psi - bump, slope + 8.0 * (u - 2.0) * bump

    wavy = replace(
        LOGISTIC, name="wavy", psi_and_slope=psi_and_slope, log_psi=lambda u, xp: np.log(psi_and_slope(u, xp)[0])
    )
    with pytest.raises(ValueError, match=r"selector 'wavy': psi must increase strictly \(fails at u = "):
        check_selector(wavy)


def test_check_selector_rejects_values_outside_0_and_1():
    def psi_and_slope(u, xp):
        psi, slope = LOGISTIC.psi_and_slope(u, xp)
        return 1.5 * psi, 1.5 * slope

    with pytest.raises(ValueError, match=r"psi must lie in \(0, 1\)"):
        check_selector(replace(LOGISTIC, name="large", psi_and_slope=psi_and_slope))


def test_check_selector_rejects_a_limit_other_than_1():
    def psi_and_slope(u, xp):
        psi, slope = LOGISTIC.psi_and_slope(u, xp)
        return 0.5 * psi, 0.5 * slope + 1e-300

    short = replace(LOGISTIC, name="short", psi_and_slope=psi_and_slope)
    with pytest.raises(ValueError, match=r"increase strictly|tend to 1"):
        check_selector(short)


@pytest.mark.parametrize("factor", [0.5, 1.01, 2.0])
def test_check_selector_rejects_a_slope_that_is_not_the_derivative(factor):
    def psi_and_slope(u, xp):
        psi, slope = LOGISTIC.psi_and_slope(u, xp)
        return psi, factor * slope

    with pytest.raises(ValueError, match="derivative of psi"):
        check_selector(replace(LOGISTIC, name="steep", psi_and_slope=psi_and_slope))


def test_check_selector_rejects_a_log_psi_of_another_function():
    shifted = replace(LOGISTIC, name="shifted", log_psi=lambda u, xp: LOGISTIC.log_psi(u + 0.01, xp))
    with pytest.raises(ValueError, match="log_psi must be the logarithm of psi"):
        check_selector(shifted)


def test_check_selector_rejects_a_wrong_inverse():
    with pytest.raises(ValueError, match="inverse must return"):
        check_selector(replace(LOGISTIC, name="swapped", inverse=GUMBEL.inverse))


def test_check_selector_rejects_a_step_too_steep():
    def psi_and_slope(u, xp):
        step = 0.25 * (1.0 + erf(1e6 * (u - 1.0)))
        slope = 0.5e6 / math.sqrt(math.pi) * np.exp(-((1e6 * (u - 1.0)) ** 2))
        psi, psi_slope = LOGISTIC.psi_and_slope(u, xp)
        return 0.5 * psi + step, 0.5 * psi_slope + slope

    with pytest.raises(ValueError, match=r"Lipschitz|derivative"):
        check_selector(replace(LOGISTIC, name="step", psi_and_slope=psi_and_slope))
