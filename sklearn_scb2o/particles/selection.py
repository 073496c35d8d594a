"""Which particles count as minimisers of the lower objective: hard and soft quantiles, selection weights."""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from .backend import (
    FLOATS,
    Array,
    any_true,
    as_column,
    as_index,
    as_number,
    clamp,
    float_info,
    get_namespace,
    overflow_is_infinity,
    row_sum,
    run_numbers,
)
from .long_rows import offset_near, parted, sums_of_long_row
from .offset import SHORT, proper_share, solve_offset, sums_of_rows
from .selectors import SELECTORS, Selector

# Distance in units of tau above L_(k + 1) from which on values have no weight beside that one.
_FAR = 50.0
# Rows longer than the first begin with the quantile of a sample of about the second.
_SAMPLED, _SAMPLE = 100_000, 16_384
# The rank ceil(beta * n) is taken of beta * n less this relative slack, so that 0.07 * 100 = 7.000000000000001
# is rank 7 and not 8.
_RANK_SLACK = 1e-12


class OrderStatistics(NamedTuple):
    """What the sorted lower values say about the quantile.

    Parameters
    ----------
    count : int or array of shape (..., 1)
        n, evaluations that did not fail; on NumPy an int where it is N in every run.
    rank : int or array of shape (..., 1)
        ``k = ceil(beta n)``, likewise.
    first : array of shape (..., 1)
        L_(1).
    at : array of shape (..., 1)
        L_(k), the hard quantile.
    after : array of shape (..., 1)
        L_(k + 1), +inf where k = n.
    ordered : array of shape (..., N)
        All values in order; of long rows on NumPy only the k smallest before the others.
    """

    count: Array | int  # type: ignore[assignment]
    rank: Array | int
    first: Array
    at: Array
    after: Array
    ordered: Array


def order_statistics(L: Array, beta: float, *, xp: ModuleType | None = None) -> OrderStatistics:
    """Sort the lower values of each run and read off those around rank ceil(beta n).

    Parameters
    ----------
    L : array of shape (..., N)
        Lower values. +inf marks a failed evaluation: it counts neither in n nor in any rank. NaN and -inf are
        not allowed, and each run needs one finite value.
    beta : float in (0, 1]
        Quantile level.
    xp : module, optional
        Array namespace of `L`; inferred by default.

    Returns
    -------
    OrderStatistics

    Examples
    --------
    >>> import numpy as np
    >>> order = order_statistics(np.asarray([4.0, 1.0, np.inf, 3.0, 2.0]), 0.5)
    >>> float(order.at[0]), float(order.after[0])
    (2.0, 3.0)
    """
    xp = get_namespace(L, xp=xp)
    if xp is np and L.shape[-1] > SHORT:
        return _order_of_long_rows(L, beta)
    ordered = xp.sort(L, axis=-1)
    N = L.shape[-1]
    if xp is np and not any_true(ordered[..., -1] == math.inf, xp):
        k = quantile_rank(beta, N)
        at = ordered[..., k - 1 : k]
        after = ordered[..., k : k + 1] if k < N else at + math.inf
        return OrderStatistics(N, k, ordered[..., :1], at, after, ordered)
    count = row_sum(xp.astype(math.inf > L, L.dtype), xp)
    slack = max(_RANK_SLACK, 2.0 * float_info(L, xp)[0])
    rank = clamp(xp.ceil(beta * count * (1.0 - slack)), 1.0, count, xp)
    padded = xp.concat([ordered, xp.full_like(ordered[..., :1], math.inf)], axis=-1)
    index = as_index(rank, xp)
    at = xp.take_along_axis(padded, index - 1, axis=-1)
    after = xp.take_along_axis(padded, index, axis=-1)
    return OrderStatistics(count, rank, ordered[..., :1], at, after, ordered)


