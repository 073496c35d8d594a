"""Search over supports: particles are scores of the groups, and a group is in where its score is positive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult

from ..optimize import SCB2OOptimizer
from ..particles.backend import to_numpy
from .incumbent import Incumbent
from .local_search import descend
from .supports import Supports

STAGNATION = 10  # iterations without a better support after which the search ends
NONCONVEX_FITS = 100  # limit on the inner fits where the objective is not convex and no limit is given
DESCENTS = 2  # particles from which a local search starts in each iteration


class FoundSupport(NamedTuple):
    """A support with its lower and upper value, and the result of the particle system that searched."""

    support: np.ndarray
    lower: float
    upper: float
    optimizer_result: OptimizeResult


def search_supports(
    supports: Supports,
    upper: Callable[[np.ndarray], float],
    limit: float,
    seeds: Iterable[np.ndarray],
    *,
    costs: np.ndarray | None = None,
    max_fits: int | None = None,
    n_particles: int = 20,
    max_iter: int = 30,
    optimizer_params: dict[str, Any] | None = None,
    rng: np.random.Generator,
) -> FoundSupport:
    """The support of smallest upper value among those whose inner fit has an objective within the limit.

    SCB2O over scores s in [-1, 1]^n_groups with ``L(s) = max(objective of the fit on {s > 0}, limit)``. Where the
    upper value is the sum of `costs`, a local search improves the seeds, and in each iteration the consensus and one
    of the particles; what it finds joins the particles.

    Parameters
    ----------
    supports : Supports
        Objective of each support.
    upper : callable
        Upper value of a support.
    limit : float
        Objectives up to here are good enough.
    seeds : iterable of boolean arrays of shape (n_groups,)
        Members of the first population. The result is never worse than the best of them.
    costs : ndarray of shape (n_groups,), optional
        Costs of the groups where `upper` is their sum.
    max_fits : int, optional
        Inner fits at most, besides those that `supports` has made before; None for no limit where the
        objective is convex and for columns, else for 100.
    n_particles, max_iter, optimizer_params
        Of the particle system.
    rng : Generator
        Source of all that is random.
    """
    settings = {"n_particles": n_particles, "max_iter": max_iter, **(optimizer_params or {})}
    best = Incumbent(limit)
    if max_fits is None and not supports.is_convex:
        max_fits = NONCONVEX_FITS
    last_fit = np.inf if max_fits is None else supports.n_fits + max_fits

    def take(support: np.ndarray) -> bool:
        value = supports.value(support)
        return best.reaches(value) and best.take(support, value, upper(support))

    starts = list(seeds)
    for support in starts:
        take(support)
    if costs is not None:
        for support in sorted(starts, key=upper):  # the best first, as the fits may be used up
            take(descend(supports, support, limit, costs, max_fits=last_fit))
    first = [best.item, *starts][: settings["n_particles"] // 2]
    x0 = [scores_of(support) for support in first]
    x0 += list(_random_scores(best.item, settings["n_particles"] - len(x0), rng))
    optimizer = SCB2OOptimizer(
        [(-1.0, 1.0)] * supports.n_groups, x0=np.array(x0), random_state=rng.integers(2**63), **settings
    )
    model, quiet = None, 0
    while not optimizer.stop() and quiet < STAGNATION and supports.n_fits < last_fit:
        population = to_numpy(optimizer.ask()) > 0.0
        if costs is None:
            objective = supports.values(population, best.item)
        else:  # the quadratic model around the best support is enough to rank the particles
            model = model or supports.quadratic_model(best.item)
            objective = np.array([supports.value(s) if model is None else model.estimate(s) for s in population])
        lower = np.maximum(objective, limit)
        needed = to_numpy(optimizer.needs_upper(lower))
        optimizer.tell(lower, np.array([upper(s) if n else np.nan for s, n in zip(population, needed, strict=True)]))
        improved = False
        if costs is None:
            for support in population[needed]:
                improved |= take(support)
        else:
            assert optimizer.consensus is not None
            chosen = rng.choice(len(population), size=min(DESCENTS, len(population)), replace=False)
            for support in (to_numpy(optimizer.consensus) > 0.0, *population[chosen]):
                improved |= take(descend(supports, support, limit, costs, max_fits=last_fit))
        if improved:
            optimizer.inject(scores_of(best.item))
            model = None
        quiet = 0 if improved else quiet + 1
    return FoundSupport(best.item, best.lower, best.upper, optimizer.result)


def scores_of(support: np.ndarray) -> np.ndarray:
    """Scores in the middle of the half of the box that stands for the support."""
    return np.where(support, 0.5, -0.5)


def _random_scores(best: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Scores uniform in the box, shifted such that about as large a share as of the best support or more is in."""
    share = rng.uniform(best.mean(), 1.0, size=(count, 1))
    uniform = rng.uniform(size=(count, len(best)))
    # the share that is in maps to (0, 1], the rest to [-1, 0]
    return np.where(
        uniform < share, 1.0 - uniform / np.maximum(share, 1e-9), -(uniform - share) / np.maximum(1 - share, 1e-9)
    )
