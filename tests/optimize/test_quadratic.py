"""Steps of local searches: quadratic functions in a box, with and without linear constraints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

from sklearn_scb2o.optimize.quadratic import minimise_in_box, minimise_with_constraints


def problem(seed, d, m):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    return rng.normal(size=d), A @ A.T + 0.1 * np.eye(d), rng.normal(size=(m, d)), rng.uniform(0.05, 1.0, m)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 8))
def test_the_step_is_the_minimiser_that_scipy_finds(seed, d, m):
    slope, H, normals, levels = problem(seed, d, m)
    step, multipliers = minimise_with_constraints(slope, H, normals, levels, -np.ones(d), np.ones(d))
    found = scipy_minimize(
        lambda s: slope @ s + 0.5 * s @ H @ s, np.zeros(d), jac=lambda s: slope + H @ s, method="SLSQP",
        bounds=[(-1, 1)] * d, options={"ftol": 1e-14, "maxiter": 500},
        constraints={"type": "ineq", "fun": lambda s: levels - normals @ s, "jac": lambda s: -normals},
    )  # fmt: skip
    np.testing.assert_allclose(step, found.x, atol=1e-5)
    assert (normals @ step <= levels + 1e-9).all()
    assert (multipliers >= 0).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 8))
def test_multipliers_balance_the_gradient_inside_the_box(seed, d, m):
    slope, H, normals, levels = problem(seed, d, m)
    step, multipliers = minimise_with_constraints(slope, H, normals, levels, np.full(d, -1e3), np.full(d, 1e3))
    np.testing.assert_allclose(slope + H @ step + normals.T @ multipliers, 0.0, atol=1e-5 * (1 + multipliers.sum()))


def test_constraints_that_cannot_be_met_are_met_nearly():
    normals = np.array([[1.0, 0.0], [-1.0, 0.0]])
    step, _ = minimise_with_constraints(
        np.array([0.0, 1.0]), np.eye(2), normals, np.array([-0.5, -0.1]), -np.ones(2), np.ones(2)
    )
    # s1 <= -0.5 and s1 >= 0.1: at best each is missed by 0.3; allowed are 0.9 of that and 0.1 of 0.5
    assert (normals @ step - [-0.5, -0.1] <= 0.9 * 0.3 + 0.1 * 0.5 + 1e-9).all()
    assert step[1] == pytest.approx(-1.0)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e6, 1e12])
def test_units_do_not_matter(unit):
    slope, H, normals, levels = problem(3, 4, 6)
    levels[0] = -0.2
    one, _ = minimise_with_constraints(slope, H, normals, levels, -np.ones(4), np.ones(4))
    other, _ = minimise_with_constraints(slope, H / unit, normals, levels * unit, np.full(4, -unit), np.full(4, unit))
    np.testing.assert_allclose(other / unit, one, rtol=1e-6, atol=1e-8)
    scaled, multipliers = minimise_with_constraints(slope, H, normals * unit, levels * unit, -np.ones(4), np.ones(4))
    np.testing.assert_allclose(scaled, one, rtol=1e-6, atol=1e-8)
    assert np.isfinite(multipliers).all()


def test_without_constraints_both_functions_agree():
    slope, H, _, _ = problem(5, 6, 0)
    step, value = minimise_in_box(slope, H, -np.ones(6), np.ones(6))
    other, _ = minimise_with_constraints(slope, H, np.empty((0, 6)), np.empty(0), -np.ones(6), np.ones(6))
    np.testing.assert_allclose(step, other, atol=1e-8)
    assert value == pytest.approx(slope @ step + 0.5 * step @ H @ step)


@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 10))
def test_directions_of_nearly_no_curvature_do_not_keep_a_minimum_in_a_box_from_being_found(seed, d, rank):
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    curvatures = np.where(np.arange(d) < rank, rng.uniform(1.0, 100.0, d), 10.0 ** rng.uniform(-12.0, -6.0, d))
    along = np.where(np.arange(d) < rank, 1.0, 1e-6) * rng.normal(size=d)  # noise where there is no curvature
    found, value = minimise_in_box(axes @ along, (axes * curvatures) @ axes.T, -10.0 * np.ones(d), 10.0 * np.ones(d))
    assert value <= -0.5 * np.sum(along[:rank] ** 2 / curvatures[:rank]) * (1.0 - 1e-9)
    assert (np.abs(found) <= 10.0).all()
