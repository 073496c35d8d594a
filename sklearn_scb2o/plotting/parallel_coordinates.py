"""Populations in more than two dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .panels import GREY, VERMILLION, as_list, make_axes, near_minimisers, population_of


class ParallelCoordinatesDisplay:
    r"""A line for each particle, through its coordinates, each scaled to its bounds.

    The near-minimisers of L are in front and coloured by G; the others are thin and grey behind them. The spread of the
    former shows which coordinates the lower objective leaves open.

    Parameters
    ----------
    x : array of shape (n, d)
        Points.
    lower, upper : arrays of shape (n,)
        L and G there; NaN: not known, as G is where it does not matter.
    bounds : array of shape (d, 2)
        What 0 and 1 of each coordinate are.
    names : list of d str
        Of the coordinates.
    lower_tol : float or None
        What exceeds the smallest L by so much is a near-minimiser; None: a tenth of the points.
    chosen : array of shape (d,) or None
        The point of the result.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        Where it is drawn.
    front_, back_ : LineCollection
        Near-minimisers, and the other points.
    chosen_ : Line2D or None
        The result.

    See Also
    --------
    ParticlesDisplay : two coordinates, above the objectives.

    Examples
    --------
    >>> from sklearn_scb2o import minimize
    >>> from sklearn_scb2o.plotting import ParallelCoordinatesDisplay
    >>> from sklearn_scb2o.problems import sphere
    >>> problem = sphere(4)
    >>> result = minimize(problem.lower, problem.upper, problem.bounds, vectorized=True, max_iter=20, random_state=0)
    >>> display = ParallelCoordinatesDisplay.from_result(result, problem.bounds, names=["a", "b", "c", "d"])
    >>> len(display.front_.get_segments()), len(display.back_.get_segments())
    (10, 90)
    """

    def __init__(
        self,
        *,
        x: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        bounds: NDArray[np.float64],
        names: list[str],
        lower_tol: float | None = None,
        chosen: NDArray[np.float64] | None = None,
    ) -> None:
        self.x, self.lower, self.upper = x, lower, upper
        self.bounds, self.names = bounds, names
        self.lower_tol = lower_tol
        self.chosen = chosen

    @classmethod
    def from_result(
        cls,
        result: Any,
        bounds: Any = None,
        *,
        names: Any = None,
        lower_tol: float | None = None,
        ax: Any = None,
        **options: Any,
    ) -> ParallelCoordinatesDisplay:
        """Draw the population of a result; of several, such as those that a callback has collected, all together.

        Parameters
        ----------
        result : OptimizeResult or list of OptimizeResult
            Of `minimize` or an optimizer, or intermediate ones. The last one's point is drawn as the result.
        bounds : list of d pairs (low, high), optional
            Ends of each coordinate. By default the range of the points.
        names : list of d str, optional
            Of the coordinates.
        lower_tol : float, optional
            What exceeds the smallest L by so much is a near-minimiser. By default a tenth of the points is.
        ax, **options
            As for `plot`.

        Returns
        -------
        ParallelCoordinatesDisplay

        Raises
        ------
        ValueError
            If there is no population, its values are not known, or names or bounds are not as many as coordinates.
        """
        results = as_list(result)
        x, lower, upper = map(np.concatenate, zip(*(population_of(r, values=True) for r in results), strict=True))
        d = x.shape[1]
        if bounds is None:
            ends = np.stack([x.min(axis=0), x.max(axis=0)], axis=1)
        else:
            ends = np.asarray(bounds, dtype=float)
        if ends.shape != (d, 2) or not np.isfinite(ends).all():
            raise ValueError(f"bounds={bounds!r}: give {d} pairs (low, high) of numbers")
        names = [f"x{i}" for i in range(d)] if names is None else list(names)
        if len(names) != d:
            raise ValueError(f"names={names!r}: give {d}, one for each coordinate")
        chosen = np.asarray(results[-1].x, dtype=float)
        return cls(
            x=x, lower=lower, upper=upper, bounds=ends, names=names, lower_tol=lower_tol,
            chosen=chosen if chosen.shape == (d,) else None,
        ).plot(ax, **options)  # fmt: skip

    def plot(
        self, ax: Any = None, *, cmap: Any = "cividis", colorbar: bool = True, legend: bool = True
    ) -> ParallelCoordinatesDisplay:
        """Draw all points.

        Parameters
        ----------
        ax : Axes, optional
            By default a new figure.
        cmap : str or Colormap
            Colours of G.
        colorbar, legend : bool
            Whether there are a scale of G and an explanation of the lines.

        Returns
        -------
        self
        """
        (ax,) = make_axes(self, ax, size=(max(5.6, 1.3 * len(self.names) + 1.5), 3.8))
        from matplotlib.collections import LineCollection

        at = np.arange(len(self.names))
        near = near_minimisers(self.lower, self.lower_tol, 0.1) & np.isfinite(self.upper)
        order = np.flatnonzero(near)[np.argsort(-self.upper[near], kind="stable")]  # the smallest G in front
        alpha = float(np.clip(60.0 / len(self.x), 0.08, 0.35))  # many lines would hide one another
        self.back_ = LineCollection(self._lines(~near), colors=GREY, linewidths=0.5, alpha=alpha, zorder=1)
        self.front_ = LineCollection(self._lines(order), array=self.upper[order], cmap=cmap, linewidths=1.5, zorder=2)
        ax.vlines(at, 0.0, 1.0, color="black", linewidth=0.8, zorder=0)
        ax.add_collection(self.back_)
        ax.add_collection(self.front_)
        self.chosen_ = None
        if self.chosen is not None:
            style = {"color": VERMILLION, "linewidth": 1.8, "markeredgecolor": "white", "zorder": 3}
            (self.chosen_,) = ax.plot(at, self._scaled(self.chosen), "o--", **style, label="result")
        labels = [f"{name}\n{low:.4g}" for name, (low, _) in zip(self.names, self.bounds, strict=True)]
        ax.set(xlim=(-0.3, len(at) - 0.7), ylim=(-0.03, 1.03), xticks=at, yticks=[])
        ax.set_xticks(at, labels)
        ax.tick_params(length=0)
        for i, (_, high) in enumerate(self.bounds):
            ax.text(i, 1.03, f"{high:.4g}", ha="center", va="bottom")
        ax.spines[:].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        if colorbar and len(order):
            self.figure_.colorbar(self.front_, ax=ax, label="G of near-minimisers of L")
        if legend and self.chosen_ is not None:
            ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.06), frameon=False, fontsize="small")
        return self

    def _scaled(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coordinates between 0 and 1; one that is fixed is in the middle."""
        low, width = self.bounds[:, 0], np.diff(self.bounds, axis=1)[:, 0]
        return np.where(width > 0.0, (x - low) / np.where(width > 0.0, width, 1.0), 0.5)

    def _lines(self, rows: Any) -> Any:
        """Points as lines, (n, d, 2)."""
        heights = self._scaled(self.x[rows])
        return np.stack([np.broadcast_to(np.arange(heights.shape[1]), heights.shape), heights], axis=-1)
