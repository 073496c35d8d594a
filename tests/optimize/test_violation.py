"""Models of the violation, which learn the constraints that make up L from its gradients."""

import numpy as np
import pytest

from sklearn_scb2o.optimize.violation import CuttingPlanes, Point, SecantModel, damped_bfgs, scaled, violation

ALLOWED = 0.01


def point(f, z):
    """L and G at z with their gradients, by central differences."""
    z = np.asarray(z, dtype=float)
    h = 1e-6 * np.eye(z.size)
    slopes = [[(f(z + e)[i] - f(z - e)[i]) / 2e-6 for e in h] for i in (0, 1)]
    return Point(z, *map(float, f(z)), np.array(slopes[0]), np.array(slopes[1]))


def corner(z):
    """Two inequalities, z1 <= 0 and z2 <= 0; G is lowest at their corner."""
    return max(z[0], 0.0) ** 2 + max(z[1], 0.0) ** 2, float(-z[0] - z[1])


def crossing(z):
    """Two equations, z1 = 0 and z2 = 0."""
    return z[0] ** 2 + z[1] ** 2, float(-z[0] - z[1] + z[2] ** 2)


def taught(model, f, center, others):
    model.look_at(center, 0.0)
    for z in others:
        model.learn(point(f, z), 0.0, 0.0)
    model.look_at(center, 0.0)
    return model


def test_the_violation_is_the_root_of_the_excess():
    assert violation(5.0, 1.0) == 2.0
    assert violation(1.0, 1.0 + 1e-9) == 0.0


def test_cutting_planes_know_each_constraint_that_was_violated():
    center = point(corner, [-0.5, -0.5])
    model = taught(CuttingPlanes(center, 1e-9), corner, center, [[0.2, -0.5], [-0.5, 0.3]])
    for step in ([0.7, 0.1], [0.1, 0.9], [0.2, 0.2]):
        assert model.at(np.array(step)) == pytest.approx(max(0.0, *(center.z + step)), abs=1e-6)


def test_their_step_goes_to_the_corner_and_weighs_both_constraints():
    center = point(corner, [-0.5, -0.5])
    model = taught(CuttingPlanes(center, 1e-9), corner, center, [[0.2, -0.5], [-0.5, 0.3]])
    step = model.best_step(ALLOWED, -np.ones(2), np.ones(2))
    np.testing.assert_allclose(center.z + step.step, ALLOWED, atol=1e-5)
    assert step.violation == pytest.approx(ALLOWED, abs=1e-6)
    assert step.multiplier == pytest.approx(2.0, abs=0.05)


def test_a_plane_that_exceeds_what_is_known_is_lowered():
    def f(z):  # c = |z1| - z1^2 is not convex
        return (abs(z[0]) - z[0] ** 2) ** 2, float(z[0])

    center = point(f, [0.01])
    model = taught(CuttingPlanes(center, 1e-9), f, center, [[0.4]])
    assert model.at(np.zeros(1)) <= violation(center.lower, 0.0) + 1e-12


def test_of_one_equation_seen_from_both_sides_one_side_counts():
    center = point(crossing, [0.1, 0.0, 0.0])
    model = taught(CuttingPlanes(center, 1e-9), crossing, center, [[-0.3, 0.0, 0.0]])
    assert model.at(np.array([-0.1, 0.0, 0.0])) == pytest.approx(0.0, abs=1e-6)


def test_the_secant_model_learns_the_curvature_of_equations():
    center = point(crossing, [0.3, -0.2, 0.5])
    model = taught(SecantModel(center), crossing, center, [[0.1, 0.4, 0.5], [0.6, -0.1, 0.2]])
    for step in np.random.default_rng(0).uniform(-1, 1, (5, 3)):
        assert model.at(step) == pytest.approx(np.hypot(*(center.z + step)[:2]), abs=1e-5)


def test_the_secant_model_is_exact_where_it_is_told_the_curvatures():
    center = point(crossing, [0.3, -0.2, 0.5])
    model = taught(SecantModel(center), crossing, center, [])
    model.be_told(np.diag([2.0, 2.0, 0.0]), np.diag([0.0, 0.0, 2.0]))
    model.look_at(center, 0.0)
    assert model.error == 0.0
    for step in np.random.default_rng(0).uniform(-1, 1, (5, 3)):
        assert model.at(step) == pytest.approx(np.hypot(*(center.z + step)[:2]), abs=1e-5)
    assert model.best_step(1.0, -np.ones(3), np.ones(3)).step[2] == pytest.approx(-0.5, abs=1e-3)


def test_the_secant_model_expects_L_to_become_as_low_as_its_curvature_tells():
    center = point(crossing, [0.3, -0.2, 0.5])
    model = taught(SecantModel(center), crossing, center, [])
    assert model.lower_by(center, 1.0) == 0.0
    model.be_told(np.diag([2.0, 2.0, 0.0]), np.eye(3))
    assert model.lower_by(center, 1.0) == pytest.approx(0.13, abs=1e-8)
    assert model.lower_by(center, 0.1) == pytest.approx((0.09 - 0.04) + (0.04 - 0.01), abs=1e-8)
    unknown = np.diag([2.0, 1e-5, -1.0])  # but for the first, next to nothing beside it
    model.be_told(unknown, np.eye(3))
    assert model.lower_by(center, 1.0) == pytest.approx(0.09, abs=1e-8)