def _order_of_long_rows(L: Array, beta: float) -> OrderStatistics:
    rows = L.reshape(-1, L.shape[-1])
    counts = rows.shape[-1] - np.count_nonzero(rows == math.inf, axis=-1)
    ranks = [quantile_rank(beta, int(n)) for n in counts]
    in_parts = [parted(row, k) for row, k in zip(rows, ranks, strict=True)]
    ends = [
        (row[:k].min(), row[k - 1], row[k:].min() if k < row.size else math.inf)
        for row, k in zip(in_parts, ranks, strict=True)
    ]
    shape = (*L.shape[:-1], 1)
    first, at, after = (np.array(column, L.dtype).reshape(shape) for column in zip(*ends, strict=True))
    ordered = (in_parts[0] if len(in_parts) == 1 else np.stack(in_parts)).reshape(L.shape)
    if (counts == rows.shape[-1]).all():
        return OrderStatistics(rows.shape[-1], ranks[0], first, at, after, ordered)
    count, rank = (np.reshape(v, shape).astype(L.dtype) for v in (counts, ranks))
    return OrderStatistics(count, rank, first, at, after, ordered)


@lru_cache(maxsize=64)
def quantile_rank(beta: float, n: int) -> int:
    """The rank ceil(beta n) of the hard quantile of n values."""
    return min(n, max(1, math.ceil(beta * n * (1 - _RANK_SLACK))))


def hard_quantile(L: Array, beta: float, *, xp: ModuleType | None = None) -> Array:
    r"""Hard quantile ``q = L_(ceil(beta n))`` of CB2O, the ceil(beta n)-th smallest lower value.

    Parameters
    ----------
    L : array of shape (..., N)
        Lower values; +inf marks a failed evaluation, which does not count in n.
    beta : float in (0, 1]
        Quantile level.
    xp : module, optional
        Array namespace of `L`; inferred by default.

    Returns
    -------
    array of shape (...)

    References
    ----------
    Section "Soft consensus-based bi-level optimization" of the SCB2O paper; arXiv 2411.13394.

    Examples
    --------
    >>> import numpy as np
    >>> float(hard_quantile(np.asarray([4.0, 1.0, 3.0, 2.0]), 0.5))
    2.0
    """
    return order_statistics(L, beta, xp=xp).at[..., 0]


class Selection(NamedTuple):
    """A selection of particles by their lower values.

    Parameters
    ----------
    quantile : array of shape (..., 1)
        The quantile q.
    log_eta : array of shape (..., N)
        Logarithms of the selection weights, at most 0.
    """

    quantile: Array
    log_eta: Array


def hard_selection(
    L: Array, beta: float, *, order: OrderStatistics | None = None, xp: ModuleType | None = None
) -> Selection:
    """Selection weights of CB2O, ``eta_i = 1{L_i <= q}`` with the hard quantile q, ties included.

    Parameters
    ----------
    L, beta
        As in `hard_quantile`.
    order : OrderStatistics, optional
        Of `L` and `beta`, where they are known already.
    xp : module, optional
        Array namespace of `L`; inferred by default.

    Returns
    -------
    Selection
        `log_eta` is 0 or -inf.

    Examples
    --------
    >>> import numpy as np
    >>> hard_selection(np.asarray([4.0, 1.0, 2.0, 2.0]), 0.5).log_eta
    array([-inf,   0.,   0.,   0.])
    """
    xp = get_namespace(L, xp=xp)
    order = order_statistics(L, beta, xp=xp) if order is None else order
    return Selection(order.at, xp.where(order.at >= L, 0.0 * order.at, -math.inf))


