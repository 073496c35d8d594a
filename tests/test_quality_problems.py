import contextlib
import dataclasses

import numpy as np
import pytest

from benchmarks.quality.problems import KINDS, SUITES, get_problem, problem_names
from benchmarks.quality.problems.cec2006 import G18_SOLUTION, NAMES, cec2006
from benchmarks.quality.problems.geometry import lowest_on_sphere
from benchmarks.quality.problems.hock_schittkowski import NAMES as HOCK_SCHITTKOWSKI
from benchmarks.quality.problems.hock_schittkowski import hock_schittkowski
from benchmarks.quality.problems.problem import squares
from benchmarks.quality.recorder import BudgetSpent, Recorder
from benchmarks.quality.solvers.local import constrained_descent

ALL = [(suite, name) for suite in SUITES for name in problem_names(suite)]
#: With equalities the report of CEC 2006 uses its tolerance of 1e-4.
TOLERANCE = 1.001e-4
#: Optimal values in the book of Hock and Schittkowski. That of hs47, 0, is not the lowest.
BOOK = {
    "hs39": -1, "hs40": -0.25, "hs42": 13.8578644, "hs56": -3.456, "hs60": 0.03256820025, "hs61": -143.6461422,
    "hs68": -0.920425026, "hs69": -956.71288, "hs71": 17.0140173, "hs77": 0.24150513, "hs79": 0.0787768209,
    "hs99": -0.831079892e9, "hs107": 5055.011803, "hs109": 5362.06928, "hs111": -47.76109026, "hs114": -1768.80696,
    "hs119": 244.899698,
}  # fmt: skip


def solutions(problem):
    return problem.solutions if len(problem.solutions) else G18_SOLUTION[None]


def random_points(problem, n=50):
    return problem.bounds[:, 0] + np.random.default_rng(0).uniform(size=(n, problem.d)) * problem.widths


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_has_eight_problems_or_more_of_each_class(suite):
    kinds = [get_problem(suite, name).kind for name in problem_names(suite)]
    assert len(kinds) == len(SUITES[suite])
    assert all(kinds.count(kind) >= 8 for kind in KINDS)


def test_the_suites_have_no_problem_in_common():
    values = [
        {tuple(float(v[0]) for v in get_problem(suite, name).exact(random_points(get_problem(suite, name), 1))[:2])
         for name in problem_names(suite)}
        for suite in SUITES
    ]  # fmt: skip
    assert not values[0] & values[1]


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_the_solution_satisfies_the_constraints_and_has_the_optimal_value(suite, name):
    problem = get_problem(suite, name)
    x = solutions(problem)
    assert np.all((x >= problem.bounds[:, 0]) & (x <= problem.bounds[:, 1]))
    values = problem.exact(x)
    assert np.abs(values.equalities).max(initial=0.0) <= TOLERANCE
    assert values.inequalities.max(initial=-1.0) <= 1e-9
    assert values.upper == pytest.approx(problem.upper_opt, rel=1e-6, abs=1e-9)
    assert values.lower - problem.lower_min == pytest.approx(0.0, abs=3e-7 if problem.lower is None else 1e-7)
    assert problem.judge(x).success.all()


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_no_random_point_has_a_lower_value_of_the_lower_objective(suite, name):
    problem = get_problem(suite, name)
    assert np.all(problem.exact(random_points(problem, 2000)).lower >= problem.lower_min)


@pytest.mark.parametrize(("suite", "name"), ALL)
def test_what_is_observed_at_the_solution_is_not_a_failure(suite, name):
    problem = get_problem(suite, name)
    values = problem.observed(solutions(problem), np.random.default_rng(0))
    assert all(np.isfinite(v).all() for v in values)


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_of_cec_2006_agrees_with_that_of_pymoo(name):
    g = pytest.importorskip("pymoo.problems.single.g")
    if name == "g11":
        pytest.skip("pymoo has an inequality there")
    problem, peer = cec2006(name), getattr(g, f"G{int(name[1:])}")()
    x = random_points(problem)
    ours, theirs = problem.exact(x), peer.evaluate(x, return_as_dictionary=True)
    assert ours.upper == pytest.approx(theirs["F"][:, 0], rel=1e-9)
    for mine, other in ((ours.equalities, theirs.get("H")), (ours.inequalities, theirs.get("G"))):
        if mine.shape[1] == 0:
            continue
        assert mine.shape == other.shape
        # in any order, up to the scale of each
        mine, other = (v / np.abs(v).mean(axis=0) for v in (mine, other))
        worst = np.abs(mine[:, :, None] - other[:, None, :]).max(axis=0)
        assert worst.min(axis=0).max() < 1e-6
        assert worst.min(axis=1).max() < 1e-6


