"""Solvers that are told the constraint functions."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize
from scipy.optimize import differential_evolution as scipy_de

from ..problems.problem import Floats, Values
from ..recorder import FEASIBLE, Recorder
from .evolution import cma_augmented, doubled, generations
from .local import FAILED, Differences, constrained_descent, quietly


def _columns(v: Values) -> list[Floats]:
    return [v.upper, *v.equalities.T, *(-v.inequalities.T)]


def _one_sided(v: Values) -> list[Floats]:
    """G and constraints that are to be at most 0."""
    return [v.upper, *(v.equalities.T - FEASIBLE), *(-v.equalities.T - FEASIBLE), *v.inequalities.T]


def _n_equalities(recorder: Recorder) -> int:
    return recorder.problem.constraints(recorder.problem.bounds[:, :1].T)[0].shape[-1]


def slsqp(recorder: Recorder, seed: int) -> None:
    """SLSQP from random starts."""
    rng, m = np.random.default_rng(seed), _n_equalities(recorder)
    while True:
        constrained_descent(recorder, rng.uniform(size=recorder.d), _columns, m, step=1e-7)


def cobyqa(recorder: Recorder, seed: int) -> None:
    """COBYQA from random starts."""
    rng, m = np.random.default_rng(seed), _n_equalities(recorder)
    while True:
        f = Differences(recorder, _columns, 0.0)
        n = len(f.value(start := rng.uniform(size=recorder.d))) - 1
        quietly(
            minimize, lambda z, f=f: float(f.value(z)[0]), start, method="COBYQA", bounds=[(0.0, 1.0)] * recorder.d,
            constraints=NonlinearConstraint(lambda z, f=f: f.value(z)[1:], 0.0, [0.0] * m + [np.inf] * (n - m)),
            options={"initial_tr_radius": 0.1, "final_tr_radius": 1e-6, "maxfev": recorder.left},
        )  # fmt: skip


def cma_es(recorder: Recorder, seed: int) -> None:
    """CMA-ES with the augmented Lagrangian, restarted with twice the population."""
    rng = np.random.default_rng(seed)
    growth = 1
    while recorder.left:
        cma_augmented(recorder, rng.uniform(size=recorder.d), 0.3, _one_sided, rng, growth)
        growth = doubled(growth)


def differential_evolution(recorder: Recorder, seed: int) -> None:
    """SciPy's differential evolution for three quarters of the budget, then SLSQP from its best."""
    rng, m = np.random.default_rng(seed), _n_equalities(recorder)
    stop = recorder.budget // 4
    while recorder.left > stop:
        f = Differences(recorder, _one_sided, 0.0)
        quietly(
            scipy_de, lambda z, f=f: float(f.value(z)[0]), [(0.0, 1.0)] * recorder.d, rng=rng, polish=False,
            constraints=NonlinearConstraint(lambda z, f=f: f.value(z)[1:], -np.inf, 0.0),
            maxiter=generations(recorder), callback=lambda intermediate_result: recorder.left <= stop,
        )  # fmt: skip
    while True:
        start = recorder.answer
        constrained_descent(recorder, start, _columns, m, step=1e-7)
        if np.array_equal(start, recorder.answer):
            return


def isres(recorder: Recorder, seed: int) -> None:
    """Stochastic ranking of pymoo, restarted where it stops."""
    from pymoo.algorithms.soo.nonconvex.isres import ISRES
    from pymoo.core.problem import Problem
    from pymoo.optimize import minimize as pymoo_minimize

    n = len(_one_sided(recorder.problem.exact(recorder.problem.bounds[:, :1].T))) - 1

    class Told(Problem):
        def __init__(self) -> None:
            super().__init__(n_var=recorder.d, n_obj=1, n_ieq_constr=n, xl=0.0, xu=1.0)

        def _evaluate(self, z: Floats, out: dict[str, Floats], *args: object, **options: object) -> None:
            columns = np.nan_to_num(np.stack(_one_sided(recorder(z)), axis=-1), nan=FAILED)
            out["F"], out["G"] = columns[:, :1], columns[:, 1:]

    for i in itertools.count():
        algorithm = ISRES(n_offsprings=200, rule=1.0 / 7.0, gamma=0.85, alpha=0.2)
        quietly(pymoo_minimize, Told(), algorithm, ("n_evals", recorder.left + 1), seed=1000 * i + seed)
