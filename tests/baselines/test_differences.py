import numpy as np
import pytest

from sklearn_scb2o.baselines.gradients import central_differences
from sklearn_scb2o.problems import circle, periodic_grid, sphere, star

FREE = (np.array(-np.inf), np.array(np.inf))


@pytest.mark.parametrize("problem", [circle(), star(), periodic_grid(), sphere(5)], ids=lambda p: p.name)
@pytest.mark.parametrize("which", ["lower", "upper"])
def test_differences_agree_with_the_gradient(problem, which):
    x = np.random.default_rng(0).uniform(-3, 3, size=(20, problem.x_opt.size))
    exact = getattr(problem, which + "_grad")(x)
    np.testing.assert_allclose(central_differences(getattr(problem, which), x, *FREE), exact, rtol=1e-5, atol=1e-6)


def test_differences_of_a_quadratic_have_rounding_errors_only():
    x = np.random.default_rng(1).normal(size=(10, 4))
    np.testing.assert_allclose(central_differences(lambda p: np.sum(p * p, axis=-1), x, *FREE), 2 * x, atol=1e-9)


def test_differences_are_one_sided_at_the_bounds():
    seen = []

    def f(p):
        seen.append(p)
        return np.sum(p**3, axis=-1)

    x = np.array([[0.0, 1.0], [0.5, 0.5]])
    gradient = central_differences(f, x, np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(gradient, 3 * x**2, atol=1e-4)
    points = np.concatenate(seen)
    assert (points >= 0).all()
    assert (points <= 1).all()


def test_a_coordinate_without_room_has_derivative_zero():
    bounds = np.array([2.0, -np.inf]), np.array([2.0, np.inf])
    gradient = central_differences(lambda p: p[:, 0] + 3 * p[:, 1], np.array([[2.0, 1.0]]), *bounds)
    np.testing.assert_allclose(gradient, [[0.0, 3.0]], rtol=1e-9)


def test_steps_grow_with_the_coordinates():
    x = np.array([[1e8]])
    np.testing.assert_allclose(central_differences(lambda p: np.sin(p[:, 0] / 1e8), x, *FREE), np.cos(1.0) / 1e8)


def test_failed_evaluations_give_a_derivative_that_is_not_finite():
    gradient = central_differences(lambda p: np.where(p[:, 0] > 1, np.inf, p[:, 1]), np.array([[1.0, 0.0]]), *FREE)
    assert not np.isfinite(gradient[0, 0])
    assert gradient[0, 1] == pytest.approx(1.0)
