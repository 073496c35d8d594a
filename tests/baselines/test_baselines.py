import numpy as np
import pytest
from scipy.optimize import Bounds, approx_fprime

from sklearn_scb2o.baselines import sbgd, vpbgd
from sklearn_scb2o.problems import circle, periodic_grid

METHODS = {"vpbgd": (vpbgd, "penalty"), "sbgd": (sbgd, "ratio")}
every_method = pytest.mark.parametrize(("method", "weight"), METHODS.values(), ids=list(METHODS))


class Quadratic:
    """L = (x - p)' H (x - p) / 2, G = (x - c)' A (x - c) / 2."""

    def __init__(self, d, seed=0, singular=0):
        rng = np.random.default_rng(seed)
        (self.p, self.c) = rng.normal(size=(2, d))
        q, r = np.linalg.qr(rng.normal(size=(d, d))), np.linalg.qr(rng.normal(size=(d, d)))
        eigenvalues = np.linspace(1.0, 2.0, d)
        eigenvalues[:singular] = 0.0  # directions in which L does not change
        self.H = q[0] * eigenvalues @ q[0].T
        self.A = r[0] * np.linspace(0.5, 1.5, d) @ r[0].T

    def lower(self, x):
        return 0.5 * np.sum((x - self.p) @ self.H * (x - self.p), axis=-1)

    def upper(self, x):
        return 0.5 * np.sum((x - self.c) @ self.A * (x - self.c), axis=-1)

    def lower_grad(self, x):
        return (x - self.p) @ self.H

    def upper_grad(self, x):
        return (x - self.c) @ self.A

    def run(self, method, x0, **options):
        return method(self.lower, self.upper, x0, lower_grad=self.lower_grad, upper_grad=self.upper_grad, **options)


def recursion(problem, weight, step, ratio):
    """The iteration on a quadratic as x -> M x + b."""
    eye = np.eye(len(problem.p))
    on_L, on_G = eye - ratio * step * problem.H, eye - step * problem.A
    if weight == "ratio":
        return on_G @ on_L, on_G @ (ratio * step * problem.H @ problem.p) + step * problem.A @ problem.c
    M = eye - step * (problem.H + problem.A / ratio)
    return M, step * (problem.H @ problem.p + problem.A @ problem.c / ratio)


def slow(method, lower_grad, upper_grad, x0, step_size, ratio, n, low, high):
    """One start, coordinate by coordinate."""
    x = [float(v) for v in x0]
    for _ in range(n):
        g = lower_grad(np.array(x))
        if method is vpbgd:
            h = upper_grad(np.array(x))
            x = [v - step_size / ratio * (hj + ratio * gj) for v, gj, hj in zip(x, g, h, strict=True)]
        else:
            x = [min(max(v - ratio * step_size * gj, low), high) for v, gj in zip(x, g, strict=True)]
            h = upper_grad(np.array(x))
            x = [v - step_size * hj for v, hj in zip(x, h, strict=True)]
        x = [min(max(v, low), high) for v in x]
    return x


# --- fixed points and rates on quadratics


@pytest.mark.parametrize("singular", [0, 2])
def test_vpbgd_converges_to_the_minimiser_of_the_penalised_objective(singular):
    problem = Quadratic(4, singular=singular)
    result = problem.run(vpbgd, np.full(4, 3.0), step_size=0.5, penalty=20.0, max_iter=5000)
    A, H = problem.A, 20.0 * problem.H
    np.testing.assert_allclose(result.x, np.linalg.solve(A + H, A @ problem.c + H @ problem.p), atol=1e-12)


def test_vpbgd_leaves_a_lower_value_of_the_order_of_the_squared_penalty():
    problem = Quadratic(3)
    lower = [
        problem.run(vpbgd, np.zeros(3), step_size=0.5, penalty=penalty, max_iter=2000).lower_fun
        for penalty in (1e3, 1e4)
    ]
    assert lower[0] / lower[1] == pytest.approx(100.0, rel=0.01)


