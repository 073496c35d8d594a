"""The numbers of an iteration: parameters as they are, "auto" resolved, schedules evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np

from .motion import Step
from .parameters import Parameters, beta_auto, check_number
from .ranking import Settings


class Schedules:
    """Parameters of a problem of dimension d at a moment of a run.

    Where no parameter is a schedule, the numbers are resolved once and kept.
    """

    def __init__(self, parameters: Parameters, d: int) -> None:
        self._parameters, self._d = parameters, d
        self._fixed_settings: Settings | None = None
        self._fixed_step: Step | None = None

    def settings(self, optimizer: Any) -> Settings:
        """What selection and consensus need; schedules are called with `optimizer`."""
        if self._fixed_settings is not None:
            return self._fixed_settings
        p = self._parameters
        alpha, beta, tau, xi = (self._number(name, optimizer) for name in ("alpha", "beta", "tau", "xi"))
        settings = Settings(
            p.selection, p.selector, alpha, beta_auto(self._d) if beta is None else beta, tau, xi,
            p.lower_tol, p.lower_max, p.upper_max,
        )  # fmt: skip
        if not p.has_schedule("alpha", "beta", "tau", "xi"):
            self._fixed_settings = settings
        return settings

    def step(self, optimizer: Any) -> Step:
        """What the motion needs; schedules are called with `optimizer`."""
        if self._fixed_step is not None:
            return self._fixed_step
        p = self._parameters
        lam, dt, sigma, floor = (self._number(name, optimizer) for name in ("lam", "dt", "sigma", "noise_floor"))
        if sigma is None:
            sigma = p.auto_sigma(self._d, lam, dt)
        step = Step(lam, sigma, dt, p.noise, p.noise_cap, floor or None, p.boundary)
        if not p.has_schedule("lam", "dt", "sigma", "noise_floor"):
            self._fixed_step = step
        return step

    def _number(self, name: str, optimizer: Any) -> Any:
        """A parameter as a number; None for "auto" and None."""
        value = getattr(self._parameters, name)
        if callable(value):
            return check_number(
                name, value(optimizer), zero=name in ("sigma", "noise_floor"), most=1.0 if name == "beta" else np.inf
            )
        return None if value is None or value == "auto" else float(value)
