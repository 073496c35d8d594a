"""Search over weights: coordinates, and what the search finds."""

import numpy as np
import pytest
from sklearn.datasets import make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.weight_search import Coordinates, Thresholded, search_weights


def quadratic(d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, d)) * np.geomspace(0.5, 3.0, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(40)
    model = Ridge(alpha=0.1).fit(X, y)
    space = make_weight_space(model, X, y)
    return space, space.weights_of(model)


def logistic(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 3))
    y = X[:, 0] + rng.standard_normal(80) > 0.0
    model = LogisticRegression(tol=1e-9).fit(X, y)
    space = make_weight_space(model, X, y)
    return space, space.weights_of(model)


def directions(d, n=50):
    u = np.random.default_rng(1).standard_normal((n, d))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def test_the_unit_sphere_is_the_boundary_of_the_tolerance_set_of_a_quadratic():
    space, center = quadratic()
    least, slack = space.objective(center[None])[0], 0.05
    coordinates = Coordinates(space, center, slack)
    for radius in (0.5, 1.0, 2.0):
        values = space.objective(coordinates.weights(radius * directions(space.n_weights)))
        np.testing.assert_allclose(values - least, slack * radius**2, rtol=1e-6)


def test_the_unit_sphere_is_about_that_boundary_for_a_logistic_loss():
    space, center = logistic()
    slack = 0.01
    values = space.objective(Coordinates(space, center, slack).weights(directions(space.n_weights)))
    np.testing.assert_allclose(values - space.objective(center[None])[0], slack, rtol=0.4)


@pytest.mark.parametrize("whitened", [True, False])
def test_points_invert_weights(whitened, monkeypatch):
    space, center = quadratic()
    if not whitened:
        monkeypatch.setattr("sklearn_scb2o.model_selection.weight_search.MAX_WHITENED", 1)
    coordinates = Coordinates(space, center, 0.05)
    u = np.random.default_rng(2).standard_normal((7, space.n_weights))
    np.testing.assert_allclose(coordinates.points(coordinates.weights(u)), u, atol=1e-9)
    np.testing.assert_allclose(coordinates.points(center[None]), 0.0, atol=1e-12)


def test_flat_directions_are_stretched_no_further_than_the_center_is_long():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))[:, [0, 1, 1]]  # the last two columns are one
    y = X @ np.array([3.0, 1.0, 1.0]) + rng.standard_normal(20)
    model = LinearRegression().fit(X, y)
    space = make_weight_space(model, X, y)
    center = space.weights_of(model)
    weights = Coordinates(space, center, 0.1).weights(directions(space.n_weights))
    assert np.all(np.linalg.norm(weights - center, axis=1) <= np.linalg.norm(center) * 1.0001)


def test_zero_slack_is_a_point():
    space, center = quadratic()
    coordinates = Coordinates(space, center, 0.0)
    np.testing.assert_array_equal(coordinates.weights(directions(space.n_weights)), np.tile(center, (50, 1)))
    np.testing.assert_array_equal(coordinates.points(center[None]), np.zeros((1, space.n_weights)))


@pytest.mark.parametrize("kind", ["whitened", "plain", "thresholded"])
def test_gradient_is_that_of_the_composition(kind, monkeypatch):
    space, center = logistic()
    if kind == "plain":
        monkeypatch.setattr("sklearn_scb2o.model_selection.weight_search.MAX_WHITENED", 1)
    coordinates = (
        Thresholded(np.array([0.5, 1.0, 2.0, 1.0]), space.is_intercept)
        if kind == "thresholded"
        else Coordinates(space, center, 0.05)
    )
    u = np.array([[0.7, -0.4, 0.9, 0.3]])
    step = 1e-6 * np.eye(4)
    ahead, back = (space.objective(coordinates.weights(u + s * step)) for s in (1.0, -1.0))
    slope = coordinates.gradient(u, space.gradient(coordinates.weights(u)))
    np.testing.assert_allclose(slope[0], (ahead - back) / 2e-6, rtol=1e-5, atol=1e-8)


