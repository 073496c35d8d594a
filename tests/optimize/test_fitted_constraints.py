"""The model of the violation as that of several constraints, which are fitted to slopes of L."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_scb2o.optimize.fitted_constraints import Constraints, FittedConstraints, Slopes, fitted
from sklearn_scb2o.optimize.violation import Point

ALLOWED = 0.01


def limits(values, normals):
    """``L = sum_j max(values_j + normals_j z, 0)^2`` and a linear G that falls with the sum of z, with their slopes."""

    def at(z):
        z = np.asarray(z, dtype=float)
        over = np.maximum(values + normals @ z, 0.0)
        return Point(z, float(over @ over), -float(z.sum()), 2.0 * over @ normals, -np.ones(z.size))

    return at


def taught(at, center, others):
    model = FittedConstraints(center, 1e-9)
    model.look_at(center, 0.0)
    for z in others:
        model.best_step(ALLOWED, -np.ones(center.z.size), np.ones(center.z.size))
        model.learn(at(z), 0.0, 0.0)
    model.look_at(center, 0.0)
    return model


CORNER = limits(np.zeros(2), np.eye(2))


def test_constraints_that_were_exceeded_one_by_one_are_known_together():
    model = taught(CORNER, CORNER([-0.5, -0.5]), [[0.2, -0.5], [-0.5, 0.3]])
    for step in ([0.7, 0.1], [0.1, 0.9], [0.7, 0.8]):
        excess = np.maximum(np.array(step) - 0.5, 0.0)
        assert model.at(np.array(step)) == pytest.approx(np.linalg.norm(excess), abs=1e-6)


def test_where_constraints_were_exceeded_together_the_violation_is_nearly_known():
    model = taught(CORNER, CORNER([0.1, 0.2]), [[0.3, 0.1], [0.05, 0.4], [0.15, 0.3]])
    for step in ([0.2, 0.0], [0.0, 0.2], [0.1, 0.1], [-0.05, 0.3]):
        assert model.at(np.array(step)) == pytest.approx(np.linalg.norm(np.array([0.1, 0.2]) + step), rel=0.1)


def test_the_step_exceeds_each_constraint_in_proportion_to_its_multiplier():
    at = limits(np.zeros(2), np.array([[1.0, 0.0], [0.0, 4.0]]))  # multipliers 1 and 1/4
    center = at([-0.1, -0.1])
    model = taught(at, center, [[0.2, -0.5], [-0.5, 0.3], [0.05, 0.05]])
    for _ in range(2):  # shares are those of the step before
        step = model.best_step(ALLOWED, -np.ones(2), np.ones(2))
        model.learn(at(center.z + step.step), 0.0, 0.0)
        model.look_at(center, 0.0)
    shares = np.array([1.0, 0.25]) / np.hypot(1.0, 0.25)
    np.testing.assert_allclose(center.z + step.step, ALLOWED * shares / [1.0, 4.0], atol=1e-5)
    assert step.violation == pytest.approx(ALLOWED, rel=1e-3)
    assert step.multiplier == pytest.approx(np.hypot(1.0, 0.25), rel=0.02)


def test_without_a_limit_the_step_ignores_the_constraints():
    model = taught(CORNER, CORNER([-0.5, -0.5]), [[0.2, -0.5]])
    np.testing.assert_allclose(model.best_step(np.inf, -np.ones(2), np.ones(2)).step, 1.0)


def test_no_more_constraints_are_fitted_than_part_of_the_variables():
    rng = np.random.default_rng(0)
    d = 5
    at = limits(rng.uniform(-0.1, 0.1, 12), rng.standard_normal((12, d)))
    model = taught(at, at(np.zeros(d)), rng.uniform(-1, 1, (20, d)))
    assert 1 <= len(model._constraints.values) <= 3


def test_slopes_that_are_not_numbers_or_huge_leave_a_model_that_gives_steps():
    center = CORNER([-0.5, -0.5])
    model = taught(CORNER, center, [[0.2, -0.5]])
    for slope in (np.array([1e300, 0.0]), np.array([np.inf, 1.0])):
        with np.errstate(all="ignore"):
            model.learn(Point(np.array([0.3, 0.3]), 1e90, 0.0, slope, -np.ones(2)), 0.0, 0.0)
            model.look_at(center, 0.0)
        step = model.best_step(ALLOWED, -np.ones(2), np.ones(2))
        assert np.isfinite(step.step).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 3))
def test_a_fit_is_nowhere_worse_and_finds_constraints_that_are_nearly_known(seed, d, k):
    rng = np.random.default_rng(seed)
    true = Constraints(rng.uniform(0.0, 1.0, k), rng.standard_normal((k, d)))
    steps = rng.uniform(-1, 1, (20, d))
    data = Slopes(steps, true.slopes(steps), np.ones(20))
    start = Constraints(true.values + 1e-3, true.normals + 1e-3 * rng.standard_normal((k, d)))
    before, after = (np.linalg.norm(data.errors(c)) for c in (start, fitted(start, data)))
    assert after <= before
    assert after <= max(1e-2 * before, 1e-9)
