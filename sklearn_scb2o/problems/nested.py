"""Bi-level problems whose lower level has a parameter, with known solutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PairObjective = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class NestedProblem:
    """A problem ``min G(phi, theta) over theta in argmin L(phi, .)`` with known solution.

    Parameters
    ----------
    name : str
        Name of the problem.
    lower, upper : callable
        L and G: map phi of shape (..., p) and theta of shape (..., d) to values of shape (...).
    outer_bounds, inner_bounds : array of shape (p, 2) and (d, 2)
        The boxes of phi and theta.
    outer_opt : array of shape (p,)
        The best phi.
    inner_opt : array of shape (k, d)
        All best theta for it.
    upper_opt : float
        G there.

    Examples
    --------
    >>> from sklearn_scb2o.problems import mirrlees
    >>> problem = mirrlees()
    >>> problem.outer_opt, problem.inner_opt.round(3), round(problem.upper_opt, 4)
    (array([1.]), array([[0.958]]), 1.0018)
    """

    name: str
    lower: PairObjective
    upper: PairObjective
    outer_bounds: NDArray[np.float64]
    inner_bounds: NDArray[np.float64]
    outer_opt: NDArray[np.float64]
    inner_opt: NDArray[np.float64]
    upper_opt: float

    def __repr__(self) -> str:
        return f"NestedProblem({self.name!r}, p={self.outer_opt.size}, d={self.inner_opt.shape[1]})"

    def distance(self, phi: Any, theta: Any) -> float:
        """Euclidean distance of a pair to the closest solution."""
        pair = np.concatenate([np.asarray(phi), np.asarray(theta)])
        return min(float(np.linalg.norm(pair - np.concatenate([self.outer_opt, x]))) for x in self.inner_opt)


def _problem(
    name: str, lower: PairObjective, upper: PairObjective, outer: Any, inner: Any, phi: Any, *thetas: Any
) -> NestedProblem:
    outer, inner, phi = (np.asarray(values, dtype=float) for values in (outer, inner, phi))
    theta = np.asarray(thetas, dtype=float)
    return NestedProblem(name, lower, upper, outer, inner, phi, theta, float(upper(phi, theta[0])))


def _on_lines(f: PairObjective) -> PairObjective:
    """A function of two numbers as one of vectors with a single coordinate."""
    return lambda phi, theta: f(np.asarray(phi, dtype=float)[..., 0], np.asarray(theta, dtype=float)[..., 0])


def mitsos_barton(example: str) -> NestedProblem:
    r"""One of four examples of the Mitsos-Barton test set, phi and theta in [-1, 1]; also in BOLIB.

    ===== =========================================== ========================================= ===================
    name  L                                           G                                         what is special
    ===== =========================================== ========================================= ===================
    3.14  theta^3 / 3 - phi theta                     (phi - 1/4)^2 + theta^2                   the minimiser jumps
    3.17  phi theta^2 / 2 + theta^4 / 4               (phi + 1/2)^2 + theta^2 / 2               two minimisers
    3.19  -phi theta^2 + theta^4 / 2                  (phi - 1) theta + theta^2 / 2             two, G picks one
    3.21  a quartic whose coefficients depend on phi  (phi + 3/5)^2 + theta^2                   two local minima
    ===== =========================================== ========================================= ===================

    Parameters
    ----------
    example : {"3.14", "3.17", "3.19", "3.21"}
        Number of the example.

    Returns
    -------
    NestedProblem

    References
    ----------
    Mitsos, Barton, "A test set for bilevel programs" (2006); BOLIB, problems MitsosBarton2006Ex314, 317, 319 and 321.

    Examples
    --------
    >>> problem = mitsos_barton("3.17")
    >>> problem.outer_opt, problem.inner_opt.ravel(), problem.upper_opt
    (array([-0.25]), array([ 0.5, -0.5]), 0.1875)
    """

    def quartic(x: Any, y: Any) -> Any:
        square, linear = -0.02 * x**2 + 0.16 * x - 0.4, 0.004 * x**3 - 0.036 * x**2 + 0.08 * x
        return y**4 + 4.0 / 30.0 * (1.0 - x) * y**3 + square * y**2 + linear * y

    root = (math.sqrt(13.0) - 1.0) / 6.0  # theta = sqrt(phi) minimises theta^3 + theta^2 / 2 - theta
    cases: dict[str, tuple[PairObjective, PairObjective, Any]] = {
        "3.14": (lambda x, y: y**3 / 3.0 - x * y, lambda x, y: (x - 0.25) ** 2 + y**2, ([0.25], [0.5])),
        "3.17": (
            lambda x, y: x * y**2 / 2.0 + y**4 / 4.0,
            lambda x, y: (x + 0.5) ** 2 + y**2 / 2.0,
            ([-0.25], [0.5], [-0.5]),
        ),
        "3.19": (
            lambda x, y: -x * y**2 + y**4 / 2.0,
            lambda x, y: (x - 1.0) * y + y**2 / 2.0,
            ([root**2], [root]),
        ),
        # left of -1/2 the minimiser is (4 - phi) / 10
        "3.21": (quartic, lambda x, y: (x + 0.6) ** 2 + y**2, ([-56.0 / 101.0], [46.0 / 101.0])),
    }
    if example not in cases:
        raise ValueError(f"example={example!r} is not one of {tuple(cases)}")
    lower, upper, solution = cases[example]
    box = [(-1.0, 1.0)]
    return _problem(f"Mitsos-Barton {example}", _on_lines(lower), _on_lines(upper), box, box, *solution)


def mirrlees() -> NestedProblem:
    r"""The example of Mirrlees: the best response jumps, and the solution lies where it does.

    ``L = -phi exp(-(theta + 1)^2) - exp(-(theta - 1)^2)``, ``G = (phi - 2)^2 + (theta - 1)^2``. The minimum of L is
    near theta = 1 for phi < 1 and near theta = -1 for phi > 1; at the solution, phi = 1, both are as good.

    Returns
    -------
    NestedProblem
        phi in [-2, 4], theta in [-2, 2].

    References
    ----------
    Mirrlees, "The theory of moral hazard and unobservable behaviour: part I" (1999); BOLIB, problem Mirrlees1999, where
    phi is not bounded.

    Examples
    --------
    >>> mirrlees()
    NestedProblem('Mirrlees', p=1, d=1)
    """
    return _problem(
        "Mirrlees",
        _on_lines(lambda x, y: -x * np.exp(-((y + 1.0) ** 2)) - np.exp(-((y - 1.0) ** 2))),
        _on_lines(lambda x, y: (x - 2.0) ** 2 + (y - 1.0) ** 2),
        [(-2.0, 4.0)], [(-2.0, 2.0)], [1.0], [0.95750402407726874068],
    )  # fmt: skip


def nested_circle() -> NestedProblem:
    r"""The best point of the best circle: the lower level has a circle of minimisers, on which the upper one picks.

    ``L = (||theta||^2 - phi^2)^2``, ``G = phi^2 + ||theta - (2, 1)||^2``. The best point of a circle of radius phi is
    ``phi (2, 1) / sqrt(5)``, the best radius ``sqrt(5) / 2``.

    Returns
    -------
    NestedProblem
        phi in [0, 3], theta in [-3, 3]^2, solution phi = 1.118, theta = (1, 0.5), G = 2.5.

    Examples
    --------
    >>> nested_circle()
    NestedProblem('circle', p=1, d=2)
    """

    def lower(phi: Any, theta: Any) -> Any:
        return (np.sum(np.square(theta), axis=-1) - np.asarray(phi)[..., 0] ** 2) ** 2

    def upper(phi: Any, theta: Any) -> Any:
        return np.asarray(phi)[..., 0] ** 2 + np.sum(np.square(np.asarray(theta) - (2.0, 1.0)), axis=-1)

    box = [(-3.0, 3.0), (-3.0, 3.0)]
    return _problem("circle", lower, upper, [(0.0, 3.0)], box, [math.sqrt(5.0) / 2.0], [1.0, 0.5])


def smd1(d: int = 3) -> NestedProblem:
    r"""A problem with two outer variables that work against each other at the two levels.

    With ``u = theta_d`` and v the other coordinates of theta,
    ``L = phi_1^2 + ||v||^2 + (phi_2 - tan u)^2`` and ``G = L + phi_2^2``.

    Parameters
    ----------
    d : int, at least 2
        Inner dimension.

    Returns
    -------
    NestedProblem
        phi in [-5, 10]^2, v in [-5, 10]^(d-1), u in (-pi/2, pi/2), solution 0.

    References
    ----------
    Sinha, Malo, Deb, "Test problem construction for single-objective bilevel optimization" (2014), problem SMD1.

    Examples
    --------
    >>> smd1()
    NestedProblem('SMD1', p=2, d=3)
    """
    if d < 2:
        raise ValueError(f"d={d!r} must be at least 2")

    def lower(phi: Any, theta: Any) -> Any:
        phi, theta = np.asarray(phi, dtype=float), np.asarray(theta, dtype=float)
        coupling = (phi[..., 1] - np.tan(theta[..., -1])) ** 2
        return phi[..., 0] ** 2 + np.sum(theta[..., :-1] ** 2, axis=-1) + coupling

    def upper(phi: Any, theta: Any) -> Any:
        return lower(phi, theta) + np.asarray(phi)[..., 1] ** 2

    end = math.pi / 2.0 - 1e-6
    inner = [(-5.0, 10.0)] * (d - 1) + [(-end, end)]
    return _problem("SMD1", lower, upper, [(-5.0, 10.0)] * 2, inner, [0.0, 0.0], [0.0] * d)


def smd6() -> NestedProblem:
    r"""A lower level with a line of minimisers, and an upper one that wants elsewhere what the lower one does not.

    ``L = phi_1^2 + theta_1^2 + (theta_3 - theta_2)^2 + (phi_2 - theta_4)^2`` and
    ``G = ||phi||^2 - theta_1^2 + theta_2^2 + theta_3^2 - (phi_2 - theta_4)^2``: G rewards a theta that does not
    minimise L.

    Returns
    -------
    NestedProblem
        All variables in [-5, 10], solution 0.

    References
    ----------
    Sinha, Malo, Deb, "Test problem construction for single-objective bilevel optimization" (2014), problem SMD6 with
    p = q = r = 1, s = 2.

    Examples
    --------
    >>> smd6()
    NestedProblem('SMD6', p=2, d=4)
    """

    def parts(phi: Any, theta: Any) -> tuple[Any, ...]:
        return *np.moveaxis(np.asarray(phi, dtype=float), -1, 0), *np.moveaxis(np.asarray(theta, dtype=float), -1, 0)

    def lower(phi: Any, theta: Any) -> Any:
        a, b, t1, t2, t3, t4 = parts(phi, theta)
        return a**2 + t1**2 + (t3 - t2) ** 2 + (b - t4) ** 2

    def upper(phi: Any, theta: Any) -> Any:
        a, b, t1, t2, t3, t4 = parts(phi, theta)
        return a**2 + b**2 - t1**2 + t2**2 + t3**2 - (b - t4) ** 2

    return _problem("SMD6", lower, upper, [(-5.0, 10.0)] * 2, [(-5.0, 10.0)] * 4, [0.0, 0.0], [0.0] * 4)
