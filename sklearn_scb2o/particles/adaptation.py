"""Parameters that follow the data: alpha from an effective sample size, tau from a spread, sigma from a rate."""

from __future__ import annotations

import math
from functools import lru_cache
from types import ModuleType

import numpy as np

from .backend import (
    Array,
    as_column,
    as_number,
    clamp,
    float_info,
    get_namespace,
    is_true_anywhere,
    overflow_is_infinity,
    row_dot,
    row_max,
    row_min,
    row_sum,
    run_numbers,
)
from .selection import OrderStatistics

_ALPHA_STEPS = 200
# The longest step in log alpha, and the errors, in units of the tolerance, that a step surely brings below it.
_LONGEST, _CLOSE = 5.0, 10.0


@overflow_is_infinity
def alpha_from_ess(
    G: Array,
    selected: Array,
    target: float | Array,
    *,
    start: Array | None = None,
    rtol: float = 1e-2,
    xp: ModuleType | None = None,
) -> tuple[Array, Array]:
    r"""Inverse temperature at which the Gibbs weights of the selected particles have a given sample size.

    Solves ``(sum_i w_i)^2 / sum_i w_i^2 = target`` with ``w_i = exp(-alpha (G_i - min G))`` over the selected
    particles, by Newton's method on log alpha with a bracket. The left side falls from the number of selected
    particles (alpha = 0) to the number of those that share the smallest G (alpha = infinity); where the target
    lies outside, alpha is 0 or very large.

    Parameters
    ----------
    G : array of shape (..., N)
        Upper values; those of selected particles are finite.
    selected : boolean array of shape (..., N)
        The particles that count; at least one in each run.
    target : float or array of shape (..., 1), above 1
        Effective sample size to reach.
    start : array of shape (..., 1), optional
        First guess of the scaled alpha, for example that of the last similar call.
    rtol : float
        Relative accuracy of the sample size.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    alpha : array of shape (..., 1)
        In units of 1/G; invariant under shifts of G and inversely proportional to its scale.
    scaled : array of shape (..., 1)
        alpha times the range of the selected values, a number without unit to start the next call with.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_scb2o.particles import effective_sample_size, gibbs_weights
    >>> G = np.asarray([0.0, 1.0, 2.0, 5.0])
    >>> alpha, _ = alpha_from_ess(G, np.ones(4, bool), 1.5, rtol=1e-12)
    >>> round(float(effective_sample_size(gibbs_weights(G, alpha))), 9)
    1.5
    """
    xp = get_namespace(G, xp=xp)
    eps, tiny, _ = float_info(G, xp)
    mask = xp.astype(selected, G.dtype)
    lowest = row_min(xp.where(selected, G, math.inf), xp)
    # excess over the selected minimum, scaled to [0, 1]; the mask takes the weight from the others
    g = xp.where(selected, G, lowest) - lowest
    lib, scale = run_numbers(xp, row_max(g, xp))
    scale = lib.maximum(scale, tiny)
    g = g / scale
    a = 10.0 + 0.0 * scale if start is None else as_number(start, lib)
    most = eps**-4.0  # beyond it only exact ties keep weight
    low, high = 0.0 * a + 1.0 / most, 0.0 * a + most
    a = clamp(a, low, high, lib)
    for step in range(_ALPHA_STEPS):
        w = xp.exp(g * -a) * mask
        s1, s2 = as_number(row_sum(w, xp), lib), as_number(row_dot(w, w, xp), lib)
        error = lib.log(s1 * s1 / (s2 * target))
        if not is_true_anywhere((lib.abs(error) > rtol) & (high > low * (1.0 + 4.0 * eps)), lib):
            break
        low, high = lib.where(error > 0, a, low), lib.where(error > 0, high, a)
        # d log ESS / d log a = -2 a (sum g w / sum w - sum g w^2 / sum w^2), Newton on log a
        t1, t2 = as_number(row_dot(g, w, xp), lib), as_number(row_dot(g * w, w, xp), lib)
        step_log = error / lib.maximum(2.0 * a * (t1 / s1 - t2 / s2), tiny)
        newton = a * lib.exp(clamp(step_log, -_LONGEST, _LONGEST, lib))
        a = lib.where((newton > low) & (newton < high), newton, lib.sqrt(low) * lib.sqrt(high))
        if not is_true_anywhere(lib.abs(error) > _CLOSE * rtol, lib):
            break  # the step just made squares the error
    return as_column(a / scale, G, lib), as_column(a, G, lib)


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

    if noise == "anisotropic":
        d = 1
    s = sigma * math.sqrt(dt) / (math.sqrt(d) if noise == "scaled" else 1.0)
    drift = abs(1.0 - lam * dt)
    if s == 0:
        return -math.log(drift) if drift > 0 else math.inf
    # ||drift e + s B||^2 = s^2 chi^2_d(noncentrality (drift / s)^2); given a Poisson J of mean half of that, it is
    # central with d + 2 J degrees of freedom, and E log chi^2_k = digamma(k / 2) + log 2
    half = 0.5 * (drift / s) ** 2
    if half > 1e6:  # next to no noise: the first terms of the expansion in s
        return -math.log(drift) - 0.5 * (d - 2) * (s / drift) ** 2
    width = 12.0 * math.sqrt(half) + 40.0
    j = np.arange(max(0.0, math.floor(half - width)), math.ceil(half + width))
    expected_log = float(np.sum(np.exp(xlogy(j, half) - half - gammaln(j + 1.0)) * digamma(0.5 * d + j))) + math.log(2.0)
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
    if not rates.max() > rate:
        raise ValueError(f"rate={rate!r} is not reached: the highest contraction per step is {rates.max():.4g}")
    last = int(np.flatnonzero(rates > rate)[-1])
    return float(brentq(lambda s: contraction_rate(s, d, lam, dt, noise) - rate, grid[last], grid[last + 1], xtol=1e-13))
