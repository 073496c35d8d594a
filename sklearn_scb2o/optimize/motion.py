"""Moving a population: on NumPy block by block, in place, with several threads where there is enough to do.

On CuPy a kernel does it in one pass; on other libraries it is done by the array functions, which give new arrays.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from ..exceptions import SCB2OWarning
from ..particles import apply_boundary, euler_maruyama_step, fused
from ..particles.backend import Array, dtype_name, overflow_is_infinity, row_sum, row_total, scale_rows
from ..particles.dynamics import diffusion_size
from .box import Box, horizon
from .streams import CupyStreams, Streams, draw_normals, rows_per_stream

Generators = Sequence[Sequence[np.random.Generator]]  # of each run, one for each `rows_per_stream` rows

_BLOCK = 16384  # numbers moved at a time; a few arrays of this size stay in the cache
_WIDE = 512  # coordinates from which on broadcasting along the particles costs nothing
_THREADED = 262144  # numbers from which on several threads move them
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


class Block(NamedTuple):
    """A piece of a population: whole runs, or rows of one run, and the stream that it draws from."""

    runs: slice
    rows: slice
    stream: int


def move(
    y: Array, m: Array, streams: Streams, low: Array, high: Array, step: Step, xp: ModuleType
) -> tuple[Array, Moments]:
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

    Returns
    -------
    array of shape (R, N, d), Moments
        The moved particles, on NumPy `y` itself, and their moments about m.
    """
    if xp is np:
        return y, _move_in_place(y, m, streams.generators, low, high, step)  # type: ignore[attr-defined]
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
    if boundary == "periodic":
        y, boundary = apply_boundary(y, *_open_ends(low, high, xp), "periodic", xp=xp), "clip"
    y = apply_boundary(y, low, high, boundary, xp=xp)
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


