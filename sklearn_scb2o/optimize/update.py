"""From the values of a batch to a consensus point: one iteration of the method as pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..particles import (
    SELECTORS,
    OrderStatistics,
    Selector,
    alpha_from_rank,
    consensus_point,
    gibbs_weights,
    order_statistics,
    soft_selection,
    tau_from_spread,
)
from ..particles.backend import Array, any_true, as_index, clamp, float_info, overflow_is_infinity, row_min
from .one_run import weigh
from .parameters import ALPHA_FRACTION, TAU_FRACTION

# Relative accuracy of the mean selection weight within the iteration.
_RTOL = 1e-9


@dataclass(frozen=True)
class Settings:
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

    @cached_property
    def is_usual(self) -> bool:
        """Whether these are the settings that `weigh` knows."""
        return (
            self.selection == "soft"
            and self.selector.log_psi is SELECTORS["logistic"].log_psi
            and self.tau is self.xi is self.lower_max is self.upper_max is None
            and not self.lower_tol
        )


class Selected(NamedTuple):
    """The particles that count as minimisers of L."""

    log_eta: Array  #: (R, N)
    counts: Array  #: (R, N), whether a particle can have weight at all
    quantile: Array  #: hard quantile, (R, 1)
    rank: Array | int  #: its rank, ceil(beta n)
    tau: Array | float  #: softness; 0 where there is none


class Update(NamedTuple):
    """What one iteration learns; leading axis R, the runs."""

    weights: Array  #: (R, N); meaningless in a dead run
    consensus: Array  #: (R, d), likewise
    failed: Array | None  #: (R, N), evaluations that failed; None if there are none (known on NumPy only, as below)
    evaluated_upper: Array | None  #: (R, N), rows whose upper value is known or was needed; None if all are
    dead: Array | None  #: (R,), runs whose evaluations all failed; None if there are none
    quantile: Array | float  #: hard quantile, (R, 1)
    alpha: Array | float
    tau: Array | float
    lower_best: Array  #: smallest lower value so far, (R, 1); kept up with a `lower_tol`


def compared_lower(
    L: Array, excluded: Array | None, settings: Settings, lower_best: Array, xp: ModuleType
) -> tuple[Array, Array]:
    """Lower values as the selection compares them, +inf where excluded, and the smallest seen so far."""
    lower = L if settings.lower_max is None else xp.minimum(L, settings.lower_max)
    if excluded is not None:
        lower = xp.where(excluded, math.inf, lower)
    if settings.lower_tol:
        # every point within lower_tol of the best counts as a minimiser
        lower_best = xp.minimum(lower_best, row_min(lower, xp))
        lower = xp.maximum(lower, lower_best + settings.lower_tol)
    return lower, lower_best


def select(
    lower: Array, order: OrderStatistics, settings: Settings, alpha: Array | float | None, xp: ModuleType
) -> Selected:
    """Select by lower values: log selection weights, and which of them can matter.

    With tau="auto" weights below the rounding of 1 do not count; with a given tau everything does that does not
    underflow, as a fixed alpha may make any of it matter.
    """
    if settings.selection == "none":
        return Selected(xp.zeros_like(lower), lower < math.inf, order.at, order.rank, 0.0)
    if settings.selection == "hard":
        return Selected(xp.zeros_like(lower), lower <= order.at, order.at, order.rank, 0.0)
    eps, tiny, _ = float_info(lower, xp)
    cut = math.log(tiny)
    tau: Array | float
    if settings.xi is not None and alpha is not None:
        tau = 1.0 / settings.xi / (alpha + xp.zeros_like(order.at))  # xi = 1 / (tau alpha)
        tau = xp.maximum(tau, tiny)
    elif settings.tau is not None:
        tau = settings.tau
    else:
        tau = tau_from_spread(order, TAU_FRACTION, xp=xp)
        # relative to the largest weight, which is far below 1 where less than one particle is to be selected
        cut = math.log(eps) + min(0.0, math.log(settings.beta * lower.shape[-1]))
    log_eta = soft_selection(
        lower,
        settings.beta,
        tau,
        selector=settings.selector,
        order=order,
        rtol=max(_RTOL, 32 * eps),
        least=cut,
        xp=xp,
    ).log_eta
    return Selected(log_eta, log_eta > cut, order.at, order.rank, tau)


def needed_upper(L: Array, settings: Settings, lower_best: Array, xp: ModuleType) -> Array:
    """Rows of (R, N) whose upper value can get weight, given the lower values."""
    values = clip_values(L, xp)
    failed = ~(values < math.inf)
    if settings.xi is not None and settings.alpha is None:
        return ~failed  # tau follows from alpha, alpha from the upper values
    lower, _ = compared_lower(values, failed, settings, lower_best, xp)
    lower = xp.where(xp.all(failed, axis=-1, keepdims=True), 0.0, lower)
    order = order_statistics(lower, settings.beta, xp=xp)
    return select(lower, order, settings, settings.alpha, xp).counts & ~failed


def update_consensus(y: Array, L: Array, G: Array, settings: Settings, lower_best: Array, xp: ModuleType) -> Update:
    """Selection, temperature, weights and consensus of one batch.

    Parameters
    ----------
    y : array of shape (R, N, d)
        Positions.
    L, G : array of shape (R, N)
        Values as told. NaN or +inf in L, or NaN in G where it is needed, is a failed evaluation.
    settings : Settings
        Parameters of this iteration.
    lower_best : array of shape (R, 1)
        Smallest lower value of the iterations before; used with a `lower_tol`.
    xp : module
        Array namespace.

    Returns
    -------
    Update
    """
    if xp is np and len(L) == 1 and settings.is_usual:
        known = weigh(L, G, settings.beta, settings.alpha, _RTOL)
        if known is not None:
            weights, quantile, alpha, tau = known
            m = np.matmul(weights, y[0])
            return Update(weights, m, None, None, None, quantile, alpha, tau, lower_best)
    return _update_on_arrays(y, L, G, settings, lower_best, xp)


@overflow_is_infinity
def _update_on_arrays(y: Array, L: Array, G: Array, settings: Settings, lower_best: Array, xp: ModuleType) -> Update:
    """`update_consensus` in general: any array library, any number of runs, failed evaluations."""
    lower, upper, failed, evaluated_upper, dead = L, G, None, None, None
    alpha: Array | float | None
    if xp is np and is_tame(G) and is_tame(L):
        lower, lower_best = compared_lower(L, None, settings, lower_best, xp)
    else:
        failed, evaluated_upper, excluded, upper = _failures(L, G, settings, lower_best, xp)
        lower, lower_best = compared_lower(clip_values(L, xp), excluded, settings, lower_best, xp)
        dead = xp.all(excluded, axis=-1)
        if xp is np and not any_true(dead, xp):
            dead = None
        else:  # any finite values: nothing of such a run is used
            lower, upper = (xp.where(dead[:, None], 0.0, v) for v in (lower, upper))
    if settings.upper_max is not None:
        upper = xp.minimum(upper, settings.upper_max)

    order = order_statistics(lower, settings.beta, xp=xp)
    alpha = settings.alpha
    if alpha is None:
        inside = lower < math.inf if settings.selection == "none" else lower <= order.at
        alpha = alpha_from_rank(upper, inside, _alpha_rank(order.rank, xp), xp=xp)
    chosen = select(lower, order, settings, alpha, xp)
    weights = gibbs_weights(xp.where(chosen.counts, upper, math.inf), alpha, chosen.log_eta, xp=xp)
    quantile = order.at if dead is None else xp.where(dead[:, None], math.nan, order.at)
    return Update(
        weights, consensus_point(y, weights, xp=xp), failed, evaluated_upper, dead, quantile, alpha, chosen.tau,
        lower_best,
    )  # fmt: skip


def _failures(L: Array, G: Array, settings: Settings, lower_best: Array, xp: ModuleType) -> tuple[Array, ...]:
    """Which evaluations failed, which rows have or needed an upper value, which rows are out; and a finite G."""
    failed, unknown = ~(math.inf > L), G != G
    # +inf in G is data, as bad as can be
    upper = clip_values(G, xp)
    upper = xp.minimum(upper, float_info(upper, xp)[2] / 8.0)
    if xp is np and not any_true(unknown, xp):
        return failed, ~unknown, failed, upper
    needed = needed_upper(L, settings, lower_best, xp)
    missed = unknown & needed
    # the selection of a run that misses a needed value is made anew, among the rows whose values are all known
    excluded = failed | (unknown & xp.any(missed, axis=-1, keepdims=True))
    return failed | missed, ~unknown | needed, excluded, xp.where(unknown, 0.0, upper)


def _alpha_rank(rank: Array | int, xp: ModuleType) -> Array | int:
    if isinstance(rank, int):
        return max(1, round(ALPHA_FRACTION * rank))
    return as_index(xp.maximum(xp.round(ALPHA_FRACTION * rank), 1.0), xp)


def is_tame(values: NDArray[Any]) -> bool:
    """Whether all values are finite and so far from overflow that nothing needs care: nearly always."""
    flat = values.reshape(-1)
    return bool(flat.dot(flat) < math.inf)  # which gives no warnings


def clip_values(values: Array, xp: ModuleType) -> Array:
    """Values in a range in which differences do not overflow; +inf and NaN stay what they are."""
    limit = float_info(values, xp)[2] / 8.0
    return xp.where(values < math.inf, clamp(values, -limit, limit, xp), values)
