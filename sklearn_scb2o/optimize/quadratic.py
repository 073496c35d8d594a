"""Minimisers of a quadratic function in a box, with and without linear constraints: the steps of local searches."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, nnls

from .archive import Floats

#: Part of the violation that cannot be avoided or need not be, which a step may leave where it cannot be without.
LEFT = 0.1
#: What is added to curvatures to make steps of them, in units of their size: from nearly nothing to nearly no step.
DAMPING = np.concatenate([[1e-16], np.geomspace(1e-12, 1e2, 29)])


def quadratic_change(slope: Floats, curvature: Floats, step: Floats) -> float:
    """``g s + s H s / 2``."""
    return float(slope @ step + 0.5 * step @ curvature @ step)


def minimise_in_box(slope: Floats, curvature: Floats, low: Floats, high: Floats) -> tuple[Floats, float]:
    """A local minimiser of ``g s + s H s / 2`` in a box around 0, and the value there.

    Newton steps on an active set, each the best of several with curvatures that are raised more and more: where those
    of some directions are next to nothing, the step without that leaves the box in these, and is useless cut to it.

    Parameters
    ----------
    slope, curvature : array of shape (d,), (d, d)
        g and H; H may be indefinite.
    low, high : array of shape (d,)
        The box.

    Examples
    --------
    >>> minimise_in_box(np.array([-1.0, -9.0]), np.diag([2.0, 2.0]), -np.ones(2), np.ones(2))
    (array([0.5, 1. ]), -8.25)
    """
    step, value = np.zeros(len(slope)), 0.0
    size = float(np.abs(curvature).max() + np.abs(slope).max()) + 1e-300
    for _ in range(60):
        gradient = slope + curvature @ step
        free = ~(((step <= low + 1e-15) & (gradient > 0)) | ((step >= high - 1e-15) & (gradient < 0)))
        if not free.any() or np.abs(gradient[free]).max() < 1e-14 * np.abs(slope).max():
            break
        eigenvalues, axes = np.linalg.eigh(curvature[np.ix_(free, free)])
        lengths = -(axes.T @ gradient[free]) / (np.abs(eigenvalues) + size * DAMPING[:, None])
        ends = np.tile(step, (len(DAMPING), 1))
        ends[:, free] += lengths @ axes.T
        np.clip(ends, low, high, out=ends)
        values = ends @ slope + 0.5 * np.vecdot(ends @ curvature, ends)
        best = int(np.argmin(values))
        if not values[best] < value:
            break
        small = value - values[best] < 1e-12 * abs(values[best])
        step, value = ends[best], float(values[best])
        if small:
            break
    return step, value


def minimise_with_constraints(
    slope: Floats, curvature: Floats, normals: Floats, levels: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """The minimiser of ``g s + s H s / 2`` in a box where ``A s <= b``, and the multipliers of these constraints.

    Where the box has no such point, b is raised by nine tenths of the least excess that the box allows and a tenth of
    that at 0. (Lawson and Hanson, "Solving Least Squares Problems", 1974, chapter 23: least distance programming.)

    Parameters
    ----------
    slope, curvature : array of shape (d,), (d, d)
        g and H, which is positive definite.
    normals, levels : array of shape (m, d), (m,)
        A and b.
    low, high : array of shape (d,)
        The box; 0 lies in it.

    Examples
    --------
    >>> step, multipliers = minimise_with_constraints(
    ...     np.array([-1.0, -9.0]), np.eye(2), np.array([[1.0, 1.0]]), np.array([0.5]), -np.ones(2), np.ones(2)
    ... )
    >>> step, multipliers
    (array([-0.5,  1. ]), array([1.5]))
    """
    d = len(slope)
    levels = levels + _unavoidable(normals, levels, low, high)
    binding = np.flatnonzero(np.maximum(normals * low, normals * high).sum(axis=1) > levels)
    eigenvalues, axes = np.linalg.eigh(curvature)
    root = axes / np.sqrt(np.maximum(eigenvalues, 1e-14 * eigenvalues[-1]))
    center = root.T @ slope  # s = root (y - center) turns the objective into |y|^2 / 2
    A = np.vstack([-normals[binding], np.eye(d), -np.eye(d)])
    b = np.concatenate([-levels[binding], low, -high])
    excess = max(float(-levels.min(initial=0.0)), 1e-9 * float(np.abs(levels).max(initial=0.0)), 1e-300)
    for _ in range(8):
        found = _least_distance(A @ root, b + A @ root @ center)
        if found is not None:
            multipliers = np.zeros(len(levels))
            multipliers[binding] = found[1][: binding.size]
            return np.clip(root @ (found[0] - center), low, high), multipliers
        b[: binding.size] -= excess  # rounding left no point
        excess *= 2.0
    return np.zeros(d), np.zeros(len(levels))


def _unavoidable(normals: Floats, levels: Floats, low: Floats, high: Floats) -> float:
    """By how much the constraints must be relaxed so that the box holds a point, and some more; 0 where it does."""
    worst = float(-levels.min(initial=0.0))
    if worst <= 0.0:
        return 0.0
    d, size = len(low), max(float(np.abs([low, high]).max()), 1e-300)
    unit = float(np.median(np.linalg.norm(normals, axis=1))) or 1.0
    found = linprog(
        np.append(np.zeros(d), 1.0), np.hstack([normals / unit, -np.ones((len(normals), 1))]), levels / (unit * size),
        bounds=[*zip(low / size, high / size, strict=True), (0, None)], method="highs",
    )  # fmt: skip
    least = float(found.x[d]) * unit * size if found.status == 0 else worst
    return 0.0 if least <= 1e-9 * worst else least + LEFT * max(worst - least, 0.0)


def _least_distance(A: Floats, b: Floats) -> tuple[Floats, Floats] | None:
    """The shortest y with ``A y >= b``, and its multipliers; None if there is none, or no accurate one."""
    lengths = np.maximum(np.linalg.norm(A, axis=1), 1e-300)
    A, b = A / lengths[:, None], b / lengths
    unit = max(float(np.abs(b).max()), 1e-300)
    equations = np.vstack([A.T, b / unit])
    target = np.zeros(len(equations))
    target[-1] = 1.0
    try:
        dual, _ = nnls(equations, target, maxiter=50 * len(b))
    except RuntimeError:  # it did not converge
        return None
    residual = equations @ dual - target
    if -residual[-1] < 1e-12:
        return None
    return -unit * residual[:-1] / residual[-1], -unit * dual / (residual[-1] * lengths)
