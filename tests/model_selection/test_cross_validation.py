"""Tolerances compared by cross-validation."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import has_weight_space
from sklearn_scb2o.model_selection.cross_validation import best_index

SMALL = {"n_particles": 4, "max_iter": 1, "max_fits": 10, "random_state": 0}
TOLERANCES = [0.01, 0.3, 0.1]


def regression(noise=10.0):
    return make_regression(60, 4, n_informative=3, noise=noise, random_state=0)


def squares(weights):
    return np.sum(weights**2, axis=1)


def search(estimator=None, **params):
    # a search over weights, as it is the fastest
    estimator = Ridge() if estimator is None else estimator
    given = {"upper": squares if has_weight_space(estimator) else "l0", "lower_tol": TOLERANCES, "cv": 3}
    return BilevelSearchCV(estimator, **{**given, **SMALL, **params})


@pytest.fixture(scope="module")
def fitted():
    return search(upper="l0").fit(*regression())


class Fragile(RegressorMixin, BaseEstimator):
    """Linear regression that fails, or predicts NaN, where the largest value of the first column is not among X."""

    def __init__(self, top, how="raise"):
        self.top = top
        self.how = how

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        self.lost_ = not np.any(self.top == X)
        if self.lost_ and self.how == "raise":
            raise RuntimeError("the top is gone")
        self.model_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def score(self, X, y):
        return np.nan if self.lost_ and self.how == "nan" else super().score(X, y)


# -- cv_results_ -----------------------------------------------------------------------------------------------------


def test_results_are_those_of_the_searches_of_scikit_learn(fitted):
    results = fitted.cv_results_
    of_folds = ("test_score", "n_features", "lower", "upper")
    expected = {"params", "param_lower_tol", "rank_test_score"}
    expected |= {f"split{k}_{name}" for k in range(3) for name in of_folds}
    expected |= {f"{how}_{name}" for how in ("mean", "std") for name in (*of_folds, "fit_time", "score_time")}
    assert set(results) == expected
    assert results["params"] == [{"lower_tol": tol} for tol in TOLERANCES]
    assert isinstance(results["param_lower_tol"], np.ma.MaskedArray)
    assert {np.shape(value) for value in results.values()} == {(3,)}


def test_means_and_ranks_are_those_of_the_folds(fitted):
    results = fitted.cv_results_
    scores = np.array([results[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], scores.std(axis=0))
    assert results["rank_test_score"].dtype.kind == "i"
    assert results["mean_test_score"][results["rank_test_score"] == 1][0] == results["mean_test_score"].max()


def test_larger_tolerances_have_larger_objectives_and_no_more_features(fitted):
    results = fitted.cv_results_
    order = np.argsort(TOLERANCES)
    assert np.all(np.diff(results["mean_lower"][order]) >= 0.0)
    assert np.all(np.diff(results["mean_n_features"][order]) <= 0.0)


def test_scores_of_a_fold_are_those_of_the_search_without_its_rows():
    X, y = regression()
    fitted = search(upper="l0", lower_tol=[0.05], cv=KFold(3)).fit(X, y)
    training, testing = next(iter(KFold(3).split(X)))
    alone = BilevelSearchCV(Ridge(), lower_tol=0.05, **SMALL).fit(X[training], y[training])
    assert fitted.cv_results_["split0_test_score"][0] == pytest.approx(alone.score(X[testing], y[testing]), rel=1e-6)
    assert fitted.cv_results_["split0_lower"][0] == pytest.approx(alone.lower_, rel=1e-6)


def test_one_tolerance_without_folds_has_the_figures_of_the_model():
    fitted = BilevelSearchCV(Ridge(), lower_tol=0.1, **SMALL).fit(*regression())
    assert set(fitted.cv_results_) == {"params", "n_features", "lower", "upper"}
    assert fitted.cv_results_["n_features"] == [fitted.n_features_selected_]
    assert fitted.cv_results_["lower"] == [fitted.lower_]
    assert not hasattr(fitted, "best_score_")
    assert fitted.best_params_ == {"lower_tol": 0.1}


def test_one_tolerance_with_folds_has_a_score():
    fitted = search(lower_tol=0.1).fit(*regression())
    assert fitted.n_splits_ == 3
    assert fitted.best_score_ == fitted.cv_results_["mean_test_score"][0]


def test_several_tolerances_are_compared_over_five_folds_by_default():
    assert search(cv=None).fit(*regression()).n_splits_ == 5


def test_folds_that_are_an_iterator():
    X, y = regression()
    assert search(cv=iter(list(KFold(2).split(X)))).fit(X, y).n_splits_ == 2


# -- the choice ------------------------------------------------------------------------------------------------------


def test_best_attributes_agree(fitted):
    results = fitted.cv_results_
    assert isinstance(fitted.best_index_, int)
    assert isinstance(fitted.best_score_, float)
    assert fitted.best_params_ == results["params"][fitted.best_index_]
    assert fitted.best_score_ == results["mean_test_score"].max()
    assert fitted.lower_ <= (1.0 + fitted.best_params_["lower_tol"]) * fitted.lower_min_ * (1.0 + 1e-6)


def test_of_equal_scores_the_largest_tolerance_is_chosen():
    fitted = search(scoring=lambda estimator, X, y: 1.0).fit(*regression())
    assert fitted.best_params_ == {"lower_tol": 0.3}


def test_one_standard_error_rule_by_hand():
    results = {
        "params": [None] * 4,
        "param_lower_tol": np.ma.MaskedArray([0.01, 0.05, 0.1, 0.2]),
        "split0_test_score": np.array([0.80, 0.90, 0.86, 0.70]),
        "split1_test_score": np.array([0.82, 0.84, 0.84, 0.70]),
        "split2_test_score": np.array([0.78, 0.87, 0.86, 0.70]),
        "mean_test_score": np.array([0.80, 0.87, (0.86 + 0.84 + 0.86) / 3.0, 0.70]),
    }
    # the standard error of the best is 0.03 / sqrt(3) = 0.0173; 0.853 lies within, 0.80 does not
    assert best_index(results, "1se") == 2
    assert best_index(results, True) == 1


def test_one_standard_error_is_that_of_the_folds():
    X, y = regression(noise=60.0)
    fitted = search(upper="l0", refit="1se", lower_tol=[0.0, 0.05, 0.2, 2.0]).fit(X, y)
    scores = np.array([fitted.cv_results_[f"split{k}_test_score"] for k in range(3)])
    best = np.argmax(scores.mean(axis=0))
    least = scores[:, best].mean() - scores[:, best].std(ddof=1) / np.sqrt(3)
    assert fitted.best_index_ == np.flatnonzero(scores.mean(axis=0) >= least)[-1]  # tolerances increase


def test_one_standard_error_of_a_single_fold_is_zero():
    X, y = regression()
    splitter = ShuffleSplit(n_splits=1, random_state=0)
    fitted = search(refit="1se", cv=splitter).fit(X, y)
    scores = fitted.cv_results_["split0_test_score"]
    assert scores[fitted.best_index_] == scores.max()


def test_a_callable_chooses():
    fitted = search(upper="l0", refit=lambda results: int(np.argmin(results["mean_n_features"]))).fit(*regression())
    assert fitted.best_params_ == {"lower_tol": 0.3}
    assert isinstance(fitted.best_index_, int)


@pytest.mark.parametrize(("index", "error"), [(3, IndexError), (-1, IndexError), (0.5, TypeError), ("0", TypeError)])
def test_a_callable_that_returns_no_index_is_an_error(index, error):
    with pytest.raises(error, match="refit"):
        search(refit=lambda results: index).fit(*regression())


def test_without_refit_there_is_no_model_and_predict_says_what_to_do():
    X, y = regression()
    fitted = search(refit=False).fit(X, y)
    assert not hasattr(fitted, "best_estimator_")
    assert not hasattr(fitted, "coef_")
    assert fitted.best_params_["lower_tol"] in TOLERANCES
    for method in (fitted.predict, lambda X: fitted.score(X, y)):
        with pytest.raises(AttributeError, match="refit=True"):
            method(X)


def test_nothing_of_an_earlier_model_is_left_without_refit():
    X, y = regression()
    fitted = search().fit(X, y).set_params(refit=False).fit(X, y)
    left = {"best_estimator_", "support_", "lower_", "upper_", "optimizer_result_", "message_", "n_iter_"}
    assert not left & set(vars(fitted))


# -- scoring ---------------------------------------------------------------------------------------------------------


def test_scoring_is_what_tolerances_are_compared_by():
    X, y = regression()
    fitted = search(scoring="neg_mean_absolute_error").fit(X, y)
    assert fitted.best_score_ < 0.0
    assert fitted.score(X, y) == get_scorer("neg_mean_absolute_error")(fitted, X, y)


def test_scoring_may_be_a_callable():
    fitted = search(scoring=lambda estimator, X, y: -np.max(np.abs(estimator.predict(X) - y))).fit(*regression())
    assert np.all(fitted.cv_results_["mean_test_score"] < 0.0)
    assert fitted.best_score_ == fitted.cv_results_["mean_test_score"].max()


def test_groups_go_to_the_splitter():
    X, y = regression()
    groups = np.repeat(np.arange(6), 10)
    seen = []

    class Watched(GroupKFold):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y, groups)

    fitted = search(cv=Watched(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(seen[0], groups)
    by_hand = search(cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(fitted.cv_results_["mean_test_score"], by_hand.cv_results_["mean_test_score"])


def test_classes_are_stratified():
    X, y = make_classification(60, 5, weights=[0.8], random_state=0)
    order = np.argsort(y, kind="stable")  # plain folds would have one class only
    assert search(LogisticRegression(), lower_tol=[0.1, 0.2]).fit(X[order], y[order]).best_score_ > 0.5


# -- folds that fail -------------------------------------------------------------------------------------------------


def fragile(how):
    X, y = regression()
    return Fragile(X[:, 0].max(), how), X, y


def test_a_fold_that_fails_raises_by_default():
    estimator, X, y = fragile("raise")
    with pytest.raises(RuntimeError, match="the top is gone"):
        search(estimator, group_by=[0] * 4).fit(X, y)


@pytest.mark.parametrize("error_score", [-7.0, np.nan])
def test_a_fold_that_fails_has_the_error_score_and_a_warning(error_score):
    estimator, X, y = fragile("raise")
    with pytest.warns(FitFailedWarning, match=r"1 of 3 folds failed[\s\S]*the top is gone"):
        results = search(estimator, group_by=[0] * 4, error_score=error_score, refit=lambda r: 0).fit(X, y).cv_results_
    scores = np.array([results[f"split{k}_test_score"] for k in range(3)])
    failed = np.isnan(scores) if np.isnan(error_score) else scores == error_score
    assert failed.sum() == 3  # one fold, all tolerances
    assert np.isnan(results["mean_lower"]).all()


def test_folds_that_all_fail_are_an_error():
    _, X, y = fragile("raise")
    half = [(np.arange(30), np.arange(30, 60)), (np.arange(20), np.arange(20, 60))]
    outside = Fragile(np.max(X[30:, 0]), "raise")
    with pytest.raises(ValueError, match=r"all the 2 of 2 folds failed[\s\S]*the top is gone"):
        search(outside, cv=half, error_score=np.nan).fit(X, y)


def test_scores_that_are_nan_for_every_tolerance_are_an_error():
    estimator, X, y = fragile("nan")
    with pytest.raises(ValueError, match="NaN"):
        search(estimator, group_by=[0] * 4).fit(X, y)


def test_a_tolerance_whose_score_is_nan_is_never_chosen():
    def score(estimator, X, y):
        return np.nan if np.count_nonzero(estimator.coef_) < 4 else estimator.score(X, y)

    X, y = make_regression(60, 5, n_informative=4, noise=1.0, random_state=0)
    fitted = search(upper="l0", scoring=score, lower_tol=[0.0, 1000.0, 0.01]).fit(X, y)
    assert np.isnan(fitted.cv_results_["mean_test_score"][1])
    assert fitted.best_params_ != {"lower_tol": 1000.0}
    assert fitted.cv_results_["rank_test_score"][1] == 3


def test_a_scorer_that_fails_raises_or_warns():
    def score(estimator, X, y):
        raise RuntimeError("no score today")

    X, y = regression()
    with pytest.raises(RuntimeError, match="no score today"):
        search(scoring=score).fit(X, y)
    with pytest.warns(UserWarning, match="no score today"):
        fitted = search(scoring=score, error_score=0.0).fit(X, y)
    assert np.all(fitted.cv_results_["mean_test_score"] == 0.0)


# -- parallel --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_result_does_not_depend_on_n_jobs():
    X, y = make_classification(60, 6, random_state=0)
    one, two = (search(LogisticRegression(), lower_tol=[0.1, 0.3], cv=2, n_jobs=n).fit(X, y) for n in (1, 2))
    for name in ("mean_test_score", "mean_lower", "mean_n_features"):
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_no_warnings_of_its_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search(LogisticRegression()).fit(*make_classification(60, 5, random_state=0))


class OneClass(ClassifierMixin, BaseEstimator):
    """A classifier that predicts the first class."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.classes_[0])


def test_a_classifier_that_ignores_the_columns_keeps_one():
    X, y = make_classification(60, 4, random_state=0)
    assert search(OneClass(), lower_tol=[0.0, 0.1]).fit(X, y).n_features_selected_ == 1
