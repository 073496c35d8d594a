"""The usual iteration of one run of few particles, on Python floats.

With a hundred particles an operation on an array costs as much as on a dozen floats, and of the values in order only
the first dozens have any weight. So where nothing out of the ordinary happens, this takes a third of the time of the
array functions that it stands for: `order_statistics`, `tau_from_spread`, `soft_selection`, `alpha_from_rank`,
`gibbs_weights`. What is out of the ordinary is left to them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..particles.adaptation import ALPHA_DECAY
from ..particles.offset import EPS, TINY, solve_offset_of_floats
from ..particles.selection import quantile_rank
from .parameters import ALPHA_FRACTION, TAU_FRACTION

TAME = 1e150  # differences and squares of values below do not overflow
_LOG_EPS = math.log(EPS)
# Distances in units of tau. Values farther than FAR above the next one outside the quantile have no weight; where
# that one is farther than WIDEST from the quantile, exponentials might overflow.
FAR, WIDEST = 50.0, 400.0


class RankingOfOne(NamedTuple):
    """What the lower values of a batch of one run say, where nothing is out of the ordinary."""

    used: NDArray[np.intp]  #: particles that can have weight, by their lower values
    eta: list[float]  #: their selection weights
    inside: int  #: how many of them are inside the hard quantile: k, or more with ties
    n: int  #: N
    quantile: float  #: hard quantile
    rank: int  #: k
    tau: float

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Rows whose upper value can get weight, (1, N)."""
        mask = np.zeros((1, self.n), dtype=bool)
        mask[0, self.used] = True
        return mask

    def weigh(
        self, y: NDArray[Any], G: NDArray[Any], alpha: float | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Weights of the particles, (1, N), consensus, (1, d), and alpha.

        Given positions (1, N, d) and upper values (1, N), those `used` tame. alpha is None where it adapts.
        """
        upper = G.take(self.used).tolist()
        if alpha is None:
            alpha = _alpha_from_rank(sorted(upper[: self.inside]), max(1, round(ALPHA_FRACTION * self.rank)))
        # the particle of least G has an eta that is no less than the rounding of 1: the sum does not vanish
        best, slope = min(upper), -max(alpha, TINY)
        weights = np.zeros(G.shape)
        weights.put(self.used, np.exp([(g - best) * slope for g in upper]) * self.eta)
        weights /= np.add.reduce(weights, None)
        return weights, np.matmul(weights, y[0]), alpha


def rank_one(L: NDArray[np.float64], beta: float, rtol: float) -> RankingOfOne | None:
    """What lower values (1, N) say with usual settings; None where arrays must do it."""
    N = L.shape[1]
    k = quantile_rank(beta, N)
    if k == N:
        return None
    order = L.argsort(None)
    ordered = L.take(order)
    lower = ordered.tolist()
    at, after = lower[k - 1], lower[k]
    tau = max(TAU_FRACTION * (at - lower[0]), TINY)
    gap = (after - at) / tau
    if not (gap < WIDEST and lower[0] > -TAME and lower[-1] < TAME):
        return None
    exponentials = np.exp((ordered[: bisect_right(lower, after + FAR * tau)] - at) / tau).tolist()
    s = solve_offset_of_floats(exponentials, gap, beta, N, k, rtol)
    if s is None:
        return None
    n, inside = bisect_right(lower, at + (s - least_log(beta, N)) * tau), bisect_right(lower, at)
    if n < inside:
        return None
    factor = math.exp(-s)
    return RankingOfOne(order[:n], [1.0 / (1.0 + factor * e) for e in exponentials[:n]], inside, N, at, k, tau)


def least_log(beta: float, n: int) -> float:
    """The logarithm of the least selection weight that counts.

    It is the rounding of the largest one, which is far below 1 where less than one particle is to be selected.
    """
    return _LOG_EPS + min(0.0, math.log(beta * n))


def _alpha_from_rank(ordered: list[float], rank: int) -> float:
    """`alpha_from_rank` of the values inside the quantile, in order."""
    at = ordered[min(rank, len(ordered) - 1)]
    return ALPHA_DECAY / max(at - ordered[0], 4.0 * TINY)
