"""Slopes and second derivatives from differences of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .archive import Floats, Region
from .violation import Point

#: L and G at points of shape (n, d) of the archive's coordinates.
Function = Callable[[Floats], tuple[Floats, Floats]]
#: In place of values that an evaluation did not give, or that are larger.
STAND_IN = 1e30
#: Steps of forward differences, in widths of the box, and as part of a distance that is given.
LARGEST_STEP, SMALLEST_STEP, PART_STEP = 1e-7, 1e-11, 0.002
#: The least step in units of the rounding of coordinates.
EXACT = 1e3
#: Steps of central differences, and of second ones.
CENTRAL_STEP, LONG_STEP = 1e-8, 1e-4


class TwoSided(NamedTuple):
    """Values and slopes, second derivatives in the single coordinates, and the steps to one side: shape (d,) each."""

    point: Point
    curvature_lower: Floats
    curvature_upper: Floats
    steps: Floats
    known: NDArray[np.bool_]  #: whether all values of L were known, and of G


def known_values(function: Function, z: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """L and G at points of shape (n, d), shape (2, n), with stand-ins; and where they are known."""
    values = np.array(function(z))
    known = np.abs(values) < STAND_IN  # NaN is not
    return np.where(known, values, STAND_IN), known


def two_sided(function: Function, region: Region, z: Floats, widths: float | Floats) -> TwoSided:
    """From values at distances `widths` on both sides; where the box ends soon, twice on the other, 2d + 1 in all."""
    down, up = region.room(z, widths)
    steps = np.where(up < -0.5 * down, 0.5 * down, up), np.where(-down < 0.5 * up, 0.5 * up, down)
    values, known = known_values(function, np.vstack([z, *(z + np.diag(s) for s in steps)]))
    here, first, second = values[:, :1], *np.split(values[:, 1:], 2, axis=1)
    first, second = (first - here) / steps[0], (second - here) / steps[1]
    curvatures = 2.0 * (first - second) / (steps[0] - steps[1])
    slopes = first - 0.5 * curvatures * steps[0]
    point = Point(z.copy(), float(here[0, 0]), float(here[1, 0]), slopes[0], slopes[1])
    return TwoSided(point, curvatures[0], curvatures[1], steps[0], np.all(known, axis=1))


class ForwardDifferences:
    """L and G with their gradients by forward differences; backward where the box ends.

    Parameters
    ----------
    function : callable
        Evaluates L and G.
    region : Region
        Where.
    resolution : float
        By how much coordinates may be rounded.
    """

    def __init__(self, function: Function, region: Region, resolution: float = 0.0) -> None:
        self.function, self.region = function, region
        self._smallest = float(np.clip(EXACT * resolution, SMALLEST_STEP, LARGEST_STEP))
        self.step = LARGEST_STEP
        self._last: Point | None = None

    def at(self, z: Floats) -> Point:
        """Values and gradients at a point of shape (d,), evaluated in one call unless it was the last one."""
        if self._last is None or not np.array_equal(z, self._last.z):
            self._last = self._measured(z)
        return self._last

    def go_on_with(self, function: Function) -> None:
        """Evaluate this from now on."""
        self.function, self._last = function, None

    def _measured(self, z: Floats) -> Point:
        """From d + 1 evaluations."""
        steps = self.region.steps_inside(z, self.step)
        values, known = known_values(self.function, np.vstack([z, z + np.diag(steps)]))
        slopes = np.where(known[:, 1:] & known[:, :1], (values[:, 1:] - values[:, :1]) / steps, 0.0)
        return Point(z.copy(), float(values[0, 0]), float(values[1, 0]), slopes[0], slopes[1])

    def look_close(self, distance: float, rounding: float) -> None:
        """Take steps that are short beside a distance, but not beside one at which rounding shows."""
        self.step = float(np.clip(max(PART_STEP * distance, rounding), self._smallest, LARGEST_STEP))

    def curvatures(self, point: Point) -> tuple[Floats, Floats]:
        """Second derivatives of L and G by forward differences, shape (d, d) each; d (d + 1) / 2 evaluations."""
        z, (i, j) = point.z, np.triu_indices(len(point.z), 1)
        steps = self.region.steps_inside(z, LONG_STEP, 2)
        ahead = np.diag(steps)
        values = self.function(np.vstack([z + ahead, z + ahead[i] + ahead[j]]))
        return (
            _second_differences(values[0], point.lower, point.slope_lower, steps),
            _second_differences(values[1], point.upper, point.slope_upper, steps),
        )


class CentralDifferences(ForwardDifferences):
    """The same by differences over both sides, or twice over one where the box ends; 2 d + 1 evaluations.

    They are so exact that the gradient of ``sqrt(L - lowest L)`` is right to some digits even where that is 1e-9 of the
    usual one.
    """

    def _measured(self, z: Floats) -> Point:
        found = two_sided(self.function, self.region, z, CENTRAL_STEP)
        lower, upper = (np.where(known, slope, 0.0) for known, slope in zip(found.known, found.point[3:], strict=True))
        return found.point._replace(slope_lower=lower, slope_upper=upper)


def _second_differences(values: Floats, here: float, slope: Floats, steps: Floats) -> Floats:
    """From the values after each step, then after each two of them; 0 where one is missing, and what is rounding."""
    d = len(slope)
    (i, j), single, double = np.triu_indices(d, 1), values[:d], values[d:]
    with np.errstate(invalid="ignore"):  # inf - inf
        change = np.diag(2.0 * (single - here - slope * steps))
        change[i, j] = change[j, i] = double - single[i] - single[j] + here
    known = (np.abs(change) < STAND_IN) & (np.abs(change) > 1e-12 * abs(here))
    return np.where(known, change, 0.0) / np.outer(steps, steps)
