import numpy as np
import pytest
from optimize_cases import BOX, advance, same, values
from scipy.special import log_expit

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning
from sklearn_scb2o.particles import SELECTORS, Selector

POSITIVE = [0.0, -1.0, np.nan, np.inf, -np.inf, "1", "x", b"1", [1.0, 2.0], {}, 1j]
NOT_NEGATIVE = [-1.0, -1e-300, np.nan, np.inf, "1", [1.0, 2.0]]
COUNT = [0, -1, 1.5, 10.0, "10", np.nan, True, [10]]

OUTSIDE = [
    *[(name, value, "inf)") for name in ("alpha", "tau", "xi", "lam", "dt", "noise_cap") for value in POSITIVE],
    *[
        (name, value, "[0, inf)")
        for name in ("sigma", "noise_floor", "lower_tol", "tol", "max_time")
        for value in NOT_NEGATIVE
    ],
    *[("beta", value, "(0, 1]") for value in [*POSITIVE, 1.0000001, 2]],
    *[("n_particles", value, "at least 2") for value in [*COUNT, 1, None]],
    *[("n_runs", value, "at least 1") for value in [*COUNT, None]],
    *[("batch_size", value, "at least 2") for value in [*COUNT, 1]],
    ("batch_size", 101, "[2, n_particles]"),
    *[(name, value, "at least 0") for name in ("max_iter", "max_evals") for value in [-1, 1.5, "10", True]],
    *[(name, value, "at least 1") for name in ("stagnation", "max_failed_batches") for value in COUNT],
    *[(name, value, "a number") for name in ("lower_max", "upper_max") for value in [np.nan, "1", "x", [1.0, 2.0]]],
    *[("selection", value, "soft") for value in ["Soft", "", None, 1, ["soft"]]],
    *[("noise", value, "isotropic") for value in ["Isotropic", None, 1]],
    *[("boundary", value, "reflect") for value in ["wrap", None, 1]],
    *[("selector", value, "logistic") for value in ["sigmoid", "", 1, None]],
    *[("x_scale", value, "positive") for value in [0.0, -1.0, np.nan, np.inf, "wide", [1.0, 2.0, 3.0], [1.0, 0.0]]],
    *[("x_opt", value, "(2,)") for value in [[0.0], [0.0, 0.0, 0.0], 1.0]],
    *[("dtype", value, "float32") for value in ["int64", "float16", int, "complex128", "nonsense"]],
    *[("random_state", value, "int") for value in [-1, 1.5, "0", True]],
    ("random_state", [1, 2], "n_runs=1"),
]


@pytest.mark.parametrize(("name", "value", "accepted"), OUTSIDE, ids=lambda v: repr(v)[:30])
def test_value_outside_its_range_is_named_with_the_range(name, value, accepted):
    with pytest.raises(ValueError) as caught:
        SCB2OOptimizer(BOX, **{name: value})
    assert name in str(caught.value)
    assert accepted in str(caught.value)
    if name not in ("x_opt", "batch_size") and not isinstance(value, list):
        assert repr(value) in str(caught.value)


def test_unknown_parameter_is_an_error():
    with pytest.raises(TypeError, match="particles"):
        SCB2OOptimizer(BOX, particles=10)


def test_single_particle_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"n_particles=1.*never moves"):
        SCB2OOptimizer(BOX, n_particles=1)


def test_tau_and_xi_exclude_each_other():
    with pytest.raises(ValueError, match=r"tau=0\.1 and xi=10"):
        SCB2OOptimizer(BOX, tau=0.1, xi=10)


@pytest.mark.parametrize(
    "options",
    [
        {"n_particles": np.int64(10), "max_iter": np.int32(3)},
        {"alpha": np.float32(2.0), "beta": np.float64(0.5), "sigma": np.asarray(0.5)},
        {"beta": 1},
        {"sigma": 0},
        {"upper_max": np.inf, "lower_max": np.inf},
        {"max_time": 0, "tol": 0},
    ],
)
def test_numbers_of_numpy_and_ends_of_ranges_are_accepted(options):
    advance(SCB2OOptimizer(BOX, **options), 2)


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), np.dtype(np.float32)])
def test_dtype_in_every_form(make, dtype):
    opt = make(dtype=dtype)
    advance(opt, 10)
    assert opt.ask().dtype == opt.consensus.dtype == np.float32


