"""``scb2o report``: what a run has found so far, as a table, as JSON, and as a picture."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..optimize import SCB2OOptimizer
from ..optimize.checkpoint import read_checkpoint
from .problem import Problem, shown

PICTURE = "convergence.png"


@dataclass(frozen=True)
class Found:
    """What the checkpoint of a run says.

    Attributes
    ----------
    values : dict or None
        The variables at the best point; None where nothing is known yet.
    lower, upper : float
        L and G there.
    evaluations, iterations : int
    spread : float
        Mean spread of the particles, in parts of the first one.
    failures : dict
        Failed evaluations by kind.
    last_failure : str
    history : dict
        Columns by name, and the evaluations at each row.
    """

    values: dict[str, float] | None
    lower: float
    upper: float
    evaluations: int
    iterations: int
    spread: float
    failures: dict[str, int]
    last_failure: str
    history: dict[str, NDArray[np.float64]]


def report(problem: Problem, picture: Path | None, as_json: bool) -> None:
    """Print what a run has found, and save the picture where matplotlib is installed."""
    found = read_found(problem)
    print(to_json(problem, found) if as_json else to_text(problem, found))
    if picture is None or not found.iterations:
        return
    if find_spec("matplotlib") is None:
        if not as_json:
            print("\nNo picture: matplotlib is not installed (pip install 'sklearn-scb2o[plot]').")
        return
    save_picture(problem, found, picture)
    if not as_json:
        print(f"\nPicture: {picture}")


def read_found(problem: Problem) -> Found:
    """What the checkpoint of a problem says.

    Raises
    ------
    ValueError
        If there is none, or it cannot be read.
    """
    path = problem.checkpoint
    if not path.exists():
        raise ValueError(f"{path} does not exist, so there is nothing to report: begin with 'scb2o run {problem.path}'")
    optimizer = SCB2OOptimizer.load(path)
    evaluations = read_checkpoint(path)["evaluator"]
    result = optimizer.result
    history = {name: np.asarray(values) for name, values in result.history.items()}
    history["spread"] /= history["spread"][:1]
    log = evaluations["failure_log"]
    per_iteration = optimizer.batch_size + problem.run["track_consensus"]
    history["evaluations"] = per_iteration * np.arange(1, result.nit + 1)
    best, lower, upper = _best(result)
    return Found(
        values=None if best is None else problem.values(best),
        lower=lower,
        upper=upper,
        evaluations=max(evaluations["nfev"][:2]),
        iterations=result.nit,
        spread=float(history["spread"][-1]) if result.nit else 1.0,
        failures={kind: n for kind, n in evaluations["failures"].items() if n},
        last_failure=f"{shown(problem.values(log[-1]['x']))}: {_cause(log[-1]['message'])}" if log else "",
        history=history,
    )


def to_text(problem: Problem, found: Found) -> str:
    """A table of the best point in the user's units, and what it took."""
    program, values = problem.program, found.values
    lines = ["Nothing is known yet."]
    if values is not None:
        rows = [["variable", "value", "low", "high"]]
        rows += [[v.name, *map(_digits, (values[v.name], v.low, v.high))] for v in problem.variables]
        rows += [[f"L: {program.lower}", _digits(found.lower)], [f"G: {program.upper}", _digits(found.upper)]]
        width = max(len(row[0]) for row in rows)
        lines = [row[0].ljust(width) + "".join(f"{text:>15}" for text in row[1:]) for row in rows]
    lines += ["", f"{found.iterations} iterations, {found.evaluations} evaluations"]
    lines.append(f"spread of the particles: {found.spread:.2g} of the first one")
    if found.failures:
        kinds = ", ".join(f"{n} {kind}" for kind, n in found.failures.items())
        lines.append(f"failed evaluations: {kinds}")
    if found.last_failure:
        lines.append(f"the last one, at {found.last_failure}")
    return "\n".join(lines)


def to_json(problem: Problem, found: Found) -> str:
    """The same for other programs, in full precision; null where nothing is known."""
    return json.dumps(
        {
            "problem": problem.name,
            "variables": found.values,
            "lower": _or_none(found.lower),
            "upper": _or_none(found.upper),
            "iterations": found.iterations,
            "evaluations": found.evaluations,
            "failures": found.failures,
            "spread": found.spread,
        },
        indent=2,
        ensure_ascii=False,
    )


def save_picture(problem: Problem, found: Found, path: Path) -> None:
    """Save L and G at the consensus and the spread of the particles, against evaluations."""
    from matplotlib.figure import Figure

    history, program = found.history, problem.program
    lower, label = history["lower"], "L at the consensus"
    if np.isnan(lower).all():
        lower, label = history["quantile"], "quantile of L"
    panels = [(lower, f"{label}: {program.lower}"), (history["spread"], "spread of the particles, at first 1")]
    if not np.isnan(history["upper"]).all():
        panels.insert(1, (history["upper"], f"G at the consensus: {program.upper}"))
    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
    for axes, (values, title) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.plot(history["evaluations"], values, color="#0072b2", lw=1.5)
        axes.set(xlabel="evaluations", title=title)
        finite = values[np.isfinite(values)]
        if len(finite) and finite.min() > 0 and finite.max() > 10 * finite.min():
            axes.set_yscale("log")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _best(result: Any) -> tuple[Any, float, float]:
    """The point to be trusted, L and G there: the consensus where it was evaluated, else the best particle."""
    if result.x is None:
        return None, math.nan, math.nan
    if math.isfinite(result.lower_fun):
        return result.x, result.lower_fun, result.fun
    if math.isfinite(result.best.lower):
        return result.best.x, result.best.lower, result.best.upper
    return None, math.nan, math.nan


def _cause(message: str) -> str:
    """What was wrong, without the traceback."""
    for name in ("ProgramError: ", "TimeoutError: "):
        _, found, cause = message.partition(name)
        if found:
            return cause.strip()
    return message.strip()


def _digits(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.7g}"


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
