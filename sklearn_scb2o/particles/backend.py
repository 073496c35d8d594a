"""The little that the kernels need to know about the array library they run on.

NumPy decides by looking at the data. Other libraries may keep it on a device, where looking means waiting for all that
was queued there: for them the kernels have no branches on data, and `to_numpy` is the only way to the host.

The reductions here are those of the standard; for NumPy they call the ufunc below the wrapper, which on short rows
is several times cheaper, and the kernels make dozens of such calls per iteration.
"""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.special import inv_boxcox, xlogy

# Rows up to this length are treated column by column.
_NARROW = 4
# Numbers up to which a single call counts more than what it does.
_FEW = 1024

Array: TypeAlias = Any  # any array of a library that follows the Python array API standard

#: A decorator and context in which an overflow quietly gives the infinity that it is. Infinite scaled
#: values are the correct limits of every kernel here, so the warning of NumPy would be noise.
overflow_is_infinity = np.errstate(over="ignore")


def get_namespace(*arrays: Array, xp: ModuleType | None = None) -> ModuleType:
    """Return `xp` where it is given, else the array API namespace that `arrays` share."""
    if xp is not None:
        return xp
    if all(isinstance(x, np.ndarray) for x in arrays):
        return np  # follows the standard by itself, without the wrappers of array_api_compat
    return array_api_compat.array_namespace(*arrays)


@lru_cache(maxsize=32)
def _float_info(dtype: Any, xp: ModuleType) -> tuple[float, float, float]:
    info = xp.finfo(dtype)
    return float(info.eps), float(info.smallest_normal), float(info.max)


def float_info(x: Array, xp: ModuleType) -> tuple[float, float, float]:
    """Distance from 1 to the next float, smallest normal and largest float of the type of `x`."""
    return _float_info(x.dtype, xp)


def to_numpy(x: Any) -> Any:
    """An array of any library as one of NumPy, maybe sharing its memory; waits for the device it is on."""
    if isinstance(x, np.ndarray) or not array_api_compat.is_array_api_obj(x):
        return np.asarray(x)
    if array_api_compat.is_cupy_array(x):
        return x.get()
    if array_api_compat.is_torch_array(x):
        return x.detach().cpu().numpy()
    if hasattr(x, "to_device") and not array_api_compat.is_jax_array(x):
        xp = array_api_compat.array_namespace(x)
        if array_api_compat.is_array_api_strict_namespace(xp):
            x = x.to_device(xp.Device("CPU_DEVICE"))
    return np.asarray(x)


def dtype_name(x: Array) -> str:
    """The name of the type of an array's elements, such as "float32"."""
    return str(x.dtype).rpartition(".")[2]


def as_index(x: Array, xp: ModuleType) -> Array:
    """An array as integers of the type that the library indexes with."""
    return xp.astype(x, np.int64 if xp is np else xp.__array_namespace_info__().default_dtypes()["indexing"])


def take_rows(x: Array, rows: NDArray[np.intp], xp: ModuleType) -> Array:
    """Rows of an array of NumPy or of the library `xp`, by their numbers."""
    if isinstance(x, np.ndarray):
        return x[rows]
    return xp.take(x, xp.asarray(rows, device=array_api_compat.device(x)), axis=0)


def move(values: NDArray[Any], like: Array) -> Array:
    """An array of NumPy as one of the library and on the device of `like`; floats become those of its type."""
    is_float = values.dtype.kind == "f"
    if isinstance(like, np.ndarray):
        return values.astype(like.dtype, copy=False) if is_float else values
    xp = array_api_compat.array_namespace(like)
    return xp.asarray(values, dtype=like.dtype if is_float else None, device=array_api_compat.device(like))


def count_up(n: int, like: Array, xp: ModuleType) -> Array:
    """The numbers 0, 1, ..., n - 1 of the type and on the device of `like`."""
    if xp is np:
        return np.arange(n, dtype=like.dtype)
    return xp.arange(n, dtype=like.dtype, device=array_api_compat.device(like))


def row_sum(x: Array, xp: ModuleType) -> Array:
    """Sum over the last axis, kept."""
    if xp is np:
        return np.add.reduce(x, axis=-1, keepdims=True)
    return xp.sum(x, axis=-1, keepdims=True)