def test_what_the_secant_model_has_learnt_of_L_stays_where_it_is_told_of_G_alone():
    center = point(crossing, [0.3, -0.2, 0.5])
    model = taught(SecantModel(center), crossing, center, [[0.1, 0.4, 0.5], [0.6, -0.1, 0.2]])
    model.be_told(None, np.diag([0.0, 0.0, 2.0]))
    assert model.at(np.ones(3)) == pytest.approx(np.hypot(1.3, 0.8), abs=1e-5)
    assert model.best_step(1.0, -np.ones(3), np.ones(3)).step[2] == pytest.approx(-0.5, abs=1e-3)


def test_a_lower_objective_without_curvature_tells_the_secant_model_nothing():
    center = point(crossing, [0.3, -0.2, 0.5])
    model = taught(SecantModel(center), crossing, center, [[0.1, 0.4, 0.5]])
    before, error = model.at(np.ones(3)), model.error
    model.be_told(np.zeros((3, 3)), np.eye(3))
    assert (model.at(np.ones(3)), model.error) == (before, error)


def test_told_curvatures_can_be_learned_from_where_G_is_flat():
    def flat_here(z):
        return z[0] ** 2 + z[1] ** 2, float(max(z[2], 0.0) ** 2)

    center = point(flat_here, [0.3, -0.2, -0.5])
    model = taught(SecantModel(center), flat_here, center, [])
    model.be_told(np.diag([2.0, 2.0, 0.0]), np.zeros((3, 3)))
    new = point(flat_here, [0.0, 0.0, 1.0])
    taught(model, flat_here, center, [new.z]).look_at(new, 0.0)
    step = model.best_step(1.0, np.full(3, -2.0), np.full(3, 2.0)).step
    assert step[2] == pytest.approx(-1.5, abs=1e-3)  # the slope was 0 at a distance of 1.5


def test_its_step_keeps_to_the_violation_allowed():
    center = point(crossing, [0.3, -0.2, 0.5])
    model = taught(SecantModel(center), crossing, center, [[0.1, 0.4, 0.5], [0.6, -0.1, 0.2]])
    step = model.best_step(ALLOWED, -np.ones(3), np.ones(3))
    assert step.violation <= ALLOWED * (1 + 1e-6)
    assert step.violation >= 0.8 * ALLOWED
    assert step.multiplier > 0.0
    np.testing.assert_allclose((center.z + step.step)[:2], ALLOWED / 2**0.5, atol=0.2 * ALLOWED)


def test_where_the_violation_cannot_be_reached_the_step_goes_towards_it():
    for model in (CuttingPlanes, SecantModel):
        center = point(crossing, [0.5, 0.5, 0.0])
        made = model(center, 1e-9) if model is CuttingPlanes else model(center)
        taught(made, crossing, center, [[0.4, 0.6, 0.0], [0.6, 0.3, 0.1]])
        step = made.best_step(ALLOWED, np.full(3, -0.1), np.full(3, 0.1))
        assert np.hypot(*(center.z + step.step)[:2]) < 0.6
        assert np.abs(step.step).max() <= 0.1 + 1e-12


def test_a_first_curvature_is_raised_to_what_a_step_shows_and_never_lowered():
    step = np.array([1.0, 1.0])
    np.testing.assert_allclose(scaled(np.eye(2), step, np.array([2.0, 6.0])), 4.0 * np.eye(2))  # 8 along the step
    np.testing.assert_array_equal(scaled(np.eye(2), step, np.array([0.5, 0.5])), np.eye(2))
    np.testing.assert_array_equal(scaled(np.eye(2), step, np.array([-9.0, 0.0])), np.eye(2))
    np.testing.assert_array_equal(scaled(np.eye(2), step, np.array([np.inf, 0.0])), np.eye(2))


@pytest.mark.parametrize("kind", [lambda center: CuttingPlanes(center, 1e-9), SecantModel])
def test_models_take_the_curvature_of_G_in_all_directions_for_that_of_their_first_step(kind):
    def f(z):
        return 0.0, 50.0 * float(z @ z)

    center = point(f, [1.0, 0.0, 0.0, 0.0])
    model = taught(kind(center), f, center, [[0.9, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(model._curvature, 100.0 * np.eye(4), rtol=1e-6)


def test_damped_updates_stay_positive_definite():
    rng = np.random.default_rng(1)
    H = np.eye(4)
    for _ in range(200):
        H = damped_bfgs(H, rng.normal(size=4), rng.normal(size=4) * 10.0 ** rng.uniform(-3, 3))
        assert np.linalg.eigvalsh(H)[0] > 0.0


def test_an_update_with_infinite_values_changes_nothing():
    np.testing.assert_array_equal(damped_bfgs(np.eye(2), np.array([1.0, 0.0]), np.array([1e308, 1e308])), np.eye(2))
