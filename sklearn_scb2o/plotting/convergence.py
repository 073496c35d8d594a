"""How a run, or several, came to their result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .panels import CURVES, as_list, make_axes, pick_scale

#: What the columns of a history are called in a picture.
LABELS = {
    "lower": "L at the consensus",
    "upper": "G at the consensus",
    "distance": "distance to the optimum",
    "spread": "spread of the particles",
    "inner_spread": "spread of the inner particles",
    "ess": "effective sample size",
    "quantile": "quantile of L",
    "alpha": "inverse temperature",
    "tau": "softness",
    "n_failed": "failed evaluations",
}
DEFAULT_METRICS = ("lower", "upper", "spread", "ess")


class ConvergenceDisplay:
    r"""Metrics of a run over its evaluations or iterations; of several runs the median and a band.

    L and G at the consensus, the mean spread of the particles around it, and the effective sample size
    :math:`1 / \sum_i w_i^2` of their weights, or any other column of a history. Make one by `from_result`,
    `from_history` or `from_estimator`.

    Parameters
    ----------
    columns : dict of arrays of shape (n_iterations, n_runs)
        Metrics by name. NaN: not known.
    evaluations : array of shape (n_iterations, n_runs)
        Evaluations of L of each run so far. NaN: not known.

    Attributes
    ----------
    axes_ : array of Axes
        One for each metric.
    figure_ : Figure
        Theirs.
    lines_ : dict of Line2D
        The curves, by metric.
    bands_ : dict
        The bands of several runs, by metric; empty for one.

    See Also
    --------
    ParticlesDisplay : where the particles are.

    Examples
    --------
    >>> from sklearn_scb2o import minimize
    >>> from sklearn_scb2o.plotting import ConvergenceDisplay
    >>> from sklearn_scb2o.problems import circle
    >>> problem = circle()
    >>> result = minimize(
    ...     problem.lower, problem.upper, problem.bounds, vectorized=True, track_consensus=True, max_evals=2_000,
    ...     random_state=0,
    ... )
    >>> display = ConvergenceDisplay.from_result(result)
    >>> list(display.lines_)
    ['lower', 'upper', 'spread', 'ess']
    >>> display.figure_.savefig("convergence.png")  # doctest: +SKIP
    """

    def __init__(self, *, columns: dict[str, NDArray[np.float64]], evaluations: NDArray[np.float64]) -> None:
        self.columns = columns
        self.evaluations = evaluations

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw the history of a result; of several runs where it has several, or a list of results is given.

        Parameters
        ----------
        result : OptimizeResult or list of OptimizeResult
            Of `minimize`, `minimize_nested` or an optimizer. A run that ended before others keeps its last values. An
            iteration takes as many evaluations as a batch has points: those of consensus points are not counted.
        ax, **options
            As for `plot`.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        ValueError
            If a result has no history.
        """
        runs = [run for given in as_list(result) for run in given.get("runs", [given])]
        tables = []
        for run in runs:
            if not run.get("history") or not run.nit:
                raise ValueError("a result without a history, or of no iteration: there is nothing to draw")
            tables.append(_table(run.history, _evaluations(run)))
        return cls._drawn(tables, ax, options)

    @classmethod
    def from_history(
        cls, history: Any, evaluations: ArrayLike | None = None, *, ax: Any = None, **options: Any
    ) -> ConvergenceDisplay:
        """Draw columns: those of a history, or any others with a row for each iteration.

        Parameters
        ----------
        history : dict of arrays of shape (n_iterations,) or (n_iterations, n_runs), or an optimizer's `history`
            The columns.
        evaluations : array of shape (n_iterations,) or (n_iterations, n_runs), optional
            Evaluations of L so far.
        ax, **options
            As for `plot`.

        Returns
        -------
        ConvergenceDisplay
        """
        columns = history if isinstance(history, dict) else history.columns()
        return cls._drawn([_table(columns, evaluations)], ax, options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw the history of the last search of a fitted `BilevelSearchCV`.

        Parameters
        ----------
        estimator : BilevelSearchCV
            Fitted, with ``refit`` other than False.
        ax, **options
            As for `plot`.

        Returns
        -------
        ConvergenceDisplay
        """
        return cls.from_result(estimator.optimizer_result_, ax=ax, **options)

    @classmethod
    def _drawn(cls, tables: list[dict[str, NDArray[np.float64]]], ax: Any, options: dict[str, Any]) -> Any:
        """Draw tables of several runs, each with the column "evaluations"."""
        longest = max(len(table["evaluations"]) for table in tables)
        names = [name for name in tables[0] if all(name in table for table in tables)]
        columns = {name: np.hstack([_padded(table[name], longest) for table in tables]) for name in names}
        return cls(evaluations=columns.pop("evaluations"), columns=columns).plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        over: str = "evaluations",
        metrics: Any = None,
        upper_opt: float | None = None,
        band: tuple[float, float] | None = (0.1, 0.9),
        label: str | None = None,
        **line_options: Any,
    ) -> ConvergenceDisplay:
        """Draw one panel for each metric.

        Parameters
        ----------
        ax : Axes or array of Axes, optional
            The panels, such as the `axes_` of another display, to compare; or one, whose place is divided. By default
            a new figure.
        over : {"evaluations", "iterations"}
            The abscissa: evaluations of L, of each run. Iterations where those are not known.
        metrics : str or list of str, optional
            Columns of the history. By default L and G at the consensus, spread and effective sample size, without
            those that are not known; the quantile of L, if L at the consensus is not.
        upper_opt : float, optional
            The value G of the solution: the distance of G from it is drawn instead of G.
        band : pair of floats in [0, 1], or None
            Quantiles of several runs between which there is a band.
        label : str, optional
            Name of the curve in the legend.
        **line_options
            For the curves, as of `Axes.plot`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown metric or abscissa, or too few axes.
        """
        if over not in ("evaluations", "iterations"):
            raise ValueError(f"over={over!r}: choose 'evaluations' or 'iterations'")
        names = self._metrics(metrics)
        axes = make_axes(self, ax, len(names))
        if np.isnan(self.evaluations).any():
            over = "iterations"
        lines, bands = {}, {}
        for panel, name in zip(axes, names, strict=True):
            values, title = self.columns[name], LABELS.get(name, name)
            if name == "upper" and upper_opt is not None:
                values, title = np.abs(values - upper_opt), "distance of G to its optimum"
            x, values = self._aligned(over, values)
            color, dashes = CURVES[len(panel.get_lines()) % len(CURVES)]
            style = {"color": color, "linestyle": dashes, "linewidth": 1.6, **line_options}
            (line,) = panel.plot(x, np.nanmedian(values, axis=1), label=label, **style)
            if values.shape[1] > 1 and band is not None:
                low, high = np.nanquantile(values, band, axis=1)
                bands[name] = panel.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
            panel.set(xlabel=over, title=title)
            if panel.get_yscale() == "linear":
                panel.set_yscale(pick_scale(values))
            lines[name] = line
        if label is not None:
            axes[0].legend(frameon=False)
        self.axes_, self.figure_, self.lines_, self.bands_ = axes, axes[0].figure, lines, bands
        return self

    def _metrics(self, metrics: Any) -> list[str]:
        if metrics is None:
            known = [name for name in DEFAULT_METRICS if self._is_known(name)]
            return known if "lower" in known or not self._is_known("quantile") else ["quantile", *known]
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        unknown = [name for name in names if not self._is_known(name)]
        if unknown or not names:
            known = [name for name in self.columns if self._is_known(name)]
            raise ValueError(f"metrics={metrics!r}: choose among {known}")
        return names

    def _is_known(self, name: str) -> bool:
        """Whether a column says something about more than the end."""
        values = self.columns.get(name)
        return values is not None and np.isfinite(values).sum() > values.shape[1] * (len(values) > 1)

    def _aligned(self, over: str, values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Abscissa (n,) and values (n, n_runs), where runs with other batches have other numbers of evaluations."""
        if over == "iterations":
            rows = np.isfinite(values).any(axis=1)
            return np.arange(1, len(values) + 1)[rows], values[rows]
        x = np.unique(self.evaluations)
        x = x[x >= self.evaluations[0].max()]
        latest = [np.searchsorted(column, x, side="right") - 1 for column in self.evaluations.T]
        values = np.stack([values[rows, run] for run, rows in enumerate(latest)], axis=1)
        known = np.isfinite(values).any(axis=1)
        return x[known], values[known]


def _table(columns: dict[str, Any], evaluations: Any) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers, (n_iterations, n_runs) each, with one of the evaluations."""
    table = {name: np.asarray(values, dtype=float) for name, values in columns.items() if not name.startswith("x_")}
    table = {name: values.reshape(len(values), -1) for name, values in table.items()}
    counted = table.pop("nfev_lower", None)
    shape = next(iter(table.values())).shape
    if evaluations is None:
        table["evaluations"] = np.full(shape, np.nan) if counted is None else counted
    else:
        evaluations = np.asarray(evaluations, dtype=float).reshape(shape[0], -1)
        table["evaluations"] = np.array(np.broadcast_to(evaluations, shape))
    return table


def _evaluations(run: Any) -> Any:
    """Evaluations of L after each iteration, (n_iterations, n_runs or 1); None where the history has them."""
    if "nfev_lower" in run.history:
        return None
    iterations, population = np.arange(1, run.nit + 1)[:, None], run.get("population")
    if population is not None and population.lower is not None:
        return iterations * np.shape(population.lower)[-1]
    return iterations / run.nit * np.atleast_1d(run.nfev_lower)


def _padded(values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The last row repeated up to n rows."""
    return np.concatenate([values, np.repeat(values[-1:], n - len(values), axis=0)])
