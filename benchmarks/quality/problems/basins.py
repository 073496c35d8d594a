"""Sets of minimisers in many parts, and upper objectives with many local minima on one."""

from __future__ import annotations

import itertools
import math

import numpy as np

from sklearn_scb2o.problems import periodic_grid
from sklearn_scb2o.problems import sphere as ackley_on_sphere

from .geometry import lowest_on_curve, lowest_on_sphere
from .problem import BASINS, Floats, QualityProblem, box, equal, rotation


def sphere_union(d: int, k: int, seed: int) -> QualityProblem:
    """Separate spheres of different radii; h belongs to the nearest in value."""
    rng = np.random.default_rng([d, k, seed])
    radii = rng.uniform(0.3, 0.8, k)
    centers: list[Floats] = []
    while len(centers) < k:
        c = rng.uniform(-2.0, 2.0, d)
        if all(np.linalg.norm(c - b) > radii[len(centers)] + r + 0.2 for b, r in zip(centers, radii, strict=False)):
            centers.append(c)
    C = np.asarray(centers)
    R, weights, target = rotation(d, rng), np.geomspace(1.0, 5.0, d), rng.uniform(-1.0, 1.0, d)

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum(weights * ((x - target) @ R) ** 2, axis=-1)

    def constraints(x: Floats) -> tuple[Floats, Floats]:
        away = x[..., None, :] - C
        h = np.sum(away * away, axis=-1) - radii**2
        nearest = np.argmin(np.abs(h), axis=-1)
        return equal(np.take_along_axis(h, nearest[..., None], axis=-1)[..., 0])

    points = np.asarray([c + R @ lowest_on_sphere(weights, (target - c) @ R, r) for c, r in zip(C, radii, strict=True)])
    x_opt = points[np.argmin(upper(points))]
    return QualityProblem(
        f"spheres {d}-{k}", BASINS, box(-3, 3, d), upper, constraints, solutions=x_opt[None],
        upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def lattice(d: int, seed: int) -> QualityProblem:
    """The points of a rotated lattice of spacing 1, between -3 and 3."""
    rng = np.random.default_rng([d, seed])
    R, target = rotation(d, rng), rng.uniform(-1.5, 1.5, d)
    weights = np.geomspace(1.0, 4.0, d)

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum(weights * (x - target) ** 2, axis=-1)

    points = np.asarray(list(itertools.product(range(-4, 5), repeat=d)), dtype=float) @ R.T
    points = points[np.all(np.abs(points) <= 3.0, axis=1)]
    x_opt = points[np.argmin(upper(points))]
    return QualityProblem(
        f"lattice {d}", BASINS, box(-3, 3, d), upper,
        lambda x: equal(*np.moveaxis(np.sin(np.pi * (x @ R)) / np.pi, -1, 0)),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def paper_grid(seed: int | None = None) -> QualityProblem:
    """The paper's periodic grid, or with its target elsewhere. Told are sin x = sin y = 0, which imply L = 0."""
    problem = periodic_grid()
    target = np.zeros(2)
    x_opt = target
    if seed is not None:
        x_opt = np.pi * np.random.default_rng(seed).integers(-20, 21, 2)
        target = x_opt + 0.5
    offset = float(np.sum((x_opt - target) ** 2)) / 2

    def upper(x: Floats) -> Floats:
        return 0.5 * np.sum((x - target) ** 2, axis=-1)

    return QualityProblem(
        "periodic grid", BASINS, problem.bounds, upper, lambda x: equal(np.sin(x[..., 0]), np.sin(x[..., 1])),
        solutions=x_opt[None], upper_opt=offset, lower=problem.lower, unit=1.0,
    )  # fmt: skip


def ackley_sphere(d: int, seed: int) -> QualityProblem:
    """A rotated Ackley function on the unit sphere."""
    problem = ackley_on_sphere(d, seed=1000 * d + seed)
    return QualityProblem(
        f"Ackley sphere {d}", BASINS, problem.bounds, problem.upper, lambda x: equal(np.sum(x * x, axis=-1) - 1),
        solutions=problem.x_opt[None], upper_opt=problem.upper_opt,
    )  # fmt: skip


def rastrigin_plane(d: int, seed: int) -> QualityProblem:
    """A rotated Rastrigin function on a plane: about 5^(d - 1) local minima, lower values beside the plane."""
    rng = np.random.default_rng([d, seed])
    R, shift, level = rotation(d, rng), rng.uniform(-1.0, 1.0, d - 1), rng.uniform(-0.5, 0.5)

    def upper(x: Floats) -> Floats:
        y = x @ R
        z = y[..., 1:] - shift
        return 1.0 + (y[..., 0] - level - 1.0) ** 2 + np.sum(z * z + 2.0 * (1.0 - np.cos(2.0 * np.pi * z)), axis=-1)

    x_opt = R @ np.concatenate([[level], shift])
    return QualityProblem(
        f"Rastrigin plane {d}", BASINS, box(-3, 3, d), upper, lambda x: equal((x @ R)[..., 0] - level),
        solutions=x_opt[None], upper_opt=2.0,
    )  # fmt: skip


def ovals(seed: int) -> QualityProblem:
    """About 36 ovals, one around each point of a lattice in the plane."""
    target = np.random.default_rng(seed).uniform(-1.5, 1.5, 2)

    def h(x: Floats) -> Floats:
        return np.cos(2 * np.pi * x[..., 0]) + np.cos(2 * np.pi * x[..., 1]) - 1.0

    def upper(x: Floats) -> Floats:
        distance = x - target
        waves = 0.5 * (1 - np.cos(9 * np.arctan2(distance[..., 1], distance[..., 0])))
        return 1.0 + np.sum(distance**2, axis=-1) + waves

    def oval(phi: Floats, center: Floats) -> Floats:
        direction = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
        low, high = np.zeros_like(phi), np.full_like(phi, 0.5)
        for _ in range(60):  # h decreases from 1 along the ray
            middle = (low + high) / 2
            inside = h(middle[:, None] * direction) > 0
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return center + low[:, None] * direction

    around = np.round(target) + np.asarray(list(itertools.product((-1, 0, 1), repeat=2)), dtype=float)
    points = np.asarray([lowest_on_curve(lambda t, c=c: oval(t, c), upper, -math.pi, math.pi, 20_000) for c in around])
    x_opt = points[np.argmin(upper(points))]
    return QualityProblem(
        "ovals", BASINS, box(-3, 3, 2), upper, lambda x: equal(h(x)), solutions=x_opt[None],
        upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def wiggly_curve(d: int, seed: int) -> QualityProblem:
    """A curve that turns 2^(d - 2) times: each coordinate is the Chebyshev polynomial T_2 of the one before."""
    target = np.random.default_rng([d, seed]).uniform(-0.8, 0.8, d)

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum((x - target) ** 2, axis=-1)

    x_opt = lowest_on_curve(lambda t: np.cos(2.0 ** np.arange(d) * t[:, None]), upper, 0.0, math.pi)
    return QualityProblem(
        f"wiggles {d}", BASINS, box(-1.5, 1.5, d), upper,
        lambda x: equal(*[x[..., j + 1] - 2 * x[..., j] ** 2 + 1 for j in range(d - 1)]), solutions=x_opt[None],
        upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def rippled_sphere(d: int, seed: int) -> QualityProblem:
    """A minimum of L that is not 0 and not known, among many local ones: ripples around a sphere."""
    rng = np.random.default_rng([d, seed])
    R, weights, level = rotation(d, rng), np.geomspace(1.0, 5.0, d), rng.uniform(0.2, 0.9)
    center = rng.choice([-1.0, 1.0], d) * rng.uniform(0.3, 1.0, d)
    x_opt = R @ lowest_on_sphere(weights, center, 1.5)

    def h(x: Floats) -> Floats:
        return np.sqrt(np.sum(x * x, axis=-1)) - 1.5

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum(weights * (x @ R - center) ** 2, axis=-1)

    return QualityProblem(
        f"ripples {d}", BASINS, box(-3, 3, d), upper, lambda x: equal(h(x)), solutions=x_opt[None],
        upper_opt=float(upper(x_opt)), lower=lambda x: level + h(x) ** 2 + 0.2 * (1 - np.cos(10 * h(x))),
        lower_min=level,
    )  # fmt: skip
