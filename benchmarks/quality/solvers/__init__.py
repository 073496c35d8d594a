"""The solvers that are compared, each a function of a `Recorder` and a seed that runs until the budget is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..recorder import BudgetSpent, Recorder
from . import black_box, ours, told

__all__ = ["SOLVERS", "BudgetSpent", "Solver"]


@dataclass(frozen=True)
class Solver:
    """A solver with what it is told.

    Parameters
    ----------
    run : callable
        ``run(recorder, seed)``; may be ended by `BudgetSpent`.
    told : bool
        Whether it is told the constraint functions.
    own_view : bool
        Whether it proposes its answers itself.
    anytime : bool
        Whether it does the same whatever the budget: one run then serves for all smaller budgets.
    slow : bool
        Whether an evaluation takes it about a millisecond.
    """

    run: Callable[[Recorder, int], None]
    told: bool = False
    own_view: bool = False
    anytime: bool = False
    slow: bool = False


SOLVERS = {
    "scb2o": Solver(ours.with_local_search, own_view=True),
    "scb2o swarm": Solver(ours.swarm, own_view=True),
    "two-stage SLSQP": Solver(black_box.slsqp, anytime=True),
    "two-stage CMA-ES": Solver(black_box.cma_es, slow=True),
    "two-stage DE": Solver(black_box.differential_evolution),
    "cbx penalty": Solver(black_box.cbx_penalty, anytime=True),
    "SLSQP (told)": Solver(told.slsqp, told=True, anytime=True),
    "COBYQA (told)": Solver(told.cobyqa, told=True, anytime=True, slow=True),
    "CMA-ES (told)": Solver(told.cma_es, told=True, anytime=True, slow=True),
    "DE (told)": Solver(told.differential_evolution, told=True),
    "ISRES (told)": Solver(told.isres, told=True),
}
