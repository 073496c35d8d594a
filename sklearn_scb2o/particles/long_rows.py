"""Order statistics and soft quantiles of long rows on NumPy, which are never sorted.

Of a million values only those in a window matter: those up to the quantile, and those above it that still have weight.
They are found by comparing all with a bound, which a sample suggests, and all that is costly is done on them alone. The
result does not depend on the sample. Rows are treated one by one, so that a run has the same result alone and among
others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .offset import Sums

if TYPE_CHECKING:
    from .selection import Selector

Row = NDArray[Any]

# Rows of which a sample is taken, and its size.
_SAMPLED, _SAMPLE = 16384, 4096


def smallest(row: Row, k: int) -> Row:
    """Some of the values, in any order, among which are the k smallest and the next one where there is one."""
    n = row.size
    if n < _SAMPLED or 2 * k > n:
        return row
    sample = row[:: n // _SAMPLE]
    expected = sample.size * k / n
    rank = math.ceil(expected + 5.0 * math.sqrt(expected) + 5.0)  # by more than chance makes it too small
    if rank >= sample.size:
        return row
    few: Row = row[row <= np.partition(sample, rank)[rank]]
    return few if few.size > k else row


def around_rank(row: Row, k: int) -> tuple[Any, Any, Any]:
    """The smallest value, the k-th smallest and the next one, +inf where there is none."""
    few = np.partition(smallest(row, k), k - 1)
    after = few[k:].min() if few.size > k else np.asarray(math.inf, row.dtype)
    return few[:k].min(), few[k - 1], after


def ranked(row: Row, rank: int) -> tuple[Any, Any]:
    """The smallest value and that of a rank counted from 0, or the largest where there are fewer."""
    rank = min(rank, row.size - 1)
    return row.min(), np.partition(row, rank)[rank]


def sums_of_long_row(
    selector: Selector, row: Row, at: float, after: float, tau: float, k: int, beta: float, rtol: float
) -> Callable[[Any], Sums]:
    """`sums_of_rows` of one row, without values so far above the quantile that they change nothing.

    The offset is at most ``(after - at)/tau + log(k + 1)``, and the weight of a value falls by exp(-1) with each tau.
    """
    far = math.log(k + 1.0) + math.log(10.0 / (beta * rtol)) + 1.0
    limit = min(after + far * tau, float(np.finfo(row.dtype).max))
    z = (row[row <= limit] - at) / tau
    below, above = z[z < 0.0], z[z > 0.0]
    missing = k - below.size  # of the values equal to the quantile, those that belong to the k smallest
    ties = z.size - below.size - above.size - missing

    def sums(s: float) -> Sums:
        at_psi, at_slope = (float(v[0]) for v in selector.psi_and_slope(np.array([s]), np))
        (psi_in, slope_in), (psi_out, slope_out) = (
            tuple(float(v.sum()) for v in selector.psi_and_slope(s - part, np)) for part in (below, above)
        )
        return Sums(
            psi_in + missing * at_psi,
            psi_out + ties * at_psi,
            slope_in + missing * at_slope,
            slope_out + ties * at_slope,
        )

    return sums
