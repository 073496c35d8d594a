"""``scb2o reproduce``: the paper's experiments, each with its table and its figure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from .. import reproduce as experiments


class Experiment(NamedTuple):
    """How an experiment is run and shown."""

    what: str  #: for the help
    n_seeds: int | None  #: by default; None where it depends on the options
    run: Callable[..., Any]  #: ``run(n_seeds, advance=..., **options)``
    table: Callable[[Any], str]
    figure: Callable[[Any, Path], None]
    file: str
    n_parts: Callable[..., int]  #: calls of advance, for a number of seeds and the options


def _epochs_of_mnist(n_seeds: int | None, *, data: Path | None, device: str, **plan: Any) -> int:
    """How many epochs the rows of the MNIST experiment have together."""
    rows, epochs = experiments.plan_mnist(**plan)
    return len(rows) * epochs


EXPERIMENTS = {
    "2d": Experiment(
        "the two constrained problems: CB2O and SCB2O with xi = 10 to 10000", 5,
        experiments.run_2d, experiments.table_2d, experiments.figure_2d, "benchmark2d.png", lambda n: 10,
    ),
    "gradient": Experiment(
        "the comparison with gradient methods: CB2O, VPBGD, SBGD, SCB2O", 3,
        experiments.run_gradient, experiments.table_gradient, experiments.figure_gradient, "gradient.png", lambda n: 4,
    ),
    "theory": Experiment(
        "the rates: error against the number of particles and against the step; about a minute", 20,
        experiments.run_theory, experiments.table_theory, experiments.figure_theory, "theory.png", lambda n: 2 * n,
    ),
    "mnist": Experiment(
        "a convolutional network trained without derivatives (needs torch): CB2O and SCB2O with xi = 1 to 1000", None,
        experiments.run_mnist, experiments.table_mnist, experiments.figure_mnist, "mnist.png", _epochs_of_mnist,
    ),
}  # fmt: skip


def reproduce(name: str, n_seeds: int | None, output: Path | None, **options: Any) -> None:
    """Run an experiment with the seeds 0 to n_seeds - 1, print its table, and save its figure in a folder."""
    experiment = EXPERIMENTS[name]
    with tqdm(
        total=experiment.n_parts(n_seeds, **options), desc=name, disable=not sys.stderr.isatty(), leave=False
    ) as bar:
        found = experiment.run(n_seeds, advance=bar.update, **options)
    print(experiment.table(found))
    if output is None:
        return
    if find_spec("matplotlib") is None:
        print("\nNo figure: matplotlib is not installed (pip install 'sklearn-scb2o[plot]').")
        return
    experiment.figure(found, output / experiment.file)
    print(f"\nFigure: {output / experiment.file}")
