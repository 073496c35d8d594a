"""Slopes and second derivatives from values on both sides of a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .archive import Archive, Floats
from .violation import Point

#: L and G at points of shape (n, d) of the archive's coordinates.
Function = Callable[[Floats], tuple[Floats, Floats]]
#: In place of values that an evaluation did not give, or that are larger.
STAND_IN = 1e30


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


def two_sided(function: Function, archive: Archive, z: Floats, widths: float | Floats) -> TwoSided:
    """From values at distances `widths` on both sides; where the box ends soon, twice on the other, 2d + 1 in all."""
    down, up = archive.room(z, widths)
    steps = np.where(up < -0.5 * down, 0.5 * down, up), np.where(-down < 0.5 * up, 0.5 * up, down)
    values, known = known_values(function, np.vstack([z, *(z + np.diag(s) for s in steps)]))
    here, first, second = values[:, :1], *np.split(values[:, 1:], 2, axis=1)
    first, second = (first - here) / steps[0], (second - here) / steps[1]
    curvatures = 2.0 * (first - second) / (steps[0] - steps[1])
    slopes = first - 0.5 * curvatures * steps[0]
    point = Point(z.copy(), float(here[0, 0]), float(here[1, 0]), slopes[0], slopes[1])
    return TwoSided(point, curvatures[0], curvatures[1], steps[0], np.all(known, axis=1))
