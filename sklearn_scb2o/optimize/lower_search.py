"""The first part of a local search by differences: L alone."""

from __future__ import annotations

from scipy.optimize import Bounds, OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from .archive import Floats
from .differences import ForwardDifferences

#: A descent ends where it gains less than this part of all that it gained in an iteration.
ENOUGH = 1e-6


class _Stagnation:
    """Ends a descent that gains less than 1 in an iteration, or a small part of what it gained in all."""

    def __init__(self, first: float) -> None:
        self._first = self._last = first

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        value = float(intermediate_result.fun)
        if self._last - value <= max(1.0, 1e-8 * abs(value), ENOUGH * (self._first - value)):
            raise StopIteration
        self._last = value


def minimise_lower(differences: ForwardDifferences, start: Floats, unit: float) -> Floats:
    """The end of L-BFGS-B on L, which is wanted up to about `unit`."""
    first = differences.at(start).lower / unit
    found = scipy_minimize(
        lambda z: differences.at(z).lower / unit, start, jac=lambda z: differences.at(z).slope_lower / unit,
        method="L-BFGS-B", bounds=Bounds(*differences.region), callback=_Stagnation(first),
        options={"ftol": 0.0, "gtol": 1e-6},
    )  # fmt: skip
    return differences.region.clip(found.x)
