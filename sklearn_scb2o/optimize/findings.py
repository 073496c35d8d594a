"""What an optimizer has found: whether to stop, its consensus and results, of several runs too, and what failed."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds

from ..exceptions import SCB2OWarning
from ..particles.backend import Array, to_numpy
from .history import History
from .result import Result, build_result
from .state import State
from .stopping import Limits
from .swarm import Swarm


class Findings:
    """The part of `SCB2OOptimizer` that tells what is known."""

    limits: Limits
    n_particles: int
    n_runs: int
    batch_size: int
    _state: State
    _swarm: Swarm
    _started_at: float | None
    _value_shape: tuple[int, ...]

    def stop(self) -> dict[str, str]:
        """Reasons to stop that hold now, each with its explanation; empty means go on.

        Returns
        -------
        dict
            Keys among "max_iter", "max_evals", "max_time", "spread", "stagnation".
        """
        return self._reasons(4)

    def _reasons(self, stacklevel: int) -> dict[str, str]:
        self._look_back(stacklevel + 1)
        tickets = self._state.tickets
        size = self.batch_size if tickets is None else tickets.n_out + 1
        return self.limits.reasons(self._swarm.settle(self._state), self.elapsed, size, self._swarm.xp)

    @property
    def consensus(self) -> Array | None:
        """The consensus point, (d,) or (R, d); None before the first tell, NaN while all evaluations have failed."""
        if self._state.m is None:
            return None
        x = self._swarm.points(self._state.m)
        if self._state.alive is not None:  # nothing is known in a run whose evaluations have all failed
            x = self._swarm.xp.where(self._state.alive[:, None], x, np.nan)
        return self._unbatched(x)

    @property
    def history(self) -> History:
        """Numbers of each iteration so far; ``history.columns()`` gives them by name."""
        return self._state.history

    @property
    def bounds(self) -> Bounds:
        """The box, as a scipy.optimize.Bounds."""
        return Bounds(self._swarm.box.low.astype(float), self._swarm.box.high.astype(float))

    @property
    def n_iter(self) -> int:
        """Number of batches told."""
        return self._state.n_iter

    @property
    def elapsed(self) -> float:
        """Seconds since the first ask."""
        return self._state.elapsed + (0.0 if self._started_at is None else time.monotonic() - self._started_at)

    @property
    def result(self) -> Result:
        """Everything found so far.

        Returns
        -------
        scipy.optimize.OptimizeResult
            ``x``, ``fun`` (G there) and ``lower_fun`` (L there): the consensus point, or the best point evaluated where
            that is known to be at least as good in both. Values of the consensus are NaN until `tell_consensus`.
            ``consensus`` and ``best``: each with ``x``, ``lower``, ``upper``. ``population``: the same of the last
            batch. ``nit``, ``nfev_lower``, ``nfev_upper``, ``nfev`` (the larger of the two), ``n_failed``: counts.
            ``success``: whether the particles have met; ``status``, ``message``: a number and a text that say more.
            ``history``: by name, an array with a number for each iteration. With R > 1 runs, points, values and counts
            have a leading axis R.
        """
        return build_result(self._reasons(4), self._state, self._swarm.points)

    def intermediate_result(self) -> Result:
        """The `result` without its history, for callbacks: its cost does not grow with the iterations."""
        return build_result(self._reasons(4), self._state, self._swarm.points, with_history=False)

    def _repr_html_(self) -> str:
        return f"<code>{self!r}</code>{self.intermediate_result()._repr_html_()}"

    # -- several runs --------------------------------------------------------------------------------------------

    @property
    def converged_runs(self) -> NDArray[np.bool_]:
        """Runs that have converged, by spread or stagnation, (R,)."""
        return self.limits.converged(self._swarm.settle(self._state))

    def run_result(self, run: int, *, with_history: bool = True) -> Result:
        """The `result` of one of several runs, in the form of that of a single run."""
        state = self._swarm.settle(self._state).of_runs(np.array([run]), self._swarm.xp)
        reasons = self.limits.reasons(state, self.elapsed, self.batch_size, self._swarm.xp)
        return build_result(reasons, state, self._swarm.points, with_history)

    def keep_runs(self, runs: Any) -> None:
        """Go on with some of the runs, given by their numbers, which then count from 0; the others are dropped."""
        if self._state.pending:
            raise RuntimeError("keep_runs() while a batch is pending: tell() its values first")
        self._state = self._swarm.settle(self._state).of_runs(np.asarray(runs), self._swarm.xp)
        self._swarm.keep_runs(np.asarray(runs))
        self.n_runs = len(runs)
        self._value_shape = (self.batch_size,) if self.n_runs == 1 else (self.n_runs, self.batch_size)

    def count_time_of(self, other: Findings) -> None:
        """Let `elapsed` begin where that of another optimizer is now."""
        self._state.elapsed = other.elapsed

    # -- inside --------------------------------------------------------------------------------------------------

    def _unbatched(self, x: Array) -> Array:
        return x if self.n_runs > 1 else x[0, ...]

    def _look_back(self, stacklevel: int) -> None:
        """Look at the failures of the iterations whose arrays were left on their device."""
        state = self._state
        if not state.dead:
            return
        dead, state.dead = to_numpy(self._swarm.xp.stack(state.dead)), []
        for i, runs in enumerate(dead, state.n_iter - len(dead) + 1):
            self._look_at_failures(i, runs, stacklevel + 1)

    def _look_at_failures(self, iteration: int, dead: NDArray[np.bool_], stacklevel: int) -> None:
        """Warn of an iteration in which all evaluations of some runs failed, given which; or raise."""
        state = self._state
        state.failed_batches = state.failed_batches + 1 if dead.all() else 0
        if not dead.any():
            return
        if state.failed_batches >= self.limits.max_failed_batches:
            raise RuntimeError(
                f"all evaluations of {state.failed_batches} batches in a row failed (NaN or inf in L, or NaN in G "
                f"where it is needed), max_failed_batches={self.limits.max_failed_batches}: check the objectives or "
                "the bounds"
            )
        if not state.warned_failure:
            state.warned_failure = True
            runs = "" if self.n_runs == 1 else f" in {int(dead.sum())} of {self.n_runs} runs"
            what = "fresh points are drawn" if state.alive is not None else "the consensus is kept"
            warnings.warn(
                f"all {self.batch_size} evaluations of iteration {iteration} failed{runs}; {what}",
                SCB2OWarning,
                stacklevel=stacklevel,
            )
