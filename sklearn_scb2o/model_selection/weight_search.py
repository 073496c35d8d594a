"""Search over weight vectors: particles in coordinates in which the good models fill about the unit ball."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import OptimizeResult

from ..optimize import SCB2OOptimizer
from ..particles.backend import Array, dtype_name, get_namespace, move, take_rows, to_numpy
from .incumbent import Incumbent
from .weight_spaces import WeightSpace

STAGNATION = 50  # iterations without a better point after which the search ends
GAMMA = 0.0
MAX_WHITENED = 1500  # more weights are scaled one by one


class FoundWeights(NamedTuple):
    """A weight vector with its lower and upper value, and the result of the particle system that searched."""

    weights: np.ndarray
    lower: float
    upper: float
    optimizer_result: OptimizeResult


class Coordinates:
    r"""Coordinates u of weights ``w = center + T u`` in which ``L(w) - L(center)`` is about ``slack ||u||^2``.

    With H the curvature at the center, ``T = sqrt(2 slack) H^(-1/2)``. Directions that hardly change the objective
    are stretched no further than the length of the center (at least 1). With many weights, or no curvature matrix,
    all directions have the same scale.

    Parameters
    ----------
    space : WeightSpace
        The objective.
    center : ndarray of shape (n_weights,)
        Its minimiser.
    slack : float
        By how much the objective may exceed its minimum.
    """

    def __init__(self, space: WeightSpace, center: np.ndarray, slack: float) -> None:
        self.center = center
        longest = max(1.0, float(np.linalg.norm(center)))
        curvature = _curvature(space, center)
        if curvature is None:
            self.map = np.full(space.n_weights, 0.1 * longest / np.sqrt(space.n_weights))
        else:
            values, vectors = np.linalg.eigh(curvature)
            lengths = np.sqrt(2.0 * max(slack, 0.0) / np.maximum(values, 1e-300))
            self.map = vectors * np.minimum(lengths, longest)

    def on(self, like: Array) -> Self:
        """The same coordinates for points that are arrays such as `like`; `points` is for NumPy."""
        other = copy.copy(self)
        other.center, other.map = move(self.center, like), move(self.map, like)
        return other

    def weights(self, u: Array) -> Array:
        """Weights (k, n_weights) of points (k, n_weights)."""
        return self.center + (u * self.map if self.map.ndim == 1 else u @ self.map.T)

    def points(self, weights: np.ndarray) -> np.ndarray:
        """The inverse."""
        away = weights - self.center
        if self.map.ndim == 1:
            return away / self.map
        squares = np.sum(self.map**2, axis=0)
        return away @ np.divide(self.map, squares, out=np.zeros_like(self.map), where=squares > 0.0)

    def gradient(self, u: Array, gradient: Array) -> Array:
        """Derivatives by u from those by the weights."""
        return gradient * self.map if self.map.ndim == 1 else gradient @ self.map


class Thresholded:
    """Coordinates u of weights that can be exactly zero: ``w_j = s_j sign(u_j) max(|u_j| - t, 0)``, intercepts plain.

    Parameters
    ----------
    scale : ndarray of shape (n_weights,)
        s.
    exact : ndarray of bool, shape (n_weights,)
        Weights that are never set to zero.
    threshold : float
        t.
    """

    def __init__(self, scale: np.ndarray, exact: np.ndarray, threshold: float = 0.25) -> None:
        self.scale, self.threshold = scale, np.where(exact, 0.0, threshold)

    def on(self, like: Array) -> Self:
        """The same coordinates for points that are arrays such as `like`; `points` is for NumPy."""
        other = copy.copy(self)
        other.scale, other.threshold = move(self.scale, like), move(self.threshold, like)
        return other

    def weights(self, u: Array) -> Array:
        """Weights (k, n_weights) of points (k, n_weights)."""
        xp = get_namespace(u)
        return self.scale * xp.sign(u) * xp.maximum(xp.abs(u) - self.threshold, 0.0)

    def points(self, weights: np.ndarray) -> np.ndarray:
        """Points whose weights these are; zero where the weight is."""
        u = np.divide(weights, self.scale, out=np.zeros_like(weights), where=self.scale > 0.0)
        return np.where(u == 0.0, 0.0, u + np.sign(u) * self.threshold)

    def gradient(self, u: Array, gradient: Array) -> Array:
        """Derivatives by u from those by the weights; zero where the weight is."""
        xp = get_namespace(u)
        return xp.where(xp.abs(u) > self.threshold, gradient * self.scale, 0.0)


def lone_moves(space: WeightSpace, center: np.ndarray, slack: float) -> np.ndarray:
    """By how much each weight may move alone before the objective exceeds its minimum by `slack`.

    No further than the largest weight (at least 1); a tenth of that where there is no curvature matrix.
    """
    curvature, longest = _curvature(space, center), max(1.0, float(np.abs(center).max()))
    if curvature is None:
        return np.full(space.n_weights, 0.1 * longest)
    return np.minimum(longest, np.sqrt(2.0 * slack / np.maximum(np.diag(curvature), 1e-300)))


def _curvature(space: WeightSpace, center: np.ndarray) -> np.ndarray | None:
    return space.hessian(center, np.arange(space.n_weights)) if space.n_weights <= MAX_WHITENED else None


def search_weights(
    space: WeightSpace,
    upper: Callable[[Array], Array],
    limit: float,
    seeds: Iterable[np.ndarray],
    coordinates: Coordinates | Thresholded,
    *,
    n_particles: int = 50,
    max_iter: int = 200,
    optimizer_params: dict[str, Any] | None = None,
    rng: np.random.Generator,
) -> FoundWeights:
    """The weights of smallest upper value among those whose objective is within the limit.

    SCB2O over u with ``L(u) = max(objective, limit)``.

    Parameters
    ----------
    space : WeightSpace
        The objective.
    upper : callable
        Upper values of weight vectors, (k, n_weights) -> (k,).
    limit : float
        Objectives up to here are good enough.
    seeds : iterable of arrays of shape (n_weights,)
        Members of the first population. The result is never worse than the best of them.
    coordinates
        What the particles are.
    n_particles, max_iter, optimizer_params
        Of the particle system, ``xp``, ``device`` and ``dtype`` included: weights, objective and upper values are then
        arrays of that library. And ``gamma``, the strength of a drift ``-gamma grad L(u) / (2 slack)`` where slack is
        what the limit leaves above the first seed. It is zero within the limit, and takes other particles back.
    rng : Generator
        Source of all that is random.
    """
    d = space.n_weights
    settings: dict[str, Any] = {"n_particles": n_particles, "max_iter": max_iter, **(optimizer_params or {})}
    gamma = float(settings.pop("gamma", GAMMA))
    given = np.array(list(seeds))
    x0 = coordinates.points(given)[: settings["n_particles"] // 2]
    # a normal start of standard deviation 1 / sqrt(d) fills the unit ball
    more = rng.standard_normal((settings["n_particles"] - len(x0), d)) / np.sqrt(d) + x0[0]
    settings = {"x_scale": 1.0 / np.sqrt(d), **settings}
    optimizer = SCB2OOptimizer(x0=np.concatenate([x0, more]), random_state=rng.integers(2**63), **settings)
    best = Incumbent(limit)
    slack = limit - float(space.objective(given[:1])[0])
    _take_best(best, given, space.objective(given), upper(given))
    u = optimizer.ask()
    xp = get_namespace(u)
    there, coordinates_there = space.on(u), coordinates.on(u)
    is_exact = dtype_name(u) == "float64"
    quiet = 0
    while not optimizer.stop() and quiet < STAGNATION:
        u = optimizer.ask()
        weights = coordinates_there.weights(u)
        objective = there.objective(weights)
        lower = xp.maximum(objective, float(limit))
        needed = np.flatnonzero(to_numpy(optimizer.needs_upper(lower)))
        judged, values = take_rows(weights, needed, xp), to_numpy(objective)
        G = np.full(len(values), np.nan)
        G[needed] = to_numpy(upper(judged))
        drift = None
        above = np.flatnonzero((values > limit) & np.isfinite(values))
        if gamma > 0.0 and slack > 0.0 and len(above):
            outside, moving = take_rows(weights, above, xp), take_rows(u, above, xp)
            slope = coordinates_there.gradient(moving, there.gradient(outside))
            drift = _scattered(-gamma / (2.0 * slack) * xp.where(xp.isfinite(slope), slope, 0.0), above, u)
        optimizer.tell(lower, G, drift=drift)
        quiet = 0 if _take_best(best, judged, values[needed], G[needed], None if is_exact else space) else quiet + 1
        if quiet % 10 == 9:
            optimizer.inject(coordinates.points(best.item[None]))
    return FoundWeights(best.item, best.lower, best.upper, optimizer.result)


def _scattered(values: Array, rows: np.ndarray, like: Array) -> Array:
    """An array of the shape of `like` with some rows given and zeros elsewhere."""
    n = like.shape[0]
    source, is_given = np.zeros(n, dtype=int), np.zeros((n, 1), dtype=bool)
    source[rows], is_given[rows] = np.arange(len(rows)), True
    xp = get_namespace(like)
    return xp.where(move(is_given, like), take_rows(values, source, xp), 0.0)


def _take_best(
    best: Incumbent, weights: Array, lower: np.ndarray, upper: np.ndarray, space: WeightSpace | None = None
) -> bool:
    """Keep the best of some rows if it is the best of all, also by the objective of `space`; returns whether it is."""
    row = best.choose(lower, upper)
    if row is None:
        return False
    item = to_numpy(weights[row, :]).astype(float)
    return best.take(item, lower[row] if space is None else float(space.objective(item[None])[0]), upper[row])
