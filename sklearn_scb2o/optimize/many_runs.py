"""The usual iteration of several runs of few particles, side by side on arrays.

For each run it does the arithmetic of `one_run`, in its order: a run has the same result, to the bit, alone and among
others. Once the lower values are sorted, only particles that can have weight are looked at, a fifth of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..particles import consensus_point
from ..particles.adaptation import ALPHA_DECAY
from ..particles.backend import exp_as_floats, overflow_is_infinity
from ..particles.offset import TINY, solve_offsets_of_columns
from ..particles.selection import quantile_rank
from .one_run import FAR, TAME, WIDEST, least_log
from .parameters import ALPHA_FRACTION, TAU_FRACTION

Floats = NDArray[np.float64]


class RankingOfRuns(NamedTuple):
    """What the lower values of a batch of several runs say, where nothing is out of the ordinary."""

    used: NDArray[np.intp]  #: elements of an (R, N) array that can have weight, run by run
    counts: NDArray[np.intp]  #: how many of each run, (R,)
    eta: Floats  #: their selection weights
    inside: NDArray[np.bool_]  #: which of them are inside the hard quantile of their run
    shape: tuple[int, int]  #: (R, N)
    quantile: Floats  #: hard quantiles, (R, 1)
    rank: int  #: k
    tau: Floats  #: (R, 1)

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Rows whose upper value can get weight, (R, N)."""
        mask = np.zeros(self.shape, dtype=bool)
        mask.put(self.used, True)
        return mask

    @overflow_is_infinity
    def runs_that_are_tame(self, G: Floats) -> NDArray[np.bool_]:
        """Runs whose upper values `weigh` can take, (R,)."""
        upper = G.take(self.used)
        return np.add.reduceat(upper * upper, self._starts) < np.inf

    @property
    def _starts(self) -> NDArray[np.intp]:
        return self.counts.cumsum() - self.counts

    @overflow_is_infinity
    def weigh(self, y: Floats, G: Floats, alpha: float | None) -> tuple[Floats, Floats, Floats | float]:
        """Weights of the particles, (R, N), consensus points, (R, d), and alpha, (R, 1) where it adapts.

        Given positions (R, N, d) and upper values (R, N), those `used` tame. alpha is None where it adapts.
        """
        upper = G.take(self.used)
        of_runs = self._alpha_from_rank(upper) if alpha is None else np.full(len(G), alpha)
        above = upper - np.minimum.reduceat(upper, self._starts).repeat(self.counts)
        weights = np.zeros(G.shape)
        weights.put(self.used, np.exp(above * -np.maximum(of_runs, TINY).repeat(self.counts)) * self.eta)
        weights /= np.add.reduce(weights, -1, keepdims=True)
        return weights, consensus_point(y, weights, xp=np), of_runs[:, None] if alpha is None else alpha

    def _alpha_from_rank(self, upper: Floats) -> Floats:
        """`alpha_from_rank` of the values inside the quantile of each run, (R,)."""
        n_runs = self.shape[0]
        rank = max(1, round(ALPHA_FRACTION * self.rank))
        inside = upper[self.inside]
        if inside.size == n_runs * self.rank:
            ordered = np.sort(inside.reshape(n_runs, self.rank), axis=-1)
            at = ordered[:, min(rank, self.rank - 1)]
        else:  # ties at the quantile
            rows = np.full(self.shape, np.inf)
            rows.put(self.used[self.inside], inside)
            ordered = np.sort(rows, axis=-1)
            last = np.count_nonzero(ordered < np.inf, axis=-1) - 1
            at = ordered[np.arange(n_runs), np.minimum(rank, last)]
        return ALPHA_DECAY / np.maximum(at - ordered[:, 0], 4.0 * TINY)


@overflow_is_infinity
def rank_runs(L: Floats, beta: float, rtol: float) -> RankingOfRuns | NDArray[np.bool_]:
    """What lower values (R, N) say with usual settings; where arrays must do some runs, which they need not, (R,)."""
    n_runs, N = L.shape
    k = quantile_rank(beta, N)
    if k == N:
        return np.zeros(n_runs, bool)
    ordered = np.sort(L, axis=-1)
    is_tame = (ordered[:, 0] > -TAME) & (ordered[:, -1] < TAME)
    if np.count_nonzero(is_tame) < n_runs:
        return is_tame
    first, at, after = (ordered[:, i].copy() for i in (0, k - 1, k))
    tau = np.maximum(TAU_FRACTION * (at - first), TINY)
    gap = (after - at) / tau
    is_usual = gap < WIDEST
    if np.count_nonzero(is_usual) < n_runs:
        return is_usual
    in_reach = np.logical_or.reduce(ordered <= (after + FAR * tau)[:, None], 0)
    columns = ordered[:, : np.count_nonzero(in_reach)].T.copy()
    exponentials = np.exp((columns - at) / tau)
    s = solve_offsets_of_columns(exponentials, gap, beta, N, k, rtol)
    bound = at + (s - least_log(beta, N)) * tau
    is_usual = bound >= at  # NaN where no offset was found
    if np.count_nonzero(is_usual) < n_runs:
        return is_usual
    (used,) = (bound[:, None] >= L).reshape(-1).nonzero()
    ends = used.searchsorted(N * np.arange(n_runs + 1))
    counts = ends[1:] - ends[:-1]
    lower, quantile = L.take(used), at.repeat(counts)
    eta = 1.0 / (1.0 + exp_as_floats(-s).repeat(counts) * np.exp((lower - quantile) / tau.repeat(counts)))
    return RankingOfRuns(used, counts, eta, lower <= quantile, L.shape, at[:, None], k, tau[:, None])
