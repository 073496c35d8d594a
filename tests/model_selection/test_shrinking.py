"""Shrinkage by a concave penalty, for objectives that are not convex."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import membership_of
from sklearn_scb2o.model_selection.pruning import backward_elimination
from sklearn_scb2o.model_selection.seeds import seed_supports
from sklearn_scb2o.model_selection.shrinking import shrink, shrunk_support
from sklearn_scb2o.model_selection.supports import WeightSupports


def perceptron_supports(group_by="weight", activation="tanh"):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = MLPClassifier((8,), activation, solver="lbfgs", alpha=0.01, max_iter=500, tol=1e-3, random_state=0)
    model.fit(X, y)
    space = make_weight_space(model, X, y)
    supports = WeightSupports(space, membership_of(space, group_by, 4), space.weights_of(model))
    return supports, 1.2 * float(space.objective(supports.start[None])[0])


@pytest.mark.parametrize("group_by", ["weight", "unit"])
@pytest.mark.parametrize("activation", ["tanh", pytest.param("relu", marks=pytest.mark.slow)])
def test_not_larger_than_by_backward_elimination_and_within_the_limit(group_by, activation):
    supports, limit = perceptron_supports(group_by, activation)
    found = shrunk_support(supports, limit)
    assert supports.value(found) <= limit
    assert found.sum() <= backward_elimination(supports, limit).sum()


def test_the_penalty_leads_near_the_limit_and_empties_groups():
    supports, limit = perceptron_supports()
    weights, _ = shrink(supports, limit, supports.start)
    assert 0.5 * limit < supports.space.objective(weights[None])[0] < 2.0 * limit
    sizes, before = np.sort(np.abs(weights)), np.sort(np.abs(supports.start))
    half = len(sizes) // 2
    assert sizes[half] < 0.25 * before[half]


@pytest.mark.slow
def test_is_among_the_seeds():
    supports, limit = perceptron_supports()
    assert set(seed_supports(supports, limit)) == {"plain", "magnitude", "backward", "shrunk"}
