"""The loop of an optimizer: points that it is asked for, and the values that it is told."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import Array, to_numpy
from ..particles.selection import quantile_rank
from .history import LOOK_EVERY
from .parameters import check_count
from .ranking import Remembered, rank, recall
from .savable import Savable
from .schedules import Schedules
from .state import Counts
from .tickets import Tickets
from .update import update_consensus
from .values import as_values

_NOTHING_ASKED = "{}() without a pending batch: call ask() first, evaluate the points it returns, then tell() once"


class AskTell(Savable):
    """The part of `SCB2OOptimizer` that its user works with."""

    _schedules: Schedules
    _x_opt: Any
    _remembered: Remembered | None

    def ask(self, n: int | None = None) -> Any:
        """Return the next points to evaluate: a batch, or, as others are still being evaluated, n of them.

        Parameters
        ----------
        n : int, optional
            How many points (of a single run, without `batch_size`). They come with running numbers under which `tell`
            takes their values, in any order, all at once or not. Fewer come where all other particles are out, or
            `max_evals` is reached. A particle moves when its values were told and it is needed again.

        Returns
        -------
        array of shape (N, d), or (R, N, d) for R > 1 runs
            (B, d) with a batch size B. The caller's own copy. Asking again before telling returns the same batch.
            With n, a pair of arrays: numbers (n,), points (n, d).

        Examples
        --------
        >>> from sklearn_scb2o import SCB2OOptimizer
        >>> opt = SCB2OOptimizer([(0, 1)] * 3, n_particles=20, random_state=0)
        >>> opt.ask().shape
        (20, 3)

        Three at a time, of which the last is told first:

        >>> opt = SCB2OOptimizer([(0, 1)] * 3, n_particles=20, random_state=0)
        >>> ids, X = opt.ask(3)
        >>> ids
        array([0, 1, 2])
        >>> opt.tell([X[2].sum()], [1.0], ids=ids[2:])
        """
        if self._started_at is None:
            self._started_at = time.monotonic()
        state = self._state
        if n is not None:
            return self._hand_out(n)
        if state.tickets is not None:
            if state.tickets.n_out:
                raise RuntimeError(
                    f"ask() while {state.tickets.n_out} points are out: tell() them first, or go on with ask(n)"
                )
            state.tickets = None
        x = None
        if not state.pending:
            if not state.moved:
                x = self._swarm.advance(state, self._schedules.step(self))
            if state.injected:
                x = None
                self._swarm.place(state, np.concatenate(state.injected, axis=1))
                state.injected = []
            state.pending = state.moved = True
        return self._unbatched(self._swarm.to_user(state.batch) if x is None else x)

    def needs_upper(self, L: Any, *, ids: Any = None) -> Array:
        """Rows of the pending batch whose upper value can matter, given the lower values.

        Where G is expensive, evaluate it on these rows only and tell NaN on the others: the result is the same.

        Parameters
        ----------
        L : array of shape (N,) or (R, N)
            Lower values of the pending batch.
        ids : array of shape (k,), optional
            Numbers of points that ask(n) returned; L is then (k,).

        Returns
        -------
        boolean array of the shape of `L`

        Examples
        --------
        >>> from sklearn_scb2o import SCB2OOptimizer
        >>> opt = SCB2OOptimizer([(-1, 1)] * 2, random_state=0)
        >>> int(opt.needs_upper(opt.ask()[:, 0] ** 2).sum())
        20
        """
        rows = self._asked(ids, "needs_upper")
        return self._unbatched(self._needed(self._values("L", L, rows), rows))

    def tell(self, L: Any, G: Any, *, ids: Any = None, drift: Any = None) -> None:
        """Take the values of the pending batch and compute the new consensus.

        NaN or +inf in L, or NaN in G on a row that `needs_upper`, marks a failed evaluation: it has no weight.
        -inf and huge values are data. None counts as NaN. The arrays are not written to.

        Parameters
        ----------
        L, G : array of shape (N,) or (R, N)
            Lower and upper values, in the order of the points asked. With ``selection="none"`` L may be None.
        ids : array of shape (k,), optional
            Numbers of points that ask(n) returned, all or some, in any order; L and G are then (k,). The consensus is
            that of the last values of all particles.
        drift : array of shape (N, d) or (R, N, d), optional
            A velocity of each particle, such as ``-gamma * grad L``: before its next step the particle moves by
            ``dt * drift``, and no further than the bounds.

        Raises
        ------
        RuntimeError
            If no batch is pending, or after `max_failed_batches` batches in a row whose evaluations all failed.
        ValueError
            If a shape or type is wrong; the optimizer is then as before the call.
        """
        state, swarm = self._state, self._swarm
        rows = self._asked(ids, "tell")
        if L is None and self.parameters.selection == "none":
            L = np.zeros(self._value_shape if rows is None else len(rows))
        L, G = self._values("L", L, rows), self._values("G", G, rows)
        if rows is not None and drift is not None:
            raise ValueError("drift goes with whole batches: leave it out where ids are given")
        velocity = None if drift is None else swarm.velocities(drift, state)
        settings = self._schedules.settings(self)
        missed = None if rows is None else self._missed(L, G, rows)
        # from here on nothing is refused
        if rows is None:
            state.told_lower, state.told_upper = L, G
        else:
            assert state.tickets is not None
            assert missed is not None
            state.tickets.take_in(state, rows, L, G, missed, swarm)
        points, lower, upper = state.latest
        if state.tickets is not None:
            upper = state.tickets.compared_upper(swarm)
        known = None if state.tickets is not None else recall(self._remembered, lower, settings, state.lower_best)
        update = update_consensus(points, lower, upper, settings, state.lower_best, swarm.xp, known)
        self._remembered = None
        counts = (
            Counts.of_batch(update, L.shape[1], swarm.xp)
            if missed is None or L.shape[1] == self.n_particles
            else _counts(L, G, missed)
        )
        state.absorb(update, counts, swarm.xp)
        state.drift = velocity
        failed = counts.failed
        if state.tickets is not None:
            failed = state.tickets.complete(counts)
            if failed is None:
                return
            swarm.settle(state)
        state.close(
            update,
            failed,
            np.nan if self.x_opt is None else swarm.distances(state.m, self._x_opt),
            None if self.limits.stagnation is None else self.limits.still_below(state, swarm.scale, swarm.xp),
            swarm.xp,
        )
        if state.tickets is not None:
            self._look_at_failures(state.n_iter, np.full(1, failed >= self.n_particles), 3)
        elif swarm.xp is not np:
            state.dead.append(update.dead)
            if len(state.dead) == LOOK_EVERY:
                self._look_back(4)
        elif update.dead is None:
            state.failed_batches = 0
        else:
            self._look_at_failures(state.n_iter, update.dead, 3)

    def tell_consensus(self, L: Any, G: Any) -> None:
        """Take the values of the current consensus point, for the history and the result.

        Parameters
        ----------
        L, G : float, or arrays of shape (R,)
            Lower and upper value at `consensus`. NaN where an evaluation failed.
        """
        if self._state.m is None:
            raise RuntimeError("tell_consensus() before the first tell(): there is no consensus point yet")
        values = {}
        for name, value in (("L", L), ("G", G)):
            array = to_numpy(np.nan if value is None else value).astype(float)
            if array.shape not in {(), (self.n_runs,)}:
                raise ValueError(
                    f"{name} at the consensus has shape {array.shape}, expected ({self.n_runs},) or a number"
                )
            values[name] = np.array(np.broadcast_to(array, (self.n_runs,)))
        self._state.m_lower, self._state.m_upper = values["L"], values["G"]
        self._state.history.amend(lower=values["L"], upper=values["G"])

    def inject(self, points: Any) -> None:
        """Let the given points take the place of the particles of least weight in the next new batch.

        Parameters
        ----------
        points : array of shape (d,), (k, d) or (R, k, d)
            Points inside the bounds; all that wait together at most as many as a batch has.
        """
        y = self._swarm.box.check_points(to_numpy(points), "points")
        y = y.reshape(1, -1, self._swarm.box.d) if y.ndim < 3 else y
        waiting = sum(p.shape[1] for p in self._state.injected)
        if y.shape[0] not in (1, self.n_runs) or y.shape[1] + waiting > self.batch_size:
            raise ValueError(
                f"points have shape {np.shape(points)}, expected (k, {self._swarm.box.d}) or "
                f"({self.n_runs}, k, {self._swarm.box.d}) with k <= {self.batch_size - waiting}"
            )
        self._state.injected.append(np.array(np.broadcast_to(y, (self.n_runs, *y.shape[1:]))))

    # -- inside --------------------------------------------------------------------------------------------------

    def _values(self, name: str, values: Any, rows: Any = None) -> Array:
        shape = self._value_shape if rows is None else (len(rows),)
        return as_values(name, values, shape, self._state.y, self._swarm.xp, self._swarm.device)

    def _needed(self, L: Array, rows: Any) -> Array:
        """Where the upper value matters, given the lower values of a batch, or of particles that are out."""
        state, swarm, settings = self._state, self._swarm, self._schedules.settings(self)
        if rows is None:
            ranking = rank(L, settings, state.lower_best, swarm.xp)
            if swarm.xp is np:  # elsewhere, looking whether the same values are told would wait for a device
                self._remembered = Remembered(L, settings, state.lower_best, ranking)
            return ranking.needed
        assert state.tickets is not None
        present = state.tickets.present(rows, L, swarm)
        known = int(np.count_nonzero(to_numpy(present) < np.inf))
        if known < quantile_rank(settings.beta, self.n_particles):
            return np.inf > L  # each may be inside the quantile in the end
        # the softness of the selection may still grow: the fewer are known, the more particles are asked for
        settings = replace(settings, beta=min(1.0, settings.beta * (2.0 - known / self.n_particles)))
        return swarm.take(rank(present, settings, state.lower_best, swarm.xp).needed, rows)

    def _missed(self, L: Array, G: Array, rows: Any) -> NDArray[np.bool_]:
        """Which of some particles lack an upper value that matters, (k,)."""
        unknown = np.isnan(to_numpy(G)[0])
        return unknown & to_numpy(self._needed(L, rows))[0] if unknown.any() else unknown

    def _asked(self, ids: Any, call: str) -> Any:
        """The particles that were handed out under these numbers; None for a batch, which must be pending."""
        state = self._state
        if ids is None:
            if state.pending:
                return None
            if state.tickets is not None and state.tickets.n_out:
                raise RuntimeError(f"{call}() without ids while points are out: pass the numbers that ask(n) returned")
            raise RuntimeError(_NOTHING_ASKED.format(call))
        if state.tickets is None:
            raise RuntimeError(f"{call}(ids=...) without points that are out: call ask(n) first")
        return state.tickets.find(ids)

    def _hand_out(self, n: int) -> tuple[NDArray[np.int64], Array]:
        state, swarm = self._state, self._swarm
        n = check_count("n", n, least=0)
        if self.n_runs > 1 or self.batch_size < self.n_particles:
            raise ValueError(
                f"ask({n}) needs a single run that evaluates all particles, not n_runs={self.n_runs}, "
                f"batch_size={self.batch_size}: use ask(), or another optimizer"
            )
        if state.pending:
            raise RuntimeError(f"ask({n}) while a batch is pending: tell() its values first, or go on with ask()")
        if state.tickets is None:
            self._look_back(4)
            state.tickets = Tickets.begin(state, swarm)
        if self.limits.max_evals is not None:
            n = min(n, max(0, self.limits.max_evals - state.nfev_lower - state.tickets.n_out))
        numbers, y = state.tickets.hand_out(state, swarm, self._schedules.step(self), n)
        return numbers, swarm.to_user(y)[0, ...]


def _counts(L: Array, G: Array, missed: NDArray[np.bool_]) -> Counts:
    """Counts of values of a single run, (1, k), among which a G that matters is missing in some rows."""
    L, G = to_numpy(L), to_numpy(G)
    failed = ~(np.inf > L) | missed
    return Counts(L.shape[1], int(np.sum(~np.isnan(G) | missed)), int(np.sum(failed)))
