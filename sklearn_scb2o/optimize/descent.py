"""A local search by finite differences, for smooth objectives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import Bounds, OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from .archive import Archive, Floats
from .violation import CuttingPlanes, Point, SecantModel, ViolationModel, violation

#: L and G at points of shape (n, d) of the archive's coordinates.
Function = Callable[[Floats], tuple[Floats, Floats]]

#: Violation sqrt(L - lowest L) of the answer, in units of that of a usual point, or of the root of a given tolerance.
FINAL, INSIDE = 5e-8, 0.6
#: A descent of L ends where it gains less in an iteration: the square of this part of the violation of the answer, or
#: this part of all that it gained.
UNIT, ENOUGH = 0.3, 1e-6
#: The violation allowed at first, as part of that of the first point that has one, and by which factor it then falls.
FIRST_PART, STRICTER = 0.1, 0.1
#: A violation is reached when exceeded by these factors, in between and at last.
NEARLY, REACHED = 2.0, 1.3
#: What a better point within the violation allowed may be worth, in units of what all of the violation is worth: in
#: between, at last, and at last where no tolerance is given.
BETWEEN, ROUGHLY, PRECISELY = 0.3, 0.1, 1e-6
#: Radius of the first region, in widths of the box, the largest, and that which ends a search.
RADIUS, LARGEST, SMALLEST = 0.1, 0.5, 1e-8
#: Added to the error of a model that knows of no step.
STUCK = 1e3
#: Factors of the radius after success, after a failure that told of a constraint, and after others.
GROWTH, INFORMED, FAILED = 2.0, 0.7, 0.5
#: Steps of the differences, in widths of the box, and as part of the distance that the violation allowed makes.
LARGEST_STEP, SMALLEST_STEP, PART_STEP = 1e-7, 1e-9, 0.02
#: In place of values that an evaluation did not give, or that are larger.
HUGE = 1e30


class _Differences:
    """L and G with their gradients by forward differences; backward where the box ends."""

    def __init__(self, function: Function, high: Floats) -> None:
        self._function, self._high = function, high
        self.step = LARGEST_STEP
        self._last: Point | None = None

    def at(self, z: Floats) -> Point:
        """Values and gradients at a point of shape (d,), d + 1 evaluations in one call unless it was the last one."""
        if self._last is None or not np.array_equal(z, self._last.z):
            steps = np.where(z + self.step > self._high, -self.step, self.step)
            L, G = self._function(np.vstack([z, z + np.diag(steps)]))
            values = np.array([L, G])
            known = np.abs(values) < HUGE  # NaN is not
            values = np.where(known, values, HUGE)
            slopes = np.where(known[:, 1:] & known[:, :1], (values[:, 1:] - values[:, :1]) / steps, 0.0)
            self._last = Point(z.copy(), float(values[0, 0]), float(values[1, 0]), slopes[0], slopes[1])
        return self._last


class _Stagnation:
    """Ends a descent that gains less than 1 in an iteration, or a small part of what it gained in all."""

    def __init__(self, first: float) -> None:
        self._first = self._last = first

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        value = float(intermediate_result.fun)
        if self._last - value <= max(1.0, 1e-8 * abs(value), ENOUGH * (self._first - value)):
            raise StopIteration
        self._last = value


def descend(
    function: Function, archive: Archive, start: Floats, lower_tol: float,
    rival: tuple[float, float] = (np.inf, np.inf),
) -> None:  # fmt: skip
    """Minimise L, then G while L is nearly as low, with tolerances that become smaller.

    First L-BFGS-B on L. Then steps in a region around the best point, each to the lowest G that a model of the
    violation ``c = sqrt(L - lowest L)`` admits: of linearisations at many points (`CuttingPlanes`) and a quadratic
    model of L (`SecantModel`), that which predicted better so far. A step is taken where ``G + pi max(c - v, 0)`` falls
    as expected; whatever comes, the models learn from it. When G is as low as it gets with violation v, v becomes
    smaller.

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points; the lowest L is that of all.
    start : array of shape (d,)
        Where to begin.
    lower_tol : float
        L may exceed its minimum by this; 0: it shall be as low as can be told.
    rival : pair of floats
        L and G of another point: the search ends where it will not do better.
    """
    rounding = float(np.finfo(float).eps * np.abs(archive.lower).max())
    usual = np.sqrt(max(archive.usual_excess, rounding, 1e-300))
    final = INSIDE * lower_tol**0.5 if lower_tol else max(FINAL * usual, 10.0 * rounding**0.5)
    differences = _Differences(function, archive.high)
    z = _minimise_lower(differences, archive, start, (UNIT * final) ** 2)
    enough = ROUGHLY if lower_tol else PRECISELY
    _minimise_upper(differences, archive, differences.at(z), final, enough, rival)


def _minimise_lower(differences: _Differences, archive: Archive, start: Floats, unit: float) -> Floats:
    """The end of L-BFGS-B on L, which is wanted up to about `unit`."""
    first = differences.at(start).lower / unit
    found = scipy_minimize(
        lambda z: differences.at(z).lower / unit, start, jac=lambda z: differences.at(z).slope_lower / unit,
        method="L-BFGS-B", bounds=Bounds(archive.low, archive.high), callback=_Stagnation(first),
        options={"ftol": 0.0, "gtol": 1e-6},
    )  # fmt: skip
    return np.clip(found.x, archive.low, archive.high)


def _minimise_upper(
    differences: _Differences, archive: Archive, center: Point, final: float, enough: float,
    rival: tuple[float, float],
) -> None:  # fmt: skip
    """G from a point of low L, with a violation of about `final`."""
    planes = CuttingPlanes(center, 0.1 * final)
    models: list[ViolationModel] = [planes, SecantModel(center)]
    allowed, radius = np.inf, RADIUS
    while True:
        lowest = float(archive.lower.min())
        for model in models:
            model.look_at(center, lowest)
        if allowed < np.inf and planes.steepest > 0.0:
            differences.step = float(np.clip(PART_STEP * allowed / planes.steepest, SMALLEST_STEP, LARGEST_STEP))
        low, high = np.maximum(-radius, archive.low - center.z), np.minimum(radius, archive.high - center.z)
        model = min(models, key=lambda model: model.error)
        step, change, expected, multiplier = model.best_step(allowed, low, high)
        size, now = float(np.abs(step).max()), violation(center.lower, lowest)
        if allowed == np.inf:
            multiplier = 0.0
        gain = max(now - allowed, 0.0) - max(expected - allowed, 0.0)  # of violation
        weight = max(2.0 * multiplier, change / (0.5 * gain) if gain > 0.0 else 0.0)  # pi
        promised = weight * gain - change

        last = allowed <= final
        worth = multiplier * allowed if allowed < np.inf else 0.0
        done = now <= (REACHED if last else NEARLY) * allowed and -change <= (enough if last else BETWEEN) * worth
        stuck = min(size, radius) < SMALLEST or promised <= 1e-10 * np.linalg.norm(center.slope_upper)
        if stuck and not done and model.error < STUCK:
            model.error += STUCK  # the other one is asked
            continue
        if done or stuck:
            behind = center.upper >= rival[1] and now <= NEARLY * allowed < np.inf
            if behind and violation(rival[0], lowest) <= NEARLY * final:
                return
            if last:
                _minimise_lower(differences, archive, center.z, (UNIT * final) ** 2)
                if violation(lowest, float(archive.lower.min())) <= 0.5 * final:
                    return
                now = violation(center.lower, float(archive.lower.min()))
            allowed = max(STRICTER * min(allowed, 10.0 * now), final) if allowed < np.inf else final
            radius = max(radius, 10.0 * size, 1e-3)
            continue

        new = differences.at(np.clip(center.z + step, archive.low, archive.high))
        if max(new.lower, abs(new.upper)) >= HUGE:
            radius = FAILED * size
            continue
        after = violation(new.lower, lowest)
        for model in models:
            wrong = abs(model.at(step) - after) / (after + (allowed if allowed < np.inf else final))
            model.error = 0.5 * (model.error + wrong)
        if allowed == np.inf and after > final:
            allowed = max(FIRST_PART * after, final)
        weight = max(weight, 0.1 * promised / allowed)
        reached = center.upper - new.upper + weight * (max(now - allowed, 0.0) - max(after - allowed, 0.0))
        for model in models:
            model.learn(new, multiplier, after - max(expected, allowed))
        if reached >= 0.1 * promised:
            center = new
            if reached > 0.7 * promised and size > 0.9 * radius:
                radius = min(GROWTH * radius, LARGEST)
        else:
            told = after > 0.0 and after - new.slope_lower @ (new.z - center.z) / (2.0 * after) <= now
            radius = (INFORMED if told else FAILED) * min(radius, size)
