"""Inner fits against scikit-learn on the columns."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.inner_fit import fit_active

CASES = {
    "least squares": (load_diabetes, LinearRegression()),
    "ridge": (load_diabetes, Ridge(alpha=3.0)),
    "lasso": (load_diabetes, Lasso(alpha=0.1, tol=1e-10)),
    "logistic": (load_breast_cancer, LogisticRegression(tol=1e-10, max_iter=5000)),
    "squared hinge": (load_breast_cancer, LinearSVC(C=0.01, tol=1e-10, max_iter=100_000, dual=False)),
}


def problem(name):
    load, estimator = CASES[name]
    X, y = load(return_X_y=True)
    X = scale(X)
    return X, y, clone(estimator).fit(X, y)


@pytest.mark.parametrize("name", CASES)
def test_objective_is_that_of_a_refit_on_the_columns(name):
    X, y, model = problem(name)
    space = make_weight_space(model, X, y)
    columns = np.array([1, 3, 4, 8])
    active = np.flatnonzero(np.isin(space.feature_of_weight, columns) | space.is_intercept)
    found = fit_active(space, active, space.weights_of(model), tol=1e-10, max_iter=500)
    refit = clone(model).fit(X[:, columns], y)
    own = make_weight_space(refit, X[:, columns], y)
    assert found.objective == pytest.approx(own.objective(own.weights_of(refit)[None])[0], rel=1e-6)
    assert not np.any(np.delete(found.weights, active))


def test_hinge_is_near_the_minimum_and_not_worse_than_the_start():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = LinearSVC(loss="hinge", C=0.01, tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, y)
    space = make_weight_space(model, X, y)
    best = space.objective(space.weights_of(model)[None])[0]
    found = fit_active(space, np.arange(space.n_weights), np.zeros(space.n_weights), max_iter=500)
    assert best * (1.0 - 1e-3) <= found.objective <= best * 1.01
    again = fit_active(space, np.arange(space.n_weights), space.weights_of(model), max_iter=1)
    assert again.objective <= best


def test_without_free_weights_the_objective_is_that_of_zero():
    X, y, model = problem("least squares")
    space = make_weight_space(model, X, y)
    found = fit_active(space, np.array([], dtype=int), space.weights_of(model), max_iter=10)
    assert found.objective == pytest.approx(space.objective(np.zeros((1, space.n_weights)))[0])


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 30)), rng.standard_normal(10)
    space = make_weight_space(LinearRegression().fit(X, y), X, y)
    found = fit_active(space, np.arange(31), np.zeros(31), max_iter=50)
    assert found.objective < 1e-8


@pytest.mark.parametrize("max_iter", [1, 2])
def test_never_worse_than_the_start(max_iter):
    X, y, model = problem("logistic")
    space = make_weight_space(model, X, y)
    rng = np.random.default_rng(0)
    for size in (0.1, 10.0):
        start = size * rng.standard_normal(space.n_weights)
        found = fit_active(space, np.arange(space.n_weights), start, max_iter=max_iter)
        assert found.objective <= space.objective(start[None])[0]
