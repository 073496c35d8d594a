"""What users hand in: values of a batch, seeds, array namespaces."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from ..particles.backend import Array, dtype_name, get_namespace, to_numpy


def as_values(name: str, values: Any, shape: tuple[int, ...], like: Array, xp: ModuleType, device: Any) -> Array:
    """Values of a batch as a floating array of shape (R, n), a copy.

    Parameters
    ----------
    name : str
        "L" or "G", for messages.
    values : array, or list of numbers and None
        None counts as NaN.
    shape : tuple
        (n,) for one run, (R, n) for several: the only shape accepted.
    like : array
        Gives the type.
    xp, device
        Where the values go.

    Raises
    ------
    ValueError
        For another shape or values that are not real numbers.
    """
    if xp is np and type(values) is np.ndarray and values.shape == shape and values.dtype == like.dtype:
        return np.array(values, ndmin=2)
    if array_api_compat.is_torch_array(values):
        values = values.detach()
    elif xp is np and not isinstance(values, np.ndarray) and array_api_compat.is_array_api_obj(values):
        values = to_numpy(values)
    try:
        if not array_api_compat.is_array_api_obj(values) or isinstance(values, np.ndarray):
            host = np.asarray(values)
            if host.dtype == object:  # None becomes NaN
                host = host.astype(float)
            if host.dtype.kind not in "fiub":
                raise TypeError(host.dtype)
            values = _in_range(host, np.dtype(dtype_name(like)))
        array = xp.astype(xp.asarray(values, device=device), like.dtype, copy=True)
    except (TypeError, ValueError, RuntimeError) as error:  # the last is torch's
        raise ValueError(
            f"{name} must be real numbers (None or NaN for a failed evaluation) of shape {shape}: {error}"
        ) from None
    if tuple(array.shape) != shape:
        raise ValueError(
            f"{name} has shape {tuple(array.shape)}, expected {shape}: one value for each point of the batch, in order"
        )
    return array if len(shape) == 2 else array[None, ...]


def _in_range(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Cast to a floating type; finite values beyond its range become its largest, not infinite."""
    largest = np.finfo(dtype).max
    if values.dtype.kind == "f" and np.finfo(values.dtype).max > largest:
        values = np.where(np.isfinite(values), np.clip(values, -float(largest), float(largest)), values)
    return values.astype(dtype)


def pick_namespace(xp: ModuleType | str | None, x0: Any, device: Any) -> tuple[ModuleType, Any]:
    """The array namespace to work in: that asked for, else that of x0, else NumPy; and the device."""
    if isinstance(xp, str):
        xp = importlib.import_module(xp)
    if xp is None:
        is_array = array_api_compat.is_array_api_obj(x0)
        if device is None and is_array:
            device = array_api_compat.device(x0)
        xp = get_namespace(x0) if is_array else get_namespace(np.empty(0))
    else:
        xp = get_namespace(xp.empty(0))
    return xp, None if device is None or xp is np else _plain_device(device, xp)


def _plain_device(device: Any, xp: ModuleType) -> Any:
    """A device by its name, or as None where it is the one in use anyway: these can be pickled and stored."""
    if array_api_compat.is_torch_namespace(xp):
        return str(device)
    if array_api_compat.is_cupy_namespace(xp):
        from cupy.cuda import Device

        number = getattr(device, "id", device)
        return None if number == Device().id else Device(number)
    if array_api_compat.is_jax_namespace(xp):
        return None if device == array_api_compat.device(xp.zeros(1)) else device
    return device


def pick_dtype(dtype: Any, x0: Any) -> np.dtype[Any]:
    """float64 or float32: the one asked for, else that of x0 if it is one of them, else float64."""
    if dtype is None:
        own = getattr(x0, "dtype", None)
        return np.dtype(np.float32 if own is not None and str(own).rpartition(".")[2] == "float32" else np.float64)
    try:
        chosen = (
            np.dtype(dtype)
            if not hasattr(dtype, "__module__") or isinstance(dtype, type)
            else np.dtype(str(dtype).rpartition(".")[2])
        )
    except TypeError:
        chosen = None
    if chosen is None or chosen not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype={dtype!r} is not one of 'float64', 'float32'")
    return chosen


def as_start(x0: Any, n_runs: int, n_particles: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Start points as a NumPy array of shape (d,), (k, d) or (R, k, d)."""
    if x0 is None:
        return None
    x = to_numpy(x0)
    if x.dtype.kind not in "fiu":
        raise ValueError(f"x0 must hold real numbers, got dtype {x.dtype}")
    x = x.astype(dtype)
    accepted = f"(d,), (k, d) with k <= n_particles={n_particles}" + (f", or ({n_runs}, k, d)" if n_runs > 1 else "")
    if x.ndim not in (1, 2, 3) or x.size == 0 or (x.ndim == 3 and x.shape[0] != n_runs):
        raise ValueError(f"x0 has shape {x.shape}, expected {accepted}")
    if x.ndim > 1 and x.shape[-2] > n_particles:
        raise ValueError(f"x0 has {x.shape[-2]} points, expected {accepted}; raise n_particles or leave some out")
    return x


def seed_sequence(random_state: Any) -> np.random.SeedSequence:
    """The seed that a `random_state` stands for, a new object; of a generator, one that it draws."""
    if isinstance(random_state, np.random.SeedSequence):
        # a fresh copy: spawning must not count against the caller's
        return np.random.SeedSequence(
            random_state.entropy, spawn_key=random_state.spawn_key, pool_size=random_state.pool_size
        )
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    elif isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    if random_state is None:
        return np.random.SeedSequence()
    if not isinstance(random_state, (int, np.integer)) or isinstance(random_state, bool) or random_state < 0:
        raise ValueError(
            f"random_state={random_state!r} must be None, a non-negative integer, a numpy SeedSequence, Generator or "
            "RandomState, or a list of them, one per run"
        )
    return np.random.SeedSequence(int(random_state))


def settled_seed(random_state: Any) -> Any:
    """The same seed as an object that gives the same streams each time: a seed sequence, or a list of them."""
    if isinstance(random_state, (list, tuple)):
        return [seed_sequence(seed) for seed in random_state]
    return seed_sequence(random_state)
