"""Success rates with confidence intervals, evaluations to success, and data profiles."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .problems import KINDS, get_problem
from .runner import Run
from .solvers import SOLVERS

#: Colours that the colour-blind can tell apart (Okabe, Ito), with line styles for print.
_COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7")


def wilson(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """Interval of 95% for a proportion."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _by_solver(results: Iterable[Run]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in results:
        groups[run.solver].append(run)
    return {name: groups[name] for name in SOLVERS if name in groups}


def _rate(runs: list[Run]) -> str:
    if not runs:
        return "-"
    successes = sum(run.success for run in runs)
    low, high = wilson(successes, len(runs))
    return f"{successes / len(runs):.2f} [{low:.2f}, {high:.2f}]"


def rates_table(results: list[Run], suite: str) -> str:
    """Success rates by budget, solver and class; an interval treats the runs as independent."""
    lines = []
    for budget in sorted({run.budget for run in results}):
        lines.append(f"\n{suite} problems, {budget:,} evaluations: success rate [95% interval]")
        others = "not smooth"
        lines.append(f"{'solver':>18} {'seeds':>5} " + " ".join(f"{kind:>18}" for kind in (*KINDS, others)))
        at = [run for run in results if run.budget == budget]
        for name, runs in _by_solver(at).items():
            seeds = len({run.seed for run in runs})
            kinds = {kind: [r for r in runs if get_problem(suite, r.problem).kind == kind] for kind in KINDS}
            cells = [_rate(kinds[kind]) for kind in KINDS]
            cells.append(_rate([r for kind in KINDS[1:] for r in kinds[kind]]))
            lines.append(f"{name:>18} {seeds:>5} " + " ".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def hits_table(results: list[Run], suite: str) -> str:
    """Median number of evaluations to the first success, over the runs with the largest budget; inf where half fail."""
    lines = [f"\n{suite} problems: median evaluations to success"]
    lines.append(f"{'solver':>18} {'budget':>8} " + " ".join(f"{kind:>12}" for kind in KINDS))
    for name, runs in _by_solver(results).items():
        budget = max(run.budget for run in runs)
        cells = []
        for kind in KINDS:
            hits = [r.hit or np.inf for r in runs if r.budget == budget and get_problem(suite, r.problem).kind == kind]
            median = float(np.quantile(hits, 0.5, method="inverted_cdf")) if hits else np.nan
            cells.append(f"{median:12,.0f}")
        lines.append(f"{name:>18} {budget:>8,} " + " ".join(cells))
    return "\n".join(lines)


def problems_table(results: list[Run], suite: str) -> str:
    """Successes of each solver on each problem at the largest budget of each."""
    groups = _by_solver(results)
    lines = [f"\n{suite} problems: successes / runs at the largest budget of each solver"]
    lines += [f"{chr(65 + i)}: {name}" for i, name in enumerate(groups)]
    lines.append(f"{'':>34}" + "".join(f"{chr(65 + i):>6}" for i in range(len(groups))))
    largest = {name: max(run.budget for run in runs) for name, runs in groups.items()}
    for problem in dict.fromkeys(run.problem for run in sorted(results, key=lambda r: _order(suite, r.problem))):
        cells = []
        for name, runs in groups.items():
            mine = [r.success for r in runs if r.problem == problem and r.budget == largest[name]]
            cells.append(f"{sum(mine)}/{len(mine)}" if mine else "-")
        lines.append(f"{get_problem(suite, problem).kind:>14} {problem:>19}" + "".join(f"{c:>6}" for c in cells))
    return "\n".join(lines)


def unsolved(results: list[Run]) -> list[str]:
    """Problems on which no run succeeded."""
    solved = {run.problem for run in results if run.success}
    return sorted({run.problem for run in results} - solved)


def data_profiles(results: list[Run], suite: str, path: Path) -> None:
    """Share of runs solved within a number of evaluations, per class; dashed: told the constraint functions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplots(2, 2, sharey=True)
    groups = _by_solver(results)
    counts = {True: 0, False: 0}
    styles = {}
    for name in groups:
        told = SOLVERS[name].told
        styles[name] = {
            "color": _COLOURS[counts[told]], "linestyle": "--" if told else "-",
            "linewidth": 2.4 if name.startswith("scb2o") else 1.4,
        }  # fmt: skip
        counts[told] += 1
    for ax, kind in zip(axes.flat, KINDS, strict=True):
        for name, runs in groups.items():
            budget = max(run.budget for run in runs)
            mine = [r for r in runs if r.budget == budget and get_problem(suite, r.problem).kind == kind]
            hits = np.sort([r.hit for r in mine if r.hit is not None])
            x = np.concatenate([[10], hits, [budget]])
            y = np.concatenate([[0], np.arange(1, hits.size + 1), [hits.size]]) / max(len(mine), 1)
            ax.step(x, y, where="post", label=name, **styles[name])
        ax.set(xscale="log", xlim=(30, None), ylim=(0, 1), title=kind)
        ax.grid(alpha=0.3)
    for ax in axes[1]:
        ax.set_xlabel("evaluations")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of runs solved")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=150)


def _order(suite: str, problem: str) -> tuple[int, str]:
    return KINDS.index(get_problem(suite, problem).kind), problem
