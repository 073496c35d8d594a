"""Jumps of G where a linear function passes a value, as of costs with fees: a search has to stay on its side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .archive import MARGIN, Archive, Floats, Jump, Region
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
#: Where it depends on several, with so many variables at most: how far aside the line is crossed by others, how exactly
#: it is known where, and over which distance the jump is to be where these tell.
PLANES, ASIDE, EXACT, FLAT = 12, 0.01, 1e-8, 0.1
#: Which of points of shape (n, d) lie beyond a jump.
IsBeyond = Callable[[Floats], NDArray[np.bool_]]


def on_one_side(
    function: Function, region: Region, sides: Sequence[tuple[Jump, bool]], usual_excess: float
) -> tuple[Function, Region]:
    """What a search evaluates, and where, that shall stay on one side of some jumps.

    The region ends at those that depend on one coordinate. Beyond the others the function is that of the nearest point
    on this side, but L is higher, as by one more constraint.

    Parameters
    ----------
    function : callable
        L and G at points of shape (n, d).
    region : Region
        Where points may lie.
    sides : sequence of (Jump, bool)
        The jumps, and whether the search stays below them.
    usual_excess : float
        By how much L exceeds its lowest at a usual point.
    """
    oblique = [(jump, below) for jump, below in sides if jump.coordinate is None]
    for jump, below in sides:
        if jump.coordinate is not None:
            region = region.beside(jump.coordinate, jump.value, below)
    return OneSide(function, region, oblique, usual_excess) if oblique else function, region


class OneSide:
    """L and G on one side of jumps; beyond, those of the nearest point of this side.

    There L is higher by the square of the distance, in widths of the box, times its usual excess. Parameters are those
    of `on_one_side`.
    """

    def __init__(
        self, function: Function, region: Region, sides: Sequence[tuple[Jump, bool]], usual_excess: float
    ) -> None:
        self._function, self._region, self._weight = function, region, usual_excess
        self._ends = [
            (jump.normal, jump.value - MARGIN) if below else (-jump.normal, -jump.value - MARGIN)
            for jump, below in sides
        ]  # fmt: skip

    def __call__(self, z: Floats) -> tuple[Floats, Floats]:
        """L and G at points of shape (n, d)."""
        squares = np.zeros(len(z))
        for normal, end in self._ends:
            excess = np.maximum(z @ normal - end, 0.0)
            z, squares = z - excess[:, None] * normal, squares + excess**2
        lower, upper = self._function(self._region.clip(z))
        return lower + self._weight * squares, upper


def meets_jump(near: Point, far: Point) -> bool:
    """Whether G is likely to jump between two points."""
    step, change = far.z - near.z, far.upper - near.upper
    rest = abs(change - 0.5 * float((near.slope_upper + far.slope_upper) @ step))
    curved = abs(0.5 * float((far.slope_upper - near.slope_upper) @ step))
    return rest > UNEXPLAINED * abs(change) and CURVED * rest > curved


def find_jump(function: Function, archive: Archive, region: Region, near: Point, far: Point) -> Jump | None:
    """Where G jumps between two points.

    The jump is found by halving the line from `near` to `far`; then points a little further in one coordinate each tell
    whether it depends on one of them, and two that differ in all others that it is that one alone: about 30 + d
    evaluations, fewer where there is no jump. Otherwise it may be a plane, through the points where d - 1 other lines
    cross it, which takes about 25 more for each, and 8 that tell whether it is one.

    Parameters
    ----------
    function : callable
        L and G at points of shape (n, d).
    archive : Archive
        Tells whether to seek planes, and is told not to where one is curved, as others may be then.
    region : Region
        Where points may lie.
    near, far : Point
        Ends of a step.

    Returns
    -------
    Jump or None
        None if there is no such jump, or one of another form.
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
    if len(found) == 1:
        i = int(found[0])
        aside = FAR * np.linspace(0.5, 1.0, len(step))
        aside[i] = 0.0
        if np.all(np.abs(rise(region.clip(np.stack([before + aside, before - aside]))) - low) <= 0.5):
            return Jump(np.eye(len(step))[i], float(before[i]))
    if not archive.seeks_planes or len(step) > PLANES:
        return None
    along = step / np.linalg.norm(step)
    axes = np.linalg.svd(along[None])[2][1:]  # orthogonal to the line
    plane = _find_plane(lambda z: rise(z) - low > 0.5, region, before, along, axes)
    if plane is None:
        return None
    archive.seeks_planes = _is_flat(rise, region, plane, before, axes)
    return plane if archive.seeks_planes else None


def _find_plane(is_beyond: IsBeyond, region: Region, before: Floats, along: Floats, axes: Floats) -> Jump | None:
    """The jump that a line crosses at a point, from where lines beside it do; None where one does not."""
    normal = along.copy()
    for axis in axes:
        crossings = (_crossing(is_beyond, region, before + side * axis, along) for side in (ASIDE, -ASIDE))
        crossing = next(crossings)
        if crossing is not None:
            normal -= crossing / ASIDE * axis
        elif (crossing := next(crossings)) is not None:
            normal += crossing / ASIDE * axis
        else:
            return None
    normal /= np.linalg.norm(normal)
    return Jump(normal, float(normal @ before))


def _is_flat(rise: Callable[[Floats], Floats], region: Region, plane: Jump, before: Floats, axes: Floats) -> bool:
    """Whether the jump is where a plane says at four points of it that are far aside."""
    uneven = axes.T @ np.stack([np.ones(len(axes)), (-1.0) ** np.arange(len(axes))], axis=1)
    aside = region.clip(before + FLAT * np.vstack([uneven.T, -uneven.T]))
    aside -= (aside @ plane.normal - plane.value)[:, None] * plane.normal
    across = 2.0 * MARGIN * plane.normal
    return bool(np.all(rise(region.clip(aside + across)) - rise(region.clip(aside - across)) > 0.5))


def _crossing(is_beyond: IsBeyond, region: Region, base: Floats, along: Floats) -> float | None:
    """How far from a point along a line the jump is; None if it is not met in the region."""
    reach = 0.5 * ASIDE
    for _ in range(6):
        ends = np.stack([base - reach * along, base + reach * along])
        if np.any(ends != region.clip(ends)):
            return None
        if np.all(is_beyond(ends) == [False, True]):
            break
        reach *= 3.0
    else:
        return None
    begin, end = -reach, reach
    while end - begin > EXACT:
        middle = 0.5 * (begin + end)
        if is_beyond((base + middle * along)[None])[0]:
            end = middle
        else:
            begin = middle
    return 0.5 * (begin + end)
