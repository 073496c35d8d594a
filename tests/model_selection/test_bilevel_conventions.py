"""BilevelSearchCV with the rest of scikit-learn: pipelines, other searches, frames, pickles, metadata."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import get_tags

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import WorstGroupLoss

SMALL = {"n_particles": 4, "max_iter": 1, "max_fits": 10, "random_state": 0}


def squares(weights):
    return np.sum(weights**2, axis=1)


def search(estimator=None, **params):
    return BilevelSearchCV(LogisticRegression() if estimator is None else estimator, **{**SMALL, **params})


def classes(n=60, p=5):
    X, y = make_classification(n, p, n_informative=3, n_redundant=0, random_state=0)
    return scale(X), y


# -- inside and around others ----------------------------------------------------------------------------------------


def test_as_the_last_step_of_a_pipeline():
    X, y = classes()
    model = make_pipeline(StandardScaler(), search()).fit(X * 10.0, y)
    np.testing.assert_array_equal(model.predict(X * 10.0), search().fit(X, y).predict(X))
    assert model.score(X * 10.0, y) > 0.6


def test_around_a_pipeline():
    X, y = classes()
    model = search(Pipeline([("scale", StandardScaler()), ("classify", LogisticRegression())])).fit(X * 10.0, y)
    assert isinstance(model.best_estimator_, Pipeline)
    np.testing.assert_array_equal(model.coef_, model.best_estimator_[-1].coef_)
    np.testing.assert_allclose(model.coef_, search().fit(X, y).coef_, rtol=1e-6)
    assert model.n_features_in_ == 5


def test_around_a_pipeline_with_weights_of_rows():
    X, y = classes()
    weight = np.random.default_rng(0).integers(0, 3, 60)
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), LogisticRegression())
    model = search(pipeline).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, search().fit(X, y, sample_weight=weight).coef_, rtol=1e-6)


def test_a_grid_search_over_tolerances_and_parameters_of_the_estimator():
    X, y = classes()
    grid = {"lower_tol": [0.01, 0.3], "estimator__C": [0.1, 1.0]}
    outer = GridSearchCV(search(upper=squares), grid, cv=2).fit(X, y)
    assert set(outer.best_params_) == set(grid)
    assert np.isfinite(outer.cv_results_["mean_test_score"]).all()
    assert outer.best_params_["estimator__C"] == outer.best_estimator_.best_estimator_.C


def test_cross_validate():
    X, y = classes()
    results = cross_validate(search(), X, y, cv=2, scoring=["accuracy", "roc_auc"], return_estimator=True)
    assert np.all(results["test_roc_auc"] > 0.5)
    assert all(model.n_features_selected_ >= 1 for model in results["estimator"])


def test_cross_val_predict_of_probabilities():
    X, y = classes()
    assert cross_val_predict(search(upper=squares), X, y, cv=2, method="predict_proba").shape == (60, 2)


def test_calibrated():
    X, y = classes()
    model = CalibratedClassifierCV(search(LinearSVC(), upper=squares), cv=2).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("estimator", [None, make_pipeline(StandardScaler(), LogisticRegression())])
def test_select_from_model_selects_the_support(estimator):
    X, y = classes()
    selector = SelectFromModel(search(estimator, lower_tol=0.2), threshold=1e-10).fit(X, y)
    np.testing.assert_array_equal(selector.get_support(), selector.estimator_.support_)
    assert selector.transform(X).shape == (60, selector.estimator_.n_features_selected_)


def test_inside_another_search_of_this_kind():
    X, y = classes()
    model = search(search(KNeighborsClassifier(), max_fits=2), max_fits=2, lower_tol=0.5).fit(X, y)
    assert model.predict(X).shape == (60,)


@pytest.mark.slow
def test_nested_parallelism():
    X, y = classes()
    inner = search(upper=squares, lower_tol=[0.01, 0.3], cv=2, n_jobs=2)
    both, none = (
        GridSearchCV(clone(inner).set_params(n_jobs=n), {"estimator__C": [0.1, 1.0]}, cv=2, n_jobs=n).fit(X, y)
        for n in (2, None)
    )
    np.testing.assert_array_equal(both.cv_results_["mean_test_score"], none.cv_results_["mean_test_score"])


# -- parameters, pickles, displays -----------------------------------------------------------------------------------


def test_clone_copies_parameters_and_nothing_else():
    X, y = classes()
    model = search(upper=("cost", [1.0, 2.0, 3.0, 4.0, 5.0]), group_by="feature", lower_tol=[0.1, 0.2], cv=2)
    copy = clone(model.fit(X, y))
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "cv_results_")
    assert copy.estimator is not model.estimator


def test_parameters_are_set_and_got():
    model = search().set_params(estimator__C=3.0, lower_tol=0.2, upper="l1")
    assert model.get_params()["estimator__C"] == model.estimator.C == 3.0
    assert model.get_params(deep=False)["lower_tol"] == 0.2
    with pytest.raises(ValueError, match="tolerance"):
        model.set_params(tolerance=3)


@pytest.mark.parametrize("upper", ["l0", "l1", squares, WorstGroupLoss(sensitive=4)])
@pytest.mark.parametrize("how", ["pickle", "joblib"])
def test_a_fitted_model_is_pickled(upper, how, tmp_path):
    X, y = classes()
    X[:, 4] = X[:, 4] > 0.0
    model = search(upper=upper).fit(X, y)
    if how == "pickle":
        back = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model.joblib")
        back = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.score(X, y) == model.score(X, y)
    assert back.lower_ == model.lower_


@pytest.mark.parametrize("fit", [False, True])
def test_displays(fit):
    model = search(upper=("lp", 0.5), lower_tol=0.3)
    if fit:
        model.fit(*classes())
    assert repr(model).startswith("BilevelSearchCV(estimator=LogisticRegression()")
    assert "upper=('lp', 0.5)" in repr(model)
    assert "LogisticRegression" in model._repr_html_()


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), LinearSVC(), PoissonRegressor(), DecisionTreeRegressor(), KNeighborsClassifier()],
)
def test_tags_are_those_of_the_estimator(estimator):
    tags, own = get_tags(search(estimator)), get_tags(estimator)
    for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags", "input_tags"):
        assert getattr(tags, name) == getattr(own, name)
    assert is_classifier(search(estimator)) == is_classifier(estimator)
    assert is_regressor(search(estimator)) == is_regressor(estimator)


def test_methods_are_those_of_the_estimator():
    assert hasattr(search(), "predict_proba")
    assert not hasattr(search(LinearSVC()), "predict_proba")
    assert hasattr(search(LinearSVC()), "decision_function")
    assert not hasattr(search(Ridge()), "decision_function")


def test_methods_are_those_of_the_selected_model():
    X, y = classes()
    model = search().fit(X, y)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(model.best_estimator_, method)(X))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score"])
def test_before_fit_there_is_a_not_fitted_error(method):
    X, y = classes()
    with pytest.raises(NotFittedError):
        getattr(search(), method)(*((X, y) if method == "score" else (X,)))
    assert not hasattr(search(), "coef_")
    assert not hasattr(search(), "n_features_in_")


# -- frames ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier()])
@pytest.mark.parametrize("tolerances", [0.2, [0.1, 0.2]])
def test_frames_are_arrays_with_names(library, estimator, tolerances):
    frames = pytest.importorskip(library)
    X, y = classes()
    names = [f"x{j}" for j in range(5)]
    frame, series = frames.DataFrame(X, **{"columns" if library == "pandas" else "schema": names}), frames.Series(y)
    model = search(estimator, lower_tol=tolerances, cv=2 if isinstance(tolerances, list) else None)
    framed, plain = clone(model).fit(frame, series), clone(model).fit(X, y)
    if library == "pandas" or hasattr(clone(estimator).fit(frame, series), "feature_names_in_"):  # not in old versions
        assert framed.feature_names_in_.tolist() == names
    assert not hasattr(plain, "feature_names_in_")
    np.testing.assert_array_equal(framed.support_, plain.support_)
    np.testing.assert_array_equal(framed.predict(frame), plain.predict(X))


def test_an_index_of_a_frame_does_not_matter():
    pd = pytest.importorskip("pandas")
    X, y = classes()
    index = np.random.default_rng(0).permutation(60) + 100
    frame, series = pd.DataFrame(X, index=index, columns=list("abcde")), pd.Series(y, index=index)
    weight = pd.Series(np.arange(60.0), index=index)
    model = search(lower_tol=[0.1, 0.2], cv=2)
    framed = clone(model).fit(frame, series, sample_weight=weight)
    plain = clone(model).fit(X, y, sample_weight=np.arange(60.0))
    np.testing.assert_array_equal(framed.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_names_of_other_columns_are_an_error():
    pd = pytest.importorskip("pandas")
    X, y = classes()
    model = search().fit(pd.DataFrame(X, columns=list("abcde")), y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X, columns=list("edcba")))


def test_frames_through_a_pipeline_whose_output_is_pandas():
    pd = pytest.importorskip("pandas")
    X, y = classes()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).set_output(transform="pandas")
    costs = {"a": 5.0, "b": 1.0}
    model = search(pipeline, upper=("cost", costs)).fit(pd.DataFrame(X, columns=list("abcde")), y)
    assert model.upper_at_fit_ == 6.0


def test_lists_are_arrays():
    X, y = classes()
    model = search(lower_tol=[0.1, 0.2], cv=2)
    np.testing.assert_array_equal(
        clone(model).fit(X.tolist(), y.tolist()).coef_, clone(model).fit(X, y).coef_
    )  # fmt: skip


# -- weights of rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upper", ["l0", "l1"])
@pytest.mark.parametrize("estimator", [LogisticRegression(tol=1e-8), LinearRegression()])
def test_weights_of_rows_equal_repeated_rows(estimator, upper):
    X, y = classes()
    counts = np.random.default_rng(0).integers(0, 3, 60)
    model = search(estimator, upper=upper, lower_tol=0.2)
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted.support_, repeated.support_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4, atol=1e-6)
    assert weighted.lower_ == pytest.approx(repeated.lower_, rel=1e-5)


def test_weights_of_rows_are_in_the_loss_of_an_estimator_without_a_weight_space():
    X, y = make_regression(40, 3, noise=5.0, random_state=0)
    weight = np.arange(40.0)
    model = search(DecisionTreeRegressor(max_depth=2, random_state=0), lower_tol=0.5).fit(X, y, sample_weight=weight)
    assert model.lower_ == pytest.approx(np.average((model.predict(X) - y) ** 2, weights=weight))


def test_weights_of_rows_of_an_estimator_that_takes_none_are_its_error():
    X, y = classes()
    with pytest.raises(TypeError, match="sample_weight"):
        search(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(60))


# -- metadata --------------------------------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_requested_weights_reach_the_estimator(routing):
    X, y = classes()
    weight = np.arange(60.0)
    estimator = LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
    model = search(estimator).fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=False):
        plain = search().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.lower_ == plain.lower_


@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_decided_on_are_an_error():
    X, y = classes()
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        search().fit(X, y, sample_weight=np.ones(60))


@pytest.mark.usefixtures("routing")
def test_weights_that_are_not_requested_are_left_out():
    X, y = classes()
    estimator = LogisticRegression().set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    model = search(estimator).fit(X, y, sample_weight=np.arange(60.0))
    np.testing.assert_array_equal(model.coef_, search().fit(X, y).coef_)


@pytest.mark.usefixtures("routing")
def test_groups_reach_the_splitter():
    X, y = classes()
    groups = np.repeat(np.arange(4), 15)
    model = search(upper=squares, lower_tol=[0.1, 0.2], cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert model.n_splits_ == 4


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("tolerances", [0.1, [0.1, 0.2]])
def test_sensitive_features_reach_the_criterion(tolerances):
    X, y = classes()
    groups = np.where(X[:, 0] > 0.0, "a", "b")
    model = search(upper=WorstGroupLoss(), lower_tol=tolerances, cv=2 if isinstance(tolerances, list) else None)
    model.fit(X, y, sensitive_features=groups)
    assert model.upper_ == pytest.approx(WorstGroupLoss()(model, X, y, sensitive_features=groups))


def test_weights_reach_the_scorer(routing):
    X, y = classes()
    weight = np.arange(60.0)
    scoring = get_scorer("accuracy").set_score_request(sample_weight=True)
    estimator = LogisticRegression().set_fit_request(sample_weight=False)
    model = search(estimator, upper=squares, lower_tol=0.1, cv=2, scoring=scoring).fit(X, y, sample_weight=weight)
    plain = search(upper=squares, lower_tol=0.1, cv=2, scoring="accuracy").fit(X, y)
    assert model.best_score_ != plain.best_score_
    right = model.predict(X) == y
    assert model.score(X, y, sample_weight=weight) == pytest.approx(np.average(right, weights=weight))


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("upper", ["l0", "accuracy", WorstGroupLoss(sensitive=4)])
def test_without_metadata_nothing_is_requested(upper):
    X, y = classes()
    X[:, 4] = X[:, 4] > 0.0
    assert search(upper=upper, lower_tol=[0.1, 0.2], cv=2).fit(X, y).score(X, y) > 0.5


@pytest.mark.usefixtures("routing")
def test_metadata_pass_through_an_outer_search():
    X, y = classes()
    groups = np.where(X[:, 0] > 0.0, "a", "b")
    estimator = LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
    inner = search(estimator, upper=WorstGroupLoss().set_score_request(sample_weight=False))
    scoring = get_scorer("accuracy").set_score_request(sample_weight=False)
    outer = GridSearchCV(inner, {"lower_tol": [0.05, 0.2]}, cv=2, scoring=scoring)
    outer.fit(X, y, sample_weight=np.ones(60), sensitive_features=groups)
    assert np.isfinite(outer.best_score_)


def test_weights_reach_the_estimator_inside_a_pipeline(routing):
    X, y = classes()
    weight = np.arange(60.0)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, LogisticRegression().set_fit_request(sample_weight=True))
    # in the oldest version, as in its own searches, `score` of a pipeline does not take what its steps do not ask for
    scoring = get_scorer("accuracy").set_score_request(sample_weight=False)
    model = search(pipeline, scoring=scoring).fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=False):
        plain = search(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, plain.coef_)
    assert model.lower_ == pytest.approx(plain.lower_)


def test_without_routing_metadata_go_where_their_names_say():
    X, y = classes()
    sensitive = np.where(X[:, 0] > 0.0, "a", "b")
    groups = np.repeat(np.arange(4), 15)
    model = search(upper=WorstGroupLoss(), lower_tol=[0.1, 0.2], cv=GroupKFold(2))
    model.fit(X, y, sample_weight=np.arange(60.0), groups=groups, sensitive_features=sensitive)
    assert model.n_splits_ == 2
    assert model.upper_ == pytest.approx(WorstGroupLoss()(model, X, y, sensitive_features=sensitive))
