"""The kernels of ``kernels.cu`` on arrays of CuPy: a step of the particles in one pass, and Philox random numbers.

They are compiled at their first use, for each type of numbers. The array functions of `dynamics` are the reference, and
compute the same.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib.resources import files
from typing import Any

from .backend import Array, dtype_name
from .dynamics import BOUNDARIES

_BLOCK = 256  # threads of a block
_MOST_BLOCKS = 4096  # more work is done by the same threads, one piece after the other
_FEW, _MANY = 8, 2048  # coordinates up to which a thread, and from which on a block, takes a row
_THREADS = 262144  # of sum_moments


def source(dtype: str, lanes: int = 1) -> str:
    """The source of the kernels for a type of numbers, "float32" or "float64", and a number of threads for a row."""
    real = {"float32": "float", "float64": "double"}[dtype]
    kernels = files(__package__).joinpath("kernels.cu").read_text(encoding="utf-8")
    return f"#define REAL {real}\n#define LANES {lanes}\n{kernels}"


@lru_cache(maxsize=16)
def _kernel(name: str, dtype: str, lanes: int = 1) -> Any:
    import cupy

    return cupy.RawModule(code=source(dtype, lanes), options=("--std=c++11",)).get_function(name)


def _launch(kernel: Any, threads: int, arguments: tuple[Any, ...]) -> None:
    kernel((max(1, min(_MOST_BLOCKS, -(-threads // _BLOCK))),), (_BLOCK,), arguments)


@lru_cache(maxsize=2)
def why_not(dtype: str) -> str | None:
    """What keeps the kernels from being compiled; None where nothing does."""
    try:
        for lanes in (1, 32, _BLOCK):
            _kernel("move_particles", dtype, lanes)
    except Exception as error:  # whatever the compiler, the driver or CuPy have against them
        return str(error) or type(error).__name__
    return None


def random_numbers(shape: tuple[int, ...], like: Array, seed: int, draw: int, *, normal: bool) -> Array:
    """Independent standard normals, or numbers uniform on [0, 1), by Philox4x32-10.

    Parameters
    ----------
    shape : tuple
        (..., d).
    like : CuPy array
        Gives type and device.
    seed, draw : int
        Less than 2^64. Each pair of them gives other numbers, always the same.
    normal : bool
        Which distribution.

    Returns
    -------
    array of the given shape
    """
    import cupy

    with like.device:
        out = cupy.empty(shape, like.dtype)
        d = shape[-1]
        rows = out.size // d
        kernel = _kernel("fill_random", dtype_name(like))
        groups = -(-d // (2 if out.dtype.itemsize == 8 else 4))
        u64 = cupy.uint64
        arguments = (out, cupy.int64(rows), cupy.int32(d), u64(seed), u64(draw), cupy.int32(normal))
        _launch(kernel, rows * groups, arguments)
    return out


def move_particles(
    x: Array,
    m: Array,
    low: Array,
    high: Array,
    *,
    lam: float,
    sigma: float,
    dt: float,
    noise: str,
    cap: float | None,
    floor: float | None,
    boundary: str,
    horizon: float,
    seed: int = 0,
    draw: int = 0,
    normals: Array | None = None,
) -> Array:
    """`euler_maruyama_step` and `apply_boundary` in one pass over the particles.

    Parameters
    ----------
    x : CuPy array of shape (R, N, d)
        Positions.
    m : CuPy array of shape (R, d)
        Consensus points.
    low, high : CuPy array of shape (d,)
        Bounds, finite; those at `horizon` or beyond count as none where the boundary is periodic.
    lam, sigma, dt, noise, cap, floor, boundary
        As in the functions this stands for.
    seed, draw : int
        The normals are those of `random_numbers`.
    normals : CuPy array of shape (R, N, d), optional
        Given instead.

    Returns
    -------
    array of shape (R, N, d)
    """
    import cupy

    n_runs, n, d = x.shape
    dtype = x.dtype.type
    x, m, low, high = (cupy.ascontiguousarray(v) for v in (x, m, low, high))
    given = cupy.uint64(0) if normals is None else cupy.ascontiguousarray(normals)  # a null pointer
    strength = sigma * math.sqrt(dt) / (math.sqrt(d) if noise == "scaled" else 1.0)
    lanes = 1 if d <= _FEW else (32 if d < _MANY else _BLOCK)
    with x.device:
        out = cupy.empty_like(x)
        arguments = (
            x, m, low, high, given, out, cupy.int64(n_runs * n), cupy.int64(n), cupy.int32(d), dtype(lam * dt),
            dtype(strength), dtype(math.inf if cap is None else cap), dtype(0.0 if floor is None else floor),
            dtype(horizon), cupy.int32(noise == "anisotropic"), cupy.int32(BOUNDARIES.index(boundary)),
            cupy.uint64(seed), cupy.uint64(draw),
        )  # fmt: skip
        _launch(_kernel("move_particles", dtype_name(x), lanes), n_runs * n * lanes, arguments)
    return out


def sum_moments(y: Array, center: Array) -> tuple[Array, Array]:
    """Sums over the particles of each run of ``y - center`` and of its square, in one pass.

    Parameters
    ----------
    y : CuPy array of shape (R, N, d)
        Positions.
    center : CuPy array of shape (R, d)
        Where from.

    Returns
    -------
    two arrays of shape (R, d)
    """
    import cupy

    n_runs, n, d = y.shape
    parts = max(1, min(n, _THREADS // (n_runs * d)))
    y, center = cupy.ascontiguousarray(y), cupy.ascontiguousarray(center)
    with y.device:
        first, second = (cupy.empty((n_runs, parts, d), y.dtype) for _ in range(2))
        arguments = (
            y, center, first, second, cupy.int64(n_runs), cupy.int64(n), cupy.int32(d), cupy.int64(parts)
        )  # fmt: skip
        _launch(_kernel("sum_moments", dtype_name(y)), n_runs * parts * d, arguments)
        return first.sum(axis=1), second.sum(axis=1)
