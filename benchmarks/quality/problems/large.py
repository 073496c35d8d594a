"""Many dimensions, bad scales, bad conditions."""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import minimize

from .geometry import closest_on_ellipsoid
from .problem import LARGE, Floats, QualityProblem, box, equal, rotation
from .smooth import sphere


def sparse(kind: str, seed: int, d: int = 30, m: int = 12, k: int = 3) -> QualityProblem:
    """The sparsest solution of an underdetermined system.

    ``L = ||A x - b||^2`` with Gaussian A and b = A x for an x with k entries of size 1 to 2. G is a smoothed
    l_1/2 norm (``kind="lp"``), or counts entries by ``x^2 / (x^2 + 0.05^2)`` (``kind="l0"``).
    """
    rng = np.random.default_rng([d, m, k, seed])
    A = rng.standard_normal((m, d)) / np.sqrt(m)
    planted = np.zeros(d)
    planted[rng.choice(d, k, replace=False)] = rng.choice([-1.0, 1.0], k) * rng.uniform(1.0, 2.0, k)
    b = A @ planted

    def upper(x: Floats) -> Floats:
        if kind == "lp":
            return np.sum((x * x + 1e-4) ** 0.25 - 0.1, axis=-1)
        return np.sum(x * x / (x * x + 0.0025), axis=-1)

    # the smoothed G has its minimum close to the planted solution
    N = null_space(A)
    fine = minimize(lambda z: float(upper(planted + N @ z)), np.zeros(d - m), method="BFGS", options={"gtol": 1e-9})
    x_opt = planted + N @ fine.x
    return QualityProblem(
        f"sparse {kind}", LARGE, box(-3, 3, d), upper, lambda x: equal(*np.moveaxis(x @ A.T - b, -1, 0)),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def ellipsoid(d: int, seed: int, ratio: float = 30.0) -> QualityProblem:
    """The closest point of a rotated ellipsoid with axes from 2 to 2 / ratio."""
    rng = np.random.default_rng([d, seed])
    R, axes = rotation(d, rng), np.geomspace(2.0, 2.0 / ratio, d)
    center = axes * rng.choice([-1.0, 1.0], d) * rng.uniform(0.8, 1.6, d)
    x_opt = R @ closest_on_ellipsoid(axes, center)

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum((x @ R - center) ** 2, axis=-1)

    return QualityProblem(
        f"ellipsoid {d}", LARGE, box(-3, 3, d), upper, lambda x: equal(np.sum((x @ R / axes) ** 2, axis=-1) - 1),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def scaled_box(d: int, seed: int) -> QualityProblem:
    """A sphere whose coordinates have units from 1e-3 to 1e3, in a box that tells half of that."""
    problem = sphere(d, seed)
    units = np.geomspace(1e-3, 1e3, d)
    slack = np.geomspace(1.0, 30.0, d)  # the box is too wide by this
    return QualityProblem(
        f"scaled box {d}", LARGE, problem.bounds * (units * slack)[:, None], lambda x: problem.upper(x / units),
        lambda x: problem.constraints(x / units), solutions=problem.solutions * units, upper_opt=problem.upper_opt,
        unit=units,
    )  # fmt: skip


def wide_box(d: int, seed: int) -> QualityProblem:
    """The unit sphere in the box [-500, 500]^d."""
    problem = sphere(d, seed)
    return QualityProblem(
        f"wide box {d}", LARGE, box(-500, 500, d), problem.upper, problem.constraints, problem.solutions,
        problem.upper_opt, unit=1.0,
    )  # fmt: skip


def large_sphere(d: int, seed: int, condition: float = 10.0) -> QualityProblem:
    """`sphere` in many dimensions or with a badly conditioned G."""
    problem = sphere(d, seed, condition)
    name = f"sphere {d}" if condition == 10.0 else f"conditioned {d}"
    return QualityProblem(
        name, LARGE, problem.bounds, problem.upper, problem.constraints, problem.solutions, problem.upper_opt
    )  # fmt: skip


def affine(d: int, m: int, seed: int) -> QualityProblem:
    """The closest point of an affine set, in a metric of condition 100: m equalities in one L."""
    rng = np.random.default_rng([d, m, seed])
    A, inside = rng.standard_normal((m, d)) / np.sqrt(d), rng.uniform(-1.0, 1.0, d)
    return _quadratic(f"affine {d}-{m}", A, A @ inside, rng)


def least_squares(d: int, rank: int, seed: int) -> QualityProblem:
    """An inconsistent system of deficient rank: the minimum of L is not known. Told is the normal equation."""
    rng = np.random.default_rng([d, rank, seed])
    rows = rank + 10
    U = rotation(rows, rng)[:, :rank]
    A = rng.standard_normal((rank, d)) / np.sqrt(d)
    inside, residual = rng.uniform(-1.0, 1.0, d), 0.1 * rng.standard_normal(rows)
    residual -= U @ (U.T @ residual)
    M = U @ A
    b = M @ inside + residual

    def lower(x: Floats) -> Floats:
        return np.sum((x @ M.T - b) ** 2, axis=-1)

    return _quadratic(f"residual {d}-{rank}", A, A @ inside, rng, lower=lower, lower_min=float(residual @ residual))


def _quadratic(name: str, A: Floats, b: Floats, rng: np.random.Generator, **lower: object) -> QualityProblem:
    """A quadratic G over A x = b."""
    d = A.shape[1]
    weights, center = np.geomspace(1.0, 100.0, d), rng.uniform(-1.0, 1.0, d)
    x_opt = center + (A / weights).T @ np.linalg.solve((A / weights) @ A.T, b - A @ center)

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum(weights * (x - center) ** 2, axis=-1)

    return QualityProblem(
        name, LARGE, box(-3, 3, d), upper, lambda x: equal(*np.moveaxis(x @ A.T - b, -1, 0)), solutions=x_opt[None],
        upper_opt=float(upper(x_opt)), **lower,
    )  # type: ignore[arg-type]  # fmt: skip
