"""Where a search begins when G has many local minima: where averages of G lead that become ever narrower."""

from __future__ import annotations

import numpy as np

from .archive import Archive, Floats
from .differences import STAND_IN, Function, TwoSided, two_sided
from .violation import SecantModel

#: Widths of the averages at first and at last, in widths of the box, and how many there are.
WIDEST, NARROWEST, STEPS = 1.0, 5e-4, 22
#: Standard deviation of the logarithms of the widths in the single coordinates.
SCATTER = 0.6
#: How far a step goes at most, in widths of the averages.
REACH = 4.0
#: The violation allowed, as part of that of a usual point times the width.
ALLOWED = 0.05


def n_evaluations(d: int) -> int:
    """Evaluations of `graduate` with d variables."""
    return STEPS * (2 * d + 1) + d * (d - 1) // 2 + 1


def graduate(function: Function, archive: Archive, start: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    r"""Steps to where averages of G are low while L is, first over all of the box, at last over next to nothing.

    Each step minimises quadratic functions in a region, with slopes and second derivatives in the single coordinates
    from values at wide distances w on both sides,

    .. math::
        g_j = \frac{G(z + w_j e_j) - G(z - w_j e_j)}{2 w_j}, \quad
        h_j = \frac{G(z + w_j e_j) - 2 G(z) + G(z - w_j e_j)}{w_j^2}.

    The first is the slope of the average of G over all z_j within w_j, in which narrower minima do not show. L has
    mixed second derivatives, too, measured once and then corrected by what its slopes tell (`SecantModel`). No step is
    taken back: as w shrinks they end near a local minimum of G, one that stands out at all widths, and, as w is random,
    not always at the same. (Blake and Zisserman, "Visual Reconstruction", 1987: graduated non-convexity.)

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points; the lowest L is that of all.
    start : array of shape (d,)
        Where to begin.
    rng : numpy.random.Generator
        Draws w.

    Returns
    -------
    z : array of shape (d,)
        Where it ends.
    promise : float
        About the lowest G that another step could reach.
    """
    z, usual = start, float(np.sqrt(archive.usual_excess))
    model = None
    for width in np.geomspace(WIDEST, NARROWEST, STEPS):
        wide = two_sided(function, archive.region, z, width * np.exp(SCATTER * rng.standard_normal(len(z))))
        if model is None:
            model = SecantModel(wide.point)
            model.be_told(_with_mixed(function, wide), np.diag(wide.curvature_upper))
        else:
            model.learn(wide.point, 0.0, 0.0)
            model.be_told(None, np.diag(wide.curvature_upper))
        model.look_at(wide.point, float(archive.lower.min()))
        reach = REACH * width
        step = model.best_step(ALLOWED * usual * width, *archive.region.room(z, reach)).step
        z = archive.region.clip(z + step)
    upper = float(function(z[None])[1][0])
    return z, upper - reach * float(np.abs(wide.point.slope_upper).sum())


def _with_mixed(function: Function, wide: TwoSided) -> Floats:
    """All second derivatives of L, shape (d, d): d (d - 1) / 2 evaluations."""
    point, steps = wide.point, wide.steps
    i, j = np.triu_indices(len(steps), 1)
    ahead, change = np.diag(steps), point.slope_lower * steps + 0.5 * wide.curvature_lower * steps**2
    rest = function(point.z + ahead[i] + ahead[j])[0] - point.lower - change[i] - change[j]
    curvature = np.diag(wide.curvature_lower)
    curvature[i, j] = curvature[j, i] = np.where(np.abs(rest) < STAND_IN, rest, 0.0) / (steps[i] * steps[j])
    return curvature