def test_thresholded_points_invert_weights_and_zeros_are_exact():
    coordinates = Thresholded(np.array([0.5, 2.0, 1.0, 3.0]), np.array([False, False, False, True]))
    weights = np.array([[0.0, -3.0, 1e-3, 0.0], [2.0, 0.0, 0.0, -1.0]])
    back = coordinates.weights(coordinates.points(weights))
    np.testing.assert_allclose(back, weights, rtol=1e-12)
    np.testing.assert_array_equal(back == 0.0, weights == 0.0)


def test_weights_that_may_not_move_are_zero():
    coordinates = Thresholded(np.zeros(2), np.array([False, True]))
    np.testing.assert_array_equal(coordinates.weights(coordinates.points(np.array([[1.0, 0.0]]))), [[0.0, 0.0]])


def test_points_within_the_threshold_are_zero_weights_but_for_intercepts():
    coordinates = Thresholded(np.ones(3), np.array([False, False, True]), threshold=0.25)
    weights = coordinates.weights(np.array([[0.2, -0.25, 0.2], [0.35, -0.5, 0.0]]))
    np.testing.assert_allclose(weights, [[0.0, 0.0, 0.2], [0.1, -0.25, 0.0]])


@pytest.mark.parametrize("seed", range(3))
def test_never_worse_than_a_seed_and_within_the_limit(seed):
    space, center = quadratic(seed=seed)
    rng = np.random.default_rng(seed)
    limit = float(space.objective(center[None])[0]) * 1.2
    coordinates = Coordinates(space, center, limit / 6.0)
    seeds = [center, *coordinates.weights(0.9 * directions(space.n_weights)[:3])]

    def upper(weights):
        return np.abs(weights).sum(axis=1)

    found = search_weights(space, upper, limit, seeds, coordinates, n_particles=6, max_iter=3, rng=rng)
    assert found.lower <= limit
    assert found.upper <= upper(np.array(seeds)).min()
    assert found.lower == pytest.approx(space.objective(found.weights[None])[0])
    assert found.upper == upper(found.weights[None])[0]


def test_a_seed_above_the_limit_does_not_count():
    space, center = quadratic()
    limit = float(space.objective(center[None])[0]) * 1.1
    seeds = [center, np.zeros_like(center)]
    coordinates = Coordinates(space, center, limit / 11.0)
    found = search_weights(
        space, lambda w: np.abs(w).sum(axis=1), limit, seeds, coordinates, n_particles=6, max_iter=2,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.lower <= limit


def test_upper_values_that_are_nan_are_not_chosen():
    space, center = quadratic()
    limit = float(space.objective(center[None])[0]) * 1.2
    found = search_weights(
        space, lambda w: np.where(w[:, 0] < center[0], np.nan, w[:, 0]), limit, [center],
        Coordinates(space, center, limit / 6.0), n_particles=8, max_iter=5, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.upper == pytest.approx(center[0])


@pytest.mark.parametrize("seed", range(3))
def test_reaches_the_smallest_value_of_a_linear_function_on_an_ellipsoid(seed):
    X, y = make_regression(60, 5, noise=20.0, random_state=seed)
    plain = LinearRegression().fit(X, y)
    c = np.append(np.random.default_rng(seed).standard_normal(5), 0.0)
    search = BilevelSearchCV(plain, upper=lambda weights: weights @ c, lower_tol=0.1, random_state=seed).fit(X, y)
    # n (L(w) - L(w*)) = (w - w*)' M (w - w*) with M = Z'Z: the smallest c'w is c'w* - sqrt(n slack c'M^-1c)
    Z = np.column_stack([X, np.ones(60)])
    slack = 0.1 * np.mean((plain.predict(X) - y) ** 2)
    attainable = np.sqrt(60 * slack * c @ np.linalg.solve(Z.T @ Z, c))
    assert search.upper_at_fit_ - search.upper_ == pytest.approx(attainable, rel=0.03)
    assert search.upper_at_fit_ - search.upper_ <= attainable * (1.0 + 1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_drift_along_the_gradient_is_a_parameter(gamma):
    space, center = quadratic()
    limit = float(space.objective(center[None])[0]) * 1.2
    found = search_weights(
        space, lambda w: w[:, 0], limit, [center], Coordinates(space, center, limit / 6.0), n_particles=8, max_iter=5,
        optimizer_params={"gamma": gamma}, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.lower <= limit
    assert found.upper < center[0]
