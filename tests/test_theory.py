import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import exp1, expit, logit

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning
from sklearn_scb2o.particles import (
    NOISES,
    SELECTORS,
    consensus_point,
    coordinate_noise,
    diffusion,
    euler_maruyama_step,
    gibbs_weights,
    soft_selection,
)
from sklearn_scb2o.theory import (
    Assumptions,
    Localization,
    almost_sure_rate,
    consensus_ratio,
    coupled_parameters,
    largest_tau,
    leakage_bound,
    localize,
    mean_square_rate,
    time_horizon,
)

every_noise = pytest.mark.parametrize("noise", NOISES)
PARAMETERS = {
    "sigma": st.floats(0.05, 3.0),
    "d": st.integers(1, 20),
    "lam": st.floats(0.1, 5.0),
    "noise": st.sampled_from(NOISES),
}
# L = min(||x| - 1|, 1), G = min(|x - 1|, 3): Theta = {-1, 1}, solution 1
LINE = {"L_L": 1, "eta_L": 1, "nu_L": 1, "L_inf": 0.9}
LINE |= {"L_G": 1, "eta_G": 1, "nu_G": 1, "G_inf": 2.9, "R_G": 0.5, "G_range": 3}
WHERE = {"r_G": 0.3, "h_L": 0.3, "delta_lev": 0.27, "u": 1.0, "L_L": 1.0, "G_range": 3.0, "r": 0.01}
WHERE |= {"leakage_limit": 0.02}


def lower(x):
    return np.minimum(np.abs(np.abs(x) - 1), 1.0)


def upper(x):
    return np.minimum(np.abs(x - 1), 3.0)


def half_mean_square(x):
    return 0.5 * float(np.mean(np.sum(x * x, axis=-1)))


# --- rates of contraction


