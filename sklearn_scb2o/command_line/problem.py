"""A problem of a program: its variables, how it is started and read, how to search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Placeholders of a command besides the names of the variables.
PLACEHOLDERS = ("parameters", "directory")
#: Files that each evaluation has in its directory.
WRITTEN = ("parameters.json", "stdout.txt", "stderr.txt")
KEEP = ("none", "failed", "all")


@dataclass(frozen=True)
class Variable:
    """A variable of the program.

    The optimizer works on a coordinate of it: its logarithm with `log`, and for integers an interval in which each
    integer is the nearest one on an equal part.
    """

    name: str
    low: float
    high: float
    log: bool = False
    integer: bool = False
    start: float | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the coordinate."""
        margin = 0.5 if self.integer and self.low < self.high else 0.0
        low, high = self.low - margin, self.high + margin
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def coordinate(self, value: float) -> float:
        """The coordinate of a value."""
        return math.log(value) if self.log else float(value)

    def value(self, coordinate: float) -> float:
        """The value at a coordinate: an int of an integer variable, else a float; within the bounds to the last bit."""
        value = math.exp(coordinate) if self.log else float(coordinate)
        if self.integer:
            value = math.floor(value + 0.5)
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Program:
    """How the program is started and how its answer is read; the tables [program] and [output]."""

    command: tuple[str, ...]
    files: tuple[Path, ...]
    links: tuple[Path, ...]
    environment: Mapping[str, str]
    timeout: float | None
    keep: str
    directory: Path | None
    file: str | None
    lower: str
    upper: str


@dataclass(frozen=True)
class Problem:
    """What a problem file says.

    Attributes
    ----------
    path : Path
        The file.
    checkpoint : Path
        Where the state of the run is saved.
    variables : tuple of Variable
    program : Program
    run : dict
        Arguments of `minimize`: workers, budget and so on.
    optimizer : dict
        Parameters of the optimizer.
    """

    path: Path
    checkpoint: Path
    variables: tuple[Variable, ...]
    program: Program
    run: dict[str, Any]
    optimizer: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the file without its suffix."""
        return self.path.stem

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Of the coordinates in which the optimizer works."""
        return [v.bounds for v in self.variables]

    def values(self, x: Any) -> dict[str, float]:
        """The variables at a point of the optimizer."""
        return {v.name: v.value(float(y)) for v, y in zip(self.variables, x, strict=True)}


def shown(values: Mapping[str, float]) -> str:
    """Variables as part of a message."""
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())
