"""Two lists of problems: methods are tuned on one and judged on the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from . import basins, large, rough, smooth
from .cec2006 import cec2006
from .hock_schittkowski import NAMES as HOCK_SCHITTKOWSKI
from .hock_schittkowski import hock_schittkowski
from .problem import QualityProblem

Make = Callable[[], QualityProblem]


def _cec(*names: str) -> list[Make]:
    return [partial(cec2006, name) for name in names]


_TUNING: list[Make] = [
    # smooth
    partial(smooth.paper_circle, 7),
    partial(smooth.paper_star, 8),
    partial(smooth.sphere, 3, 0),
    partial(smooth.sphere, 10, 0),
    partial(smooth.sphere_sections, 6, 2, 0),
    *_cec("g01", "g03", "g05", "g07", "g10", "g11", "g14", "g16", "g18"),
    *[partial(hock_schittkowski, name) for name in HOCK_SCHITTKOWSKI],
    partial(smooth.quadratic_equations, 4, 2, 1, 0),
    partial(smooth.quadratic_equations, 5, 3, 10, 1),
    partial(smooth.quadratic_equations, 6, 3, 100, 2),
    partial(smooth.quadratic_equations, 8, 4, 1, 3),
    partial(smooth.quadratic_equations, 8, 4, 100, 4),
    partial(smooth.quadratic_equations, 10, 5, 10, 5),
    partial(smooth.quadratic_equations, 12, 6, 100, 6),
    partial(smooth.quadratic_equations, 15, 5, 10, 7),
    partial(smooth.wolfe_dual, 6, 3, 0),
    partial(smooth.wolfe_dual, 8, 4, 0),
    partial(smooth.wolfe_dual, 10, 5, 0),
    # many basins
    partial(basins.paper_grid, 5),
    partial(basins.sphere_union, 2, 5, 0),
    partial(basins.sphere_union, 5, 5, 0),
    partial(basins.lattice, 2, 0),
    partial(basins.lattice, 3, 0),
    partial(basins.ackley_sphere, 3, 0),
    partial(basins.rastrigin_plane, 3, 0),
    partial(basins.ovals, 0),
    partial(basins.wiggly_curve, 4, 0),
    partial(basins.rippled_sphere, 3, 0),
    *_cec("g02"),
    # rough
    partial(rough.noisy, 3, 2),
    partial(rough.noisy_factor, 5, 4),
    partial(rough.ruffled, 3, 6),
    partial(rough.rounded, 5, 8),
    partial(rough.stairs, 2, 0),
    partial(rough.upper_jump, 3, 0),
    partial(rough.tariffs, 3, 0, 1, 0),
    partial(rough.tariffs, 4, 1, 2, 1),
    partial(rough.tariffs, 6, 2, 2, 2),
    partial(rough.tariffs, 8, 3, 3, 3),
    partial(rough.lower_jump, 5, 0),
    partial(rough.absolute, 4, 10),
    partial(rough.diamond, 4, 0),
    partial(rough.kinks, 5, 0),
    partial(rough.failing, 3, 12),
    # large
    partial(large.sparse, "lp", 0),
    partial(large.sparse, "l0", 1),
    partial(large.ellipsoid, 6, 0),
    partial(large.scaled_box, 5, 20),
    partial(large.wide_box, 5, 22),
    partial(large.large_sphere, 8, 24, 1e5),
    partial(large.large_sphere, 50, 24),
    partial(large.affine, 40, 10, 0),
    partial(large.least_squares, 20, 8, 0),
]

_CHECKING: list[Make] = [
    # smooth
    smooth.paper_circle,
    smooth.paper_star,
    partial(smooth.sphere, 2, 1),
    partial(smooth.sphere, 5, 1),
    partial(smooth.sphere, 20, 1),
    partial(smooth.sphere_sections, 8, 3, 1),
    *_cec("g04", "g06", "g09", "g13", "g15", "g17", "g19", "g21", "g23", "g24"),
    # many basins
    basins.paper_grid,
    partial(basins.sphere_union, 2, 7, 1),
    partial(basins.sphere_union, 6, 6, 1),
    partial(basins.lattice, 2, 1),
    partial(basins.lattice, 4, 1),
    partial(basins.ackley_sphere, 5, 1),
    partial(basins.rastrigin_plane, 4, 1),
    partial(basins.ovals, 1),
    partial(basins.wiggly_curve, 5, 1),
    partial(basins.rippled_sphere, 4, 1),
    *_cec("g08", "g12"),
    # rough
    partial(rough.noisy, 5, 3),
    partial(rough.noisy_factor, 3, 5),
    partial(rough.ruffled, 5, 7),
    partial(rough.rounded, 3, 9),
    partial(rough.stairs, 4, 1),
    partial(rough.upper_jump, 5, 1),
    partial(rough.lower_jump, 3, 1),
    partial(rough.absolute, 6, 11),
    partial(rough.diamond, 5, 1),
    partial(rough.kinks, 4, 1),
    partial(rough.failing, 5, 13),
    # large
    partial(large.sparse, "lp", 2),
    partial(large.sparse, "l0", 3),
    partial(large.ellipsoid, 8, 1),
    partial(large.scaled_box, 7, 21),
    partial(large.wide_box, 6, 23),
    partial(large.large_sphere, 10, 25, 1e4),
    partial(large.large_sphere, 50, 25),
    partial(large.affine, 50, 12, 1),
    partial(large.least_squares, 25, 10, 1),
]

SUITES = {"tuning": _TUNING, "checking": _CHECKING}


@cache
def _suite(suite: str) -> dict[str, QualityProblem]:
    problems = [make() for make in SUITES[suite]]
    return {problem.name: problem for problem in problems}


def problem_names(suite: str) -> list[str]:
    """Names of the problems of a suite, by class."""
    return list(_suite(suite))


def get_problem(suite: str, name: str) -> QualityProblem:
    """The problem of that name."""
    return _suite(suite)[name]
