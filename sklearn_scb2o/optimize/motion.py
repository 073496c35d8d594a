"""Moving a population in place, block by block, so that temporaries stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..particles import apply_boundary, euler_maruyama_step
from ..particles.backend import Array, like
from .box import Box

# Numbers per block: three temporaries of this size fit into the second-level cache.
_BLOCK = 16384


def blocks(n_runs: int, n_rows: int, d: int) -> Iterator[tuple[slice, slice]]:
    """Cut an (R, N, d) array into blocks of whole runs or, for large populations, of rows of one run."""
    if n_rows * d <= _BLOCK:
        step = max(1, _BLOCK // max(1, n_rows * d))
        for r in range(0, n_runs, step):
            yield slice(r, min(r + step, n_runs)), slice(0, n_rows)
        return
    step = max(1, _BLOCK // d)
    for r in range(n_runs):
        for i in range(0, n_rows, step):
            yield slice(r, r + 1), slice(i, min(i + step, n_rows))


def draw_normals(rngs: Sequence[np.random.Generator], n_rows: int, d: int, x: Array, xp: ModuleType) -> Array:
    """Standard normals of shape (len(rngs), n_rows, d), one stream per run, as arrays like `x`."""
    dtype = np.float32 if x.dtype == xp.float32 else np.float64
    normals = np.empty((len(rngs), n_rows, d), dtype=dtype)
    for r, rng in enumerate(rngs):
        rng.standard_normal(out=normals[r], dtype=dtype)
    return normals if isinstance(x, np.ndarray) else like(normals, x, xp)


def move(
    y: Array,
    rows: slice,
    m: Array,
    rngs: Sequence[np.random.Generator],
    low: Array,
    high: Array,
    *,
    boundary: str,
    xp: ModuleType,
    **step: Any,
) -> None:
    """One Euler-Maruyama step of the given rows of all runs, in place.

    Parameters
    ----------
    y : array of shape (R, N, d)
        Positions, written to.
    rows : slice
        The particles that move.
    m : array of shape (R, d)
        Consensus points.
    rngs : sequence of R generators
        The streams of the runs.
    low, high : array of shape (d,)
        Bounds.
    boundary, **step
        As in `apply_boundary` and `euler_maruyama_step`.
    """
    n_runs, _, d = y.shape
    target = m[:, None, :]
    for runs, part in blocks(n_runs, rows.stop - rows.start, d):
        here = (runs, slice(rows.start + part.start, rows.start + part.stop), slice(None))
        normals = draw_normals(rngs[runs], part.stop - part.start, d, y, xp)
        moved = euler_maruyama_step(y[here], target[runs, :, :], normals, xp=xp, **step)
        y[here] = apply_boundary(moved, low, high, boundary, xp=xp)


def mean_spread(y: Array, scale: Array, xp: ModuleType) -> Array:
    """Mean over coordinates of the standard deviation over particles, in user units, shape (R,).

    The paper's ``sigma(x) = (1/d) sum_j std_i(x_ij)``. Deviations are taken from the first particle, block by block.
    """
    n_runs, n, d = y.shape
    first = y[:, :1, :]
    sums, squares = 0.0 * first, 0.0 * first
    for runs, part in blocks(n_runs, n, d):
        z = y[runs, part, :] - first[runs, :, :]
        ones = xp.ones_like(z[0, :, 0])[None, :]
        sums[runs, :, :] += xp.matmul(ones, z)
        squares[runs, :, :] += xp.matmul(ones, z * z)
    variance = xp.maximum(squares / n - (sums / n) ** 2, 0.0)
    return xp.vecdot(xp.sqrt(variance), scale)[:, 0] / d


def first_population(box: Box, rngs: Sequence[np.random.Generator], n: int, start: Any) -> NDArray[Any]:
    """The first population in internal coordinates, (R, N, d): the points of `start`, the rest drawn.

    `start` is None, (d,), (k, d) or (R, k, d), in internal coordinates.
    """
    y = np.empty((len(rngs), n, box.d), dtype=box.scale.dtype)
    for r, rng in enumerate(rngs):
        if start is None:
            y[r] = box.sample(rng, n)
            continue
        given = start[r] if start.ndim == 3 else start.reshape(-1, box.d)
        y[r, : len(given)] = given
        if len(given) < n:
            y[r, len(given) :] = box.sample(rng, n - len(given), given.mean(axis=0))
    return y


def shuffle_particles(y: Array, rngs: Sequence[np.random.Generator], xp: ModuleType) -> None:
    """Put the particles of each run in random order, in place."""
    for r, rng in enumerate(rngs):
        order = xp.asarray(rng.permutation(y.shape[1]))
        y[r, :, :] = xp.take(y[r, :, :], order, axis=0)
