"""Parameters of the optimizer: what is accepted, what "auto" means, the constants of the paper."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..exceptions import SCB2OWarning
from ..particles import BOUNDARIES, NOISES, SELECTORS, Selector, check_selector, contraction_rate, sigma_from_rate

Schedule = Callable[[Any], float]

#: tau="auto" is this part of the spread of the lower values inside the hard quantile.
TAU_FRACTION = 0.05
#: alpha="auto" looks at the particle at this part of the ranks of G inside the hard quantile.
ALPHA_FRACTION = 0.6


def contraction_auto(d: int) -> float:
    """Logarithmic rate per iteration at which the swarm contracts with sigma="auto": slower in more dimensions."""
    return 0.06 / float(d) ** 0.3


#: The constants of the paper's two-dimensional experiments.
PAPER: dict[str, Any] = {
    "n_particles": 100,
    "alpha": 30.0,
    "beta": 0.05,
    "lam": 1.0,
    "sigma": 1.0,
    "dt": 0.01,
    "noise": "isotropic",
    "x_scale": 1.0,
    "tol": 0.0,
}


def beta_auto(d: int) -> float:
    """Quantile level by dimension, ``0.05 d`` between 0.1 and 0.25.

    A small quantile keeps the consensus close to the minimisers of L. In many dimensions few particles are near
    them, and a larger one is needed to see how G varies along them.
    """
    return min(0.25, max(0.1, 0.05 * d))


@dataclass(frozen=True)
class Parameters:
    """Validated parameters; numbers, "auto", or schedules (callables of the optimizer)."""

    selection: str
    selector: Selector
    alpha: float | str | Schedule
    beta: float | str | Schedule
    tau: float | str | Schedule
    xi: float | Schedule | None
    lam: float | Schedule
    sigma: float | str | Schedule
    dt: float | Schedule
    noise: str
    noise_cap: float | None
    noise_floor: float | Schedule
    boundary: str
    lower_tol: float
    lower_max: float | None
    upper_max: float | None

    def __post_init__(self) -> None:
        _one_of("selection", self.selection, ("soft", "hard", "none"))
        _one_of("noise", self.noise, NOISES)
        _one_of("boundary", self.boundary, BOUNDARIES)
        for name, auto in (("alpha", True), ("tau", True), ("xi", False), ("lam", False), ("dt", False)):
            value = getattr(self, name)
            if not (value is None or callable(value) or (auto and value == "auto")):
                check_number(name, value, auto=auto)
        if not callable(self.sigma) and self.sigma != "auto":
            check_number("sigma", self.sigma, auto=True, zero=True)
        if not callable(self.beta) and self.beta != "auto":
            check_number("beta", self.beta, auto=True, most=1.0)
        if self.xi is not None and self.tau != "auto":
            raise ValueError(
                f"tau={self.tau!r} and xi={self.xi!r} are both given; xi = 1/(tau alpha), so give one of them"
            )
        if self.noise_cap is not None:
            check_number("noise_cap", self.noise_cap)
        if not callable(self.noise_floor):
            check_number("noise_floor", self.noise_floor, zero=True)
        check_number("lower_tol", self.lower_tol, zero=True)
        for name in ("lower_max", "upper_max"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), sign=False)

    def has_schedule(self, *names: str) -> bool:
        """Whether any of these parameters is a schedule."""
        return any(callable(getattr(self, name)) for name in names)

    def auto_sigma(self, d: int, lam: float, dt: float) -> float:
        """The noise that contracts at the standard rate, or at half of the rate without noise where that is less."""
        most = contraction_rate(0.0, d, lam, dt, self.noise)
        return sigma_from_rate(min(contraction_auto(d), 0.5 * most), d, lam, dt, self.noise)

    def warn_if_expanding(self, d: int) -> None:
        """Warn where constant parameters let the swarm expand instead of contract."""
        numbers = [v for v in (self.lam, self.sigma, self.dt) if isinstance(v, (int, float))]
        if len(numbers) < 3:
            return
        lam, sigma, dt = map(float, numbers)
        if contraction_rate(sigma, d, lam, dt, self.noise) < 0:
            limit = largest_sigma(d, lam, dt, self.noise)
            advice = f"choose sigma below {limit:.4g}" if limit else "choose dt below 2 / lam"
            warnings.warn(
                f"sigma={sigma:g} with lam={lam:g}, dt={dt:g}, noise={self.noise!r} and d={d} lets the swarm expand: "
                f"a step multiplies distances to the consensus by more than 1 on average (in the logarithm); {advice}",
                SCB2OWarning,
                stacklevel=4,
            )


def largest_sigma(d: int, lam: float, dt: float, noise: str) -> float | None:
    """The sigma from which on the swarm does not contract; None where it never does."""
    try:
        return sigma_from_rate(0.0, d, lam, dt, noise)
    except ValueError:
        return None


def as_selector(selector: str | Selector) -> Selector:
    """The selector of that name, or the given one once it has passed `check_selector`."""
    if isinstance(selector, Selector):
        check_selector(selector)
        return selector
    if selector not in SELECTORS:
        raise ValueError(f"selector={selector!r} is not one of {tuple(SELECTORS)}, nor a Selector")
    return SELECTORS[selector]


def check_number(
    name: str, value: Any, *, auto: bool = False, zero: bool = False, most: float = math.inf, sign: bool = True
) -> float:
    """Return `value` as a float in the accepted range, or raise a ValueError that names it."""
    low = "[0" if zero else "(0"
    accepted = f"a number in {low}, {most:g}]" if most < math.inf else f"a finite number in {low}, inf)"
    if not sign:
        accepted = "a number"
    accepted += ', a callable, or "auto"' if auto else ""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r} must be {accepted}") from None
    in_range = not sign or (0 <= number <= most and (zero or number > 0) and number < math.inf)
    if math.isnan(number) or number == -math.inf or not in_range or isinstance(value, (str, bytes)):
        raise ValueError(f"{name}={value!r} must be {accepted}")
    return number


def check_count(name: str, value: Any, *, least: int = 1, why: str = "") -> int:
    """Return `value` as an int of at least `least`, or raise a ValueError that names it."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}{why}")
    return int(value.__index__())


def _one_of(name: str, value: Any, accepted: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name}={value!r} is not one of {accepted}")
