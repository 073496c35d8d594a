"""The best candidate of a search."""

from __future__ import annotations

import numpy as np


class Incumbent:
    """The best candidate so far: within the limit (or closest to it), then of smallest upper value, then objective.

    A value that is not a number counts as infinite.

    Parameters
    ----------
    limit : float
        Objectives up to here are good enough.

    Attributes
    ----------
    item : ndarray
        The candidate.
    lower, upper : float
        Its objective and upper value.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.item = np.zeros(0)
        self.lower = self.upper = np.inf

    def reaches(self, lower: float) -> bool:
        """Whether a candidate with this objective may be better, whatever its upper value."""
        return max(_number(lower), self._limit) <= max(self.lower, self._limit)

    def take(self, item: np.ndarray, lower: float, upper: float) -> bool:
        """Keep a candidate if it is the best; returns whether it is."""
        lower, upper = _number(lower), _number(upper)
        if not self._key(lower, upper) < self._key(self.lower, self.upper):
            return False
        self.item, self.lower, self.upper = item.copy(), lower, upper
        return True

    def choose(self, lower: np.ndarray, upper: np.ndarray) -> int | None:
        """The best of some candidates, if it is better than the one so far."""
        keys = [self._key(_number(low), _number(up)) for low, up in zip(lower, upper, strict=True)]
        row = min(range(len(keys)), key=keys.__getitem__, default=None)
        return row if row is not None and keys[row] < self._key(self.lower, self.upper) else None

    def _key(self, lower: float, upper: float) -> tuple[float, float, float]:
        return max(lower, self._limit), upper, lower


def _number(value: float) -> float:
    return np.inf if np.isnan(value) else float(value)
