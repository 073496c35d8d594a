"""Parameters that the proof of the paper's convergence theorem admits: alpha and beta coupled to tau, and the leakage.

Symbols are the paper's; `sklearn_scb2o.theory` is the place to import from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .optimize.parameters import as_selector, check_number
from .particles import Selector


@dataclass(frozen=True)
class Assumptions:
    r"""Constants of the paper's assumption on the objectives; all positive and finite.

    Parameters
    ----------
    L_L : float
        Lipschitz constant of L.
    eta_L, nu_L, L_inf : float
        Error bound: ``dist(x, Theta) <= (L(x) - L_min)^nu_L / eta_L`` where ``L(x) - L_min <= L_inf``.
    L_G : float
        Lipschitz constant of G.
    eta_G, nu_G, G_inf, R_G : float
        Growth of G within r_G <= R_G of Theta, from its minimiser y there: ``||x - y|| <= (G(x) - G(y))^nu_G / eta_G``
        where ``G(x) - G(y) <= G_inf``.
    G_range : float
        ``G_max - G_min``.

    References
    ----------
    SCB2O paper, the assumption "primitive", I to III, equations (L-growth) and (G-growth).

    Examples
    --------
    ``L = min(abs(abs(x) - 1), 1)`` and ``G = min(abs(x - 1), 3)`` on the real line, solution 1:

    >>> Assumptions(L_L=1, eta_L=1, nu_L=1, L_inf=0.9, L_G=1, eta_G=1, nu_G=1, G_inf=2.9, R_G=0.5, G_range=3).nu_L
    1
    """

    L_L: float
    eta_L: float
    nu_L: float
    L_inf: float
    L_G: float
    eta_G: float
    nu_G: float
    G_inf: float
    R_G: float
    G_range: float

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True)
class Localization:
    """Lengths and levels that separate the solution from what the consensus must not see; `localize` chooses them.

    Parameters
    ----------
    r_G : float, positive
        The consensus is to be this close to the solution, about.
    h_L : float, positive
        L is at least this far above its minimum wherever Theta is farther than r_G.
    delta_lev : float in (0, h_L)
        The quantile stays this far below that level.
    u : float, positive
        The gap of G that the Gibbs weights resolve.
    L_L, G_range : float, positive
        As in `Assumptions`.
    r : float, positive
        Radius of the ball about the solution whose particles are to be seen; below r_G,
        ``(h_L - delta_lev) / (2 L_L)`` and ``delta_lev / (2 gamma L_L)``, where ``gamma = 1 + G_range / u``.
    leakage_limit : float in (0, 1)
        What `leakage_bound` may be; the paper's K is 1 over it.

    References
    ----------
    SCB2O paper, proof of the theorem "direct mean-field convergence", from (proof-upper-range) to
    (proof-leakage-margin).

    Examples
    --------
    >>> Localization(r_G=0.1, h_L=0.1, delta_lev=0.09, u=1.0, L_L=1.0, G_range=3.0, r=0.004, leakage_limit=0.02).gamma
    4.0
    """

    r_G: float
    h_L: float
    delta_lev: float
    u: float
    L_L: float
    G_range: float
    r: float
    leakage_limit: float

    def __post_init__(self) -> None:
        _check_positive(self)
        check_between("delta_lev", self.delta_lev, self.h_L, "h_L")
        check_between("leakage_limit", self.leakage_limit, 1.0)
        limits = self.r_G, (self.h_L - self.delta_lev) / (2 * self.L_L), self.delta_lev / (2 * self.gamma * self.L_L)
        check_between(
            "r", self.r, min(limits), "the least of r_G, (h_L - delta_lev)/(2 L_L) and delta_lev/(2 gamma L_L)"
        )

    @property
    def gamma(self) -> float:
        """``1 + G_range / u``."""
        return 1.0 + self.G_range / self.u


def localize(assumptions: Assumptions, epsilon: float, ratio: float) -> Localization:
    r"""The constants of the proof for a given accuracy; among those it allows, nearly the largest.

    Such that ``r_G + (u + 2 L_G r_G)^nu_G / eta_G <= c sqrt(epsilon) / 4`` and ``u + 2 L_G r_G <= G_inf``, each side
    shared equally between r_G and u, and delta_lev such that both limits on r agree; r is half of what it may be.

    Parameters
    ----------
    assumptions : Assumptions
        Of the problem.
    epsilon : float, positive
        The V to be reached.
    ratio : float in (0, 1]
        c, see `consensus_ratio`.

    Returns
    -------
    Localization

    References
    ----------
    SCB2O paper, equations (proof-upper-range), (proof-geometric-smallness), (proof-leakage-margin) and
    (proof-leakage-small-final).

    Examples
    --------
    >>> from sklearn_scb2o.theory import Assumptions, consensus_ratio, localize
    >>> problem = Assumptions(
    ...     L_L=1, eta_L=1, nu_L=1, L_inf=0.9, L_G=1, eta_G=1, nu_G=1, G_inf=2.9, R_G=0.5, G_range=3
    ... )
    >>> found = localize(problem, epsilon=0.01, ratio=consensus_ratio(0.5, 0.5, 1, 1.0, noise="isotropic"))
    >>> round(found.r_G, 6), round(found.u, 6), found.leakage_limit < 0.022
    (0.000387, 0.000773, True)
    """
    a = assumptions
    epsilon = check_number("epsilon", epsilon)
    ratio = check_number("ratio", ratio, most=1.0)
    part = ratio * math.sqrt(epsilon) / 8.0  # half of the right side of (proof-geometric-smallness)
    gap = 0.5 * min(a.G_inf, (a.eta_G * part) ** (1.0 / a.nu_G))
    r_G = min(a.R_G, part, gap / (2.0 * a.L_G))
    h_L = min(a.L_inf, (a.eta_L * r_G) ** (1.0 / a.nu_L))
    gamma = 1.0 + a.G_range / gap
    delta_lev = h_L * gamma / (1.0 + gamma)
    if not 0.0 < delta_lev < h_L:
        raise ValueError(
            f"epsilon={epsilon!r} with ratio={ratio!r} asks for u={gap:.4g}, so far below G_range={a.G_range!r} that "
            "delta_lev cannot be told from h_L; choose a larger epsilon"
        )
    r = 0.5 * min(r_G, (h_L - delta_lev) / (2.0 * a.L_L), delta_lev / (2.0 * gamma * a.L_L))
    limit = min(ratio / (4.0 * math.sqrt(2.0)), part / r_G)  # (proof-leakage-small-final); 1 / K of (proof-K-choice)
    return Localization(r_G, h_L, delta_lev, gap, a.L_L, a.G_range, r, limit)


def leakage_bound(
    alpha: float, tau: float, quantile: float, mass: float, where: Localization, selector: str | Selector = "logistic"
) -> float:
    r"""Bound on the consensus weight of the particles that are farther than r_G from every minimiser of L.

    .. math:: \frac{e^{\alpha \Delta}\, \psi(-\delta_{lev} / \tau)}{\psi((q - L_{min} - L_L r) / \tau)\, m}

    Parameters
    ----------
    alpha : float, positive
        Inverse temperature.
    tau : float, positive
        Softness.
    quantile : float
        ``q - L_min``, the soft quantile less the minimum of L; the bound needs it to be at most ``h_L - delta_lev``.
    mass : float in (0, 1]
        m, the share of the particles within r of the solution.
    where : Localization
        The constants; G_range stands for Delta, how far G may lie above its minimum within r of the solution.
    selector : str or Selector
        The function psi.

    Returns
    -------
    float
        Above 1 where it says nothing, inf where it would overflow.

    References
    ----------
    SCB2O paper, proposition "soft Laplace principle", the factor of the last term of (soft-laplace-V); also
    (proof-leakage-ratio-small).

    Examples
    --------
    >>> where = Localization(r_G=0.1, h_L=0.1, delta_lev=0.09, u=1.0, L_L=1.0, G_range=3.0, r=0.004, leakage_limit=0.02)
    >>> round(leakage_bound(5.0, 0.003, 0.005, 0.1, where), 6)
    5e-06
    """
    alpha, tau = check_number("alpha", alpha), check_number("tau", tau)
    quantile = check_between("quantile", quantile, where.h_L - where.delta_lev, "h_L - delta_lev", low=-math.inf)
    mass = check_number("mass", mass, most=1.0)
    log_bound = _log_leakage(alpha, tau, quantile, math.log(mass), where, as_selector(selector))
    return math.exp(log_bound) if log_bound < 709.0 else math.inf


class CoupledParameters(NamedTuple):
    """An admissible choice of alpha and beta, and the leakage it leaves.

    Parameters
    ----------
    alpha : float
        Inverse temperature.
    beta : float
        Quantile level.
    leakage : float
        `leakage_bound` at the lowest quantile that is possible.
    """

    alpha: float
    beta: float
    leakage: float


def coupled_parameters(
    tau: float, mass: float, where: Localization, *, power: float = 1.0, selector: str | Selector = "logistic"
) -> CoupledParameters:
    r"""The paper's choice of alpha and beta for a given softness tau.

    .. math::
        m_\tau = \min\{m / 2, \tau^p\}, \quad \beta_\tau = \tfrac12 m_\tau \psi((h_L - \delta_{lev} - L_L r) / \tau),

        \Gamma_\tau = m_\tau\, \psi(\psi^{-1}(\beta_\tau) - L_L r / \tau), \quad
        \alpha_\tau = \tfrac1u \log(K / \Gamma_\tau)

    For tau -> 0, beta falls like tau^p and alpha grows like 1/tau. As long as a share `mass` of the particles is
    within r of the solution, the consensus is within ``c sqrt(V)`` of it wherever ``V > epsilon``.

    It is the choice of a proof, for the worst objectives that satisfy the assumption: the example of `localize`, in
    one dimension, needs tau = 1.7e-9, beta = 8e-10 and alpha = 8e4.

    Parameters
    ----------
    tau : float in (0, `largest_tau`]
        Softness.
    mass : float in (0, 1]
        m, a lower bound on the share of the particles within r of the solution up to the time horizon.
    where : Localization
        The constants of the proof.
    power : float, positive
        p, how fast beta falls.
    selector : str or Selector
        The function psi.

    Returns
    -------
    CoupledParameters

    Raises
    ------
    ValueError
        Naming the largest tau, where tau is above it and the leakage therefore above its limit.

    References
    ----------
    SCB2O paper, remark "selection rule"; (proof-K-choice), (proof-alpha-tau-def), (proof-leakage-small-final).

    Examples
    --------
    >>> where = Localization(r_G=0.1, h_L=0.1, delta_lev=0.09, u=1.0, L_L=1.0, G_range=3.0, r=0.004, leakage_limit=0.02)
    >>> chosen = coupled_parameters(0.001, 0.1, where)
    >>> round(chosen.alpha, 2), round(chosen.beta, 6), chosen.leakage < 0.02
    (22.42, 0.000499, True)
    """
    tau, mass, power = check_number("tau", tau), check_number("mass", mass, most=1.0), check_number("power", power)
    alpha, beta, log_leakage = _couple(tau, mass, where, power, as_selector(selector))
    if not log_leakage <= math.log(where.leakage_limit):
        most = largest_tau(mass, where, power=power, selector=selector)
        raise ValueError(
            f"tau={tau!r} must be in (0, {most:.4g}], where the leakage is at most {where.leakage_limit:.4g}, and not "
            "so small that beta is 0 in floating point; or localize for a larger epsilon"
        )
    return CoupledParameters(alpha, beta, math.exp(log_leakage))


def largest_tau(
    mass: float, where: Localization, *, power: float = 1.0, selector: str | Selector = "logistic"
) -> float:
    """The softness up to which `coupled_parameters` are admissible, the paper's tau_0.

    Parameters
    ----------
    mass, where, power, selector
        As in `coupled_parameters`.

    Returns
    -------
    float
        In units of L, to a relative 1e-6.

    References
    ----------
    SCB2O paper, theorem "direct mean-field convergence".

    Examples
    --------
    >>> where = Localization(r_G=0.1, h_L=0.1, delta_lev=0.09, u=1.0, L_L=1.0, G_range=3.0, r=0.004, leakage_limit=0.02)
    >>> round(largest_tau(0.1, where), 6)
    0.001005
    """
    mass, power, psi = check_number("mass", mass, most=1.0), check_number("power", power), as_selector(selector)
    log_limit = math.log(where.leakage_limit)

    def admits(tau: float) -> bool:
        return _couple(tau, mass, where, power, psi)[2] <= log_limit

    # for small tau the leakage is about tau^(-2 p gamma) exp(-margin / tau): it increases with tau up to
    # margin / (2 p gamma), as long as m_tau is tau^p
    margin = where.delta_lev - where.gamma * where.L_L * where.r
    low = min(margin / (2.0 * power * where.gamma), (0.5 * mass) ** (1.0 / power))
    while not admits(low):
        low *= 0.5
        if low < 1e-300:
            raise ValueError(
                f"power={power!r} makes beta 0 in floating point before any tau is admissible; choose less"
            )
    while admits(1.1 * low):
        low *= 1.1
    high = 1.1 * low
    while high > low * (1.0 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


def _couple(tau: float, mass: float, where: Localization, power: float, psi: Selector) -> tuple[float, float, float]:
    """alpha, beta and the logarithm of the leakage by the remark "selection rule"."""
    rise = where.L_L * where.r
    log_m = min(math.log(0.5 * mass), power * math.log(tau))
    log_S = _log_psi(psi, (where.h_L - where.delta_lev - rise) / tau)
    beta = 0.5 * math.exp(log_m + log_S)
    if beta == 0:
        return math.inf, beta, math.inf
    z = float(psi.inverse(np.asarray(beta), np))
    log_gamma = log_m + _log_psi(psi, z - rise / tau)  # Gamma_tau
    alpha = (-math.log(where.leakage_limit) - log_gamma) / where.u  # (proof-alpha-tau-def) with K = 1 / leakage_limit
    return alpha, beta, _log_leakage(alpha, tau, tau * z, log_m, where, psi)


def _log_leakage(alpha: float, tau: float, quantile: float, log_m: float, where: Localization, psi: Selector) -> float:
    """(proof-leakage-ratio-small), first line."""
    log_in = _log_psi(psi, (quantile - where.L_L * where.r) / tau)
    return alpha * where.G_range + _log_psi(psi, -where.delta_lev / tau) - log_in - log_m


def _log_psi(psi: Selector, u: float) -> float:
    return float(psi.log_psi(np.asarray(u), np))


def check_between(name: str, value: float, high: float, meaning: str = "", low: float = 0.0) -> float:
    """Return `value` as a float in the open interval (low, high), or raise a ValueError that names it."""
    number = check_number(name, value, sign=False)
    if not low < number < high:
        shown = f"{high:g}" + (f" = {meaning}" if meaning else "")
        raise ValueError(f"{name}={value!r} must be a number in ({low:g}, {shown})")
    return number


def _check_positive(constants: Assumptions | Localization) -> None:
    for name, value in vars(constants).items():
        check_number(name, value)
