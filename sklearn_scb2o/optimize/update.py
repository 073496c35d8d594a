"""From the values of a batch to a consensus point: one iteration of the method as pure functions."""

from __future__ import annotations

import math
from types import ModuleType
from typing import NamedTuple

from ..particles import (
    Selector,
    alpha_from_ess,
    consensus_point,
    gibbs_weights,
    hard_selection,
    order_statistics,
    soft_selection,
    tau_from_spread,
)
from ..particles.backend import Array, overflow_is_infinity
from .parameters import ESS_FRACTION, ESS_MIN, TAU_FRACTION


class Settings(NamedTuple):
    """The numbers of one iteration; alpha and tau are None where they adapt, xi is None where it is not given."""

    selection: str
    selector: Selector
    alpha: float | None
    beta: float
    tau: float | None
    xi: float | None
    lower_tol: float
    lower_max: float | None
    upper_max: float | None


class Memory(NamedTuple):
    """What one iteration hands to the next, each of shape (R, 1)."""

    lower_best: Array  #: smallest lower value seen
    offset: Array | None = None  #: where the next soft quantile starts
    scaled_alpha: Array | None = None  #: where the next alpha starts


class Selected(NamedTuple):
    """The particles that count as minimisers of L."""

    log_eta: Array  #: (R, N), -inf for those that do not count at all
    quantile: Array  #: hard quantile, (R, 1)
    rank: Array | int  #: its rank, ceil(beta n)
    tau: Array | float  #: softness; 0 where there is none
    offset: Array | None  #: where the next soft quantile may start, (R, 1)


class Update(NamedTuple):
    """What one iteration learns; leading axis R, the runs."""

    weights: Array  #: (R, N); meaningless in a dead run
    consensus: Array  #: (R, d), likewise
    failed: Array  #: (R, N), evaluations that failed
    evaluated_upper: Array  #: (R, N), rows whose upper value is known or was needed
    dead: Array | None  #: (R,), runs whose evaluations all failed; None if there are none
    lower: Array  #: (R, N), lower values as they were compared: clipped, within the tolerance equal, +inf if failed
    quantile: Array  #: (R, 1)
    alpha: Array | float
    tau: Array | float
    memory: Memory


def compared_lower(L: Array, failed: Array | None, settings: Settings, lower_best: Array, xp: ModuleType) -> tuple[Array, Array]:
    """Lower values as the selection compares them, and the smallest seen so far."""
    lower = clip_values(L, settings.lower_max, xp)
    if failed is not None:
        lower = xp.where(failed, math.inf, lower)
    lower_best = xp.minimum(lower_best, xp.min(lower, axis=-1, keepdims=True))
    if settings.lower_tol:
        # every point within lower_tol of the best counts as a minimiser
        lower = xp.maximum(lower, lower_best + settings.lower_tol)
    return lower, lower_best


def select(lower: Array, settings: Settings, offset: Array | None, alpha: Array | float | None, xp: ModuleType) -> Selected:
    """Select by lower values: log selection weights, -inf where they cannot matter.

    With tau="auto" weights below the rounding of 1 are 0; a given tau keeps everything that does not underflow, as
    a fixed alpha may make any of it count.
    """
    order = order_statistics(lower, settings.beta, xp=xp)
    if settings.selection == "none":
        return Selected(xp.where(lower < math.inf, 0.0 * order.at, -math.inf), order.at, order.rank, 0.0, offset)
    if settings.selection == "hard":
        hard = hard_selection(lower, settings.beta, order=order, xp=xp)
        return Selected(hard.log_eta, order.at, order.rank, 0.0, offset)
    info = xp.finfo(lower.dtype)
    cut = math.log(info.smallest_normal)
    tau: Array | float
    if settings.xi is not None:
        tau = 1.0 / (settings.xi * alpha)  # xi = 1 / (tau alpha)
    elif settings.tau is not None:
        tau = settings.tau
    else:
        tau, cut = tau_from_spread(order, TAU_FRACTION, xp=xp), math.log(info.eps)
    soft = soft_selection(lower, settings.beta, tau, selector=settings.selector, order=order, start=offset, xp=xp)
    return Selected(xp.where(soft.log_eta > cut, soft.log_eta, -math.inf), order.at, order.rank, tau, soft.offset)


