"""Where the particles are: their first positions, their moves, and the way to the user's coordinates and back."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import Array, clamp
from .box import Box
from .motion import (
    Moments,
    Step,
    Streams,
    block_rows,
    first_population,
    mean_spread,
    moments,
    move,
    rows_per_stream,
    shuffle_particles,
)
from .state import State


class Swarm:
    """What does with the positions of a `State` all that depends on the box and the array library, not on values.

    Parameters
    ----------
    box : Box
        Bounds and scales.
    n_runs, n_particles, batch_size : int
        R, N, and the particles that are evaluated at a time.
    start : array or None
        Points of the first population in internal coordinates, (d,), (k, d) or (R, k, d).
    xp, device
        Array namespace and device.
    """

    def __init__(
        self, box: Box, n_runs: int, n_particles: int, batch_size: int, start: Any, xp: ModuleType, device: Any
    ) -> None:
        self.box, self.xp, self.device = box, xp, device
        self.n_runs, self.n_particles, self.batch_size = n_runs, n_particles, batch_size
        self._start = start
        self.scale = self.array(box.scale)
        low, high, rows = self.array(box.inner_low), self.array(box.inner_high), self.scale
        if xp is np:
            low, high, rows = (block_rows(v, n_particles) for v in (low, high, rows))
        self._low, self._high, self._scale_rows = low, high, rows

    @property
    def n_streams(self) -> int:
        """Random streams of a run."""
        return -(-self.n_particles // rows_per_stream(self.box.d))

    @property
    def start(self) -> Any:
        """Points of the first population in the user's coordinates, a NumPy array, or None."""
        return None if self._start is None else np.clip(self._start * self.box.scale, self.box.low, self.box.high)

    def array(self, values: Any) -> Array:
        """An array of the library and on the device of the swarm."""
        return self.xp.asarray(values, device=self.device)

    @property
    def limits(self) -> tuple[Array, Array]:
        """Bounds, as `move` takes them."""
        return self._low, self._high

    def copy(self, values: Array) -> Array:
        """A copy."""
        return self.xp.asarray(values, copy=True)

    def take(self, values: Array, rows: NDArray[np.intp]) -> Array:
        """Some particles, a new array: rows of an array of shape (R, N, ...)."""
        return self.xp.take(values, self.array(rows), axis=1)

    def put(self, values: Array, rows: NDArray[np.intp], new: Array) -> Array:
        """Replace particles in an array of shape (R, N, ...), maybe in place."""
        if self.xp is np:
            values[:, rows] = new
            return values
        host = np.array(np.asarray(values))
        host[:, rows] = np.asarray(new)
        return self.array(host)

    def draw(self, state: State, n: int) -> Array:
        """New first positions for n particles of a single run, (1, n, d)."""
        return self.array(self.box.sample(state.streams[0][0], n, self._center)[None])

    def first(self, streams: Streams) -> Array:
        """The first population, (R, N, d)."""
        y = first_population(self.box, streams, self.n_particles, self._start)
        return y if self.xp is np else self.array(y)

    def to_user(self, y: Array) -> Array:
        """Points in the user's coordinates, a new array."""
        # a vector of scales as rows where the rows are known: see block_rows
        rows = self._scale_rows
        x = y * (rows if y.ndim == rows.ndim and y.shape[1] == rows.shape[1] else self.scale)
        if self.box.is_exact:
            return x
        return clamp(x, self.array(self.box.low), self.array(self.box.high), self.xp)

    def points(self, y: Array) -> Array:
        """The same, moved into the box: a mean of particles may be outside by a rounding."""
        low, high = (self.array(bound) for bound in (self.box.inner_low, self.box.inner_high))
        return self.to_user(clamp(y, low, high, self.xp))

    def spread(self, y: Array) -> Array:
        """Mean spread of a population in the user's coordinates, (R,)."""
        return self.measure(moments(y, y[:, :1, :], self.xp))

    def measure(self, sums: Moments) -> Array:
        """Mean spreads from moments, (R,)."""
        return mean_spread(sums, self.n_particles, self.scale, self.xp)

    def settle(self, state: State) -> State:
        """The state with its spread worked out."""
        if state.spread is None:
            state.spread = self.spread(state.y)
        if isinstance(state.spread, Moments):
            state.spread = self.measure(state.spread)
        return state

    def keep_runs(self, runs: NDArray[np.intp]) -> None:
        """Go on with some of the runs."""
        self.n_runs = len(runs)
        if self._start is not None and self._start.ndim == 3:
            self._start = self._start[runs]

    def advance(self, state: State, step: Step) -> None:
        """Move the particles of the last batch, and turn to the next batch."""
        if state.drift is not None:
            low, high = self.array(self.box.inner_low), self.array(self.box.inner_high)
            start, stop = state.rows
            state.y[:, start:stop, :] = clamp(state.batch + step.dt * state.drift, low, high, self.xp)
            state.drift = None
        sums = move(state.batch, state.m, state.streams, self._low, self._high, step, self.xp)
        if state.alive is not None:
            self._redraw(state)
        elif self.batch_size == self.n_particles:
            # of a single run it is worked out when it is asked for, or for several iterations at once
            state.spread = sums if self.n_runs == 1 and self.xp is np else self.measure(sums)
            return
        if self.batch_size < self.n_particles:
            start = state.rows[1]
            if start + self.batch_size > self.n_particles:
                start = 0
                shuffle_particles(state.y, state.streams, self.xp)
            state.rows = (start, start + self.batch_size)
        state.spread = self.spread(state.y)

    def _redraw(self, state: State) -> None:
        """Draw the particles anew of runs that have no consensus yet: nothing that they told was of use."""
        for r in np.flatnonzero(~np.asarray(state.alive)):
            y = self.box.sample(state.streams[r][0], self.n_particles, self._center)
            state.y[int(r), :, :] = self.array(y)

    @property
    def _center(self) -> Any:
        """Where particles are drawn about without bounds."""
        return None if self._start is None else self._start.reshape(-1, self.box.d).mean(axis=0)

    def velocities(self, drift: Any, state: State) -> Array:
        """Velocities that the caller gives to a batch, in internal coordinates, (R, n, d)."""
        shape = tuple(state.batch.shape[-2:]) if self.n_runs == 1 else tuple(state.batch.shape)
        values = self.xp.asarray(drift, dtype=state.y.dtype, device=self.device)
        if tuple(values.shape) != shape:
            raise ValueError(f"drift has shape {tuple(values.shape)}, expected {shape}, that of the batch")
        if not bool(self.xp.all(self.xp.isfinite(values))):
            raise ValueError("drift must be finite: give a particle without velocity zeros")
        return self.xp.reshape(values, tuple(state.batch.shape)) / self.scale

    def place(self, state: State, points: Any) -> None:
        """Put points (R, k, d) where the particles of least weight are."""
        start, stop = state.rows
        for r in range(self.n_runs):
            if state.weights is None:  # given points come first
                order = np.arange(stop - start)[::-1]
            else:
                order = np.argsort(np.asarray(state.weights[r, :]), kind="stable")
            for i, point in zip(order, points[r], strict=False):
                state.y[r, start + int(i), :] = self.array(point)
        state.spread = self.spread(state.y)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "xp": self.xp.__name__}  # modules cannot be pickled

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values, xp=importlib.import_module(values["xp"]))
