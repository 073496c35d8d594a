"""Groups of weights."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import feature_labels, membership_of


@pytest.fixture
def space():
    X, y = load_iris(return_X_y=True)
    return make_weight_space(LogisticRegression(max_iter=1000).fit(X, y), X, y)


@pytest.mark.parametrize(
    ("group_by", "sizes"),
    [("feature", [3, 3, 3, 3]), ("weight", [1] * 12), (["b", "a", "b", "b"], [3, 9]), (np.array([7, 7, 7, 7]), [12])],
)
def test_each_coefficient_is_in_one_group(space, group_by, sizes):
    members = membership_of(space, group_by, 4).toarray()
    np.testing.assert_array_equal(members.sum(axis=1), sizes)
    np.testing.assert_array_equal(members.sum(axis=0), ~space.is_intercept)


def test_labels_are_numbered_in_order():
    np.testing.assert_array_equal(feature_labels(["b", "a", "b"], 3), [1, 0, 1])
    np.testing.assert_array_equal(feature_labels("feature", 3), [0, 1, 2])


def test_wrong_groups(space):
    with pytest.raises(ValueError, match="label for each column"):
        membership_of(space, [0, 1], 4)
    with pytest.raises(ValueError, match="hidden units"):
        membership_of(space, "unit", 4)