def needed_upper(L: Array, settings: Settings, memory: Memory, xp: ModuleType) -> Array:
    """Rows of (R, N) whose upper value can get weight, given the lower values."""
    failed = ~(L < math.inf)
    if settings.xi is not None and settings.alpha is None:
        return ~failed  # tau follows from alpha, alpha from the upper values
    lower, _ = compared_lower(L, failed, settings, memory.lower_best, xp)
    lower = xp.where(xp.all(failed, axis=-1, keepdims=True), 0.0, lower)
    return (select(lower, settings, memory.offset, settings.alpha, xp).log_eta > -math.inf) & ~failed


def update_consensus(y: Array, L: Array, G: Array, settings: Settings, memory: Memory, xp: ModuleType) -> Update:
    """Selection, temperature, weights and consensus of one batch.

    Parameters
    ----------
    y : array of shape (R, N, d)
        Positions.
    L, G : array of shape (R, N)
        Values as told. NaN or +inf in L, or NaN in G where it is needed, is a failed evaluation.
    settings : Settings
        Parameters of this iteration.
    memory : Memory
        Of the last iteration.
    xp : module
        Array namespace.

    Returns
    -------
    Update
    """
    failed = ~(L < math.inf)
    unknown = G != G
    excluded, evaluated_upper = failed, ~unknown
    upper = clip_values(G, settings.upper_max, xp)
    if bool(xp.any(unknown)):
        needed = needed_upper(L, settings, memory, xp)
        evaluated_upper = evaluated_upper | needed
        # the selection of a run that misses a needed value is made anew, among the rows whose values are all known
        missed = unknown & needed
        excluded = failed | (unknown & xp.any(missed, axis=-1, keepdims=True))
        failed = failed | missed
        upper = xp.where(unknown, 0.0, upper)
    some_excluded = bool(xp.any(excluded))
    lower, lower_best = compared_lower(L, excluded if some_excluded else None, settings, memory.lower_best, xp)
    compared, dead = lower, None
    if some_excluded and bool(xp.any(xp.all(excluded, axis=-1))):
        dead = xp.all(excluded, axis=-1)
        # any finite values: nothing of such a run is used
        compared, upper = (xp.where(dead[:, None], 0.0, v) for v in (lower, upper))

    # xi needs alpha first; alpha needs the hard quantile only
    alpha, scaled_alpha = settings.alpha, memory.scaled_alpha
    first = settings._replace(selection="hard") if settings.xi is not None and alpha is None else settings
    chosen = select(compared, first, memory.offset, alpha, xp)
    if alpha is None:
        inside = compared < math.inf if settings.selection == "none" else compared <= chosen.quantile
        alpha, scaled_alpha = alpha_from_ess(upper, inside, _target_ess(chosen.rank, xp), start=scaled_alpha, xp=xp)
        if first is not settings:
            chosen = select(compared, settings, memory.offset, alpha, xp)
    log_eta = chosen.log_eta
    weights = gibbs_weights(upper, alpha, log_eta, xp=xp)
    return Update(
        weights, consensus_point(y, weights, xp=xp), failed, evaluated_upper, dead, lower, chosen.quantile, alpha,
        chosen.tau, Memory(lower_best, chosen.offset, scaled_alpha),
    )  # fmt: skip


def _target_ess(rank: Array | int, xp: ModuleType) -> Array | float:
    if isinstance(rank, int):
        return max(ESS_MIN, ESS_FRACTION * rank)
    return xp.maximum(ESS_FRACTION * rank, ESS_MIN)


@overflow_is_infinity
def clip_values(values: Array, most: float | None, xp: ModuleType) -> Array:
    """Clip at `most`, and to a range in which differences do not overflow; NaN stays NaN."""
    limit = float(xp.finfo(values.dtype).max) / 8.0
    return xp.minimum(xp.maximum(values, -limit), limit if most is None else min(most, limit))
