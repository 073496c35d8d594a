"""The usual iteration of one run of few particles, on Python floats.

With a hundred particles an operation on an array costs as much as on a dozen floats, and of the values in order only
the first dozens have any weight. So where nothing out of the ordinary happens, this takes a third of the time of the
array functions that it stands for: `order_statistics`, `tau_from_spread`, `soft_selection`, `alpha_from_rank`,
`gibbs_weights`. It does their arithmetic in their order, and the result is theirs to the bit; what is not certain to be
the same is left to them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..particles import SELECTORS
from ..particles.adaptation import ALPHA_DECAY
from ..particles.offset import EPS, TINY, solve_offset_of_floats
from ..particles.selection import quantile_rank
from .parameters import ALPHA_FRACTION, TAU_FRACTION

TAME = 1e150  # differences and squares of values below do not overflow
_LOG_EPS = math.log(EPS)
# Distances in units of tau. Values farther than _FAR above the next one outside the quantile have no weight; where
# that one is farther than _WIDEST from the quantile, exponentials might overflow.
_FAR, _WIDEST = 50.0, 400.0


class RankingOfOne(NamedTuple):
    """What the lower values of a batch of one run say, where nothing is out of the ordinary."""

    order: NDArray[np.intp]  #: particles by their lower values, (N,)
    inside: int  #: how many are inside the hard quantile: k, or more with ties
    log_eta: list[float]  #: log selection weights in that order, as far as they matter
    quantile: float  #: hard quantile
    rank: int  #: k
    tau: float

    @property
    def needed(self) -> NDArray[np.bool_]:
        """Rows whose upper value can get weight, (1, N)."""
        mask = np.zeros((1, len(self.order)), dtype=bool)
        mask[0, self.order[: len(self.log_eta)]] = True
        return mask

    @property
    def used(self) -> NDArray[np.intp]:
        """Particles whose upper value `weigh` uses."""
        return self.order[: max(self.inside, len(self.log_eta))]

    def weigh(
        self, y: NDArray[Any], G: NDArray[Any], alpha: float | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Weights of the particles, (1, N), consensus, (1, d), and alpha.

        Given positions (1, N, d) and upper values (1, N), those `used` tame. alpha is None where it adapts.
        """
        order, inside, log_eta, _, k, _ = self
        n = len(log_eta)
        upper = G.take(self.used).tolist()
        if alpha is None:
            alpha = _alpha_from_rank(sorted(upper[:inside]), max(1, round(ALPHA_FRACTION * k)))
        weights = np.zeros(G.shape)
        # exponentials are NumPy's, and the total is summed by NumPy, so that not a bit differs from `gibbs_weights`
        weights.put(order[:n], np.exp(np.array(_logits(upper[:n], log_eta, max(alpha, TINY)))))
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
    if not (gap < _WIDEST and lower[0] > -TAME and lower[-1] < TAME):
        return None
    z = (ordered[: bisect_right(lower, after + _FAR * tau)] - at) / tau
    s = solve_offset_of_floats(z, SELECTORS["logistic"], min(max(beta, TINY), 1.0 - EPS), N, k, rtol)
    if s is None:
        return None
    log_eta = _log_weights(s, z.tolist(), _LOG_EPS + min(0.0, math.log(beta * N)))
    return RankingOfOne(order, bisect_right(lower, at), log_eta, at, k, tau)


def _log_weights(s: float, z: list[float], cut: float) -> list[float]:
    """``log psi(s - z)`` of the logistic selector, z in order, up to where it falls to `cut`."""
    logs: list[float] = []
    exp, log1p, add = math.exp, math.log1p, logs.append
    for v in z:
        u = s - v
        log_psi = u - log1p(exp(u)) if u < 0.0 else -log1p(exp(-u))
        if log_psi <= cut:
            break
        add(log_psi)
    return logs


def _alpha_from_rank(ordered: list[float], rank: int) -> float:
    """`alpha_from_rank` of the values inside the quantile, in order."""
    at = ordered[min(rank, len(ordered) - 1)]
    return ALPHA_DECAY / max(at - ordered[0], 4.0 * TINY)


def _logits(upper: list[float], log_eta: list[float], alpha: float) -> list[float]:
    """Logarithms of the weights relative to the largest one."""
    best, slope = min(upper), -alpha
    logits = [(g - best) * slope + e for g, e in zip(upper, log_eta)]  # noqa: B905, the check would take as long
    top = max(logits)
    return [logit - top for logit in logits]
