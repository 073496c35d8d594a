"""The search box: bounds as users give them, the scale of each coordinate, the first population."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]

# Numbers that are drawn at a time.
_SAMPLED = 65536


def horizon(dtype: Any) -> Any:
    """Where unbounded internal coordinates end: the square of a norm over up to 1e10 of them stays finite."""
    return np.sqrt(np.finfo(dtype).max).astype(dtype) * np.dtype(dtype).type(1e-6)


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds and scale of d coordinates.

    Particles live in internal coordinates ``y = x / scale``. Scales are powers of two, so that both directions are
    exact: bounds hold to the last bit and a given start is asked as it was given. In internal coordinates boxes are
    about as wide in one direction as in another, which is what isotropic noise needs, and infinite bounds are
    replaced by a horizon so large that no norm below it overflows.
    """

    low: Floats  #: user units, shape (d,), -inf where there is no bound
    high: Floats
    scale: Floats  #: powers of two, shape (d,)

    @property
    def d(self) -> int:
        """Dimension."""
        return self.low.size

    @cached_property
    def is_exact(self) -> bool:
        """Whether ``bound / scale * scale`` is the bound itself; not so for bounds near the ends of the float range."""
        with np.errstate(over="ignore"):
            return all(np.array_equal(b / self.scale * self.scale, b) for b in (self.low, self.high))

    @cached_property
    def inner_low(self) -> Floats:
        """Lower bounds in internal coordinates, finite."""
        return self._inner[0]

    @cached_property
    def inner_high(self) -> Floats:
        """Upper bounds in internal coordinates, finite."""
        return self._inner[1]

    @cached_property
    def _inner(self) -> tuple[Floats, Floats]:
        end = horizon(self.scale.dtype)
        with np.errstate(over="ignore"):
            low, high = self.low / self.scale, self.high / self.scale
        # a single bound beyond the horizon is the only point
        return np.maximum(low, np.minimum(-end, high)), np.minimum(high, np.maximum(end, low))

    def sample(
        self, rng: np.random.Generator, n: int, center: Floats | None = None, out: Floats | None = None
    ) -> Floats:
        """Draw n points in internal coordinates, into `out` if it is given.

        Uniform between finite bounds; about `center` (internal; else the finite bound, else 0) with one scale as
        standard deviation where a bound is missing.
        """
        y = np.empty((n, self.d), self.scale.dtype) if out is None else out
        step = max(1, _SAMPLED // self.d)
        for i in range(0, n, step):
            part = y[i : i + step]
            u = rng.random(part.shape)
            normal = None if self.is_finite else rng.standard_normal(part.shape)
            part[...] = self.clamp_inner(self.points(u, normal, center, np.asarray, np).astype(y.dtype))
        return y

    @cached_property
    def is_finite(self) -> bool:
        """Whether all bounds are finite, in internal coordinates."""
        return bool((np.isfinite(self.low / self.scale) & np.isfinite(self.high / self.scale)).all())

    def points(self, u: Any, normal: Any, center: Any, array: Callable[[Any], Any], xp: ModuleType) -> Any:
        """`sample` from given uniform and normal numbers of any array library, whose arrays `array` makes."""
        low, high = self.low / self.scale, self.high / self.scale
        has_low, has_high = np.isfinite(low), np.isfinite(high)
        boxed = has_low & has_high
        y = array(np.where(boxed, low, 0.0)) * (1.0 - u) + array(np.where(boxed, high, 0.0)) * u
        if normal is None:
            return y
        if center is None:  # from a single bound, inwards only
            inward = np.where(has_low, 1.0, np.where(has_high, -1.0, 0.0)).astype(low.dtype)
            normal = xp.where(array(inward == 0.0), normal, array(inward) * xp.abs(normal))
            center = np.where(has_low, low, np.where(has_high, high, 0.0))
        return xp.where(array(boxed), y, array(center) + normal)

    def clamp_inner(self, y: Floats) -> Floats:
        """Move internal coordinates to the nearest point of the box."""
        return np.minimum(np.maximum(y, self.inner_low), self.inner_high)

    def check_points(self, points: Any, name: str) -> Floats:
        """Validate points of shape (..., d) inside the box and return them in internal coordinates."""
        x = np.asarray(points)
        if x.dtype == object or x.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be real numbers, got an array of dtype {x.dtype}")
        x = x.astype(self.scale.dtype)
        if x.shape[-1:] != (self.d,):
            raise ValueError(f"{name} has shape {x.shape}, but points have {self.d} coordinates: (..., {self.d})")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} holds values that are not finite; start points must be finite")
        outside = ((x < self.low) | (x > self.high)).reshape(-1, self.d)
        if outside.any():
            i, j = np.argwhere(outside)[0]
            value = x.reshape(-1, self.d)[i, j]
            raise ValueError(
                f"{name} lies outside the bounds in coordinate {j}: {value} is not in [{self.low[j]}, {self.high[j]}]; "
                "move it inside or widen the bounds"
            )
        return self.clamp_inner(x / self.scale)


