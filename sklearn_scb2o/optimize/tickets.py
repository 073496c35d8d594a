"""Asynchronous evaluation: points handed out one by one under numbers, and told in any order."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import Array, to_numpy
from .motion import Step, move

if TYPE_CHECKING:
    from .state import Counts, State
    from .swarm import Swarm

#: Part of the particles whose values must be known before any moves: a consensus of a few points is none.
LEAST_KNOWN = 0.5


@dataclass(eq=False)
class Tickets:
    """Which of N particles are out for evaluation, and what is known of each.

    A particle is out; or told, with the values of where it is; or fresh, at a place that was not evaluated.
    """

    number: NDArray[np.int64]  #: of the evaluation that a particle is out for, (N,); -1 where it is not out
    here: NDArray[np.bool_]  #: whether it was handed out by this object, not by one that was saved
    told: NDArray[np.bool_]  #: (N,)
    y: Array  #: where each particle was evaluated last, (1, N, d)
    L: Array  #: the values there, (1, N); NaN where it never was
    G: Array
    known: NDArray[np.bool_]  #: whether it ever was, (N,)
    waived: NDArray[np.bool_]  #: whether G was not needed there, (N,)
    next_number: int
    n_told: int = 0  #: since the last iteration was closed
    n_failed: int = 0  #: of them

    @classmethod
    def begin(cls, state: State, swarm: Swarm) -> Tickets:
        """Tickets of an optimizer that has worked with batches so far, or not at all."""
        n, evaluated = state.y.shape[1], not state.moved
        unknown = swarm.xp.full_like(state.y[:, :, 0], np.nan)
        return cls(
            np.full(n, -1), np.zeros(n, dtype=bool), np.full(n, evaluated), swarm.copy(state.y),
            swarm.copy(state.told_lower) if evaluated else unknown,
            swarm.copy(state.told_upper) if evaluated else swarm.copy(unknown),
            np.full(n, evaluated), np.isnan(to_numpy(state.told_upper))[0] if evaluated else np.zeros(n, dtype=bool),
            state.nfev_lower,
        )  # fmt: skip

    @property
    def n_out(self) -> int:
        """Points that were handed out and not told."""
        return int(np.count_nonzero(self.here))

    def find(self, ids: Any) -> NDArray[np.intp]:
        """The particles that are out under these numbers."""
        numbers = np.asarray(ids)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ValueError(f"ids={ids!r:.80} must be the numbers of points that ask(n) has returned, an array (k,)")
        out = {int(self.number[i]): i for i in np.flatnonzero(self.here)}
        strange = [int(number) for number in numbers if int(number) not in out]
        if strange:
            raise ValueError(
                f"ids has {strange[:5]}, which are not out: each number is told once, after ask(n) gave it"
            )
        if len(set(numbers.tolist())) < len(numbers):
            raise ValueError(f"ids={numbers.tolist()!r:.80} has a number twice: tell each once")
        return np.array([out[int(number)] for number in numbers], dtype=np.intp)

    def hand_out(self, state: State, swarm: Swarm, step: Step, n: int) -> tuple[NDArray[np.int64], Array]:
        """Numbers and positions (1, k, d) of the next k <= n points; told particles move if others do not suffice."""
        if state.injected:
            self._place(state, swarm)
        again = np.flatnonzero((self.number >= 0) & ~self.here)
        again = again[np.argsort(self.number[again])]
        if len(again) + np.count_nonzero(self._fresh) < n and self.told.any():
            self._move(state, swarm, step)
        rows = np.concatenate([again, np.flatnonzero(self._fresh)])[:n]
        new = self.number[rows] < 0
        self.number[rows[new]] = np.arange(self.next_number, self.next_number + np.count_nonzero(new))
        self.next_number += int(np.count_nonzero(new))
        self.here[rows] = True
        return self.number[rows].copy(), swarm.take(state.y, rows)

    def present(self, rows: NDArray[np.intp], L: Array, swarm: Swarm) -> Array:
        """Lower values where the particles are, (1, N), with new ones for some; NaN where they are not known.

        What is not needed among these will not be when the others are known, too.
        """
        told = swarm.array(self.told[None])
        return swarm.put(swarm.xp.where(told, self.L, swarm.xp.full_like(self.L, np.nan)), rows, L)

    def take_in(
        self, state: State, rows: NDArray[np.intp], L: Array, G: Array, missed: NDArray[np.bool_], swarm: Swarm
    ) -> None:
        """Note the values of particles that are out, and which of them lack a G that matters."""
        self.y = swarm.put(self.y, rows, swarm.take(state.y, rows))
        self.L, self.G = swarm.put(self.L, rows, L), swarm.put(self.G, rows, G)
        self.number[rows] = -1
        self.here[rows] = False
        self.told[rows] = self.known[rows] = True
        # values that are told all at once are a batch, which is as it is
        self.waived[rows] = ~missed & np.isnan(to_numpy(G)[0]) & (len(rows) < len(self.told))

    def complete(self, counts: Counts) -> int | None:
        """Count what was told; where that completes an iteration, how many evaluations failed in it."""
        self.n_told += counts.lower
        self.n_failed += int(to_numpy(counts.failed).sum())
        if self.n_told < len(self.told):
            return None
        self.n_told -= len(self.told)
        n_failed, self.n_failed = self.n_failed, 0
        return n_failed

    def compared_upper(self, swarm: Swarm) -> Array:
        """G as the consensus compares it: what was not needed is as bad as can be."""
        return swarm.xp.where(swarm.array(self.waived[None]), np.inf, self.G)

    def to_dict(self) -> dict[str, Any]:
        """Copies of all fields, with arrays of NumPy."""
        return {
            f.name: np.array(to_numpy(v)) if hasattr(v, "shape") else v
            for f in fields(self)
            for v in (getattr(self, f.name),)
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], as_array: Any) -> Tickets:
        """What `to_dict` returned; what was out is handed out again."""
        values = {name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in values.items()}
        values.update({name: as_array(values[name]) for name in ("y", "L", "G")})
        return cls(**values).released()

    def released(self) -> Tickets:
        """The same in another process, where what is out has to be handed out again."""
        return replace(self, here=np.zeros_like(self.here))

    @property
    def _fresh(self) -> NDArray[np.bool_]:
        return (self.number < 0) & ~self.told

    def _move(self, state: State, swarm: Swarm, step: Step) -> None:
        """Move the particles that were told."""
        rows = np.flatnonzero(self.told)
        self.told[:] = False
        state.moved = True
        if len(rows) == len(self.told):
            swarm.advance(state, step)
            return
        if np.mean(self.known) < LEAST_KNOWN or state.m is None or state.alive is not None:
            moved = swarm.draw(state.streams, len(rows), swarm.center)
        else:
            moved, _ = move(swarm.take(state.y, rows), state.m, state.streams, *swarm.limits, step, swarm.xp)
        state.y = swarm.put(state.y, rows, moved)
        state.spread = None

    def _place(self, state: State, swarm: Swarm) -> None:
        """Put waiting points where particles of least weight are that are not out."""
        points = np.concatenate(state.injected, axis=1)
        weights = np.zeros(len(self.told)) if state.weights is None else to_numpy(state.weights)[0]
        free = np.flatnonzero(self.number < 0)
        rows = free[np.argsort(weights[free], kind="stable")][: points.shape[1]]
        state.y = swarm.put(state.y, rows, swarm.array(points[:, : len(rows)]))
        self.told[rows] = False
        state.spread, state.injected = None, [points[:, len(rows) :]] if len(rows) < points.shape[1] else []