def test_vpbgd_approaches_the_bilevel_solution_as_the_penalty_grows():
    problem = Quadratic(4, singular=2)
    # G restricted to the minimisers p + null space of L
    null = np.linalg.svd(problem.H)[2][2:].T
    solution = problem.p + null @ np.linalg.solve(
        null.T @ problem.A @ null, null.T @ problem.A @ (problem.c - problem.p)
    )
    result = problem.run(vpbgd, np.zeros(4), step_size=0.9, penalty=200.0, max_iter=6_000)
    assert np.abs(result.x - solution).max() < 0.02


def test_sbgd_converges_to_the_fixed_point_of_both_steps():
    problem = Quadratic(4)
    result = problem.run(sbgd, np.full(4, 3.0), step_size=0.05, ratio=10.0, max_iter=2000)
    half = result.x - 0.5 * problem.lower_grad(result.x)
    np.testing.assert_allclose(half - 0.05 * problem.upper_grad(half), result.x, atol=1e-14)


def test_sbgd_with_small_steps_minimises_the_penalised_objective():
    problem = Quadratic(3)
    sums = problem.A + 5.0 * problem.H
    expected = np.linalg.solve(sums, problem.A @ problem.c + 5.0 * problem.H @ problem.p)
    errors = [
        np.abs(problem.run(sbgd, np.zeros(3), step_size=s, ratio=5.0, max_iter=int(6 / s)).x - expected).max()
        for s in (1e-2, 2e-3)
    ]
    assert errors[0] < 0.1
    assert errors[0] / errors[1] == pytest.approx(5.0, rel=0.1)


@every_method
def test_iterates_on_a_quadratic_follow_the_linear_recursion(method, weight):
    problem = Quadratic(5, seed=1)
    M, b = recursion(problem, weight, 0.05, 4.0)
    x = np.full(5, 2.0)
    for n in range(6):
        result = problem.run(method, np.full(5, 2.0), step_size=0.05, max_iter=n, **{weight: 4.0})
        np.testing.assert_allclose(result.x, x, rtol=1e-13, atol=1e-14)
        x = M @ x + b


@every_method
def test_distance_to_the_fixed_point_falls_at_the_spectral_radius(method, weight):
    problem = Quadratic(3, seed=2)
    M, b = recursion(problem, weight, 0.1, 2.0)
    rate = np.abs(np.linalg.eigvals(M)).max()
    fixed = np.linalg.solve(np.eye(3) - M, b)
    near, far = (
        np.linalg.norm(problem.run(method, np.ones(3), step_size=0.1, max_iter=n, **{weight: 2.0}).x - fixed)
        for n in (60, 100)
    )
    assert rate < 1
    assert (far / near) ** (1 / 40) == pytest.approx(rate, rel=1e-3)


@every_method
def test_steps_beyond_the_limit_of_stability_diverge(method, weight):
    problem = Quadratic(2)
    limit = 2.0 / np.linalg.eigvalsh(problem.H).max()
    # of vpbgd the step on L is step_size, of sbgd it is ratio * step_size
    for factor, grows in ((0.9, False), (1.2, True)):
        step = factor * limit / (1e4 if method is sbgd else 1.0)
        history = problem.run(method, [9.0, 9.0], step_size=step, max_iter=200, **{weight: 1e4}).history
        assert (history["lower"][-1] > history["lower"][0]) == grows


# --- against a slow implementation


@every_method
def test_agrees_with_a_slow_implementation_on_the_periodic_grid(method, weight):
    problem = periodic_grid()
    x0 = np.random.default_rng(0).uniform(-9, 9, size=(7, 2))
    result = method(
        problem.lower, problem.upper, x0, lower_grad=problem.lower_grad, upper_grad=problem.upper_grad,
        bounds=[(-10, 10)] * 2, vectorized=True, step_size=0.004,
        max_iter=150, **{weight: 5.0},
    )  # fmt: skip
    expected = [slow(method, problem.lower_grad, problem.upper_grad, row, 0.004, 5.0, 150, -10.0, 10.0) for row in x0]
    np.testing.assert_allclose(result.population.x, expected, rtol=1e-9, atol=1e-9)


