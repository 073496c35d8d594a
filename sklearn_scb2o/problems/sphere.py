"""A rotated Ackley function on the unit sphere, in any dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .problem import Ackley, Problem


def sphere(d: int = 5, seed: int = 0) -> Problem:
    r"""Rotated, shifted Ackley function on the unit sphere of R^d.

    Lower objective ``L = (||x||^2 - 1)^2``. The upper objective is an Ackley function (A = 20, a = 0.2, b = 3) in
    coordinates ``y = R^T x`` with a random rotation R, and minimum at ``y = (2/3) e_1``, inside the sphere. On the
    sphere the distance to that point is smallest at ``y = e_1``, where every cosine of the Ackley function is 1 as
    well: so the solution is ``R e_1``, exactly, with ``G = A (1 - exp(-a b / (3 sqrt(d))))``, among many local minima
    along the sphere.

    Parameters
    ----------
    d : int
        Dimension, at least 2.
    seed : int
        Seed of the rotation.

    Returns
    -------
    Problem
        Box [-3, 3]^d.

    Examples
    --------
    >>> problem = sphere(10)
    >>> problem, round(problem.upper_opt, 3)
    (Problem('sphere', d=10), 1.226)
    """
    if d < 2:
        raise ValueError(f"d={d!r}: the unit sphere needs at least 2 dimensions")
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    rotation = q * np.sign(np.diag(r))  # uniformly distributed over the rotations
    shift = np.zeros(d)
    shift[0] = 2.0 / 3.0
    ackley = Ackley(shift=shift, rotation=rotation)

    def h(x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        return np.sum(x * x, axis=-1) - 1.0

    return Problem(
        "sphere",
        lower=lambda x: h(x) ** 2,
        upper=ackley,
        bounds=np.tile([-3.0, 3.0], (d, 1)),
        x_opt=rotation[:, 0].copy(),
        upper_opt=ackley.A * (1.0 - math.exp(-ackley.a * ackley.b / (3.0 * math.sqrt(d)))),
        lower_grad=lambda x: 4.0 * h(x)[..., None] * np.asarray(x, dtype=float),
        upper_grad=ackley.gradient,
    )
