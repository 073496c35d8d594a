"""Parameters that follow the data: alpha and tau from order statistics, sigma from a contraction rate."""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from .backend import Array, any_true, float_info, get_namespace, overflow_is_infinity, row_max
from .dynamics import coordinate_noise
from .long_rows import ranked
from .offset import SHORT
from .selection import OrderStatistics

#: The default of `alpha_from_rank`.
ALPHA_DECAY = 2.0


@overflow_is_infinity
def alpha_from_rank(
    G: Array, selected: Array, rank: Array | int, decay: float = ALPHA_DECAY, *, xp: ModuleType | None = None
) -> Array:
    r"""Inverse temperature that gives the particle of a given rank the weight exp(-decay) of the best.

    .. math:: \alpha = \mathrm{decay} / (G_{(r + 1)} - G_{(1)})

    with the order statistics of G among the selected particles. Invariant under shifts of G, inversely proportional
    to its scale, and insensitive to outliers above the rank. The effective sample size is then about ``2 r / decay``
    where the smallest values are evenly spaced.

    Parameters
    ----------
    G : array of shape (..., N)
        Upper values, finite for selected particles.
    selected : array of bool, shape (..., N)
        The particles that count.
    rank : int, or array of int, shape (..., 1)
        r, at least 1 and less than the number of selected particles; where it is not, the largest value counts.
    decay : float, positive
        Without unit.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., 1)
        In units of 1/G. Where the values up to the rank are all equal, so large that only those keep weight.

    Examples
    --------
    >>> import numpy as np
    >>> alpha_from_rank(np.asarray([3.0, 1.0, -9.0, 2.0]), np.asarray([True, True, False, True]), 1)
    array([2.])
    """
    xp = get_namespace(G, xp=xp)
    _, tiny, largest = float_info(G, xp)
    if xp is np and G.shape[-1] > SHORT:
        least, at = _ends_of_long_rows(G, selected, rank)
        return decay / xp.maximum(at - least, max(4.0 * tiny, 2.0 * decay / largest))
    ordered = _selected_in_order(G, selected, xp)
    if isinstance(rank, (int, np.integer)):
        rank = min(int(rank), ordered.shape[-1] - 1)
        at = ordered[..., rank : rank + 1]
    else:
        at = xp.take_along_axis(ordered, xp.minimum(rank, ordered.shape[-1] - 1), axis=-1)
    if xp is not np or any_true(at == math.inf, xp):  # fewer are selected
        highest = row_max(xp.where(selected, G, -math.inf), xp)
        at = xp.minimum(at, highest)
    # a gap of 0, or one so small that alpha would overflow, means ties
    gap = xp.maximum(at - ordered[..., :1], max(4.0 * tiny, 2.0 * decay / largest))
    return decay / gap


