"""Solution quality: success rates of this library and of what people would pick instead, at given budgets.

Run: python -m benchmarks.quality [--suite checking] [--seeds 20] [--budgets 2000 10000 50000] [--solvers NAME ...]

Solvers marked "(told)" are told the constraint functions that describe argmin L; the others see L and G alone. A run
succeeds if its answer has sqrt(L - L_min) <= 1e-3, G within 1% of the optimal value, and lies within 5e-2 of a
solution, in units of a sixth of the box. An evaluation is a point, whatever is asked there. Results are kept in a
directory, where a run that was stopped continues; --again runs the named solvers anew. Methods are tuned on the suite
"tuning" only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .problems import KINDS, SUITES, get_problem, problem_names
from .report import data_profiles, hits_table, problems_table, rates_table, unsolved
from .runner import load, missing, run_all
from .solvers import SOLVERS


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=list(SUITES), default="checking")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=[2_000, 10_000, 50_000])
    parser.add_argument("--solvers", nargs="+", choices=list(SOLVERS), default=list(SOLVERS), metavar="NAME")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="all of the suite by default")
    parser.add_argument("--results", type=Path, default=Path("results/quality"), help="directory, made if need be")
    parser.add_argument("--figure", type=Path, help="file of the data profiles")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="run what is there anew")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    names = problem_names(options.suite)
    if unknown := sorted(set(options.problems or ()) - set(names)):
        parser.error(f"--problems {unknown}: the suite {options.suite} has {names}")
    names = [n for n in options.problems or names if get_problem(options.suite, n).kind in options.kinds]
    if not options.report:
        known = [] if options.again else load(options.results)
        tasks = missing(known, options.suite, names, options.solvers, options.seeds, options.budgets)
        run_all(tasks, options.results, options.jobs)
    results = [
        run
        for run in load(options.results)
        if run.suite == options.suite
        and run.problem in names
        and run.solver in options.solvers
        and run.budget in options.budgets
        and run.seed < options.seeds
    ]
    if not results:
        parser.error(f"no results in {options.results}")
    print(rates_table(results, options.suite))
    print(hits_table(results, options.suite))
    print(problems_table(results, options.suite))
    print("\nsolved by none: " + (", ".join(unsolved(results)) or "-"))
    if options.figure:
        data_profiles(results, options.suite, options.figure)


if __name__ == "__main__":
    main()
