"""The usual iteration of one run of many particles: all that is costly is done on those that can have weight.

Of a hundred thousand particles a tenth is selected. So where nothing out of the ordinary happens, these are picked out
once, and what the array functions do in dozens of passes over all particles is done on them. Several runs take turns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..particles import SELECTORS, order_statistics, tau_from_spread
from ..particles.adaptation import ALPHA_DECAY
from ..particles.backend import overflow_is_infinity
from ..particles.long_rows import ranked
from ..particles.offset import TINY
from ..particles.selection import scores_in_reach
from .one_run import TAME, least_log
from .parameters import ALPHA_FRACTION, TAU_FRACTION

Floats = NDArray[np.float64]


class RankingOfMany(NamedTuple):
    """What the lower values of a batch of one run say, where nothing is out of the ordinary."""

    used: NDArray[np.intp]  #: particles whose upper value `weigh` uses: those that can have weight
    eta: Floats  #: their selection weights
    inside: NDArray[np.bool_]  #: which of them are inside the hard quantile
    n: int  #: N
    quantile: float  #: hard quantile
    rank: int  #: its rank k
    tau: float

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Rows whose upper value can get weight, (1, N)."""
        mask = np.zeros((1, self.n), dtype=bool)
        mask[0, self.used] = True
        return mask

    @overflow_is_infinity
    def weigh(self, y: Floats, G: Floats, alpha: float | None) -> tuple[Floats, Floats, float]:
        """Weights of the particles, (1, N), consensus (1, d) and alpha.

        Given positions (1, N, d) and upper values (1, N), those `used` tame. alpha is None where it adapts.
        """
        upper = G.take(self.used)
        if alpha is None:
            least, at = ranked(upper[self.inside], max(1, round(ALPHA_FRACTION * self.rank)))
            alpha = ALPHA_DECAY / max(float(at - least), 4.0 * TINY)
        # the particle of least G has an eta that is no less than the rounding of 1: the sum does not vanish
        some = np.exp((upper - upper.min()) * -max(alpha, TINY)) * self.eta
        some /= some.sum()
        weights = np.zeros(G.shape)
        weights.put(self.used, some)
        return weights, np.matmul(weights, y[0]), alpha


@overflow_is_infinity
def rank_many(L: Floats, beta: float, rtol: float) -> RankingOfMany | None:
    """What lower values (1, N) say with usual settings; None where arrays must do it."""
    order = order_statistics(L, beta)
    n, k, at = L.shape[1], order.rank, order.at.item()
    if not (isinstance(k, int) and k < n and order.first.item() > -TAME and order.ordered[0, k:].max() < TAME):
        return None
    tau = tau_from_spread(order, TAU_FRACTION)
    index, score = scores_in_reach(L, beta, tau, SELECTORS["logistic"], order, rtol, least_log(beta, n))
    return RankingOfMany(index, expit(score), L.take(index) <= at, n, at, k, tau.item())
