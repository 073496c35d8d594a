"""Random numbers: a seeded stream for each array library, drawn where the particles are.

=================  ==================================================================================
NumPy              SFC64 generators, one for each `rows_per_stream` rows of each run: what is drawn does not depend
                   on the other runs, and run r of several draws as it would alone; normals are made by `normals`
array-api-strict   those of NumPy, copied
torch              a `torch.Generator` on the device
CuPy               Philox4x32-10 in the kernels of `particles.fused`: a seed and a counter
JAX                keys folded from a seed and a counter
=================  ==================================================================================

All but those of NumPy serve all runs together. Their state is made of plain numbers and arrays of NumPy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from ..particles import fused
from ..particles.backend import Array, dtype_name
from .normals import fill_with_normals, n_words
from .values import seed_sequence

CHUNK = 65536  #: numbers of a population per generator of NumPy
# Where a run takes at most _FEW normals, those of up to _AHEAD calls are drawn at a time, and at most _MANY in all.
_FEW, _AHEAD, _MANY = 2048, 32, 524_288
_NOTHING = np.empty((0, 0, 0))


def rows_per_stream(d: int) -> int:
    """Rows of a population that share a generator of NumPy."""
    return max(1, CHUNK // d)


class Streams:
    """What the streams of every library do.

    Parameters
    ----------
    seeds : list of SeedSequence
        One for each run.
    like : array of shape (..., d)
        Gives library, type, device and dimension of what is drawn.
    n_particles : int
        N.
    """

    library: str  #: whose streams these are, in saved states

    def normals(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normals, (R, n, d)."""
        raise NotImplementedError

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        """Independent numbers uniform on [0, 1)."""
        raise NotImplementedError

    def to_state(self) -> Any:
        """The state as plain numbers, dictionaries and arrays of NumPy."""
        raise NotImplementedError

    def from_state(self, state: Any) -> None:
        """Go on from a state of streams of the same library."""
        raise NotImplementedError

    def of_runs(self, runs: NDArray[np.intp]) -> Streams:
        """Streams for some of the runs; these, where all runs are served together."""
        return self

    def permutations(self, n_runs: int, n: int) -> Array:
        """A random order of n things for each run, (R, n)."""
        return self._xp.argsort(self.uniforms((n_runs, n)), axis=-1)

    def __init__(self, seeds: Sequence[np.random.SeedSequence], like: Array, n_particles: int) -> None:
        self._set_up(like)
        self._seed(int(_joined(seeds).generate_state(1, np.uint64)[0]))

    def _set_up(self, like: Array) -> None:
        self._xp = array_api_compat.array_namespace(like)
        self._like = like

    def _seed(self, seed: int) -> None:
        raise NotImplementedError

    @property
    def _where(self) -> dict[str, Any]:
        return {"dtype": self._like.dtype, "device": array_api_compat.device(self._like)}

    def __getstate__(self) -> dict[str, Any]:
        return {"like": self._like, "state": self.to_state()}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self._set_up(values["like"])
        self.from_state(values["state"])


