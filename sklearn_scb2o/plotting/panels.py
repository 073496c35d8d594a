"""What all displays share: the axes they draw on, colours and markers, and the points of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# of Okabe and Ito, told apart with every kind of colour vision
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#808080",
)  # fmt: skip
#: Colour and dashes of one curve after another, told apart in grey too.
CURVES = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (BLACK, "-"), (ORANGE, "--"), (SKY, "-."))


def pyplot(display: Any) -> Any:
    """The module matplotlib.pyplot, or an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__} draws with matplotlib, which is not installed: pip install 'sklearn-scb2o[plot]'"
        ) from error
    return plt


def make_axes(
    display: Any, ax: Any, n: int = 1, *, stacked: bool = False, size: tuple[float, float] = (3.4, 2.9)
) -> Any:
    """Axes for n panels side by side, or stacked on a common abscissa, as an array of shape (n,).

    Parameters
    ----------
    display
        Who draws.
    ax : None, Axes, or array-like of n Axes
        None: a new figure. For n > 1 the place of a single Axes is divided.
    n : int
        Number of panels.
    stacked : bool
        Whether they are above each other.
    size : pair of floats
        Inches of a panel, in a new figure.
    """
    plt = pyplot(display)
    grid = (n, 1) if stacked else (1, n)
    if ax is None:
        figsize = (size[0] * grid[1], size[1] * grid[0])
        return plt.subplots(*grid, figsize=figsize, sharex=stacked, squeeze=False, layout="constrained")[1].ravel()
    given = np.ravel(np.asarray(ax, dtype=object))
    if len(given) == n:
        return given
    if len(given) > 1 or given[0].get_subplotspec() is None:
        raise ValueError(
            f"ax holds {len(given)} axes, expected {n}, or one of a grid of subplots whose place is divided"
        )
    given[0].set_axis_off()
    parts = given[0].get_subplotspec().subgridspec(*grid)
    return parts.subplots(sharex=stacked, squeeze=False).ravel()


def pick_scale(values: Any) -> str:
    """The scale on which values can be read: "log" where they are positive and span more than a factor of ten."""
    finite = np.asarray(values)[np.isfinite(values)]
    return "log" if len(finite) and finite.min() > 0.0 and finite.max() > 10.0 * finite.min() else "linear"


def as_list(results: Any) -> list[Any]:
    """One result or several as a list."""
    several = isinstance(results, (list, tuple))
    if several and not results:
        raise ValueError("an empty list of results: there is nothing to draw")
    return list(results) if several else [results]


def population_of(result: Any, *, values: bool = False) -> tuple[NDArray[np.float64], Any, Any]:
    """Points (n, d) of the population of a result, those of several runs together, with L and G (n,).

    Parameters
    ----------
    result : OptimizeResult
        Of the optimizer, or an intermediate one.
    values : bool
        Whether L and G are needed.

    Raises
    ------
    ValueError
        If there is no population, or its values are needed and not known.
    """
    population = result.get("population")
    if population is None:
        raise ValueError("the result has no population: nothing was told before it was taken")
    x = np.asarray(population.x, dtype=float)
    x = x.reshape(-1, x.shape[-1])
    if population.lower is None:
        if values:
            raise ValueError("the values of the population are not known: take the result after tell(), before ask()")
        return x, None, None
    return x, np.ravel(population.lower).astype(float), np.ravel(population.upper).astype(float)


def near_minimisers(lower: Any, lower_tol: float | None, part: float) -> NDArray[np.bool_]:
    """Rows whose L is within `lower_tol` of the smallest; None: the given part of the rows, those of smallest L."""
    known = np.isfinite(lower)
    if not known.any():
        return known
    if lower_tol is None:
        return known & (lower <= np.quantile(lower[known], part))
    return known & (lower <= lower[known].min() + lower_tol)
