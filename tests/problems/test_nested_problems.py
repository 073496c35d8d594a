import numpy as np
import pytest

from sklearn_scb2o.problems import mirrlees, mitsos_barton, nested_circle, smd1, smd6

LINES = [*map(mitsos_barton, ("3.14", "3.17", "3.19", "3.21")), mirrlees()]
PROBLEMS = [*LINES, nested_circle(), smd1(), smd1(5), smd6()]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=repr)


@every_problem
def test_solutions_have_the_upper_optimum(problem):
    np.testing.assert_allclose(problem.upper(problem.outer_opt, problem.inner_opt), problem.upper_opt, rtol=1e-14)


@every_problem
def test_solutions_lie_in_the_boxes(problem):
    for points, bounds in ((problem.outer_opt, problem.outer_bounds), (problem.inner_opt, problem.inner_bounds)):
        assert ((bounds[:, 0] <= points) & (points <= bounds[:, 1])).all()


@every_problem
def test_no_inner_point_has_a_smaller_lower_value_at_the_best_outer_point(problem):
    low, high = problem.inner_bounds.T
    rng = np.random.default_rng(0)
    anywhere = rng.uniform(low, high, size=(50_000, low.size))
    nearby = np.clip(problem.inner_opt[0] + 0.01 * rng.normal(size=(50_000, low.size)), low, high)
    for theta in (anywhere, nearby):
        least = problem.lower(problem.outer_opt, theta).min()
        assert problem.lower(problem.outer_opt, problem.inner_opt[0]) <= least + 1e-12


@every_problem
def test_objectives_broadcast(problem):
    rng = np.random.default_rng(0)
    phi = rng.uniform(*problem.outer_bounds.T, size=(4, len(problem.outer_bounds)))
    theta = rng.uniform(*problem.inner_bounds.T, size=(4, 7, len(problem.inner_bounds)))
    for f in (problem.lower, problem.upper):
        values = f(phi[:, None], theta)
        assert values.shape == (4, 7)
        assert values[2, 3] == pytest.approx(f(phi[2], theta[2, 3]), rel=1e-14)


@pytest.mark.parametrize("problem", LINES, ids=repr)
def test_no_pair_of_a_grid_is_better(problem):
    # the grid has the solution's phi, where the best response may jump
    (low, high), theta = problem.outer_bounds[0], np.linspace(*problem.inner_bounds[0], 4001)
    phi = np.sort(np.append(np.linspace(low, high, 1001), problem.outer_opt))
    L, G = (f(phi[:, None, None], theta[None, :, None]) for f in (problem.lower, problem.upper))
    response = np.where(np.min(L, axis=1, keepdims=True) >= L, G, np.inf).min(axis=1)
    assert response.min() > problem.upper_opt - 2e-3


def test_distance_is_that_to_the_closest_solution():
    problem = mitsos_barton("3.17")
    assert problem.distance([-0.25], [0.4]) == pytest.approx(0.1)
    assert problem.distance([-0.25], [-0.4]) == pytest.approx(0.1)


@pytest.mark.parametrize(("make", "value"), [(mitsos_barton, "3.1"), (smd1, 1)])
def test_unknown_problem_is_named(make, value):
    with pytest.raises(ValueError, match=repr(value)):
        make(value)
