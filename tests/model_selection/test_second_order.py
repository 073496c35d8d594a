"""The quadratic model of the moves against fits by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sklearn_scb2o.model_selection.second_order import QuadraticModel, solve_curvature

# rows are groups, columns weights; the last weight is in none and always free
SINGLE = np.eye(7, 8)
EQUAL = np.repeat(np.eye(3, 4), 2, axis=1)
UNEQUAL = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]])
OVERLAPPING = np.array(
    [[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0, 1, 0]]
)


class Quadratic:
    def __init__(self, membership, seed):
        rng = np.random.default_rng(seed)
        self.membership = membership
        m = membership.shape[1]
        design = rng.standard_normal((20, m))
        self.hessian, self.right = design.T @ design, 5.0 * rng.standard_normal(m)
        self.somewhere = rng.standard_normal(m)

    def value(self, support):
        free = np.flatnonzero(self.membership.T @ ~support == 0)
        right = self.right[free]
        return 3.0 - right @ np.linalg.solve(self.hessian[np.ix_(free, free)], right) / 2.0

    def model(self, support):
        w = self.somewhere
        value = 3.0 - self.right @ w + w @ self.hessian @ w / 2.0
        gradient = self.hessian @ w - self.right
        return QuadraticModel(value, w, gradient, self.hessian, sparse.csr_array(self.membership), support)


def moved(support, *groups):
    support = support.copy()
    support[list(groups)] ^= True
    return support


@pytest.mark.parametrize("membership", [SINGLE, EQUAL, UNEQUAL, OVERLAPPING])
@given(seed=st.integers(0, 10**6), moves=st.lists(st.integers(0, 2), max_size=4))
@settings(max_examples=15, deadline=None)
def test_predictions_are_exact_for_quadratic_objectives(membership, seed, moves):
    problem = Quadratic(membership, seed)
    start = np.random.default_rng(seed).random(len(membership)) < 0.5
    model = problem.model(start)
    for group in moves:
        model.leave(group) if model.support[group] else model.enter(group)
    support, value = model.support, problem.value(model.support)
    assert model.value == pytest.approx(value)
    assert problem.model(start).estimate(support) == pytest.approx(value)
    changes = model.changes()
    for i, j in enumerate(model.leaving):
        assert changes.drop[i] == pytest.approx(problem.value(moved(support, j)) - value)
        for h, k in enumerate(model.entering):
            assert changes.swap[i, h] == pytest.approx(problem.value(moved(support, j, k)) - value, abs=1e-9)
    for h, k in enumerate(model.entering):
        assert changes.add[h] == pytest.approx(problem.value(moved(support, k)) - value)


def test_weights_of_the_model_are_the_minimum_on_the_support():
    problem = Quadratic(SINGLE, 0)
    model = problem.model(np.ones(7, dtype=bool))
    model.leave(2)
    weights = model.weights
    assert weights[2] == 0.0
    gradient = problem.hessian @ weights - problem.right
    np.testing.assert_allclose(np.delete(gradient, 2), 0.0, atol=1e-9)


def test_a_weight_that_others_imitate_gains_nothing():
    design = np.random.default_rng(0).standard_normal((10, 2))
    design = np.column_stack([design, design[:, 0]])
    hessian, right = design.T @ design, np.array([1.0, 2.0, 1.0])
    model = QuadraticModel(
        0.0, np.zeros(3), -right, hessian, sparse.csr_array(np.eye(3)), np.array([True, True, False])
    )
    assert model.adds() == pytest.approx(0.0)
    assert model.swaps()[0, 0] == pytest.approx(0.0, abs=1e-9)


def test_singular_curvature_is_solved_where_it_is_determined():
    design = np.random.default_rng(0).standard_normal((4, 9))
    hessian = design.T @ design
    right = hessian @ np.ones(9)
    np.testing.assert_allclose(hessian @ solve_curvature(hessian, right), right, rtol=1e-4)
    np.testing.assert_array_equal(solve_curvature(np.zeros((2, 2)), np.zeros(2)), 0.0)
