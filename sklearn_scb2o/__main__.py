"""Command line: ``python -m sklearn_scb2o`` or ``scb2o``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from . import __version__
from .optimize import minimize
from .problems import circle, star
from .reproduce import figure_2d, figure_gradient, run_2d, run_gradient, table_2d, table_gradient

DEMO_SEEDS = 20
DEMO_EVALUATIONS = 5_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; without one, the demonstration.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status.
    """
    parser = argparse.ArgumentParser(
        prog="scb2o",
        description="Derivative-free bi-level optimization: minimise an upper objective over the minimisers of a lower "
        "one. Without a command: a demonstration on the paper's two constrained problems.",
    )
    parser.add_argument("--version", action="version", version=f"sklearn_scb2o {__version__}")
    commands = parser.add_subparsers(dest="command")
    reproduce = commands.add_parser("reproduce", help="run an experiment of the paper again")
    experiments = reproduce.add_subparsers(dest="experiment", required=True)
    two_d = experiments.add_parser(
        "2d", help="table and figure of the two constrained problems: CB2O and SCB2O with xi = 10 to 10000"
    )
    gradient = experiments.add_parser(
        "gradient", help="table and figure of the comparison with gradient methods: CB2O, VPBGD, SBGD, SCB2O"
    )
    for experiment, seeds in ((two_d, 5), (gradient, 3)):
        experiment.add_argument(
            "--seeds",
            type=_positive,
            default=seeds,
            metavar="K",
            help=f"seeds 0 to K-1 (default {seeds}, as the paper)",
        )
        experiment.add_argument(
            "--output",
            type=Path,
            default=Path("results"),
            metavar="DIR",
            help="where the figure goes (default results)",
        )
    arguments = parser.parse_args(argv)
    if arguments.command == "reproduce" and arguments.experiment == "gradient":
        _reproduce_gradient(arguments.seeds, arguments.output)
    elif arguments.command == "reproduce":
        _reproduce_2d(arguments.seeds, arguments.output)
    else:
        _demonstrate()
    return 0


def _positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return value


def _demonstrate() -> None:
    print("Two problems of the paper: the Ackley function on a circle and on a star.")
    print(
        f"\nDefaults, {DEMO_EVALUATIONS:,} evaluations, {DEMO_SEEDS} seeds: "
        "best, median and worst distance to the solution"
    )
    for problem in (circle(), star()):
        results = [
            minimize(
                problem.lower,
                problem.upper,
                problem.bounds,
                vectorized=True,
                max_evals=DEMO_EVALUATIONS,
                random_state=seed,
            )
            for seed in range(DEMO_SEEDS)
        ]
        distances = sorted(float(problem.distance(result.x)) for result in results)
        median = results[int(np.argsort([problem.distance(r.x) for r in results])[DEMO_SEEDS // 2])]
        print(
            f"  {problem.name:<7} {distances[0]:.1e}  {distances[DEMO_SEEDS // 2]:.1e}  {distances[-1]:.1e}"
            f"   x = ({median.x[0]:.4f}, {median.x[1]:.4f}), L = {median.lower_fun:.1e}, G = {median.fun:.4f};"
            f" the solution is ({problem.x_opt[0]:.4f}, {problem.x_opt[1]:.4f}), G = {problem.upper_opt:.4f}"
        )
    print("\nThe paper's settings against the paper's table:")
    _reproduce_2d(DEMO_SEEDS, None)
    print("\nThe figure to it: scb2o reproduce 2d --seeds 20")


def _reproduce_2d(n_seeds: int, output: Path | None) -> None:
    with tqdm(total=10, desc="rows of the table", disable=not sys.stderr.isatty(), leave=False) as bar:
        rows = run_2d(n_seeds, advance=bar.update)
    print(table_2d(rows))
    if output is not None:
        _save(lambda path: figure_2d(rows, path), output / "benchmark2d.png")


def _reproduce_gradient(n_seeds: int, output: Path) -> None:
    with tqdm(total=4, desc="methods", disable=not sys.stderr.isatty(), leave=False) as bar:
        curves = run_gradient(n_seeds, advance=bar.update)
    print(table_gradient(curves))
    _save(lambda path: figure_gradient(curves, path), output / "gradient.png")


def _save(draw: Callable[[Path], None], path: Path) -> None:
    if find_spec("matplotlib") is None:
        print("\nNo figure: matplotlib is not installed (pip install 'sklearn-scb2o[plot]').")
        return
    draw(path)
    print(f"\nFigure: {path}")


if __name__ == "__main__":
    sys.exit(main())
