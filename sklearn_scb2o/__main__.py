"""Command line: ``python -m sklearn_scb2o`` or ``scb2o``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import __version__
from .command_line import read_problem
from .command_line.demonstration import demonstrate
from .command_line.report import report
from .command_line.reproduce import EXPERIMENTS, reproduce
from .command_line.run import resume, start
from .reproduce import METHODS

USAGE_ERROR, RUN_ERROR = 2, 1
ANY_EXPERIMENT = ("command", "experiment", "seeds", "output")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; without one, the demonstration.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status: 0, 1 where a run has failed, 2 where arguments or the problem file are wrong, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        prog="scb2o",
        description="Derivative-free bi-level optimization: minimise an upper objective over the minimisers of a lower "
        "one. Without a command: a demonstration on the paper's two constrained problems.",
    )
    parser.add_argument("--version", action="version", version=f"sklearn_scb2o {__version__}")
    commands = parser.add_subparsers(dest="command")
    _add_program_commands(commands)
    experiments = commands.add_parser("reproduce", help="run an experiment of the paper again").add_subparsers(
        dest="experiment", required=True
    )
    for name, experiment in EXPERIMENTS.items():
        chosen = experiments.add_parser(name, help=f"table and figure of {experiment.what}")
        usual = experiment.n_seeds or "5, of a reduced run 2"
        seeds, where = f"seeds 0 to K-1 (default {usual})", "where the figure goes (default results)"
        chosen.add_argument("--seeds", type=_positive, default=experiment.n_seeds, metavar="K", help=seeds)
        chosen.add_argument("--output", type=Path, default=Path("results"), metavar="DIR", help=where)
    _add_mnist_options(chosen)  # the last one
    arguments = parser.parse_args(argv)
    if arguments.command == "reproduce":
        options = {name: value for name, value in vars(arguments).items() if name not in ANY_EXPERIMENT}
        try:
            reproduce(arguments.experiment, arguments.seeds, arguments.output, **options)
        except (ImportError, OSError, ValueError) as error:
            return _say(error, RUN_ERROR)
    elif arguments.command is not None:
        return _with_program(arguments)
    else:
        demonstrate()
    return 0


def _add_mnist_options(mnist: argparse.ArgumentParser) -> None:
    """The options of the MNIST experiment alone."""
    mnist.add_argument(
        "--data", type=Path, metavar="NPZ", help="X, uint8 (n, 784), and y; else OpenML's copy is fetched"
    )
    mnist.add_argument("--device", default="cpu", help="of torch, such as cuda (default cpu)")
    mnist.add_argument("--reduced", action="store_true", help="one beta, fewer xi, seeds and epochs")
    mnist.add_argument("--drift", action="store_true", help="particles also follow their gradients")
    mnist.add_argument("--epochs", type=_positive, metavar="T", help="default 100; reduced 20; with --drift 5")
    mnist.add_argument("--methods", nargs="+", choices=METHODS, metavar="M", help=f"some of: {', '.join(METHODS)}")


def _add_program_commands(commands: Any) -> None:
    """The commands for programs that are not Python."""
    run = commands.add_parser(
        "run", help="minimise with a program, as a problem file says (docs/guide/command_line.md)"
    )
    run.add_argument("--restart", action="store_true", help="forget a run that was begun, and begin anew")
    run.add_argument("--seed", type=_not_negative, dest="random_state", metavar="S", help="seed of the run")
    again = commands.add_parser("resume", help="go on with a run that was stopped, or that has a larger budget now")
    for parser in (run, again):
        parser.add_argument("--workers", type=_workers, metavar="W", help="programs at a time; -1: one per core")
        parser.add_argument("--max-evals", type=_positive, metavar="N", help="evaluations at most")
        parser.add_argument("--max-time", type=_seconds, metavar="T", help="seconds at most")
        parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    told = commands.add_parser("report", help="what a run has found so far, and a picture of how")
    told.add_argument("--json", action="store_true", help="for other programs: JSON, in full precision")
    told.add_argument("--picture", type=Path, metavar="PATH", help="default: convergence.png beside the problem file")
    told.add_argument("--no-picture", action="store_true")
    for parser in (run, again, told):
        parser.add_argument("problem", type=Path, help="the problem file, such as problem.toml")


def _with_program(arguments: argparse.Namespace) -> int:
    """Carry out a command with a problem file; what goes wrong is said in a few lines, without a traceback."""
    try:
        problem = read_problem(arguments.problem)
    except (ValueError, OSError) as error:
        return _say(error, USAGE_ERROR)
    try:
        if arguments.command == "report":
            picture = arguments.picture or problem.path.with_name("convergence.png")
            report(problem, None if arguments.no_picture else picture, arguments.json)
            return 0
        progress = sys.stderr.isatty() and not arguments.no_progress
        names = ("workers", "max_evals", "max_time", "random_state")
        given = {name: value for name in names if (value := getattr(arguments, name, None)) is not None}
        if arguments.command == "run":
            return start(problem, arguments.restart, progress, given)
        return resume(problem, progress, given)
    except (ValueError, RuntimeError, OSError) as error:
        return _say(error, RUN_ERROR)


def _say(error: Exception, status: int) -> int:
    print("\n".join([f"scb2o: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
    return status


def _number(kind: Callable[[str], Any], accepted: str, holds: Callable[[Any], bool]) -> Callable[[str], Any]:
    """A type of arguments: numbers of a kind that meet a condition."""

    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not holds(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {accepted}")
        return value

    return convert


_positive = _number(int, "a positive integer", lambda n: n > 0)
_not_negative = _number(int, "an integer of at least 0", lambda n: n >= 0)
_workers = _number(int, "a positive integer or -1", lambda n: n > 0 or n == -1)
_seconds = _number(float, "a positive number of seconds", lambda t: 0 < t < float("inf"))


if __name__ == "__main__":
    sys.exit(main())
