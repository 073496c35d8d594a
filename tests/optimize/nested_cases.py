"""Nested problems, and short runs on them."""

from optimize_cases import same

from sklearn_scb2o import NestedOptimizer, minimize_nested
from sklearn_scb2o.problems import mirrlees, mitsos_barton, nested_circle

LINES = [*map(mitsos_barton, ("3.14", "3.17", "3.19", "3.21")), mirrlees()]
CIRCLE = nested_circle()


def solve(problem, **options):
    return minimize_nested(
        problem.lower, problem.upper, problem.outer_bounds, problem.inner_bounds,
        **{"vectorized": True, "random_state": 0, **options},
    )  # fmt: skip


def small(lower=CIRCLE.lower, upper=CIRCLE.upper, **options):
    """A short run on the circle."""
    return minimize_nested(
        lower, upper, CIRCLE.outer_bounds, CIRCLE.inner_bounds,
        **{"n_outer": 5, "n_inner": 8, "first_iter": 4, "inner_iter": 3, "max_iter": 3, "random_state": 0, **options},
    )  # fmt: skip


def make(problem=CIRCLE, **options):
    """A small optimizer."""
    sizes = {"n_outer": 5, "n_inner": 8, "first_iter": 4, "inner_iter": 3, "random_state": 0}
    return NestedOptimizer(problem.outer_bounds, problem.inner_bounds, **{**sizes, **options})


def step(opt, problem=CIRCLE):
    """One ask and tell; the pairs asked."""
    phi, theta = opt.ask()
    opt.tell(problem.lower(phi[:, None], theta), problem.upper(phi[:, None], theta))
    return phi, theta


def assert_same_result(a, b):
    assert same([a.x_outer, a.x_inner], [b.x_outer, b.x_inner])
    assert same(a.population.values(), b.population.values())
    assert (a.fun, a.lower_fun, a.nit, a.n_failed) == (b.fun, b.lower_fun, b.nit, b.n_failed)
