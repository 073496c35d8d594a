"""The equation of the soft quantile, solved for the offset ``s = (q - L_(k)) / tau``.

With ``z_i = (L_(i) - L_(k)) / tau`` in order and k = ceil(beta n), the equation ``sum_i psi(s - z_i) = beta n`` says
that the weight that the k smallest values lack equals the weight of the others, up to k - beta n. Both sides are close
to exponentials, of opposite sign, in s.

The equation is solved on arrays, for all runs at once, or on Python floats, for one run, which on short rows is many
times faster. Both do the same arithmetic in the same order: a run has the same offset, to the bit, alone and among
others.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .backend import Array, as_number, clamp, count_up, exp_as_floats, is_true_anywhere, log_as_floats, row_sum
from .selectors import SELECTORS, Selector

# Plain Newton steps before the bracket is kept as well; nearly always they are enough.
_PLAIN_STEPS = 8
_MAX_STEPS = 200
# Plain steps where looking whether they are enough would wait for a device.
_FIXED_PLAIN_STEPS = 5
# Below this expected weight the equation is taken as it stands, log(sum psi) = log(beta n): what a single particle
# lacks of 1 then says little about its weight.
_ALONE = 0.5
# A step that should leave this part of the tolerance is not checked.
_MARGIN = 0.1
# A summand below this part of a sum changes it by less than half its rounding.
_NEGLIGIBLE = 2.0**-55
#: Rows up to this length can be solved on floats.
SHORT = 512
#: Distance from 1 to the next float, and smallest normal float, of Python floats.
EPS, TINY = sys.float_info.epsilon, sys.float_info.min


def proper_share(beta: float, eps: float, tiny: float) -> float:
    """A share to be selected for which there is a finite quantile: 1, for which there is none, less a rounding."""
    return min(max(beta, tiny), 1.0 - eps)


class Sums(NamedTuple):
    """Sums of psi and of its slope over the k smallest values and over the others."""

    psi_inside: Any
    psi_outside: Any
    slope_inside: Any
    slope_outside: Any


def solve_offset(
    sums: Callable[[Any], Sums], gap: Any, selector: Selector, beta: float, n: Any, k: Any, *, start: Any = None,
    rtol: float, eps: float, tiny: float, lib: Any, xp: ModuleType,
) -> Any:  # fmt: skip
    """The offset s of each run, by Newton's method on the difference of the logarithms of both sides.

    Order statistics bound s from both sides, within about 100 whatever the values, and steps that leave these bounds
    become bisections. Libraries other than NumPy make a fixed number of steps, of which those after the solution leave
    it as it is.

    Parameters
    ----------
    sums : callable
        ``sums(s)``, see `sums_of_rows`.
    gap : float or array of shape (..., 1)
        ``z_(k+1)``, +inf where k = n.
    selector, beta
        As in `soft_selection`, with beta < 1.
    n, k : int, or arrays of shape (..., 1)
        Evaluations that count, and the rank.
    start : float or array of shape (..., 1), optional
        First guess.
    rtol : float
        Relative accuracy of the mean weight.
    eps, tiny : float
        Distance from 1 to the next float, smallest normal float.
    lib, xp
        The namespaces of numbers, as `run_numbers` returns it, and of arrays.
    """
    low, above, high, lacking = _offset_bounds(selector, beta, n, k, eps, xp)
    high = lib.maximum(lib.minimum(gap + above, high), low)
    s = clamp(lib.minimum(0.5 * gap, lacking) if start is None else start, low, high, lib)
    weight = beta * n
    alone = weight < _ALONE
    searching: Any = s == s  # true for each run: one that has its solution must not move on because another has not
    fixed = lib is xp is not np
    plain_steps, steps = (_FIXED_PLAIN_STEPS, selector.steps) if fixed else (_PLAIN_STEPS, _MAX_STEPS)
    for step in range(steps):
        parts = sums(s)
        if isinstance(alone, bool):
            excess, odds, bend = _sides(parts, weight, k, alone, eps, tiny, lib)
        else:
            excess, odds, bend = (
                lib.where(alone, x, y)
                for x, y in zip(*(_sides(parts, weight, k, v, eps, tiny, lib) for v in (True, False)), strict=True)
            )
        error = lib.abs(excess)
        if step >= plain_steps:
            searching = searching & (error > rtol * weight)
            if not (fixed or is_true_anywhere(searching, lib)):
                break
        ratio = log_as_floats(odds, lib)
        newton = s - ratio / lib.maximum(bend, tiny)
        if step >= plain_steps:
            short = excess < 0
            low, high = lib.where(short, s, low), lib.where(short, high, s)
            newton = lib.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
        s = lib.where(searching, clamp(newton, low, high, lib), s)
        if step < plain_steps:
            # the step just made leaves about this product of the error
            searching = searching & (error * lib.abs(ratio) > _MARGIN * rtol * weight)
            if not (fixed or is_true_anywhere(searching, lib)):
                break
    return s


def _sides(sums: Sums, weight: Any, k: Any, alone: bool, eps: float, tiny: float, lib: Any) -> tuple[Any, Any, Any]:
    """Difference of both sides of the equation, their ratio, and the slope of its logarithm.

    The sides are what the k smallest lack and what the others have; or, `alone`, the total weight and beta n.
    """
    inside, outside, inner, outer = sums
    if alone:
        total = inside + outside
        floored = lib.maximum(total, tiny)
        return total - weight, floored / weight, (inner + outer) / floored
    lack, others = k - inside, (k - weight) + outside
    a, b = lib.maximum(others, tiny), lib.maximum(lack, eps * k)
    return others - lack, a / b, outer / a + inner / b


def sums_of_rows(selector: Selector, z: Array, k: Any, lib: Any, xp: ModuleType) -> Callable[[Any], Sums]:
    """The sums of all runs, z of shape (..., N) in order; k an int, or an array of shape (..., 1)."""
    n = z.shape[-1]
    if xp is np and n <= SHORT and z.dtype == np.float64:
        return _sums_in_order(selector, z, k, lib)
    if isinstance(k, int) and k < n and xp is not np:

        def split(v: Array) -> tuple[Any, Any]:
            return row_sum(v[..., :k], xp), row_sum(v[..., k:], xp)
    else:
        first = xp.astype(count_up(n, z, xp) < k, z.dtype)

        def split(v: Array) -> tuple[Any, Any]:
            return as_number(row_sum(v * first, xp), lib), as_number(row_sum(v * (1.0 - first), xp), lib)

    def sums(s: Any) -> Sums:
        (inside, outside), (inner, outer) = map(split, selector.psi_and_slope(s - z, xp))
        return Sums(inside, outside, inner, outer)

    return sums


def _sums_in_order(selector: Selector, z: NDArray[Any], k: Any, lib: Any) -> Callable[[Any], Sums]:
    """`sums_of_rows` of short rows on NumPy, strictly from left to right, as a loop over Python floats adds.

    These sums do not depend on whether others are masked, nor on other runs. Of long rows they would not be accurate.
    """
    shape = (*z.shape[:-1], 1)
    columns = np.ascontiguousarray(z.reshape(-1, z.shape[-1]).T)  # (N, R): the runs are added side by side
    alone = columns.shape[1] == 1
    psi_and_slope = _psi_and_slope(selector, columns)
    masks: list[Any] | None = None
    if not isinstance(k, int) or k >= len(columns):
        first = np.arange(len(columns))[:, None] < np.reshape(k, -1)
        masks = [first.astype(z.dtype), (~first).astype(z.dtype)]

    def split(v: NDArray[Any]) -> list[Any]:
        parts = [v[:k], v[k:]] if masks is None else [v * mask for mask in masks]
        totals = [np.add.accumulate(part)[-1] if alone else np.add.reduce(part, 0) for part in parts]
        return [as_number(total.reshape(shape), lib) for total in totals]

    def sums(s: Any) -> Sums:
        (inside, outside), (inner, outer) = map(split, psi_and_slope(np.reshape(s, -1)))
        return Sums(inside, outside, inner, outer)

    return sums


def _psi_and_slope(selector: Selector, z: NDArray[Any]) -> Callable[[Any], Any]:
    """The function of s that gives ``psi(s - z)`` and its slope."""
    if selector.name != "logistic":
        return lambda s: selector.psi_and_slope(s - z, np)
    exponentials = np.exp(z)  # the same for all s: psi(s - z) = 1 / (1 + e^-s e^z), and s is moderate

    def logistic(s: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        psi = 1.0 / (1.0 + exp_as_floats(-s) * exponentials)
        return psi, psi - psi * psi

    return logistic


def solve_offset_of_floats(
    exponentials: list[float], gap: float, beta: float, n: int, k: int, rtol: float
) -> float | None:
    """`solve_offset` of one run for the logistic selector, on floats; None where it takes more than the plain steps.

    `exponentials` are ``exp(z)`` of the values of the run that can have weight, in order, more than k and all within
    600 of any offset; `gap` is ``z_(k+1)``.
    """
    beta = proper_share(beta, EPS, TINY)
    weight = beta * n
    if weight < _ALONE:
        return None
    low, above, high, lacking = _offset_bounds(SELECTORS["logistic"], beta, n, k, EPS, np)
    high = max(min(gap + above, high), low)
    s: float = min(max(min(0.5 * gap, lacking), low), high)
    missing, limit = k - weight, _MARGIN * rtol * weight
    inside, outside = exponentials[:k], exponentials[k:]
    for _ in range(_PLAIN_STEPS):
        within = others = inner = outer = 0.0
        factor = math.exp(-s)
        for e in inside:
            psi = 1.0 / (1.0 + factor * e)
            within += psi
            inner += psi - psi * psi
        for e in outside:
            psi = 1.0 / (1.0 + factor * e)
            if psi < _NEGLIGIBLE * outer:
                break  # as are all that follow
            others += psi
            outer += psi - psi * psi
        lack, others = k - within, missing + others
        a, b = max(others, TINY), max(lack, EPS * k)
        ratio = math.log(a / b)
        s = min(max(s - ratio / max(outer / a + inner / b, TINY), low), high)
        if not abs((others - lack) * ratio) > limit:  # about what this step leaves of the error
            return s
    return None


def solve_offsets_of_columns(
    exponentials: NDArray[np.float64], gap: NDArray[np.float64], beta: float, n: int, k: int, rtol: float
) -> NDArray[np.float64]:
    """`solve_offset_of_floats` to the bit for each of several columns, on arrays; NaN where it returns None.

    `exponentials` have shape (W, R), `gap` (R,).
    """
    beta = proper_share(beta, EPS, TINY)
    weight = beta * n
    if weight < _ALONE:
        return np.full_like(gap, math.nan)
    low, above, most, lacking = _offset_bounds(SELECTORS["logistic"], beta, n, k, EPS, np)
    high = np.maximum(np.minimum(gap + above, most), low)
    s: NDArray[np.float64] = clamp(np.minimum(0.5 * gap, lacking), low, high, np)
    missing, limit = k - weight, _MARGIN * rtol * weight
    parts = np.empty((2, *exponentials.shape))
    psi, slope = parts
    searching = np.ones(gap.shape, bool)
    for _ in range(_PLAIN_STEPS):
        np.multiply(exponentials, exp_as_floats(-s), out=psi)
        psi += 1.0
        np.divide(1.0, psi, out=psi)
        np.multiply(psi, psi, out=slope)
        np.subtract(psi, slope, out=slope)
        within, inner = np.add.reduce(parts[:, :k], 1)  # from top to bottom, with the columns side by side
        others, outer = np.add.reduce(parts[:, k:], 1)
        lack, others = k - within, missing + others
        a, b = np.maximum(others, TINY), np.maximum(lack, EPS * k)
        ratio = log_as_floats(a / b, np)
        newton = clamp(s - ratio / np.maximum(outer / a + inner / b, TINY), low, high, np)
        s = np.where(searching, newton, s)  # that of a column that has its solution stays
        searching &= np.abs((others - lack) * ratio) > limit
        if not np.count_nonzero(searching):
            return s
    s[searching] = math.nan
    return s


def _offset_bounds(
    selector: Selector, beta: float, count: Any, rank: Any, eps: float, xp: ModuleType
) -> tuple[Any, Any, Any, Any]:
    """Bounds of s: `low`, `above` to be added to z_(k+1), `high`; a guess.

    With F the mean of the n weights, ``F <= (k - 1 + (n - k + 1) psi(s)) / n`` bounds the root from below, and
    ``F >= k psi(s) / n`` as well as ``F >= (k + 1) psi(s - z_(k+1)) / n`` from above. The guess, for L_(k) far from
    its neighbours, gives it the weight that is missing.
    """
    if isinstance(count, int):
        return _common_offset_bounds(selector, beta, count, rank, eps)
    expected = beta * count
    remainder = xp.maximum(expected - (rank - 1.0), xp.minimum(expected, eps * count))
    low = selector.inverse(remainder / (count - rank + 1.0) * (1.0 - eps), xp)
    above = selector.inverse(expected / (rank + 1.0), xp)
    high = selector.inverse(xp.minimum(expected / rank, xp.full_like(expected, 1.0 - eps)), xp)
    return low, above, high, selector.inverse(xp.minimum(remainder, xp.full_like(expected, 1.0 - eps)), xp)


@lru_cache(maxsize=64)
def _common_offset_bounds(
    selector: Selector, beta: float, count: int, rank: int, eps: float
) -> tuple[float, float, float, float]:
    n, k = np.asarray([float(count)]), np.asarray([float(rank)])
    low, above, high, guess = (float(bound[0]) for bound in _offset_bounds(selector, beta, n, k, eps, np))
    return low, above, high, guess