def test_the_optimal_values_are_those_of_the_book_of_hock_and_schittkowski():
    assert {name: hock_schittkowski(name).upper_opt for name in HOCK_SCHITTKOWSKI if name != "hs47"} == pytest.approx(
        BOOK, rel=1e-6
    )
    assert hock_schittkowski("hs47").upper_opt < 0


def test_hs111_is_g14_in_logarithms():
    logarithmic, problem = hock_schittkowski("hs111"), cec2006("g14")
    x = random_points(logarithmic)
    ours, theirs = logarithmic.exact(x), problem.exact(np.exp(x))
    assert ours.upper == pytest.approx(theirs.upper)
    assert ours.equalities == pytest.approx(theirs.equalities)
    # as far from the solution, in the same units
    step = 1e-2 / np.exp(logarithmic.solutions[0])
    assert logarithmic.judge(logarithmic.solutions + step).distance == pytest.approx(
        problem.judge(np.exp(logarithmic.solutions) + 1e-2).distance, abs=1e-4
    )


@pytest.mark.parametrize("name", [name for name in problem_names("tuning") if name.startswith("equations")])
def test_steps_along_quadratic_equations_lead_upwards(name):
    problem, rng = get_problem("tuning", name), np.random.default_rng(0)
    x_opt = problem.solutions[0]
    x = np.tile(x_opt, (100, 1)) + 0.1 * rng.standard_normal((100, problem.d))
    size = np.abs(problem.exact(x).equalities).mean(axis=0)
    for _ in range(20):
        # Newton steps back to where the equations hold; central differences of a quadratic function are exact
        for point in x:
            steps = 0.5 * np.eye(problem.d)
            slopes = problem.exact(point + steps).equalities - problem.exact(point - steps).equalities
            point -= np.linalg.lstsq(slopes.T, problem.exact(point[None]).equalities[0])[0]
    values = problem.exact(x)
    assert np.abs(values.equalities / size).max() < 1e-9
    assert (values.upper > problem.upper_opt).all()


def test_the_lower_objective_is_the_sum_of_squared_violations():
    problem = cec2006("g05")
    x = random_points(problem)
    values = problem.exact(x)
    assert values.lower == pytest.approx(squares(values.equalities, values.inequalities))
    assert values.lower[0] == pytest.approx(
        sum(h**2 for h in values.equalities[0]) + sum(max(g, 0.0) ** 2 for g in values.inequalities[0])
    )


def test_the_lowest_point_of_the_sphere_is_below_a_grid_of_points():
    weights, center = np.asarray([1.0, 3.0]), np.asarray([0.4, -0.2])
    y = lowest_on_sphere(weights, center)
    t = np.linspace(0, 2 * np.pi, 100_001)
    grid = np.stack([np.cos(t), np.sin(t)], axis=1)
    values = np.sum(weights * (grid - center) ** 2, axis=1)
    assert np.sum(weights * (y - center) ** 2) == pytest.approx(values.min(), abs=1e-8)
    assert y == pytest.approx(grid[np.argmin(values)], abs=1e-4)


@pytest.mark.parametrize(
    ("change", "succeeds"),
    [(np.zeros(2), True), (np.asarray([1e-4, 0.0]), True), (np.asarray([0.1, 0.0]), False)],
)
def test_a_point_close_to_the_solution_is_a_success(change, succeeds):
    problem = get_problem("checking", "circle")
    assert problem.judge(problem.solutions + change).success.tolist() == [succeeds]


def test_values_that_are_not_numbers_are_no_success():
    problem = get_problem("checking", "circle")
    with np.errstate(invalid="ignore"):
        assert not problem.judge(np.full((1, 2), np.nan)).success.any()


def test_a_small_optimal_value_is_judged_by_its_absolute_error():
    assert get_problem("checking", "periodic grid").upper_tol == 1e-2
    assert get_problem("checking", "g09").upper_tol > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "name"), ALL)
def test_descents_from_many_starts_find_no_better_point(suite, name):
    problem = dataclasses.replace(get_problem(suite, name), observe=None)
    recorder, rng = Recorder(problem, 1500, seed=1, told=True), np.random.default_rng(1)
    m = problem.exact(solutions(problem)).equalities.shape[1]
    near = (solutions(problem)[0] - recorder.low) / recorder.widths
    with contextlib.suppress(BudgetSpent):
        while True:
            # half of the starts close to the solution
            start = rng.uniform(size=problem.d)
            if rng.uniform() < 0.5:
                start = np.clip(near + 0.02 * rng.standard_normal(problem.d), 0.0, 1.0)
            constrained_descent(
                recorder, start, lambda v: [v.upper, *v.equalities.T, *(-v.inequalities.T)], m, step=1e-7
            )
    answer = recorder.trace[-1][1][None]
    feasible = np.sqrt(problem.exact(answer).lower - problem.lower_min) <= 5e-4
    assert not (feasible & (problem.exact(answer).upper < problem.upper_opt - problem.upper_tol / 2)).any()
