"""Quadratic models of the lower objective about consensus points, from the points evaluated there anyway."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Curvatures below this part of the largest one count as flat: the model says nothing about where to go there.
FLAT = 1e-3
#: Length of the longest step, in units of the distance of the farthest point of the fit.
LONGEST = 4.0
#: Points of a fit for each coefficient.
POINTS_PER_COEFFICIENT = 2.0


def n_coefficients(d: int) -> int:
    """Number of coefficients of a quadratic function in d variables."""
    return (d + 1) * (d + 2) // 2


def model_minimisers(center: Floats, points: Floats, lower: Floats, low: Floats, high: Floats) -> Floats:
    """Minimisers of quadratic functions fitted to the values nearest to each centre.

    With the fit ``L(c + z) = a + g z + z H z / 2`` the step is ``-H^+ g``, without the directions in which H is flat or
    negative, and not far beyond the region of the points: where Theta is a curve or a surface, this is about its
    point closest to the centre.

    Parameters
    ----------
    center : array of shape (R, d)
        Such as consensus points.
    points : array of shape (R, n, d)
        Evaluated points.
    lower : array of shape (R, n)
        L there; NaN and infinite values are left out.
    low, high : array of shape (d,)
        Bounds, which the minimisers keep.

    Returns
    -------
    array of shape (R, d)
        The centre itself where there are too few points, or they span no region.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(1, 20, 2))
    >>> model_minimisers(np.zeros((1, 2)), points, np.sum((points - 0.5) ** 2, axis=-1), -np.ones(2), np.ones(2))
    array([[0.5, 0.5]])
    """
    d = center.shape[-1]
    n = int(POINTS_PER_COEFFICIENT * n_coefficients(d))
    usable = np.isfinite(lower) & (np.abs(lower) < 1e100)
    if points.shape[1] < n:
        return center.copy()
    offsets = points - center[:, None, :]
    distance = np.where(usable, np.linalg.norm(offsets, axis=-1), np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :n]
    radius = np.take_along_axis(distance, nearest, axis=1)[:, -1]
    good = np.isfinite(radius) & (radius > 0)
    radius = np.where(good, radius, 1.0)
    z = np.take_along_axis(offsets, nearest[..., None], axis=1) / radius[:, None, None]
    values = np.where(good[:, None], np.take_along_axis(lower, nearest, axis=1), 0.0)
    values = values - values[:, :1]
    size = np.abs(values).max(axis=1, keepdims=True)
    values = values / np.where(size > 0, size, 1.0)

    i, j = np.triu_indices(d)
    design = np.concatenate([np.ones_like(z[..., :1]), z, z[..., i] * z[..., j]], axis=-1)
    coefficients = (np.linalg.pinv(design, rcond=1e-10) @ values[..., None])[..., 0]
    gradient = coefficients[:, 1 : d + 1]
    hessian = np.zeros((len(center), d, d))
    hessian[:, i, j] = coefficients[:, d + 1 :]
    hessian += hessian.swapaxes(1, 2)  # the diagonal, which is half the curvature, twice
    curvature, axes = np.linalg.eigh(hessian)
    along = (axes.swapaxes(1, 2) @ gradient[..., None])[..., 0]
    steep = curvature > FLAT * np.abs(curvature).max(axis=1, keepdims=True)
    step = (axes @ np.where(steep, -along / np.where(steep, curvature, 1.0), 0.0)[..., None])[..., 0]
    step = step / np.maximum(1.0, np.linalg.norm(step, axis=1, keepdims=True) / LONGEST)
    return np.where(good[:, None], np.clip(center + radius[:, None] * step, low, high), center)
