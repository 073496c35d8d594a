"""Nested bi-level problems, against grids and closed forms; the loop of two levels."""

import pickle

import numpy as np
import pytest
from optimize_cases import same
from scipy.optimize import Bounds, minimize_scalar
from sklearn.linear_model import Lasso

from sklearn_scb2o import NestedOptimizer, SCB2OWarning, minimize_nested
from sklearn_scb2o.problems import mirrlees, mitsos_barton, nested_circle, smd1, smd6

LINES = [*map(mitsos_barton, ("3.14", "3.17", "3.19", "3.21")), mirrlees()]
CIRCLE = nested_circle()


def solve(problem, **options):
    return minimize_nested(
        problem.lower, problem.upper, problem.outer_bounds, problem.inner_bounds,
        **{"vectorized": True, "random_state": 0, **options},
    )  # fmt: skip


def small(lower=CIRCLE.lower, upper=CIRCLE.upper, **options):
    """A short run on the circle."""
    return minimize_nested(
        lower, upper, CIRCLE.outer_bounds, CIRCLE.inner_bounds,
        **{"n_outer": 5, "n_inner": 8, "first_iter": 4, "inner_iter": 3, "max_iter": 3, "random_state": 0, **options},
    )  # fmt: skip


def make(problem=CIRCLE, **options):
    """A small optimizer."""
    sizes = {"n_outer": 5, "n_inner": 8, "first_iter": 4, "inner_iter": 3, "random_state": 0}
    return NestedOptimizer(problem.outer_bounds, problem.inner_bounds, **{**sizes, **options})


def step(opt, problem=CIRCLE):
    """One ask and tell; the pairs asked."""
    phi, theta = opt.ask()
    opt.tell(problem.lower(phi[:, None], theta), problem.upper(phi[:, None], theta))
    return phi, theta


def assert_same_result(a, b):
    assert same([a.x_outer, a.x_inner], [b.x_outer, b.x_inner])
    assert same(a.population.values(), b.population.values())
    assert (a.fun, a.lower_fun, a.nit, a.n_failed) == (b.fun, b.lower_fun, b.nit, b.n_failed)


def least_on_grid(problem, n=2001):
    """The smallest upper value over a grid of phi and the best theta on a grid for each, and where it is."""
    phi = np.linspace(*problem.outer_bounds[0], n)
    theta = np.linspace(*problem.inner_bounds[0], n)
    pairs = phi[:, None, None], theta[None, :, None]
    L, G = problem.lower(*pairs), problem.upper(*pairs)
    # minimisers of L to the accuracy of the grid
    near = np.min(L, axis=1, keepdims=True) + 1e-5 > L
    i, j = np.unravel_index(np.argmin(np.where(near, G, np.inf)), G.shape)
    return G[i, j], phi[i], theta[j]


# --- problems with known solution


@pytest.mark.parametrize("problem", LINES, ids=repr)
def test_minimum_is_that_of_a_grid(problem):
    result = solve(problem, max_evals=60_000)
    upper, phi, theta = least_on_grid(problem)
    assert result.fun == pytest.approx(upper, abs=0.05)
    assert result.x_outer[0] == pytest.approx(phi, abs=0.05)
    assert abs(result.x_inner[0]) == pytest.approx(abs(theta), abs=0.05)
    best = problem.lower(result.x_outer, np.linspace(*problem.inner_bounds[0], 10_001)[:, None]).min()
    assert result.lower_fun - best < 0.02


def test_upper_objective_picks_among_the_minimisers_of_the_lower_one():
    # theta = -sqrt(phi) is as good for L
    result = solve(mitsos_barton("3.19"), max_evals=40_000)
    np.testing.assert_allclose(result.x_inner, mitsos_barton("3.19").inner_opt[0], atol=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_upper_objective_picks_the_point_of_a_circle(seed):
    result = solve(CIRCLE, max_evals=60_000, random_state=seed)
    assert CIRCLE.distance(result.x_outer, result.x_inner) < 0.05
    assert result.lower_fun < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("problem", [*LINES, CIRCLE, smd1(), smd6()], ids=repr)
def test_problems_are_solved_from_every_seed(problem):
    for seed in range(10):
        result = solve(problem, max_evals=200_000, random_state=seed)
        assert problem.distance(result.x_outer, result.x_inner) < 0.05
        assert abs(result.fun - problem.upper_opt) < 0.05


def regression_data():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(60, 3)), rng.normal(size=60)
    y = X @ [1.0, -1.0, 0.0] + noise
    return X[:20], y[:20], X[20:], y[20:]


