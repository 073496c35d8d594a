import math

import numpy as np
import pytest
from optimize_cases import SOLUTION, advance, same, values

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.problems import circle


def changed(lower=lambda v: v, upper=lambda v: v):
    def f(X):
        L, G = values(X)
        return lower(L), upper(G)

    return f


@pytest.mark.parametrize(
    "options", [{}, {"selection": "hard"}, {"selection": "none"}, {"selector": "gumbel"}, {"n_runs": 2}]
)
@pytest.mark.parametrize("factor", [2.0**20, 2.0**-20, 2.0**300, 2.0**-300])
@pytest.mark.parametrize("which", ["lower", "upper", "both"])
def test_powers_of_two_give_identical_positions(make, options, factor, which):
    scaled = {name: lambda v: factor * v for name in ("lower", "upper") if which in (name, "both")}
    assert same(advance(make(**options), 12), advance(make(**options), 12, changed(**scaled)))


@pytest.mark.parametrize("factor", [1e6, 1e-6])
@pytest.mark.parametrize("which", ["lower", "upper"])
@pytest.mark.parametrize("seed", range(3))
def test_units_do_not_change_the_answer(make, factor, which, seed):
    opt = make(n_particles=60, random_state=seed)
    advance(opt, 120, changed(**{which: lambda v: factor * v}))
    # the swarm ends within 0.02 of the solution in either unit; the runs themselves part by rounding
    np.testing.assert_allclose(opt.consensus, SOLUTION, atol=0.02)


@pytest.mark.parametrize("factor", [1e6, 1e-6])
@pytest.mark.parametrize("which", ["lower", "upper"])
def test_units_change_early_positions_by_rounding_only(make_each, factor, which):
    plain = advance(make_each(), 5)
    scaled = advance(make_each(), 5, changed(**{which: lambda v: factor * v}))
    # relative rounding of the values, 1e-16, times the slope of the soft selection, 1/0.05, over a few iterations
    np.testing.assert_allclose(plain, scaled, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shift", [1.0, -1.0, 1000.0])
@pytest.mark.parametrize("which", ["lower", "upper"])
def test_added_constants_change_early_positions_by_rounding_only(make_each, shift, which):
    plain = advance(make_each(), 5)
    shifted = advance(make_each(), 5, changed(**{which: lambda v: v + shift}))
    # values of 1000 + v keep v to 1e-13; selection and temperature look at differences of 1e-2 and more
    np.testing.assert_allclose(plain, shifted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"selection": "hard"}, {"selection": "none"}])
def test_consensus_does_not_depend_on_the_order_of_the_particles(make_each, rng, options):
    x0 = rng.uniform(-3, 3, (20, 2))
    opt, permuted = make_each(x0=x0, **options), make_each(x0=x0[rng.permutation(20)], **options)
    advance(opt, 1)
    advance(permuted, 1)
    np.testing.assert_allclose(opt.consensus, permuted.consensus, rtol=1e-12)


def test_scaled_box_scales_the_run_exactly(make):
    plain = advance(make(), 8)
    scaled = advance(make([(-3 * 1024, 3 * 1024)] * 2), 8, lambda X: values(X / 1024))
    assert same([1024 * X for X in plain], scaled)


def test_coordinates_of_any_width_are_searched_alike(make):
    plain = advance(make(), 8)
    skewed = advance(make([(-3 * 1024, 3 * 1024), (-3, 3)]), 8, lambda X: values(X / [1024, 1]))
    assert same([X * [1024, 1] for X in plain], skewed)


def test_lower_tol_counts_all_values_so_close_to_the_best_as_equal(make):
    opt = make(lower_tol=0.5, n_particles=50)
    X = opt.ask()
    L, G = values(X)
    close = L.min() + 0.5 >= L
    assert close.sum() > 5
    assert opt.needs_upper(L)[close].all()
    clipped = make(n_particles=50)
    clipped.ask()
    opt.tell(L, G)
    clipped.tell(np.maximum(L, L.min() + 0.5), G)
    assert same([opt.consensus], [clipped.consensus])


def test_lower_tol_is_from_the_best_value_of_all_batches(make):
    opt, other = make(lower_tol=0.5), make()
    best = np.inf
    for _ in range(6):
        L, G = values(opt.ask())
        other.ask()
        best = min(best, L.min())
        opt.tell(L, G)
        other.tell(np.maximum(L, best + 0.5), G)
        np.testing.assert_allclose(opt.consensus, other.consensus, rtol=1e-9)


