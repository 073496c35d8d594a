import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.quality.__main__ import main
from benchmarks.quality.problems import get_problem
from benchmarks.quality.recorder import BudgetSpent, Recorder
from benchmarks.quality.report import hits_table, rates_table, unsolved, wilson
from benchmarks.quality.runner import Run, Task, fingerprint, load, missing, run_all, run_task
from benchmarks.quality.solvers import SOLVERS

ON_BOTH = ["two-stage SLSQP", "two-stage DE", "SLSQP (told)", "DE (told)", "scb2o", "scb2o swarm"]


@pytest.fixture
def circle():
    return get_problem("checking", "circle")


def points(*x):
    return np.asarray(x, dtype=float)


def test_the_budget_cuts_off_within_a_batch(circle):
    recorder = Recorder(circle, 5, seed=0)
    recorder(np.full((3, 2), 0.5))
    with pytest.raises(BudgetSpent):
        recorder(np.full((3, 2), 0.5))
    assert recorder.count == 5
    with pytest.raises(BudgetSpent):
        recorder(np.full((1, 2), 0.5))


def test_who_is_not_told_sees_no_constraints(circle):
    assert Recorder(circle, 1, seed=0)(points([0.5, 0.5])).equalities is None
    assert Recorder(circle, 1, seed=0, told=True)(points([0.5, 0.5])).equalities.shape == (1, 1)


def test_the_answer_is_the_lowest_upper_value_among_the_lowest_lower_ones(circle):
    recorder = Recorder(circle, 100, seed=0)
    feasible = points([1.0, 0.0], [-1.0, 0.0], [0.0, 1.0])
    recorder.at(np.concatenate([points([2.0, 2.0]), feasible, points([0.5, 1 / 3])]))
    best = feasible[np.argmin(circle.upper(feasible))]
    assert recorder.trace[0] == (1, pytest.approx(points(2.0, 2.0)))
    assert recorder.trace[-1][1] == pytest.approx(best)


def test_a_lower_value_of_the_lower_objective_displaces_the_answer(circle):
    recorder = Recorder(circle, 100, seed=0)
    recorder.at(circle.solutions * 1.1)
    recorder.at(points([-1.0, 0.0]))  # far worse in G
    assert recorder.trace[-1] == (2, pytest.approx(points(-1.0, 0.0)))


def test_a_point_outside_the_box_is_refused(circle):
    with pytest.raises(ValueError, match="outside the box"):
        Recorder(circle, 10, seed=0).at(points([4.0, 0.0]))


def test_failed_evaluations_are_no_answer():
    problem = get_problem("tuning", "failures 3")
    recorder = Recorder(problem, 1000, seed=0)
    values = recorder(np.random.default_rng(0).uniform(size=(1000, 3)))
    assert 0.3 < np.isnan(values.lower).mean() < 0.5
    assert np.isfinite(problem.observed(recorder.trace[-1][1][None], np.random.default_rng(0)).upper).all()


@pytest.mark.parametrize("name", ON_BOTH)
def test_a_solver_spends_no_more_than_its_budget_and_repeats_itself(name):
    task = Task("checking", "circle", name, 3, (600,))
    (first,), (second,) = run_task(task), run_task(task)
    assert first.evaluations <= 600
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)


@pytest.mark.parametrize(("name", "module"), [
    ("two-stage CMA-ES", "cma"), ("CMA-ES (told)", "cma"), ("ISRES (told)", "pymoo"), ("cbx penalty", "cbx"),
    ("COBYQA (told)", "scipy"),
])  # fmt: skip
def test_a_solver_of_another_package_solves_an_easy_problem_or_spends_its_budget(name, module):
    pytest.importorskip(module)
    (run,) = run_task(Task("checking", "circle", name, 0, (400,)))
    assert run.success or run.evaluations == 400


@pytest.mark.parametrize("name", ["SLSQP (told)", "two-stage SLSQP", "scb2o"])
def test_a_solver_with_local_searches_solves_a_smooth_problem(name):
    (run,) = run_task(Task("tuning", "sphere 3", name, 0, (2000,)))
    assert run.success
    assert run.hit <= 2000


def test_one_run_serves_for_all_budgets_of_a_solver_that_does_not_look_at_them():
    assert SOLVERS["two-stage SLSQP"].anytime
    small, large = run_task(Task("checking", "circle", "two-stage SLSQP", 0, (300, 900)))
    (alone,) = run_task(Task("checking", "circle", "two-stage SLSQP", 0, (300,)))
    assert replace(small, seconds=0.0) == replace(alone, seconds=0.0)
    assert large.evaluations == 900


def test_runs_continue_where_they_stopped(tmp_path):
    wanted = ("checking", ["circle"], ["two-stage SLSQP"], 2, [200])
    assert run_all(missing([], *wanted), tmp_path, n_jobs=1) == 2
    assert list(missing(load(tmp_path), *wanted)) == []
    path = next(tmp_path.glob("*.jsonl"))
    text = path.read_text()
    path.write_text(text[: len(text) - 30])  # the last line was cut off
    assert [task.seed for task in missing(load(tmp_path), *wanted)] == [1]


def test_results_of_another_definition_of_a_problem_do_not_count(tmp_path):
    run_all([Task("checking", "circle", "two-stage SLSQP", 0, (200,))], tmp_path, n_jobs=1)
    path = next(tmp_path.glob("*.jsonl"))
    row = json.loads(path.read_text())
    path.write_text(json.dumps(row | {"fingerprint": "other"}) + "\n")
    assert load(tmp_path) == []


def test_the_fingerprint_changes_with_the_definition(circle):
    assert fingerprint(circle) != fingerprint(replace(circle, upper_opt=1.0))


@pytest.mark.parametrize(("successes", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634)])
def test_the_interval_is_wilsons(successes, n, low, high):
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-4)


def row(solver, problem, success, hit, budget=2000, seed=0):
    return Run("checking", problem, solver, seed, budget, "", success, hit, 0.0, 0.0, 0.0, budget, 0.0)


def test_the_report_counts_successes_by_class():
    results = [row("scb2o", "circle", True, 500), row("scb2o", "star", False, None), row("scb2o", "ovals", True, 70)]
    assert "0.50 [0.09, 0.91]" in rates_table(results, "checking")
    assert "1.00 [0.21, 1.00]" in rates_table(results, "checking")
    assert unsolved(results) == ["star"]


def test_a_median_of_failures_is_infinite():
    results = [row("scb2o", "circle", True, 500), row("scb2o", "star", False, None), row("scb2o", "g09", False, None)]
    assert "inf" in hits_table(results, "checking").splitlines()[-1].split()


def test_the_command_writes_tables_and_a_figure(tmp_path, capsys):
    figure = tmp_path / "profiles.png"
    main([
        "--suite", "checking", "--problems", "circle", "--solvers", "two-stage SLSQP", "scb2o", "--seeds", "1",
        "--budgets", "300", "--results", str(tmp_path / "results"), "--figure", str(figure),
    ])  # fmt: skip
    assert "success rate" in capsys.readouterr().out
    assert figure.stat().st_size > 10_000