def row_total(x: Array, xp: ModuleType) -> Array:
    """Sum over the last axis, kept; on NumPy strictly from left to right, as a loop over Python floats adds."""
    if xp is np and 1 < x.shape[-1] <= _NARROW:
        return _sum_of_columns(x)
    if xp is np:
        return np.add.accumulate(x, -1)[..., -1:]
    return xp.sum(x, axis=-1, keepdims=True)


def row_min(x: Array, xp: ModuleType) -> Array:
    """Minimum over the last axis, kept."""
    if xp is np:
        return np.minimum.reduce(x, axis=-1, keepdims=True)
    return xp.min(x, axis=-1, keepdims=True)


def row_max(x: Array, xp: ModuleType) -> Array:
    """Maximum over the last axis, kept."""
    if xp is np:
        return np.maximum.reduce(x, axis=-1, keepdims=True)
    return xp.max(x, axis=-1, keepdims=True)


def row_dot(x: Array, y: Array, xp: ModuleType) -> Array:
    """Sum of products over the last axis, kept."""
    if xp is np and 1 < x.shape[-1] <= _NARROW:  # column by column, in a fraction of the time of row by row
        return _sum_of_columns(x * y)
    return xp.vecdot(x, y)[..., None]


def _sum_of_columns(x: NDArray[Any]) -> NDArray[Any]:
    total = x[..., :1] + x[..., 1:2]
    for j in range(2, x.shape[-1]):
        total += x[..., j : j + 1]
    return total


def scale_rows(x: NDArray[Any], factor: NDArray[Any]) -> None:
    """Multiply an array of NumPy by one of the same shape, or of shape (..., 1), in place."""
    if x.shape[-1] <= _NARROW and factor.shape[-1] == 1 and x.size > _FEW:
        for j in range(x.shape[-1]):
            x[..., j] *= factor[..., 0]
    else:
        x *= factor


def any_true(mask: Array, xp: ModuleType) -> bool:
    """Whether any element of a boolean array is true; waits for its device."""
    return bool(np.count_nonzero(mask) if xp is np else xp.any(mask))


def clamp(x: Array, low: Any, high: Any, xp: Any) -> Array:
    """Elementwise ``min(max(x, low), high)``; two ufuncs, a third of the cost of clip on short rows."""
    return xp.minimum(xp.maximum(x, low), high)


#: Arithmetic on Python floats under the names of the standard.
FLOATS = SimpleNamespace(
    where=lambda condition, a, b: a if condition else b,
    maximum=max,
    minimum=min,
    abs=abs,
    log=math.log,
)


def log_as_floats(x: Any, lib: Any) -> Any:
    """Logarithm; on NumPy that of the C library, as for floats, where NumPy's own may differ in the last bit."""
    return xlogy(1.0, x) if lib is np and x.dtype == np.float64 else lib.log(x)


def exp_as_floats(x: NDArray[Any]) -> NDArray[Any]:
    """Exponential, of NumPy; that of the C library, as for floats."""
    return inv_boxcox(x, 0.0)


def run_numbers(xp: ModuleType, *columns: Array) -> tuple[Any, ...]:
    """The numbers of each run, for iterative solvers: a namespace to compute with, and `columns` as it takes them.

    Columns have shape (..., 1). A single run in float64 on NumPy becomes Python floats, on which the dozens of small
    operations of a solver cost a tenth of those on arrays; `as_column` turns them back.
    """
    if xp is np and columns[0].size == 1 and columns[0].dtype == np.float64:
        return FLOATS, *[c.item() for c in columns]
    return xp, *columns


def as_number(column: Any, lib: Any) -> Any:
    """A (..., 1) array or a number as a number of the namespace `lib` that `run_numbers` returned."""
    return column.item() if lib is FLOATS and isinstance(column, np.ndarray) else column


def as_column(number: Any, x: Array, lib: Any) -> Array:
    """A number of the namespace `lib` as a (..., 1) array of the type of `x`."""
    return np.array(number, dtype=x.dtype, ndmin=x.ndim) if lib is FLOATS else number


def is_true_anywhere(condition: Any, lib: Any) -> bool:
    """Whether a comparison of run numbers holds in any run."""
    return condition if lib is FLOATS else any_true(condition, lib)
