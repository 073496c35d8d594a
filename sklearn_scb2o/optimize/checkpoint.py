"""Checkpoints: nested dictionaries and lists of numbers and arrays in one file that a crash cannot spoil.

A file is a header (magic, format version, length and SHA-256 of all else) and a payload: a line of JSON, in which
arrays are numbered, and after it the arrays in the format of ``.npy`` files. Nothing in it is ever executed: there is
no pickle, and arrays of Python objects are refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import CheckpointError
from .journal import Journal
from .parameters import check_count
from .pool import Key
from .stopping import Limits
from .storage import StrPath, decode, encode, locked, read_array, remove_leftovers, write_array, write_atomically

MAGIC = b"\x93SCB2O\r\n"
VERSION = 1
_HEADER = struct.Struct("<8sIQ32s")  # magic, version, length of the payload, SHA-256 of version, length and payload


def write_checkpoint(path: StrPath, contents: dict[str, Any]) -> None:
    """Write `contents` to one file, atomically.

    A crash at any moment leaves either the previous file or the new one, whole.

    Parameters
    ----------
    path : str or path-like
        The file; its folder must exist.
    contents : dict
        Nested dictionaries with strings as keys, lists and tuples of numbers of any size, strings, booleans, None,
        and NumPy arrays and scalars other than those of Python objects.

    Raises
    ------
    CheckpointError
        If something in `contents` cannot be stored, saying what and where. No file is written.
    OSError
        If the file cannot be written; a previous one stays as it was.
    """
    arrays: list[NDArray[Any]] = []
    payload = io.BytesIO()
    try:
        payload.write(json.dumps(encode(contents, arrays, "contents"), separators=(",", ":")).encode("ascii") + b"\n")
    except ValueError as error:  # an integer of more digits than Python converts
        raise CheckpointError(f"contents cannot be stored: {error}") from error
    for array in arrays:
        write_array(payload, array)
    data = payload.getvalue()
    write_atomically(path, _HEADER.pack(MAGIC, VERSION, len(data), _digest(VERSION, data)) + data)


def read_checkpoint(path: StrPath) -> dict[str, Any]:
    """Return what `write_checkpoint` wrote: the same types and values, arrays to the bit, in native byte order.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    dict

    Raises
    ------
    CheckpointError
        If the file is not a checkpoint, truncated, corrupt, of a newer version, or holds Python objects.
    OSError
        If the file cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
        if not header or header[: len(MAGIC)] != MAGIC[: len(header)]:
            raise CheckpointError(f"{name} is not a checkpoint of sklearn_scb2o")
        data = file.read()
    if len(header) < _HEADER.size:
        raise CheckpointError(f"{name} is truncated: it ends in the header; take an earlier copy")
    _, version, length, digest = _HEADER.unpack(header)
    if version > VERSION:
        raise CheckpointError(
            f"{name} has version {version} of the checkpoint format, this sklearn_scb2o reads up to version {VERSION}: "
            "upgrade sklearn_scb2o"
        )
    if len(data) < length:
        raise CheckpointError(f"{name} is truncated: {len(data)} of {length} bytes are there; take an earlier copy")
    if len(data) > length or digest != _digest(version, data):
        raise CheckpointError(f"{name} is corrupt: its checksum is wrong; take an earlier copy")
    try:
        return _parse(data)
    except Exception as error:  # with a right checksum: made by something else
        raise CheckpointError(f"{name} is refused, its contents are not those of a checkpoint: {error}") from error


def _parse(data: bytes) -> dict[str, Any]:
    file = io.BytesIO(data)
    values = json.loads(file.readline())
    arrays = []
    while file.tell() < len(data):
        arrays.append(read_array(file))
    contents = decode(values, arrays)
    if not isinstance(contents, dict):
        raise ValueError("they are no dictionary")
    return contents


def _digest(version: int, data: bytes) -> bytes:
    digest = hashlib.sha256(struct.pack("<IQ", version, len(data)))
    digest.update(data)
    return digest.digest()


def optimizer_contents(optimizer: Any) -> dict[str, Any]:
    """What a checkpoint holds of an optimizer: its state, its parameters, and the names of those it cannot hold."""
    stored, lost = _storable(optimizer.arguments())
    return {"optimizer": optimizer.state_dict(), "parameters": stored, "not_stored": lost}


def stored_arguments(contents: dict[str, Any], overrides: dict[str, Any], path: StrPath) -> dict[str, Any]:
    """Arguments of the optimizer's constructor from what `optimizer_contents` stored, with the overrides."""
    _check_optimizer(contents, path)
    for name in ("bounds", "x0", "x_scale", "random_state"):
        if name in overrides:
            raise ValueError(
                f"{name} cannot be given to load(): the state in {os.fspath(path)} depends on it; leave it out, or "
                "start another run, from points of this one by SCB2OOptimizer(x0=...)"
            )
    missing = [name for name in contents["not_stored"] if name not in overrides]
    if missing:
        given = ", ".join(f"{name}=..." for name in missing)
        raise ValueError(
            f"{', '.join(missing)}: callables, own selectors and devices are not stored in {os.fspath(path)}; give "
            f"them again: load(path, {given})"
        )
    return {**contents["parameters"], **overrides}


