"""A growing table of numbers, one row per iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import get_namespace, to_numpy
from .motion import Moments

#: The columns: the paper's four metrics (L and G at the consensus point, its distance to a known optimum, the mean
#: spread of the particles), and what explains them.
COLUMNS = ("lower", "upper", "distance", "spread", "ess", "alpha", "tau", "quantile", "n_failed")
_RECENT = 64
_INDEX = {name: i for i, name in enumerate(COLUMNS)}
_WEIGHTS, _SPREAD = _INDEX["ess"], _INDEX["spread"]
_MANY = 1024  # numbers of an array that is kept until it is written
#: Iterations after which an optimizer looks at what it left on a device.
LOOK_EVERY = 64


class History:
    """Numbers of shape (R,) per column and iteration, in an array that doubles when it is full.

    Memory grows by 9 numbers per iteration and run, whatever the population. Arrays of libraries other than NumPy stay
    where they are until somebody asks, or `LOOK_EVERY` rows are there; then they come to the host all at once.
    """

    def __init__(self, n_runs: int, measure: Callable[[Moments], Any]) -> None:
        self.measure = measure  # the spreads, of one row or of several, from their moments
        self._rows = np.full((_RECENT, len(COLUMNS), n_runs), np.nan)
        self._written = 0
        self._recent: list[tuple[Any, ...]] = []  # rows not yet in the array: one by one, writing them takes longer

    def __repr__(self) -> str:
        return f"History(n_iter={self._written + len(self._recent)}, columns={COLUMNS})"

    @classmethod
    def from_table(cls, table: NDArray[np.float64], measure: Callable[[Moments], Any]) -> History:
        """The history whose `table` this is."""
        history = cls(table.shape[2], measure)
        history._rows = np.full((max(_RECENT, table.shape[0]), *table.shape[1:]), np.nan)
        history._rows[: table.shape[0]] = table
        history._written = table.shape[0]
        return history

    def table(self) -> NDArray[np.float64]:
        """Copy of all rows, (n_iterations, n_columns, R)."""
        self._write()
        return self._rows[: self._written].copy()

    def of_runs(self, runs: NDArray[np.intp]) -> History:
        """The history of some of the runs, in that order."""
        self._write()
        return History.from_table(self._rows[: self._written, :, runs], self.measure)

    def append(self, *row: Any) -> None:
        """Add a row: a number or array of shape (R,) for each of `COLUMNS`.

        For "ess" the weights (R, n), and for "spread" maybe `Moments`: both are worked out for several rows at once.
        """
        weights = row[_WEIGHTS]
        if not isinstance(weights, np.ndarray):
            ess = 1.0 / get_namespace(weights).vecdot(weights, weights)
            self._recent.append((*row[:_WEIGHTS], ess, *row[_WEIGHTS + 1 :]))
            if len(self._recent) == LOOK_EVERY:
                self._write()
            return
        values = list(row)
        if weights.size > _MANY:  # large arrays are not kept
            values[_WEIGHTS] = 1.0 / np.vecdot(weights, weights)
        if isinstance(row[_SPREAD], Moments) and row[_SPREAD].first.size > _MANY:
            values[_SPREAD] = self.measure(row[_SPREAD])
        if self._rows.shape[2] > 1:  # arrays that may be views of larger ones
            values = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
        self._recent.append(tuple(values))
        if len(self._recent) == _RECENT:
            self._write()

    def _write(self) -> None:
        stop = self._written + len(self._recent)
        while stop > len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, np.nan)])
        if not self._recent:
            return
        if not isinstance(self._recent[0][_WEIGHTS], np.ndarray):
            self._rows[self._written : stop] = _fetched(self._recent, self._rows.shape[2])
            self._written, self._recent = stop, []
            return
        rows = self._rows[self._written : stop]
        for i, column in enumerate(zip(*self._recent, strict=True)):
            if i == _WEIGHTS and column[0].ndim > 1:  # effective sample sizes
                weights = np.stack(column)
                rows[:, i] = 1.0 / np.vecdot(weights, weights)
            elif i == _SPREAD:
                self._write_spreads(rows, column)
            elif rows.shape[2] == 1:
                rows[:, i] = [[_number(value)] for value in column]
            else:
                for j, value in enumerate(column):
                    rows[j, i] = value
        self._written, self._recent = stop, []

    def _write_spreads(self, rows: NDArray[np.float64], spreads: tuple[Any, ...]) -> None:
        unmeasured = [j for j, spread in enumerate(spreads) if isinstance(spread, Moments)]
        if unmeasured:
            sums = Moments(*(np.concatenate([spreads[j][k] for j in unmeasured]) for k in (0, 1)))
            rows[unmeasured, _SPREAD, 0] = self.measure(sums)
        for j, spread in enumerate(spreads):
            if not isinstance(spread, Moments):
                rows[j, _SPREAD] = spread

    def amend(self, **values: Any) -> None:
        """Set columns of the last row."""
        if self._recent and not isinstance(self._recent[-1][_WEIGHTS], np.ndarray):
            row = dict(zip(COLUMNS, self._recent[-1], strict=True))
            self._recent[-1] = tuple({**row, **values}.values())
            return
        self._write()
        for name, value in values.items():
            self._rows[self._written - 1, _INDEX[name]] = value

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """The columns by name, each (n_iterations, R), or (n_iterations,) for a single run."""
        table = self.table()
        return {name: table[:, i, 0] if table.shape[2] == 1 else table[:, i] for name, i in _INDEX.items()}

    def first(self, name: str) -> NDArray[np.float64]:
        """A column of the first row, (R,)."""
        self._write()
        return self._rows[0, _INDEX[name]]

    def last(self, name: str) -> NDArray[np.float64]:
        """A column of the last row, (R,)."""
        self._write()
        return self._rows[self._written - 1, _INDEX[name]]


def _number(value: Any) -> float:
    """A number, from itself or an array of one."""
    return value if isinstance(value, (float, int)) else value.item()


def _fetched(rows: list[tuple[Any, ...]], n_runs: int) -> NDArray[np.float64]:
    """Rows of numbers and of arrays on a device, (n_rows, n_columns, R), by a single transfer."""
    table = np.empty((len(rows), len(COLUMNS), n_runs))
    there = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if isinstance(value, (float, int, np.ndarray)):
                table[i, j] = value
            else:
                there.append((i, j, value))
    like = rows[0][_WEIGHTS]
    xp = get_namespace(like)
    values = to_numpy(xp.stack([xp.astype(value, like.dtype) for _, _, value in there]))
    table[[i for i, _, _ in there], [j for _, j, _ in there]] = values
    return table
