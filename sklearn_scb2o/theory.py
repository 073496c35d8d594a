"""The paper's theory at hand: rates of contraction, the time horizon, and the parameters that its proof admits.

Symbols are the paper's: V is half the mean squared distance of the particles to the solution theta*, M the distance of
the consensus to it, h_L, delta_lev, r_G, r, u, m and K the constants of the proof of its convergence theorem. The
paper has isotropic noise; other noise enters through its trace, ``E ||sigma D(z) B||^2 = k s^2 ||z||^2``, d sigma^2
for isotropic and sigma^2 for scaled and anisotropic noise.
"""

from __future__ import annotations

import math

from .coupling import (
    Assumptions,
    CoupledParameters,
    Localization,
    check_between,
    coupled_parameters,
    largest_tau,
    leakage_bound,
    localize,
)
from .optimize.parameters import check_count, check_number
from .particles import contraction_rate, coordinate_noise

__all__ = [
    "Assumptions",
    "CoupledParameters",
    "Localization",
    "almost_sure_rate",
    "consensus_ratio",
    "coupled_parameters",
    "largest_tau",
    "leakage_bound",
    "localize",
    "mean_square_rate",
    "time_horizon",
]


def mean_square_rate(sigma: float, d: int, lam: float, dt: float = 0.0, *, noise: str) -> float:
    r"""Rate at which the mean squared distance to a fixed consensus falls, per unit of time.

    With ``S = E ||sigma D(e) B||^2`` for unit vectors e, which is d sigma^2 for isotropic noise and sigma^2 for
    scaled and anisotropic noise, it is

    .. math:: 2 \lambda - S, \qquad -\tfrac{1}{dt} \log\bigl((1 - \lambda\,dt)^2 + S\,dt\bigr)

    in continuous time and for Euler-Maruyama steps. The second is positive for dt below ``(2 lam - S) / lam^2``. The
    mean square bounds the variance of the particles.

    Parameters
    ----------
    sigma : float, non-negative
        Noise strength.
    d : int, positive
        Dimension.
    lam : float, positive
        Drift.
    dt : float, non-negative
        Step size; 0 is continuous time.
    noise : {"isotropic", "scaled", "anisotropic"}
        See `sklearn_scb2o.particles.diffusion`.

    Returns
    -------
    float
        Negative where the mean square grows.

    See Also
    --------
    almost_sure_rate : That of nearly every path, which is never less.

    References
    ----------
    SCB2O paper, the constant a of lemma "Lyapunov-DI" with M = 0; equation (em_scheme) for steps.

    Examples
    --------
    >>> mean_square_rate(0.5, 2, 1.0, noise="isotropic"), mean_square_rate(0.5, 2, 1.0, noise="anisotropic")
    (1.5, 1.75)
    >>> round(mean_square_rate(0.5, 2, 1.0, 0.1, noise="isotropic"), 3)
    1.508
    """
    s, k = _noise(sigma, d, lam, dt, noise)
    fall = 2.0 * lam - k * s * s  # a of lemma Lyapunov-DI
    if dt == 0:
        return fall
    change = (lam * lam * dt - fall) * dt  # relative, in a step of (em_scheme)
    return -math.log1p(change) / dt if change > -1.0 else math.inf


def almost_sure_rate(sigma: float, d: int, lam: float, dt: float = 0.0, *, noise: str) -> float:
    r"""Rate at which the squared distance of nearly every particle to a fixed consensus falls, per unit of time.

    The almost-sure limit of ``-log ||x(t) - m||^2 / t``. In continuous time, by Ito's formula for the logarithm,

    .. math:: 2 \lambda - (k - 2) s^2

    with s and k of `sklearn_scb2o.particles.coordinate_noise`: ``2 lam - (d - 2) sigma^2`` for isotropic,
    ``2 lam - (1 - 2/d) sigma^2`` for scaled, ``2 lam + sigma^2`` for anisotropic noise. For steps it is ``2 / dt``
    times `sklearn_scb2o.particles.contraction_rate`, which decides whether a swarm contracts and is what the optimizer
    warns about: few particles never see the rare paths that dominate the mean square.

    Parameters
    ----------
    sigma, d, lam, dt, noise
        As in `mean_square_rate`.

    Returns
    -------
    float
        Negative where nearly every particle escapes.

    Examples
    --------
    >>> almost_sure_rate(1.0, 2, 1.0, noise="isotropic"), mean_square_rate(1.0, 2, 1.0, noise="isotropic")
    (2.0, 0.0)
    >>> round(almost_sure_rate(1.0, 2, 1.0, 0.1, noise="isotropic"), 3)
    2.072
    """
    s, k = _noise(sigma, d, lam, dt, noise)
    if dt == 0:
        return 2.0 * lam - (k - 2) * s * s
    return 2.0 * contraction_rate(float(sigma), int(d), float(lam), float(dt), noise) / dt


