"""Runs solvers on problems in parallel; a file of JSON lines per solver keeps the results, so that runs continue."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from .problems import QualityProblem, get_problem
from .recorder import BudgetSpent, Recorder
from .solvers import SOLVERS, Solver


@dataclass(frozen=True)
class Run:
    """One solver on one problem with one seed and budget.

    Parameters
    ----------
    suite, problem, solver, seed, budget : str, str, str, int, int
        What was run.
    fingerprint : str
        Of the problem: results of another definition do not count.
    success : bool
        Whether the last answer solves the problem.
    hit : int or None
        Evaluations after which the answer solved it first.
    violation, upper_error, distance : float
        Of the last answer.
    evaluations : int
        Evaluations that were used.
    seconds : float
        Processor time.
    """

    suite: str
    problem: str
    solver: str
    seed: int
    budget: int
    fingerprint: str
    success: bool
    hit: int | None
    violation: float
    upper_error: float
    distance: float
    evaluations: int
    seconds: float

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        return self.suite, self.problem, self.solver, self.seed, self.budget


@dataclass(frozen=True)
class Task:
    """Budgets that are still to be run for a solver, a problem and a seed."""

    suite: str
    problem: str
    solver: str
    seed: int
    budgets: tuple[int, ...]


def fingerprint(problem: QualityProblem) -> str:
    """Hash of values at some points and of the solution."""
    points = problem.bounds[:, 0] + np.random.default_rng(0).uniform(size=(3, problem.d)) * problem.widths
    values = problem.observed(points, np.random.default_rng(0))
    numbers = [*values, problem.solutions, np.asarray([problem.upper_opt, problem.lower_min, problem.lower_tol])]
    digits = " ".join(f"{v:.6e}" for a in numbers for v in np.ravel(a))
    return hashlib.sha256(digits.encode()).hexdigest()[:12]


def run_solver(problem: QualityProblem, solver: Solver, seed: int, budget: int) -> tuple[Recorder, float]:
    """The record of a run, and its processor time."""
    recorder = Recorder(problem, budget, seed, told=solver.told, own_view=solver.own_view)
    start = time.process_time()
    with contextlib.suppress(BudgetSpent):
        solver.run(recorder, seed)
    return recorder, time.process_time() - start


def judge(recorder: Recorder, budget: int, **fields: object) -> Run:
    """The result at a budget of a record that may be longer."""
    trace = [entry for entry in recorder.trace if entry[0] <= budget]
    middle = recorder.low + 0.5 * recorder.widths
    verdict = recorder.problem.judge(np.asarray([x for _, x in trace] or [middle]))
    hits = np.flatnonzero(verdict.success)
    return Run(
        budget=budget,
        fingerprint=fingerprint(recorder.problem),
        success=bool(verdict.success[-1]),
        hit=trace[hits[0]][0] if hits.size and trace else None,
        violation=float(verdict.violation[-1]),
        upper_error=float(verdict.upper_error[-1]),
        distance=float(verdict.distance[-1]),
        evaluations=min(recorder.count, budget),
        **fields,  # type: ignore[arg-type]
    )


def run_task(task: Task) -> list[Run]:
    """Run a task: once for all budgets where the solver does not look at the budget, else for each."""
    problem, solver = get_problem(task.suite, task.problem), SOLVERS[task.solver]
    fields = {"suite": task.suite, "problem": task.problem, "solver": task.solver, "seed": task.seed}
    results = []
    with threadpool_limits(1):
        if solver.anytime:
            recorder, seconds = run_solver(problem, solver, task.seed, max(task.budgets))
            results = [
                judge(recorder, budget, seconds=seconds * budget / max(task.budgets), **fields)
                for budget in task.budgets
            ]
        else:
            for budget in task.budgets:
                recorder, seconds = run_solver(problem, solver, task.seed, budget)
                results.append(judge(recorder, budget, seconds=seconds, **fields))
    return results


def load(directory: Path) -> list[Run]:
    """All results there that belong to the problems as they are now; the last one of each run."""
    results: dict[tuple[str, str, str, int, int], Run] = {}
    current: dict[tuple[str, str], str] = {}
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                run = Run(**json.loads(line))
            except (json.JSONDecodeError, TypeError):  # a line cut off by the end of a run
                continue
            of = run.suite, run.problem
            if of not in current:
                try:
                    current[of] = fingerprint(get_problem(*of))
                except KeyError:
                    current[of] = ""
            if run.fingerprint == current[of]:
                results[run.key] = run
    return list(results.values())


def missing(
    results: Iterable[Run], suite: str, problems: Iterable[str], solvers: Iterable[str], seeds: int,
    budgets: Iterable[int],
) -> Iterator[Task]:  # fmt: skip
    """What is still to be run, seed by seed."""
    done = {run.key for run in results}
    solvers, problems, budgets = list(solvers), list(problems), list(budgets)
    for seed in range(seeds):
        for problem in problems:
            for solver in solvers:
                left = tuple(b for b in budgets if (suite, problem, solver, seed, b) not in done)
                if left:
                    yield Task(suite, problem, solver, seed, left)


def run_all(tasks: Iterable[Task], directory: Path, n_jobs: int) -> int:
    """Run the tasks, appending the results as they come; their number."""
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    for results in Parallel(n_jobs=n_jobs, return_as="generator_unordered")(delayed(run_task)(t) for t in tasks):
        for run in results:
            name = "".join(c if c.isalnum() else "-" for c in run.solver)
            with (directory / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(run)) + "\n")
            count += 1
    return count
