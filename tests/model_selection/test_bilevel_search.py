"""BilevelSearchCV: what it selects, and its answers to difficult input."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification, make_regression
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
)
from sklearn.metrics import log_loss, make_scorer, mean_absolute_error, r2_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import (
    DemographicParityGap,
    EqualizedOddsGap,
    ExpectedCalibrationError,
    WorstGroupLoss,
    make_weight_space,
    worst_group_loss,
)

SMALL = {"n_particles": 6, "max_iter": 3, "random_state": 0}


def search(estimator, **params):
    return BilevelSearchCV(estimator, **{**SMALL, **params})


def classes(n=80, p=6, seed=0):
    X, y = make_classification(n, p, n_informative=3, n_redundant=int(p > 4), n_repeated=0, random_state=seed)
    return scale(X), y


def numbers(n=60, p=6, noise=10.0, seed=0):
    return make_regression(n, p, n_informative=3, noise=noise, random_state=seed)


def squares(weights):
    return np.sum(weights[:, :-1] ** 2, axis=1)


def limit_of(fitted, tol=0.05):
    return (1.0 + tol) * fitted.lower_min_ * (1.0 + 1e-6)


# -- results ---------------------------------------------------------------------------------------------------------

CASES = {
    "logistic": (LogisticRegression(), {}, classes),
    "ridge": (Ridge(), {"lower_tol": 0.2}, numbers),
    "svc": (LinearSVC(), {}, classes),
    "sgd": (SGDClassifier(loss="log_loss", alpha=0.01, random_state=0), {}, classes),
    "l1": (LogisticRegression(), {"upper": "l1"}, classes),
    "lp": (Ridge(), {"upper": ("lp", 0.5)}, numbers),
    "scorer": (LogisticRegression(), {"upper": "roc_auc"}, classes),
    "l0 by weights": (Ridge(), {"search_space": "weights", "lower_tol": 0.2}, numbers),
    "neighbours": (KNeighborsClassifier(5), {"max_fits": 15, "lower_tol": 0.3}, lambda: classes(40, 4)),
}


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    estimator, params, data = CASES[request.param]
    X, y = data()
    return search(estimator, **params).fit(X, y), X, y


def test_objective_is_within_the_limit(fitted):
    model, _, _ = fitted
    assert model.lower_ <= limit_of(model, model.lower_tol)


def test_upper_is_never_worse_than_at_the_plain_fit(fitted):
    model, _, _ = fitted
    assert model.upper_ <= model.upper_at_fit_ + 1e-9 * abs(model.upper_at_fit_)


def test_support_and_its_size_agree(fitted):
    model, X, _ = fitted
    assert model.support_.shape == (X.shape[1],)
    assert model.support_.dtype == bool
    assert model.n_features_selected_ == model.support_.sum()
    if model.upper == "l0":
        assert model.upper_ == model.n_features_selected_
        assert model.upper_at_fit_ == X.shape[1]


def test_columns_outside_the_support_do_not_matter(fitted):
    model, X, _ = fitted
    other = np.where(model.support_, X, np.random.default_rng(0).standard_normal(X.shape))
    np.testing.assert_array_equal(model.predict(X), model.predict(other))
    if hasattr(model, "coef_"):
        np.testing.assert_array_equal(np.any(np.atleast_2d(model.coef_) != 0.0, axis=0), model.support_)


def test_lower_is_the_objective_of_the_weights(fitted):
    model, X, y = fitted
    if not hasattr(model, "coef_"):
        pytest.skip("no weights")
    best = model.best_estimator_
    space = make_weight_space(best, X, y)
    assert model.lower_ == pytest.approx(space.objective(space.weights_of(best)[None])[0], rel=1e-9)


def test_other_attributes_are_there(fitted):
    model, X, y = fitted
    assert model.n_features_in_ == X.shape[1]
    assert model.n_iter_ >= 1
    assert model.best_params_ == {"lower_tol": model.lower_tol}
    assert model.best_index_ == 0
    assert model.message_ == ""
    assert model.optimizer_result_.nit >= 1
    assert model.score(X, y) == model.best_estimator_.score(X, y)
    assert model.scorer_(model, X, y) == model.score(X, y)


def test_fewest_columns_by_brute_force():
    X, y = numbers(p=7, noise=40.0)
    model = search(LinearRegression(), lower_tol=0.1).fit(X, y)

    def loss(columns):
        Z = np.column_stack([X[:, columns], np.ones(len(y))])
        return np.mean((Z @ np.linalg.lstsq(Z, y)[0] - y) ** 2)

    within = [
        len(columns)
        for k in range(8)
        for columns in itertools.combinations(range(7), k)
        if loss(list(columns)) <= 1.1 * loss(list(range(7)))
    ]
    assert model.n_features_selected_ == min(within)
    assert model.lower_ == pytest.approx(loss(np.flatnonzero(model.support_)) / 2.0, rel=1e-6)


def test_never_more_columns_than_refits_of_the_largest_weights_or_of_an_l1_path():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[:, :12]
    model = search(LogisticRegression(), lower_tol=0.1).fit(X, y)
    plain = LogisticRegression(tol=1e-8).fit(X, y)

    def objective(columns):
        part = LogisticRegression(tol=1e-8).fit(X[:, columns], y)
        space = make_weight_space(part, X[:, columns], y)
        return space.objective(space.weights_of(part)[None])[0]

    order = np.argsort(-np.abs(plain.coef_[0]))
    pruned = [order[:k] for k in range(1, 13)]
    liblinear = LinearSVC(penalty="l1", dual=False, max_iter=10_000, random_state=0)
    paths = [liblinear.set_params(C=C).fit(X, y).coef_[0] for C in np.geomspace(0.002, 0.1, 8)]
    path = [np.flatnonzero(coef) for coef in paths]
    counts = [
        len(columns) for columns in [*pruned, *path] if len(columns) and objective(columns) <= limit_of(model, 0.1)
    ]
    assert model.n_features_selected_ <= min(counts)


def test_interpolating_regression_finds_the_exact_support():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 10))
    y = X[:, [1, 4, 7]] @ np.array([1.0, -2.0, 3.0])
    model = search(LinearRegression()).fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(model.support_), [1, 4, 7])
    np.testing.assert_allclose(model.coef_[[1, 4, 7]], [1.0, -2.0, 3.0], rtol=1e-6)


def test_multi_output_counts_a_column_once():
    X, y = make_regression(60, 5, n_informative=2, n_targets=2, noise=1.0, random_state=0)
    model = search(LinearRegression()).fit(X, y)
    assert model.coef_.shape == (2, 5)
    assert model.predict(X).shape == y.shape
    assert model.upper_ == model.n_features_selected_ == 2


def test_counts_poisson():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5))
    model = search(PoissonRegressor(alpha=0.01)).fit(X, rng.poisson(np.exp(X[:, 2])))
    assert model.support_.tolist() == [False, False, True, False, False]


def test_multinomial_counts_a_column_once():
    X, y = make_classification(90, 6, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    model = search(LogisticRegression(), lower_tol=0.1).fit(X, y)
    assert model.coef_.shape == (3, 6)
    assert model.upper_ == model.n_features_selected_ < 6


# -- upper criteria --------------------------------------------------------------------------------------------------


def test_costs_decide_between_columns_that_do_the_same():
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(60)
    X = np.column_stack([signal, signal + 1e-3 * rng.standard_normal(60), rng.standard_normal(60)])
    y = signal + 0.1 * rng.standard_normal(60)
    for cheap, costs in ((0, [1.0, 5.0, 1.0]), (1, [5.0, 1.0, 1.0])):
        model = search(LinearRegression(), upper=("cost", costs)).fit(X, y)
        assert np.flatnonzero(model.support_).tolist() == [cheap]
        assert model.upper_ == 1.0
        assert model.upper_at_fit_ == 7.0


def test_costs_by_column_name():
    pd = pytest.importorskip("pandas")
    X, y = numbers(p=3)
    X = pd.DataFrame(np.column_stack([X, X[:, 0]]), columns=["a", "b", "c", "copy"])
    model = search(LinearRegression(), upper=("cost", {"a": 9.0, "copy": 1.0})).fit(X, y)
    assert not model.support_[0]
    assert model.support_[3]
    assert model.upper_ == 1.0


def test_costs_by_label_of_a_group():
    X, y = numbers(p=4)
    labels = ["lab", "home", "lab", "home"]
    model = search(Ridge(), upper=("cost", {"lab": 10.0, "home": 2.0}), group_by=labels, lower_tol=1e6).fit(X, y)
    assert model.upper_at_fit_ == 12.0
    assert model.upper_ == 0.0


def test_columns_with_one_label_leave_together_and_count_as_one():
    X, y = numbers(p=6, noise=1.0)
    X = np.column_stack([X, X[:, :3] * 2.0])
    labels = np.tile(["a", "b", "c"], 3)
    model = search(Ridge(), group_by=labels).fit(X, y)
    for label in "abc":
        assert len(set(model.support_[labels == label])) == 1
    assert model.upper_ == model.n_features_selected_ / 3
    assert model.upper_at_fit_ == 3.0


def test_labels_group_columns_of_an_estimator_without_weights():
    X, y = classes(40, 4)
    model = search(KNeighborsClassifier(), group_by=["a", "b", "a", "b"], lower_tol=1.0).fit(X, y)
    assert model.support_[0] == model.support_[2]
    assert model.support_[1] == model.support_[3]
    assert model.upper_ == 1.0


def test_single_weights_leave_by_themselves():
    X, y = make_classification(90, 5, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    model = search(LogisticRegression(), group_by="weight", lower_tol=0.1).fit(X, y)
    assert model.upper_at_fit_ == 15.0
    assert model.upper_ == np.count_nonzero(model.coef_) < 15


@pytest.mark.slow
def test_hidden_units_leave_as_a_whole():
    X, y = classes(60, 3)
    network = MLPClassifier((5,), solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0)
    model = search(network, group_by="unit", lower_tol=0.3).fit(X, y)
    incoming, outgoing = model.coef_ if hasattr(model, "coef_") else model.best_estimator_.coefs_
    used = np.any(incoming != 0.0, axis=0) & np.any(outgoing != 0.0, axis=1)
    assert model.upper_at_fit_ == 5.0
    assert model.upper_ == used.sum() < 5


def test_smallest_norm_within_the_tolerance():
    X, y = numbers()
    model = search(Ridge(alpha=1e-3), upper="l1", n_particles=30, max_iter=40).fit(X, y)
    assert model.upper_ == pytest.approx(np.abs(model.coef_).sum())
    assert model.upper_ < model.upper_at_fit_


def test_a_function_of_weights_sees_coefficients_and_intercept():
    X, y = numbers()
    shapes = set()

    def upper(weights):
        shapes.add(weights.shape[1])
        return np.abs(weights[:, -1])

    model = search(Ridge(), upper=upper).fit(X, y)
    assert shapes == {7}
    assert model.upper_ == pytest.approx(abs(model.intercept_))
    assert model.upper_ < model.upper_at_fit_


@pytest.mark.parametrize(
    "upper", ["neg_mean_absolute_error", make_scorer(mean_absolute_error, greater_is_better=False)]
)
def test_a_scorer_is_maximised(upper):
    X, y = numbers()
    model = search(LinearRegression(), upper=upper).fit(X, y)
    assert model.upper_ == pytest.approx(mean_absolute_error(y, model.predict(X)))
    assert model.upper_ < model.upper_at_fit_


def test_a_function_of_the_model_and_rows_is_minimised():
    X, y = numbers()
    model = search(
        LinearRegression(), upper=lambda estimator, X, y: float(np.max(np.abs(estimator.predict(X) - y)))
    ).fit(X, y)
    assert model.upper_ == pytest.approx(np.max(np.abs(model.predict(X) - y)))
    assert model.upper_ < model.upper_at_fit_


@pytest.mark.parametrize("criterion", [WorstGroupLoss, DemographicParityGap, EqualizedOddsGap])
def test_groups_by_column_index(criterion):
    X, y = classes()
    X = np.column_stack([X, X[:, 0] > 0.0])
    upper = criterion(sensitive=6)
    model = search(LogisticRegression(), upper=upper, lower_tol=0.2).fit(X, y)
    assert model.upper_ == pytest.approx(upper(model, X, y))
    assert model.upper_ <= model.upper_at_fit_ == pytest.approx(upper(LogisticRegression(tol=1e-9).fit(X, y), X, y))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_groups_by_column_name(library):
    frames = pytest.importorskip(library)
    X, y = classes()
    X = frames.DataFrame({**{f"x{j}": X[:, j] for j in range(6)}, "sex": (X[:, 0] > 0.0).astype(float)})
    upper = WorstGroupLoss(sensitive="sex")
    model = search(LogisticRegression(), upper=upper).fit(X, y)
    assert model.upper_ == pytest.approx(upper(model, X, y))


def test_groups_as_a_parameter_of_fit():
    X, y = classes()
    groups = np.where(X[:, 0] > 0.0, "a", "b")
    model = search(LogisticRegression(), upper=WorstGroupLoss()).fit(X, y, sensitive_features=groups)
    assert model.upper_ == pytest.approx(worst_group_loss(y, model.predict(X), sensitive_features=groups))


def test_groups_are_cut_with_the_rows_of_a_fold():
    X, y = classes()
    groups = np.where(X[:, 0] > 0.0, "a", "b")
    model = search(LogisticRegression(), upper=WorstGroupLoss(), lower_tol=[0.05, 0.2], cv=2)
    model.fit(X, y, sensitive_features=groups)
    assert np.isfinite(model.cv_results_["mean_upper"]).all()


def test_calibration_is_a_criterion():
    X, y = classes()
    model = search(LogisticRegression(), upper=ExpectedCalibrationError(n_bins=5)).fit(X, y)
    assert model.upper_ == pytest.approx(ExpectedCalibrationError(n_bins=5)(model, X, y))


def test_a_criterion_on_held_out_rows_does_not_see_the_rows_of_the_fit():
    X, y = numbers()
    X = np.column_stack([X, np.arange(60.0)])
    seen = set()

    def upper(estimator, X, y):
        seen.update(X[:, -1].tolist())
        return -r2_score(y, estimator.predict(X))

    model = search(Ridge(), upper=upper, upper_on="validation", validation_fraction=0.3).fit(X, y)
    assert len(seen) == 18
    rest = np.setdiff1d(np.arange(60), list(map(int, seen)))
    space = make_weight_space(model.best_estimator_, X[rest], y[rest])
    assert model.lower_ == pytest.approx(space.objective(space.weights_of(model.best_estimator_)[None])[0])


def test_a_criterion_by_folds_is_the_mean_of_refits():
    X, y = numbers(40, 4)
    folds = list(KFold(3).split(X))
    model = search(
        Ridge(), upper="neg_mean_absolute_error", upper_on="cv", cv=folds, search_space="support", lower_tol=2.0
    ).fit(X, y)
    columns = np.flatnonzero(model.support_)
    by_hand = [
        mean_absolute_error(y[b], Ridge().fit(X[a][:, columns], y[a]).predict(X[b][:, columns])) for a, b in folds
    ]
    assert model.upper_ == pytest.approx(np.mean(by_hand))
    assert model.upper_ <= model.upper_at_fit_
    assert not hasattr(model, "best_score_")


@pytest.mark.parametrize("folds", [iter, list, KFold(2, shuffle=True), GroupKFold(2)])
def test_a_criterion_by_folds_has_the_same_folds_for_all_supports(folds):
    X, y = numbers(40, 4)
    groups = {"groups": np.arange(40) // 10} if isinstance(folds, GroupKFold) else {}
    if callable(folds):
        folds = folds(list(KFold(2).split(X)))
    seen = set()

    def upper(estimator, X, y):
        seen.add(y.tobytes())
        return -r2_score(y, estimator.predict(X))

    search(Ridge(), upper=upper, upper_on="cv", cv=folds, search_space="support").fit(X, y, **groups)
    assert len(seen) == 2


@pytest.mark.slow
def test_a_criterion_by_folds_never_splits_a_group_while_tolerances_are_compared():
    X, y = numbers(48, 4)
    X[:, 0] = groups = np.arange(48) // 6
    seen = []

    def upper(estimator, X, y):
        seen.append(set(X[:, 0]))
        return -r2_score(y, estimator.predict(X))

    model = search(
        Ridge(), upper=upper, upper_on="cv", cv=GroupKFold(2), search_space="support", lower_tol=[0.1, 0.2], max_fits=5
    ).fit(X, y, groups=groups)
    assert model.n_splits_ == 2
    assert all(len(held_out) in (2, 4) for held_out in seen)  # of 8 groups: half, and half of a half


def test_a_criterion_by_given_folds_allows_one_tolerance():
    X, y = numbers(40, 4)
    params = {"upper": "r2", "upper_on": "cv", "search_space": "support", "lower_tol": [0.1, 0.2]}
    with pytest.raises(ValueError, match=r"(?s)cv=\[.*splitter"):
        search(Ridge(), cv=[(np.arange(20), np.arange(20, 40))], **params).fit(X, y)


def test_a_lower_objective_of_ones_own():
    X, y = numbers(40, 4)
    model = search(
        Ridge(), lower=lambda estimator, X, y: mean_absolute_error(y, estimator.predict(X)), lower_tol=0.3, max_fits=15
    ).fit(X, y)
    assert model.lower_ == pytest.approx(mean_absolute_error(y, model.predict(X)))
    assert model.lower_min_ == pytest.approx(mean_absolute_error(y, Ridge().fit(X, y).predict(X)))
    assert model.lower_ <= limit_of(model, 0.3)


def test_a_scorer_as_lower_objective():
    X, y = classes(40, 4)
    model = search(LogisticRegression(), lower="neg_log_loss", lower_tol=0.2, max_fits=15).fit(X, y)
    assert model.lower_ == pytest.approx(log_loss(y, model.predict_proba(X)))
    assert model.lower_ <= limit_of(model, 0.2)


def test_a_tree_drops_columns_that_it_does_not_need():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    y = np.where(X[:, 1] > 0.0, 1.0, 0.0)
    model = search(DecisionTreeRegressor(max_depth=1, random_state=0), max_fits=20).fit(X, y)
    assert np.flatnonzero(model.support_).tolist() == [1]
    assert model.lower_ == 0.0
    np.testing.assert_array_equal(model.predict(X), y)


def test_missing_values_go_through_to_an_estimator_that_takes_them():
    X, y = classes(60, 3)
    X[::7, 0] = np.nan
    model = search(HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5), lower_tol=0.5, max_fits=6).fit(X, y)
    assert model.lower_ <= limit_of(model, 0.5)
    assert model.predict_proba(X).shape == (60, 2)


# -- difficult input -------------------------------------------------------------------------------------------------


def test_second_fit_starts_afresh():
    X, y = classes()
    model = search(LogisticRegression(), lower_tol=[0.05, 0.2], cv=2)
    parameters = {name: repr(value) for name, value in model.get_params().items()}
    first = clone(model).fit(X, y)
    again = model.fit(*classes(seed=1)).fit(X, y)
    np.testing.assert_array_equal(again.coef_, first.coef_)
    np.testing.assert_array_equal(again.cv_results_["mean_test_score"], first.cv_results_["mean_test_score"])
    assert {name: repr(value) for name, value in model.get_params().items()} == parameters
    assert not hasattr(model.estimator, "coef_")


def test_second_fit_has_nothing_of_the_first():
    X, y = classes()
    model = search(LogisticRegression(), lower_tol=[0.05, 0.2], cv=2).fit(X, y)
    model.set_params(lower_tol=0.1, cv=None).fit(X, y)
    assert set(vars(model)) == set(vars(search(LogisticRegression()).fit(X, y)))


def test_fit_on_other_columns():
    model = search(LogisticRegression()).fit(*classes(p=6))
    X, y = classes(p=5)
    with pytest.raises(ValueError, match="5 features"):
        model.predict(X)
    model.fit(X, y)
    assert model.n_features_in_ == len(model.support_) == 5
    model.predict(X)


@pytest.mark.parametrize("upper", ["l0", "l1"])
def test_one_class_is_the_error_of_the_estimator(upper):
    X, _ = classes()
    with pytest.raises(ValueError, match="class"):
        search(LogisticRegression(), upper=upper).fit(X, np.zeros(80))


def test_one_class_for_an_estimator_that_takes_it():
    X, _ = classes(30, 3)
    model = search(KNeighborsClassifier()).fit(X, np.zeros(30))
    assert model.lower_ == 0.0
    assert model.n_features_selected_ == 1


@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier()])
def test_a_constant_column_is_not_selected(estimator):
    X, y = classes(60, 3)
    X = np.column_stack([X, np.full(60, 3.0)])
    assert not search(estimator, lower_tol=0.2, max_fits=30).fit(X, y).support_[3]


@pytest.mark.parametrize("upper", ["l0", "l1"])
def test_fewer_rows_than_columns(upper):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 20))
    y = 3.0 * X[:, 0] + 0.1 * rng.standard_normal(12)
    model = search(Ridge(), upper=upper, lower_tol=0.3).fit(X, y)
    assert model.lower_ <= limit_of(model, 0.3)
    assert model.upper_ < model.upper_at_fit_


def test_of_a_duplicated_column_one_is_selected():
    X, y = numbers(p=3, noise=1.0)
    model = search(LinearRegression()).fit(np.column_stack([X, X]), y)
    assert model.n_features_selected_ == 3
    assert np.all(model.support_[:3] ^ model.support_[3:])


@pytest.mark.parametrize("upper", ["l0", "l1"])
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_equals_dense(upper, container):
    X, y = classes()
    X[np.abs(X) < 0.5] = 0.0
    model = search(LogisticRegression(), upper=upper)
    dense, sparsely = clone(model).fit(X, y), clone(model).fit(container(X), y)
    np.testing.assert_allclose(sparsely.coef_, dense.coef_, rtol=1e-5, atol=1e-8)


def test_sparse_rows_of_an_estimator_without_weights():
    X, y = classes(40, 4)
    X[np.abs(X) < 0.5] = 0.0
    model = search(KNeighborsClassifier(algorithm="brute"), lower_tol=0.5, max_fits=10)
    np.testing.assert_array_equal(
        clone(model).fit(sparse.csr_array(X), y).support_, clone(model).fit(X, y).support_
    )  # fmt: skip


@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier(), LinearSVC()])
def test_classes_may_be_strings(estimator):
    X, y = classes(60, 4)
    model = search(estimator, lower_tol=0.3, max_fits=15)
    named = clone(model).fit(X, np.where(y == 1, "yes", "no"))
    np.testing.assert_array_equal(named.predict(X) == "yes", clone(model).fit(X, y).predict(X) == 1)
    assert named.classes_.tolist() == ["no", "yes"]


def test_rows_of_weight_zero_do_not_count():
    X, y = classes()
    weight = (np.arange(80) % 2).astype(float)
    model = search(LogisticRegression(), lower_tol=0.1)
    weighted, half = clone(model).fit(X, y, sample_weight=weight), clone(model).fit(X[1::2], y[1::2])
    np.testing.assert_array_equal(weighted.support_, half.support_)
    np.testing.assert_allclose(weighted.coef_, half.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("upper", ["l0", "l1", "accuracy"])
def test_a_unique_minimiser_is_returned_and_the_message_says_so(upper):
    X, y = classes()
    model = search(LogisticRegression(), upper=upper, lower_tol=0.0).fit(X, y)
    plain = LogisticRegression(tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-4)
    assert model.upper_ == model.upper_at_fit_
    assert model.support_.all()
    assert "unique" in model.message_
    assert model.n_iter_ == 1


def test_without_tolerance_there_is_a_choice_where_the_minimiser_is_not_unique():
    X, y = numbers(p=3)
    model = search(LinearRegression(), lower_tol=0.0).fit(np.column_stack([X, X]), y)
    assert model.n_features_selected_ == 3
    assert model.message_ == ""


@pytest.mark.parametrize("upper", ["l0", "l1"])
def test_an_infinite_choice_is_the_empty_model(upper):
    X, y = numbers()
    model = search(Ridge(), upper=upper, lower_tol=1e6, n_particles=20, max_iter=20).fit(X, y)
    assert model.upper_ == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.predict(X), y.mean())


@pytest.mark.parametrize("seed", [0, None, np.random.RandomState(3), np.random.default_rng(3)])
@pytest.mark.parametrize("upper", ["l0", "l1"])
def test_global_random_state_is_untouched(seed, upper):
    X, y = numbers()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    search(Ridge(), upper=upper, random_state=seed, upper_on="validation").fit(X, y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("make", [lambda: 3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)])
def test_same_seed_same_result(make):
    X, y = numbers()
    first, second = (search(Ridge(), upper="l1", random_state=make()).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_other_seeds_give_other_searches():
    X, y = numbers()
    first, second = (search(Ridge(), upper="l1", random_state=seed).fit(X, y) for seed in (0, 1))
    assert np.any(first.optimizer_result_.x != second.optimizer_result_.x)


def test_data_and_parameters_are_not_written_to():
    X, y = numbers()
    weight, options = np.ones(60), {"gamma": 0.1}
    X.flags.writeable = y.flags.writeable = weight.flags.writeable = False
    search(Ridge(), upper="l1", optimizer_params=options).fit(X, y, sample_weight=weight)
    assert options == {"gamma": 0.1}


def test_columns_of_the_last_step_of_a_pipeline():
    X, y = classes()
    model = search(make_pipeline(StandardScaler(), LogisticRegression()), lower_tol=0.2).fit(X * 100.0, y)
    alone = search(LogisticRegression(), lower_tol=0.2).fit(X, y)
    np.testing.assert_array_equal(model.support_, alone.support_)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-6)


@pytest.mark.parametrize("upper", ["l0", "l1", squares])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_targets(upper, value):
    X, _ = numbers()
    model = search(Ridge(), upper=upper).fit(X, np.full(60, value))
    assert model.lower_ == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.predict(X), value, atol=1e-6)


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"upper": "l5"}, r"upper='l5'.*'l0'"),
        ({"upper": ("lp", -1)}, r"upper=\('lp', -1\).*positive"),
        ({"upper": ("cost", [1.0])}, r"upper=\('cost', \[1.0\]\).*each of the 6"),
        ({"upper": ("cost", [-1.0] * 6)}, r"upper=\('cost', .*not negative"),
        ({"upper": ("cost", {"age": 1.0})}, r"upper=\('cost', .*'age'.*there are"),
        ({"upper": lambda weights: 1.0}, r"upper returned shape \(\).*\(1,\)"),
        ({"lower_tol": -0.1}, "lower_tol=-0.1.*0 or larger"),
        ({"lower_tol": np.nan}, "lower_tol=nan.*0 or larger"),
        ({"lower_tol": []}, r"lower_tol=\[\].*0 or larger"),
        ({"lower_tol": [0.1, "b"]}, r"lower_tol=\[0.1, 'b'\].*0 or larger"),
        ({"lower_tol": None}, "lower_tol=None.*0 or larger"),
        ({"lower_atol": -1.0}, "lower_atol=-1.0.*0 or larger"),
        ({"lower_atol": "small"}, "lower_atol='small'.*0 or larger"),
        ({"lower": "lowest"}, "lower='lowest'.*scorer"),
        ({"lower": 3}, "lower=3.*callable"),
        ({"lower": "r2", "search_space": "weights"}, "search_space='weights'.*lower"),
        ({"lower": "r2", "upper": "l1"}, "upper='l1'.*lower='r2'"),
        ({"lower": "r2", "group_by": "weight"}, "group_by='weight'.*lower='r2'"),
        ({"search_space": "columns"}, "search_space='columns'.*'support'"),
        ({"group_by": "column"}, "group_by='column'.*'feature'"),
        ({"group_by": [0, 1]}, r"group_by.*6 columns"),
        ({"group_by": "unit"}, "group_by='unit'.*hidden units"),
        ({"upper_on": "test"}, "upper_on='test'.*'train'"),
        ({"validation_fraction": 0.0}, "validation_fraction=0.0.*between 0 and 1"),
        ({"validation_fraction": "half"}, "validation_fraction='half'.*between 0 and 1"),
        ({"refit": "best"}, "refit='best'.*'1se'"),
        ({"n_particles": 1}, "n_particles=1.*2 or larger"),
        ({"n_particles": 2.5}, "n_particles=2.5.*2 or larger"),
        ({"max_iter": 2.5}, "max_iter=2.5.*0 or larger"),
        ({"max_iter": -1}, "max_iter=-1.*0 or larger"),
        ({"max_fits": -1}, "max_fits=-1.*0 or larger"),
        ({"max_fits": "few"}, "max_fits='few'.*0 or larger"),
        ({"optimizer_params": [1]}, r"optimizer_params=\[1\].*dict"),
        ({"optimizer_params": {"speed": 3}}, "speed.*accepted are.*'alpha'"),
        ({"optimizer_params": {"x0": 3}}, "x0.*accepted are"),
        ({"random_state": "a"}, "random_state='a'.*integer"),
        ({"error_score": "ignore"}, "error_score='ignore'.*'raise'"),
        ({"cv": 1, "lower_tol": [0.1, 0.2]}, "split|fold"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_errors_name_parameter_value_and_what_is_accepted(params, message):
    with pytest.raises(ValueError, match=message):
        search(LogisticRegression(), **params).fit(*classes())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"upper": "l1"}, "upper='l1'.*weight space"),
        ({"group_by": "weight"}, "group_by='weight'.*weight space"),
        ({"search_space": "weights"}, "search_space='weights'.*weight space"),
    ],
)
def test_what_needs_weights_says_so(params, message):
    with pytest.raises(ValueError, match=message):
        search(KNeighborsClassifier(), **params).fit(*classes(40, 3))


def test_a_criterion_by_folds_needs_supports():
    with pytest.raises(ValueError, match=r"upper_on='cv'.*search_space='support'"):
        search(LogisticRegression(), upper="accuracy", upper_on="cv").fit(*classes())


@pytest.mark.parametrize("tolerances", [0.1, [0.1, 0.2]])
def test_weights_of_other_rows_are_an_error(tolerances):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        search(LogisticRegression(), lower_tol=tolerances).fit(*classes(), sample_weight=np.ones(3))


def test_unknown_metadata_is_an_error():
    with pytest.raises(TypeError, match="colour"):
        search(LogisticRegression()).fit(*classes(), colour=3)


def test_a_seed_sequence_serves_for_several_fits():
    X, y = numbers()
    seed = np.random.SeedSequence(5)
    first = search(Ridge(), upper=squares, random_state=seed).fit(X, y)
    again = search(Ridge(), upper=squares, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert seed.n_children_spawned == 0
