"""Values of supports are those of their inner fits, and kept."""

import numpy as np
from search_cases import ridge_supports
from sklearn.datasets import load_iris
from sklearn.neural_network import MLPClassifier

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import membership_of
from sklearn_scb2o.model_selection.supports import WeightSupports


def test_each_support_is_fitted_once():
    supports = ridge_supports()
    support = np.arange(8) < 3
    first = supports.value(support)
    assert supports.n_fits == 1
    assert supports.values(np.array([support, support])).tolist() == [first, first]
    weights = supports.weights(support)
    assert supports.n_fits == 1
    assert supports.space.objective(weights[None])[0] == first
    assert supports.value_from(support, weights + 1.0) == first


def test_a_weight_is_free_when_all_its_groups_are_in():
    X, y = load_iris(return_X_y=True)
    model = MLPClassifier((3, 2), solver="lbfgs", max_iter=20, random_state=0, tol=1.0).fit(X, y)
    space = make_weight_space(model, X, y)
    supports = WeightSupports(space, membership_of(space, "unit", 4), space.weights_of(model), max_iter=5)
    support = np.array([True, False, True, True, False])
    members = supports.membership.toarray() > 0
    out = np.any(members[~support], axis=0)
    np.testing.assert_array_equal(supports.missing(support) > 0, out)
    assert not supports.weights(support)[out].any()
    changes = supports.quadratic_model(support).changes()
    assert changes.drop.shape == (3,)
    assert changes.swap.shape == (3, 2)
    assert np.all(changes.add <= 0.0)