def test_dtype_is_that_of_a_floating_x0(make):
    assert make(x0=np.zeros(2, np.float32)).ask().dtype == np.float32
    assert make(x0=np.zeros(2, np.float32), dtype="float64").ask().dtype == np.float64
    assert make(x0=np.zeros(2, np.float16)).ask().dtype == np.float64


SCHEDULED = {"alpha": 3.0, "beta": 0.3, "tau": 0.2, "xi": 5.0, "lam": 0.7, "sigma": 0.9, "dt": 0.5}


@pytest.mark.parametrize(("name", "value"), SCHEDULED.items())
def test_constant_schedule_is_the_constant(make, name, value):
    fixed, scheduled = make(**{name: value}), make(**{name: lambda opt: value})
    assert same(advance(fixed, 5), advance(scheduled, 5))
    assert same([fixed.consensus], [scheduled.consensus])


@pytest.mark.parametrize("name", SCHEDULED)
def test_schedule_sees_the_optimizer(make, name):
    seen = []

    def schedule(opt):
        seen.append(opt.n_iter)
        return SCHEDULED[name] / (1 + opt.n_iter)

    constant, opt = make(**{name: SCHEDULED[name]}), make(**{name: schedule})
    assert not same(advance(constant, 5), advance(opt, 5))
    assert set(seen) >= {1, 2, 3, 4}


def test_schedule_appears_in_the_history(make):
    opt = make(alpha=lambda opt: 1.0 + opt.n_iter, tau=lambda opt: 0.5 / (1 + opt.n_iter))
    advance(opt, 4)
    history = opt.result.history
    np.testing.assert_allclose(history["alpha"], [1, 2, 3, 4])
    np.testing.assert_allclose(history["tau"], [1 / 2, 1 / 4, 1 / 6, 1 / 8])


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, "x", None, "auto"])
@pytest.mark.parametrize("name", SCHEDULED)
def test_bad_value_of_a_schedule_changes_nothing(make, name, bad):
    switch = {"bad": False}
    opt = make(**{name: lambda opt: bad if switch["bad"] else SCHEDULED[name]})
    other = make(**{name: SCHEDULED[name]})
    advance(opt, 2)
    advance(other, 2)
    switch["bad"] = True
    if name in ("lam", "sigma", "dt"):
        with pytest.raises(ValueError, match=name):
            opt.ask()
    else:
        LG = values(opt.ask())
        with pytest.raises(ValueError, match=name):
            opt.tell(*LG)
    switch["bad"] = False
    assert same(advance(opt, 3), advance(other, 3))


def test_named_selector_is_the_selector(make):
    for name in ("logistic", "gumbel"):
        assert same(advance(make(selector=name), 4), advance(make(selector=SELECTORS[name]), 4))


def test_selectors_differ(make):
    runs = [advance(make(selector=name, tau=1.0), 4) for name in ("logistic", "gumbel")]
    assert not same(*runs)


def test_selector_that_is_none_is_refused(make):
    broken = Selector("broken", lambda u, xp: log_expit(-u), lambda u, xp: (-u, u), lambda p, xp: p)
    with pytest.raises(ValueError):
        make(selector=broken)


