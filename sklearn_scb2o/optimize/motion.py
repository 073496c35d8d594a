"""Moving a population: on NumPy block by block, in place, by several threads where it is large and they are asked for.

On CuPy a kernel does it in one pass; on other libraries it is done by the array functions, which give new arrays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..exceptions import SCB2OWarning
from ..particles import apply_boundary, euler_maruyama_step, fused
from ..particles.backend import Array, dtype_name, overflow_is_infinity, row_sum, row_total, scale_rows
from ..particles.dynamics import diffusion_size
from .blocks import Share, shares_of
from .box import Box, horizon
from .normals import fill_with_normals
from .streams import CHUNK, CupyStreams, NumpyStreams, Streams
from .threads import map_in_threads

Generators = Sequence[Sequence[np.random.Generator]]  # of each run, one for each `rows_per_stream` rows

_THREADED = 400_000  # numbers of a run from which on several threads move it, if of more than _NARROW coordinates
_NARROW = 4  # coordinates up to which their sums of squares take less time than squares and sums
_WIDE = 512  # coordinates from which on broadcasting along the particles costs nothing
_SMALL = 2048  # numbers up to which treating all takes no longer than picking some out
_FEW = 32  # numbers on which arithmetic is faster on Python floats than on an array


class Step(NamedTuple):
    """Parameters of a step, as `euler_maruyama_step` and `apply_boundary` take them."""

    lam: float
    sigma: float
    dt: float
    noise: str
    cap: float | None
    floor: float | None
    boundary: str


def move(
    y: Array, m: Array, streams: Streams, low: Array, high: Array, step: Step, xp: ModuleType, *,
    scale: Array | None = None, user: Array | None = None,
) -> tuple[Array, Moments]:  # fmt: skip
    """One Euler-Maruyama step of all particles of all runs.

    Parameters
    ----------
    y : array of shape (R, N, d)
        Positions; written to on NumPy.
    m : array of shape (R, d)
        Consensus points.
    streams : Streams
        Random streams.
    low, high : array of shape (d,), or with NumPy also as `block_rows` returns it
        Bounds.
    step : Step
        Parameters.
    scale, user : arrays, optional
        On NumPy, scales as `block_rows` returns them, and an array of shape (R, N, d) that takes the moved positions
        times these.

    Returns
    -------
    array of shape (R, N, d), Moments
        The moved particles, on NumPy `y` itself, and their moments about m.
    """
    if xp is np:
        assert isinstance(streams, NumpyStreams)
        return y, _move_in_place(y, m, streams, low, high, step, scale, user)
    lam, sigma, dt, noise, cap, floor, boundary = step
    if isinstance(streams, CupyStreams) and _has_kernels(dtype_name(y)):
        y = fused.move_particles(
            y, m, low, high, lam=lam, sigma=sigma, dt=dt, noise=noise, cap=cap, floor=floor, boundary=boundary,
            horizon=_horizon(low), seed=streams.seed, draw=streams.next_counter(),
        )  # fmt: skip
        return y, Moments(*fused.sum_moments(y, m))
    target = m[:, None, :]
    normals = streams.normals(tuple(y.shape))
    y = euler_maruyama_step(y, target, normals, lam=lam, sigma=sigma, dt=dt, noise=noise, cap=cap, floor=floor, xp=xp)
    y = _into_box(y, low, high, boundary, xp)
    return y, moments(y, target, xp)


@lru_cache(maxsize=2)
def _has_kernels(dtype: str) -> bool:
    """Whether the kernels for CuPy can be had; one warning where they cannot."""
    problem = fused.why_not(dtype)
    if problem is not None:
        warnings.warn(
            f"the kernels for CuPy do not compile, and slower array functions take their place: {problem:.500}",
            SCB2OWarning,
            stacklevel=5,
        )
    return problem is None


def _move_in_place(
    y: Array, m: Array, streams: NumpyStreams, low: Array, high: Array, step: Step, scale: Array, user: Array | None
) -> Moments:
    """`move` on NumPy; its second result."""
    target, n = m[:, None, :], y.shape[1]
    if low.ndim == 1:
        low, high = block_rows(low, n), block_rows(high, n)
    if y.size <= CHUNK:  # as below, without the planning
        z = _step_in_place(y, target.repeat(n, 1), streams.next_normals(y.shape), low[:, :n], high[:, :n], step)
        sums = _moments_in_place(z)
        if user is not None:
            np.multiply(y, scale[:, :n], out=user)
        return sums
    shares = shares_of(*y.shape)
    if len(y) == 1:
        target = _as_rows(target, shares[0][0].n)
    work = partial(
        _move_share, y=y, target=target, generators=streams.generators, low=low, high=high, step=step, scale=scale,
        user=user,
    )  # fmt: skip
    sums = Moments(np.zeros(m.shape, y.dtype), np.zeros(m.shape, y.dtype))
    is_threaded = y[0].size >= _THREADED and y.shape[2] > _NARROW
    # added in the order of the shares, so that rounding does not depend on the number of threads
    for share, parts in zip(shares, (map_in_threads if is_threaded else map)(work, shares), strict=True):
        for total, part in zip(sums, parts, strict=True):
            total[share[0].runs, :] += part
    return sums


def _move_share(
    share: Share, y: Array, target: Array, generators: Generators, low: Array, high: Array, step: Step, scale: Array,
    user: Array | None,
) -> Moments:  # fmt: skip
    """Move blocks of the same runs one after the other; the sum of their moments."""
    runs, d = share[0].runs, y.shape[2]
    points = target[runs, :, :]
    if len(y) > 1:
        points = _as_rows(points, share[0].n)  # the first block has the longest streams
    sums = Moments(*(np.zeros((len(points), d), y.dtype) for _ in range(2)))
    for _, rows, of_run, n in share:
        x = y[runs, rows, :].reshape(-1, n, d)
        normals = np.empty_like(x) if user is None else user[runs, rows, :].reshape(x.shape)
        fill_with_normals([rng for run in generators[runs] for rng in run[of_run]], normals.reshape(len(x), -1))
        z = _step_in_place(x, points[:, :n], normals, low[:, :n], high[:, :n], step)
        for total, part in zip(sums, _moments_in_place(z.reshape(len(points), -1, d)), strict=True):
            total += part
        if user is not None:  # while it is in the cache
            np.multiply(x, scale[:, :n], out=normals)
    return sums


def block_rows(x: Array, n: int, n_runs: int = 1) -> NDArray[Any]:
    """A vector of d numbers as rows, (1, n, d), for at most as many of n particles as are moved at a time.

    Operations on arrays of one shape take half the time of those that broadcast, and a third where d is small. Where d
    is large it makes no difference, and a single row is returned. Where all numbers are the same, that, (1, 1, 1),
    takes no longer for many particles, and leaves the cache to them.
    """
    if n_runs * n * x.size > _SMALL and (x == x[0]).all():
        return x[:1].reshape(1, 1, 1)
    return np.tile(x, (1, 1 if x.size >= _WIDE else min(n, CHUNK // x.size + 1), 1))


def _as_rows(m: Array, n: int) -> Array:
    """Points (R, 1, d) as rows for blocks of at most n particles: see `block_rows`."""
    return m if m.shape[2] >= _WIDE else m.repeat(n, 1)


def _step_in_place(x: Array, m: Array, normals: Array, low: Array, high: Array, step: Step) -> Array:
    """`euler_maruyama_step` and `apply_boundary`, to the bit, without temporaries; returns ``x - m``, in `normals`."""
    lam, sigma, dt, noise, cap, floor, boundary = step
    x -= m
    size, unit = diffusion_size(x, noise, cap, floor, np)
    size *= unit * sigma * dt**0.5
    scale_rows(normals, size)
    x *= 1.0 - lam * dt
    x += normals
    x += m
    _bring_back(x, low, high, boundary, normals)
    return np.subtract(x, m, out=normals)


def _moments_in_place(z: Array) -> Moments:
    """Moments of differences (R, n, d), which are overwritten."""
    first = _sum_of_particles(z)
    if z.shape[2] <= _NARROW:
        return Moments(first, np.vecdot(z, z, axis=1))  # type: ignore[call-overload]
    z *= z  # sums of products along the particles take many times longer than those of this
    return Moments(first, _sum_of_particles(z))


def _sum_of_particles(z: Array) -> Array:
    """Sums over the particles of each run, (R, d)."""
    ones = _ones(z.shape[1], z.dtype)
    if len(z) == 1 and z.size > CHUNK:  # part of a run: matmul would keep other threads waiting
        return np.dot(ones, z[0])
    return np.matmul(ones, z)[:, 0, :]


def _bring_back(x: Array, low: Array, high: Array, boundary: str, spare: Array) -> None:
    """`_into_box` in place; `spare` is overwritten."""
    if x.size <= _SMALL and boundary != "periodic":
        _fold(x, low, high, boundary, spare)
        return
    for part in x if x.size > CHUNK else x[None]:  # of streams one by one, so that this takes little memory
        outside = part < low
        outside |= part > high
        (index,) = outside.reshape(-1).nonzero()
        if len(index):
            d = x.shape[-1]
            lowest, highest = (end[0, 0, 0] if end.size == 1 else end[0, 0].take(index % d) for end in (low, high))
            some = part.take(index)
            if boundary == "periodic":
                some = _into_box(some, lowest, highest, boundary, np)
            else:
                _fold(some, lowest, highest, boundary, np.empty_like(some))
            part.put(index, some)


def _fold(x: Array, low: Array, high: Array, boundary: str, spare: Array) -> None:
    """`apply_boundary` in place, unless it is periodic; `spare` is overwritten."""
    np.maximum(x, low, out=spare)
    np.minimum(spare, high, out=spare)
    if boundary == "reflect":
        x -= spare
        spare -= x
        np.maximum(spare, low, out=spare)
        np.minimum(spare, high, out=spare)
    x[...] = spare


def _into_box(x: Array, low: Array, high: Array, boundary: str, xp: ModuleType) -> Array:
    """`apply_boundary` for bounds of a `Box`, finite but where none are meant."""
    if boundary == "periodic":
        x, boundary = apply_boundary(x, *_open_ends(low, high, xp), "periodic", xp=xp), "clip"
    return apply_boundary(x, low, high, boundary, xp=xp)


def _open_ends(low: Array, high: Array, xp: ModuleType) -> tuple[Array, Array]:
    """Bounds with infinities again where `Box` has put a horizon: a coordinate without an end has no period."""
    end = _horizon(low)
    return xp.where(low <= -end, -math.inf, low), xp.where(high >= end, math.inf, high)


def _horizon(x: Array) -> float:
    return float(horizon(np.dtype(dtype_name(x))))


class Moments(NamedTuple):
    """Sums over the particles of each run, (R, d), of differences to some center."""

    first: Array  #: of the differences
    second: Array  #: of their squares


def moments(y: Array, center: Array, xp: ModuleType) -> Moments:
    """`Moments` of positions (R, N, d) about a center that broadcasts to them."""
    z = y - center
    first = xp.matmul(xp.ones_like(z[:1, :, 0]), z)[:, 0, :]
    z *= z
    return Moments(first, xp.matmul(xp.ones_like(z[:1, :, 0]), z)[:, 0, :])


@lru_cache(maxsize=8)
def _ones(n: int, dtype: Any) -> NDArray[Any]:
    return np.ones((1, n), dtype)


@overflow_is_infinity
def mean_spread(sums: Moments, n: int, scale: Array, xp: ModuleType) -> Array:
    """Mean over coordinates of the standard deviation over n particles, (R,), from their `moments`.

    The paper's ``sigma(x) = (1/d) sum_j std_i(x_ij)``.
    """
    d = scale.shape[0]
    if xp is np and sums.first.size <= _FEW and len(sums.first) == 1 and scale.dtype == np.float64:
        return np.array([_spread_of_floats(sums.first[0].tolist(), sums.second[0].tolist(), scale.tolist(), n)])
    mean = sums.first / n
    variance = xp.maximum(sums.second / n - mean * mean, 0.0)
    total = row_total if d <= _FEW else row_sum
    return total(xp.sqrt(variance) * scale, xp)[:, 0] / d


def _spread_of_floats(first: list[float], second: list[float], scale: list[float], n: int) -> float:
    """The same to the bit for a single run, in a third of the time where there are few coordinates."""
    total = 0.0
    for a, b, c in zip(first, second, scale, strict=True):
        mean = a / n
        total += math.sqrt(max(b / n - mean * mean, 0.0)) * c
    return total / len(scale)


def first_population(box: Box, streams: Generators, n: int, start: Any) -> NDArray[Any]:
    """The first population in internal coordinates, (R, N, d): the points of `start`, the rest drawn by NumPy.

    `start` is None, (d,), (k, d) or (R, k, d), in internal coordinates.
    """
    y = np.empty((len(streams), n, box.d), dtype=box.scale.dtype)
    for r, (rng, *_) in enumerate(streams):
        if start is None:
            box.sample(rng, n, out=y[r])
            continue
        given = start[r] if start.ndim == 3 else start.reshape(-1, box.d)
        y[r, : len(given)] = given
        if len(given) < n:
            box.sample(rng, n - len(given), given.mean(axis=0), out=y[r, len(given) :])
    return y