def _selected_in_order(G: Array, selected: Array, xp: ModuleType) -> Array:
    """The selected values of each run in order, (..., n), and +inf after them where other runs have more."""
    if xp is np and G.ndim == 2:
        (index,) = selected.reshape(-1).nonzero()
        n = len(index) // len(G)
        if n and len(index) % len(G) == 0 and (index.reshape(-1, n) // G.shape[1] == np.arange(len(G))[:, None]).all():
            return np.sort(G.take(index).reshape(-1, n), axis=-1)  # nearly always: as many as the rank of the quantile
    return xp.sort(xp.where(selected, G, math.inf), axis=-1)


def _ends_of_long_rows(G: Array, selected: Array, rank: Any) -> tuple[Array, Array]:
    """The smallest selected value of each run, and that of the rank, or the largest where there are fewer; (..., 1)."""
    rows, masks, shape = (*(v.reshape(-1, G.shape[-1]) for v in (G, selected)), (*G.shape[:-1], 1))
    ranks = np.broadcast_to(rank, shape).reshape(-1)
    ends = [ranked(row[mask], int(r)) for row, mask, r in zip(rows, masks, ranks, strict=True)]
    least, at = (np.array(column, G.dtype).reshape(shape) for column in zip(*ends, strict=True))
    return least, at


def tau_from_spread(order: OrderStatistics, fraction: float, *, xp: ModuleType | None = None) -> Array:
    r"""Softness ``tau = fraction (L_(k) - L_(1))``, k = ceil(beta n): a part of the spread inside the hard quantile.

    Where the spread is 0, because k particles share the minimum, tau is the smallest positive normal float, which
    selects exactly as the hard quantile does.

    Parameters
    ----------
    order : OrderStatistics
        Of the lower values, see `order_statistics`.
    fraction : float, positive
        Without unit.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., 1)
        In units of L.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_scb2o.particles import order_statistics
    >>> tau_from_spread(order_statistics(np.asarray([1.0, 2.0, 3.0, 9.0]), 0.75), 0.05)
    array([0.1])
    """
    xp = get_namespace(order.at, xp=xp)
    return xp.maximum(fraction * (order.at - order.first), float_info(order.at, xp)[1])


@lru_cache(maxsize=256)
def contraction_rate(sigma: float, d: int, lam: float, dt: float, noise: str = "scaled") -> float:
    r"""Almost-sure contraction rate of one discrete step: ``-E log(||x' - m|| / ||x - m||)``.

    For fixed consensus m the distance of a particle to it is multiplied by independent factors, so it tends to 0
    almost surely if and only if this rate is positive, at that rate per step. For isotropic noise the factor is
    ``||(1 - lam dt) e + s B||`` with a unit vector e, ``s = sigma sqrt(dt)`` ("scaled": also divided by sqrt(d))
    and B standard normal in R^d; for anisotropic noise that with d = 1, in each coordinate. The squared norm is
    noncentral chi-squared; the expected logarithm is a Poisson mixture of digamma functions.

    Parameters
    ----------
    sigma, lam, dt : float, positive
        Noise, drift, step size.
    d : int
        Dimension.
    noise : {"isotropic", "scaled", "anisotropic"}
        See `diffusion`.

    Returns
    -------
    float
        Natural logarithm per step; negative where the swarm expands.

    Examples
    --------
    >>> round(contraction_rate(1.4, 2, 1.0, 0.1), 3), contraction_rate(5.0, 2, 1.0, 0.1) < 0
    (0.104, True)
    """
    from scipy.special import digamma, gammaln, xlogy

    s, d = coordinate_noise(sigma * math.sqrt(dt), d, noise)
    drift = abs(1.0 - lam * dt)
    if s == 0:
        return -math.log(drift) if drift > 0 else math.inf
    # ||drift e + s B||^2 = s^2 chi^2_d(noncentrality (drift / s)^2); given a Poisson J of mean half of that, it is
    # central with d + 2 J degrees of freedom, and E log chi^2_k = digamma(k / 2) + log 2
    half = 0.5 * (drift / s) ** 2
    if half > 1e6:  # next to no noise per coordinate: log of the mean, less half the relative variance
        mean = drift**2 + d * s**2
        variance = 4.0 * (drift * s) ** 2 + 2.0 * d * s**4
        return -0.5 * (math.log(mean) - variance / (2.0 * mean**2))
    width = 12.0 * math.sqrt(half) + 40.0
    j = np.arange(max(0.0, math.floor(half - width)), math.ceil(half + width))
    weights = np.exp(xlogy(j, half) - half - gammaln(j + 1.0))  # of rounded exponents: their sum is not quite 1
    expected_log = float(np.sum(weights * digamma(0.5 * d + j)) / np.sum(weights)) + math.log(2.0)
    return -(math.log(s) + 0.5 * expected_log)


@lru_cache(maxsize=256)
def sigma_from_rate(rate: float, d: int, lam: float, dt: float, noise: str = "scaled") -> float:
    """Noise strength at which `contraction_rate` has a given value.

    Parameters
    ----------
    rate : float
        Logarithmic contraction per step, below that without noise, ``-log|1 - lam dt|``.
    d, lam, dt, noise
        As in `contraction_rate`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If no noise gives this rate.

    Examples
    --------
    >>> sigma = sigma_from_rate(0.05, 10, 1.0, 0.1)
    >>> round(contraction_rate(sigma, 10, 1.0, 0.1), 9)
    0.05
    """
    from scipy.optimize import brentq

    # the rate falls with sigma once sigma is beyond its value of highest contraction; search from the right
    grid = np.geomspace(1e-3, 1e3, 121)
    rates = np.asarray([contraction_rate(float(s), d, lam, dt, noise) for s in grid])
    reached = np.flatnonzero(rates > rate)
    if reached.size:
        low = float(grid[reached[-1]])
        high = low * 2.0
        while contraction_rate(high, d, lam, dt, noise) >= rate:
            high *= 2.0
        return float(brentq(lambda s: contraction_rate(s, d, lam, dt, noise) - rate, low, high, xtol=1e-13))
    if lam * dt == 1.0:  # noise is all there is: the rate is a constant less log sigma
        return float(grid[0] * math.exp(rates[0] - rate))
    raise ValueError(f"rate={rate!r} is not reached: the highest contraction per step is {rates.max():.4g}")
