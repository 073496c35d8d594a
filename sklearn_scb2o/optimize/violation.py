"""Models of the violation ``c = sqrt(L - lowest L)`` from gradients of L, and the steps of G that they allow."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .archive import Floats
from .quadratic import minimise_in_box, minimise_with_constraints, quadratic_change

#: Gradients that are remembered: so many times d, and some.
REMEMBERED = 3
#: Gradients of c that differ by less than this cosine belong to one constraint, whose curvature they tell.
ALIKE = 0.7
#: Curvature of G before anything is known, as part of its slope.
FIRST_CURVATURE = 1e-2
#: The least curvature of G where it is measured, as part of its slope.
SMALLEST_CURVATURE = 1e-3
#: The least curvature of L that is known, as part of the largest.
KNOWN = 1e-3
#: The largest weight of L beside G: sums of larger ones would overflow.
HEAVIEST = 1e100
#: A step that would not reach the violation allowed in the region goes this part of the way.
PART = 0.9


class Point(NamedTuple):
    """Where L and G are known with their gradients: shapes (d,), (), (), (d,), (d,)."""

    z: Floats
    lower: float
    upper: float
    slope_lower: Floats
    slope_upper: Floats


class Step(NamedTuple):
    """A step, what G and c are expected to be there, and how much of G a unit of c is worth."""

    step: Floats
    change: float
    violation: float
    multiplier: float

    @property
    def size(self) -> float:
        """Its length in the coordinate in which it is longest."""
        return float(np.abs(self.step).max())


def violation(lower: float, lowest: float) -> float:
    """``sqrt(L - lowest L)``."""
    return float(np.sqrt(max(lower - lowest, 0.0)))


class ViolationModel(Protocol):
    """What is expected of c around a point."""

    #: by how much the last predictions were wrong, as a part of c
    error: float

    def look_at(self, center: Point, lowest: float) -> None:
        """Be a model around this point, with this lowest L."""

    def at(self, step: Floats) -> float:
        """The expected c after a step."""

    def best_step(self, allowed: float, low: Floats, high: Floats) -> Step:
        """The step in a box that makes G lowest while c is at most `allowed`, or as near to that as the box admits."""

    def learn(self, new: Point, multiplier: float, excess: float) -> None:
        """Take in another point, where c was larger by `excess` than the step promised that led there."""


class CuttingPlanes:
    """c is the largest of its linearisations at the last points, and G a quadratic function.

    As c is convex where the constraints that make up L are linear, it is nowhere below them; of each constraint that
    was violated somewhere there is one. Where one exceeds what is known at the center it is lowered by twice that.
    (Kelley, "The cutting-plane method for solving convex programs", 1960; Lemaréchal, Nemirovskii, Nesterov, "New
    variants of bundle methods", 1995.) The curvature is that of G and, so far as it shows, of the constraints. Where
    `is_scaled` its first guess is raised in all directions to what the first step tells of one.
    """

    def __init__(self, center: Point, resolution: float, *, is_scaled: bool = True) -> None:
        d = len(center.z)
        self.error = 0.0
        self._resolution, self._most = resolution, REMEMBERED * d + 3
        self._points = [center]
        self._curvature, self._is_first = first_curvature(center), is_scaled

    def look_at(self, center: Point, lowest: float) -> None:
        """Be a model around this point."""
        self._center, self._lowest = center, lowest
        self._violation = violation(center.lower, lowest)
        d = len(center.z)
        normals, levels = np.empty((len(self._points), d)), np.empty(len(self._points))
        n = 0
        for point in self._points:
            c = violation(point.lower, lowest)
            if c > self._resolution:
                normals[n] = point.slope_lower / (2.0 * c)
                levels[n] = c + normals[n] @ (center.z - point.z)
                n += 1
        self._normals = normals[:n]
        self._levels = self._violation - np.abs(self._violation - levels[:n])
        if self._violation > self._resolution:  # of one constraint from two sides one holds
            cosines = self._normals @ center.slope_lower
            cosines /= np.linalg.norm(self._normals, axis=1) * np.linalg.norm(center.slope_lower) + 1e-300
            self._levels = np.where(cosines < -ALIKE, np.minimum(self._levels, -self._violation), self._levels)

    @property
    def steepest(self) -> float:
        """The largest slope of c."""
        return float(np.abs(self._normals).max(initial=0.0))

    def at(self, step: Floats) -> float:
        """The expected c."""
        return max(0.0, float((self._levels + self._normals @ step).max(initial=0.0)))

    def best_step(self, allowed: float, low: Floats, high: Floats) -> Step:
        """The step to the lowest G that is admitted."""
        slope, room = self._center.slope_upper, np.minimum(allowed - self._levels, 1e100)
        step, multipliers = minimise_with_constraints(slope, self._curvature, self._normals, room, low, high)
        change = quadratic_change(slope, self._curvature, step)
        return Step(step, change, self.at(step), float(multipliers.sum()))

    def learn(self, new: Point, multiplier: float, excess: float) -> None:
        """Take in another point."""
        old = self._center
        self._points = [*self._points, new][-self._most :]
        step, change = new.z - old.z, new.slope_upper - old.slope_upper
        if self._is_first:
            self._curvature, self._is_first = scaled(self._curvature, step, change), False
        before, after = self._violation, violation(new.lower, self._lowest)
        cosine = _cosine(old.slope_lower, new.slope_lower)
        if min(before, after) > self._resolution and abs(cosine) > ALIKE:
            change = change + multiplier * (
                np.sign(cosine) * new.slope_lower / (2.0 * after) - old.slope_lower / (2.0 * before)
            )
        else:
            change = change + 2.0 * multiplier * max(excess, 0.0) / (step @ step) * step
        self._curvature = damped_bfgs(self._curvature, step, change)

    def be_told(self, curvature_upper: Floats) -> None:
        """Take second derivatives of G for right."""
        self._is_first, self._curvature = False, convex(curvature_upper, self._points[-1])


class SecantModel:
    """``c^2 + lowest L`` is a quadratic function, and so is G.

    The curvature of L is what its gradients tell (symmetric rank-one updates), so far as it is positive. That is right
    where L is smooth, as it is with constraints that hold as equations.
    """

    def __init__(self, center: Point) -> None:
        d = len(center.z)
        self._center, self.error = center, 0.1
        self._set_curvature_lower(np.zeros((d, d)))
        self._curvature = first_curvature(center)
        self._is_first, self._weight = True, 0.0

    def _set_curvature_lower(self, curvature: Floats) -> None:
        eigenvalues, axes = np.linalg.eigh(curvature)
        self._curvature_lower, self._positive = curvature, (axes * np.maximum(eigenvalues, 0.0)) @ axes.T
        known = eigenvalues > KNOWN * max(eigenvalues[-1], 0.0)
        self._known = eigenvalues[known], axes[:, known]

    def look_at(self, center: Point, lowest: float) -> None:
        """Be a model around this point."""
        self._center, self._lowest = center, lowest

    def lower_by(self, center: Point, radius: float) -> float:
        """By how much L is expected to be lower around a point, along the axes whose curvature is known."""
        curvatures, axes = self._known
        slopes = np.abs(center.slope_lower @ axes)
        steps = np.minimum(slopes / curvatures, radius)
        return float((slopes * steps - 0.5 * curvatures * steps**2).sum())

    def _change(self, step: Floats) -> float:
        return quadratic_change(self._center.slope_lower, self._positive, step)

    def at(self, step: Floats) -> float:
        """The expected c."""
        return violation(self._center.lower + self._change(step), self._lowest)

    def best_step(self, allowed: float, low: Floats, high: Floats) -> Step:
        """The step to the lowest G that is admitted."""
        weight, step = self._weigh(self._lowest + allowed**2 - self._center.lower, low, high)
        change = quadratic_change(self._center.slope_upper, self._curvature, step)
        return Step(step, change, self.at(step), 2.0 * weight * self.at(step))

    def _weigh(self, room: float, low: Floats, high: Floats) -> tuple[float, Floats]:
        """The least weight of L beside G with which its change is at most `room`, and the step that has it."""

        def step_with(weight: float) -> Floats:
            slope = self._center.slope_upper + weight * self._center.slope_lower
            return minimise_in_box(slope, self._curvature + weight * self._positive, low, high)[0]

        step = step_with(0.0)
        if self._change(step) <= room:
            return 0.0, step
        step, lowest_change = minimise_in_box(self._center.slope_lower, self._positive, low, high)
        best = (0.0, step if room < 0.0 else np.zeros(len(step)))
        room, least, most = room if lowest_change <= room else PART * lowest_change, 0.0, np.inf
        steep = [float(np.linalg.norm(s)) for s in (self._center.slope_upper, self._center.slope_lower)]
        weight = min(self._weight or steep[0] / max(steep[1], 1e-300), HEAVIEST)
        for _ in range(40):
            if not weight <= HEAVIEST:
                break
            step = step_with(weight)
            change = self._change(step)
            if change <= room:
                most, best, self._weight = weight, (weight, step), weight
                if change >= room - 0.2 * (room - lowest_change) or most < 1.2 * least:
                    break
                weight = float(np.sqrt(least * most)) if least else weight / 8.0
            else:
                least = weight
                weight = float(np.sqrt(least * most)) if most < np.inf else 8.0 * weight
        return best

    def learn(self, new: Point, multiplier: float, excess: float) -> None:
        """Take in another point."""
        step = new.z - self._center.z
        change = new.slope_upper - self._center.slope_upper
        if self._is_first:
            self._curvature, self._is_first = scaled(self._curvature, step, change), False
        self._curvature = damped_bfgs(self._curvature, step, change)
        rest = new.slope_lower - self._center.slope_lower - self._curvature_lower @ step
        if abs(rest @ step) > 1e-4 * np.linalg.norm(rest) * np.linalg.norm(step):
            curvature = self._curvature_lower + np.outer(rest, rest) / (rest @ step)
            if np.isfinite(curvature).all():
                self._set_curvature_lower(curvature)

    def be_told(self, curvature_lower: Floats | None, curvature_upper: Floats) -> None:
        """Take second derivatives of L and G for right; of G their sizes, as it shall be convex; None: as learnt."""
        if curvature_lower is not None:
            if not curvature_lower.any():
                return
            self.error = 0.0
            self._set_curvature_lower(curvature_lower)
        self._is_first, self._curvature = False, convex(curvature_upper, self._center)


def convex(curvature: Floats, center: Point) -> Floats:
    """The sizes of curvatures of G, but those that are next to nothing."""
    eigenvalues, axes = np.linalg.eigh(curvature)
    least = SMALLEST_CURVATURE * _steepness(center)
    return (axes * np.maximum(np.abs(eigenvalues), least)) @ axes.T


def scaled(first: Floats, step: Floats, change: Floats) -> Floats:
    """A first guess of a curvature, raised to what is seen along a first step (Oren and Luenberger 1974)."""
    factor = float(step @ change) / max(float(step @ first @ step), 1e-300)
    return factor * first if 1.0 < factor < np.inf else first


def damped_bfgs(curvature: Floats, step: Floats, change: Floats) -> Floats:
    """A positive definite curvature with which the gradient changes as it did, or nearly (Powell 1978)."""
    expected = curvature @ step
    size, seen = float(step @ expected), float(step @ change)
    if seen < 0.2 * size:
        part = 0.8 * size / (size - seen)
        change = part * change + (1.0 - part) * expected
    with np.errstate(all="ignore"):
        new = curvature - np.outer(expected, expected) / size + np.outer(change, change) / float(step @ change)
        new += 1e-10 * float(np.trace(new)) * np.eye(len(step))
    return new if np.isfinite(new).all() else curvature  # where there is a jump


def first_curvature(center: Point) -> Floats:
    """A curvature of G before anything is known of it."""
    return FIRST_CURVATURE * _steepness(center) * np.eye(len(center.z))


def _steepness(center: Point) -> float:
    """The slope of G; 1 where it is flat, as curvatures in units of it must not be 0."""
    return float(np.linalg.norm(center.slope_upper)) or 1.0


def _cosine(a: Floats, b: Floats) -> float:
    return float(a @ b) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-300)
