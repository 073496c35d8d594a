"""Order statistics and soft quantiles of long rows on NumPy, which are never sorted.

Of a million values only those in a window matter: those up to the quantile, and those above it that still have weight.
`parted` parts them from the others, and all that is costly is done on them alone. Rows are treated one by one, so that
a run has the same result alone and among others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .offset import Sums
from .selectors import Selector

Row = NDArray[Any]

# Exponents whose exponentials, and their products with others, are finite.
_EXPONENTS = {"d": 300.0, "f": 40.0}
_BLOCK = 32768  # numbers that stay in the cache
_SAMPLE = 1024  # values that tell about where a rank is


def up_to(row: Row, limit: float) -> Row:
    """The values up to a limit, in their order."""
    is_in = row <= limit
    few: Row = row if is_in.all() else row.compress(is_in)  # a fraction of the time of `row[is_in]`
    return few


def parted(row: Row, n: int) -> Row:
    """The values with the n smallest first, as by `numpy.partition`, in a third of its time where n is a tenth of them.

    Only those up to a limit are looked at which, as a sample tells, are likely to be as many, and few more.
    """
    if row.size < 4 * _SAMPLE:
        return np.partition(row, n - 1)
    sample = np.sort(row[:: row.size // _SAMPLE])
    share = n / row.size
    i = int(sample.size * share + 4.0 * math.sqrt(sample.size * share * (1.0 - share))) + 1
    is_low = row <= sample[min(i, sample.size - 1)]
    (low,) = is_low.nonzero()
    if not n <= low.size < row.size:
        return np.partition(row, n - 1)
    few = row.take(low)
    few.partition(n - 1)
    out = row.copy()  # in which these change places with those that come first
    out.put(low[low.searchsorted(low.size) :], row[: low.size].compress(~is_low[: low.size]))
    out[: low.size] = few
    return out


def ranked(row: Row, rank: int) -> tuple[Any, Any]:
    """The smallest value and that of a rank counted from 0, or the largest where there are fewer."""
    rank = min(rank, row.size - 1)
    return row.min(), parted(row, rank + 1)[rank]


def sums_of_long_row(
    selector: Selector, row: Row, at: float, after: float, tau: float, k: int, beta: float, rtol: float
) -> Callable[[Any], Sums]:
    """`sums_of_rows` of one row, which has its k smallest values first.

    Values so far above the quantile that they change nothing are left out: the offset is at most
    ``(after - at)/tau + log(k + 1)``, and the weight of a value falls by exp(-1) with each tau.
    """
    far = math.log(k + 1.0) + math.log(10.0 / (beta * rtol)) + 1.0
    limit = min(after + far * tau, float(np.finfo(row.dtype).max))
    inside, outside = (_total_psi(selector, _scores(part, limit, at, tau)) for part in (row[:k], row[k:]))

    def sums(s: float) -> Sums:
        (psi_in, slope_in), (psi_out, slope_out) = inside(s), outside(s)
        return Sums(psi_in, psi_out, slope_in, slope_out)

    return sums


def offset_near(selector: Selector, row: Row, start: float, tau: float, beta: float, rtol: float) -> float | None:
    """The soft quantile less `start`, in units of tau, found without order statistics; None where it is not near.

    Newton's method on ``log sum_i psi(s - z_i) = log(beta n)``.
    """
    reach = 2.0  # the quantile is within so many tau of the start
    weight = beta * np.count_nonzero(row < math.inf)
    far = reach + math.log(10.0 * row.size / (weight * rtol))
    total_psi = _total_psi(selector, _scores(row, start + far * tau, start, tau))
    s = 0.0
    for _ in range(6):
        psi, slope = total_psi(s)
        if not slope > 0.0:
            return None
        if abs(psi - weight) <= rtol * weight:
            return s
        step = math.log(psi / weight) * psi / slope
        s -= step
        if not abs(s) < reach:
            return None
        if step * step < 0.1 * rtol:  # which the step leaves, squared, of the error
            return s
    return None


def _scores(row: Row, limit: float, at: float, tau: float) -> Row:
    """``z = (L - at) / tau`` of the values up to a limit, a new array."""
    few = up_to(row, limit)
    z = np.subtract(few, at, out=None if few is row else few)  # memory that is new takes longer than arithmetic
    z /= tau
    return z


def _total_psi(selector: Selector, z: Row) -> Callable[[float], tuple[float, float]]:
    """The function of s that gives the sums of ``psi(s - z_i)`` and of its slope; z is overwritten."""
    if selector.name != "logistic" or z.size == 0 or z.max() > _EXPONENTS[z.dtype.char]:
        return lambda s: tuple(float(v.sum()) for v in selector.psi_and_slope(s - z, np))  # type: ignore[return-value]
    exponential = np.exp(z, out=z)  # one exponential for all s: psi(s - z) = 1 / (1 + e^-s e^z)
    blocks = [exponential[i : i + _BLOCK] for i in range(0, z.size, _BLOCK)]
    spare = np.empty_like(blocks[0])

    def total(s: float) -> tuple[float, float]:
        factor, total, squares = math.exp(-s), 0.0, 0.0
        for block in blocks:
            psi = np.multiply(block, factor, out=spare[: block.size])
            psi += 1.0
            np.reciprocal(psi, out=psi)
            total += float(psi.sum())
            squares += float(psi.dot(psi))
        return total, total - squares

    return total