@pytest.mark.parametrize("noise", ["scaled", "isotropic", "anisotropic"])
@pytest.mark.parametrize("bounds", [BOX, [(None, None)] * 2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sigma_above_the_contraction_limit_warns_once_and_stays_finite(noise, bounds, dtype):
    with pytest.warns(SCB2OWarning, match=r"sigma=50.*choose sigma below \d") as caught:
        opt = SCB2OOptimizer(
            bounds, x0=[0.0, 0.0], sigma=50.0, noise=noise, dtype=dtype, n_particles=10, random_state=0
        )
    assert len(caught) == 1
    for X in advance(opt, 150, lambda X: (np.log1p(np.abs(X)).sum(axis=1), np.log1p(np.abs(X)).sum(axis=1))):
        assert np.isfinite(X).all()
    assert np.isfinite(opt.consensus).all()


def test_limit_that_the_warning_names_does_not_warn(make):
    with pytest.warns(SCB2OWarning) as caught:
        make(sigma=50.0)
    limit = float(str(caught[0].message).rpartition(" ")[2])
    make(sigma=0.99 * limit)
    with pytest.warns(SCB2OWarning):
        make(sigma=1.01 * limit)


def test_step_that_overshoots_without_noise_warns(make):
    with pytest.warns(SCB2OWarning, match="dt below 2 / lam"):
        make(sigma=0.0, dt=3.0)


@pytest.mark.parametrize(
    "f", [values, lambda X: (np.zeros(20), np.zeros(20)), lambda X: tuple(1e300 * v for v in values(X))]
)
@pytest.mark.parametrize("beta", [1e-300, 1e-12, 0.01, 0.5, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("tau", [1e-300, 1e-30, 1e300, "auto"])
@pytest.mark.parametrize("selector", ["logistic", "gumbel"])
def test_extreme_softness_and_level(make, tau, beta, selector, f):
    opt = make(tau=tau, beta=beta, selector=selector)
    X = advance(opt, 8, f)
    assert np.isfinite(X).all()
    assert np.abs(opt.consensus).max() <= 3 + 1e-12


def test_vanishing_tau_is_the_hard_limit(make):
    soft, hard = make(tau=1e-300), make(selection="hard")
    np.testing.assert_allclose(advance(soft, 5), advance(hard, 5), rtol=1e-9)


def test_huge_tau_weighs_nearly_uniformly(make):
    opt = make(tau=1e300, alpha=1e-300)
    X = opt.ask()
    opt.tell(*values(X))
    np.testing.assert_allclose(opt.consensus, X.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("selection", ["soft", "hard"])
def test_level_below_one_particle_takes_the_best_one(make, selection):
    opt = make(beta=0.001, selection=selection)
    X = opt.ask()
    L, G = values(X)
    opt.tell(L, G)
    np.testing.assert_allclose(opt.consensus, X[np.argmin(L)], rtol=1e-9)


@pytest.mark.parametrize("xi", [1e-300, 1e300])
@pytest.mark.parametrize("alpha", [1e-6, 1e6, "auto"])
def test_extreme_sharpness(make, xi, alpha):
    assert np.isfinite(advance(make(xi=xi, alpha=alpha), 5)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_dimension(dtype):
    opt = SCB2OOptimizer([(-3, 3)], n_particles=20, dtype=dtype, random_state=0)
    advance(opt, 150, lambda X: ((X[:, 0] ** 2 - 1) ** 2, (X[:, 0] - 2) ** 2))
    np.testing.assert_allclose(opt.consensus, [1.0], atol=0.05)


@pytest.mark.parametrize("options", [{}, {"selection": "hard"}, {"batch_size": 2}, {"n_runs": 2}, {"beta": 1.0}])
def test_two_particles(make, options):
    opt = make(n_particles=2, **options)
    assert np.isfinite(advance(opt, 50)).all()
    assert opt.ask().shape[-2:] == (2, 2)


def test_float32_finds_the_solution(make):
    opt = make(dtype="float32", n_particles=50)
    advance(opt, 150)
    np.testing.assert_allclose(opt.consensus, [2 / 5**0.5, 1 / 5**0.5], atol=0.02)


def test_float32_is_close_to_float64_for_an_iteration(make):
    x0 = np.random.default_rng(0).uniform(-3, 3, (20, 2)).astype(np.float32)
    opts = [make(x0=x0, dtype=dtype, alpha=1.0, tau=0.5) for dtype in ("float32", "float64")]
    for opt in opts:
        advance(opt, 1)
    np.testing.assert_allclose(opts[0].consensus, opts[1].consensus, rtol=1e-5)


@pytest.mark.parametrize("which", ["L", "G"])
@pytest.mark.parametrize("value", [1e300, -1e300])
def test_values_beyond_float32_are_data(make, which, value):
    opt = make(dtype="float32")
    told = values(opt.ask())
    told["LG".index(which)][3] = value
    opt.tell(*told)
    assert opt.result.n_failed == 0
    assert np.isfinite(opt.consensus).all()


@pytest.mark.parametrize("noise", ["scaled", "isotropic", "anisotropic"])
@pytest.mark.parametrize("boundary", ["reflect", "clip", "periodic"])
def test_every_noise_and_boundary_finds_the_solution(make, noise, boundary):
    opt = make(noise=noise, boundary=boundary, n_particles=100)
    advance(opt, 150)
    np.testing.assert_allclose(opt.consensus, [2 / 5**0.5, 1 / 5**0.5], atol=0.05)


def test_scaled_noise_is_isotropic_noise_over_the_root_of_the_dimension(make):
    bounds = [(-3, 3)] * 4
    runs = [
        advance(make(bounds, noise=noise, sigma=sigma), 5) for noise, sigma in (("scaled", 1.0), ("isotropic", 0.5))
    ]
    np.testing.assert_allclose(*runs, rtol=1e-12)


def test_noise_cap_limits_a_step(make):
    cap, sigma, dt = 1e-3, 1.0, 0.25
    opt = make(noise="isotropic", noise_cap=cap, sigma=sigma, dt=dt, x_scale=1.0, n_particles=200)
    X = opt.ask()
    opt.tell(*values(X))
    m, Y = opt.consensus, opt.ask()
    noise = Y - X + dt * (X - m)
    assert np.abs(noise).max() < 6 * sigma * dt**0.5 * cap
    assert np.abs(noise).max() > sigma * dt**0.5 * cap


def test_noise_cap_that_is_never_reached_changes_nothing(make):
    assert same(advance(make(noise_cap=1e6), 5), advance(make(), 5))


def test_noise_floor_keeps_particles_apart_that_have_met(make):
    opt = make(noise="anisotropic", noise_floor=0.1, sigma=1.0, dt=0.25, x_scale=1.0, n_particles=500)
    X = opt.ask()
    opt.tell(np.zeros(500), np.zeros(500))
    opt.inject(np.tile(opt.consensus, (500, 1)))
    X = opt.ask()
    opt.tell(np.zeros(500), np.zeros(500))
    np.testing.assert_allclose((opt.ask() - X).std(axis=0), 0.1 * 0.25**0.5, rtol=0.1)


def test_noise_floor_that_is_always_exceeded_changes_nothing(make):
    assert same(advance(make(noise_floor=1e-12), 5), advance(make(), 5))


def test_noise_floor_can_be_a_schedule(make):
    def cooled(opt):
        return 1.0 / opt.n_iter

    once, always = make(noise_floor=cooled), make(noise_floor=1.0)
    first = [advance(opt, 2) for opt in (once, always)]
    assert same(*first)
    assert not same(advance(once, 1), advance(always, 1))


def test_without_noise_particles_approach_the_consensus_by_the_drift(make):
    opt = make(sigma=0.0, dt=0.5, lam=0.5)
    X = opt.ask()
    opt.tell(*values(X))
    np.testing.assert_allclose(opt.ask(), X - 0.25 * (X - opt.consensus), rtol=1e-12)


def test_mini_batches_visit_every_particle_once_per_round(make):
    opt = make(n_particles=20, batch_size=5, x0=np.arange(40).reshape(20, 2) / 40, sigma=0.0, dt=1e-12)
    rounds = np.concatenate(advance(opt, 4))
    assert len(np.unique(np.round(rounds, 6), axis=0)) == 20


def test_particles_outside_the_mini_batch_rest(make):
    opt = make(n_particles=20, batch_size=10)
    first = opt.ask()
    opt.tell(*values(first))
    second = opt.ask()
    assert second.shape == (10, 2)
    opt.tell(*values(second))
    population = opt.result.population.x
    opt.ask()
    assert np.isin(second, population).all()


@pytest.mark.parametrize("n_runs", [1, 2])
@pytest.mark.parametrize("batch_size", [2, 7, 19, 20])
def test_mini_batches_of_any_size(make, batch_size, n_runs):
    opt = make(batch_size=batch_size, n_runs=n_runs)
    X = np.stack(advance(opt, 40))
    assert X.shape[-2:] == (batch_size, 2)
    assert np.isfinite(X).all()
    np.testing.assert_array_equal(opt.result.nfev_lower, 40 * batch_size)


def test_full_batch_size_is_the_whole_population(make):
    assert same(advance(make(batch_size=20), 4), advance(make(), 4))


def test_from_paper_has_the_constants_of_the_paper():
    plain = SCB2OOptimizer(
        BOX, n_particles=100, alpha=30.0, beta=0.05, lam=1.0, sigma=1.0, dt=0.01, noise="isotropic", x_scale=1.0,
        xi=1000.0, tol=0.0, random_state=0,
    )  # fmt: skip
    paper = SCB2OOptimizer.from_paper(BOX, random_state=0)
    assert paper.n_particles == 100
    assert same(advance(paper, 5), advance(plain, 5))
    np.testing.assert_allclose(paper.result.history["alpha"], 30.0)
    np.testing.assert_allclose(paper.result.history["tau"], 1 / 30000)


def test_from_paper_takes_overrides():
    assert SCB2OOptimizer.from_paper(BOX, n_particles=10).ask().shape == (10, 2)
    tau = SCB2OOptimizer.from_paper(BOX, tau=0.25)
    advance(tau, 1)
    assert tau.result.history["tau"][0] == 0.25
    hard = SCB2OOptimizer.from_paper(BOX, selection="hard")
    advance(hard, 1)
    assert hard.result.history["tau"][0] == 0.0
