"""Calling objectives of an outer and an inner point: pair by pair or batches, one function or two, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .evaluation import pair

Floats = NDArray[np.float64]


class PairEvaluator:
    """The two objectives of a nested problem over batches: phi (R, d_phi) and, for each of them, theta (R, n, d_theta).

    Parameters
    ----------
    lower : callable
        ``lower(phi, theta, *args)``, L at two vectors; with `vectorized`, at arrays (R, 1, d_phi) and (R, n, d_theta),
        returning (R, n). Where `upper` is None it returns the pair (L, G).
    upper : callable or None
        ``upper(phi, theta, *args)``, G likewise.
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

    def both(self, phi: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """L and G at all pairs, by a joint objective."""
        shape = theta.shape[:2]
        self.nfev_lower += theta[..., 0].size
        self.nfev_upper += theta[..., 0].size
        if self._vectorized:
            low, up = pair(self._lower(*_batch(phi, theta), *self._args), "lower")
            return _values(low, shape, "lower"), _values(up, shape, "lower")
        pairs = [
            pair(self._lower(p.copy(), t.copy(), *self._args), "lower")
            for p, t in _rows(phi, theta, np.ones(shape, bool))
        ]
        low, up = (_numbers([values[i] for values in pairs], "lower").reshape(shape) for i in (0, 1))
        return low, up

    def lower(self, phi: Floats, theta: Floats) -> Floats:
        """L at all pairs, (R, n)."""
        self.nfev_lower += theta[..., 0].size
        return self._map(self._lower, phi, theta, np.ones(theta.shape[:2], dtype=bool), "lower")

    def upper(self, phi: Floats, theta: Floats, needed: NDArray[np.bool_]) -> Floats:
        """G at the pairs that need it, NaN at the others."""
        assert self._upper is not None
        if not self._vectorized:
            self.nfev_upper += int(needed.sum())
            return self._map(self._upper, phi, theta, needed, "upper")
        # the rows stay aligned with phi: of each as many points as the row that needs most
        n = int(needed.sum(axis=1).max())
        values = np.full(needed.shape, np.nan)
        if n:
            index = np.argsort(~needed, axis=1, kind="stable")[:, :n]
            self.nfev_upper += index.size
            some = np.take_along_axis(theta, index[..., None], axis=1)
            np.put_along_axis(
                values, index, self._map(self._upper, phi, some, np.ones(index.shape, dtype=bool), "upper"), axis=1
            )
        return np.where(needed, values, np.nan)

    def _map(self, f: Callable[..., Any], phi: Floats, theta: Floats, needed: NDArray[np.bool_], name: str) -> Floats:
        # every call gets arrays of its own, which it may write to
        if self._vectorized:
            return _values(f(*_batch(phi, theta), *self._args), theta.shape[:2], name)
        values = np.full(needed.shape, np.nan)
        values[needed] = _numbers([f(p.copy(), t.copy(), *self._args) for p, t in _rows(phi, theta, needed)], name)
        return values


def _batch(phi: Floats, theta: Floats) -> tuple[Floats, Floats]:
    return phi[:, None, :].copy(), theta.copy()


def _rows(phi: Floats, theta: Floats, needed: NDArray[np.bool_]) -> Any:
    """The needed pairs of vectors."""
    return zip(phi[np.nonzero(needed)[0]], theta[needed], strict=True)


def _numbers(values: list[Any], name: str) -> Floats:
    """Values of an objective, one per call, as floats; None, a failed evaluation, becomes NaN."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return a real number per pair, got {values!r:.80}") from None
    if array.size != len(values):
        raise ValueError(f"{name} must return one real number per pair, got values of shape {array.shape[1:]}")
    return array.reshape(-1)


def _values(values: Any, shape: tuple[int, ...], name: str) -> Floats:
    """Values of a vectorized objective, (R, n)."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return real numbers, got {values!r:.80}") from None
    if array.shape != shape:
        raise ValueError(
            f"{name} returned shape {array.shape} for {shape[0]} outer points with {shape[1]} inner points each; with "
            f"vectorized=True phi has shape ({shape[0]}, 1, d_phi), theta ({shape[0]}, {shape[1]}, d_theta), and it "
            f"must return {shape}"
        )
    return array
