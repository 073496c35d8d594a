"""Local searches with finite differences, in the unit box."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from ..problems.problem import Floats, Values
from ..recorder import Recorder

#: In place of values that an evaluation did not give.
FAILED = 1e10

#: Columns of functions of the values at n points.
Columns = Callable[[Values], list[Floats]]


class Differences:
    """Functions of the values and their forward differences, at one point at a time.

    Parameters
    ----------
    recorder : Recorder
        The problem.
    columns : callable
        Maps `Values` at n points to m arrays of shape (n,).
    step : float
        Of the differences, away from the nearer end of the box.
    """

    def __init__(self, recorder: Recorder, columns: Columns, step: float) -> None:
        self._recorder, self._columns, self._step = recorder, columns, step
        self._at: Floats | None = None
        self._value: Floats | None = None
        self._slopes: Floats | None = None

    def value(self, z: Floats) -> Floats:
        if self._at is None or not np.array_equal(z, self._at):
            self._value = self._evaluate(z[None])[0]
            self._at, self._slopes = np.array(z), None
        return self._value.copy()

    def slopes(self, z: Floats) -> Floats:
        """Shape (m, d), contiguous: SLSQP misreads others."""
        value = self.value(z)
        if self._slopes is None:
            steps = np.where(z > 0.5, -self._step, self._step)
            self._slopes = ((self._evaluate(z + np.diag(steps)) - value) / steps[:, None]).T
        return self._slopes.copy(order="C")

    def _evaluate(self, z: Floats) -> Floats:
        values = np.array(self._columns(self._recorder(z))).T
        values[~np.isfinite(values)] = FAILED
        return values


def quietly(function: Callable[..., object], *arguments: object, **options: object) -> object:
    """Call a solver without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def lower_descent(recorder: Recorder, start: Floats, step: float = 1e-7) -> Floats:
    """Minimise L by L-BFGS-B."""
    f = Differences(recorder, lambda v: [v.lower], step)
    result = quietly(
        minimize, lambda z: float(f.value(z)[0]), start, jac=lambda z: f.slopes(z)[0], method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * recorder.d, options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    return np.clip(result.x, 0.0, 1.0)


def upper_descent(recorder: Recorder, start: Floats, step: float = 1e-6, violation: float = 3e-4) -> Floats:
    """Minimise G subject to ``sqrt(L - lowest L) <= violation`` by SLSQP."""
    lowest = recorder.lowest
    return constrained_descent(
        recorder, start, lambda v: [v.upper, violation - np.sqrt(np.maximum(v.lower - lowest, 0.0))], 0, step
    )


def constrained_descent(recorder: Recorder, start: Floats, columns: Columns, n_equalities: int, step: float) -> Floats:
    """SLSQP on the first column subject to the next ones being zero, and the last ones not negative."""
    f = Differences(recorder, columns, step)
    cut = 1 + n_equalities
    constraints = [
        {"type": kind, "fun": lambda z, a=a, b=b: f.value(z)[a:b], "jac": lambda z, a=a, b=b: f.slopes(z)[a:b]}
        for kind, a, b in (("eq", 1, cut), ("ineq", cut, None))
    ]  # fmt: skip
    result = quietly(
        minimize, lambda z: float(f.value(z)[0]), start, jac=lambda z: f.slopes(z)[0], method="SLSQP",
        bounds=[(0.0, 1.0)] * recorder.d, constraints=constraints, options={"ftol": 1e-10, "maxiter": 100},
    )  # fmt: skip
    return np.clip(result.x, 0.0, 1.0)
