"""Where the particles are: their first positions, their moves, and the way to the user's coordinates and back."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import Array, clamp, count_up, dtype_name, to_numpy
from .box import Box
from .motion import Moments, Step, block_rows, first_population, mean_spread, moments, move
from .state import State
from .streams import NumpyStreams, Streams

_UNSHARED = 2  # what `sys.getrefcount` says of an object that only an attribute refers to


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
        if dtype_name(self.scale) != box.scale.dtype.name:
            raise ValueError(
                f"dtype={box.scale.dtype.name!r} is not at hand, {xp.__name__} makes {dtype_name(self.scale)} of it: "
                "give dtype='float32', or switch it on, with JAX by jax.config.update('jax_enable_x64', True)"
            )
        self._outer = self.array(box.low), self.array(box.high)
        self._inner = low, high = self.array(box.inner_low), self.array(box.inner_high)
        rows = self.scale
        if xp is np:
            low, high, rows = (block_rows(v, n_particles, n_runs) for v in (low, high, rows))
        self._low, self._high, self._scale_rows = low, high, rows
        self._given: NDArray[Any] | None = None  # the points that the user was given last, on NumPy

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
        n = values.shape[1]
        source, is_new = np.zeros(n, dtype=np.int64), np.zeros((1, n) + (1,) * (values.ndim - 2), dtype=bool)
        source[rows], is_new[0, rows] = np.arange(len(rows)), True
        return self.xp.where(self.array(is_new), self.take(new, source), values) if len(rows) else values

    def replace(self, state: State, new: Array) -> None:
        """Replace the current batch by `new`, (R, n, d)."""
        start, stop = state.rows
        if stop - start == self.n_particles:
            state.y = new
        elif self.xp is np:
            state.batch[...] = new
        else:
            state.y = self.xp.concat([state.y[:, :start, :], new, state.y[:, stop:, :]], axis=1)

    def draw(self, streams: Streams, n: int, center: Any = None) -> Array:
        """New first positions for n particles of each run, (R, n, d); about `center` where bounds are missing."""
        if isinstance(streams, NumpyStreams):
            return self.array(np.stack([self.box.sample(rng, n, center) for rng, *_ in streams.generators]))
        shape = (self.n_runs, n, self.box.d)
        uniforms = streams.uniforms(shape)
        normals = None if self.box.is_finite else streams.normals(shape)
        return clamp(self.box.points(uniforms, normals, center, self.array, self.xp), *self._inner, self.xp)

    def first(self, streams: Streams) -> Array:
        """The first population, (R, N, d)."""
        start, n = self._start, self.n_particles
        if isinstance(streams, NumpyStreams):
            return self.array(first_population(self.box, streams.generators, n, start))
        if start is None:
            return self.draw(streams, n)
        given = np.broadcast_to(start, (self.n_runs, *np.atleast_2d(start).shape[-2:]))
        if given.shape[1] == n:
            return self.array(given.copy())
        drawn = self.draw(streams, n - given.shape[1], given.mean(axis=1, keepdims=True))
        return self.xp.concat([self.array(given.copy()), drawn], axis=1)

    def to_user(self, y: Array) -> Array:
        """Points in the user's coordinates, a new array."""
        # a vector of scales as rows where the rows are known: see block_rows
        rows = self._scale_rows
        scale = rows if y.ndim == rows.ndim and rows.shape[1] in (1, y.shape[1]) else self.scale
        x = np.multiply(y, scale, out=self._for_user()) if self.xp is np and y.shape == self._shape else y * scale
        if self.box.is_exact:
            return x
        return clamp(x, *self._outer, self.xp)

    def _for_user(self) -> NDArray[Any]:
        """An array for a population in the user's coordinates: that of the last time, if he has let go of it.

        Memory that is new to the process costs several times as much as writing to it.
        """
        if self._given is None or self._given.shape != self._shape or sys.getrefcount(self._given) > _UNSHARED:
            self._given = np.empty(self._shape, self.scale.dtype)
        return self._given[...]  # a view: its shape and flags are the user's own

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.n_runs, self.n_particles, self.box.d

    def points(self, y: Array) -> Array:
        """The same, moved into the box: a mean of particles may be outside by a rounding."""
        return self.to_user(clamp(y, *self._inner, self.xp))

    def distances(self, m: Array, x_opt: Array) -> Array:
        """Distances of consensus points to a point in the user's coordinates, (R,)."""
        away = self.points(m) - x_opt
        return np.linalg.norm(away, axis=-1) if self.xp is np else self.xp.sqrt(self.xp.vecdot(away, away))

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

    def advance(self, state: State, step: Step) -> Array | None:
        """Move the particles of the last batch, and turn to the next: return it as the user sees it, if at hand."""
        if state.drift is not None:
            self.replace(state, clamp(state.batch + step.dt * state.drift, *self._inner, self.xp))
            state.drift = None
        all_move = state.alive is None and self.batch_size == self.n_particles
        user = self._for_user() if all_move and self.xp is np and self.box.is_exact else None
        moved, sums = move(
            state.batch, state.m, state.streams, self._low, self._high, step, self.xp, scale=self._scale_rows, user=user
        )
        if self.xp is not np:
            self.replace(state, moved)
        if all_move:
            # of a single run it is worked out when it is asked for, or for several iterations at once
            state.spread = sums if self.n_runs == 1 and self.xp is np else self.measure(sums)
            return user
        if state.alive is not None:
            self._redraw(state)
        if self.batch_size < self.n_particles:
            start = state.rows[1]
            if start + self.batch_size > self.n_particles:
                start = 0
                self._shuffle(state)
            state.rows = (start, start + self.batch_size)
        state.spread = self.spread(state.y)
        return None

    def _redraw(self, state: State) -> None:
        """Draw the particles anew of runs that have no consensus yet: nothing that they told was of use."""
        if not isinstance(state.streams, NumpyStreams):
            fresh = self.draw(state.streams, self.n_particles, self.center)
        else:
            host = np.zeros(state.y.shape, dtype=self.box.scale.dtype)
            for r in np.flatnonzero(~to_numpy(state.alive)):
                host[r] = self.box.sample(state.streams.generators[r][0], self.n_particles, self.center)
            fresh = self.array(host)
        assert state.alive is not None
        state.y = self.xp.where(state.alive[:, None, None], state.y, fresh)

    def _shuffle(self, state: State) -> None:
        """Put the particles of each run in random order."""
        n = self.n_particles
        orders = state.streams.permutations(self.n_runs, n)
        if self.xp is np:
            for run, order in zip(state.y, orders, strict=True):
                run[...] = run[order]
            return
        first = count_up(self.n_runs, orders, self.xp) * n  # of each run, in the rows of all runs
        rows = self.xp.reshape(state.y, (-1, self.box.d))
        order = self.xp.reshape(orders + first[:, None], (-1,))
        state.y = self.xp.reshape(self.xp.take(rows, order, axis=0), state.y.shape)

    @property
    def center(self) -> Any:
        """Where particles are drawn about without bounds."""
        return None if self._start is None else self._start.reshape(-1, self.box.d).mean(axis=0)

    def velocities(self, drift: Any, state: State) -> Array:
        """Velocities that the caller gives to a batch, in internal coordinates, (R, n, d)."""
        shape = tuple(state.batch.shape[-2:]) if self.n_runs == 1 else tuple(state.batch.shape)
        xp = self.xp
        values = xp.asarray(to_numpy(drift) if xp is np else drift, dtype=state.y.dtype, device=self.device)
        if tuple(values.shape) != shape:
            raise ValueError(f"drift has shape {tuple(values.shape)}, expected {shape}, that of the batch")
        if xp is not np:  # not looked at, so that nothing waits for a device
            values = xp.where(xp.isfinite(values), values, 0.0)
        elif not np.isfinite(values).all():
            raise ValueError("drift must be finite: give a particle without velocity zeros")
        return xp.reshape(values, tuple(state.batch.shape)) / self.scale

    def place(self, state: State, points: Any) -> None:
        """Put points (R, k, d) where the particles of least weight are."""
        xp, (n_runs, n, d), k = self.xp, state.batch.shape, points.shape[1]
        if state.weights is None:  # given points come first
            order = self.array(np.tile(np.arange(n)[::-1], (n_runs, 1)))
        else:
            order = xp.argsort(state.weights, axis=-1, stable=True)
        rank = xp.argsort(order, axis=-1)  # of the weight of each particle, the least first
        first = count_up(n_runs, rank, xp) * k  # of each run, in the rows of all points
        rows = xp.reshape(clamp(rank, 0, k - 1, xp) + first[:, None], (-1,))
        new = xp.reshape(xp.take(self.array(points.reshape(-1, d)), rows, axis=0), (n_runs, n, d))
        self.replace(state, xp.where((rank < k)[:, :, None], new, state.batch))
        state.spread = self.spread(state.y)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "xp": self.xp.__name__, "_given": None}  # modules cannot be pickled

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values, xp=importlib.import_module(values["xp"]))