@every_method
def test_agrees_with_a_slow_implementation_at_the_bounds(method, weight):
    problem = circle()
    x0 = np.random.default_rng(1).uniform(-0.6, 0.6, size=(5, 2))
    result = method(
        problem.lower, problem.upper, x0, lower_grad=problem.lower_grad, upper_grad=problem.upper_grad,
        bounds=[(-0.6, 0.6)] * 2, step_size=0.003, max_iter=60, **{weight: 10.0},
    )  # fmt: skip
    expected = [slow(method, problem.lower_grad, problem.upper_grad, row, 0.003, 10.0, 60, -0.6, 0.6) for row in x0]
    np.testing.assert_allclose(result.population.x, expected, rtol=1e-9, atol=1e-12)
    assert (np.abs(result.population.x) == 0.6).any()


@every_method
def test_differences_in_place_of_gradients_lead_to_the_same_points(method, weight):
    problem = periodic_grid()
    x0 = np.random.default_rng(2).uniform(-5, 5, size=(4, 2))
    given = method(
        problem.lower, problem.upper, x0, lower_grad=problem.lower_grad, upper_grad=problem.upper_grad,
        vectorized=True, step_size=0.004, max_iter=100, **{weight: 5.0},
    )  # fmt: skip
    numeric = method(problem.lower, problem.upper, x0, vectorized=True, step_size=0.004, max_iter=100, **{weight: 5.0})
    np.testing.assert_allclose(numeric.population.x, given.population.x, atol=1e-7)


@every_method
def test_differences_agree_with_those_of_scipy(method, weight):
    problem = circle()
    numeric = method(problem.lower, problem.upper, [0.9, 0.2], step_size=0.003, max_iter=20, **{weight: 10.0})

    def gradients(f):
        return lambda x: approx_fprime(x, f, 1e-7)

    scipys = method(
        problem.lower, problem.upper, [0.9, 0.2], lower_grad=gradients(problem.lower),
        upper_grad=gradients(problem.upper), step_size=0.003, max_iter=20, **{weight: 10.0},
    )  # fmt: skip
    np.testing.assert_allclose(numeric.x, scipys.x, atol=1e-5)


# --- several starts


@every_method
def test_starts_do_not_see_each_other(method, weight):
    problem = Quadratic(3)
    x0 = np.random.default_rng(3).normal(size=(4, 3))
    together = problem.run(method, x0, step_size=0.02, max_iter=30, **{weight: 3.0})
    for i, start in enumerate(x0):
        alone = problem.run(method, start, step_size=0.02, max_iter=30, **{weight: 3.0})
        np.testing.assert_allclose(together.population.x[i], alone.x, rtol=1e-13)
        np.testing.assert_allclose(together.history["lower"][:, i], alone.history["lower"], rtol=1e-12)
        np.testing.assert_allclose(together.history["upper"][:, i], alone.history["upper"], rtol=1e-12)


@every_method
def test_result_is_the_start_with_the_smallest_penalised_value(method, weight):
    problem = periodic_grid()
    x0 = np.random.default_rng(4).normal(0, 10, size=(50, 2))
    result = method(problem.lower, problem.upper, x0, vectorized=True, step_size=0.001, max_iter=50, **{weight: 9.0})
    merit = result.population.upper + 9.0 * result.population.lower
    best = np.argmin(merit)
    np.testing.assert_array_equal(result.x, result.population.x[best])
    assert (result.fun, result.lower_fun) == (result.population.upper[best], result.population.lower[best])
    assert result.fun == problem.upper(result.x)


@every_method
def test_batches_and_single_points_give_the_same(method, weight):
    problem = Quadratic(3)
    x0 = np.random.default_rng(5).normal(size=(4, 3))
    results = [problem.run(method, x0, vectorized=v, step_size=0.02, max_iter=20) for v in (False, True)]
    np.testing.assert_allclose(results[0].population.x, results[1].population.x, rtol=1e-12)


# --- the box


