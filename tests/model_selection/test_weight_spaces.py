import copy
import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import make_regression
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    MultiTaskLasso,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_scb2o.model_selection import has_weight_space, make_weight_space
from sklearn_scb2o.model_selection.losses import Multinomial

VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4)) + np.array([0.0, 0.5, 0.0, 0.0])
Y1 = X @ [1.0, 2.0, 0.0, -1.0] + 1.0 + 0.3 * rng.normal(size=60)
Y2 = np.c_[Y1, Y1**2]
COUNTS = np.floor(np.abs(Y1))
NOISY = Y1 + 2.0 * rng.normal(size=60)
TWO = np.where(NOISY > 1.0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(NOISY, [0.0, 2.0])]
WEIGHTS = rng.integers(0, 4, size=60)


def logistic(**params):
    """LogisticRegression with the penalty named as the installed version wants it."""
    if VERSION < (1, 8):
        if params.get("C") == np.inf:
            params = {**params, "penalty": None, "C": 1.0}
        elif "l1_ratio" in params:
            l1_ratio = params.pop("l1_ratio")
            params["penalty"] = "l1" if l1_ratio == 1 else "elasticnet"
            if l1_ratio < 1:
                params["l1_ratio"] = l1_ratio
    return LogisticRegression(**{"tol": 1e-10, "max_iter": 100_000, **params})


def svc(**params):
    return LinearSVC(**{"tol": 1e-10, "max_iter": 1_000_000, **params})


# estimators that scikit-learn fits to convergence
CONVERGED = {
    "least squares": (LinearRegression(), Y1),
    "least squares, two outputs": (LinearRegression(), Y2),
    "least squares, no intercept": (LinearRegression(fit_intercept=False), Y1),
    "ridge": (Ridge(2.0), Y1),
    "ridge, two alphas": (Ridge(np.array([1.0, 3.0])), Y2),
    "lasso": (Lasso(0.1, tol=1e-12), Y1),
    "lasso, two outputs": (Lasso(0.1, tol=1e-12), Y2),
    "elastic net": (ElasticNet(0.1, tol=1e-12), Y1),
    "poisson": (PoissonRegressor(tol=1e-10), COUNTS),
    "logistic": (logistic(), TWO),
    "logistic, no intercept": (logistic(fit_intercept=False), TWO),
    "logistic, class weights": (logistic(class_weight={"no": 3.0}), TWO),
    "logistic, no penalty": (logistic(C=np.inf), TWO),
    "logistic, elastic net": (logistic(C=0.1, l1_ratio=0.5, solver="saga"), TWO),
    "logistic, liblinear": (logistic(solver="liblinear", class_weight="balanced", intercept_scaling=2.0), TWO),
    "logistic, liblinear, l1": (logistic(solver="liblinear", C=0.1, l1_ratio=1, intercept_scaling=2.0), TWO),
    "multinomial": (logistic(), THREE),
    "multinomial, balanced": (logistic(class_weight="balanced"), THREE),
    "multinomial, no penalty": (logistic(C=np.inf), THREE),
    "multinomial, l1": (logistic(C=0.1, l1_ratio=1, solver="saga"), THREE),
    "svc": (svc(), TWO),
    "svc, three classes": (svc(class_weight="balanced", intercept_scaling=3.0), THREE),
    "svc, l1": (svc(penalty="l1", C=0.1, dual=False, class_weight={"b": 2.0}), THREE),
    "svc, hinge": (svc(loss="hinge", C=0.5, class_weight={"no": 3.0}, intercept_scaling=0.5), TWO),
}
SGD = {
    **{
        f"sgd {loss}": (SGDClassifier(loss=loss, alpha=0.02), TWO)
        for loss in ("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron")
    },
    **{
        f"sgd {loss}": (SGDRegressor(loss=loss, alpha=0.02, epsilon=0.4), Y1)
        for loss in ("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")
    },
    "sgd, three classes": (SGDClassifier(alpha=0.02, loss="log_loss", class_weight="balanced"), THREE),
    "sgd, elastic net": (SGDRegressor(alpha=0.1, penalty="elasticnet", l1_ratio=0.6), Y1),
    "sgd, l1": (SGDClassifier(alpha=0.02, loss="log_loss", penalty="l1"), TWO),
    "sgd, squared error of classes": (SGDClassifier(alpha=0.02, loss="squared_error", penalty=None), TWO),
}
ALL = {**CONVERGED, **SGD}