def validation_error(phi, theta):
    _, _, X, y = regression_data()
    return np.mean((theta @ X.T - y) ** 2, axis=-1)


def test_penalty_of_a_ridge_regression():
    X, y, _, _ = regression_data()

    def lower(phi, theta):
        return np.mean((theta @ X.T - y) ** 2, axis=-1) + 10.0 ** phi[..., 0] * np.sum(theta**2, axis=-1)

    def coefficients(phi):
        return np.linalg.solve(X.T @ X / 20 + 10.0**phi * np.eye(3), X.T @ y / 20)

    result = minimize_nested(
        lower, validation_error, [(-4, 1)], [(-3, 3)] * 3, vectorized=True, max_evals=80_000, random_state=0
    )
    grid = np.linspace(-4, 1, 501)
    errors = [float(validation_error(phi, coefficients(phi))) for phi in grid]
    assert result.fun == pytest.approx(min(errors), rel=2e-3)
    np.testing.assert_allclose(result.x_inner, coefficients(result.x_outer[0]), atol=0.02)


def test_penalty_of_a_lasso():
    X, y, _, _ = regression_data()

    def lower(phi, theta):
        return np.mean((theta @ X.T - y) ** 2, axis=-1) / 2 + 10.0 ** phi[..., 0] * np.sum(np.abs(theta), axis=-1)

    def coefficients(phi):
        return Lasso(alpha=10.0**phi, fit_intercept=False, tol=1e-10).fit(X, y).coef_

    result = minimize_nested(
        lower, validation_error, [(-3, 0)], [(-3, 3)] * 3, vectorized=True, max_evals=80_000, random_state=0
    )
    least = minimize_scalar(lambda phi: validation_error(phi, coefficients(phi)), bounds=(-3, 0), method="bounded")
    assert result.fun == pytest.approx(least.fun, rel=5e-3)
    np.testing.assert_allclose(result.x_inner, coefficients(result.x_outer[0]), atol=0.02)


# --- ask and tell


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
    opt = NestedOptimizer(
        None, None, outer_options={"x0": [1.0]}, inner_options={"x0": [1.0, 1.0]}, max_iter=30, random_state=0
    )
    while not opt.stop():
        step(opt)
    assert CIRCLE.distance(np.abs(opt.result.x_outer), opt.result.x_inner) < 0.1


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


def test_pickled_optimizer_goes_on_bit_for_bit():
    opt = make()
    for n in range(12):
        copy = pickle.loads(pickle.dumps(opt))
        assert same(opt.ask(), copy.ask())
        step(opt)
        step(copy)
        if n % 2:
            opt = copy
    assert same(opt.ask(), copy.ask())


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
    history = solve(CIRCLE, max_iter=30).history
    assert history["spread"][-1] < 0.1 * history["spread"][0]
    assert history["inner_spread"][-1] < 0.1 * history["inner_spread"][0]


# --- stopping


def test_convergence_is_success():
    result = small(tol=0.5, max_iter=100)
    assert result.success
    assert result.status == 1
    assert "spread" in result.message


def test_limit_on_outer_iterations():
    result = small()
    assert (result.nit, result.success, result.status) == (3, False, 3)
    assert "max_iter=3" in result.message


@pytest.mark.parametrize("max_evals", [160, 279, 280, 1000])
def test_limit_on_evaluations_is_kept(max_evals):
    result = small(max_iter=None, max_evals=max_evals)
    assert max_evals - 3 * 40 < result.nfev == result.nfev_lower <= max_evals
    assert result.status == 4
    assert f"max_evals={max_evals}" in result.message


def test_too_few_evaluations_for_an_iteration_give_no_solution():
    result = small(max_evals=159)
    assert result.x_outer is None
    assert result.nfev == 0
    assert "max_evals=159" in result.message


