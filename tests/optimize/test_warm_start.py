import numpy as np
import pytest

from sklearn_scb2o.optimize.warm_start import NEIGHBOURS, Solved, n_explorers, sorted_by_lower, warm_start

LOW, HIGH = np.array([-1e3]), np.array([1e3])


def solved(phi, theta, n=20):
    """Inner problems solved at phi, whose particles are theta + 0.001, theta + 0.002, ..."""
    phi, theta = np.asarray(phi, dtype=float)[:, None], np.asarray(theta, dtype=float)[:, None]
    population = theta[:, None, :] + 0.001 * np.arange(1, n + 1)[None, :, None]
    return Solved(phi, theta, np.zeros(len(phi)), np.zeros(len(phi)), population)


def start(phi, known, archive=(), low=LOW, high=HIGH):
    archive = np.asarray(archive if len(archive) else known.theta, dtype=float).reshape(-1, 1)
    phi = np.asarray(phi, dtype=float)[:, None]
    return warm_start(phi, known, archive, np.ones(1), np.random.default_rng(0), low, high)


def test_particles_are_sorted_by_lower_value_and_failed_ones_last():
    x = np.arange(4.0).reshape(1, 4, 1)
    np.testing.assert_array_equal(sorted_by_lower(x, np.array([[2.0, np.nan, 1.0, np.inf]])).ravel(), [2, 0, 1, 3])


def test_particles_come_from_the_nearest_outer_points():
    known = solved([10, 0, 1, 11, 2, 3, 4], [700, 0, 100, 800, 200, 300, 400])
    taken = np.unique(np.round(start([1.2], known)[0, :-3] / 100))
    np.testing.assert_array_equal(taken, np.arange(NEIGHBOURS))


def test_the_best_particles_are_taken():
    first = start([0.0], solved([0, 1, 2, 3], [0, 100, 200, 300]))[0, :4, 0]
    np.testing.assert_allclose(first, 0.001 * np.arange(1, 5))


@pytest.mark.parametrize("n", [6, 7, 10, 20, 33])
def test_a_tenth_is_left_to_be_drawn_anew(n):
    assert start([0.0, 1.0], solved([0, 1, 2, 3], [0, 1, 2, 3], n)).shape == (2, n - n_explorers(n), 1)
    assert n_explorers(n) == max(1, n // 10)


def test_some_are_solutions_at_any_earlier_outer_point():
    known = solved([0, 1, 2], [0, 0, 0])
    assert (start([1.0], known, archive=[77.0, 77.0])[0, -3:-1] == 77.0).all()


@pytest.mark.parametrize("phi", [[-1.0], [0.3], [5.0, 2.2]])
def test_prediction_is_exact_where_solutions_are_affine(phi):
    known = solved([0, 1, 2, 3.5, 5], 3.0 - 2.0 * np.array([0, 1, 2, 3.5, 5]))
    np.testing.assert_allclose(start(phi, known)[:, -1, 0], 3.0 - 2.0 * np.array(phi))


def test_prediction_stays_inside_the_bounds():
    known = solved([0, 1, 2], [0, 1, 2])
    assert start([9.0], known, low=np.array([-2.0]), high=np.array([2.0]))[0, -1, 0] == 2.0


@pytest.mark.parametrize("n_known", [1, 2])
def test_few_outer_points_are_enough(n_known):
    known = solved(np.arange(n_known), np.arange(n_known))
    points = start([0.5], known)
    assert points.shape == (1, 18, 1)
    assert np.isfinite(points).all()


def test_outer_points_in_the_same_place_are_no_trouble():
    known = solved([1.0] * 5, [2.0] * 5)
    assert start([1.0], known)[0, -1, 0] == pytest.approx(2.0)