def check_same(contents: dict[str, Any], optimizer: Any, but: Collection[str], path: StrPath) -> None:
    """Raise a ValueError that names the parameters, other than `but`, that an optimizer does not share with a file."""
    _check_optimizer(contents, path)
    there, (own, _) = contents["parameters"], _storable(optimizer.arguments())
    pairs = {name: (np.asarray(own.get(name)), np.asarray(there.get(name))) for name in own.keys() | there.keys()}
    other = [
        f"{name}={value.tolist()!r:.80}, there {stored.tolist()!r:.80}"
        for name, (value, stored) in sorted(pairs.items())
        if name not in but and not np.array_equal(value, stored)
    ]
    if other:
        raise ValueError(
            f"{os.fspath(path)} belongs to a run with other parameters: {'; '.join(other)}. Give the same, or another "
            "file"
        )


def _check_optimizer(contents: dict[str, Any], path: StrPath) -> None:
    if not {"optimizer", "parameters", "not_stored"} <= contents.keys():
        raise CheckpointError(f"{os.fspath(path)} is a checkpoint, but not of an optimizer")


def _storable(arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The arguments that a checkpoint can hold, and the names of the others."""
    lost = []
    for name, value in arguments.items():
        try:
            encode(value, [])
        except CheckpointError:
            lost.append(name)
    return {name: value for name, value in arguments.items() if name not in lost}, lost


class Checkpoint:
    """The checkpoint file of a run and the journal beside it, as a loop uses them.

    Of a run that is killed at any moment nothing is lost but the evaluations in flight: the file holds the optimizer
    at some iteration, the journal the evaluations that finished since. To resume is to run the same loop again, in
    which the evaluations in the journal are answered from it, in the order in which they finished::

        with Checkpoint.locked(path, 10) as checkpoint, JournaledPool(make_pool(workers), checkpoint.journal) as pool:
            if checkpoint.contents is None:
                checkpoint.write(optimizer, counts=evaluator.counts)  # before the first evaluation
            else:
                checkpoint.restore(optimizer)
                evaluator.counts = checkpoint.contents["counts"]
            while not optimizer.stop():
                ...  # ask, evaluate through `pool`, tell
                if checkpoint.is_due(optimizer.n_iter):
                    checkpoint.write(optimizer, counts=evaluator.counts)

    Whatever else decides how the loop goes on must be in the file, too. The keys of evaluations must be the same in
    the resumed run, and unique since the last `write`.

    A run that ends by an exception or an interrupt need not write: file and journal are up to date as they are. Where a
    failed evaluation ends the run, ``keeps`` of `JournaledPool` leaves it out of the journal, to be tried again.

    Parameters
    ----------
    path : str or path-like
        The file; the journal is ``path + ".journal"``.
    every : int
        Iterations between two checkpoints. The file takes a few milliseconds and holds the whole history; what is
        between two of them costs nothing but the time to replay it.

    Attributes
    ----------
    contents : dict or None
        What the file held when this object was made; None where there was none. Of an optimizer "optimizer" (the
        state), "parameters" and "not_stored"; besides "generation", "unsettled", and all that was given to `write`.
    journal : Journal
        For `JournaledPool`.

    Raises
    ------
    CheckpointError
        If the file or the journal is corrupt, truncated or of a newer version.
    """

    def __init__(self, path: StrPath, every: int = 1) -> None:
        self.path, self.every = os.fspath(path), check_count("checkpoint_every", every)
        self.contents: dict[str, Any] | None = None
        self.journal = Journal(path)
        self._written_at = 0
        for name in (self.path, self.journal.path):
            remove_leftovers(name)
        if os.path.exists(self.path):
            self.contents = read_checkpoint(self.path)
            if "generation" in self.contents:  # else written by SCB2OOptimizer.save
                self.journal.open(self.contents["generation"], self.contents.get("unsettled", ()))

    @classmethod
    @contextmanager
    def locked(cls, path: StrPath, every: int = 1) -> Iterator[Checkpoint]:
        """The checkpoint of a run, which no other run can have meanwhile; parameters as for the class."""
        with locked(path):
            yield cls(path, every)

    def restore(self, optimizer: Any) -> None:
        """Give the state in the file to an optimizer, whose parameters must be the same, limits excepted.

        Raises
        ------
        ValueError
            For other parameters, naming them; the optimizer is then as before.
        """
        contents = {} if self.contents is None else self.contents
        check_same(contents, optimizer, {"device", *(f.name for f in fields(Limits))}, self.path)
        optimizer.load_state_dict(contents["optimizer"])
        self._written_at = optimizer.n_iter
        if "generation" not in contents:
            self.write(optimizer)

    def is_due(self, n_iter: int) -> bool:
        """Whether `every` iterations have passed since the last checkpoint."""
        return n_iter - self._written_at >= self.every

    def write(self, optimizer: Any, *, unsettled: Collection[Key] = (), **more: Any) -> None:
        """Write the file, atomically, and let the journal begin anew.

        Parameters
        ----------
        optimizer : SCB2OOptimizer
            Its state and parameters are stored.
        unsettled : collection of keys
            Finished evaluations whose values the optimizer has not been told, such as L where G is still in flight:
            they stay on record. Keys that have not finished may be among them.
        **more
            Anything that `write_checkpoint` takes, such as counts.
        """
        generation = secrets.token_hex(16)
        contents = {"generation": generation, "unsettled": self.journal.unsettled(unsettled)}
        write_checkpoint(self.path, {**more, **optimizer_contents(optimizer), **contents})
        # a crash here leaves a journal of an older generation, which is ignored
        self.journal.restart(generation, contents["unsettled"])
        self._written_at = optimizer.n_iter
