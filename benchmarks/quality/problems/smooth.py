"""Smooth problems: the paper's curves, spheres and their sections, quadratic equations."""

from __future__ import annotations

import math

import numpy as np

from sklearn_scb2o.problems import Problem, circle, star
from sklearn_scb2o.problems.problem import Ackley

from .geometry import lowest_on_curve, lowest_on_sphere
from .problem import SMOOTH, Floats, QualityProblem, at_most, box, equal, rotation


def _on_curve(problem: Problem, name: str, radius_is_star: bool, seed: int | None) -> QualityProblem:
    def radius(phi: Floats) -> Floats:
        return 1.0 + 0.5 * np.sin(5.0 * phi) if radius_is_star else np.ones_like(phi)

    def h(x: Floats) -> Floats:
        return np.sum(x * x, axis=-1) - radius(np.arctan2(x[..., 1], x[..., 0])) ** 2

    upper, x_opt, upper_opt = problem.upper, problem.x_opt, problem.upper_opt
    if seed is not None:
        upper = Ackley(shift=np.random.default_rng(seed).uniform(-0.8, 0.8, 2))
        x_opt = lowest_on_curve(
            lambda t: radius(t)[:, None] * np.stack([np.cos(t), np.sin(t)], axis=-1), upper, -math.pi, math.pi
        )
        upper_opt = float(upper(x_opt))
    return QualityProblem(
        name, SMOOTH, problem.bounds, upper, lambda x: equal(h(x)), solutions=x_opt[None], upper_opt=upper_opt
    )


def paper_circle(seed: int | None = None) -> QualityProblem:
    """Ackley on the unit circle; the paper's, or with another shift."""
    return _on_curve(circle(), "circle", False, seed)


def paper_star(seed: int | None = None) -> QualityProblem:
    """Ackley on a star; the paper's, or with another shift."""
    return _on_curve(star(), "star", True, seed)


def quadratic_on_sphere(d: int, seed: int, condition: float = 10.0) -> tuple[Floats, Floats, Floats, Floats]:
    """A rotation, weights and center of G, and its lowest point on the unit sphere (rotated back)."""
    rng = np.random.default_rng([d, seed])
    R = rotation(d, rng)
    weights = np.geomspace(1.0, condition, d)
    center = rng.choice([-1.0, 1.0], d) * rng.uniform(0.3, 1.5, d)
    return R, weights, center, R @ lowest_on_sphere(weights, center)


def sphere(d: int, seed: int, condition: float = 10.0) -> QualityProblem:
    """A rotated quadratic function on the unit sphere."""
    R, weights, center, x_opt = quadratic_on_sphere(d, seed, condition)

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum(weights * (x @ R - center) ** 2, axis=-1)

    return QualityProblem(
        f"sphere {d}", SMOOTH, box(-3, 3, d), upper, lambda x: equal(np.sum(x * x, axis=-1) - 1),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def sphere_sections(d: int, m: int, seed: int) -> QualityProblem:
    """A linear function on a sphere cut by m planes: m + 1 equalities in one L."""
    rng = np.random.default_rng([d, m, seed])
    A = rotation(d, rng)[:m]
    offset = rng.uniform(-0.3, 0.3, m)
    slope = rng.standard_normal(d)
    foot = A.T @ offset
    along = slope - A.T @ (A @ slope)
    x_opt = foot - math.sqrt(1.0 - foot @ foot) * along / np.linalg.norm(along)
    # away from 0, where relative errors would be absolute ones
    shift = 1.0 - float(slope @ x_opt)

    def constraints(x: Floats) -> tuple[Floats, Floats]:
        return equal(np.sum(x * x, axis=-1) - 1, *np.moveaxis(x @ A.T - offset, -1, 0))

    return QualityProblem(
        f"sections {d}-{m}", SMOOTH, box(-3, 3, d), lambda x: x @ slope + shift, constraints, solutions=x_opt[None],
        upper_opt=1.0,
    )  # fmt: skip


def quadratic_equations(d: int, m: int, spread: float, seed: int) -> QualityProblem:
    """A convex quadratic function where m quadratic equations hold, whose scales span the factor `spread`.

    G and the equations times their multipliers have a strictly convex sum, which is stationary at the solution: where
    they hold, no other point is as low.
    """
    rng = np.random.default_rng([d, m, seed])
    x_opt = rng.uniform(-1, 1, d)
    A = rng.standard_normal((m, d, d)) / math.sqrt(d)
    A += np.swapaxes(A, 1, 2)
    slopes = rng.standard_normal((m, d))
    scales = rng.permutation(np.geomspace(1, spread, m))
    multipliers = rng.choice([-1.0, 1.0], m) * rng.uniform(0.5, 2, m)
    lowest = float(np.linalg.eigvalsh(np.tensordot(multipliers, A, axes=1))[0])
    R = rotation(d, rng)
    H = (R * np.geomspace(1, 10, d)) @ R.T - min(0.0, lowest) * np.eye(d)

    def quadratic(y: Floats, curvature: Floats, slope: Floats) -> Floats:
        return 0.5 * np.sum((y @ curvature) * y, axis=-1) + y @ slope

    def constraints(x: Floats) -> tuple[Floats, Floats]:
        return equal(*[s * quadratic(x - x_opt, B, b) for s, B, b in zip(scales, A, slopes, strict=True)])

    return QualityProblem(
        f"equations {d}-{m} x{spread:g}", SMOOTH, box(-2.5, 3, d),
        lambda x: 1 + quadratic(x - x_opt, H, -multipliers @ slopes), constraints, solutions=x_opt[None],
        upper_opt=1.0,
    )  # fmt: skip


def wolfe_dual(m: int, n: int, seed: int) -> QualityProblem:
    """The dual of a convex programme with m constraints: n curved inequalities in m + n variables, all of them active.

    The programme is to minimise ``e y + y C y + c y^3`` where ``A y >= b`` and ``y >= 0``. Its data are made for a
    solution and multipliers that are drawn; these are the only solution of the dual (Wolfe 1961),

    ``min y C y + 2 c y^3 - b x`` where ``A' x - 2 C y - 3 c y^2 <= e``, ``x >= 0`` and ``y >= 0``.
    """
    rng = np.random.default_rng([m, n, seed])
    y, x = rng.uniform(0.1, 0.6, n), np.zeros(m)
    n_active = n // 2 + 1
    x[:n_active] = rng.uniform(0.5, 6, n_active)
    A = rng.uniform(-4, 3, (m, n))
    R = rotation(n, rng)
    C, c = (R * np.geomspace(10, 60, n)) @ R.T, rng.uniform(1, 10, n)
    b = A @ y - np.where(x > 0, 0.0, rng.uniform(0.5, 3, m))
    e = x @ A - 2 * C @ y - 3 * c * y**2

    def upper(z: Floats) -> Floats:
        x, y = z[..., :m], z[..., m:]
        return np.sum((y @ C) * y, axis=-1) + 2 * y**3 @ c - x @ b

    def constraints(z: Floats) -> tuple[Floats, Floats]:
        x, y = z[..., :m], z[..., m:]
        return at_most(*np.moveaxis(x @ A - 2 * y @ C - 3 * c * y**2 - e, -1, 0))

    x_opt = np.concatenate([x, y])
    return QualityProblem(
        f"dual {m}-{n}", SMOOTH, box(0, 10, m + n), upper, constraints, solutions=x_opt[None],
        upper_opt=float(upper(x_opt)),
    )  # fmt: skip
