"""Which ingredients matter: success rates with one of them switched off, or another choice made, at a time.

Run: python benchmarks/ablation.py [--seeds K] [--budget B] [--swarm-seeds K] [--swarm-budget B] [--only NAME ...]
     [--quick]

Prints two tables, on the suite "tuning" of `benchmarks.quality`:
- `minimize(local_search=True)` on all problems, judged as there;
- the swarm alone on the problems with at most 5 variables that are smooth or have many basins. It seldom comes so
  close: a run counts if the violation and the error of G are at most ten times what is asked there, and the distance to
  a solution as there.

A row has the success rates by class and overall, the 95% interval of the latter, which treats runs as independent, the
difference to the first row, and in how many runs, of the same problem and seed, it succeeded where the first row did
not (won), and the other way round (lost). An ingredient is switched off by replacing a constant or function of the
library for the time of a run. Averages of G have a turn with 10,000 evaluations or more only, and no row with less.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from quality.problems import KINDS, get_problem, problem_names
from quality.problems.problem import DISTANCE
from quality.recorder import Recorder
from quality.report import wilson
from quality.runner import Run, judge, run_solver
from quality.solvers import Solver, ours
from threadpoolctl import threadpool_limits

from sklearn_scb2o.optimize import descent, hybrid, upper_search, violation
from sklearn_scb2o.optimize.archive import Archive
from sklearn_scb2o.optimize.hybrid import Hybrid
from sklearn_scb2o.optimize.upper_search import Proposal, UpperSearch

SUITE = "tuning"
#: Variables up to which the swarm is looked at alone.
FEW = 5
#: By how much the swarm may miss the violation and the error of G that count as success.
LOOSER = 10.0
#: Whether a run counts.
Counts = Callable[[Run], bool]
QUICK = ("circle", "lattice 2", "noise 3", "ellipsoid 6")


@dataclass(frozen=True)
class Variant:
    """How to solve, and what of the library is replaced meanwhile, as (object, name, replacement)."""

    name: str
    solve: Callable[[Recorder, int], None]
    replaced: tuple[tuple[Any, str, Any], ...] = ()
    least_budget: int = 0


def without(name: str) -> tuple[Any, str, Any]:
    """Replaces searches by differences by ones in which one of the models of the violation proposes no steps."""

    class Search(UpperSearch):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            left_out = getattr(self, name)
            left_out.error = np.inf
            self._proposing = [model for model in self._models if model is not left_out]

        def _propose(self) -> Proposal:
            with patch.object(self, "_models", self._proposing):
                return super()._propose()

    return descent, "UpperSearch", Search


def swarm(recorder: Recorder, seed: int, **options: Any) -> None:
    """The swarm alone, with the tolerance of L that the local searches have."""
    ours.swarm(recorder, seed, lower_tol=ours.LOWEST * recorder.problem.lower_tol, **options)


def polished(recorder: Recorder, seed: int) -> None:
    """The swarm, and a polish, which has up to half of the evaluations."""
    swarm(recorder, seed, polish=True)


def averages_as_usual(d: int, cost: Callable[[int], int] = hybrid.n_evaluations, most: int = hybrid.MODELS) -> float:
    """Evaluations of averages of G, so many where there usually are none that there are none."""
    return cost(d) if d > most else np.inf


NO_CURVATURES = (upper_search, "CURVATURES", 0)
BY_DIFFERENCES = (
    (Hybrid, "_by_models", Hybrid._by_differences),
    (hybrid, "MODELS", 0),
    (hybrid, "n_evaluations", averages_as_usual),
)
LOCAL = [
    Variant("all of it", ours.with_local_search),
    Variant("no local searches", swarm),
    Variant("a polish in their place", polished),
    Variant("no search by differences", ours.with_local_search, ((Hybrid, "_looks_smooth", lambda *_: False),)),
    Variant("no search with models", ours.with_local_search, BY_DIFFERENCES),
    Variant("no cutting planes", ours.with_local_search, (without("_planes"),)),
    Variant("no secant model", ours.with_local_search, (without("_secant"), NO_CURVATURES)),
    Variant("no second differences", ours.with_local_search, (NO_CURVATURES,)),
    Variant("no plateaus of L", ours.with_local_search, ((Archive, "has_plateau", False),)),
    Variant("first curvature as it is", ours.with_local_search, ((violation, "scaled", lambda first, *_: first),)),
    Variant("violation allowed at once final", ours.with_local_search, ((upper_search, "FIRST_PART", 0.0),)),
    Variant("lowest L as it is known", ours.with_local_search, ((UpperSearch, "_sure", 0.0),)),
    Variant("no jumps of G", ours.with_local_search, ((upper_search, "TRIES", 0),)),
    Variant("no other side of jumps", ours.with_local_search, ((Hybrid, "_other_sides", lambda *_: iter(())),)),
    Variant("no going on from the answer", ours.with_local_search, ((Hybrid, "_go_on", lambda *_: iter(())),)),
    Variant("no averages of G", ours.with_local_search, ((Hybrid, "_n_averaged", 0),), least_budget=10_000),
]
#: The constants are the paper's. Isotropic noise is no row: "auto" makes sigma smaller by sqrt(d), and it is the same.
#: Nor are restarts: they wait for particles that have met.
SWARM: list[tuple[str, dict[str, Any]]] = [
    ("the defaults", {}),
    ("alpha = 30", {"alpha": 30.0}),
    ("tau = 1 / 30,000", {"tau": 1.0 / 30_000.0}),
    ("beta = 0.05", {"beta": 0.05}),
    ("sigma = 1", {"sigma": 1.0}),
    ("all of the paper's constants", {"preset": "paper"}),
    ("hard selection", {"selection": "hard"}),
    ("selector gumbel", {"selector": "gumbel"}),
    ("anisotropic noise", {"noise": "anisotropic"}),
    ("noise at least 0.001 of the width", {"noise_floor": 1e-3}),
    ("batches of 50", {"batch_size": 50}),
    ("50 particles", {"n_particles": 50}),
    ("4 runs side by side", {"n_runs": 4, "n_particles": 50}),
]


def run(variant: Variant, problem: str, seed: int, budget: int) -> Run:
    """One variant on one problem."""
    solver = Solver(variant.solve, own_view=True)
    with contextlib.ExitStack() as stack:
        for replacement in variant.replaced:
            stack.enter_context(patch.object(*replacement))
        recorder, seconds = run_solver(get_problem(SUITE, problem), solver, seed, budget)
    return judge(recorder, budget, suite=SUITE, problem=problem, solver=variant.name, seed=seed, seconds=seconds)


def is_close(run: Run) -> bool:
    """Whether a run counts when no more is asked than a swarm can give."""
    problem = get_problem(SUITE, run.problem)
    is_low = run.violation <= LOOSER * problem.lower_tol**0.5 and run.upper_error <= LOOSER * problem.upper_tol
    return is_low and run.distance <= DISTANCE


def rows(variants: list[Variant], problems: list[str], seeds: int, budget: int, counts: Counts) -> Iterator[str]:
    """The lines of a table, as they are known."""
    of_kind = [[name for name in problems if get_problem(SUITE, name).kind == kind] for kind in KINDS]
    kinds = [kind for kind, names in zip(KINDS, of_kind, strict=True) if names]
    yield f"{'':>34} " + " ".join(f"{kind:>11}" for kind in kinds) + "      all      interval   diff.   won  lost"
    first: dict[tuple[str, int], bool] = {}
    for variant in (v for v in variants if v.least_budget <= budget):
        results = [run(variant, name, seed, budget) for seed in range(seeds) for name in problems]
        success = {(r.problem, r.seed): counts(r) for r in results}
        first = first or success
        rates = [np.mean([v for (name, _), v in success.items() if name in names]) for names in of_kind if names]
        n, rate = len(success), float(np.mean(list(success.values())))
        low, high = wilson(sum(success.values()), n)
        won, lost = (sum(a[key] > b[key] for key in success) for a, b in ((success, first), (first, success)))
        cells = " ".join(f"{rate:11.2f}" for rate in rates) + f" {rate:8.2f}  ({low:.2f}, {high:.2f})"
        change = rate - np.mean(list(first.values()))
        yield f"{variant.name:>34} {cells} {change:+7.2f} {won:5d} {lost:5d}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, default=2_000)
    parser.add_argument("--swarm-seeds", type=int, default=10, help="0: no second table")
    parser.add_argument("--swarm-budget", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows beside the first one, all by default")
    parser.add_argument("--quick", action="store_true", help="a few problems and evaluations, to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.budget, options.swarm_seeds, options.swarm_budget = 1, 500, 1, 1_000
    problems = [n for n in problem_names(SUITE) if not options.quick or n in QUICK]
    few = [n for n in problems if get_problem(SUITE, n).d <= FEW and get_problem(SUITE, n).kind in KINDS[:2]]
    swarms = [Variant(name, partial(ours.swarm, **settings)) for name, settings in SWARM]
    with threadpool_limits(1):
        for title, variants, names, seeds, budget, counts in (
            ("with local searches", LOCAL, problems, options.seeds, options.budget, lambda run: run.success),
            ("the swarm alone", swarms, few, options.swarm_seeds, options.swarm_budget, is_close),
        ):
            if not seeds:
                continue
            print(f"\n{title}: {budget:,} evaluations, {len(names)} problems, {seeds} seeds")
            chosen = [v for v in variants if not options.only or v is variants[0] or v.name in options.only]
            for line in rows(chosen, names, seeds, budget, counts):
                print(line, flush=True)


if __name__ == "__main__":
    main()
