"""The selection functions psi that a soft quantile is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy.special import expit, log_expit

from .backend import Array, clamp, overflow_is_infinity


@dataclass(frozen=True, eq=False)  # compared and hashed as what it is, an object of functions
class Selector:
    r"""A selection function psi, the smooth step behind the soft quantile.

    psi is the distribution function of a continuous distribution on the real line with the left tail of an
    exponential: it is continuously differentiable, strictly increasing and Lipschitz, tends to 0 and 1, and
    ``c exp(-z) <= psi(-z) <= C exp(-z)`` for ``z >= 0`` (the paper's assumption on the selector).
    `check_selector` tests a new one.

    Parameters
    ----------
    name : str
        What the selector is called in parameters and representations.
    log_psi : callable
        ``log_psi(u, xp)`` returns log psi(u) elementwise; must be right, not -inf, far to the left.
    psi_and_slope : callable
        ``psi_and_slope(u, xp)`` returns the pair psi(u), psi'(u).
    inverse : callable
        ``inverse(p, xp)`` returns the u with psi(u) = p for 0 < p < 1.
    steps : int
        Steps of `solve_offset` on libraries other than NumPy, where their number is fixed: the fewer, the faster.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_scb2o.particles import SELECTORS
    >>> SELECTORS["logistic"].psi_and_slope(np.asarray([0.0]), np)
    (array([0.5]), array([0.25]))
    """

    name: str
    log_psi: Callable[[Array, ModuleType], Array]
    psi_and_slope: Callable[[Array, ModuleType], tuple[Array, Array]]
    inverse: Callable[[Array, ModuleType], Array]
    steps: int = 18


def _logistic_log_psi(u: Array, xp: ModuleType) -> Array:
    if xp is np:
        return log_expit(u)
    return xp.minimum(u, 0.0) - xp.log1p(xp.exp(-xp.abs(u)))


def _logistic_psi_and_slope(u: Array, xp: ModuleType) -> tuple[Array, Array]:
    psi = expit(u) if xp is np else 1.0 / (1.0 + xp.exp(-u))
    return psi, psi - psi * psi


def _logistic_inverse(p: Array, xp: ModuleType) -> Array:
    return xp.log(p) - xp.log1p(-p)


def _gumbel_log_psi(u: Array, xp: ModuleType) -> Array:
    # log(1 - exp(-exp(u))), which tends to u on the left (below the resolution of exp(u) it is u) and to 0 on
    # the right (where exp(u) would overflow it has been 0 for long)
    e = xp.exp(clamp(u, -30.0, 5.0, xp))
    return xp.where(u < -30.0, u, xp.log(-xp.expm1(-e)))


def _gumbel_psi_and_slope(u: Array, xp: ModuleType) -> tuple[Array, Array]:
    e = xp.exp(xp.minimum(u, 5.0))
    return -xp.expm1(-e), e * xp.exp(-e)


def _gumbel_inverse(p: Array, xp: ModuleType) -> Array:
    return xp.log(-xp.log1p(-p))


#: The selectors known by name: "logistic", psi(u) = 1 / (1 + exp(-u)), and "gumbel", psi(u) = 1 - exp(-exp(u)),
#: which has the same left tail and reaches 1 far sooner on the right.
SELECTORS: dict[str, Selector] = {
    "logistic": Selector("logistic", _logistic_log_psi, _logistic_psi_and_slope, _logistic_inverse, steps=8),
    "gumbel": Selector("gumbel", _gumbel_log_psi, _gumbel_psi_and_slope, _gumbel_inverse),
}


@overflow_is_infinity
def check_selector(selector: Selector, xp: ModuleType | None = None) -> None:
    r"""Check on a fine grid that `selector` satisfies the paper's assumption on psi.

    Checked are: values in (0, 1), strict increase, the limits 0 and 1, a left tail between two multiples of
    ``exp(u)``, a bounded slope that is the derivative of psi, and that `log_psi` and `inverse` belong to the same
    function.

    Parameters
    ----------
    selector : Selector
        The selector to check.
    xp : module, optional
        The array namespace to check it in; NumPy by default.

    Raises
    ------
    ValueError
        Naming the property that fails and where.

    Examples
    --------
    >>> from sklearn_scb2o.particles import SELECTORS, check_selector
    >>> check_selector(SELECTORS["gumbel"])
    """
    lib = np if xp is None else xp
    # float64 grid, symmetric, dense enough for the central differences below
    u = lib.linspace(-30.0, 30.0, 6001, dtype=lib.float64)
    psi, slope = selector.psi_and_slope(u, lib)
    inner = (psi > 1e-12) & (psi < 1.0 - 1e-9)
    below_one = psi < 1.0 - 1e-12

    def require(holds: Array, what: str) -> None:
        if not bool(lib.all(holds)):
            where = float(u[int(lib.argmin(lib.astype(lib.broadcast_to(holds, u.shape), lib.int8)))])
            raise ValueError(f"selector {selector.name!r}: {what} (fails at u = {where:.4g})")

    require((psi > 0) & (psi <= 1), "psi must lie in (0, 1)")
    require(lib.concat([psi[1:] > psi[:-1], lib.asarray([True])]) | ~below_one, "psi must increase strictly")
    require((slope > 0) | ~below_one, "the slope psi' must be positive")
    require(slope < 1e3, "psi must be Lipschitz; its slope exceeds 1000")
    far = lib.asarray([-1e4, 1e4], dtype=lib.float64)
    ends, _ = selector.psi_and_slope(far, lib)
    require(lib.abs(ends[0]) < 1e-9, "psi(u) must tend to 0 as u tends to -infinity")
    require(lib.abs(ends[1] - 1.0) < 1e-3, "psi(u) must tend to 1 as u tends to infinity")
    # left tail: log psi(-z) + z stays bounded, also where psi itself has long underflowed
    left = lib.linspace(-1e4, -10.0, 2000, dtype=lib.float64)
    tail = selector.log_psi(left, lib) - left
    require(lib.max(tail) - lib.min(tail) < 1.0, "the left tail must be that of exp(u): c exp(u) <= psi(u) <= C exp(u)")
    h = 1e-4
    difference = (selector.psi_and_slope(u + h, lib)[0] - selector.psi_and_slope(u - h, lib)[0]) / (2 * h)
    require(lib.abs(difference - slope) <= 1e-6 + 1e-4 * slope, "psi_and_slope must return the derivative of psi")
    require(lib.abs(selector.log_psi(u, lib) - lib.log(psi)) <= 1e-9, "log_psi must be the logarithm of psi")
    p = lib.where(inner, psi, lib.full_like(psi, 0.5))
    back = selector.psi_and_slope(selector.inverse(p, lib), lib)[0]
    require(lib.abs(back - p) <= 1e-9, "inverse must return the u with psi(u) = p")