def fitted(name, sample_weight=None, X=X, **params):
    estimator, y = ALL[name]
    seed = {"random_state": 0} if "random_state" in estimator.get_params() else {}
    estimator = copy.deepcopy(estimator).set_params(**seed, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged to the tolerance
        estimator.fit(X, y, sample_weight=sample_weight)
    return estimator, y


def around(w, n=20, scale=1.0):
    return w + scale * np.random.default_rng(1).normal(size=(n, len(w)))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", CONVERGED)
def test_fit_of_scikit_learn_is_the_minimum(name, weighted):
    weight = WEIGHTS if weighted else None
    estimator, y = fitted(name, weight)
    space = make_weight_space(estimator, X, y, weight)
    w = space.weights_of(estimator)
    if space.is_smooth:
        gradient = space.gradient(w[None])[0]
        if space.l1 is not None:  # the smallest subgradient
            assert np.any(w == 0)
            shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - space.l1, 0.0)
            gradient = np.where(w == 0, shrunk, gradient)
        assert np.max(np.abs(gradient)) < 1e-6
    value = space.objective(w[None])[0]
    for scale in (1.0, 1e-1, 1e-2, 1e-3):
        assert np.all(space.objective(around(w, 100, scale)) >= value)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", SGD)
def test_long_sgd_gets_near_the_minimum(name, weighted):
    weight = WEIGHTS if weighted else None
    schedule = {"learning_rate": "invscaling", "eta0": 0.1, "power_t": 0.5, "max_iter": 2000, "tol": None}
    average = ALL[name][0].penalty in ("l2", None) and 60 * 500  # no average where weights are cut to zero
    estimator, y = fitted(name, weight, **schedule, average=average)
    space = make_weight_space(estimator, X, y, weight)
    w = space.weights_of(estimator)
    best = min(
        scipy_minimize(lambda w: space.objective(w[None])[0], w, method=method, options=options).fun
        for method, options in (("Powell", {"ftol": 1e-13}), ("Nelder-Mead", {"maxiter": 5000}))
    )
    value, shrunk = space.objective(np.array([w, 0.9 * w]))
    assert value - best < 5e-4
    if name != "sgd perceptron":  # its minimum is zero
        assert value - best < 0.1 * (shrunk - best)


