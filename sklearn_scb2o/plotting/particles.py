"""Where the particles are, in two coordinates, above both objectives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .panels import BLACK, ORANGE, as_list, make_axes, near_minimisers, population_of, pyplot

#: The part of the picture that is drawn as near-minimisers of L where no tolerance says what they are.
PART = 0.015


class ParticlesDisplay:
    r"""Population, consensus and best point in the plane, above G (shade) and the near-minimisers of L (black).

    .. math:: \Theta_\epsilon = \{x : L(x) \le \min L + \epsilon\}

    Make one by `from_result`. Of several results, such as those that a callback has collected, each is a frame.

    Parameters
    ----------
    xx0, xx1 : arrays of shape (n, n)
        The grid.
    lower, upper : arrays of shape (n, n)
        L and G there; NaN where an evaluation failed.
    results : list of OptimizeResult
        The frames.
    lower_tol : float or None
        The tolerance :math:`\epsilon`; None: such that 1.5 per cent of the grid are near-minimisers.
    coordinates : pair of int
        Those that are drawn.
    x_opt : array of shape (d,) or None
        A known solution.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it is drawn.
    shade_, theta_ : ContourSet
        G and the near-minimisers of L.
    particles_, consensus_, incumbent_ : Line2D
        The population; the consensus; the best point evaluated (None where there is none).

    See Also
    --------
    ParallelCoordinatesDisplay : for more than two dimensions.

    Examples
    --------
    >>> from sklearn_scb2o import minimize
    >>> from sklearn_scb2o.plotting import ParticlesDisplay
    >>> from sklearn_scb2o.problems import star
    >>> problem = star()
    >>> frames = []
    >>> def keep(intermediate_result):
    ...     frames.append(intermediate_result)
    >>> result = minimize(
    ...     problem.lower, problem.upper, problem.bounds, vectorized=True, max_iter=20, callback=keep, random_state=0
    ... )
    >>> display = ParticlesDisplay.from_result(
    ...     frames, problem.lower, problem.upper, problem.bounds, vectorized=True, frame=10
    ... )
    >>> display.particles_.get_xydata().shape
    (100, 2)
    >>> display.animate("star.gif")  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        xx0: NDArray[np.float64],
        xx1: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        results: list[Any],
        lower_tol: float | None = None,
        coordinates: tuple[int, int] = (0, 1),
        x_opt: Any = None,
    ) -> None:
        self.xx0, self.xx1 = xx0, xx1
        self.lower, self.upper = lower, upper
        self.results = results
        self.lower_tol = lower_tol
        self.coordinates = coordinates
        self.x_opt = x_opt

    @classmethod
    def from_result(
        cls,
        result: Any,
        lower: Callable[..., Any],
        upper: Callable[..., Any] | None = None,
        bounds: Any = None,
        *,
        vectorized: bool = False,
        args: tuple[Any, ...] = (),
        grid_resolution: int = 100,
        coordinates: tuple[int, int] = (0, 1),
        lower_tol: float | None = None,
        x_opt: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> ParticlesDisplay:
        """Evaluate both objectives on a grid and draw a result above them.

        Parameters
        ----------
        result : OptimizeResult or list of OptimizeResult
            One frame or several: results of `minimize` or an optimizer, or intermediate ones.
        lower, upper : callable
            The objectives, as for `minimize`.
        bounds : list of 2 pairs, or array of shape (2, 2), optional
            What is drawn of each coordinate. By default where the particles are.
        vectorized, args
            How the objectives are called, as for `minimize`.
        grid_resolution : int, at least 2
            Points of the grid along each coordinate. So many evaluations squared are made.
        coordinates : pair of int
            Which two coordinates are drawn. The others of the grid are those of the last result.
        lower_tol : float, optional
            What exceeds the smallest L by so much counts as a near-minimiser. By default the 1.5 per cent of the grid
            where L is smallest.
        x_opt : array of shape (d,), optional
            A known solution, to be drawn too.
        ax, **options
            As for `plot`.

        Returns
        -------
        ParticlesDisplay

        Raises
        ------
        ValueError
            If a result has no population, or coordinates do not exist or are the same.
        """
        results = as_list(result)
        points = [population_of(each)[0] for each in results]
        d = points[-1].shape[1]
        i, j = coordinates
        if not (0 <= i < d and 0 <= j < d and i != j):
            raise ValueError(f"coordinates={coordinates!r}: choose two of 0 to {d - 1}")
        if grid_resolution < 2:
            raise ValueError(f"grid_resolution={grid_resolution!r} must be at least 2")
        box = _around(np.concatenate(points)[:, [i, j]]) if bounds is None else np.asarray(bounds, dtype=float)
        if box.shape != (2, 2) or not np.isfinite(box).all():
            raise ValueError(f"bounds={bounds!r}: give two pairs (low, high) of numbers, one for each coordinate drawn")
        xx0, xx1 = np.meshgrid(*(np.linspace(low, high, grid_resolution) for low, high in box))
        grid = np.tile(np.atleast_2d(results[-1].x)[0].astype(float), (xx0.size, 1))
        grid[:, i], grid[:, j] = xx0.ravel(), xx1.ravel()
        values = (_evaluated(f, grid, vectorized, args) for f in (lower, upper) if f is not None)
        L, G = values if upper is not None else _pairs(next(values), vectorized)
        shape = xx0.shape
        return cls(
            xx0=xx0, xx1=xx1, lower=_numbers(L).reshape(shape), upper=_numbers(G).reshape(shape), results=results,
            lower_tol=lower_tol, coordinates=(i, j), x_opt=x_opt,
        ).plot(ax, **options)  # fmt: skip

    def plot(
        self,
        ax: Any = None,
        *,
        frame: int = -1,
        names: Any = None,
        cmap: Any = "Blues_r",
        colorbar: bool = True,
        legend: bool = True,
    ) -> ParticlesDisplay:
        """Draw one of the frames.

        Parameters
        ----------
        ax : Axes, optional
            By default a new figure.
        frame : int
            Which of the results.
        names : pair of str, optional
            Of the coordinates.
        cmap : str or Colormap
            Colours of G.
        colorbar, legend : bool
            Whether there are a scale of G and an explanation of the symbols.

        Returns
        -------
        self
        """
        (ax,) = make_axes(self, ax, size=(5.6, 4.4))
        G = np.ma.masked_invalid(self.upper)
        self.shade_ = ax.contourf(self.xx0, self.xx1, G, levels=20, cmap=cmap)
        inside = near_minimisers(self.lower.ravel(), self.lower_tol, PART)
        if inside.any():
            least, at = np.nanmin(self.lower), self.lower.ravel()[inside].max()
            levels = [least - max(at - least, np.finfo(float).tiny), at + 1e-9 * max(at - least, abs(at), 1e-300)]
            L = np.ma.masked_invalid(self.lower)
            self.theta_ = ax.contourf(self.xx0, self.xx1, L, levels=levels, colors=[BLACK], alpha=0.4)
            ax.contour(self.xx0, self.xx1, L, levels=levels[1:], colors=[BLACK], linewidths=1.3)
        point = {"linestyle": "none", "markeredgecolor": "white", "zorder": 4}
        small = {"markersize": 4.5, "markeredgecolor": BLACK, "markeredgewidth": 0.4, "zorder": 3}
        (self.particles_,) = ax.plot([], [], "o", color=ORANGE, **{**point, **small}, label="particles")
        (self.consensus_,) = ax.plot([], [], "P", color=BLACK, markersize=9, **point, label="consensus")
        (self.incumbent_,) = ax.plot([], [], "D", color=BLACK, markersize=7, **point, label="best point evaluated")
        if self.x_opt is not None:
            optimum = np.asarray(self.x_opt, dtype=float)[list(self.coordinates)]
            ax.plot(*optimum, "*", color="white", markeredgecolor=BLACK, markersize=15, zorder=3.5, label="solution")
        names = [f"x{i}" for i in self.coordinates] if names is None else names
        self.ax_, self.figure_ = ax, ax.figure
        low, high = (self.xx0.min(), self.xx1.min()), (self.xx0.max(), self.xx1.max())
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=names[0], ylabel=names[1])
        self._show(frame)
        if colorbar:
            self.figure_.colorbar(self.shade_, ax=ax, label="G")
        if legend:
            from matplotlib.patches import Patch

            near = Patch(facecolor=(0.0, 0.0, 0.0, 0.4), edgecolor=BLACK, label="near-minimisers of L")
            handles = [*ax.get_legend_handles_labels()[0], near]
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 2}
            ax.legend(handles=handles, **place, frameon=False, fontsize="small")
        return self

    def animate(self, path: Any = None, *, fps: int = 5) -> Any:
        """Go through all frames, on the axes that `plot` has drawn.

        Parameters
        ----------
        path : str or path-like, optional
            Where to save it: ".gif", by Pillow, or ".html", a page with buttons.
        fps : int
            Frames in a second.

        Returns
        -------
        matplotlib.animation.FuncAnimation
            Its `to_jshtml` shows it in a notebook.

        Raises
        ------
        ValueError
            For another suffix.
        """
        pyplot(self)
        from matplotlib.animation import FuncAnimation, PillowWriter

        path = None if path is None else Path(path)
        if path is not None and path.suffix not in (".gif", ".html"):
            raise ValueError(f"path={str(path)!r}: its suffix must be .gif or .html")
        animation = FuncAnimation(self.figure_, self._show, frames=len(self.results), interval=1000.0 / fps)
        if path is not None and path.suffix == ".gif":
            animation.save(path, writer=PillowWriter(fps=fps))
        elif path is not None:
            path.write_text(animation.to_jshtml(fps=fps), encoding="utf-8")
        return animation

    def _show(self, frame: int) -> tuple[Any, ...]:
        """Move everything to where it is in a frame; returns what has moved."""
        result = self.results[frame]
        drawn = list(self.coordinates)
        points = [
            (self.particles_, population_of(result)[0]),
            (self.consensus_, None if result.consensus is None else result.consensus.x),
            (self.incumbent_, None if result.best is None else result.best.x),
        ]
        for line, x in points:
            line.set_data(*([], []) if x is None else np.atleast_2d(x)[:, drawn].T)
        if len(self.results) > 1:
            self.ax_.set_title(f"iteration {result.nit}")
        return tuple(line for line, _ in points)


def _around(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest box with all points and a margin, (2, 2)."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.where(high > low, 0.05 * (high - low), 0.5)
    return np.stack([low - margin, high + margin], axis=1)


def _evaluated(function: Callable[..., Any], grid: NDArray[np.float64], vectorized: bool, args: tuple[Any, ...]) -> Any:
    return function(grid, *args) if vectorized else [function(x, *args) for x in grid]


def _pairs(values: Any, vectorized: bool) -> Any:
    """L and G of a function that returns both."""
    return values if vectorized else zip(*values, strict=True)


def _numbers(values: Any) -> NDArray[np.float64]:
    """As an array in which None, and what is not finite, is NaN."""
    numbers = np.asarray(list(values), dtype=float)
    return np.where(np.isfinite(numbers), numbers, np.nan)