@every_noise
@pytest.mark.parametrize(("d", "sigma", "dt"), [(1, 1.4, 0.1), (2, 0.5, 0.5), (10, 0.4, 0.02), (30, 2.0, 0.1)])
def test_mean_square_rate_agrees_with_monte_carlo(noise, d, sigma, dt):
    rng = np.random.default_rng(5)
    x = np.broadcast_to(rng.standard_normal(d), (1_000_000 // d, d))
    moved = euler_maruyama_step(x, np.zeros(d), rng.standard_normal(x.shape), lam=1.0, sigma=sigma, dt=dt, noise=noise)
    ratio = np.sum(moved * moved, axis=-1) / (x[0] @ x[0])
    error = ratio.mean() - math.exp(-mean_square_rate(sigma, d, 1.0, dt, noise=noise) * dt)
    assert abs(error) <= 5 * ratio.std() / math.sqrt(len(ratio))


@every_noise
@pytest.mark.parametrize("d", [1, 2, 5])
def test_almost_sure_rate_is_that_of_the_median_path(noise, d):
    rng, dt, steps = np.random.default_rng(3), 0.02, 1000
    x = np.ones((1000, d))
    for _ in range(steps):
        x = euler_maruyama_step(x, np.zeros(d), rng.standard_normal(x.shape), sigma=0.8, dt=dt, noise=noise)
    # one coordinate: the norm of several is that of the slowest, and catches up with the limit only slowly
    measured = -2.0 * np.median(np.log(np.abs(x[:, 0]))) / (steps * dt)
    assert measured == pytest.approx(almost_sure_rate(0.8, d, 1.0, dt, noise=noise), abs=0.1)


@given(**PARAMETERS)
def test_rates_of_small_steps_are_those_of_continuous_time(sigma, d, lam, noise):
    s, k = coordinate_noise(sigma, d, noise)
    for rate in (mean_square_rate, almost_sure_rate):
        limit = rate(sigma, d, lam, noise=noise)
        for dt in (1e-3, 1e-4, 1e-5):
            assert abs(rate(sigma, d, lam, dt, noise=noise) - limit) <= 3 * dt * (lam + k * s * s) ** 2 + 1e-6


@given(**PARAMETERS, dt=st.one_of(st.just(0.0), st.floats(1e-4, 1.0)))
def test_nearly_every_path_falls_at_least_as_fast_as_the_mean_square(sigma, d, lam, noise, dt):
    slack = 1e-6
    assert almost_sure_rate(sigma, d, lam, dt, noise=noise) >= mean_square_rate(sigma, d, lam, dt, noise=noise) - slack


@given(**PARAMETERS, dt=st.one_of(st.just(0.0), st.floats(1e-4, 1.0)), factor=st.floats(1.01, 3.0))
def test_mean_square_rate_falls_with_noise(sigma, d, lam, noise, dt, factor):
    assert mean_square_rate(factor * sigma, d, lam, dt, noise=noise) < mean_square_rate(sigma, d, lam, dt, noise=noise)


@given(**PARAMETERS, factor=st.floats(1.01, 3.0))
def test_rates_of_continuous_time_rise_with_the_drift(sigma, d, lam, noise, factor):
    for rate in (mean_square_rate, almost_sure_rate):
        assert rate(sigma, d, factor * lam, noise=noise) > rate(sigma, d, lam, noise=noise)


def test_continuous_rates_in_closed_form():
    assert mean_square_rate(0.5, 4, 1.5, noise="isotropic") == 3.0 - 4 * 0.25
    assert mean_square_rate(0.5, 4, 1.5, noise="scaled") == 3.0 - 0.25
    assert mean_square_rate(0.5, 4, 1.5, noise="anisotropic") == 3.0 - 0.25
    assert almost_sure_rate(0.5, 4, 1.5, noise="isotropic") == 3.0 - 2 * 0.25
    assert almost_sure_rate(0.5, 4, 1.5, noise="scaled") == 3.0 - 0.125
    assert almost_sure_rate(0.5, 4, 1.5, noise="anisotropic") == 3.0 + 0.25


@pytest.mark.parametrize("dt", [1e-6, 7e-7, 1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_almost_sure_rate_in_two_dimensions_is_an_exponential_integral(sigma, dt):
    half = (1.0 - dt) ** 2 / (2.0 * sigma**2 * dt)  # E log chi'^2_2(2 half) = log(2 half) + E_1(half)
    expected = -(2.0 * math.log1p(-dt) + exp1(half)) / dt
    assert almost_sure_rate(sigma, 2, 1.0, dt, noise="isotropic") == pytest.approx(expected, abs=3e-6 * sigma**4 + 1e-7)


@every_noise
def test_mean_square_contracts_up_to_the_step_of_its_documentation(noise):
    s, k = coordinate_noise(0.4, 3, noise)
    limit = (2.0 * 1.5 - k * s * s) / 1.5**2
    assert mean_square_rate(0.4, 3, 1.5, 0.999 * limit, noise=noise) > 0
    assert mean_square_rate(0.4, 3, 1.5, 1.001 * limit, noise=noise) < 0


def test_a_full_step_without_noise_contracts_at_once():
    assert mean_square_rate(0.0, 3, 1.0, 1.0, noise="isotropic") == math.inf
    assert almost_sure_rate(0.0, 3, 1.0, 1.0, noise="isotropic") == math.inf


@every_noise
@pytest.mark.parametrize("d", [1, 3])
def test_coordinate_noise_is_that_of_the_diffusion(noise, d):
    z = np.random.default_rng(0).normal(size=d)
    s, k = coordinate_noise(1.7, d, noise)
    trace = 1.7**2 * np.sum(np.broadcast_to(diffusion(z, noise), d) ** 2)
    assert k * s * s * (z @ z) == pytest.approx(trace)


@every_noise
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
def test_optimizer_warns_exactly_where_the_almost_sure_rate_is_negative(noise, sigma):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SCB2OOptimizer([(-1, 1)] * 3, sigma=sigma, dt=0.1, noise=noise)
    expands = almost_sure_rate(sigma, 3, 1.0, 0.1, noise=noise) < 0
    assert [w.category for w in caught] == [SCB2OWarning] * expands


# --- time horizon


@every_noise
def test_frozen_consensus_reaches_epsilon_at_the_horizon_without_allowance(noise):
    # m = theta*, so V falls at the full rate: at (1 - vartheta) T*
    d, sigma, dt = 3, 0.3, 0.01
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20_000, d))
    V0, epsilon = half_mean_square(x), 0.05
    T = time_horizon(V0, epsilon, sigma, d, 1.0, vartheta=0.5, noise=noise)
    for _ in range(round(0.5 * T / dt)):
        x = euler_maruyama_step(x, np.zeros(d), rng.standard_normal(x.shape), sigma=sigma, dt=dt, noise=noise)
    assert half_mean_square(x) == pytest.approx(epsilon, rel=0.05)


@pytest.mark.parametrize("vartheta", [0.2, 0.8])
def test_consensus_within_its_ratio_keeps_the_time_horizon(vartheta):
    d, sigma, dt, epsilon = 2, 0.5, 0.01, 0.05
    rng = np.random.default_rng(2)
    x = rng.normal(size=(5_000, d))
    V0 = half_mean_square(x)
    c = consensus_ratio(vartheta, sigma, d, 1.0, noise="isotropic")
    T = time_horizon(V0, epsilon, sigma, d, 1.0, vartheta=vartheta, noise="isotropic")
    t = 0.0
    while half_mean_square(x) > epsilon:
        mean = x.mean(axis=0)  # the worst consensus pulls away from the solution
        m = c * math.sqrt(half_mean_square(x)) * mean / np.linalg.norm(mean)
        x = euler_maruyama_step(x, m, rng.standard_normal(x.shape), sigma=sigma, dt=dt, noise="isotropic")
        t += dt
    assert (1 - vartheta) / (1 + vartheta / 2) * T - dt <= t <= T + dt


@given(
    sigma=st.floats(0.01, 1.4),
    d=st.integers(1, 20),
    noise=st.sampled_from(NOISES),
    vartheta=st.floats(0.01, 0.99),
)
def test_consensus_ratio_gives_up_no_more_than_its_part_of_the_rate(sigma, d, noise, vartheta):
    s, k = coordinate_noise(sigma, d, noise)
    trace = k * s * s
    assume(trace < 1.99)
    a = mean_square_rate(sigma, d, 1.0, noise=noise)
    c = consensus_ratio(vartheta, sigma, d, 1.0, noise=noise)
    b = math.sqrt(2) * (1.0 + trace)
    assert 0 < c <= 1
    assert a - b * c - 0.5 * trace * c * c >= (1 - vartheta) * a * (1 - 1e-12)
    assert a + b * c <= (1 + vartheta / 2) * a * (1 + 1e-12)


@given(ratio=st.floats(1.1, 100.0), vartheta=st.floats(0.01, 0.98), sigma=st.floats(0.1, 0.9))
def test_time_horizon_grows_with_accuracy_noise_and_allowance(ratio, vartheta, sigma):
    def horizon(ratio=ratio, vartheta=vartheta, sigma=sigma):
        return time_horizon(ratio, 1.0, sigma, 2, 1.0, vartheta=vartheta, noise="isotropic")

    assert horizon(ratio=1.1 * ratio) > horizon()
    assert horizon(vartheta=vartheta + 0.01) > horizon()
    assert horizon(sigma=1.05 * sigma) > horizon()
    assert horizon(ratio=ratio**2) == pytest.approx(2 * horizon())


# --- coupled parameters


@given(
    L_L=st.floats(0.1, 10),
    eta_L=st.floats(0.1, 10),
    nu_L=st.floats(0.5, 2),
    L_inf=st.floats(0.01, 10),
    L_G=st.floats(0.1, 10),
    eta_G=st.floats(0.1, 10),
    nu_G=st.floats(0.5, 2),
    G_inf=st.floats(0.01, 10),
    R_G=st.floats(0.01, 10),
    G_range=st.floats(0.1, 10),
    epsilon=st.floats(1e-2, 10),
    c=st.floats(0.01, 1),
)
def test_localization_meets_the_inequalities_of_the_proof(epsilon, c, **constants):
    a = Assumptions(**constants)
    w = localize(a, epsilon, c)  # checks delta_lev and r
    slack = 1 + 1e-12
    assert w.r_G <= a.R_G
    assert w.u + 2 * a.L_G * w.r_G <= a.G_inf * slack
    assert w.r_G + (w.u + 2 * a.L_G * w.r_G) ** a.nu_G / a.eta_G <= c * math.sqrt(epsilon) / 4 * slack
    assert w.h_L == min(a.L_inf, (a.eta_L * w.r_G) ** (1 / a.nu_L))
    K = 1 / w.leakage_limit
    assert math.sqrt(2) / K <= c / 4 * slack
    assert w.r_G / K <= c * math.sqrt(epsilon) / 8 * slack


def test_an_accuracy_beyond_floating_point_is_refused():
    with pytest.raises(ValueError, match=r"epsilon=1e-40.*choose a larger epsilon"):
        localize(Assumptions(**LINE), 1e-40, 0.1)


@pytest.mark.parametrize(("tau", "mass", "power"), [(0.003, 0.1, 1.0), (0.003, 1.0, 0.5), (0.002, 1e-3, 0.8)])
def test_coupled_parameters_are_those_of_the_selection_rule(tau, mass, power):
    w = Localization(**WHERE)
    m = min(mass / 2, tau**power)
    beta = 0.5 * m * expit((w.h_L - w.delta_lev - w.L_L * w.r) / tau)
    gamma = m * expit(logit(beta) - w.L_L * w.r / tau)
    alpha = math.log(1 / w.leakage_limit / gamma) / w.u
    leakage = math.exp(alpha * w.G_range) * expit(-w.delta_lev / tau) / gamma
    np.testing.assert_allclose(coupled_parameters(tau, mass, w, power=power), (alpha, beta, leakage), rtol=1e-10)


@given(share=st.floats(1e-6, 1.0), mass=st.floats(1e-6, 1.0), power=st.floats(0.1, 4.0))
def test_every_tau_up_to_the_largest_is_admissible(share, mass, power):
    w = Localization(**WHERE)
    most = largest_tau(mass, w, power=power)
    chosen = coupled_parameters(share * most, mass, w, power=power)
    assert 0 < chosen.beta < 1
    assert chosen.alpha > 0
    assert chosen.leakage <= w.leakage_limit
    with pytest.raises(ValueError, match=r"tau=.* must be in \(0, "):
        coupled_parameters(1.001 * most, mass, w, power=power)


@pytest.mark.parametrize("selector", ["logistic", "gumbel"])
def test_beta_falls_like_the_power_of_tau_and_alpha_grows_like_its_inverse(selector):
    w = Localization(**WHERE)
    taus = 1e-4 * 2.0 ** -np.arange(12)
    chosen = [coupled_parameters(tau, 0.5, w, power=1.5, selector=selector) for tau in taus]
    np.testing.assert_allclose([c.beta for c in chosen], 0.5 * taus**1.5, rtol=1e-6)
    np.testing.assert_allclose(chosen[-1].alpha * taus[-1], w.L_L * w.r / w.u, rtol=1e-3)
    assert chosen[-1].leakage == 0


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.1, 3.0), share=st.floats(0.1, 1.0), near=st.integers(10, 150))
def test_coupled_parameters_put_the_consensus_near_the_solution(seed, scale, share, near):
    epsilon, N = 0.01, 200
    c = consensus_ratio(0.5, 0.5, 1, 1.0, noise="isotropic")
    w = localize(Assumptions(**LINE), epsilon, c)
    mass = near / N
    tau = share * largest_tau(mass, w)
    alpha, beta, _ = coupled_parameters(tau, mass, w)
    rng = np.random.default_rng(seed)
    x = 1.0 + scale * rng.normal(size=N)
    x[: N // 3] = rng.choice([-1.0, 1.0 + 1.1 * w.r_G], N // 3)  # minimisers of L and other temptations
    x[-near:] = 1.0 + w.r * rng.uniform(-1, 1, near)
    V = 0.5 * np.mean((x - 1.0) ** 2)
    assume(epsilon < V)
    m = consensus_point(x[:, None], gibbs_weights(upper(x), alpha, soft_selection(lower(x), beta, tau).log_eta))
    assert abs(m[0] - 1.0) < c * math.sqrt(V)


@given(
    seed=st.integers(0, 10**6),
    alpha=st.floats(0.01, 3.0),
    tau=st.floats(0.01, 0.3),
    beta=st.floats(0.05, 0.5),
    selector=st.sampled_from(["logistic", "gumbel"]),
)
def test_leakage_bound_holds_for_particles(seed, alpha, tau, beta, selector):
    w = Localization(**WHERE | {"delta_lev": 0.15, "r": 0.018})
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], 500) + rng.choice([0.05, 0.5], 500) * rng.normal(size=500)
    mass = float(np.mean(np.abs(x - 1.0) <= w.r))
    selection = soft_selection(lower(x), beta, tau, selector=SELECTORS[selector])
    q = float(selection.quantile[0])
    assume(mass > 0)
    assume(q < w.h_L - w.delta_lev)
    weights = gibbs_weights(upper(x), alpha, selection.log_eta)
    leaked = weights[np.abs(np.abs(x) - 1.0) > w.r_G].sum()
    assert leaked <= leakage_bound(alpha, tau, q, mass, w, selector) * (1 + 1e-12)


