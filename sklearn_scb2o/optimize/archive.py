"""All points that were evaluated, with their values, in coordinates where the box has width 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

#: How many points say what a usual L is: about a first batch. Those of a swarm that has converged do not.
FIRST = 50

#: How far from a jump a search stays, in widths of the box.
MARGIN = 1e-5

#: Values that are not below are left out: products of them overflow.
TOO_LARGE = 1e100


class Jump(NamedTuple):
    """Where G jumps: where ``normal @ z`` passes a value, with a normal of length 1."""

    normal: Floats
    value: float

    @property
    def coordinate(self) -> int | None:
        """The coordinate on which it depends; None if on several."""
        some = np.flatnonzero(self.normal)
        return int(some[0]) if some.size == 1 else None

    def is_below(self, z: Floats) -> bool:
        """Whether a point of shape (d,) lies before it."""
        return bool(self.normal @ z <= self.value)


class Region(NamedTuple):
    """Where a search may go: the least and largest coordinates, shape (d,) each."""

    low: Floats
    high: Floats

    def clip(self, z: Floats) -> Floats:
        """The nearest points inside."""
        return np.clip(z, self.low, self.high)

    def steps_inside(self, z: Floats, step: float | Floats, n: int = 1) -> Floats:
        """Steps of differences at a point of shape (d,): the other way where `n` of them would lead outside."""
        end = z + n * step
        return np.where((end < self.low) | (end > self.high), -step, step)

    def room(self, z: Floats, radius: float | Floats) -> tuple[Floats, Floats]:
        """The steps from a point of shape (d,) that stay inside and within `radius`: their least and largest."""
        return np.maximum(-radius, self.low - z), np.minimum(radius, self.high - z)

    def beside(self, coordinate: int, value: float, below: bool) -> Region:
        """The part on one side of a value of a coordinate, up to a margin."""
        low, high = self.low.copy(), self.high.copy()
        if below:
            high[coordinate] = min(high[coordinate], value - MARGIN)
        else:
            low[coordinate] = max(low[coordinate], value + MARGIN)
        return Region(low, high)

    def with_point(self, z: Floats) -> Region:
        """The region, widened up to a point of shape (d,)."""
        return Region(np.minimum(self.low, z), np.maximum(self.high, z))


class Seen:
    """Points with their values, in order, as a run goes on: all, or batches until there are `FIRST` points."""

    def __init__(self, *, first_only: bool = False) -> None:
        self._batches: list[tuple[Floats, ...]] = []
        self._left: float = FIRST if first_only else np.inf

    def add(self, x: Floats, lower: Floats, upper: Floats) -> None:
        """Points of shape (n, d), L and G of shape (n,)."""
        if self._left <= 0:
            return
        self._left -= len(x)
        self._batches.append(tuple(np.array(a, dtype=float) for a in (x, lower, upper)))

    def arrays(self) -> tuple[Floats, ...]:
        """All of them: shapes (n, d), (n,) and (n,)."""
        return tuple(np.concatenate(parts) for parts in zip(*self._batches, strict=True))

    def state(self) -> dict[str, Floats]:
        """What `add` takes, for a checkpoint; empty where there is nothing."""
        return dict(zip(("x", "lower", "upper"), self.arrays(), strict=True)) if self._batches else {}


def can_be_used(lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Whether both values are finite, and not huge."""
    return (np.abs(lower) < TOO_LARGE) & (np.abs(upper) < TOO_LARGE)  # NaN is not


