"""What a problem of the benchmark is, and when a point counts as its solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SMOOTH, BASINS, ROUGH, LARGE = "smooth", "many basins", "rough", "large"
KINDS = (SMOOTH, BASINS, ROUGH, LARGE)

#: Success: sqrt(L - L_min), error of G relative to |G_opt|, and distance to a solution are at most these.
VIOLATION, UPPER_ERROR, DISTANCE = 1e-3, 1e-2, 5e-2
#: Smaller optimal values of G count as 0: the error is then absolute.
ABOUT_ZERO = 1e-2


class Values(NamedTuple):
    """What an evaluation gives at n points: shapes (n,), (n,), (n, m) and (n, k)."""

    lower: Floats
    upper: Floats
    equalities: Floats
    inequalities: Floats


class Verdict(NamedTuple):
    """How far points are from the solution, and whether they count as one."""

    violation: Floats
    upper_error: Floats
    distance: Floats
    success: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class QualityProblem:
    """A bi-level problem with known solution, with the constraint functions that describe argmin L.

    Parameters
    ----------
    name, kind : str
        Its name, and its class, one of `KINDS`.
    bounds : array of shape (d, 2)
        Box in which to search.
    upper : callable
        G, maps (n, d) to (n,).
    constraints : callable
        Maps (n, d) to the equalities h of shape (n, m) and the inequalities g of shape (n, k): argmin L is where
        h = 0 and g <= 0. Some solvers are told these.
    solutions : array of shape (s, d)
        All solutions; none where they form a continuum, the position is then not judged.
    upper_opt : float
        G there.
    lower : callable, optional
        L, maps (n, d) to (n,); by default ``sum h^2 + sum max(g, 0)^2``.
    lower_min : float
        Minimum of L. No solver on L and G alone is told it.
    lower_tol : float
        L may exceed its minimum by this: the square of a violation of 1e-3, where L measures squares.
    observe : callable, optional
        Maps a random generator, points and their exact `Values` to those that a solver sees. Judged are the exact ones.
    unit : float or array of shape (d,), optional
        Length that counts as 1 in the distance; by default a sixth of the width of the box in each coordinate, the
        box [-3, 3] is in its own units.
    """

    name: str
    kind: str
    bounds: Floats
    upper: Callable[[Floats], Floats]
    constraints: Callable[[Floats], tuple[Floats, Floats]]
    solutions: Floats
    upper_opt: float
    lower: Callable[[Floats], Floats] | None = None
    lower_min: float = 0.0
    lower_tol: float = VIOLATION**2
    observe: Callable[[np.random.Generator, Floats, Values], Values] | None = None
    unit: Any = None

    @property
    def d(self) -> int:
        return len(self.bounds)

    @property
    def widths(self) -> Floats:
        return self.bounds[:, 1] - self.bounds[:, 0]

    @property
    def upper_tol(self) -> float:
        size = abs(self.upper_opt)
        return UPPER_ERROR * (size if size > ABOUT_ZERO else 1.0)

    def exact(self, x: Floats) -> Values:
        """The values at points of shape (n, d), without what `observe` does to them."""
        h, g = self.constraints(x)
        lower = squares(h, g) if self.lower is None else self.lower(x)
        return Values(lower, self.upper(x), h, g)

    def observed(self, x: Floats, rng: np.random.Generator) -> Values:
        """The values that a solver sees."""
        values = self.exact(x)
        return values if self.observe is None else self.observe(rng, x, values)

    def judge(self, x: Floats) -> Verdict:
        """Whether points of shape (n, d) solve the problem; NaN is never a success."""
        values = self.exact(x)
        gap = np.maximum(values.lower - self.lower_min, 0.0)
        error = np.abs(values.upper - self.upper_opt)
        distance = np.zeros(len(x))
        if len(self.solutions):
            unit = self.widths / 6.0 if self.unit is None else self.unit
            away = (x[:, None, :] - self.solutions) / unit
            distance = np.sqrt(np.sum(away * away, axis=-1)).min(axis=1)
        success = (gap <= self.lower_tol) & (error <= self.upper_tol) & (distance <= DISTANCE)
        return Verdict(np.sqrt(gap), error, distance, success)


def squares(h: Floats, g: Floats) -> Floats:
    """Sum of the squared violations."""
    over = np.maximum(g, 0.0)
    return np.sum(h * h, axis=-1) + np.sum(over * over, axis=-1)


def equal(*h: Floats) -> tuple[Floats, Floats]:
    """Constraints that are equalities only."""
    stacked = np.stack(h, axis=-1)
    return stacked, np.empty((*stacked.shape[:-1], 0))


def at_most(*g: Floats) -> tuple[Floats, Floats]:
    """Constraints that are inequalities only."""
    stacked = np.stack(g, axis=-1)
    return np.empty((*stacked.shape[:-1], 0)), stacked


def mixed(h: list[Floats], g: list[Floats]) -> tuple[Floats, Floats]:
    return np.stack(h, axis=-1), np.stack(g, axis=-1)


def box(low: Any, high: Any, d: int) -> Floats:
    """Bounds of shape (d, 2) from scalars or sequences."""
    return np.stack([np.broadcast_to(np.asarray(v, dtype=float), (d,)) for v in (low, high)], axis=1)


def rotation(d: int, rng: np.random.Generator) -> Floats:
    """A uniformly distributed rotation or reflection."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diag(r))
