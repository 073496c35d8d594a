import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize, minimize_scalar

from sklearn_scb2o.problems import Problem, circle, periodic_grid, sphere, star

PROBLEMS = {
    "circle": circle,
    "star": star,
    "periodic_grid": periodic_grid,
    "sphere 2": lambda: sphere(2),
    "sphere 3": lambda: sphere(3),
    "sphere 10": lambda: sphere(10, seed=7),
}
every_problem = pytest.mark.parametrize("problem", [make() for make in PROBLEMS.values()], ids=list(PROBLEMS))


def on_circle(angle):
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def on_star(angle):
    return on_circle(angle) * (1.0 + 0.5 * np.sin(5.0 * angle))[..., None]


def random_points(problem, shape, seed=0):
    low, high = problem.bounds.T
    return np.random.default_rng(seed).uniform(low, high, size=(*shape, low.size))


# --- the solution


@every_problem
def test_solution_has_the_lower_optimum(problem):
    assert abs(problem.lower(problem.x_opt) - problem.lower_opt) <= 1e-30


@every_problem
def test_solution_has_the_upper_optimum(problem):
    np.testing.assert_allclose(problem.upper(problem.x_opt), problem.upper_opt, rtol=1e-14, atol=1e-15)


@every_problem
def test_solution_lies_in_the_box(problem):
    low, high = problem.bounds.T
    assert ((low < problem.x_opt) & (problem.x_opt < high)).all()


