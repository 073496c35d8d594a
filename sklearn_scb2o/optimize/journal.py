"""Finished evaluations, appended to a file beside the checkpoint, and given back after a crash."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..exceptions import CheckpointError, SCB2OWarning
from .calls import Call, Outcome
from .pool import Finished, Key, Pool
from .storage import StrPath, array_as_text, array_from_text, decode, encode, write_atomically

VERSION = 1
#: Of a message, such as a traceback, the last characters are kept.
LONGEST_MESSAGE = 2000
#: Seconds between two times that lines are forced to the disk, which takes a while.
SYNC = 1.0


class Record(NamedTuple):
    """A finished evaluation."""

    key: Key
    point: str  #: digest of the point
    outcome: Outcome
    capacity: int | None = None  #: evaluations that could be worked on at once when it was waited for, if it says so


class Journal:
    """A file of lines, each a finished evaluation, that continues one checkpoint.

    A line is the CRC-32 of the rest and JSON; the first one names the generation, a random id that the checkpoint
    holds, too. Every line is written at once, so that a process that is killed loses nothing, and reaches the disk
    within `SYNC` seconds of evaluations, so that neither does a machine that fails. An empty journal is one line.

    Parameters
    ----------
    path : str or path-like
        Of the checkpoint; the journal is ``path + ".journal"``.

    Attributes
    ----------
    records : deque of Record
        What is left to be given back by `JournaledPool`.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = f"{os.fspath(path)}.journal"
        self.records: deque[Record] = deque()
        self._lines: list[tuple[Key, str]] = []  # of this generation; those of `records` are the last ones
        self._file: int | None = None
        self._synced_at = 0.0

    def open(self, generation: str, first: Iterable[str] = ()) -> None:
        """Read the records of a generation, after those of the lines `first`; a journal of another one is ignored.

        Raises
        ------
        CheckpointError
            If the journal is of a newer version, or a line is corrupt, other than a last one that was being written.
        """
        self.close()
        lines, data, end = list(first), b"", None
        if os.path.exists(self.path):
            with open(self.path, "rb") as file:
                data = file.read()
        try:
            if data:
                end = _read(data, generation, lines)
            records = [_record_from_json(_parse(line)) for line in lines]
        except _NewerVersion as error:
            raise CheckpointError(f"{self.path} {error}") from None
        except Exception as error:
            raise CheckpointError(
                f"{self.path} is corrupt: {error}. Remove it to go on from the checkpoint alone: the evaluations since "
                "are then made again"
            ) from error
        if end is None:
            self.restart(generation, lines)
        elif end < len(data):  # the next line must not follow a torn one
            os.truncate(self.path, end)
        self.records = deque(records)
        self._lines = [(record.key, line) for record, line in zip(records, lines, strict=True)]

    def restart(self, generation: str, first: Iterable[str] = ()) -> None:
        """Begin anew, atomically, as the continuation of the checkpoint of that generation and its lines `first`."""
        self.close()
        write_atomically(self.path, _line({"journal": VERSION, "generation": generation}).encode("ascii"))
        self._lines = [(_key(_parse(line)), line) for line in first]

    def append(self, key: Key, point: str, outcome: Outcome, capacity: int) -> None:
        """Record a finished evaluation."""
        line = _line(_record_as_json(key, point, outcome, capacity))
        self._write(line)
        self._lines.append((key, line))

    def unsettled(self, keys: Collection[Key]) -> list[str]:
        """Lines of those of the keys that are on record, and of all that is left to be given back."""
        known = len(self._lines) - len(self.records)
        return [line for i, (key, line) in enumerate(self._lines) if i >= known or key in keys]

    def drop(self) -> None:
        """Forget what is left to be given back."""
        self._write(_line({"dropped": len(self.records)}))
        del self._lines[len(self._lines) - len(self.records) :]
        self.records.clear()

    def close(self) -> None:
        """Close the file, until something is written again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: str) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        end, data = os.fstat(self._file).st_size, line.encode("ascii")
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except BaseException:  # such as a full disk: no torn line stays
            os.ftruncate(self._file, end)
            raise
        if time.monotonic() - self._synced_at > SYNC:
            os.fsync(self._file)
            self._synced_at = time.monotonic()


class JournaledPool(Pool):
    """A pool that first gives back what a journal holds, then records what finishes.

    Recorded evaluations come from `next` in the recorded order, each once it has been submitted; meanwhile all else
    that is submitted is held back, and the capacity is what it was. So a loop that handles one evaluation after the
    other goes the same way again, also where tasks finish in any order, or the number of workers has changed.

    If `next` is called before the evaluation whose turn it is has been submitted, or that was submitted with another
    point, the run has diverged: the rest of the record is dropped, with a warning.

    Parameters
    ----------
    pool : Pool
        Where evaluations are made.
    journal : Journal
        Opened or restarted.
    keeps : callable, optional
        ``keeps(key, outcome)``: whether a finished evaluation is recorded, all by default. What ends the run should not
        be, or the resumed one would end by it again.
    """

    def __init__(self, pool: Pool, journal: Journal, keeps: Callable[[Key, Outcome], bool] | None = None) -> None:
        super().__init__()
        self._pool, self._journal, self._keeps = pool, journal, keeps
        self._capacity = self._next_capacity()

    @property
    def capacity(self) -> int:
        """That of the pool, or that on record; the same from one call of `next` to another."""
        return self._capacity

    def next(self) -> Finished:
        """The next one on record, or that is finished."""
        finished = super().next()
        self._capacity = self._next_capacity()
        return finished

    def submit(self, key: Key, call: Call, x: NDArray[Any]) -> None:
        """Ask for an evaluation, which is made unless it is on record."""
        if not self._journal.records:
            self._pool.submit(key, call, x)
        super().submit(key, call, x)

    def close(self) -> None:
        """Close the pool and the journal."""
        super().close()
        self._pool.close()
        self._journal.close()

    def _wait(self) -> Finished:
        records = self._journal.records
        if records:
            key, point, outcome, _ = records[0]
            if key in self._unfinished and self._point(key) == point:
                records.popleft()
                if not records:
                    self._release(other_than=key)
                return key, outcome
            reason = "with another point" if key in self._unfinished else "later or not at all"
            warnings.warn(
                f"the resumed run has diverged: evaluation {key[0]} of {key[1]}, the next on record in "
                f"{self._journal.path}, was submitted {reason}; the record of {len(records)} evaluations is dropped",
                SCB2OWarning,
                stacklevel=3,
            )
            self._journal.drop()
            self._release()
        key, outcome = self._pool.next()
        if self._keeps is None or self._keeps(key, outcome):
            self._journal.append(key, self._point(key), outcome, self._capacity)
        return key, outcome

    def _next_capacity(self) -> int:
        recorded = self._journal.records[0].capacity if self._journal.records else None
        return self._pool.capacity if recorded is None else recorded

    def _point(self, key: Key) -> str:
        """Digest of the point of an unfinished evaluation."""
        return hashlib.blake2b(np.asarray(self._unfinished[key][1]).tobytes(), digest_size=8).hexdigest()

    def _release(self, other_than: Key | None = None) -> None:
        for key, (call, x) in self._unfinished.items():
            if key != other_than:
                self._pool.submit(key, call, x)


def _line(values: dict[str, Any]) -> str:
    text = json.dumps(values, separators=(",", ":"))
    return f"{zlib.crc32(text.encode('ascii')):08x} {text}\n"


def _parse(line: str) -> dict[str, Any]:
    text = line[9:-1]
    if line[:9] != f"{zlib.crc32(text.encode('ascii')):08x} ":
        raise ValueError("its checksum is wrong")
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("it is no dictionary")
    return values


class _NewerVersion(Exception):
    pass


def _read(data: bytes, generation: str, lines: list[str]) -> int | None:
    """Add the lines of a journal to `lines`, and return the length of what is whole; None if of another generation."""
    *whole, torn = data.split(b"\n")
    if not whole:
        raise ValueError("the first line is not whole")
    end = 0
    for i, line in enumerate(whole):
        try:
            text = line.decode("ascii") + "\n"
            values = _parse(text)
        except ValueError as error:
            if i and i == len(whole) - 1 and not torn:
                break
            raise ValueError(f"in line {i + 1}, {error}") from None
        if i == 0:
            if values["journal"] > VERSION:
                raise _NewerVersion(
                    f"has version {values['journal']} of the journal format, this sklearn_scb2o reads up to version "
                    f"{VERSION}: upgrade sklearn_scb2o"
                )
            if values["generation"] != generation:
                return None
        elif "dropped" in values:
            del lines[len(lines) - values["dropped"] :]
        else:
            lines.append(text)
        end += len(text)
    return end


def _key(values: dict[str, Any]) -> Key:
    return values["number"], values["kind"]


def _record_as_json(key: Key, point: str, outcome: Outcome, capacity: int) -> dict[str, Any]:
    return {
        "number": int(key[0]),
        "kind": key[1],
        "point": point,
        **_value_as_json(outcome.value),
        "failure": outcome.failure,
        "message": outcome.message[-LONGEST_MESSAGE:],
        "seconds": float(outcome.seconds),
        "capacity": capacity,
    }


def _record_from_json(values: dict[str, Any]) -> Record:
    arrays = [array_from_text(text) for text in values.get("arrays", ())]
    outcome = Outcome(
        value=decode(values["value"], arrays),
        failure=values["failure"],
        message=values["message"],
        seconds=values["seconds"],
    )
    return Record(_key(values), values["point"], outcome, values.get("capacity"))


def _value_as_json(value: Any) -> dict[str, Any]:
    """What a function returned, such that it comes back equal; what no file can hold, as an array of floats.

    What is no number either becomes a string: as before, it is something of the wrong type.
    """
    for form in (_plain, lambda v: np.asarray(v, dtype=float)):
        arrays: list[NDArray[Any]] = []
        try:
            encoded = {"value": encode(form(value), arrays)}
            json.dumps(encoded)
        except Exception:  # whatever the conversion of an unknown type raises
            continue
        if arrays:
            encoded["arrays"] = [array_as_text(array) for array in arrays]
        return encoded
    return {"value": f"<{type(value).__name__}>"}


def _plain(value: Any) -> Any:
    if isinstance(value, np.float64):
        return float(value)
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    return value