@pytest.mark.parametrize("name", ALL)
def test_gradient_matches_finite_differences(name):
    estimator, y = fitted(name)
    space = make_weight_space(estimator, X, y, WEIGHTS)
    w = around(space.weights_of(estimator), 5)
    difference = super(type(space), space).gradient(w)  # central differences of the base class
    np.testing.assert_allclose(space.gradient(w), difference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_hessian_matches_finite_differences(name):
    estimator, y = fitted(name)
    space = make_weight_space(estimator, X, y, WEIGHTS).smoothed(0.1)
    w = around(space.weights_of(estimator), 1)[0]
    h = 1e-6
    steps = h * np.eye(len(w))
    difference = (space.gradient(w + steps) - space.gradient(w - steps)) / (2 * h)
    hessian = space.hessian(w, np.arange(len(w)))
    if isinstance(getattr(space, "loss", None), Multinomial):  # a constant keeps the sum of the intercepts in place
        free = np.flatnonzero(space.is_intercept)
        excess = hessian[np.ix_(free, free)] - difference[np.ix_(free, free)]
        assert excess == pytest.approx(np.full_like(excess, excess[0, 0]), abs=1e-6)
        assert excess[0, 0] > 0.0
        difference[np.ix_(free, free)] += excess[0, 0]
    np.testing.assert_allclose(hessian, difference, rtol=1e-5, atol=1e-6)
    active = np.random.default_rng(2).permutation(len(w))[: len(w) - 2]
    np.testing.assert_allclose(space.hessian(w, active), hessian[np.ix_(active, active)], atol=1e-12)
    assert space.hessian(w, np.array([], dtype=int)).shape == (0, 0)


def test_hessian_of_squares_with_and_without_the_gram_matrix():
    for n, p in ((30, 5), (5, 30)):
        A, y = make_regression(n, p, random_state=0)
        model = Ridge(0.3).fit(A, y)
        space, active = make_weight_space(model, A, y), np.array([4, 0, p])
        columns = np.c_[A, np.ones(n)][:, active]
        expected = columns.T @ columns / n + np.diag([0.3 / n, 0.3 / n, 0.0])
        np.testing.assert_allclose(space.hessian(space.weights_of(model), active), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["svc, hinge", "sgd perceptron", "sgd epsilon_insensitive"])
def test_smoothed_space_is_near_and_smooth(name):
    estimator, y = fitted(name)
    space = make_weight_space(estimator, X, y)
    smooth = space.smoothed(0.01)
    w = around(space.weights_of(estimator))
    assert (space.is_smooth, smooth.is_smooth) == (False, True)
    assert np.all(np.abs(smooth.objective(w) - space.objective(w)) <= 0.01 * 3)
    assert smooth.smoothed(0.01) is smooth


@pytest.mark.parametrize("name", ALL)
def test_population_is_its_rows_whatever_the_blocks(name):
    estimator, y = fitted(name)
    space = make_weight_space(estimator, X, y, WEIGHTS)
    w = around(space.weights_of(estimator), 7)
    objective, gradient = space.objective(w), space.gradient(w)
    np.testing.assert_allclose(objective, [space.objective(row[None])[0] for row in w], rtol=1e-13)
    np.testing.assert_allclose(gradient, [space.gradient(row[None])[0] for row in w], atol=1e-12)
    hessian = space.hessian(w[0], np.arange(len(w[0])))
    with sklearn.config_context(working_memory=60 * 2 * 8 / 2**20):  # a particle or two
        np.testing.assert_allclose(space.objective(w), objective, rtol=1e-13)
        np.testing.assert_allclose(space.gradient(w), gradient, atol=1e-12)
        fresh = make_weight_space(estimator, X, y, WEIGHTS)
        np.testing.assert_allclose(fresh.hessian(w[0], np.arange(len(w[0]))), hessian, atol=1e-12)


@pytest.mark.parametrize("name", CONVERGED)
def test_integer_weights_are_repeated_rows_and_zeros_left_out(name):
    estimator, y = fitted(name)
    if getattr(estimator, "class_weight", None) == "balanced":
        estimator.class_weight = dict.fromkeys(estimator.classes_[:1], 2.0)
    w = around(make_weight_space(estimator, X, y).weights_of(estimator))
    space = make_weight_space(estimator, X, y, WEIGHTS)
    repeated = make_weight_space(estimator, np.repeat(X, WEIGHTS, axis=0), np.repeat(y, WEIGHTS, axis=0))
    np.testing.assert_allclose(space.objective(w), repeated.objective(w), rtol=1e-12)
    np.testing.assert_allclose(space.gradient(w), repeated.gradient(w), atol=1e-12)


def test_steps_of_sgd_on_rows_of_weight_zero_take_the_penalty():
    estimator, y = fitted("sgd hinge")
    weight = np.where(np.arange(60) < 20, 0.0, 1.0)
    weighted, fewer = make_weight_space(estimator, X, y, weight), make_weight_space(estimator, X[20:], y[20:])
    w = around(weighted.weights_of(estimator))
    penalty = 0.5 * 0.02 * np.sum(w[:, :-1] ** 2, axis=1)
    np.testing.assert_allclose(weighted.objective(w) - penalty, 2 / 3 * (fewer.objective(w) - penalty))


@pytest.mark.parametrize("name", ["logistic", "logistic, liblinear", "multinomial", "svc", "svc, hinge", "sgd hinge"])
@pytest.mark.parametrize("balanced", [False, True])
def test_class_weight_is_the_sample_weight(name, balanced):
    estimator, y = fitted(name)
    plain = copy.deepcopy(estimator).set_params(class_weight=None)
    classes, counts = np.unique(y, return_counts=True)
    factors = len(y) / (len(classes) * counts) if balanced else 1.0 + np.arange(len(classes))
    estimator.class_weight = "balanced" if balanced else dict(zip(classes, factors, strict=True))
    space = make_weight_space(estimator, X, y)
    expected = make_weight_space(plain, X, y, factors[np.searchsorted(classes, y)])
    w = around(space.weights_of(estimator))
    np.testing.assert_allclose(space.objective(w), expected.objective(w), rtol=1e-12)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("name", ALL)
def test_sparse_is_dense(name, container):
    estimator, y = fitted(name)
    holes = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = make_weight_space(estimator, holes, y, WEIGHTS)
    space = make_weight_space(estimator, container(holes), y, WEIGHTS)
    w = around(space.weights_of(estimator), 6)
    np.testing.assert_allclose(space.objective(w), dense.objective(w), rtol=1e-12)
    np.testing.assert_allclose(space.gradient(w), dense.gradient(w), atol=1e-12)
    active = np.array([2, 0, len(w[0]) - 1])
    np.testing.assert_allclose(space.hessian(w[0], active), dense.hessian(w[0], active), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ALL)
def test_put_round_trip(name, dtype):
    estimator, y = fitted(name, X=X.astype(dtype))
    twin = copy.deepcopy(estimator)
    space = make_weight_space(estimator, X.astype(dtype), y)
    w = space.weights_of(estimator)
    assert w.dtype == np.float64
    space.put(np.zeros(len(w)), twin)
    assert not np.any(space.weights_of(twin))
    given = w.copy()
    space.put(given, twin)
    given[:] = np.nan
    for attribute in ("coef_", "intercept_"):
        before, after = getattr(estimator, attribute), getattr(twin, attribute)
        assert np.shape(after) == np.shape(before)
        assert np.asarray(after).dtype == np.asarray(before).dtype
        assert np.array_equal(after, before)
    assert np.array_equal(space.weights_of(twin), w)
    assert np.array_equal(twin.predict(X), estimator.predict(X))


def test_layout_of_the_vector():
    estimator, y = fitted("multinomial")
    space = make_weight_space(estimator, X, y)
    w = space.weights_of(estimator)
    assert np.array_equal(w[:12].reshape(3, 4), estimator.coef_)
    assert np.array_equal(w[12:], estimator.intercept_)
    assert np.array_equal(space.feature_of_weight, [*range(4), *range(4), *range(4), -1, -1, -1])
    assert np.array_equal(space.is_intercept, np.arange(15) >= 12)
    assert space.n_weights == 15
    assert space.units() is None


def test_intercepts_are_penalised_by_liblinear_only():
    estimator, y = fitted("svc, l1")
    space = make_weight_space(estimator, X, y)
    assert np.all(space.l1 > 0)
    for name in ("lasso", "multinomial, l1", "sgd, l1"):
        estimator, y = fitted(name)
        space = make_weight_space(estimator, X, y)
        assert np.array_equal(space.l1 > 0, ~space.is_intercept)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("ridge", True), ("logistic", True), ("logistic, liblinear", True), ("svc", True), ("poisson", True)),
        *(("svc, hinge", True), ("sgd log_loss", True), ("sgd squared_error", True), ("elastic net", True)),
        *(("least squares", False), ("lasso", False), ("logistic, no penalty", False), ("svc, l1", False)),
        *(("multinomial", False), ("sgd hinge", False), ("sgd squared_hinge", False), ("sgd huber", False)),
    ],
)
def test_strict_convexity(name, expected):
    estimator, y = fitted(name)
    assert make_weight_space(estimator, X, y).is_strictly_convex is expected


