"""When to stop."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import to_numpy
from .parameters import check_count, check_number
from .state import State


@dataclass(frozen=True)
class Limits:
    """Limits of a run, as `SCB2OOptimizer` takes them; None means no limit."""

    max_iter: int | None
    max_evals: int | None
    max_time: float | None
    tol: float
    stagnation: int | None
    max_failed_batches: int

    def __post_init__(self) -> None:
        for name, least in (("max_iter", 0), ("max_evals", 0), ("stagnation", 1), ("max_failed_batches", 1)):
            if getattr(self, name) is not None or name == "max_failed_batches":
                check_count(name, getattr(self, name), least=least)
        if self.max_time is not None:
            check_number("max_time", self.max_time, zero=True)
        check_number("tol", self.tol, zero=True)

    def reasons(self, state: State, elapsed: float, next_size: int, xp: ModuleType) -> dict[str, str]:
        """Reasons to stop that hold in `state`, each with its explanation; `next_size` evaluations would come next."""
        reasons = {}
        if self.max_iter is not None and state.n_iter >= self.max_iter:
            reasons["max_iter"] = f"{state.n_iter} iterations done, max_iter={self.max_iter}"
        if self.max_evals is not None and state.nfev_lower + next_size > self.max_evals:
            reasons["max_evals"] = (
                f"{state.nfev_lower} evaluations done, another {next_size} would exceed max_evals={self.max_evals}"
            )
        if self.max_time is not None and elapsed >= self.max_time:
            reasons["max_time"] = f"{elapsed:.3g} seconds passed, max_time={self.max_time:g}"
        if state.n_iter:
            met, still = self._converged(state)
            if np.all(met):
                reasons["spread"] = f"the spread of the particles fell below tol={self.tol:g} times the first one"
            if np.any(still) and np.all(still | met):
                reasons["stagnation"] = f"the consensus has not moved for {self.stagnation} iterations"
        return reasons

    def converged(self, state: State) -> NDArray[np.bool_]:
        """Runs that have converged, by spread or by stagnation, (R,)."""
        if not state.n_iter:
            return np.zeros(state.y.shape[0], dtype=bool)
        met, still = self._converged(state)
        return met | still

    def _converged(self, state: State) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Runs whose particles have met, and runs whose consensus has stopped to move."""
        first: Any = state.first_spread
        met = to_numpy(state.spread <= self.tol * first)
        if self.stagnation is None:
            return met, np.zeros_like(met)
        return met, state.n_iter - to_numpy(state.still_since) >= self.stagnation

    def still_below(self, state: State, scale: Any, xp: ModuleType) -> Any:
        """Internal distance below which the consensus of a run counts as unmoved, (R, 1)."""
        first: Any = state.first_spread
        return (self.tol * first / xp.min(scale))[:, None]
