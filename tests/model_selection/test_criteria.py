"""Upper criteria: what a value of `upper` stands for."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer, mean_absolute_error, r2_score

from sklearn_scb2o.model_selection import WorstGroupLoss
from sklearn_scb2o.model_selection.criteria import (
    GroupCosts,
    ModelCriterion,
    WeightCriterion,
    as_criterion,
    group_costs,
)

WEIGHTS = np.array([[1.0, -2.0, 3.0], [0.0, 0.5, -1.0]])
INTERCEPT = np.array([False, False, True])


def test_l0_is_a_cost_of_one_for_each_group():
    assert as_criterion("l0") == GroupCosts(None)
    np.testing.assert_array_equal(group_costs(None, "feature", 3, None, 3), np.ones(3))


def test_l1_leaves_out_intercepts():
    np.testing.assert_allclose(as_criterion("l1")(WEIGHTS, INTERCEPT), [3.0, 0.5])


@pytest.mark.parametrize("p", [0.5, 1, 2.0])
def test_lp_is_the_sum_of_powers_without_intercepts(p):
    np.testing.assert_allclose(as_criterion(("lp", p))(WEIGHTS, INTERCEPT), [1.0 + 2.0**p, 0.5**p])


def test_a_callable_of_one_argument_is_given_all_weights():
    criterion = as_criterion(lambda weights: weights[:, 2])
    assert isinstance(criterion, WeightCriterion)
    np.testing.assert_array_equal(criterion(WEIGHTS, INTERCEPT), [3.0, -1.0])


def test_a_callable_with_one_required_argument_is_a_function_of_weights():
    assert isinstance(as_criterion(lambda weights, power=2: np.sum(weights**power, axis=1)), WeightCriterion)


@pytest.mark.parametrize("upper", [lambda estimator, X, y: 0.0, WorstGroupLoss(sensitive=0)])
def test_a_callable_of_estimator_and_rows_is_a_function_of_the_model(upper):
    criterion = as_criterion(upper)
    assert isinstance(criterion, ModelCriterion)
    assert criterion.sign == 1.0


@pytest.mark.parametrize("upper", ["r2", make_scorer(r2_score)])
def test_a_scorer_is_negated(upper):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    criterion = as_criterion(upper)
    assert criterion(LinearRegression().fit(X, y), X, y) == pytest.approx(-1.0)
    assert criterion(DummyRegressor().fit(X, y), X, y) == pytest.approx(0.0)


def test_a_scorer_of_a_loss_is_the_loss():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 0.0, 3.0])
    criterion = as_criterion(make_scorer(mean_absolute_error, greater_is_better=False))
    assert criterion(DummyRegressor().fit(X, y), X, y) == pytest.approx(4.0 / 3.0)


@pytest.mark.parametrize(
    "upper",
    ["l3", 3, None, ("cost",), ("lp", 1, 2), ("ridge", 1.0), ("lp", 0.0), ("lp", -1.0), ("lp", np.inf), ("lp", "1")],
)
def test_what_is_not_understood_is_named(upper):
    with pytest.raises(ValueError, match="upper="):
        as_criterion(upper)


def test_costs_of_groups():
    np.testing.assert_array_equal(group_costs([1, 2, 3], "feature", 3, None, 3), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(group_costs([5, 7], ["b", "a", "b"], 2, None, 3), [5.0, 7.0])


def test_costs_of_columns_are_added_in_their_groups():
    np.testing.assert_array_equal(group_costs([1, 2, 4], ["b", "a", "b"], 2, None, 3), [2.0, 5.0])


def test_costs_by_name_of_a_column():
    names = np.array(["age", "blood", "scan"], dtype=object)
    np.testing.assert_array_equal(group_costs({"scan": 9, "age": 1}, "feature", 3, names, 3), [1.0, 0.0, 9.0])
    np.testing.assert_array_equal(group_costs({"scan": 9, "age": 1}, [1, 0, 1], 2, names, 3), [0.0, 10.0])


def test_costs_by_index_where_columns_have_no_names():
    np.testing.assert_array_equal(group_costs({2: 9.0}, "feature", 3, None, 3), [0.0, 0.0, 9.0])


def test_costs_by_label_of_a_group():
    np.testing.assert_array_equal(group_costs({"lab": 4.0}, ["lab", "home", "lab"], 2, None, 3), [0.0, 4.0])


def test_costs_by_label_where_each_column_is_a_group():
    np.testing.assert_array_equal(group_costs({"a": 1.0, "b": 2.0}, ["b", "c", "a"], 3, None, 3), [1.0, 2.0, 0.0])


def test_costs_by_column_name_where_each_column_is_a_group():
    names = np.array(["x", "y", "z"], dtype=object)  # the labels sort otherwise
    np.testing.assert_array_equal(group_costs({"x": 1.0}, ["q", "r", "p"], 3, names, 3), [0.0, 1.0, 0.0])


def test_costs_of_columns_stay_in_their_order_where_each_column_is_a_group():
    np.testing.assert_array_equal(group_costs([1.0, 2.0, 3.0], ["q", "r", "p"], 3, None, 3), [3.0, 1.0, 2.0])


@pytest.mark.parametrize("costs", [[1.0, 2.0], [[1.0], [2.0], [3.0]], [1.0, -1.0, 0.0], [1.0, np.nan, 1.0], {"z": 1.0}])
def test_costs_that_do_not_fit_are_errors(costs):
    with pytest.raises(ValueError, match="cost"):
        group_costs(costs, "feature", 3, None, 3)
