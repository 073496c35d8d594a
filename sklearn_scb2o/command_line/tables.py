"""Tables of a problem file: keys are taken one by one, and what is wrong with one is said."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from .problem import PLACEHOLDERS


class Kind(NamedTuple):
    """What is accepted as the value of a key."""

    holds: Callable[[Any], bool]
    accepted: str


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def one_of(*names: str) -> Kind:
    """One of these strings."""
    return Kind(lambda v: isinstance(v, str) and v in names, " or ".join(f'"{name}"' for name in names))


TEXT = Kind(lambda v: isinstance(v, str) and bool(v.strip()), "a string that is not empty")
TEXTS = Kind(_are_texts, "a list of strings")
COMMAND = Kind(lambda v: bool(v) and (isinstance(v, str) or _are_texts(v)), "a list of strings, or one string")
STRINGS = Kind(
    lambda v: isinstance(v, dict) and all(isinstance(s, str) for s in v.values()), "a table of names with strings"
)
TABLES = Kind(lambda v: isinstance(v, list) and bool(v), "at least one table [[variables]]")
FLAG = Kind(lambda v: isinstance(v, bool), "true or false")
NUMBER = Kind(_is_number, "a finite number")
INTEGER = Kind(lambda v: _is_number(v) and v == int(v), "an integer, as integer = true")
SECONDS = Kind(lambda v: _is_number(v) and v > 0, "a positive number of seconds")
COUNT = Kind(lambda v: _is_count(v) and v > 0, "a positive integer")
COUNT_OR_ZERO = Kind(_is_count, "an integer of at least 0")
WORKERS = Kind(lambda v: v == -1 or (_is_count(v) and v > 0), "a positive integer, or -1: one per core")
INSIDE = Kind(
    lambda v: isinstance(v, str) and bool(v.strip()) and not os.path.isabs(v) and ".." not in Path(v).parts,
    "the path of a file in the directory of the evaluation, relative to it",
)
NAME = Kind(
    lambda v: isinstance(v, str) and v.isidentifier() and v not in PLACEHOLDERS,
    f"a name of letters, digits and _, other than {' and '.join(PLACEHOLDERS)}",
)


class Table:
    """A table of the file; what is wrong with it is a ValueError that names file, key, value, and what is accepted.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        How messages call the table.
    values : object
        What the file has there.
    accepted : collection of str
        Its keys.
    """

    def __init__(self, path: Path, label: str, values: Any, accepted: Collection[str]) -> None:
        self.path, self.label, self.values = path, label, values
        if not isinstance(values, dict):
            raise ValueError(f"{path}: {label}is {values!r:.80}, it must be a table")
        for key in values:
            if key not in accepted:
                raise self.error(key, f"is unknown; accepted are {', '.join(accepted)}")

    def take(self, key: str, kind: Kind, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self.need(key, kind) if key in self.values else default

    def need(self, key: str, kind: Kind) -> Any:
        """The value of a key that must be there."""
        if key not in self.values:
            raise ValueError(f"{self.path}: {self.label}{key} is missing; it must be {kind.accepted}")
        if not kind.holds(self.values[key]):
            raise self.error(key, f"must be {kind.accepted}")
        return self.values[key]

    def error(self, key: str, what: str) -> ValueError:
        """What is wrong with a key."""
        value = repr(self.values[key])
        shown = value if len(value) <= 160 else f"{value[:160]}..."
        return ValueError(f"{self.path}: {self.label}{key} = {shown} {what}")