@overflow_is_infinity
def soft_selection(
    L: Array,
    beta: float,
    tau: Array | float,
    *,
    selector: Selector = SELECTORS["logistic"],
    order: OrderStatistics | None = None,
    start: Array | None = None,
    rtol: float | None = None,
    least: float = -math.inf,
    xp: ModuleType | None = None,
) -> Selection:
    r"""Soft quantile and selection weights of SCB2O.

    The soft quantile q of each run is the unique solution of

    .. math:: \frac1n \sum_i \psi((q - L_i) / \tau) = \beta,

    and the selection weights are ``eta_i = psi((q - L_i)/tau)``, returned as logarithms. For tau -> 0 they become
    those of `hard_selection`, for tau -> infinity they all become beta.

    It is solved by Newton's method, see `solve_offset`, in three steps as a rule; on libraries other than NumPy the
    number of steps is fixed, so that nothing waits for a device.

    Parameters
    ----------
    L : array of shape (..., N)
        Lower values, finite up to the largest float; +inf marks a failed evaluation (weight 0, not in n).
    beta : float in (0, 1]
        Mean of the weights. ``beta = 1`` is its limit: every particle is selected.
    tau : float or array of shape (..., 1), positive
        Softness, in units of L.
    selector : Selector
        The function psi.
    order : OrderStatistics, optional
        Of `L` and `beta`, where they are known already.
    start : array of shape (..., 1), optional
        First guess of the quantile, such as that of a similar call; by default from the order statistics.
    rtol : float, optional
        Relative accuracy of the mean weight, 1e-13 by default in float64 and 4e-6 in float32.
    least : float
        Logarithms of weights below this are not needed: on NumPy they may be -inf, which saves working them out.
    xp : module, optional
        Array namespace of `L`; inferred by default.

    Returns
    -------
    Selection
        The mean of ``exp(log_eta)`` over the n evaluations agrees with beta to a relative 1e-12 in float64 and
        1e-5 in float32.

    References
    ----------
    SCB2O paper, equation (soft quantile) and the lemma on its existence and uniqueness.

    Examples
    --------
    >>> import numpy as np
    >>> selection = soft_selection(np.asarray([3.0, 1.0, 2.0, 4.0]), 0.5, 0.1)
    >>> round(float(selection.quantile[0]), 6)
    2.5
    >>> np.exp(selection.log_eta).round(3)
    array([0.007, 1.   , 0.993, 0.   ])
    """
    xp = get_namespace(L, xp=xp)
    order = order_statistics(L, beta, xp=xp) if order is None else order
    s = _offset(L, beta, tau, selector, order, start, rtol, xp)
    return Selection(order.at + tau * s, _log_eta(L, order.at, tau, s, selector, least, xp))


def _offset(
    L: Array, beta: float, tau: Any, selector: Selector, order: OrderStatistics, start: Any, rtol: float | None,
    xp: ModuleType,
) -> Array:  # fmt: skip
    """The offset ``(q - L_(k)) / tau`` of each run, (..., 1)."""
    eps, tiny, _ = float_info(L, xp)
    beta = proper_share(beta, eps, tiny)
    if rtol is None:
        rtol = 1e-13 if eps < 1e-10 else 4e-6
    if xp is np and L.shape[-1] > SHORT:
        return _offsets_of_long_rows(order.ordered, beta, tau, selector, order, start, rtol)
    lib, at, after = run_numbers(xp, order.at, order.after)
    n, k, tau = (as_number(v, lib) for v in (order.count, order.rank, tau))
    if lib is not xp:
        n, k = int(n), int(k)
    ordered = order.ordered
    if xp is np and L.dtype == np.float64:
        # summed from left to right, all that follows would not change a sum by its last bit
        is_near = (ordered <= order.after + _FAR * tau).reshape(-1, ordered.shape[-1])
        ordered = ordered[..., : np.count_nonzero(np.logical_or.reduce(is_near, 0))]
    z = (ordered - at) / tau  # infinities are right limits
    s = solve_offset(
        sums_of_rows(selector, z, k, lib, xp), (after - at) / tau, selector, beta, n, k,
        start=None if start is None else (as_number(start, lib) - at) / tau,
        rtol=rtol, eps=eps, tiny=tiny, lib=lib, xp=xp,
    )  # fmt: skip
    return as_column(s, L, lib)


def _offsets_of_long_rows(
    ordered: Array, beta: float, tau: Any, selector: Selector, order: OrderStatistics, start: Any, rtol: float
) -> Array:
    rows, shape = ordered.reshape(-1, ordered.shape[-1]), (*ordered.shape[:-1], 1)
    eps, tiny, _ = float_info(ordered, np)
    columns = (order.at, order.after, tau, order.count, order.rank, math.nan if start is None else start)
    numbers = np.stack([np.broadcast_to(v, shape).reshape(-1) for v in columns], axis=-1).tolist()
    offsets = [
        solve_offset(
            sums_of_long_row(selector, row, at, after, t, int(k), beta, rtol), (after - at) / t, selector, beta,
            int(n), int(k), start=None if guess != guess else (guess - at) / t,
            rtol=rtol, eps=eps, tiny=tiny, lib=FLOATS, xp=np,
        )
        for row, (at, after, t, n, k, guess) in zip(rows, numbers, strict=True)
    ]  # fmt: skip
    return np.array(offsets, ordered.dtype).reshape(shape)