@every_method
def test_no_point_outside_the_box_is_evaluated(method, weight):
    seen = []

    def recorded(f):
        def call(x):
            seen.append(x.copy())
            return f(x)

        return call

    problem = Quadratic(3)
    bounds = Bounds([-0.1, 0.2, -np.inf], [0.1, 0.2, 0.3])
    result = method(
        recorded(problem.lower), recorded(problem.upper), [0.1, 0.2, 0.0], bounds=bounds, step_size=0.05, max_iter=30
    )
    points = np.array(seen)
    assert ((points >= bounds.lb) & (points <= bounds.ub)).all()
    assert result.x[1] == 0.2


@every_method
def test_solution_at_a_bound_is_found_by_differences(method, weight):
    result = method(
        lambda x: (x[0] - 2.0) ** 2, lambda x: (x[1] + 3.0) ** 2, [0.5, 0.5], bounds=[(0, 1), (0, 1)],
        step_size=0.02, max_iter=3000, **{weight: 5.0},
    )  # fmt: skip
    np.testing.assert_array_equal(result.x, [1.0, 0.0])


# --- counts, ends, failures


@every_method
@pytest.mark.parametrize("has_gradient", [True, False])
def test_evaluations_are_counted(method, weight, has_gradient):
    counts = dict.fromkeys(("lower", "upper", "lower_grad", "upper_grad"), 0)
    problem = Quadratic(3)

    def counted(name):
        def call(x):
            counts[name] += 1
            return getattr(problem, name)(x)

        return call

    gradients = {name: counted(name) for name in ("lower_grad", "upper_grad")} if has_gradient else {}
    result = method(counted("lower"), counted("upper"), np.zeros((2, 3)), max_iter=7, **gradients)
    assert (result.nfev_lower, result.nfev_upper) == (counts["lower"], counts["upper"])
    assert result.nfev == counts["lower"] == 2 * 8 + (0 if has_gradient else 2 * 7 * 6)
    assert result.njev == 2 * 7
    if has_gradient:
        assert counts["lower_grad"] == counts["upper_grad"] == result.njev


@every_method
def test_history_holds_the_start_and_every_iteration(method, weight):
    problem = Quadratic(2)
    one = problem.run(method, [1.0, 2.0], max_iter=5)
    many = problem.run(method, [[1.0, 2.0]] * 3, max_iter=5)
    assert one.nit == 5
    assert one.history["lower"].shape == one.history["upper"].shape == (6,)
    assert many.history["lower"].shape == many.history["upper"].shape == (6, 3)
    assert one.history["lower"][0] == problem.lower(np.array([1.0, 2.0]))
    assert (one.history["lower"][-1], one.history["upper"][-1]) == (one.lower_fun, one.fun)


@every_method
def test_run_ends_where_no_coordinate_moves(method, weight):
    result = Quadratic(3).run(method, np.zeros((2, 3)), step_size=0.02, max_iter=10_000, tol=1e-9)
    assert result.success
    assert result.status == 1
    assert result.nit < 5_000
    assert "tol=1e-09" in result.message


@every_method
def test_run_without_a_tolerance_ends_at_the_limit(method, weight):
    result = Quadratic(3).run(method, np.zeros(3), step_size=0.02, max_iter=2000)
    assert (result.success, result.status, result.nit) == (False, 3, 2000)
    assert result.message == "max_iter=2000 iterations done"


@every_method
def test_no_iteration_returns_the_best_start(method, weight):
    result = Quadratic(2).run(method, [[5.0, 5.0], [0.0, 0.0]], max_iter=0)
    np.testing.assert_array_equal(result.x, [0.0, 0.0])
    assert result.njev == 0


@every_method
def test_a_start_without_a_next_point_stays_and_the_others_go_on(method, weight):
    problem = Quadratic(2)

    def lower_grad(x):
        return problem.lower_grad(x) * (np.nan if x[0] > 5 else 1.0)

    result = method(
        problem.lower, problem.upper, [[9.0, 0.0], [1.0, 1.0]], lower_grad=lower_grad,
        upper_grad=problem.upper_grad, max_iter=20,
    )  # fmt: skip
    np.testing.assert_array_equal(result.population.x[0], [9.0, 0.0])
    np.testing.assert_array_equal(result.x, result.population.x[1])
    assert result.n_failed == 1