class NumpyStreams(Streams):
    """Generators of NumPy; for another library what they draw is copied to its device."""

    library = "numpy"
    _ahead: NDArray[Any]  # normals (k, R, n, d) that were drawn at a time
    _taken: int  # how many of k were taken, or are not to be
    _before: list[Any]  # of each run, the state of its first generator before

    def __init__(self, seeds: Sequence[np.random.SeedSequence], like: Array, n_particles: int) -> None:
        self._set_up(like)
        n = -(-n_particles // rows_per_stream(like.shape[-1]))
        self.generators = [
            [np.random.Generator(np.random.SFC64(s)) for s in ([seed] if n == 1 else seed.spawn(n))] for seed in seeds
        ]

    @property
    def generators(self) -> list[list[np.random.Generator]]:
        """Of each run, one for each `rows_per_stream` rows, having drawn what was taken and no more."""
        if self._taken < len(self._ahead):
            for (rng, *_), state in zip(self._generators, self._before, strict=True):
                rng.bit_generator.state = state
                rng.bit_generator.random_raw(self._taken * n_words(self._ahead[0, 0].size), output=False)
        self._taken = len(self._ahead)
        return self._generators

    @generators.setter
    def generators(self, generators: list[list[np.random.Generator]]) -> None:
        self._generators = generators
        self._ahead, self._taken, self._before = _NOTHING, 0, []

    def next_normals(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """The same as `normals`, of NumPy; where a run has few, those of several calls are drawn at a time.

        They may be overwritten, and are by later calls.
        """
        n_runs, *rest = shape
        n = math.prod(rest)
        if n > _FEW:
            return draw_normals(self.generators, shape, dtype_name(self._like))
        if self._taken == len(self._ahead) or self._ahead.shape[1:3] != (n_runs, rest[0]):
            k = max(1, min(_AHEAD, _MANY // (n_runs * n)))
            generators = self.generators
            self._before = [run[0].bit_generator.state for run in generators]
            if self._ahead.shape != (k, n_runs, *rest):
                self._ahead = np.empty((k, n_runs, *rest), dtype_name(self._like))
            fill_with_normals([run[0] for run in generators], self._ahead.reshape(k, n_runs, n).transpose(1, 0, 2))
            self._taken = 0
        self._taken += 1
        return self._ahead[self._taken - 1]

    def normals(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return self._array(draw_normals(self.generators, shape, np.dtype(dtype_name(self._like))))

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return self._array(np.stack([run[0].random(shape[1:]) for run in self.generators]))

    def of_runs(self, runs: NDArray[np.intp]) -> Streams:
        """See `Streams`."""
        kept = NumpyStreams.__new__(NumpyStreams)
        kept._set_up(self._like)
        kept.generators = [self.generators[r] for r in runs]
        return kept

    def permutations(self, n_runs: int, n: int) -> Array:
        """See `Streams`."""
        orders = np.stack([run[0].permutation(n) for run in self.generators])
        return self._xp.asarray(orders, device=self._where["device"])

    def to_state(self) -> Any:
        """See `Streams`."""
        return [[rng.bit_generator.state for rng in run] for run in self.generators]

    def from_state(self, state: Any) -> None:
        """See `Streams`."""
        self.generators = [[_generator(s) for s in run] for run in state]

    def _array(self, values: NDArray[Any]) -> Array:
        return self._xp.asarray(values, **self._where)


class TorchStreams(Streams):
    """A generator of torch on the device."""

    library = "torch"

    def normals(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return self._torch.randn(shape, generator=self._generator, **self._where)

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return self._torch.rand(shape, generator=self._generator, **self._where)

    def to_state(self) -> Any:
        """See `Streams`."""
        return {self.library: self._generator.get_state().numpy().copy()}

    def from_state(self, state: Any) -> None:
        """See `Streams`."""
        self._generator.set_state(self._torch.asarray(np.array(state[self.library])))

    def _set_up(self, like: Array) -> None:
        import torch

        super()._set_up(like)
        self._torch = torch
        self._generator = torch.Generator(like.device)

    def _seed(self, seed: int) -> None:
        self._generator.manual_seed(seed >> 1)


class CounterStreams(Streams):
    """Streams whose numbers are a function of a seed and of how often was drawn."""

    counter = 0
    seed = 0

    def to_state(self) -> Any:
        """See `Streams`."""
        return {self.library: {"seed": self.seed, "counter": self.counter}}

    def from_state(self, state: Any) -> None:
        """See `Streams`."""
        self.seed, self.counter = (int(state[self.library][name]) for name in ("seed", "counter"))

    def _seed(self, seed: int) -> None:
        self.seed, self.counter = seed, 0

    def next_counter(self) -> int:
        """A counter that no other draw has."""
        self.counter += 1
        return self.counter - 1


class CupyStreams(CounterStreams):
    """Philox4x32-10, drawn by the kernels of `particles.fused`."""

    library = "cupy"

    def normals(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return fused.random_numbers(shape, self._like, self.seed, self.next_counter(), normal=True)

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return fused.random_numbers(shape, self._like, self.seed, self.next_counter(), normal=False)


class JaxStreams(CounterStreams):
    """Keys of JAX."""

    library = "jax"

    def normals(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return self._random.normal(self._next_key(), shape, self._like.dtype)

    def uniforms(self, shape: tuple[int, ...]) -> Array:
        """See `Streams`."""
        return self._random.uniform(self._next_key(), shape, self._like.dtype)

    def _set_up(self, like: Array) -> None:
        import jax

        super()._set_up(like)
        self._random = jax.random
        self._device_put = jax.device_put

    def _next_key(self) -> Any:
        key = self._random.fold_in(self._random.key(self.seed >> 33), (self.seed >> 2) & 0x7FFFFFFF)
        key = self._random.fold_in(key, self.next_counter())
        return self._device_put(key, self._like.device)


def make_streams(random_state: Any, n_runs: int, n_particles: int, like: Array) -> Streams:
    """Streams for populations (R, N, d). The global state of NumPy is neither read nor written.

    Parameters
    ----------
    random_state
        As `SCB2OOptimizer` takes it.
    n_runs, n_particles : int
        R, N.
    like : array of shape (..., d)
        Gives library, type, device and dimension.
    """
    return _class_for(like)(_seeds(random_state, n_runs), like, n_particles)


def restored_streams(state: Any, streams: Streams, n_particles: int) -> Streams:
    """Streams for the library of `streams` that go on from a saved state.

    Where the state is that of another library, or of another kind of device, whose streams cannot be continued, they
    are seeded from it: still reproducible, with other random numbers.
    """
    new = type(streams).__new__(type(streams))
    new._set_up(streams._like)
    library = "numpy" if isinstance(state, list) else next(iter(state))
    if library == new.library:
        try:
            new.from_state(state)
        except RuntimeError:  # torch: a generator on another kind of device
            pass
        else:
            return new
    digest = np.random.SeedSequence(list(hashlib.sha256(_bytes(state)).digest()))
    n_runs = len(state) if isinstance(state, list) else len(getattr(streams, "generators", [None]))
    return type(streams)([digest] if n_runs == 1 else digest.spawn(n_runs), streams._like, n_particles)


def draw_normals(
    generators: Sequence[Sequence[np.random.Generator]], shape: tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    """All standard normals of a step, drawn in the order in which blocks of a population draw theirs."""
    normals = np.empty(shape, dtype)
    rows = rows_per_stream(shape[-1])
    for i, of_rows in enumerate(zip(*generators, strict=True)):
        part = normals[:, i * rows : (i + 1) * rows]
        fill_with_normals(of_rows, part.reshape(len(part), -1))
    return normals


def _class_for(like: Array) -> type[Streams]:
    xp: ModuleType = array_api_compat.array_namespace(like)
    if array_api_compat.is_torch_namespace(xp):
        return TorchStreams
    if array_api_compat.is_cupy_namespace(xp):
        return CupyStreams
    if array_api_compat.is_jax_namespace(xp):
        return JaxStreams
    return NumpyStreams


def _seeds(random_state: Any, n_runs: int) -> list[np.random.SeedSequence]:
    if isinstance(random_state, (list, tuple)):
        if len(random_state) != n_runs:
            raise ValueError(f"random_state has {len(random_state)} seeds, expected one for each of n_runs={n_runs}")
        return [seed_sequence(seed) for seed in random_state]
    seed = seed_sequence(random_state)
    return [seed] if n_runs == 1 else seed.spawn(n_runs)


def _joined(seeds: Sequence[np.random.SeedSequence]) -> np.random.SeedSequence:
    """A seed made of several."""
    if len(seeds) == 1:
        return seeds[0]
    return np.random.SeedSequence([int(word) for seed in seeds for word in seed.generate_state(2)])


def _generator(state: Any) -> np.random.Generator:
    rng = np.random.Generator(np.random.SFC64(0))
    rng.bit_generator.state = state
    return rng


def _bytes(values: Any) -> bytes:
    """Plain values as bytes."""
    if isinstance(values, dict):
        values = [part for item in sorted(values.items()) for part in item]
    if isinstance(values, (list, tuple)):
        return b"".join(map(_bytes, values))
    return values.tobytes() if isinstance(values, np.ndarray) else str(values).encode()
