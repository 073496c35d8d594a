import numpy as np
import pytest

from sklearn_scb2o.optimize.local_model import LONGEST, model_minimisers, n_coefficients

LOW, HIGH = np.full(3, -10.0), np.full(3, 10.0)


def minimiser(f, center=(0.0, 0.0, 0.0), n=30, low=LOW, high=HIGH, width=1.0):
    center = np.asarray(center, dtype=float)[None]
    points = center[:, None] + width * np.random.default_rng(0).normal(size=(1, n, center.shape[1]))
    return model_minimisers(center, points, f(points), low, high)[0]


@pytest.mark.parametrize("seed", range(5))
def test_minimiser_of_a_quadratic_function_is_exact(seed):
    rng = np.random.default_rng(seed)
    A, x = rng.normal(size=(4, 3)), 0.3 * rng.normal(size=3)
    np.testing.assert_allclose(minimiser(lambda p: np.sum(((p - x) @ A.T) ** 2, axis=-1) - 7.0), x, atol=1e-8)


def test_flat_directions_are_left_alone():
    found = minimiser(lambda p: (p[..., 0] + p[..., 1] - 1.0) ** 2, center=(0.5, 0.0, 0.2))
    np.testing.assert_allclose(found, [0.75, 0.25, 0.2], atol=1e-8)


def test_directions_of_negative_curvature_are_left_alone():
    found = minimiser(lambda p: (p[..., 0] - 0.1) ** 2 - p[..., 1] ** 2 + p[..., 1])
    np.testing.assert_allclose(found, [0.1, 0.0, 0.0], atol=1e-8)


def test_step_goes_not_far_beyond_the_region_of_the_points():
    found = minimiser(lambda p: np.sum((p - 9.0) ** 2, axis=-1), width=0.1)
    assert 0.1 < np.linalg.norm(found) < 0.5 * LONGEST


def test_minimiser_stays_inside_the_bounds():
    found = minimiser(lambda p: np.sum((p - 0.5) ** 2, axis=-1), high=np.full(3, 0.25))
    np.testing.assert_array_equal(found, 0.25)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_none_are_left_out(bad):
    def f(p):
        values = np.sum((p - 0.2) ** 2, axis=-1)
        values[:, ::5] = bad
        return values

    np.testing.assert_allclose(minimiser(f), 0.2, atol=1e-8)


def test_too_few_points_move_nothing():
    n = 2 * n_coefficients(3) - 1
    np.testing.assert_array_equal(minimiser(lambda p: np.sum((p - 1.0) ** 2, axis=-1), n=n), 0.0)


@pytest.mark.parametrize("f", [lambda p: 0.0 * p[..., 0], lambda p: np.nan * p[..., 0]])
def test_values_that_say_nothing_move_nothing(f):
    np.testing.assert_array_equal(minimiser(f), 0.0)


def test_points_in_one_place_move_nothing():
    center = np.ones((2, 3))
    found = model_minimisers(center, np.ones((2, 30, 3)), np.zeros((2, 30)), LOW, HIGH)
    np.testing.assert_array_equal(found, center)


def test_runs_do_not_influence_each_other():
    points = np.random.default_rng(0).normal(size=(2, 30, 3))
    values = np.sum(points**2, axis=-1)
    alone = model_minimisers(np.full((1, 3), 0.1), points[:1], values[:1], LOW, HIGH)
    values[1] = np.nan
    together = model_minimisers(np.full((2, 3), 0.1), points, values, LOW, HIGH)
    np.testing.assert_array_equal(together[0], alone[0])
    np.testing.assert_array_equal(together[1], 0.1)
