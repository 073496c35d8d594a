"""Solvers on L and G alone, each in two stages: the lowest L first, then G where L is as low."""

from __future__ import annotations

import numpy as np
from scipy.optimize import NonlinearConstraint
from scipy.optimize import differential_evolution as scipy_de

from ..problems.problem import Floats, Values
from ..recorder import Recorder
from .evolution import cma_augmented, cma_free, doubled, generations
from .local import FAILED, Columns, Differences, lower_descent, quietly, upper_descent

#: Violation sqrt(L - lowest L) that the second stage allows.
VIOLATION = 3e-4


def _second_stage(recorder: Recorder) -> Columns:
    lowest = recorder.lowest
    return lambda v: [v.upper, np.sqrt(np.maximum(v.lower - lowest, 0.0)) - VIOLATION]


def slsqp(recorder: Recorder, seed: int) -> None:
    """From random starts, L by L-BFGS-B, then G by SLSQP."""
    rng = np.random.default_rng(seed)
    while True:
        upper_descent(recorder, lower_descent(recorder, rng.uniform(size=recorder.d)))


def cma_es(recorder: Recorder, seed: int) -> None:
    """CMA-ES on L for a third of the budget, then with the augmented Lagrangian on G; both restarted."""
    rng = np.random.default_rng(seed)
    stop = 2 * recorder.budget // 3
    growth = 1
    while recorder.left > stop:
        cma_free(recorder, rng.uniform(size=recorder.d), 0.3, lambda v: [v.lower], rng, growth, stop)
        growth = doubled(growth)
    start, growth = recorder.answer, 1
    while recorder.left:
        cma_augmented(recorder, start, 0.3, _second_stage(recorder), rng, growth)
        start, growth = rng.uniform(size=recorder.d), doubled(growth)


def differential_evolution(recorder: Recorder, seed: int) -> None:
    """SciPy's differential evolution on L for a third of the budget, on G for a half, then SLSQP from the best."""
    rng, box = np.random.default_rng(seed), [(0.0, 1.0)] * recorder.d

    def evolve(stop: int, columns: Columns, **options: object) -> None:
        while recorder.left > stop:
            f = Differences(recorder, columns, 0.0)
            constraints = ()
            if options:
                constraints = NonlinearConstraint(lambda z, f=f: f.value(z)[1:], -np.inf, 0.0)
            quietly(
                scipy_de, lambda z, f=f: float(f.value(z)[0]), box, rng=rng, polish=False, tol=1e-8,
                maxiter=generations(recorder), constraints=constraints,
                callback=lambda intermediate_result: recorder.left <= stop, **options,
            )  # fmt: skip

    evolve(2 * recorder.budget // 3, lambda v: [v.lower])
    evolve(recorder.budget // 6, _second_stage(recorder), x0=recorder.answer)
    while True:
        start = recorder.answer
        upper_descent(recorder, start)
        if np.array_equal(start, recorder.answer):
            return


def cbx_penalty(recorder: Recorder, seed: int, weight: float = 5.0, n_particles: int = 50) -> None:
    """Consensus-based optimization of `cbx` on G + weight sqrt(L), restarted where the swarm has collapsed.

    G and sqrt(L) are divided by their medians over the first swarm. Weight, noise and schedule were tuned a little.
    """
    from cbx.dynamics import CBO
    from cbx.scheduler import multiply

    rng = np.random.default_rng(seed)
    scale: list[float] = []

    def penalty(v: Values) -> Floats:
        L, G = (np.where(np.isfinite(a), a, FAILED) for a in (np.sqrt(np.maximum(v.lower, 0.0)), v.upper))
        if not scale:
            scale.extend(float(np.median(np.abs(a))) or 1.0 for a in (L, G))
        return G / scale[1] + weight * L / scale[0]

    def inside(dynamic: object) -> None:
        np.clip(dynamic.x, 0.0, 1.0, out=dynamic.x)

    def run() -> None:
        while recorder.left:
            dynamic = CBO(
                lambda z: penalty(recorder(z.reshape(-1, recorder.d))).reshape(z.shape[:-1]),
                f_dim="3D", check_f_dims=False, x=rng.uniform(size=(1, n_particles, recorder.d)), noise="anisotropic",
                dt=0.1, sigma=5.0, alpha=30.0, lamda=1.0, max_it=10**9, verbosity=0, post_process=inside,
                seed=int(rng.integers(2**31)), track_args={"names": []},
            )  # fmt: skip
            schedule = multiply(name="alpha", factor=1.05, maximum=1e15)
            while np.ptp(dynamic.x, axis=1).max() > 1e-7:
                dynamic.step()
                schedule.update(dynamic)

    quietly(run)