def make_box(bounds: Any, x0: Floats | None, x_scale: Any, dtype: Any) -> Box:
    """Build the box from bounds in any of the accepted forms, or from the start alone.

    Parameters
    ----------
    bounds : None, list of d pairs, array of shape (d, 2), or scipy.optimize.Bounds
        None inside a pair means no bound, as -inf and +inf do.
    x0 : array of shape (..., d), optional
        Gives d where there are no bounds.
    x_scale : "auto", float or array of shape (d,)
        Width of each coordinate's search range, rounded to a power of two. "auto": the width of the box, and
        ``max(1, |x0|)`` where it is infinite.
    dtype : numpy dtype
        Floating type of the positions; bounds are rounded inwards to it.
    """
    if bounds is None:
        if x0 is None:
            raise ValueError(
                "bounds=None and x0=None: give bounds, a start x0, or both, so that the dimension is known"
            )
        d = x0.shape[-1]
        low, high = np.full(d, -np.inf), np.full(d, np.inf)
    elif hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = (np.atleast_1d(np.asarray(b, dtype=float)) for b in (bounds.lb, bounds.ub))
        d = max(low.size, high.size, 1 if x0 is None else x0.shape[-1])
        low, high = np.broadcast_to(low, (d,)), np.broadcast_to(high, (d,))
    else:
        low, high = _pairs(bounds)
        d = low.size
    if x0 is not None and x0.shape[-1] != d:
        raise ValueError(f"x0 has shape {x0.shape}, but the bounds are those of {d} coordinates: (..., {d})")
    if np.isnan(low).any() or np.isnan(high).any():
        raise ValueError("bounds hold NaN; use None, -inf or inf for no bound")
    bad = np.flatnonzero(low > high)
    if bad.size:
        j = bad[0]
        raise ValueError(
            f"bounds of coordinate {j} are reversed: low={low[j]} exceeds high={high[j]}; give (low, high)"
        )
    if (low == np.inf).any() or (high == -np.inf).any():
        raise ValueError("bounds leave no finite point: a low of +inf or a high of -inf")
    low, high = _round_inwards(low, high, np.dtype(dtype))
    return Box(low, high, _scales(low, high, x0, x_scale))


def _pairs(bounds: Any) -> tuple[Floats, Floats]:
    try:
        rows = [tuple(row) for row in bounds]
        pairs = np.asarray([[np.nan if v is None else float(v) for v in row] for row in rows])
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"bounds={bounds!r} is not a list of (low, high) pairs, an array of shape (d, 2) or a scipy.optimize.Bounds"
        ) from error
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.shape[0] == 0:
        hint = "; it looks transposed, pass bounds.T" if pairs.ndim == 2 and pairs.shape[0] == 2 else ""
        raise ValueError(f"bounds have shape {pairs.shape}, expected (d, 2), one (low, high) per coordinate{hint}")
    low = np.asarray([-np.inf if row[0] is None else float(row[0]) for row in rows])
    high = np.asarray([np.inf if row[1] is None else float(row[1]) for row in rows])
    return low, high


def _round_inwards(low: Floats, high: Floats, dtype: Any) -> tuple[Floats, Floats]:
    """Cast bounds so that no value of `dtype` inside the cast box is outside the given one."""
    with np.errstate(over="ignore"):
        lo, hi = low.astype(dtype), high.astype(dtype)
    lo = np.where(lo.astype(float) < low, np.nextafter(lo, dtype.type(np.inf)), lo)
    hi = np.where(hi.astype(float) > high, np.nextafter(hi, dtype.type(-np.inf)), hi)
    fixed = low == high  # a value that the type cannot represent: its nearest neighbour
    lo = np.where(fixed, low.astype(dtype), lo)
    return lo, np.where(fixed | (hi < lo), lo, hi)


def _scales(low: Floats, high: Floats, x0: Floats | None, x_scale: Any) -> Floats:
    d, dtype = low.size, low.dtype
    if isinstance(x_scale, str):
        if x_scale != "auto":
            raise ValueError(f"x_scale={x_scale!r} must be 'auto', a positive number or {d} of them")
        boxed = np.isfinite(low) & np.isfinite(high)
        # halves first: the width of the widest box overflows
        half = np.where(boxed, high, 0) / 2 - np.where(boxed, low, 0) / 2
        start = np.ones(d) if x0 is None else np.abs(x0).reshape(-1, d).max(axis=0)
        width = np.where(boxed, half, np.maximum(start, 1.0) / 2)
        exponent = np.log2(np.where(width > 0, width, 0.5)) + 1.0
    else:
        given = np.asarray(x_scale, dtype=float)
        if given.ndim > 1 or given.size not in (1, d) or not (np.isfinite(given) & (given > 0)).all():
            raise ValueError(f"x_scale={x_scale!r} must be 'auto', a positive number or {d} of them")
        exponent = np.log2(np.broadcast_to(given, (d,)))
    # a margin from the ends of the exponent range keeps scaled bounds exact
    info = np.finfo(dtype)
    exponent = np.clip(np.round(exponent), info.minexp + info.nmant, info.maxexp - 1)
    return np.ldexp(np.ones(d), exponent.astype(int)).astype(dtype)
