"""The little that the kernels need to know about the array library they run on."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

Array: TypeAlias = Any  # any array of a library that follows the Python array API standard

#: A decorator and context in which an overflow quietly gives the infinity that it is. Infinite scaled
#: values are the correct limits of every kernel here, so the warning of NumPy would be noise.
overflow_is_infinity = np.errstate(over="ignore")


def get_namespace(*arrays: Array, xp: ModuleType | None = None) -> ModuleType:
    """Return `xp` where it is given, else the array API namespace that `arrays` share."""
    return array_api_compat.array_namespace(*arrays) if xp is None else xp


def epsilon(x: Array, xp: ModuleType) -> float:
    """Distance from 1 to the next float of the type of `x`."""
    return float(xp.finfo(x.dtype).eps)


def like(value: Any, x: Array, xp: ModuleType) -> Array:
    """Return `value` as an array of the type and on the device of `x`."""
    return xp.asarray(value, dtype=x.dtype, device=array_api_compat.device(x))


def row_sum(x: Array, xp: ModuleType) -> Array:
    """Sum over the last axis, kept: one dot product, several times cheaper than a reduction on short rows."""
    return xp.vecdot(x, xp.ones_like(x))[..., None]


def clamp(x: Array, low: Any, high: Any, xp: ModuleType) -> Array:
    """Elementwise ``min(max(x, low), high)``; two ufuncs, a third of the cost of clip on short rows."""
    return xp.minimum(xp.maximum(x, low), high)
