"""Calling the user's objectives: rows or batches, one function or two, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Evaluator:
    """The two objectives of a problem over batches of points.

    Parameters
    ----------
    lower : callable
        ``lower(x, *args)``, L at a point of shape (d,); with `vectorized`, at points of shape (n, d), returning (n,).
        Where `upper` is None it returns the pair (L, G).
    upper : callable or None
        ``upper(x, *args)``, G likewise.
    args : tuple
        Further arguments of both.
    vectorized : bool
        Whether the functions take batches.
    """

    def __init__(
        self, lower: Callable[..., Any], upper: Callable[..., Any] | None, args: tuple[Any, ...], vectorized: bool
    ) -> None:
        self._lower, self._upper, self._args, self._vectorized = lower, upper, args, vectorized
        self.nfev_lower = self.nfev_upper = 0

    @property
    def is_joint(self) -> bool:
        """Whether one call gives both values."""
        return self._upper is None

    def both(self, x: Floats) -> tuple[Floats, Floats]:
        """L and G at all points of shape (n, d)."""
        if self.is_joint:
            self.nfev_lower += len(x)
            self.nfev_upper += len(x)
            if self._vectorized:
                return self._pair(self._lower(x.copy(), *self._args), "vectorized lower")
            pairs = [self._pair(self._lower(row.copy(), *self._args), "lower") for row in x]
            return _numbers([p[0] for p in pairs], "lower"), _numbers([p[1] for p in pairs], "lower")
        return self.lower(x), self.upper(x)

    def lower(self, x: Floats) -> Floats:
        """L at all points; only where the objectives are two functions."""
        self.nfev_lower += len(x)
        return self._map(self._lower, x, "lower")

    def upper(self, x: Floats, rows: NDArray[np.bool_] | None = None) -> Floats:
        """G at the given rows, NaN at the others."""
        assert self._upper is not None
        if rows is None or rows.all():
            self.nfev_upper += len(x)
            return self._map(self._upper, x, "upper")
        self.nfev_upper += int(rows.sum())
        values = np.full(len(x), np.nan)
        if rows.any():
            values[rows] = self._map(self._upper, x[rows], "upper")
        return values

    def _map(self, f: Callable[..., Any], x: Floats, name: str) -> Floats:
        # every call gets an array of its own, which it may write to
        if self._vectorized:
            values = _numbers(f(x.copy(), *self._args), name)
            if values.shape != (len(x),):
                raise ValueError(
                    f"{name} returned shape {values.shape} for points of shape {x.shape}; with vectorized=True it must "
                    f"return ({len(x)},), one value per row"
                )
            return values
        return _numbers([f(row.copy(), *self._args) for row in x], name)

    def _pair(self, returned: Any, name: str) -> tuple[Any, Any]:
        try:
            low, up = returned
        except (TypeError, ValueError):
            if returned is None:  # a failed evaluation
                return np.nan, np.nan
            raise ValueError(
                f"{name} returned {returned!r:.80}; without an upper function it must return the pair (L, G)"
            ) from None
        return low, up


def _numbers(values: Any, name: str) -> Floats:
    """Values of an objective as floats; None, a failed evaluation, becomes NaN."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return a real number per point, got {values!r:.80}") from None
    if array.ndim > 1 and array.size == len(array):  # f that returns arrays of one element
        array = array.reshape(-1)
    if array.ndim != 1:
        raise ValueError(f"{name} must return one real number per point, got values of shape {array.shape[1:]}")
    return array