@given(alpha=st.floats(0.1, 50), tau=st.floats(1e-3, 0.1), mass=st.floats(0.01, 0.9), q=st.floats(-0.1, 0.02))
def test_leakage_bound_rises_with_alpha_and_falls_with_mass_and_quantile(alpha, tau, mass, q):
    w = Localization(**WHERE)
    bound = leakage_bound(alpha, tau, q, mass, w)
    assert leakage_bound(1.1 * alpha, tau, q, mass, w) >= bound
    assert leakage_bound(alpha, tau, q, 1.1 * mass, w) <= bound
    assert leakage_bound(alpha, tau, q + 0.005, mass, w) <= bound


def test_leakage_vanishes_with_tau_and_says_nothing_for_large_alpha():
    w = Localization(**WHERE)
    assert leakage_bound(10.0, 1e-5, 0.02, 0.1, w) == 0
    assert leakage_bound(1e6, 0.01, 0.02, 0.1, w) == math.inf


# --- refused parameters

RATE = {"sigma": 0.5, "d": 2, "lam": 1.0, "noise": "isotropic"}
HORIZON = {**RATE, "V0": 1.0, "epsilon": 0.1}
COUPLED = {"tau": 1e-3, "mass": 0.1, "where": Localization(**WHERE)}
LEAKAGE = {**COUPLED, "alpha": 1.0, "quantile": 0.0}
REFUSED = [
    (mean_square_rate, RATE, "sigma", -1.0, "[0, inf)"),
    (mean_square_rate, RATE, "lam", 0.0, "(0, inf)"),
    (mean_square_rate, RATE, "d", 1.5, "at least 1"),
    (mean_square_rate, RATE, "dt", -0.1, "[0, inf)"),
    (mean_square_rate, RATE, "noise", "white", "isotropic"),
    (almost_sure_rate, RATE, "sigma", math.nan, "[0, inf)"),
    (almost_sure_rate, RATE, "d", 0, "at least 1"),
    (almost_sure_rate, RATE, "noise", "white", "isotropic"),
    (time_horizon, HORIZON, "V0", 0.0, "(0, inf)"),
    (time_horizon, HORIZON, "epsilon", 1.0, "(0, 1 = V0)"),
    (time_horizon, HORIZON, "vartheta", 1.0, "(0, 1)"),
    (time_horizon, HORIZON, "sigma", 1.0, "(0, 1)"),
    (time_horizon, {**HORIZON, "noise": "scaled"}, "sigma", 1.5, "(0, 1.414)"),
    (consensus_ratio, {**RATE, "vartheta": 0.5}, "vartheta", 0.0, "(0, 1)"),
    (consensus_ratio, {**RATE, "vartheta": 0.5}, "sigma", 0.0, "(0, inf)"),
    (Assumptions, LINE, "nu_L", 0.0, "(0, inf)"),
    (Localization, WHERE, "delta_lev", 0.3, "(0, 0.3 = h_L)"),
    (Localization, WHERE, "leakage_limit", 1.0, "(0, 1)"),
    (Localization, WHERE, "r", 0.1, "(0, 0.015 = the least of r_G"),
    (localize, {"assumptions": Assumptions(**LINE), "epsilon": 0.1, "ratio": 0.1}, "ratio", 1.1, "(0, 1]"),
    (coupled_parameters, COUPLED, "tau", 0.0, "(0, inf)"),
    (coupled_parameters, COUPLED, "tau", 0.1, "(0, 0.00"),
    (coupled_parameters, COUPLED, "mass", 1.1, "(0, 1]"),
    (coupled_parameters, COUPLED, "power", -1.0, "(0, inf)"),
    (coupled_parameters, COUPLED, "selector", "step", "logistic"),
    (largest_tau, {k: v for k, v in COUPLED.items() if k != "tau"}, "power", 300.0, "choose less"),
    (leakage_bound, LEAKAGE, "quantile", 0.05, "h_L - delta_lev"),
    (leakage_bound, LEAKAGE, "mass", 0.0, "(0, 1]"),
]


@pytest.mark.parametrize(("function", "accepted_values", "name", "value", "accepted"), REFUSED)
def test_a_value_outside_its_range_is_named_with_the_range(function, accepted_values, name, value, accepted):
    function(**accepted_values)
    with pytest.raises(ValueError) as caught:
        function(**{**accepted_values, name: value})
    assert f"{name}={value!r}" in str(caught.value)
    assert accepted in str(caught.value)