def consensus_ratio(vartheta: float, sigma: float, d: int, lam: float, *, noise: str) -> float:
    r"""How far the consensus may be from the solution, over sqrt(V), for V to fall at nearly its best rate.

    .. math:: c_\vartheta = \min\{1, \vartheta a / (4 b), \sqrt{\vartheta a / (4 c_d)}\}

    with ``a = 2 lam - S``, ``b = sqrt(2) (lam + S)``, ``c_d = S / 2`` and S as in `mean_square_rate`. As long as
    ``M <= c sqrt(V)``, V falls at a rate between ``(1 - vartheta) a`` and ``(1 + vartheta / 2) a``.

    Parameters
    ----------
    vartheta : float in (0, 1)
        The part of the rate that is given up.
    sigma : float, positive
        Noise strength, with ``2 lam > S``.
    d, lam, noise
        As in `mean_square_rate`.

    Returns
    -------
    float
        In (0, 1].

    References
    ----------
    SCB2O paper, proof of the theorem "direct mean-field convergence", definition of c_vartheta.

    Examples
    --------
    >>> round(consensus_ratio(0.5, 0.5, 1, 1.0, noise="isotropic"), 4)
    0.1237
    """
    vartheta = check_between("vartheta", vartheta, 1.0)
    a, trace = _dissipation(sigma, d, lam, noise)
    b, c_d = math.sqrt(2.0) * (lam + trace), 0.5 * trace  # of lemma Lyapunov-DI
    return min(1.0, vartheta * a / (4.0 * b), math.sqrt(vartheta * a / (4.0 * c_d)))


def time_horizon(
    V0: float, epsilon: float, sigma: float, d: int, lam: float, *, vartheta: float = 0.5, noise: str
) -> float:
    r"""Time by which the mean-field dynamics have reached a given accuracy.

    .. math:: T^\star = \frac{\log(V_0 / \varepsilon)}{(1 - \vartheta)(2 \lambda - S)}

    For admissible alpha, beta and tau (`coupled_parameters`), ``V = epsilon`` is reached at a time in
    ``[(1 - vartheta) / (1 + vartheta / 2) T*, T*]``.

    Parameters
    ----------
    V0 : float, positive
        Half the mean squared distance of the start to the solution, ``W_2^2 / 2``.
    epsilon : float in (0, V0)
        The V to be reached.
    sigma, d, lam
        As in `consensus_ratio`, ``2 lam > S`` included.
    vartheta : float in (0, 1)
        The part of the rate that is given up.
    noise : {"isotropic", "scaled", "anisotropic"}
        See `sklearn_scb2o.particles.diffusion`.

    Returns
    -------
    float
        In units of time; the number of steps is T* / dt.

    References
    ----------
    SCB2O paper, theorem "direct mean-field convergence", equation (direct-mf-Tstar).

    Examples
    --------
    >>> round(time_horizon(3.0, 0.01, 0.5, 2, 1.0, noise="isotropic"), 3)
    7.605
    """
    V0 = check_number("V0", V0)
    epsilon = check_between("epsilon", epsilon, V0, "V0")
    vartheta = check_between("vartheta", vartheta, 1.0)
    a, _ = _dissipation(sigma, d, lam, noise)
    # (direct-mf-Tstar)
    return math.log(V0 / epsilon) / ((1.0 - vartheta) * a)


def _noise(sigma: float, d: int, lam: float, dt: float, noise: str) -> tuple[float, int]:
    """Parameters checked; `coordinate_noise`."""
    check_number("sigma", sigma, zero=True)
    check_number("lam", lam)
    check_number("dt", dt, zero=True)
    return coordinate_noise(float(sigma), check_count("d", d), noise)


def _dissipation(sigma: float, d: int, lam: float, noise: str) -> tuple[float, float]:
    """``a = 2 lam - S`` and S, or an error where a is not positive, (direct-mf-dissipativity-condition)."""
    a = mean_square_rate(check_number("sigma", sigma), d, lam, noise=noise)
    s, k = coordinate_noise(float(sigma), d, noise)
    if not a > 0:
        limit = math.sqrt(2.0 * lam / k) * sigma / s
        raise ValueError(
            f"sigma={sigma!r} with lam={lam!r}, d={d!r} and noise={noise!r} must be in (0, {limit:.4g}), so that the "
            "mean square contracts"
        )
    return a, k * s * s