def test_lower_tol_lets_upper_choose_within_it(make):
    # L = |x|^2 at most 1 above its minimum is the unit disc; G pulls to (2, 1)
    opt = make(lower_tol=1.0, n_particles=60)
    advance(opt, 150, lambda X: (np.sum(X**2, axis=1), values(X)[1]))
    np.testing.assert_allclose(opt.consensus, SOLUTION, atol=0.03)


def test_without_lower_tol_the_minimiser_is_found(make):
    opt = make(n_particles=60)
    advance(opt, 150, lambda X: (np.sum(X**2, axis=1), values(X)[1]))
    np.testing.assert_allclose(opt.consensus, [0.0, 0.0], atol=0.1)


@pytest.mark.parametrize("name", ["lower_max", "upper_max"])
@pytest.mark.parametrize("options", [{}, {"selection": "hard"}, {"tau": 1.0, "alpha": 0.1}])
def test_clipping_is_clipping_the_values(make, name, options):
    which = name[:5]
    opt, other = make(**{name: 4.0}, **options), make(**options)
    clipped = advance(other, 8, changed(**{which: lambda v: np.minimum(v, 4.0)}))
    np.testing.assert_allclose(advance(opt, 8), clipped, rtol=1e-9)


def test_upper_max_bounds_infinite_values(make):
    opt = make(upper_max=1.0, selection="none", alpha=1.0)
    X = opt.ask()
    G = np.full(20, np.inf)
    G[:10] = 1.0
    opt.tell(None, G)
    np.testing.assert_allclose(opt.consensus, X.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("tau", [1e-12, 1e-30, 1e-300])
@pytest.mark.parametrize("alpha", ["auto", 5.0])
def test_tiny_tau_is_cb2o(make, tau, alpha):
    soft, hard = advance(make(tau=tau, alpha=alpha), 10), advance(make(selection="hard", alpha=alpha), 10)
    np.testing.assert_allclose(soft, hard, rtol=1e-8, atol=1e-8)


def test_no_selection_is_cbo(make):
    opt = make(selection="none", alpha=2.0)
    X = opt.ask()
    _, G = values(X)
    opt.tell(None, G)
    weights = np.exp(-2.0 * (G - G.min()))
    np.testing.assert_allclose(opt.consensus, weights @ X / weights.sum(), rtol=1e-12)


@pytest.mark.parametrize("n_runs", [1, 2])
@pytest.mark.parametrize("options", [{}, {"batch_size": 5}])
def test_no_selection_does_not_look_at_lower(make, n_runs, options):
    options = {"selection": "none", "n_runs": n_runs, **options}
    with_lower, without = make(**options), make(**options)
    assert same(advance(with_lower, 6), advance(without, 6, lambda X: (None, values(X)[1])))


def test_no_selection_minimises_upper(make):
    opt = make(selection="none", n_particles=40)
    advance(opt, 120, lambda X: (None, values(X)[1]))
    np.testing.assert_allclose(opt.consensus, [2.0, 1.0], atol=0.02)


def test_lower_may_be_none_only_without_selection(make):
    opt = make()
    opt.ask()
    with pytest.raises(ValueError, match="L"):
        opt.tell(None, np.zeros(20))


# -- one iteration by plain loops, from the formulas of the paper -------------------------------------------------


def slow_quantile(L, beta, tau):
    """The root of mean psi((q - L)/tau) = beta, by bisection."""

    def excess(q):
        total = 0.0
        for value in L:
            u = (q - value) / tau
            total += 1 / (1 + math.exp(-u)) if u > -700 else 0.0
        return total / len(L) - beta

    low, high = min(L) - 100 * tau, max(L) + 100 * tau
    for _ in range(400):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return (low + high) / 2


def slow_consensus(X, L, G, alpha, beta, tau):
    q = slow_quantile(L, beta, tau)
    logs = []
    for lower, upper in zip(L, G, strict=True):
        u = (q - lower) / tau
        log_eta = u - math.log1p(math.exp(u)) if u < 0 else -math.log1p(math.exp(-u))
        logs.append(log_eta - alpha * upper)
    weights = [math.exp(v - max(logs)) for v in logs]
    return [sum(w * x[j] for w, x in zip(weights, X, strict=True)) / sum(weights) for j in range(len(X[0]))]


@pytest.mark.parametrize("xi", [1.0, 10.0, 100.0, 1000.0])
def test_paper_iterations_agree_with_plain_loops(xi):
    problem = circle()
    opt = SCB2OOptimizer.from_paper(problem.bounds, xi=xi, random_state=0)
    for _ in range(5):
        X = opt.ask()
        L, G = problem.lower(X), problem.upper(X)
        opt.tell(L, G)
        expected = slow_consensus(X.tolist(), L.tolist(), G.tolist(), alpha=30.0, beta=0.05, tau=1 / (30 * xi))
        np.testing.assert_allclose(opt.consensus, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("alpha", "beta", "tau"), [(1.0, 0.3, 2.0), (0.1, 0.05, 10.0), (10.0, 0.9, 0.01), (0.5, 0.5, 1.0)]
)
def test_consensus_agrees_with_plain_loops(make, alpha, beta, tau):
    opt = make(alpha=alpha, beta=beta, tau=tau)
    for _ in range(3):
        X = opt.ask()
        L, G = values(X)
        opt.tell(L, G)
        expected = slow_consensus(X.tolist(), L.tolist(), G.tolist(), alpha, beta, tau)
        np.testing.assert_allclose(opt.consensus, expected, rtol=1e-7)


@pytest.mark.parametrize("beta", [0.05, 0.07, 0.3, 1.0])
def test_hard_consensus_agrees_with_plain_loops(make, beta):
    opt = make(selection="hard", alpha=0.7, beta=beta, n_particles=100)
    X = opt.ask()
    L, G = values(X)
    opt.tell(L, G)
    limit = sorted(L.tolist())[round(beta * 100) - 1]
    chosen = [i for i in range(100) if L[i] <= limit]
    weights = [math.exp(-0.7 * G[i]) for i in chosen]
    expected = [sum(w * X[i, j] for w, i in zip(weights, chosen, strict=True)) / sum(weights) for j in range(2)]
    np.testing.assert_allclose(opt.consensus, expected, rtol=1e-12)


def implied_normals(noise, lam, sigma, dt, d=3):
    """The normals that steps from known positions and consensus to known positions must have drawn."""
    # a box so wide that no step leaves it
    opt = SCB2OOptimizer(
        [(-1e6, 1e6)] * d, x0=np.random.default_rng(0).uniform(-1, 1, (500, d)), n_particles=500, noise=noise, lam=lam,
        sigma=sigma, dt=dt, x_scale=1.0, random_state=0,
    )  # fmt: skip
    X = opt.ask()
    normals = []
    for _ in range(4):
        opt.tell(*values(X))
        m, Y = opt.consensus, opt.ask()
        z = X - m
        size = {"isotropic": 1.0, "scaled": d**-0.5}.get(noise, 0.0) * np.linalg.norm(z, axis=1)[:, None]
        normals.append(
            (Y - X + lam * dt * z) / (sigma * math.sqrt(dt) * (size if noise != "anisotropic" else np.abs(z)))
        )
        X = Y
    return np.stack(normals)


@pytest.mark.parametrize("noise", ["isotropic", "scaled", "anisotropic"])
@pytest.mark.parametrize(("lam", "sigma", "dt"), [(1.0, 1.0, 0.01), (0.5, 0.3, 0.5)])
def test_step_is_euler_maruyama_with_standard_normals(noise, lam, sigma, dt):
    b = implied_normals(noise, lam, sigma, dt)
    # 6000 numbers: the mean has the standard deviation 0.013, the variance 0.018; five of them are allowed
    assert abs(b.mean()) < 0.065
    assert abs(b.var() - 1.0) < 0.09
    assert abs(np.mean(b**4) - 3.0) < 0.8
    flat = b.reshape(-1, 3)
    correlation = np.corrcoef(flat.T) - np.eye(3)
    assert np.abs(correlation).max() < 0.12
    assert abs(np.corrcoef(b[0].ravel(), b[1].ravel())[0, 1]) < 0.13


def test_normals_do_not_depend_on_the_kind_of_noise():
    runs = [implied_normals(noise, 1.0, 0.5, 0.1)[0] for noise in ("isotropic", "scaled", "anisotropic")]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(runs[0], runs[2], rtol=1e-6, atol=1e-6)
