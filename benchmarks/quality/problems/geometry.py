"""Solutions in closed form, or by a search in one dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

Floats = NDArray[np.float64]


def lowest_on_sphere(weights: Floats, center: Floats, radius: float = 1.0) -> Floats:
    """The point y of the sphere ``||y|| = radius`` with the smallest ``sum w (y - c)^2``.

    Stationary points are ``y = w c / (w - mu)``; the global minimum has mu below the smallest weight. No component of
    the center may be 0.
    """
    product, smallest = weights * center, float(weights.min())

    def excess(log_gap: float) -> float:
        return float(np.sum((product / (weights - smallest + np.exp(log_gap))) ** 2) - radius**2)

    gap = np.exp(brentq(excess, -40.0, 40.0, xtol=1e-15, rtol=1e-15))
    y = product / (weights - smallest + gap)
    return y * (radius / np.linalg.norm(y))


def ends_of_section(normals: Floats, levels: Floats, direction: Floats) -> Iterator[Floats]:
    """The points of ``||x|| = 1, normals x = levels`` that are furthest along a direction and against it, if any."""
    center = np.linalg.pinv(normals) @ levels
    along = direction - np.linalg.pinv(normals) @ (normals @ direction)
    room = 1.0 - center @ center
    if room > 0.0 and np.linalg.norm(along) > 1e-9 and np.allclose(normals @ center, levels):
        for sign in (1.0, -1.0):
            yield center + sign * np.sqrt(room) * along / np.linalg.norm(along)


def closest_on_ellipsoid(axes: Floats, center: Floats) -> Floats:
    """The point of ``sum (y / axes)^2 = 1`` closest to a point outside."""

    def excess(mu: float) -> float:
        return float(np.sum((axes * center / (axes**2 + mu)) ** 2) - 1.0)

    mu = brentq(excess, 0.0, 1e6, xtol=1e-15, rtol=1e-15)
    return axes**2 * center / (axes**2 + mu)


def closest_on_cross_polytope(center: Floats) -> Floats:
    """The point of ``sum |y| = 1`` closest to a point outside: soft thresholding."""
    threshold = brentq(lambda t: float(np.sum(np.maximum(np.abs(center) - t, 0.0)) - 1.0), 0.0, np.abs(center).max())
    return np.sign(center) * np.maximum(np.abs(center) - threshold, 0.0)


def lowest_on_curve(
    curve: Callable[[Floats], Floats], f: Callable[[Floats], Floats], start: float, stop: float, n: int = 200_000
) -> Floats:
    """The point of a curve, a map of t in [start, stop] to (n, d), with the smallest f."""
    t = np.linspace(start, stop, n)
    i = int(np.argmin(f(curve(t))))
    fine = minimize_scalar(
        lambda s: float(f(curve(np.asarray([s])))[0]),
        bounds=(t[max(i - 1, 0)], t[min(i + 1, n - 1)]),
        method="bounded",
        options={"xatol": 1e-14},
    )
    return curve(np.asarray([fine.x]))[0]
