"""What the lower values of a batch say by themselves: which evaluations failed, which particles are selected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..particles import SELECTORS, OrderStatistics, Selector, order_statistics, soft_selection, tau_from_spread
from ..particles.backend import Array, any_true, clamp, float_info, overflow_is_infinity, row_min
from ..particles.offset import SHORT
from .long_run import RankingOfMany, rank_many
from .many_runs import RankingOfRuns, rank_runs
from .one_run import RankingOfOne, rank_one
from .parameters import TAU_FRACTION

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
        """Whether these are the settings that `rank_one` knows."""
        return (
            self.selection == "soft"
            and self.selector.log_psi is SELECTORS["logistic"].log_psi
            and self.tau is self.xi is self.lower_max is self.upper_max is None
            and not self.lower_tol
        )

    @property
    def tau_follows_upper(self) -> bool:
        """Whether tau follows from an alpha that follows from the upper values."""
        return self.xi is not None and self.alpha is None


class Selected(NamedTuple):
    """The particles that count as minimisers of L."""

    log_eta: Array  #: (R, N)
    counts: Array  #: (R, N), whether a particle can have weight at all
    tau: Array | float  #: softness; 0 where there is none


class Ranking(NamedTuple):
    """What the lower values of a batch say; masks are None where they are false throughout (known on NumPy only)."""

    lower: Array  #: as the selection compares them, (R, N): +inf where evaluations failed, anything in a dead run
    lower_best: Array  #: smallest lower value so far, (R, 1); kept up with a `lower_tol`
    failed: Array | None  #: (R, N), evaluations that failed
    dead: Array | None  #: (R,), runs whose evaluations all failed
    order: OrderStatistics
    selected: Selected | None  #: None where tau follows from the upper values

    @property
    def needed(self) -> Array:
        """Rows whose upper value can get weight, (R, N)."""
        counts = self.lower < math.inf if self.selected is None else self.selected.counts
        return counts if self.failed is None else counts & ~self.failed

    def take(self, rows: Array, xp: ModuleType) -> Ranking:
        """The ranking of some rows."""
        return _take(self, rows, xp)


class RankingOfParts(NamedTuple):
    """Those of several runs that are not treated together."""

    parts: list[tuple[Any, AnyRanking]]  #: indices of some of the runs, or a slice, and their ranking

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Rows whose upper value can get weight, (R, N)."""
        return in_order([(runs, ranking.needed) for runs, ranking in self.parts])


AnyRanking: TypeAlias = "Ranking | RankingOfOne | RankingOfRuns | RankingOfMany | RankingOfParts"


def in_order(parts: list[tuple[Any, NDArray[Any]]]) -> NDArray[Any]:
    """Rows of some of the runs, and of others, as rows of all runs."""
    joined = np.concatenate([rows for _, rows in parts])
    runs = np.concatenate([np.arange(len(joined))[some] for some, _ in parts])
    return joined if (runs[:-1] < runs[1:]).all() else joined[runs.argsort()]


class Remembered(NamedTuple):
    """A ranking, with what it was made of."""

    L: Array
    settings: Settings
    lower_best: Array
    ranking: AnyRanking


def recall(known: Remembered | None, L: Array, settings: Settings, lower_best: Array) -> AnyRanking | None:
    """The ranking that is remembered, if it is that of these values, to the bit, under these settings."""
    if known is None or known.lower_best is not lower_best or known.settings != settings:
        return None
    return known.ranking if known.L.tobytes() == L.tobytes() else None


def rank(L: Array, settings: Settings, lower_best: Array, xp: ModuleType) -> AnyRanking:
    """What lower values (R, N) say, given the smallest ones before, (R, 1)."""
    if not (xp is np and settings.is_usual and L.dtype.char == "d"):
        return rank_on_arrays(L, settings, lower_best, xp)
    if len(L) > 1:
        return _rank_several(L, settings, lower_best)
    known = (rank_many if L.shape[1] > SHORT else rank_one)(L, settings.beta, _RTOL)
    return rank_on_arrays(L, settings, lower_best, np) if known is None else known


def _rank_several(L: Array, settings: Settings, lower_best: Array) -> AnyRanking:
    """`rank` of several runs with usual settings on NumPy: those of many particles take turns."""
    if L.shape[1] > SHORT:
        turns = [slice(r, r + 1) for r in range(len(L))]
        return RankingOfParts([(r, rank(L[r], settings, lower_best[r], np)) for r in turns])
    found = rank_runs(L, settings.beta, _RTOL)
    if isinstance(found, RankingOfRuns):
        return found
    usual, others = found.nonzero()[0], (~found).nonzero()[0]
    on_arrays = rank_on_arrays(L[others], settings, lower_best[others], np)
    if not len(usual):
        return on_arrays
    return RankingOfParts([(usual, rank(L[usual], settings, lower_best[usual], np)), (others, on_arrays)])


@overflow_is_infinity
def rank_on_arrays(L: Array, settings: Settings, lower_best: Array, xp: ModuleType) -> Ranking:
    """`rank` in general: any array library, any number of runs, failed evaluations."""
    values, failed, dead = L, None, None
    if not (xp is np and is_tame(L)):
        values, failed = clip_values(L, xp), ~(math.inf > L)
        dead = xp.all(failed, axis=-1)
        if xp is np and not any_true(dead, xp):
            dead = None
    lower, lower_best = _compared(values, failed, settings, lower_best, xp)
    if dead is not None:  # any finite values: nothing of such a run is used
        lower = xp.where(dead[:, None], 0.0, lower)
    order = order_statistics(lower, settings.beta, xp=xp)
    selected = None if settings.tau_follows_upper else select(lower, order, settings, settings.alpha, xp)
    return Ranking(lower, lower_best, failed, dead, order, selected)


def _compared(
    lower: Array, failed: Array | None, settings: Settings, lower_best: Array, xp: ModuleType
) -> tuple[Array, Array]:
    """Lower values as the selection compares them, +inf where they failed, and the smallest seen so far."""
    if settings.lower_max is not None:
        lower = xp.minimum(lower, settings.lower_max)
    if failed is not None:
        lower = xp.where(failed, math.inf, lower)
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
        return Selected(xp.zeros_like(lower), lower < math.inf, 0.0)
    if settings.selection == "hard":
        return Selected(xp.zeros_like(lower), lower <= order.at, 0.0)
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
    return Selected(log_eta, log_eta > cut, tau)


def is_tame(values: NDArray[Any]) -> bool:
    """Whether all values are finite and so far from overflow that nothing needs care: nearly always."""
    return bool(np.vdot(values, values) < math.inf)  # unlike `dot`, it gives no warnings


def clip_values(values: Array, xp: ModuleType) -> Array:
    """Values in a range in which differences do not overflow; +inf and NaN stay what they are."""
    limit = float_info(values, xp)[2] / 8.0
    return xp.where(values < math.inf, clamp(values, -limit, limit, xp), values)


def _take(value: Any, rows: Array, xp: ModuleType) -> Any:
    """Rows of an array, or of each array of a tuple; of anything else itself."""
    if isinstance(value, tuple):
        return type(value)(*(_take(v, rows, xp) for v in value))
    return xp.take(value, rows, axis=0) if hasattr(value, "shape") else value
