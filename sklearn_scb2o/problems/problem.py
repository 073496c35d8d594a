"""What a test problem is, and the Ackley function that several of them share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Objective = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A bi-level problem ``min G over argmin L`` with known solution.

    Parameters
    ----------
    name : str
        Name of the problem.
    lower, upper : callable
        L and G: map points of shape (..., d) to values of shape (...).
    bounds : array of shape (d, 2)
        Box in which to search, one row (low, high) per coordinate.
    x_opt : array of shape (d,)
        The solution.
    upper_opt, lower_opt : float
        G and L there; ``lower_opt`` is the minimum of L.
    lower_grad, upper_grad : callable or None
        Gradients, shape (..., d) to (..., d), where they exist (almost everywhere).

    Examples
    --------
    >>> from sklearn_scb2o.problems import circle
    >>> problem = circle()
    >>> bool(problem.lower(problem.x_opt) < 1e-30), round(float(problem.upper(problem.x_opt)), 3)
    (True, 4.003)
    """

    name: str
    lower: Objective
    upper: Objective
    bounds: NDArray[np.float64]
    x_opt: NDArray[np.float64]
    upper_opt: float
    lower_opt: float = 0.0
    lower_grad: Objective | None = None
    upper_grad: Objective | None = None

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, d={self.x_opt.size})"

    def distance(self, x: Any) -> Any:
        """Euclidean distance to the solution, shape (..., d) to (...)."""
        return np.linalg.norm(np.asarray(x) - self.x_opt, axis=-1)


@dataclass(frozen=True, eq=False)
class Ackley:
    r"""Shifted Ackley function in the coordinates ``y = R^T x``, R orthogonal.

    .. math:: -A \exp(-a \sqrt{b^2/d}\,\|y - c\|_2) - \exp(\tfrac1d \sum_j \cos(2\pi b (y_j - c_j))) + A + e

    Its global minimum is 0 at y = c; the cosines put a local minimum at every distance 1/b from it.
    """

    shift: NDArray[np.float64]
    A: float = 20.0
    a: float = 0.2
    b: float = 3.0
    rotation: NDArray[np.float64] | None = None

    def _difference(self, x: Any) -> NDArray[np.float64]:
        y = np.asarray(x, dtype=float)
        return (y if self.rotation is None else y @ self.rotation) - self.shift

    def __call__(self, x: Any) -> Any:
        """Values at points of shape (..., d)."""
        z = self._difference(x)
        decay = self.a * self.b / math.sqrt(self.shift.size)
        cosines = np.mean(np.cos(2 * np.pi * self.b * z), axis=-1)
        return -self.A * np.exp(-decay * np.sqrt(np.sum(z * z, axis=-1))) - np.exp(cosines) + self.A + math.e

    def gradient(self, x: Any) -> NDArray[np.float64]:
        """Gradients at points of shape (..., d); 0 from the cone at its tip."""
        z = self._difference(x)
        d = self.shift.size
        decay = self.a * self.b / math.sqrt(d)
        norm = np.sqrt(np.sum(z * z, axis=-1, keepdims=True))
        cone = self.A * decay * np.exp(-decay * norm) * z / np.where(norm > 0, norm, 1.0)
        cosines = np.mean(np.cos(2 * np.pi * self.b * z), axis=-1, keepdims=True)
        waves = np.exp(cosines) * (2 * np.pi * self.b / d) * np.sin(2 * np.pi * self.b * z)
        return cone + waves if self.rotation is None else (cone + waves) @ self.rotation.T
