"""A model of the violation as that of several linear constraints, which are fitted to the slopes of L."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .archive import Floats
from .quadratic import minimise_with_constraints, quadratic_change
from .violation import Point, Step, damped_bfgs, first_curvature, violation

#: Points that are remembered: so many times d, and some.
REMEMBERED = 2
#: A constraint is added where the others leave this part of a slope of L unexplained, if it explains this part of that.
UNEXPLAINED, EXPLAINED = 0.1, 0.3
#: Constraints, as part of d, and numbers that are fitted, at most.
MOST, MOST_NUMBERS = 0.6, 200
#: Part of the violation, at a point or allowed, below which it does not tell of another constraint.
CLEAR = 0.3
#: Weight of a point: 1 / (this + its distance, in units of that of a point nearby).
NEAR = 0.2
#: Steps of a fit, the damping of the first in units of the mean curvature, and the factors by which it changes.
FIT_STEPS, DAMPING, LESS, MORE = 8, 1e-8, 1.0 / 3.0, 10.0
#: A fit ends where a step leaves more than this part of the sum of squares, or so many dampings give none.
SETTLED, DAMPINGS = 0.9, 4


class Constraints(NamedTuple):
    """Linear functions ``g_j(s) = values_j + normals_j s`` of a step, shapes (k,) and (k, d)."""

    values: Floats
    normals: Floats

    def excesses(self, steps: Floats) -> Floats:
        """``max(g, 0)`` after steps of shape (..., d): shape (..., k)."""
        return np.maximum(self.values + steps @ self.normals.T, 0.0)

    def slopes(self, steps: Floats) -> Floats:
        """Half of the slope of ``sum_j max(g_j, 0)^2``, shape (..., d)."""
        return self.excesses(steps) @ self.normals

    def joined(self, value: float, normal: Floats) -> Constraints:
        """With another one."""
        return Constraints(np.append(self.values, value), np.vstack([self.normals, normal]))

    def seen_from(self, step: Floats) -> Constraints:
        """The same with steps that begin where this one ends."""
        return self._replace(values=self.values + self.normals @ step)


class Slopes(NamedTuple):
    """What constraints are fitted to: after n steps, half of the slope of L, and the weights of their errors."""

    steps: Floats
    halves: Floats
    weights: Floats

    def errors(self, constraints: Constraints) -> Floats:
        """Weighted errors, shape (n, d)."""
        return (constraints.slopes(self.steps) - self.halves) * self.weights[:, None]


def fitted(constraints: Constraints, data: Slopes) -> Constraints:
    """Constraints whose slopes have a smaller sum of squared errors, near those that are given.

    Steps by the method of Levenberg and Marquardt (Moré, "The Levenberg-Marquardt algorithm: implementation and
    theory", 1978).
    """
    k, d = constraints.normals.shape
    errors = data.errors(constraints)
    size, damping = float(np.vdot(errors, errors)), DAMPING
    length = max(float(np.abs(data.steps).max()), 1e-9)  # values count in this unit, which makes them like normals
    for _ in range(FIT_STEPS if k else 0):
        derivatives = _derivatives(constraints, data, length)
        product, slope = derivatives.T @ derivatives, derivatives.T @ errors.reshape(-1)
        if not np.isfinite(product).all():
            break
        unit = max(float(np.trace(product)) / len(product), 1e-300)
        for _ in range(DAMPINGS):
            change = -np.linalg.solve(product + damping * unit * np.eye(len(product)), slope)
            by_normals, by_values = change[: k * d].reshape(k, d), change[k * d :]
            new = Constraints(constraints.values + length * by_values, constraints.normals + by_normals)
            after = data.errors(new)
            rest = float(np.vdot(after, after))
            if rest < size:
                break
            damping *= MORE
        else:
            break
        is_settled = rest > SETTLED * size
        constraints, errors, size, damping = new, after, rest, max(LESS * damping, DAMPING)
        if is_settled:
            break
    return constraints


def _derivatives(constraints: Constraints, data: Slopes, length: float) -> Floats:
    """Those of the errors, (n d, k d + k): by the normals, then by the values in units of a length."""
    (k, d), n = constraints.normals.shape, len(data.steps)
    excesses = constraints.excesses(data.steps)
    by_values = np.einsum("ij,jc,i->icj", np.sign(excesses), constraints.normals, data.weights)
    by_normals = by_values[..., None] * data.steps[:, None, None, :]
    axis = np.arange(d)
    by_normals[:, axis, :, axis] += excesses * data.weights[:, None]
    return np.hstack([by_normals.reshape(n * d, k * d), length * by_values.reshape(n * d, k)])


class FittedConstraints:
    """``c^2`` is the sum of the squares by which linear constraints are exceeded, and G is a quadratic function.

    So it is where ``L = sum_j max(g_j, 0)^2``, as in simulations with limits: no plane of c is right for several of
    them that are exceeded together, and L has no curvature inside. How many there are, and which, is told by the slopes
    of L at the last points, the nearest counting most. Each may be exceeded by its share of the violation allowed, in
    proportion to its multiplier: where G is lowest, ``grad G + lambda grad c = 0``, that of g_j is
    ``lambda_j = lambda g_j / c``.
    """

    def __init__(self, center: Point, resolution: float) -> None:
        d = len(center.z)
        self.error = 0.05
        self._resolution, self._most_points = resolution, REMEMBERED * d + 3
        self._most = max(1, min(int(np.ceil(MOST * d)), MOST_NUMBERS // (d + 1)))
        self._points, self._center = [center], center
        self._constraints = Constraints(np.zeros(0), np.zeros((0, d)))
        self._multipliers = self._shares = np.zeros(0)
        self._allowed = 0.0
        self._curvature = first_curvature(center)

    def look_at(self, center: Point, lowest: float) -> None:
        """Be a model around this point."""
        self._constraints = self._constraints.seen_from(center.z - self._center.z)
        self._center, self._lowest = center, lowest
        self._fit_to(center)

    def at(self, step: Floats) -> float:
        """The expected c."""
        return float(np.linalg.norm(self._constraints.excesses(step)))

    def best_step(self, allowed: float, low: Floats, high: Floats) -> Step:
        """The step to the lowest G that is admitted."""
        values, normals = self._constraints
        if allowed < np.inf:
            shares = self._shares if self._shares.any() else np.full(len(values), max(len(values), 1) ** -0.5)
            self._allowed, room = allowed, allowed * shares - values
        else:
            self._allowed, room = 0.0, np.full(len(values), 1e100)
        slope = self._center.slope_upper
        step, self._multipliers = minimise_with_constraints(slope, self._curvature, normals, room, low, high)
        change = quadratic_change(slope, self._curvature, step)
        return Step(step, change, self.at(step), float(np.linalg.norm(self._multipliers)))

    def learn(self, new: Point, multiplier: float, excess: float) -> None:
        """Take in another point."""
        old = self._center
        if not any(point is old for point in self._points):
            self._points.append(old)
        self._points = [*self._points, new][-self._most_points :]
        if (total := float(np.linalg.norm(self._multipliers))) > 0.0:
            self._shares = self._multipliers / total
        self._fit_to(new)
        self._curvature = damped_bfgs(self._curvature, new.z - old.z, new.slope_upper - old.slope_upper)

    def _fit_to(self, point: Point) -> None:
        """Fit to the points that are remembered, with another constraint where one is left unexplained."""
        data = self._slopes()
        self._constraints = fitted(self._constraints, data)
        c = violation(point.lower, self._lowest)
        step, half = point.z - self._center.z, 0.5 * point.slope_lower
        rest = half - self._constraints.slopes(step)
        left, size = float(np.linalg.norm(rest)), float(np.linalg.norm(half))
        if c <= max(self._resolution, CLEAR * self._allowed) or not left > UNEXPLAINED * size:
            return
        if len(self._constraints.values) >= self._most:
            return
        excess = max(c**2 - float(np.sum(self._constraints.excesses(step) ** 2)), (CLEAR * c) ** 2) ** 0.5
        normal = rest / excess
        found = fitted(self._constraints.joined(excess - float(normal @ step), normal), data)
        if np.linalg.norm(half - found.slopes(step)) <= (1.0 - EXPLAINED) * left:
            self._constraints = found
            self._shares, self._multipliers = np.append(self._shares, 0.0), np.append(self._multipliers, 0.0)

    def _slopes(self) -> Slopes:
        """Those of L at the points that are remembered: errors count in units of the slope of c, nearby ones most."""
        steps = np.array([point.z for point in self._points]) - self._center.z
        halves = 0.5 * np.array([point.slope_lower for point in self._points])
        c = np.array([violation(point.lower, self._lowest) for point in self._points])
        distances = np.abs(steps).max(axis=1)
        nearby = max(float(np.sort(distances)[: len(self._center.z) // 2 + 2][-1]), 1e-12)
        return Slopes(steps, halves, 1.0 / (NEAR + distances / nearby) / np.maximum(c, max(self._allowed, 1e-100)))
