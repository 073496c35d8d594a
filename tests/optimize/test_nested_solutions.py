"""Nested bi-level problems against grids and closed forms."""

import numpy as np
import pytest
from nested_cases import CIRCLE, LINES, solve
from sklearn.linear_model import Lasso

from sklearn_scb2o import minimize_nested
from sklearn_scb2o.problems import mitsos_barton, smd1, smd6

JUMPS = [LINES[0], LINES[-1]]  #: the best response jumps at the solution


def least_on_grid(problem, n=2001):
    """The smallest upper value over a grid of phi and the best theta on a grid for each, and where it is."""
    phi = np.linspace(*problem.outer_bounds[0], n)
    theta = np.linspace(*problem.inner_bounds[0], n)
    pairs = phi[:, None, None], theta[None, :, None]
    L, G = problem.lower(*pairs), problem.upper(*pairs)
    # minimisers of L to the accuracy of the grid
    near = np.min(L, axis=1, keepdims=True) + 1e-5 > L
    i, j = np.unravel_index(np.argmin(np.where(near, G, np.inf)), G.shape)
    return G[i, j], phi[i], theta[j]


@pytest.mark.parametrize(
    "problem", [LINES[0], *(pytest.param(line, marks=pytest.mark.slow) for line in LINES[1:])], ids=repr
)
def test_minimum_is_that_of_a_grid(problem):
    result = solve(problem, max_evals=30_000)
    upper, phi, theta = least_on_grid(problem)
    assert result.fun == pytest.approx(upper, abs=0.05)
    assert result.x_outer[0] == pytest.approx(phi, abs=0.05)
    assert abs(result.x_inner[0]) == pytest.approx(abs(theta), abs=0.05)
    best = problem.lower(result.x_outer, np.linspace(*problem.inner_bounds[0], 10_001)[:, None]).min()
    # where the best response jumps, an error of phi is one of L
    assert result.lower_fun - best < 0.05


def test_upper_objective_picks_among_the_minimisers_of_the_lower_one():
    # theta = -sqrt(phi) is as good for L
    result = solve(mitsos_barton("3.19"), max_evals=20_000)
    np.testing.assert_allclose(result.x_inner, mitsos_barton("3.19").inner_opt[0], atol=0.01)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_upper_objective_picks_the_point_of_a_circle(seed):
    result = solve(CIRCLE, max_evals=30_000, random_state=seed)
    assert CIRCLE.distance(result.x_outer, result.x_inner) < 0.05
    assert result.lower_fun < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("problem", [*LINES[1:-1], CIRCLE, smd1(), smd6()], ids=repr)
def test_problems_are_solved_from_every_seed(problem):
    evaluations = 60_000 if problem.name == smd6().name else 30_000
    for seed in range(5):
        result = solve(problem, max_evals=evaluations, random_state=seed)
        assert problem.distance(result.x_outer, result.x_inner) < 0.05
        assert abs(result.fun - problem.upper_opt) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("problem", JUMPS, ids=repr)
def test_problems_whose_best_response_jumps_at_the_solution_are_solved_from_most_seeds(problem):
    results = [solve(problem, max_evals=20_000, random_state=seed) for seed in range(10)]
    near = [problem.distance(result.x_outer, result.x_inner) < 0.05 for result in results]
    assert sum(near) >= 8


def regression_data():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(60, 3)), rng.normal(size=60)
    y = X @ [1.0, -1.0, 0.0] + noise
    return X[:20], y[:20], X[20:], y[20:]


def validation_error(phi, theta):
    _, _, X, y = regression_data()
    return np.mean((theta @ X.T - y) ** 2, axis=-1)


def test_penalty_of_a_ridge_regression():
    X, y, _, _ = regression_data()

    def lower(phi, theta):
        return np.mean((theta @ X.T - y) ** 2, axis=-1) + 10.0 ** phi[..., 0] * np.sum(theta**2, axis=-1)

    def coefficients(phi):
        return np.linalg.solve(X.T @ X / 20 + 10.0**phi * np.eye(3), X.T @ y / 20)

    result = minimize_nested(
        lower, validation_error, [(-4, 1)], [(-3, 3)] * 3, vectorized=True, max_evals=30_000, random_state=0
    )
    grid = np.linspace(-4, 1, 501)
    errors = [float(validation_error(phi, coefficients(phi))) for phi in grid]
    assert result.fun == pytest.approx(min(errors), rel=2e-3)
    np.testing.assert_allclose(result.x_inner, coefficients(result.x_outer[0]), atol=0.02)


@pytest.mark.slow
def test_penalty_of_a_lasso():
    X, y, _, _ = regression_data()

    def lower(phi, theta):
        return np.mean((theta @ X.T - y) ** 2, axis=-1) / 2 + 10.0 ** phi[..., 0] * np.sum(np.abs(theta), axis=-1)

    def coefficients(phi):
        return Lasso(alpha=10.0**phi, fit_intercept=False, tol=1e-10).fit(X, y).coef_

    errors = [float(validation_error(phi, coefficients(phi))) for phi in np.linspace(-3, 0, 301)]
    away = []
    for seed in range(3):
        result = minimize_nested(
            lower, validation_error, [(-3, 0)], [(-3, 3)] * 3, vectorized=True, max_evals=30_000, random_state=seed
        )
        assert result.fun == pytest.approx(min(errors), rel=2e-2)
        away.append(np.abs(result.x_inner - coefficients(result.x_outer[0])).max())
    assert np.median(away) < 0.06


def test_options_reach_the_inner_level():
    # with a tolerance every point of the plane near the circle is as good as those on it
    strict, loose = (solve(CIRCLE, max_iter=20, inner_options={"lower_tol": tol}) for tol in (0.0, 4.0))
    assert loose.fun < strict.fun - 0.1


def test_hard_inner_selection():
    result = solve(CIRCLE, max_iter=20, inner_options={"selection": "hard"})
    assert CIRCLE.distance(result.x_outer, result.x_inner) < 0.1
