"""A local search with quadratic models of L and G, which tolerates noise, steps and failures."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from .archive import Archive, Floats, Integers, can_be_used
from .quadratic import minimise_in_box, quadratic_change

#: Points count as near within this many radii of the centre, and as the same within this part of one.
NEAR, SAME = 2.0, 0.1
#: A step shorter than this part of the radius says that the search has converged at its scale.
SMALL = 0.1
#: Factors of the radius after success, failures, and convergence.
GROWTH, FAILED, CONVERGED = 2.0, 0.5, 0.25
#: Steps in a row that may fail before the region shrinks, unless the model is complete.
MAX_FAILS = 3
LARGEST_RADIUS = 0.5
#: Part of the change of G that the error of the model of L may count for, and how many errors are remembered.
TRUST, MEMORY = 0.3, 5
#: How much the radius may grow again after the search has converged at its scale.
REGROWTH = 8.0
#: Steps that a search may take, times d + 1.
MAX_STEPS = 50
#: Radii that a search may still go, as far as it is known.
REACH = 3.0


class TrustRegionSearch:
    r"""Minimises ``G + mu L`` in steps of a trust region, with mu that follows how well L is known.

    Around the best point, quadratic functions interpolate L and G at the known points within two radii, those of the
    smallest change of curvature (Frobenius norm) since the last ones. The step minimises their sum in the region, with

    .. math:: \mu = 0.3 \, \frac{\lVert \nabla G \rVert \, \Delta}{e_L},

    e_L the median error of the last models of L, carried over to the radius Delta as its third power. So L counts as
    much as its models are worth: about all where it is quadratic, and not beyond its noise where it is noisy. As the
    radius shrinks the search ends at a minimiser of L. Asked for are points where some are missing, else the end of
    the step.

    Parameters
    ----------
    archive : Archive
        Known points, to which others may add.
    start : array of shape (d,)
        Where to begin; the nearest known point is taken.
    radius : float
        Of the first region, in widths of the box.
    final_radius : float
        Where to end.
    seed : int
        Of the directions in which points are added.
    rival : pair of floats
        L and G of another point: the search ends where it will not do better.
    """

    def __init__(
        self, archive: Archive, start: Floats, radius: float = 0.1, final_radius: float = 1e-7, seed: int = 0,
        rival: tuple[float, float] = (np.inf, np.inf),
    ) -> None:  # fmt: skip
        d = archive.d
        self._archive, self._radius, self._final, self._rival = archive, radius, final_radius, rival
        self._rng = np.random.default_rng(seed)
        self._complete = (d + 1) * (d + 2) // 2  # points that determine a quadratic function
        self._most = min(self._complete + d, max(6 * d + 10, 80))
        self._mu, self._fails, self._want_points = 0.0, 0, False
        self._curvature = np.zeros((2, d, d))  # of L and G
        self._center = int(np.argmin(np.abs(archive.z - start).max(axis=1)))
        self._predicted, self._predicted_L, self._is_step, self._size = 0.0, 0.0, False, 0.0
        self._errors: deque[tuple[float, float]] = deque(maxlen=MEMORY)  # of the model of L, and at which radius
        self._level = float(archive.lower[self._center])  # from which L is counted, so that no digits are lost
        self._asked = np.empty((0, d))
        self._failed: deque[Floats] = deque(maxlen=MEMORY)  # points of late where there is no value
        self._largest, self._steps_left = LARGEST_RADIUS, MAX_STEPS * (d + 1)

    @property
    def x(self) -> Floats:
        """The best point so far."""
        return self._archive.z[self._center]

    @property
    def values(self) -> tuple[float, float]:
        """L and G there."""
        return float(self._archive.lower[self._center]), float(self._archive.upper[self._center])

    @property
    def noise(self) -> float:
        """Of L, as its models erred in regions that are so small that nothing else is left; 0: not known."""
        errors = [error for error, radius in self._errors if radius < 100.0 * self._final]
        return float(np.median(errors)) if errors else 0.0

    def ask(self) -> Floats | None:
        """Points to evaluate, shape (n, d); None at the end."""
        moved = False
        while self._radius >= self._final:
            near = self._near()
            if near.size < self._archive.d + 2 or self._want_points:
                self._want_points, self._is_step = False, False
                points = self._missing_points(near)
                if len(points):
                    self._asked = points
                    return points
                self._radius *= FAILED
                continue
            (slope_L, curve_L), (slope_G, curve_G) = self._models(near)
            if self._is_behind(slope_G):
                return None
            self._mu = self._weight(slope_G, curve_L)
            best = int(near[np.argmin(self._merit(near))])
            if not moved and self._merit(best) < self._merit(self._center):
                self._center, moved = best, True
                continue
            low = np.maximum(-1.0, (self._archive.region.low - self.x) / self._radius)
            high = np.minimum(1.0, (self._archive.region.high - self.x) / self._radius)
            step, value = minimise_in_box(slope_G + self._mu * slope_L, curve_G + self._mu * curve_L, low, high)
            self._predicted, self._size = -value, float(np.abs(step).max())
            self._predicted_L = quadratic_change(slope_L, curve_L, step)
            if self._size < SMALL or self._predicted <= 1e-13 * abs(self._merit(self._center)):
                if near.size < 2 * self._archive.d + 1:
                    self._want_points = True
                else:
                    self._radius *= CONVERGED
                    self._largest = REGROWTH * self._radius
                moved = False
                continue
            self._is_step = True
            self._asked = self._archive.region.clip(self.x + self._radius * step)[None]
            return self._asked
        return None

    def tell(self, lower: Floats, upper: Floats) -> None:
        """The values at the points that were asked, after they went to the archive where they are finite."""
        good = can_be_used(lower, upper)
        self._failed.extend(self._asked[~good])
        if not good.any():  # nothing was learnt
            self._radius *= FAILED
            return
        if not self._is_step:
            return
        self._steps_left -= 1
        if self._steps_left < 0:  # no search goes on for ever, although mu may fall and steps lead in circles
            self._radius *= CONVERGED
            return
        error = abs(float(lower[0]) - self.values[0] - self._predicted_L)
        self._errors.append((error, self._radius * max(self._size, 0.3)))
        gain = float(self._merit(self._center) - upper[0] - self._mu * (lower[0] - self._level))
        ratio = gain / self._predicted
        if gain > 0:
            self._center = len(self._archive.z) - 1
        if ratio > 0.7 and self._size > 0.9:
            self._radius = min(GROWTH * self._radius, self._largest)
        if ratio >= 0.1:
            self._fails = 0
            return
        self._fails += 1
        n = self._near().size
        if n < 2 * self._archive.d + 1:
            self._want_points = True
        elif self._fails >= MAX_FAILS or n >= self._complete:
            self._fails = 0
            self._radius *= FAILED

    def _weight(self, slope_G: Floats, curve_L: Floats) -> float:
        """The weight mu of L: its model's error then counts a third of what G changes in a radius (1 if it is flat)."""
        size = float(np.abs(np.linalg.eigvalsh(curve_L)).max())
        error = TRUST * size
        if len(self._errors) > 1:
            error = float(np.median([e * (self._radius / r) ** 3 for e, r in self._errors]))
        error = max(error, 1e-15 * (size + abs(self.values[0])), 1e-300)
        return min(TRUST * (math.hypot(*slope_G) or 1.0) / error, 1e100)

    def _is_behind(self, slope_G: Floats) -> bool:
        """Whether the rival has a lower L, and a G that is lower than what lies within a few radii."""
        lower, upper = self.values
        return bool(self._rival[0] <= lower and self._rival[1] < upper - REACH * np.abs(slope_G).sum())

    def _merit(self, i: int | Integers) -> Floats:
        return self._archive.upper[i] + self._mu * (self._archive.lower[i] - self._level)

    def _near(self) -> Integers:
        """Indices of the points in and around the region, the centre first, of each cluster only one."""
        offsets = self._archive.z - self.x
        distance = np.abs(offsets).max(axis=1)
        near = np.flatnonzero(distance <= NEAR * self._radius)
        near = near[np.argsort(distance[near], kind="stable")]
        n = 2 * self._most
        while True:
            cells = np.round(offsets[near[:n]] / (SAME * self._radius))
            _, first = np.unique(cells, axis=0, return_index=True)
            if first.size >= self._most or n >= near.size:
                return near[np.sort(first)[: self._most]]
            n *= 4

    def _models(self, near: Integers) -> list[tuple[Floats, Floats]]:
        """Gradient and curvature of L and of G at the centre, in units of the radius.

        Of all quadratic functions that interpolate, these change the curvature least (Powell, "Least Frobenius norm
        updating of quadratic models that satisfy interpolation conditions", 2004).
        """
        archive, n, d = self._archive, near.size, self._archive.d
        z = (archive.z[near] - self.x) / self._radius
        values = np.stack([f[near] - f[self._center] for f in (archive.lower, archive.upper)], axis=1)
        curvature = self._curvature * self._radius**2
        rest = values - 0.5 * np.einsum("ij,kjl,il->ik", z, curvature, z)
        linear = np.hstack([np.ones((n, 1)), z])
        system = np.zeros((n + d + 1, n + d + 1))
        system[:n, :n] = 0.25 * (z @ z.T) ** 2 + 1e-10 * np.eye(n)
        system[:n, n:], system[n:, :n] = linear, linear.T
        system[n:, n:] = -1e-12 * np.eye(d + 1)
        solution = np.linalg.lstsq(system, np.vstack([rest, np.zeros((d + 1, 2))]), rcond=1e-14)[0]
        curvature = curvature + 0.5 * np.einsum("ik,ij,il->kjl", solution[:n], z, z)
        self._curvature = curvature / self._radius**2
        return [(solution[n + 1 :, k], curvature[k]) for k in (0, 1)]

    def _missing_points(self, near: Integers) -> Floats:
        """A radius away from the centre, in directions in which there are no points, or for curvature in others."""
        d, known = self._archive.d, self._archive.z[near]
        avoided = np.array(self._failed) if self._failed else known
        z = (known - self.x) / self._radius
        z = z[np.abs(z).max(axis=1) > 1e-9]
        directions = np.eye(d)
        if len(z):
            _, lengths, axes = np.linalg.svd(z, full_matrices=True)
            directions = axes[np.concatenate([lengths, np.zeros(d)])[:d] < 0.3]
        missing = 2 * d + 1 - len(z)
        if not len(directions) and missing > 0:
            directions = np.linalg.qr(self._rng.standard_normal((d, d)))[0][: min(d, missing)]
        points = []
        for direction in directions:
            step = self._radius * direction / np.abs(direction).max()
            ends = self._archive.region.clip(np.array([self.x + step, self.x - step]))
            distances = np.abs(ends[:, None] - avoided).max(axis=2).min(axis=1)
            points.append(ends[np.argmax(distances)])
        return np.array(points).reshape(-1, d)
