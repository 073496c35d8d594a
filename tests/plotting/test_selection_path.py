import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.plotting import SelectionPathDisplay

TOLERANCES = [0.5, 0.01, 0.1]


@pytest.fixture(scope="module")
def search():
    X, y = load_diabetes(return_X_y=True)
    search = BilevelSearchCV(LinearRegression(), lower_tol=TOLERANCES, refit="1se", cv=4, scoring="r2", random_state=0)
    return search.fit(X, y)


def test_means_and_standard_errors_of_the_scores_in_order_of_the_tolerances(search):
    line, _, (bars,) = SelectionPathDisplay.from_estimator(search).scores_.lines
    results, order = search.cv_results_, np.argsort(TOLERANCES)
    assert line.get_xdata() == pytest.approx(np.sort(TOLERANCES))
    assert line.get_ydata() == pytest.approx(results["mean_test_score"][order])
    heights = [np.ptp(bar[:, 1]) for bar in bars.get_segments()]
    assert heights == pytest.approx(2 * results["std_test_score"][order] / np.sqrt(3))  # of 4 folds


@pytest.mark.parametrize("criterion", ["n_features", "upper", "lower"])
def test_mean_and_range_of_a_criterion(search, criterion):
    line, _, (bars,) = SelectionPathDisplay.from_estimator(search, criterion=criterion).criteria_.lines
    order = np.argsort(TOLERANCES)
    folds = np.array([search.cv_results_[f"split{k}_{criterion}"] for k in range(4)])[:, order]
    assert line.get_ydata() == pytest.approx(folds.mean(axis=0))
    ends = np.array([bar[:, 1] for bar in bars.get_segments()])
    assert ends == pytest.approx(np.stack([folds.min(axis=0), folds.max(axis=0)], axis=1))


def test_best_one_standard_error_and_chosen_tolerance_are_marked(search):
    display = SelectionPathDisplay.from_estimator(search)
    lines = {line.get_label(): line.get_xdata() for line in display.axes_[0].get_lines()}
    best = search.cv_results_["param_lower_tol"][np.argmax(search.cv_results_["mean_test_score"])]
    assert lines["best score"] == pytest.approx([best, best])
    assert lines["one standard error"] == pytest.approx([search.best_params_["lower_tol"]] * 2)
    assert lines["chosen"] == pytest.approx([search.best_params_["lower_tol"]])


def test_scores_can_change_their_sign(search):
    display = SelectionPathDisplay.from_estimator(search, negate_score=True)
    scores = search.cv_results_["mean_test_score"][np.argsort(TOLERANCES)]
    assert display.scores_.lines[0].get_ydata() == pytest.approx(-scores)


def test_a_tolerance_of_zero_is_in_the_picture(search):
    display = SelectionPathDisplay.from_estimator(search)
    display.tolerances = np.array([0.0, 0.1, 0.5])
    display.plot()
    assert display.axes_[0].get_xscale() == "symlog"
    assert display.axes_[0].get_xlim()[0] < 0.0


def test_a_search_without_cross_validation_is_refused():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="compared no tolerances"):
        SelectionPathDisplay.from_estimator(BilevelSearchCV(LinearRegression(), random_state=0).fit(X, y))


def test_unknown_criteria_are_refused(search):
    with pytest.raises(ValueError, match="criterion='cost'"):
        SelectionPathDisplay.from_estimator(search, criterion="cost")
