"""A growing table of numbers, one row per iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The columns: the paper's four metrics (L and G at the consensus point, its distance to a known optimum, the mean
#: spread of the particles), and what explains them.
COLUMNS = ("lower", "upper", "distance", "spread", "ess", "alpha", "tau", "quantile", "n_failed")
_RECENT = 16
_INDEX = {name: i for i, name in enumerate(COLUMNS)}
_WEIGHTS = _INDEX["ess"]


class History:
    """Numbers of shape (R,) per column and iteration, in an array that doubles when it is full.

    Memory grows by 9 numbers per iteration and run, whatever the population.
    """

    def __init__(self, n_runs: int) -> None:
        self._rows = np.full((_RECENT, len(COLUMNS), n_runs), np.nan)
        self._written = 0
        self._recent: list[tuple[Any, ...]] = []  # rows not yet in the array: one by one, writing them takes longer

    @classmethod
    def from_table(cls, table: NDArray[np.float64]) -> History:
        """The history whose `table` this is."""
        history = cls(table.shape[2])
        history._rows = np.full((max(_RECENT, table.shape[0]), *table.shape[1:]), np.nan)
        history._rows[: table.shape[0]] = table
        history._written = table.shape[0]
        return history

    def table(self) -> NDArray[np.float64]:
        """Copy of all rows, (n_iterations, n_columns, R)."""
        self._write()
        return self._rows[: self._written].copy()

    def append(self, *row: Any) -> None:
        """Add a row: a number or array of shape (R,) for each of `COLUMNS`, but for "ess" the weights (R, n)."""
        self._recent.append(row)
        if len(self._recent) == _RECENT or self._rows.shape[2] > 1:  # arrays may be views of larger ones
            self._write()

    def _write(self) -> None:
        stop = self._written + len(self._recent)
        while stop > len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, np.nan)])
        if not self._recent:
            return
        weights = np.stack([np.asarray(row[_WEIGHTS]) for row in self._recent])
        sizes = 1.0 / np.vecdot(weights, weights)  # effective sample sizes, of all rows at once
        for target, row, ess in zip(self._rows[self._written : stop], self._recent, sizes, strict=True):
            for i, value in enumerate(row):
                target[i] = ess if i == _WEIGHTS else value
        self._written, self._recent = stop, []

    def amend(self, **values: Any) -> None:
        """Set columns of the last row."""
        self._write()
        for name, value in values.items():
            self._rows[self._written - 1, _INDEX[name]] = value

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """The columns by name, each (n_iterations, R), or (n_iterations,) for a single run."""
        table = self.table()
        return {name: table[:, i, 0] if table.shape[2] == 1 else table[:, i] for name, i in _INDEX.items()}

    def last(self, name: str) -> NDArray[np.float64]:
        """A column of the last row, (R,)."""
        self._write()
        return self._rows[self._written - 1, _INDEX[name]]