def test_multinomial_without_intercept_is_strictly_convex():
    estimator, y = fitted("multinomial", fit_intercept=False)
    assert make_weight_space(estimator, X, y).is_strictly_convex


def test_tiny_residuals_of_interpolation_are_exact():
    A = np.random.default_rng(3).normal(size=(20, 50))
    y = A @ np.ones(50) + 3.0
    model = LinearRegression().fit(A, y)
    space = make_weight_space(model, A, y)
    w = space.weights_of(model)
    value = space.objective(w[None])[0]
    constant = 0.5 * np.var(y)
    assert value < 1e-25 * constant
    direct = 0.5 * np.mean((model.predict(A) - y) ** 2)
    assert value == pytest.approx(direct, abs=1e-28 * constant)
    null = np.linalg.svd(np.c_[A, np.ones(20)])[2][-1]
    assert space.objective((w + null)[None])[0] < 1e-25 * constant


@pytest.mark.parametrize("name", ["ridge", "logistic", "multinomial", "poisson", "svc, hinge", "lasso"])
def test_vectors_far_away_are_no_minima(name):
    estimator, y = fitted(name)
    space = make_weight_space(estimator, X, y)
    w = space.weights_of(estimator)
    for scale in (1e4, 1e100, 1e200):
        assert not np.any(space.objective(around(w, scale=scale)) <= space.objective(w[None])[0])


def test_ridge_has_the_closed_formula():
    model = Ridge(np.array([1.0, 3.0])).fit(X, Y2, sample_weight=WEIGHTS)
    space = make_weight_space(model, X, Y2, WEIGHTS)
    w = around(space.weights_of(model), 1)[0]
    coef, intercept = w[:8].reshape(2, 4), w[8:]
    squares = WEIGHTS @ (X @ coef.T + intercept - Y2) ** 2 + [1.0, 3.0] * np.sum(coef**2, axis=1)
    assert space.objective(w[None])[0] == pytest.approx(squares.sum() / (2 * WEIGHTS.sum()))


