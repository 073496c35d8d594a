"""The two-dimensional constrained problems of the paper: table and figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..optimize import SCB2OOptimizer
from ..problems import Problem, circle, star
from .figures import plot_band, save_figure

STEPS = 600
#: Mean L(c), G(c) - G*, distance of c to the solution, and spread, after 600 steps over 5 seeds, as the paper prints
#: them; None where the paper marks the gap as meaningless because c is not feasible.
PAPER_2D: dict[str, dict[str, tuple[float, float | None, float, float]]] = {
    "circle": {
        "CB2O": (2.9e-9, 2.5e-3, 3.2e-3, 9.6e-2),
        "xi=10": (3.9e-2, None, 2.9e-1, 1.2e0),
        "xi=100": (8.3e-4, None, 1.4e-2, 1.7e-1),
        "xi=1000": (1.7e-5, None, 2.8e-3, 1.6e-1),
        "xi=10000": (1.3e-7, 3.5e-5, 2.6e-3, 8.7e-2),
    },
    "star": {
        "CB2O": (1.5e-8, 2.9e-3, 5.8e-3, 2.2e-1),
        "xi=10": (4.7e-2, None, 5.7e-2, 1.6e-1),
        "xi=100": (6.3e-4, None, 1.2e-2, 1.8e-1),
        "xi=1000": (9.6e-6, None, 3.9e-3, 1.7e-1),
        "xi=10000": (2.4e-7, 4.1e-4, 3.6e-3, 3.0e-1),
    },
}


@dataclass(frozen=True)
class Row:
    """One row of the table: the four metrics over iterations and seeds, (STEPS, n_seeds) each."""

    problem: str
    method: str
    lower: NDArray[np.float64]
    gap: NDArray[np.float64]
    distance: NDArray[np.float64]
    spread: NDArray[np.float64]


def run_2d(
    n_seeds: int = 5, *, first_seed: int = 0, advance: Callable[[], object] = lambda: None, steps: int = STEPS
) -> list[Row]:
    """Run CB2O and SCB2O with xi = 10, 100, 1000, 10000 on `circle` and `star` with the paper's settings.

    N = 100, alpha = 30, beta = 0.05, lam = sigma = 1, dt = 0.01, isotropic noise, start uniform on [-3, 3]^2; all
    seeds of a row advance together.

    Parameters
    ----------
    n_seeds, first_seed : int
        Seeds ``first_seed, ..., first_seed + n_seeds - 1``.
    advance : callable
        Called after each row, of 10.
    steps : int
        Iterations.

    Returns
    -------
    list of Row

    References
    ----------
    SCB2O paper, section "2D constrained problem" and its appendix.

    Examples
    --------
    >>> rows = run_2d(2, steps=50)
    >>> rows[0].problem, rows[0].method, rows[0].distance.shape
    ('circle', 'CB2O', (50, 2))
    """
    rows = []
    for problem in (circle(), star()):
        for method in PAPER_2D[problem.name]:
            rows.append(_run_row(problem, method, range(first_seed, first_seed + n_seeds), steps))
            advance()
    return rows


def _run_row(problem: Problem, method: str, seeds: range, steps: int) -> Row:
    start = np.stack([np.random.default_rng([seed, 2]).uniform(-3.0, 3.0, (100, 2)) for seed in seeds])
    kind: dict[str, Any] = {"selection": "hard"} if method == "CB2O" else {"xi": float(method.removeprefix("xi="))}
    optimizer = SCB2OOptimizer.from_paper(
        x0=start if len(seeds) > 1 else start[0],
        n_runs=len(seeds),
        random_state=list(seeds),
        x_opt=problem.x_opt,
        max_iter=steps,
        **kind,
    )
    while not optimizer.stop():
        x = optimizer.ask()
        optimizer.tell(problem.lower(x), problem.upper(x))
        c = optimizer.consensus
        optimizer.tell_consensus(problem.lower(c), problem.upper(c))
    columns = {k: v.reshape(steps, len(seeds)) for k, v in optimizer.history.columns().items()}
    gap = columns["upper"] - problem.upper_opt
    return Row(problem.name, method, columns["lower"], gap, columns["distance"], columns["spread"])


def table_2d(rows: list[Row]) -> str:
    """The table as text: means over seeds at the last step, the paper's values beside them.

    Parameters
    ----------
    rows : list of Row
        From `run_2d`.

    Returns
    -------
    str
        With a verdict per row: mean L(c) within a factor 3 of the paper's and mean distance within a factor 2, or
        differences that are less than three standard errors, the paper's values being means over five seeds.
    """
    n_seeds = rows[0].lower.shape[1]
    lines = [
        f"Mean over {n_seeds} seeds at step {len(rows[0].lower)}: ours, the paper's (5 seeds), and their ratio",
        f"{'problem':<8} {'method':<9} | {'L(c)':>8} {'paper':>8} {'ratio':>6} "
        f"| {'|c - x*|':>8} {'paper':>8} {'ratio':>6} "
        f"| {'min - max over seeds':>19} | {'spread':>7} {'paper':>7}",
    ]
    for row in rows:
        L, distance, spread = (float(v[-1].mean()) for v in (row.lower, row.distance, row.spread))
        L_paper, _, distance_paper, spread_paper = PAPER_2D[row.problem][row.method]
        agrees = _agree(row.lower[-1], L_paper, 3.0) and _agree(row.distance[-1], distance_paper, 2.0)
        lines.append(
            f"{row.problem:<8} {row.method:<9} | {L:8.1e} {L_paper:8.1e} {L / L_paper:6.2f} "
            f"| {distance:8.1e} {distance_paper:8.1e} {distance / distance_paper:6.2f} "
            f"| {row.distance[-1].min():8.1e} - {row.distance[-1].max():8.1e} "
            f"| {spread:7.1e} {spread_paper:7.1e} {'' if agrees else '  (differs)'}"
        )
    return "\n".join(lines)


def _agree(values: NDArray[np.float64], paper: float, factor: float) -> bool:
    """Whether the mean over seeds is within a factor of the paper's, or as near as means over five seeds are."""
    mean = values.mean()
    if 1.0 / factor <= mean / paper <= factor:
        return True
    error = values.std(ddof=1) * math.sqrt(1.0 / len(values) + 1.0 / 5.0) if len(values) > 1 else 0.0
    return bool(abs(mean - paper) < 3.0 * error)


