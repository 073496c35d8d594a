"""Local searches by finite differences, for smooth objectives."""

from __future__ import annotations

import numpy as np

from .archive import Archive, Floats, Region
from .differences import CentralDifferences, ForwardDifferences, Function
from .lower_search import minimise_lower
from .upper_search import FINAL, NO_RIVAL, UNIT, UpperSearch, final_violation

#: Where a search goes on from an answer: the radius of the first region, and the number of steps.
AGAIN_RADIUS, AGAIN_STEPS = 0.01, 100


def descend(
    function: Function, archive: Archive, start: Floats, lower_tol: float,
    rival: tuple[float, float] = NO_RIVAL, region: Region | None = None,
) -> None:  # fmt: skip
    """Minimise L, then G while L is nearly as low, with tolerances that become smaller.

    First L-BFGS-B on L. Then steps in a region around the best point, each to the lowest G that a model of the
    violation ``c = sqrt(L - lowest L)`` admits: of linearisations at many points (`CuttingPlanes`) and a quadratic
    model of L (`SecantModel`), that which predicted better so far; where L has a plateau, and kinks at its edge, of
    several constraints (`FittedConstraints`) in place of the second. A step is taken where ``G + pi max(c - v, 0)``
    falls as expected; whatever comes, the models learn from it, and where both were wrong the quadratic one is told the
    second differences of L and G. When G is as low as it gets with violation v, v becomes smaller.

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points; the lowest L is that of all.
    start : array of shape (d,)
        Where to begin.
    lower_tol : float
        L may exceed its minimum by this; 0: it shall be as low as can be told.
    rival : pair of floats
        L and G of another point: the search ends where it will not do better.
    region : Region, optional
        Where to search, by default in the box.
    """
    final = final_violation(archive, lower_tol, FINAL, float(np.abs(archive.lower).max()))
    differences = ForwardDifferences(function, region or archive.region, archive.resolution)
    z = minimise_lower(differences, start, (UNIT * final) ** 2)
    UpperSearch(differences, archive, differences.at(z), final, rival=rival).run()


def go_on(function: Function, archive: Archive, start: Floats, lower_tol: float, part: float) -> None:
    """Minimise L, then G, from a point where a search has ended, by central differences.

    As `descend`, which may end where G is flat or constraints are many: with slopes that are off by some per cent the
    steps cannot be longer than the violation allowed is wide. So these are exact, and more is allowed at first.

    Parameters
    ----------
    function, archive, start, lower_tol
        As of `descend`.
    part : float
        The violation allowed at first, in units of that of a usual point.
    """
    differences = CentralDifferences(function, archive.region)
    final = final_violation(archive, lower_tol, FINAL, abs(float(archive.lower.min())))
    z = start if archive.has_plateau else minimise_lower(differences, start, (UNIT * final) ** 2)
    UpperSearch(
        differences, archive, differences.at(z), final,
        allowed=max(part * archive.usual_excess**0.5, final), radius=AGAIN_RADIUS, steps=AGAIN_STEPS,
    ).run()  # fmt: skip


def looks_smooth(function: Function, archive: Archive, z: Floats, rng: np.random.Generator) -> bool:
    """Whether L and G are like parabolas on a very short line from z, and G is not flat; 5 evaluations."""
    # not along x + y = 1 and its like, where L shows nothing but rounding
    uneven = 1.0 - 0.5 * np.modf(0.618 * np.arange(z.size))[0]
    step = archive.region.steps_inside(z, 1e-6 * uneven * rng.choice([-1.0, 1.0], z.size), 4)
    lower, upper = function(z + np.arange(5)[:, None] * step)
    # of c^2, where c is the difference of numbers as large as it usually is itself
    eps, usual = 1e-15, archive.usual_excess
    rounding = eps * np.sqrt(usual * max(float(lower.max() - archive.lower.min()), eps * eps * usual))
    for values, error in ((lower, rounding), (upper, 0.0)):
        if not np.isfinite(values).all():
            return False
        first, third = (np.abs(np.diff(values, n)).max() for n in (1, 3))
        if not third <= 1e-2 * first + 1e-14 * np.abs(values).max() + 10.0 * error:
            return False
    return bool(first > 0)