def test_limit_on_time():
    result = small(max_iter=None, max_time=0.0)
    assert result.status == 5


def test_there_is_a_default_limit():
    result = small(max_iter=None, tol=0.0)
    assert result.nit == 100


# --- minimize_nested


def test_result_is_that_of_the_loop():
    opt = make(max_iter=3)
    while not opt.stop():
        step(opt)
    assert_same_result(small(), opt.result)


def test_values_are_those_at_the_solution():
    result = small()
    assert result.lower_fun == pytest.approx(CIRCLE.lower(result.x_outer, result.x_inner), rel=1e-12)
    assert result.fun == pytest.approx(CIRCLE.upper(result.x_outer, result.x_inner), rel=1e-12)


def joint(phi, theta):
    return CIRCLE.lower(phi, theta), CIRCLE.upper(phi, theta)


@pytest.mark.parametrize("functions", [(CIRCLE.lower, CIRCLE.upper), (joint, None)], ids=["two", "joint"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_every_way_to_give_the_objectives_is_the_same(functions, vectorized):
    assert_same_result(small(*functions, vectorized=vectorized), small())


def test_objectives_see_vectors():
    shapes = set()
    small(lambda phi, theta: shapes.add((phi.shape, theta.shape)) or 0.0)
    assert shapes == {((1,), (2,))}


def test_vectorized_objectives_see_arrays_that_broadcast():
    shapes = set()

    def upper(phi, theta):
        shapes.add((phi.shape, theta.shape[0], theta.shape[2]))
        return CIRCLE.upper(phi, theta)

    small(upper=upper, vectorized=True)
    assert shapes == {((5, 1, 1), 5, 2)}


@pytest.mark.parametrize("vectorized", [False, True])
def test_objectives_may_write_into_their_arguments(vectorized):
    def spoiling(f):
        def spoiled(phi, theta):
            value = f(phi.copy(), theta.copy())
            phi[...] = theta[...] = np.nan
            return value

        return spoiled

    result = small(spoiling(CIRCLE.lower), spoiling(CIRCLE.upper), vectorized=vectorized)
    assert_same_result(result, small())


def test_evaluations_are_counted():
    calls = {"L": 0, "G": 0}

    def counted(name, f):
        def count(phi, theta):
            calls[name] += 1
            return f(phi, theta)

        return count

    result = small(counted("L", CIRCLE.lower), counted("G", CIRCLE.upper), n_inner=20)
    assert (result.nfev_lower, result.nfev_upper) == (calls["L"], calls["G"])
    assert calls["L"] == 5 * 20 * (4 + 3 + 3)
    assert calls["G"] < 0.7 * calls["L"]


def test_args_are_passed_to_both():
    def scaled(f):
        return lambda phi, theta, factor, shift: factor * f(phi, theta) + shift

    assert_same_result(small(scaled(CIRCLE.lower), scaled(CIRCLE.upper), args=(1.0, 0.0)), small())


def test_callback_gets_the_best_pair():
    seen = []
    result = small(callback=lambda phi, theta: seen.append((phi, theta)))
    assert len(seen) == 3
    assert same(seen[-1], (result.x_outer, result.x_inner))


def test_callback_gets_the_intermediate_result_by_name():
    seen = []
    small(callback=lambda intermediate_result: seen.append(intermediate_result))
    assert [result.nit for result in seen] == [1, 2, 3]
    assert [result.nfev for result in seen] == [160, 280, 400]


def test_callback_can_stop_the_run():
    def stop(intermediate_result):
        raise StopIteration

    result = small(callback=stop)
    assert (result.nit, result.status, result.success) == (1, 6, False)
    assert "StopIteration" in result.message


def test_interrupted_run_returns_what_it_has():
    calls = []

    def interrupted(phi, theta):
        calls.append(phi)
        if len(calls) == 200:
            raise KeyboardInterrupt
        return CIRCLE.lower(phi, theta)

    result = small(interrupted)
    assert (result.nit, result.status) == (1, 7)
    assert result.x_outer is not None


def test_progress_is_shown_only_on_demand(capsys):
    small()
    assert capsys.readouterr() == ("", "")
    small(disp=True)
    out, err = capsys.readouterr()
    assert "max_iter=3" in out
    assert "evals=400" in err


@pytest.mark.parametrize("seed", [0, np.random.SeedSequence(4)])
def test_random_state_determines_the_result(seed):
    assert_same_result(small(random_state=seed), small(random_state=seed))
    assert not same([small(random_state=seed).x_outer], [small(random_state=1).x_outer])


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    small()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# --- failed evaluations


@pytest.mark.parametrize("failure", [None, np.nan, np.inf])
def test_failed_evaluations_are_counted_and_avoided(failure):
    failed = []

    def partly(phi, theta):
        if theta[0] < 0:
            failed.append(theta)
            return failure
        return CIRCLE.lower(phi, theta)

    result = small(partly)
    assert result.n_failed == len(failed) > 0
    assert result.x_inner[0] >= 0


def test_outer_points_at_which_everything_fails_are_avoided():
    result = small(lambda phi, theta: np.nan if phi[0] < 1.0 else CIRCLE.lower(phi, theta), max_iter=10)
    assert result.x_outer[0] >= 1.0
    assert np.isfinite(result.fun)


def test_all_evaluations_failing_is_an_error():
    with pytest.warns(SCB2OWarning, match="fresh"), pytest.raises(RuntimeError, match="failed"):
        small(lambda phi, theta: None, max_iter=None)


# --- parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_outer": 2}, "n_outer=2"),
        ({"n_inner": 5}, "n_inner=5"),
        ({"n_inner": "many"}, "n_inner='many'"),
        ({"first_iter": 1}, "first_iter=1"),
        ({"inner_iter": 1.5}, "inner_iter=1.5"),
        ({"max_iter": -1}, "max_iter=-1"),
        ({"max_evals": -1}, "max_evals=-1"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"outer_options": {"n_runs": 2}}, "outer_options has 'n_runs'"),
        ({"outer_options": {"selection": "soft"}}, "outer_options has 'selection'"),
        ({"inner_options": {"n_particles": 2, "tol": 0}}, "inner_options has 'n_particles', 'tol'"),
        ({"inner_options": {"beta": 2.0}}, "beta=2.0"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_wrong_parameter_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options)


@pytest.mark.parametrize("bounds", [{"outer": [(1, 0)]}, {"inner": [(1, 0)]}])
def test_wrong_bounds_are_named(bounds):
    with pytest.raises(ValueError, match="reversed"):
        NestedOptimizer(bounds.get("outer", [(0, 1)]), bounds.get("inner", [(0, 1)]))


def test_unknown_option_is_an_error():
    with pytest.raises(TypeError, match="particles"):
        small(particles=10)


WRONG = {
    "vector": (lambda p, t: t, False, "lower must return one real number per pair"),
    "string": (lambda p, t: "a", False, "lower must return a real number per pair"),
    "rows": (lambda p, t: np.zeros(5), True, r"lower returned shape \(5,\).*must return \(5, 8\)"),
    "nothing": (lambda p, t: None, True, r"lower returned shape \(\)"),
}


@pytest.mark.parametrize(("f", "vectorized", "message"), WRONG.values(), ids=WRONG)
def test_wrong_return_of_an_objective_is_named(f, vectorized, message):
    with pytest.raises(ValueError, match=message):
        small(f, vectorized=vectorized)


@pytest.mark.parametrize("f", [lambda p, t: 1.0, lambda p, t: (1.0, 2.0, 3.0)])
def test_joint_objective_must_return_a_pair(f):
    with pytest.raises(ValueError, match=r"pair \(L, G\)"):
        small(f, None)


def test_options_reach_the_inner_level():
    # with a tolerance every point of the plane near the circle is as good as those on it
    strict, loose = (solve(CIRCLE, max_iter=20, inner_options={"lower_tol": tol}) for tol in (0.0, 4.0))
    assert loose.fun < strict.fun - 0.1


def test_hard_inner_selection():
    result = solve(CIRCLE, max_iter=20, inner_options={"selection": "hard"})
    assert CIRCLE.distance(result.x_outer, result.x_inner) < 0.1