class Archive:
    """Points with both values, for searches that build on what is known.

    Coordinates are ``z = (x - origin) / widths`` of those that are free, in the order of x. Where the box is infinite
    the widths are those of the first points.

    Parameters
    ----------
    bounds : scipy.optimize.Bounds
        The box.
    x : array of shape (n, d)
        First points.
    lower, upper : array of shape (n,)
        L and G there; points where one of the two is not finite are left out.

    Attributes
    ----------
    region : Region
        The box in these coordinates.
    jumps : list of Jump
        Where G jumps, as far as searches found out.
    seeks_planes : bool
        Whether they look for jumps that depend on several coordinates: until one is no plane.
    n_failed : int
        How many points were left out as they failed: not those of a swarm that did not ask for G.
    """

    def __init__(self, bounds: Bounds, x: Floats, lower: Floats, upper: Floats) -> None:
        self.free = np.flatnonzero(bounds.lb < bounds.ub)
        self._fixed = np.array(x[0] if len(x) else bounds.lb, dtype=float)
        self._bounds = bounds
        lb, ub = bounds.lb[self.free], bounds.ub[self.free]
        first, last = (f(x[:, self.free], axis=0) for f in (np.min, np.max))
        finite = np.isfinite(lb) & np.isfinite(ub)
        with np.errstate(invalid="ignore"):
            spread = np.where(last > first, last - first, np.maximum(1.0, np.abs(first)))
            self.widths = np.where(finite, ub - lb, spread)
            self.origin = np.where(np.isfinite(lb), lb, first)
        self.region = Region((lb - self.origin) / self.widths, (ub - self.origin) / self.widths)
        self.jumps: list[Jump] = []
        self.seeks_planes = True
        self._n = self.n_failed = 0
        self._points = np.empty((0, self.free.size))
        self._values = np.empty((2, 0))
        self.add(self.scaled(x), lower, upper)
        # a G that is missing among the first points was not asked for: it mattered to nobody
        self.n_failed = int(np.count_nonzero(~can_be_used(lower, np.where(np.isnan(upper), 0.0, upper))))

    @property
    def d(self) -> int:
        """Number of free coordinates."""
        return int(self.free.size)

    @property
    def z(self) -> Floats:
        """Points, shape (n, d)."""
        return self._points[: self._n]

    @property
    def lower(self) -> Floats:
        """L, shape (n,)."""
        return self._values[0, : self._n]

    @property
    def upper(self) -> Floats:
        """G, shape (n,)."""
        return self._values[1, : self._n]

    @property
    def usual_excess(self) -> float:
        """By how much L exceeds its lowest at a usual one of the first points."""
        return float(np.quantile(self.lower[:FIRST], 0.9) - self.lower.min())

    @property
    def resolution(self) -> float:
        """By how much coordinates of points in the box may be rounded, if it is finite."""
        ends = np.maximum(np.abs(self.origin), np.abs(self.origin + self.widths))
        return float(np.finfo(float).eps * (ends / self.widths).max(initial=0.0))

    @property
    def has_plateau(self) -> bool:
        """Whether L is equal at its lowest points, so many that it is flat there, as inside of constraints."""
        return int(np.count_nonzero(self.lower == self.lower.min())) > self.d

    def scaled(self, x: Floats) -> Floats:
        """Points of shape (n, all coordinates) in the coordinates of the archive."""
        return (np.asarray(x, dtype=float)[:, self.free] - self.origin) / self.widths

    def unscaled(self, z: Floats) -> Floats:
        """The points of the box that belong to points of shape (n, d)."""
        x = np.tile(self._fixed, (len(z), 1))
        x[:, self.free] = self.origin + z * self.widths
        return np.clip(x, self._bounds.lb, self._bounds.ub)

    def add(self, z: Floats, lower: Floats, upper: Floats) -> None:
        """Take in evaluated points, but those whose values are not finite, or huge."""
        good = np.flatnonzero(can_be_used(lower, upper))
        self.n_failed += len(z) - good.size
        n = self._n + good.size
        if n > len(self._points):
            room = 2 * n + 100
            points, values = np.empty((room, self.d)), np.empty((2, room))
            points[: self._n], values[:, : self._n] = self.z, self._values[:, : self._n]
            self._points, self._values = points, values
        self._points[self._n : n] = z[good]
        self._values[:, self._n : n] = lower[good], upper[good]
        self._n = n

    def apart(self, most: int, distance: float, since: int = 0, taken: Sequence[Floats] = ()) -> list[Floats]:
        """Good points that differ by `distance` in a coordinate: of the tenth with the lowest L, in the order of G.

        Parameters
        ----------
        most : int
            How many at most.
        distance : float
            In widths of the box.
        since : int
            Index of the first point that may be one.
        taken : sequence of arrays of shape (d,)
            Points from which they shall differ as well.
        """
        order = since + np.argsort(self.lower[since:], kind="stable")[: max(1, (self._n - since) // 10)]
        chosen: list[Floats] = []
        for i in order[np.argsort(self.upper[order], kind="stable")]:
            if all(np.abs(self.z[i] - other).max() >= distance for other in (*taken, *chosen)):
                chosen.append(self.z[i].copy())
                if len(chosen) == most:
                    break
        return chosen