@every_method
def test_a_result_that_cannot_move_is_no_success(method, weight):
    problem = Quadratic(2)
    result = method(
        problem.lower, problem.upper, [problem.p, problem.p + 5.0], upper_grad=problem.upper_grad, tol=1.0,
        lower_grad=lambda x: problem.lower_grad(x) + (np.nan if (x == problem.p).all() else 0.0), max_iter=3,
    )  # fmt: skip
    np.testing.assert_array_equal(result.x, problem.p)
    assert (result.success, result.status, result.n_failed) == (False, 9, 1)


@every_method
@pytest.mark.parametrize("value", [None, np.nan, np.inf])
def test_failed_evaluations_are_not_the_result(method, weight, value):
    problem = Quadratic(2)
    result = method(
        lambda x: value if x[0] > 5 else problem.lower(x), problem.upper, [[9.0, 0.0], [1.0, 1.0]], max_iter=20
    )
    assert result.x[0] < 5
    assert np.isfinite([result.fun, result.lower_fun]).all()


@every_method
def test_divergence_is_no_success_and_no_crash(method, weight):
    result = method(
        lambda x: abs(x[0]), lambda x: abs(x[0]), [3.0], lower_grad=lambda x: x**3 if x[0] ** 2 < 1e90 else [np.inf],
        upper_grad=lambda x: 0 * x, step_size=1.0, max_iter=50, tol=1e-8,
    )  # fmt: skip
    assert not result.success
    assert result.status == 9
    assert "smaller step_size" in result.message
    assert np.isfinite(result.x).all()


# --- arguments


@every_method
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, r"step_size=0\.0 must be a finite number"),
        ({"step_size": np.nan}, r"step_size=nan"),
        ({"max_iter": -1}, r"max_iter=-1 must be an integer of at least 0"),
        ({"max_iter": 2.5}, r"max_iter=2\.5"),
        ({"tol": -1.0}, r"tol=-1\.0"),
        ({"bounds": [(2, 3)]}, r"x0 has shape"),
        ({"bounds": [(2, 3), (0, 1)]}, r"x0 lies outside the bounds in coordinate 0"),
        ({"lower_grad": lambda x: x[0]}, r"lower_grad returned shape \(\) for a point of shape \(2,\)"),
        ({"upper_grad": lambda x: ["a", "b"]}, r"upper_grad must return real numbers"),
    ],
)
def test_bad_arguments_are_refused(method, weight, options, message):
    problem = Quadratic(2)
    with pytest.raises(ValueError, match=message):
        method(problem.lower, problem.upper, [0.5, 0.5], **options)


@every_method
def test_bad_weight_is_refused(method, weight):
    problem = Quadratic(2)
    with pytest.raises(ValueError, match=rf"{weight}=-1 must be a finite number in \(0, inf\)"):
        method(problem.lower, problem.upper, [0.5, 0.5], **{weight: -1})


@every_method
@pytest.mark.parametrize("x0", [0.5, [], np.zeros((2, 2, 2)), ["a", "b"], [np.nan, 1.0]])
def test_bad_starts_are_refused(method, weight, x0):
    problem = Quadratic(2)
    with pytest.raises(ValueError, match="x0"):
        method(problem.lower, problem.upper, x0)


@every_method
def test_vectorized_functions_of_the_wrong_shape_are_refused(method, weight):
    problem = Quadratic(2)
    with pytest.raises(ValueError, match=r"lower returned shape \(\) for all points of shape \(3, 2\).*\(3,\)"):
        method(lambda x: 1.0, problem.upper, np.zeros((3, 2)), vectorized=True)


@every_method
def test_starts_are_not_modified_and_may_be_integers(method, weight):
    x0 = np.array([[1, 2], [3, 4]])
    x0.flags.writeable = False
    problem = Quadratic(2)

    def spoiling(f):
        def call(x):
            value = f(x)
            x[:] = np.nan
            return value

        return call

    result = method(
        spoiling(problem.lower), spoiling(problem.upper), x0, lower_grad=spoiling(problem.lower_grad),
        upper_grad=spoiling(problem.upper_grad), max_iter=20,
    )  # fmt: skip
    np.testing.assert_array_equal(x0, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(result.x, problem.run(method, x0, max_iter=20).x)
