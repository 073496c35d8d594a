"""An objective and its gradient at many points, counted; central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Objective:
    """An objective and its gradient over batches of points, inside a box.

    Parameters
    ----------
    name : str
        Of its parameter, for messages.
    function : callable
        Maps a point (d,) to a number; with `vectorized`, points (n, d) to values (n,).
    gradient : callable or None
        Maps a point (d,) to the gradient (d,); with `vectorized`, points (n, d) to (n, d). None: central differences.
    vectorized : bool
        Whether both take batches.
    low, high : array of shape (d,)
        The box; differences do not leave it.

    Attributes
    ----------
    nfev, njev : int
        Evaluations of the function, those for differences included, and of the gradient.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        gradient: Callable[..., Any] | None,
        vectorized: bool,
        low: Floats,
        high: Floats,
    ) -> None:
        self._name, self._function, self._gradient, self._vectorized = name, function, gradient, vectorized
        self._low, self._high = low, high
        self.nfev = self.njev = 0

    def __call__(self, x: Floats) -> Floats:
        """Values at points (n, d)."""
        self.nfev += len(x)
        return self._map(self._function, x, x.shape[:1], self._name)

    def gradient(self, x: Floats) -> Floats:
        """Gradients at points (n, d)."""
        self.njev += len(x)
        if self._gradient is None:
            return central_differences(self, x, self._low, self._high)
        return self._map(self._gradient, x, x.shape, f"{self._name}_grad")

    def _map(self, f: Callable[..., Any], x: Floats, shape: tuple[int, ...], name: str) -> Floats:
        # every call gets an array of its own, which it may write to
        values = f(x.copy()) if self._vectorized else [f(row.copy()) for row in x]
        try:
            array = np.array(values, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must return real numbers, got {values!r:.80}") from None
        if array.shape == (*shape, 1):  # arrays of one element
            array = array[..., 0]
        if array.shape != shape:
            what, n_outer = ("all points", 0) if self._vectorized else ("a point", 1)
            raise ValueError(
                f"{name} returned shape {array.shape[n_outer:]} for {what} of shape {x.shape[n_outer:]}; with "
                f"vectorized={self._vectorized} it must return {shape[n_outer:] or 'a number'}"
            )
        return array


def central_differences(function: Callable[[Floats], Floats], x: Floats, low: Floats, high: Floats) -> Floats:
    r"""Gradients by central differences, which become one-sided at the bounds.

    .. math:: \partial_j f(x) \approx \frac{f(x + h_j e_j) - f(x - h_j e_j)}{2 h_j},
              \qquad h_j = \epsilon^{1/3} \max(1, |x_j|)

    with the two points moved into the box and the width between them that is left. The error is of order
    ``epsilon^(2/3)`` inside and ``epsilon^(1/3)`` at a bound.

    Parameters
    ----------
    function : callable
        Maps points (m, d) to values (m,).
    x : array of shape (n, d)
        Points inside the box.
    low, high : array of shape (d,)
        The box. A coordinate without room has the derivative 0.

    Returns
    -------
    array of shape (n, d)
    """
    n, d = x.shape
    h = np.cbrt(np.finfo(float).eps) * np.maximum(1.0, np.abs(x))
    j = np.arange(d)
    points = np.broadcast_to(x[:, None, :], (2, n, d, d)).copy()  # side, point, coordinate that moves, coordinate
    points[..., j, j] = np.clip(np.stack([x - h, x + h]), low, high)
    values = function(points.reshape(-1, d)).reshape(2, n, d)
    width = points[1][:, j, j] - points[0][:, j, j]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(width > 0, (values[1] - values[0]) / np.where(width > 0, width, 1.0), 0.0)