def figure_2d(rows: list[Row], path: Path) -> None:
    """Save the paper's figure: four metrics over iterations, mean and min-max band over seeds, a row per problem.

    Parameters
    ----------
    rows : list of Row
        From `run_2d`.
    path : Path
        Where to write the picture; its suffix is the format.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    panels = {
        "lower": "L(c)",
        "gap": "|G(c) - G*|",
        "distance": "distance of c to the solution",
        "spread": "mean spread",
    }
    problems = list(dict.fromkeys(row.problem for row in rows))
    figure = Figure(figsize=(14, 3.4 * len(problems)), layout="constrained")
    axes = figure.subplots(len(problems), len(panels), squeeze=False)
    colors = colormaps["viridis"](np.linspace(0.0, 0.9, 4))
    for line, problem in zip(axes, problems, strict=True):
        for ax, (name, label) in zip(line, panels.items(), strict=True):
            soft = iter(colors)
            for row in (row for row in rows if row.problem == problem):
                values = np.maximum(np.abs(getattr(row, name)), 1e-16)
                color = "black" if row.method == "CB2O" else next(soft)
                iterations = np.arange(1, len(values) + 1)
                plot_band(ax, iterations, values, alpha=0.12, color=color, lw=1.5, label=row.method)
            ax.set(yscale="log", xlabel="iteration", title=f"{problem}: {label}")
    axes[0, 0].legend(fontsize=8)
    save_figure(figure, path, dpi=120)