def _move_in_place(y: Array, m: Array, streams: Generators, low: Array, high: Array, step: Step) -> Moments:
    """`move` on NumPy; its second result."""
    target = m[:, None, :]
    if low.ndim == 1:
        low, high = block_rows(low, y.shape[1]), block_rows(high, y.shape[1])
    if y.size <= _BLOCK:
        return _move_at_once(y, target, streams, low, high, step)
    blocks = _blocks(*y.shape)
    threads = min(_n_threads(), len(blocks)) if y.size >= _THREADED else 1
    shares = [blocks[len(blocks) * i // threads : len(blocks) * (i + 1) // threads] for i in range(threads)]
    others = [
        _pool(threads - 1).submit(list, _move_blocks(share, y, target, streams, low, high, step))
        for share in shares[1:]
    ]
    # in the order of the blocks, so that rounding does not depend on the number of threads
    sums = Moments(np.zeros(m.shape, y.dtype), np.zeros(m.shape, y.dtype))
    own = _move_blocks(shares[0], y, target, streams, low, high, step)
    for block, part in zip(blocks, chain(own, chain.from_iterable(other.result() for other in others)), strict=True):
        for total, more in zip(sums, part, strict=True):
            total[block.runs, :] += more
    return sums


def block_rows(x: Array, n: int) -> NDArray[Any]:
    """A vector of d numbers as rows, (1, n, d), for at most as many of n particles as are moved at a time.

    Operations on arrays of one shape take half the time of those that broadcast, and a third where d is small. Where d
    is large it makes no difference, and a single row is returned.
    """
    return np.tile(x, (1, 1 if x.size >= _WIDE else min(n, _BLOCK // x.size + 1), 1))


def _move_at_once(y: Array, target: Array, streams: Generators, low: Array, high: Array, step: Step) -> Moments:
    """Move a population that fits one block: the same as `_move_blocks`, without the planning."""
    if len(streams) == 1:
        normals = streams[0][0].standard_normal(y.shape, y.dtype)
    else:
        normals = draw_normals(streams, y.shape, y.dtype)
    n = y.shape[1]
    m = target.repeat(n, 1)
    return _step_in_place(y, m, normals, y - m, low[:, :n], high[:, :n], step)


def _move_blocks(
    blocks: list[Block], y: Array, target: Array, streams: Generators, low: Array, high: Array, step: Step
) -> Iterator[Moments]:
    """Move blocks one after the other; their moments, each when it has been moved."""
    most_runs, most_rows = (max(cut.stop - cut.start for cut in cuts) for cuts in list(zip(*blocks, strict=True))[:2])
    normals, scratch = (np.empty((most_runs, most_rows, y.shape[-1]), y.dtype) for _ in range(2))
    low, high = low[:, :most_rows], high[:, :most_rows]
    last_runs = None
    for runs, rows, stream in blocks:
        part = y[runs, rows, :]
        n_runs, n, _ = part.shape
        if runs != last_runs:
            last_runs, m = runs, target[runs, :, :]
            if m.shape[-1] < _WIDE:
                m = m.repeat(most_rows, 1)
        b, z, center = normals[:n_runs, :n], scratch[:n_runs, :n], m[:, :n]
        for r in range(n_runs):
            streams[runs.start + r][stream].standard_normal(None, y.dtype, b[r])
        np.subtract(part, center, out=z)
        yield _step_in_place(part, center, b, z, low[:, :n], high[:, :n], step)


def _step_in_place(x: Array, m: Array, normals: Array, z: Array, low: Array, high: Array, step: Step) -> Moments:
    """`euler_maruyama_step` and `apply_boundary`, to the bit, without temporaries; returns the moments about m.

    Given ``z = x - m``; `normals` and `z` are overwritten.
    """
    lam, sigma, dt, noise, cap, floor, boundary = step
    size, unit = diffusion_size(z, noise, cap, floor, np)
    size *= unit * sigma * dt**0.5
    scale_rows(normals, size)
    z *= -(lam * dt)
    normals += z
    normals += x
    if boundary == "periodic":
        start, end = _open_ends(low, high, np)
        normals[...] = apply_boundary(normals, start, end, "periodic", xp=np)
    np.maximum(normals, low, out=x)
    np.minimum(x, high, out=x)
    if boundary == "reflect" and (normals != x).any():  # otherwise all are inside, and mirroring changes nothing
        normals -= x
        x -= normals
        np.maximum(x, low, out=x)
        np.minimum(x, high, out=x)
    np.subtract(x, m, out=z)
    return _moments_about_zero(z, np)


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
    return _moments_about_zero(y - center, xp)


def _moments_about_zero(z: Array, xp: ModuleType) -> Moments:
    ones = _ones(z.shape[1], z.dtype) if xp is np else xp.ones_like(z[:1, :, 0])
    wide = xp is np and z.shape[-1] >= _WIDE
    squares = np.einsum("rij,rij->rj", z, z) if wide else xp.vecdot(z, z, axis=-2)  # which is slow on wide rows
    return Moments(xp.matmul(ones, z)[:, 0, :], squares)


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


@lru_cache(maxsize=8)
def _blocks(n_runs: int, n: int, d: int) -> list[Block]:
    """Cut an (R, N, d) array: several whole runs, or rows of one run, at a time; no block spans two streams."""
    if n * d <= _BLOCK:
        step = max(1, _BLOCK // (n * d))
        return [Block(slice(r, min(r + step, n_runs)), slice(0, n), 0) for r in range(0, n_runs, step)]
    rows = min(n, rows_per_stream(d))
    step = -(-rows // -(-rows * d // _BLOCK))  # the rows of a stream in equal blocks
    return [
        Block(slice(r, r + 1), slice(i, min(i + step, start + rows, n)), stream)
        for r in range(n_runs)
        for stream, start in enumerate(range(0, n, rows))
        for i in range(start, min(start + rows, n), step)
    ]


@lru_cache(maxsize=1)
def _n_threads() -> int:
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(joblib.cpu_count(), int(limit)) if limit.isdigit() and int(limit) > 0 else int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="sklearn_scb2o")


if hasattr(os, "register_at_fork"):  # the threads do not exist in a forked process
    os.register_at_fork(after_in_child=_pool.cache_clear)


def first_population(box: Box, streams: Generators, n: int, start: Any) -> NDArray[Any]:
    """The first population in internal coordinates, (R, N, d): the points of `start`, the rest drawn by NumPy.

    `start` is None, (d,), (k, d) or (R, k, d), in internal coordinates.
    """
    y = np.empty((len(streams), n, box.d), dtype=box.scale.dtype)
    for r, (rng, *_) in enumerate(streams):
        if start is None:
            y[r] = box.sample(rng, n)
            continue
        given = start[r] if start.ndim == 3 else start.reshape(-1, box.d)
        y[r, : len(given)] = given
        if len(given) < n:
            y[r, len(given) :] = box.sample(rng, n - len(given), given.mean(axis=0))
    return y