def _log_eta(L: Array, at: Array, tau: Any, s: Array, selector: Selector, least: float, xp: ModuleType) -> Array:
    """Log selection weights ``log psi(s - (L - L_(k)) / tau)``, on NumPy -inf where they are below `least`."""
    if xp is not np or least == -math.inf:
        return selector.log_psi(s - (L - at) / tau, xp)
    index, u = _in_reach(L, at, tau, s, least)
    out = np.full(L.shape, -math.inf, L.dtype)
    out.put(index, selector.log_psi(u, np))
    return out


def _in_reach(L: Array, at: Array, tau: Any, s: Array, least: float) -> tuple[Array, Array]:
    """On NumPy: which elements of all runs may have a log weight above `least`, and ``(q - L)/tau`` there."""
    # log psi(u) is at most about u
    (index,) = (at + (s + (1.0 - least)) * tau >= L).reshape(-1).nonzero()
    row = index // L.shape[-1]
    at, tau, s = (np.ravel(np.asarray(v, L.dtype)) for v in (at, tau, s))
    at, tau, s = (v if v.size == 1 else v.take(row) for v in (at, tau, s))
    return index, s - (L.take(index) - at) / tau


def scores_in_reach(
    L: Array, beta: float, tau: Array, selector: Selector, order: OrderStatistics, rtol: float, least: float
) -> tuple[Array, Array]:
    """`soft_selection` of a run on NumPy: which log weights may exceed `least`, and ``(q - L)/tau`` there."""
    s = _offset(L, beta, tau, selector, order, None, rtol, np)
    return _in_reach(L, order.at, tau, s, least)


def soft_quantile(
    L: Array,
    beta: float,
    tau: Array | float,
    *,
    selector: Selector = SELECTORS["logistic"],
    start: Array | None = None,
    rtol: float | None = None,
    xp: ModuleType | None = None,
) -> Array:
    """Soft quantile q of each run: the solution of ``mean_i psi((q - L_i)/tau) = beta``.

    The quantile of `soft_selection`, where the method is described. Of a long row on NumPy it is found without order
    statistics where `start`, or the quantile of a sample of a very long one, is within 2 tau of it.

    Parameters
    ----------
    L, beta, tau, selector
        As in `soft_selection`.
    start : array of shape (...), optional
        First guess of the quantile.
    rtol, xp
        As in `soft_selection`.

    Returns
    -------
    array of shape (...)
        The quantile of each run, in units of L.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(soft_quantile(np.asarray([0.0, 1.0]), 0.5, 1.0)), 12)
    0.5
    """
    xp = get_namespace(L, xp=xp)
    if xp is np and L.ndim == 1 and L.size > SHORT and beta < 1.0:
        width = np.asarray(tau).item()
        guess = _quantile_of_sample(L, beta, width, selector) if start is None else float(start)
        tolerance = rtol if rtol is not None else 1e-13 if L.dtype == np.float64 else 4e-6
        near = None if guess is None else offset_near(selector, L, guess, width, beta, tolerance)
        if guess is not None and near is not None:
            return np.asarray(guess + width * near, L.dtype)
    order = order_statistics(L, beta, xp=xp)
    first = None if start is None else xp.asarray(start)[..., None]
    return (order.at + tau * _offset(L, beta, tau, selector, order, first, rtol, xp))[..., 0]


def _quantile_of_sample(row: Array, beta: float, tau: float, selector: Selector) -> float | None:
    """About the soft quantile of a very long row on NumPy; None where that would not pay or all of it failed."""
    sample = row[:: row.size // _SAMPLE] if row.size > _SAMPLED else row[:0]
    return float(soft_quantile(sample, beta, tau, selector=selector, rtol=1e-3)) if (sample < math.inf).any() else None
