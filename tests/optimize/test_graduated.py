"""Where averages of G lead that become ever narrower."""

import numpy as np
import pytest
from scipy.optimize import Bounds

from sklearn_scb2o.optimize import graduated
from sklearn_scb2o.optimize.archive import Archive
from sklearn_scb2o.optimize.descent import descend
from sklearn_scb2o.optimize.differences import two_sided
from sklearn_scb2o.optimize.graduated import graduate, n_evaluations

D = 6
MINIMUM = np.linspace(0.3, 0.7, D)  # of the rippled G, where L is lowest, too


def ripples(z):
    """About five local minima in each coordinate, the deepest at `MINIMUM`."""
    away = z - MINIMUM
    return np.sum(away**2 + 0.05 * (1.0 - np.cos(10.0 * np.pi * away)), axis=-1)


def on_a_plane(z):
    return np.sum(z - MINIMUM, axis=-1) ** 2, ripples(z)


def on_a_sphere(z):
    return (np.sum(z**2, axis=-1) - np.sum(MINIMUM**2)) ** 2, ripples(z)


class Box:
    """The unit cube, with all points that were evaluated there; the lowest L is known."""

    def __init__(self, function, d=D):
        self.function, self.z = function, np.empty((0, d))
        known = np.random.default_rng(0).uniform(size=(50, d))
        self.archive = Archive(Bounds(np.zeros(d), np.ones(d)), known, *function(known))
        self.archive.add(np.full((1, d), 0.5), np.zeros(1), np.full(1, 1e3))

    def __call__(self, z):
        self.z = np.vstack([self.z, z])
        L, G = self.function(z)
        self.archive.add(z, L, G)
        return L, G

    def lead(self, start, seed=0):
        return graduate(self, self.archive, start, np.random.default_rng(seed))


@pytest.mark.parametrize("function", [on_a_plane, on_a_sphere])
def test_averages_lead_to_lower_minima_than_descents(function):
    led, descended = [], []
    for seed in range(6):
        start = np.random.default_rng(seed).uniform(size=D)
        z, _ = Box(function).lead(start, seed)
        assert function(z)[0] < 1e-5
        led.append(ripples(z))
        box = Box(function)
        descend(box, box.archive, start, 1e-6)
        descended.append(ripples(box.z)[function(box.z)[0] < 1e-6].min())
    assert np.mean(led) < 0.5 * np.mean(descended)


def test_they_lead_to_the_deepest_minimum_of_many():
    rng = np.random.default_rng(0)
    away = [np.abs(Box(on_a_plane).lead(rng.uniform(size=D), i)[0] - MINIMUM).max() for i in range(6)]
    assert min(away) < 1e-3


def test_from_one_point_they_lead_to_several_minima():
    ends = np.array([Box(on_a_plane).lead(np.full(D, 0.9), seed)[0] for seed in range(8)])
    assert len(np.unique(ends.round(2), axis=0)) > 1


def test_they_lead_to_a_sparse_solution():
    """Of six equations in twelve variables, in one of five attempts."""
    d = 12
    rng = np.random.default_rng(1)
    A, planted = rng.standard_normal((6, d)), np.full(d, 0.5)
    planted[[2, 7]] = 0.2, 0.75

    def function(z):
        x = z - 0.5
        return np.sum(((z - planted) @ A.T) ** 2, axis=-1), np.sum(np.sqrt(np.abs(x)), axis=-1)

    ends = [Box(function, d).lead(rng.uniform(size=d), i)[0] for i in range(5)]
    assert min(np.abs(end - planted).max() for end in ends) < 1e-3


def test_what_is_promised_is_below_what_is_reached():
    box = Box(on_a_sphere)
    z, promise = box.lead(np.full(D, 0.2))
    assert 0.0 <= on_a_sphere(z)[1] - promise < 1e-2


@pytest.mark.parametrize("d", [1, 2, 6])
def test_it_takes_as_many_evaluations_as_it_says(d):
    box = Box(lambda z: (np.sum(z, axis=-1) ** 2, np.cos(z).sum(axis=-1)), d)
    box.lead(np.full(d, 0.4))
    assert len(box.z) == n_evaluations(d)


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_no_point_lies_outside_the_box(corner):
    box = Box(on_a_plane)
    box.lead(np.full(D, corner))
    assert box.z.min() >= 0.0
    assert box.z.max() <= 1.0


@pytest.mark.parametrize("center", [0.0, 0.01, 0.5, 0.97, 1.0])
def test_quadratic_functions_are_known_exactly_also_where_the_box_ends(center):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((D, D))
    curvature, z = A @ A.T, np.full(D, center)
    box = Box(lambda z: (0.5 * np.sum(z @ curvature * z, axis=-1), np.sum(z**2, axis=-1)))
    wide = two_sided(box, box.archive.region, z, np.linspace(0.1, 0.6, D))
    assert wide.point.slope_lower == pytest.approx(curvature @ z, abs=1e-9)
    assert wide.point.slope_upper == pytest.approx(2.0 * z, abs=1e-9)
    assert wide.curvature_upper == pytest.approx(np.full(D, 2.0))
    assert graduated._with_mixed(box, wide) == pytest.approx(curvature, abs=1e-8)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_missing_do_not_end_it(value):
    def failing(z):
        L, G = on_a_plane(z)
        return np.where(z[..., 0] > 0.6, value, L), np.where(z[..., 1] > 0.8, value, G)

    z, _ = Box(failing).lead(np.full(D, 0.5))
    assert ((z >= 0.0) & (z <= 1.0)).all()
