"""The problems of the paper: Ackley on a circle and on a star, and the periodic grid of its gradient comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from .problem import Ackley, Problem

_BOX = np.asarray([[-3.0, 3.0], [-3.0, 3.0]])
_ACKLEY = Ackley(shift=np.asarray([0.5, 1.0 / 3.0]))


def circle() -> Problem:
    r"""Shifted Ackley function on the unit circle.

    Lower objective ``L = h^2`` with ``h = x^2 + y^2 - 1``; upper objective the Ackley function with A = 20,
    a = 0.2, b = 3 and minimum at (1/2, 1/3), which is not on the circle. The solution was computed to 20 digits by
    minimising along the angle.

    Returns
    -------
    Problem
        d = 2, box [-3, 3]^2, solution (0.782, 0.624) with G = 4.003.

    References
    ----------
    SCB2O paper, section "2D constrained problem".

    Examples
    --------
    >>> circle()
    Problem('circle', d=2)
    """

    def h(x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        return np.sum(x * x, axis=-1) - 1.0

    return Problem(
        "circle",
        lower=lambda x: h(x) ** 2,
        upper=_ACKLEY,
        bounds=_BOX.copy(),
        x_opt=np.asarray([0.78171838789949847909, 0.62363159158256986894]),
        upper_opt=4.00270038133279275,
        lower_grad=lambda x: 4.0 * h(x)[..., None] * np.asarray(x, dtype=float),
        upper_grad=_ACKLEY.gradient,
    )


def star() -> Problem:
    r"""Shifted Ackley function on a five-pointed star.

    Lower objective ``L = h^2`` with ``h = r^2 - (1 + sin(5 phi) / 2)^2`` in polar coordinates; upper objective as in
    `circle`. The solution was computed to 20 digits by minimising along the angle.

    Returns
    -------
    Problem
        d = 2, box [-3, 3]^2, solution (0.473, 0.464) with G = 2.777.

    References
    ----------
    SCB2O paper, section "2D constrained problem".

    Examples
    --------
    >>> star()
    Problem('star', d=2)
    """

    def parts(x: Any) -> tuple[Any, Any, Any]:
        x = np.asarray(x, dtype=float)
        phi = np.arctan2(x[..., 1], x[..., 0])
        radius = 1.0 + 0.5 * np.sin(5.0 * phi)
        return np.sum(x * x, axis=-1) - radius**2, phi, radius

    def lower_grad(x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        h, phi, radius = parts(x)
        squared = np.sum(x * x, axis=-1)
        # grad phi = (-y, x) / r^2; the origin is the one point without a gradient
        angular = np.stack([-x[..., 1], x[..., 0]], axis=-1) / np.where(squared > 0, squared, 1.0)[..., None]
        slope = 5.0 * radius * np.cos(5.0 * phi)
        return 2.0 * h[..., None] * (2.0 * x - slope[..., None] * angular)

    return Problem(
        "star",
        lower=lambda x: parts(x)[0] ** 2,
        upper=_ACKLEY,
        bounds=_BOX.copy(),
        x_opt=np.asarray([0.47291797551334433895, 0.46442196361147402095]),
        upper_opt=2.7768996139381224178,
        lower_grad=lower_grad,
        upper_grad=_ACKLEY.gradient,
    )


def periodic_grid() -> Problem:
    r"""The closest point of a periodic grid to the origin, seen through a wavy lower objective.

    ``L = h(x) + h(y) + 0.1 sin^2(2x + 3y)`` with ``h(t) = sin^2 t + sin^2 3t + 0.25 sin^2 5t``, whose global minima,
    of value 0, are the points of ``pi Z x pi Z`` among many local ones; ``G = (x^2 + y^2) / 2``.

    Returns
    -------
    Problem
        d = 2, box [-150, 150]^2 (three standard deviations of the paper's start N(0, 50^2)), solution (0, 0).

    References
    ----------
    SCB2O paper, appendix "Comparison against gradient based methods".

    Examples
    --------
    >>> import numpy as np
    >>> float(periodic_grid().upper(np.asarray([3.0, 4.0])))
    12.5
    """

    def h(t: Any) -> Any:
        return np.sin(t) ** 2 + np.sin(3 * t) ** 2 + 0.25 * np.sin(5 * t) ** 2

    def dh(t: Any) -> Any:
        return np.sin(2 * t) + 3 * np.sin(6 * t) + 1.25 * np.sin(10 * t)

    def lower(x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        return h(x[..., 0]) + h(x[..., 1]) + 0.1 * np.sin(2 * x[..., 0] + 3 * x[..., 1]) ** 2

    def lower_grad(x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        coupling = 0.1 * np.sin(4 * x[..., 0] + 6 * x[..., 1])
        return np.stack([dh(x[..., 0]) + 2 * coupling, dh(x[..., 1]) + 3 * coupling], axis=-1)

    return Problem(
        "periodic_grid",
        lower=lower,
        upper=lambda x: 0.5 * np.sum(np.asarray(x, dtype=float) ** 2, axis=-1),
        bounds=np.asarray([[-150.0, 150.0], [-150.0, 150.0]]),
        x_opt=np.zeros(2),
        upper_opt=0.0,
        lower_grad=lower_grad,
        upper_grad=lambda x: np.asarray(x, dtype=float) * 1.0,
    )
