"""What the files of the library share: how they are written, and values as JSON with arrays beside it."""

from __future__ import annotations

import base64
import contextlib
import errno
import glob
import io
import os
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..exceptions import CheckpointError

StrPath = str | os.PathLike[str]
_STORABLE = (
    "dictionaries with strings as keys, lists, tuples, strings, numbers, booleans, None, and NumPy arrays and scalars "
    "of numbers, dates or strings"
)


def write_atomically(path: StrPath, data: bytes) -> None:
    """Write a file such that a crash at any moment leaves the previous one or the new one."""
    target = _target(path)
    folder = os.path.dirname(target)
    temporary = f"{target}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # elsewhere folders cannot be opened
        with contextlib.suppress(OSError):  # nor synchronised on some file systems
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def locked(path: StrPath) -> Iterator[None]:
    """Hold the lock of a file, as one run at a time can; it ends with the process, however that ends.

    Raises
    ------
    CheckpointError
        If another run, of this process or another, holds it.
    """
    lock = FileLock(f"{_target(path)}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CheckpointError(
            f"{os.fspath(path)} is in use by a run that has not ended: wait for it or stop it, or take another file"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _target(path: StrPath) -> str:
    """The file to write, of a link what it points to; its folder exists."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to write a checkpoint to", folder)
    return target


def remove_leftovers(path: StrPath) -> None:
    """Remove temporary files of processes that were killed while they wrote `path`."""
    for temporary in glob.glob(f"{glob.escape(os.path.realpath(path))}.{'[0-9a-f]' * 16}.tmp"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def encode(value: Any, arrays: list[NDArray[Any]], where: str = "value") -> Any:
    """The value as JSON can hold it; its arrays are appended to `arrays` and referred to by their index."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        items = [encode(v, arrays, f"{where}[{i}]") for i, v in enumerate(value)]
        return items if type(value) is list else {"tuple": items}
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                raise CheckpointError(f"{where} has the key {key!r}, only strings can be keys in a checkpoint")
        return {"dict": {key: encode(v, arrays, f"{where}[{key!r}]") for key, v in value.items()}}
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        raise CheckpointError(f"{where} is of type {type(value).__name__}; a checkpoint can hold {_STORABLE}")
    dtype = value.dtype
    if dtype.hasobject or npy.descr_to_dtype(npy.dtype_to_descr(dtype)) != dtype:
        raise CheckpointError(f"{where} is an array of dtype {dtype}; a checkpoint can hold {_STORABLE}")
    arrays.append(np.asarray(value))
    return {"array" if type(value) is np.ndarray else "scalar": len(arrays) - 1}


def decode(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """What `encode` was given."""
    if isinstance(value, list):
        return [decode(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "dict":
        return {key: decode(v, arrays) for key, v in inner.items()}
    if kind == "tuple":
        return tuple(decode(v, arrays) for v in inner)
    if kind not in ("array", "scalar"):
        raise ValueError(f"{kind!r} is unknown")
    return arrays[inner] if kind == "array" else arrays[inner][()]


def read_array(file: io.BytesIO) -> NDArray[Any]:
    """The next array of a file in npy format, in native byte order; arrays of Python objects are an error."""
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def write_array(file: io.BytesIO, array: NDArray[Any]) -> None:
    """Append an array to a file in npy format; one of Python objects is an error."""
    npy.write_array(file, array, allow_pickle=False)


def array_as_text(array: NDArray[Any]) -> str:
    """An array in npy format, as text."""
    file = io.BytesIO()
    write_array(file, array)
    return base64.b64encode(file.getvalue()).decode("ascii")


def array_from_text(text: str) -> NDArray[Any]:
    """The array of `array_as_text`."""
    return read_array(io.BytesIO(base64.b64decode(text)))
