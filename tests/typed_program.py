"""A user's program with types; `test_documentation` has mypy check it as strictly as it can."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_scb2o import BilevelSearchCV, NestedOptimizer, SCB2OOptimizer, minimize, minimize_nested
from sklearn_scb2o.model_selection import DemographicParityGap, WeightSpace, register_weight_space
from sklearn_scb2o.particles import SELECTORS, consensus_point, gibbs_weights, soft_selection
from sklearn_scb2o.problems import Problem, circle
from sklearn_scb2o.theory import mean_square_rate, time_horizon

Points = NDArray[np.float64]


def lower(x: Points) -> float:
    return float((x @ x - 1) ** 2)


def upper(x: Points, shift: float) -> float:
    return float(np.sum((x - shift) ** 2))


def loop(problem: Problem, path: Path) -> Points:
    optimizer = SCB2OOptimizer(problem.bounds, n_particles=50, selector=SELECTORS["gumbel"], max_iter=5, random_state=0)
    while not optimizer.stop():
        x: Points = optimizer.ask()
        optimizer.tell(problem.lower(x), problem.upper(x))
    optimizer.save(path)
    consensus = SCB2OOptimizer.load(path).consensus
    assert isinstance(consensus, np.ndarray)
    return consensus


def solve() -> tuple[Points, float]:
    result = minimize(lower, lambda x: upper(x, 2.0), [(-3, 3), (-3, 3)], max_evals=1000, random_state=0)
    x: Points = result.x
    value: float = result.fun
    return x, value


def solve_nested() -> Points:
    result = minimize_nested(
        lambda phi, theta: float((theta @ theta - phi[0]) ** 2),
        lambda phi, theta: float(phi[0] - theta[0]),
        [(0, 3)],
        [(-3, 3), (-3, 3)],
        max_iter=2,
    )
    x: Points = result.x_outer
    return x


def consensus_of(x: Points, L: Points, G: Points) -> Any:
    selection = soft_selection(L, beta=0.1, tau=0.05)
    return consensus_point(x, gibbs_weights(G, 5.0, selection.log_eta))


def select(estimator: Any, X: Points, y: Points) -> BilevelSearchCV:
    search = BilevelSearchCV(estimator, upper=DemographicParityGap(sensitive=0), lower_tol=[0.01, 0.1], refit="1se")
    return search.fit(X, y)


def make_space(estimator: Any, X: Any, y: Any, sample_weight: Points) -> WeightSpace:
    raise NotImplementedError


def the_rest() -> tuple[float, float, Points, int]:
    register_weight_space(int, make_space)
    nested = NestedOptimizer([(0, 1)], [(0, 1)])
    steps = time_horizon(3.0, 0.01, 0.5, 2, 1.0, noise="isotropic") / 0.1
    return steps, mean_square_rate(0.5, 2, 1.0, noise="isotropic"), circle().x_opt, nested.n_iter
