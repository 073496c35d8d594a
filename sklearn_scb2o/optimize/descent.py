"""A local search by SciPy's SLSQP with finite differences, for smooth objectives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import Bounds, OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from .archive import Archive, Floats

#: L and G at points of shape (n, d) of the archive's coordinates.
Function = Callable[[Floats], tuple[Floats, Floats]]

#: Violation sqrt(L - lowest L) that is allowed, one after the other, in units of that of a usual point, and the steps
#: of the differences, in widths of the box.
VIOLATIONS, STEPS = (1e-4, 1e-6, 1e-8), (1e-6, 1e-7, 1e-8)
#: The violation where a tolerance of L is given, as part of its root.
INSIDE = 0.6
#: Length of the first step down the slope of G, in widths of the box.
FIRST_STEP = 0.03
#: In place of values that an evaluation did not give, or that are larger.
FAILED = 1e30


class _Differences:
    """Functions of L and G with forward differences, at one point at a time, away from the nearer end of the box."""

    def __init__(self, function: Function, columns: Callable[..., list[Floats]], high: Floats, step: float) -> None:
        self._function, self._columns, self._high, self._step = function, columns, high, step
        self._at: Floats | None = None
        self._values = self._slopes = np.empty(0)

    def values(self, z: Floats) -> Floats:
        """Shape (m,)."""
        if self._at is None or not np.array_equal(z, self._at):
            self._values, self._slopes = self._evaluate(z[None])[:, 0], np.empty(0)
            self._at = z.copy()
        return self._values

    def slopes(self, z: Floats) -> Floats:
        """Shape (m, d)."""
        values = self.values(z)
        if not self._slopes.size:
            steps = np.where(z + self._step > self._high, -self._step, self._step)
            self._slopes = (self._evaluate(z + np.diag(steps)) - values[:, None]) / steps
        return self._slopes

    def _evaluate(self, z: Floats) -> Floats:
        L, G = self._function(z)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.array(self._columns(L, G))
        return np.where(np.abs(values) < FAILED, values, FAILED)


class _Stagnation:
    """Ends a descent that gains less than 1 in an iteration, or next to nothing of what there is."""

    def __init__(self) -> None:
        self._last = np.inf

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        value = float(intermediate_result.fun)
        if self._last - value <= max(1.0, 1e-8 * abs(value)):
            raise StopIteration
        self._last = value


def descend(function: Function, archive: Archive, start: Floats, lower_tol: float) -> None:
    """Minimise L, then G subject to L being as low, with tolerances that become smaller.

    Each is a run of L-BFGS-B on L and one of SLSQP on G subject to ``sqrt(L - lowest L) <= v``, both with gradients by
    differences. The violation v and the steps are fractions of the usual values, so that units do not matter.

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points; the lowest L is that of all.
    start : array of shape (d,)
        Where to begin.
    lower_tol : float
        L may exceed its minimum by this; 0: it shall be as low as can be told.
    """
    rounding = float(np.finfo(float).eps * np.abs(archive.lower).max())
    usual = np.sqrt(max(archive.usual_excess, rounding, 1e-300))
    violations = [usual * v for v in VIOLATIONS] if lower_tol == 0.0 else [INSIDE * lower_tol**0.5]
    z = start
    for allowed, step in zip(violations, STEPS, strict=False):
        z = _minimise_lower(function, archive, z, (0.1 * allowed) ** 2, step)
        z = _minimise_upper(function, archive, z, allowed, step)


def _minimise_lower(function: Function, archive: Archive, start: Floats, unit: float, step: float) -> Floats:
    """The end of L-BFGS-B on L, which is wanted up to about `unit`."""
    f = _Differences(function, lambda L, G: [L / unit], archive.high, step)
    found = scipy_minimize(
        lambda z: float(f.values(z)[0]), start, jac=lambda z: f.slopes(z)[0], method="L-BFGS-B",
        bounds=Bounds(archive.low, archive.high), callback=_Stagnation(), options={"ftol": 0.0, "gtol": 1e-6},
    )  # fmt: skip
    return np.clip(found.x, archive.low, archive.high)


def _minimise_upper(function: Function, archive: Archive, start: Floats, allowed: float, step: float) -> Floats:
    """The end of SLSQP on G subject to ``sqrt(L - lowest L) <= allowed``."""
    lowest = archive.lower.min()

    def columns(L: Floats, G: Floats) -> list[Floats]:
        return [G, np.sqrt(np.maximum(L - lowest, 0.0)) / allowed - 1.0]  # a failed L violates it

    f = _Differences(function, columns, archive.high, step)
    unit = max(float(np.linalg.norm(f.slopes(start)[0])), 1e-300) / FIRST_STEP
    found = scipy_minimize(
        lambda z: float(f.values(z)[0]) / unit, start, jac=lambda z: f.slopes(z)[0] / unit, method="SLSQP",
        bounds=Bounds(archive.low, archive.high), options={"ftol": 1e-9, "maxiter": 100},
        constraints={
            "type": "ineq", "fun": lambda z: -f.values(z)[1:], "jac": lambda z: -f.slopes(z)[1:]
        },
    )  # fmt: skip
    return np.clip(found.x, archive.low, archive.high)