@every_problem
def test_no_point_has_a_smaller_lower_value(problem):
    assert (problem.lower(random_points(problem, (200_000 // problem.x_opt.size,))) >= problem.lower_opt).all()


@pytest.mark.parametrize(("problem", "curve"), [(circle(), on_circle), (star(), on_star)], ids=["circle", "star"])
def test_no_feasible_point_of_a_curve_is_better(problem, curve):
    angles = np.linspace(-math.pi, math.pi, 200_001)
    points = curve(angles)
    assert problem.lower(points).max() < 1e-28
    G = problem.upper(points)
    best = int(np.argmin(G))
    assert G[best] >= problem.upper_opt - 1e-14
    np.testing.assert_allclose(points[best], problem.x_opt, atol=1e-4)
    fine = minimize_scalar(
        lambda t: problem.upper(curve(np.asarray(t))),
        bracket=(angles[best - 1], angles[best], angles[best + 1]),
        tol=1e-12,
    )
    np.testing.assert_allclose(fine.fun, problem.upper_opt, rtol=1e-14)
    np.testing.assert_allclose(curve(np.asarray(fine.x)), problem.x_opt, atol=1e-7)


@pytest.mark.parametrize("seed", [0, 1])
def test_no_feasible_point_of_the_sphere_is_better(seed):
    problem = sphere(3, seed=seed)
    x = np.random.default_rng(0).standard_normal((200_000, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    G = problem.upper(x)
    assert G.min() >= problem.upper_opt - 1e-14
    # refine the best thirty over the unnormalised point
    refined = [
        minimize(lambda v: problem.upper(v / np.linalg.norm(v)), x[i], method="Nelder-Mead", options={"fatol": 1e-12})
        for i in np.argsort(G)[:30]
    ]
    best = min(refined, key=lambda result: result.fun)
    assert best.fun >= problem.upper_opt - 1e-13
    np.testing.assert_allclose(best.fun, problem.upper_opt, atol=1e-6)
    np.testing.assert_allclose(best.x / np.linalg.norm(best.x), problem.x_opt, atol=1e-3)


@pytest.mark.parametrize("d", [2, 3, 5, 10, 50])
def test_sphere_solution_is_stationary_along_the_sphere(d):
    problem = sphere(d)
    gradient = problem.upper_grad(problem.x_opt)
    tangential = gradient - gradient @ problem.x_opt * problem.x_opt
    np.testing.assert_allclose(tangential, 0.0, atol=1e-11)


@pytest.mark.parametrize("d", [2, 4, 10])
def test_sphere_bound_by_distance_holds_on_random_points(d):
    problem = sphere(d)
    x = np.random.default_rng(1).standard_normal((50_000, d))
    near = problem.x_opt + 0.05 * x
    for points in (x, near):
        on = points / np.linalg.norm(points, axis=-1, keepdims=True)
        assert (problem.upper(on) >= problem.upper_opt - 1e-13).all()


def test_minima_of_the_periodic_grid_are_the_multiples_of_pi():
    problem = periodic_grid()
    k = np.arange(-47, 48)
    points = np.stack(np.meshgrid(k, k), axis=-1) * math.pi
    assert problem.lower(points).max() < 1e-24
    away = np.stack(np.meshgrid(k + 0.5, k), axis=-1) * math.pi
    assert problem.lower(away).min() > 1.0


def test_periodic_grid_has_no_other_minimum_in_a_cell():
    problem = periodic_grid()
    t = np.linspace(0.0, math.pi, 1001)
    points = np.stack(np.meshgrid(t, t), axis=-1)
    far = np.minimum(points, math.pi - points).max(axis=-1) > 0.05
    assert problem.lower(points)[far].min() > 0.01


def test_origin_is_the_best_grid_point():
    problem = periodic_grid()
    k = np.arange(-47, 48)
    points = (np.stack(np.meshgrid(k, k), axis=-1) * math.pi).reshape(-1, 2)
    G = problem.upper(points)
    np.testing.assert_array_equal(points[np.argmin(G)], problem.x_opt)
    assert np.sort(G)[1] > problem.upper_opt + 1.0


@pytest.mark.parametrize(
    ("problem", "x_opt", "upper_opt"),
    [
        (circle(), [0.782, 0.624], 4.003),
        (star(), [0.473, 0.464], 2.777),
    ],
    ids=["circle", "star"],
)
def test_solution_is_that_of_the_paper(problem, x_opt, upper_opt):
    np.testing.assert_array_equal(problem.x_opt.round(3), x_opt)
    assert round(problem.upper_opt, 3) == upper_opt


def test_upper_minimum_of_the_paper_problems_is_infeasible():
    centre = np.asarray([0.5, 1 / 3])
    for problem in (circle(), star()):
        assert abs(problem.upper(centre)) < 1e-14
        assert problem.lower(centre) > 0.01


# --- gradients


@every_problem
@pytest.mark.parametrize("which", ["lower", "upper"])
def test_gradient_agrees_with_central_differences(problem, which):
    function, gradient = getattr(problem, which), getattr(problem, which + "_grad")
    x = random_points(problem, (50,), seed=3)
    h = 1e-6
    steps = h * np.eye(problem.x_opt.size)
    numeric = (function(x[:, None, :] + steps) - function(x[:, None, :] - steps)) / (2 * h)
    np.testing.assert_allclose(gradient(x), numeric, rtol=1e-6, atol=1e-5)


@every_problem
@pytest.mark.parametrize("which", ["lower", "upper"])
def test_gradient_passes_check_grad(problem, which):
    function, gradient = getattr(problem, which), getattr(problem, which + "_grad")
    for x in random_points(problem, (10,), seed=4):
        assert check_grad(function, gradient, x) <= 1e-5 * (1.0 + np.linalg.norm(gradient(x)))


@every_problem
def test_lower_gradient_vanishes_at_the_solution(problem):
    np.testing.assert_allclose(problem.lower_grad(problem.x_opt), 0.0, atol=1e-13)


@every_problem
def test_gradients_are_finite_at_the_origin_and_at_the_solution(problem):
    for point in (np.zeros_like(problem.x_opt), problem.x_opt):
        assert np.isfinite(problem.lower_grad(point)).all()
        assert np.isfinite(problem.upper_grad(point)).all()


@pytest.mark.parametrize("problem", [circle(), star()], ids=["circle", "star"])
def test_upper_gradient_is_finite_at_the_tip_of_the_cone(problem):
    assert np.isfinite(problem.upper_grad(np.asarray([0.5, 1 / 3]))).all()


# --- shapes and types


@every_problem
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 0, 3)])
def test_leading_axes_are_batches(problem, shape):
    x = random_points(problem, shape)
    assert np.shape(problem.lower(x)) == np.shape(problem.upper(x)) == np.shape(problem.distance(x)) == shape
    assert problem.lower_grad(x).shape == problem.upper_grad(x).shape == x.shape


@every_problem
@pytest.mark.parametrize("function", ["lower", "upper", "lower_grad", "upper_grad", "distance"])
def test_batches_agree_with_single_points(problem, function):
    f = getattr(problem, function)
    x = random_points(problem, (2, 7))
    expected = [[f(point) for point in row] for row in x]
    np.testing.assert_allclose(f(x), expected, rtol=1e-12, atol=1e-12)


@every_problem
def test_integers_and_lists_are_accepted(problem):
    ones = [1] * problem.x_opt.size
    for f in (problem.lower, problem.upper, problem.lower_grad, problem.upper_grad):
        np.testing.assert_array_equal(f(ones), f(np.ones(len(ones))))


@every_problem
def test_arguments_are_not_modified(problem):
    x = random_points(problem, (4,))
    original = x.copy()
    x.flags.writeable = False
    for f in (problem.lower, problem.upper, problem.lower_grad, problem.upper_grad, problem.distance):
        f(x)
    np.testing.assert_array_equal(x, original)


@every_problem
def test_gradients_are_new_arrays(problem):
    x = random_points(problem, (4,))
    for gradient in (problem.lower_grad(x), problem.upper_grad(x)):
        assert not np.shares_memory(gradient, x)


@every_problem
def test_distance_is_zero_at_the_solution_and_euclidean(problem):
    step = np.zeros_like(problem.x_opt)
    step[:2] = 3.0, 4.0
    np.testing.assert_allclose(problem.distance([problem.x_opt, problem.x_opt + step]), [0.0, 5.0], rtol=1e-12)


# --- the sphere


@pytest.mark.parametrize("d", [1, 0, -3])
def test_sphere_refuses_fewer_than_two_dimensions(d):
    with pytest.raises(ValueError, match=rf"d={d}.*at least 2"):
        sphere(d)


@pytest.mark.parametrize("d", [2, 3, 17])
def test_sphere_has_the_dimension_asked_for(d):
    problem = sphere(d)
    assert problem.bounds.shape == (d, 2)
    assert problem.x_opt.shape == (d,)
    np.testing.assert_allclose(np.linalg.norm(problem.x_opt), 1.0, rtol=1e-14)


def test_sphere_is_reproduced_by_its_seed():
    np.testing.assert_array_equal(sphere(5, seed=3).x_opt, sphere(5, seed=3).x_opt)
    assert np.linalg.norm(sphere(5, seed=3).x_opt - sphere(5, seed=4).x_opt) > 0.01


def test_sphere_does_not_touch_the_global_random_state():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    sphere(5)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


# --- Problem


def test_problem_cannot_be_modified():
    with pytest.raises(FrozenInstanceError):
        circle().name = "square"


def test_problems_do_not_share_their_arrays():
    first, second = circle(), circle()
    first.bounds[:] = 0.0
    first.x_opt[:] = 0.0
    assert (second.bounds != 0).all()
    assert (second.x_opt != 0).all()
    assert (star().bounds != 0).all()


@every_problem
def test_repr_names_problem_and_dimension(problem):
    assert repr(problem) == f"Problem({problem.name!r}, d={problem.x_opt.size})"
    assert isinstance(problem, Problem)