@pytest.mark.parametrize("name", ["ridge", "multinomial", "svc"])
def test_pipelines(name):
    estimator, y = ALL[name]
    pipeline = make_pipeline(StandardScaler(), make_pipeline("passthrough", copy.deepcopy(estimator)))
    bare = make_pipeline(copy.deepcopy(estimator))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's of old versions of scikit-learn
        pipeline.fit(X, y)
        bare.fit(X, y)
    last = pipeline[-1][-1]
    space = make_weight_space(pipeline, X, y)
    inner = make_weight_space(last, StandardScaler().fit_transform(X), y)
    w = space.weights_of(pipeline)
    assert np.array_equal(w, inner.weights_of(last))
    population = around(w)
    np.testing.assert_allclose(space.objective(population), inner.objective(population))
    np.testing.assert_allclose(space.gradient(population), inner.gradient(population))
    np.testing.assert_allclose(space.hessian(w, np.arange(3)), inner.hessian(w, np.arange(3)))
    assert space.is_strictly_convex == inner.is_strictly_convex
    assert has_weight_space(pipeline)
    space.put(2 * w, pipeline)
    assert np.array_equal(inner.weights_of(last), 2 * w)
    assert make_weight_space(bare, X, y).n_weights == len(w)


def test_sparsified_coefficients_stay_sparse():
    estimator, y = fitted("multinomial, l1")
    space = make_weight_space(estimator, X, y)
    w = space.weights_of(estimator)
    estimator.sparsify()
    assert np.array_equal(space.weights_of(estimator), w)
    space.put(2 * w, estimator)
    assert sparse.issparse(estimator.coef_)
    assert np.array_equal(space.weights_of(estimator), 2 * w)


@pytest.mark.skipif(VERSION >= (1, 8), reason="parameter removed")
@pytest.mark.parametrize("solver", ["lbfgs", "liblinear"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 3.0}])
def test_one_vs_rest_of_older_versions(solver, class_weight):
    model = logistic(multi_class="ovr", solver=solver, class_weight=class_weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, THREE, sample_weight=WEIGHTS + 1)
    space = make_weight_space(model, X, THREE, WEIGHTS + 1)
    assert np.max(np.abs(space.gradient(space.weights_of(model)[None]))) < 1e-6


def test_what_has_no_weight_space():
    with pytest.raises(TypeError, match=r"DecisionTreeClassifier.*LogisticRegression.*register_weight_space"):
        make_weight_space(DecisionTreeClassifier().fit(X, TWO), X, TWO)
    for estimator in (MultiTaskLasso(), LogisticRegressionCV(), make_pipeline(StandardScaler(), MultiTaskLasso())):
        assert not has_weight_space(estimator)
    with pytest.raises(ValueError, match=r"crammer_singer.*multi_class='ovr'"):
        make_weight_space(fitted("svc, three classes", multi_class="crammer_singer")[0], X, THREE)
    with pytest.raises(ValueError, match=r"positive=True"):
        make_weight_space(Ridge(positive=True).fit(X, Y1), X, Y1)


def test_bad_input():
    model = Ridge().fit(X, Y1)
    for unfitted in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        with pytest.raises(NotFittedError):
            make_weight_space(unfitted, X, Y1)
    for weight in (np.ones(3), -np.ones(60), np.zeros(60), np.full(60, np.nan), np.ones((60, 1))):
        with pytest.raises(ValueError, match="sample_weight"):
            make_weight_space(model, X, Y1, weight)
    with pytest.raises(ValueError, match="3 features"):
        make_weight_space(model, X[:, :3], Y1)
    with pytest.raises(ValueError, match="inconsistent"):
        make_weight_space(model, X, Y1[:-1])
    with pytest.raises(ValueError, match="NaN"):
        make_weight_space(model, X, np.where(Y1 > 0, Y1, np.nan))
    with pytest.raises(ValueError, match=r"not fitted to: .*maybe"):
        make_weight_space(fitted("logistic")[0], X, np.where(X[:, 0] > 0, TWO, "maybe"))
    with pytest.raises(ValueError, match="weights"):
        make_weight_space(model, X, Y1).weights_of(Ridge().fit(X[:, :3], Y1))
