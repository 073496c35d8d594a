"""Jumps of G where one coordinate passes a value, as of costs with fees: a search has to stay on its side."""

from __future__ import annotations

import numpy as np

from .archive import Floats, Jump, Region
from .differences import Function, known_values
from .violation import Point

#: A step met a jump if the slopes at its ends leave more than this part of the change of G unexplained, and their own
#: change is less than a part of what they leave.
UNEXPLAINED, CURVED = 0.05, 0.5
#: It is a jump if ever shorter parts of the step have at least this part of the change.
KEPT = 0.7
#: How near to each other two points on both sides are, and over which distance the jump is to depend on one coordinate,
#: in widths of the box.
NEAR, FAR = 1e-9, 1e-4


def meets_jump(near: Point, far: Point) -> bool:
    """Whether G is likely to jump between two points."""
    step, change = far.z - near.z, far.upper - near.upper
    rest = abs(change - 0.5 * float((near.slope_upper + far.slope_upper) @ step))
    curved = abs(0.5 * float((far.slope_upper - near.slope_upper) @ step))
    return rest > UNEXPLAINED * abs(change) and CURVED * rest > curved


def find_jump(function: Function, region: Region, near: Point, far: Point) -> Jump | None:
    """Where G jumps between two points, if it does so where one coordinate passes a value.

    The jump is found by halving the line from `near` to `far`; then points a little further in one coordinate each tell
    which one it is, and two that differ in all others that it is that one alone. About 30 + d evaluations, fewer where
    there is no jump.

    Parameters
    ----------
    function : callable
        L and G at points of shape (n, d).
    region : Region
        Where points may lie.
    near, far : Point
        Ends of a step.

    Returns
    -------
    Jump or None
        None if there is no such jump.
    """
    step, slope = far.z - near.z, near.slope_upper

    def rise(z: Floats) -> Floats:
        """Which part of the jump has happened at points of shape (n, d)."""
        return (known_values(function, z)[0][1] - near.upper - (z - near.z) @ slope) / size

    begin, end, low, high = 0.0, 1.0, 0.0, 1.0
    size = far.upper - near.upper - float(step @ slope)
    while (end - begin) * np.abs(step).max() > NEAR:
        middle = 0.5 * (begin + end)
        here = float(rise((near.z + middle * step)[None])[0])
        if here - low > high - here:
            end, high = middle, here
        else:
            begin, low = middle, here
        if high - low < KEPT:
            return None
    before, beyond = near.z + begin * step, 2.0 * (end - begin) * step
    found = np.flatnonzero(rise(before + np.diag(beyond)) - low > 0.5)
    if len(found) != 1:
        return None
    i = int(found[0])
    aside = FAR * np.linspace(0.5, 1.0, len(step))
    aside[i] = 0.0
    if np.any(np.abs(rise(region.clip(np.stack([before + aside, before - aside]))) - low) > 0.5):
        return None
    return Jump(i, float(before[i]))
