"""minimize with local searches."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from optimize_cases import BOX, SOLUTION, Counted, lower, same, upper, values
from test_minimize_checkpoint import Fragile

from sklearn_scb2o import SCB2OWarning, minimize
from sklearn_scb2o.optimize import ask_tell, findings
from sklearn_scb2o.problems import circle, sphere, star

OBJECTIVES = {"joint": (values,), "two functions": (lower, upper)}


def some_slow(fast, slow):
    """Cases, of which the last ones are left to the slow tests."""
    return [*fast, *(pytest.param(case, marks=pytest.mark.slow) for case in slow)]


def run(*functions, **options):
    return minimize(
        *(functions or (values,)),
        **{"bounds": BOX, "max_evals": 400, "random_state": 0, "local_search": True, **options},
    )


def assert_same(a, b):
    assert same([a.x, a.consensus.x, a.best.x], [b.x, b.consensus.x, b.best.x])
    assert (a.fun, a.lower_fun, a.nit, a.nfev_lower, a.nfev_upper) == (
        b.fun, b.lower_fun, b.nit, b.nfev_lower, b.nfev_upper,
    )  # fmt: skip


def is_as_good(result, other):
    """Whether L is lower, or G is not higher."""
    return result.lower_fun < other.lower_fun or result.fun <= other.fun


# solutions


@pytest.mark.parametrize("problem", [circle(), pytest.param(star(), marks=pytest.mark.slow)], ids=["circle", "star"])
def test_two_dimensional_problems_are_solved(problem):
    for seed in range(1 if problem.name == "circle" else 3):
        result = run(
            problem.lower, problem.upper, bounds=problem.bounds, max_evals=3000, vectorized=True, random_state=seed
        )
        assert problem.distance(result.x) < (1e-4 if problem.name == "circle" else 1e-2)


@pytest.mark.parametrize("problem", [circle(), star(), sphere(5)], ids=repr)
def test_with_polish_smooth_problems_are_solved_to_a_millionth(problem):
    result = minimize(
        lambda x: (problem.lower(x), problem.upper(x)), bounds=problem.bounds, vectorized=True, max_evals=5000,
        random_state=0, local_search=True, polish=True,
    )  # fmt: skip
    assert problem.distance(result.x) < 1e-6
    assert result.nfev <= 5000


def test_a_smooth_problem_is_solved_in_a_few_hundred_evaluations():
    result = run(max_evals=600, vectorized=True)
    np.testing.assert_allclose(result.x, SOLUTION, atol=1e-3)
    assert result.lower_fun < 1e-6


@pytest.mark.slow
def test_a_problem_in_ten_dimensions_is_solved_from_most_seeds():
    results = (run(bounds=[(-3, 3)] * 10, max_evals=4000, vectorized=True, random_state=seed).x for seed in range(12))
    assert sum(np.allclose(x, np.r_[2, np.ones(9)] / 13**0.5, rtol=0, atol=1e-2) for x in results) >= 8


def test_a_lower_tolerance_is_used_and_kept():
    result = run(lower_tol=0.1, vectorized=True)
    assert result.lower_fun <= 0.1
    assert result.fun < run(vectorized=True).fun


def test_noise_is_no_hindrance():
    rng = np.random.default_rng(0)

    def noisy(x):
        L, G = values(x)
        return L + 1e-3 * rng.normal(size=L.shape), G

    result = run(noisy, vectorized=True, max_evals=500)
    assert values(result.x)[0] < 0.05
    assert result.fun < 3.0


def test_a_constant_lower_objective_leaves_G_to_be_minimised():
    result = run(lambda x: np.full(len(x), 7.0), upper, vectorized=True)
    np.testing.assert_allclose(result.x, [2, 1], atol=1e-4)


# the answer


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", some_slow([{}], [{"n_runs": 2}, {"lower_tol": 0.05}]), ids=str)
def test_the_result_is_not_worse_than_that_of_the_swarm(seed, options):
    limits = {"max_evals": None, "max_iter": 4, "vectorized": True, "random_state": seed}
    swarm = run(n_particles=50, local_search=False, **limits, **options)
    result = run(**limits, **options)
    assert result.nfev > swarm.nfev
    assert is_as_good(result, swarm)


@pytest.mark.parametrize("options", some_slow(
    [{}, {"n_runs": 3}, {"track_consensus": True}, {"polish": True}, {"asynchronous": True}, {"max_evals": 120}],
    [{"restarts": 2, "max_evals": 900, "n_particles": 8, "tol": 0.1}, {"preset": "paper"}, {"selection": "hard"},
     {"dtype": "float32"}, {"batch_size": 10}, {"max_evals": None, "max_iter": 3}],
), ids=str)  # fmt: skip
def test_x_fun_and_lower_fun_belong_together(options):
    result = run(**options)
    np.testing.assert_allclose([result.lower_fun, result.fun], values(result.x), rtol=1e-9, atol=1e-14)
    assert same([result.consensus.x], [result.x])
    assert result.lower_fun < (0.1 if "max_evals" in options else 1e-4)


@pytest.mark.parametrize("max_evals", [103, 180, 300])
def test_the_answer_of_a_search_that_the_budget_ends_counts(max_evals):
    recorded = []

    def record(x):
        recorded.extend(zip(*values(x), strict=True))
        return values(x)

    result = run(record, vectorized=True, max_evals=max_evals)
    L = np.array(recorded)[:, 0]
    tolerance = 1e-9 * L.max()
    assert result.lower_fun <= L.min() + tolerance


def test_seeds_give_the_same_result_and_others_another():
    first, again, other = (run(vectorized=True, random_state=seed) for seed in (1, 1, 2))
    assert_same(first, again)
    assert not same([first.x], [other.x])


@pytest.mark.parametrize("objectives", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_result_does_not_depend_on_who_evaluates(objectives):
    one, vectorized = run(*objectives), run(*objectives, vectorized=True)
    with ThreadPoolExecutor(2) as executor:
        assert_same(run(*objectives, workers=executor), one)
    np.testing.assert_allclose(vectorized.x, one.x, atol=1e-6)  # values of these functions may differ by rounding


def test_other_array_libraries_give_the_same_result():
    # a search that is cut off multiplies what was rounded: from this seed by little
    other, numpy = run(xp="array_api_strict", random_state=5), run(random_state=5)
    one, two = ([r.x, r.consensus.x, r.best.x] for r in (other, numpy))
    np.testing.assert_allclose(one, two, rtol=1e-6)  # their logarithms are rounded in other ways
    assert other.fun == pytest.approx(numpy.fun, rel=1e-12)
    assert other.lower_fun == pytest.approx(numpy.lower_fun, abs=1e-15)
    assert other.nit == numpy.nit


def test_the_result_on_torch_is_a_solution():
    pytest.importorskip("torch")
    result = run(xp="torch", max_evals=600)
    np.testing.assert_allclose(result.x, SOLUTION, atol=1e-2)


# limits


@pytest.mark.parametrize("options", some_slow(
    [{}, {"n_runs": 2}, {"track_consensus": True}, {"asynchronous": True}],
    [{"polish": True}, {"bounds": [(-3, 3)]}, {"restarts": 1, "tol": 0.1, "n_particles": 10}],
), ids=str)  # fmt: skip
@pytest.mark.parametrize("max_evals", [0, 1, 50, 51, 103, 180])
def test_max_evals_is_never_exceeded(max_evals, options):
    counted = [Counted(lower), Counted(upper)]
    result = run(*counted, max_evals=max_evals, **options)
    assert max(f.n for f in counted) <= max_evals
    assert (result.nfev_lower, result.nfev_upper) == (counted[0].n, counted[-1].n)
    assert "max_evals" in result.message or "nothing better" in result.message


def test_local_searches_evaluate_G_wherever_they_evaluate_L():
    options = {"max_evals": None, "max_iter": 4, "vectorized": True}
    swarm = run(lower, upper, n_particles=50, local_search=False, **options)
    result = run(lower, upper, **options)
    assert swarm.nfev_upper < swarm.nfev_lower
    assert result.nfev_lower - swarm.nfev_lower == result.nfev_upper - swarm.nfev_upper > 0


@pytest.mark.parametrize("max_iter", [1, 3])
def test_without_a_budget_there_is_one_round_after_the_iterations(max_iter):
    result = run(max_evals=None, max_iter=max_iter, vectorized=True)
    assert result.nit == max_iter
    assert result.nfev > 50 * max_iter + 1
    assert "nothing better" in result.message


@pytest.mark.parametrize("seconds", [20, 130, 200])
def test_max_time_ends_a_search_in_its_middle(seconds, monkeypatch):
    def simulator(x):  # takes a second
        clock.now += 1.0
        return values(x)

    clock = SimpleNamespace(now=0.0)
    for module in (ask_tell, findings):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    result = run(simulator, max_time=seconds, max_evals=2000)
    assert result.nfev <= seconds + 50  # a batch of a swarm
    assert "max_time" in result.message


def test_it_ends_before_the_budget_where_nothing_better_is_found():
    result = run(lambda x: (values(x)[0], np.zeros(len(x))), vectorized=True, max_evals=20_000)
    assert result.nfev < 19_500
    assert "nothing better" in result.message


# bounds


@pytest.mark.parametrize("bounds", [
    None, [(None, None), (-3, 3)], [(0, None), (None, 3)], [(0.5, 0.5), (-3, 3)], [(-3, 3)], [(0.1, 0.1)] * 2,
    [(0.1, 0.3), (1 / 3, 0.7), (0.1, 0.1)],
], ids=str)  # fmt: skip
def test_every_point_is_inside_the_bounds(bounds):
    counted = Counted(values)
    more = {} if bounds and None not in np.ravel(bounds) else {"x0": [1.0, 2.0]}
    result = run(counted, bounds=bounds, vectorized=True, **more)
    seen = np.array([*counted.seen, result.x])
    low, high = np.transpose([(None, None)] * 2 if bounds is None else bounds)
    low = np.where(low == None, -np.inf, low).astype(float)  # noqa: E711
    high = np.where(high == None, np.inf, high).astype(float)  # noqa: E711
    assert np.all((seen >= low) & (seen <= high))
    np.testing.assert_allclose([result.lower_fun, result.fun], values(result.x), rtol=1e-9, atol=1e-14)


def test_the_solution_is_found_without_bounds():
    np.testing.assert_allclose(run(bounds=None, x0=[2.0, 3.0], max_evals=1200).x, SOLUTION, atol=1e-2)


def test_a_fixed_coordinate_stays_and_the_others_are_searched():
    result = run(bounds=[(0.5, 0.5), (-3, 3)])
    np.testing.assert_allclose(result.x, [0.5, 0.75**0.5], atol=1e-3)
    assert result.x[0] == 0.5


# callbacks, interrupts, failures


def test_a_callback_is_called_after_each_search_with_the_answer_so_far():
    results = []

    def callback(intermediate_result):
        results.append((intermediate_result.nit, intermediate_result.lower_fun, intermediate_result.fun))

    result = run(callback=callback, vectorized=True, max_evals=2000)
    last = [r for r in results if r[0] == result.nit]
    assert len(last) > 2  # one of the swarm
    assert (result.lower_fun, result.fun) != last[0][1:]


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt])
@pytest.mark.parametrize("calls", [1, 2])
def test_stop_in_the_callback_ends_the_local_searches(error, calls):
    def callback(intermediate_result):
        if not np.isnan(intermediate_result.fun):
            seen.append(intermediate_result.x)
            if len(seen) == calls:
                raise error

    seen = []
    result = run(callback=callback, polish=True, max_evals=2000, vectorized=True)
    assert len(seen) == calls
    assert not result.success
    assert error.__name__ in result.message
    np.testing.assert_allclose([result.lower_fun, result.fun], values(result.x), rtol=1e-9, atol=1e-14)


def test_interrupt_in_a_local_search_returns_the_result_so_far():
    def interrupted(x):
        if counted.n > 300:
            raise KeyboardInterrupt
        return values(x)

    counted = Counted(interrupted)
    result = run(counted)
    assert "KeyboardInterrupt" in result.message
    assert result.nfev == 300
    assert result.lower_fun < 1e-6
    np.testing.assert_allclose([result.lower_fun, result.fun], values(result.x), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("failure", [None, np.nan, np.inf, ZeroDivisionError])
def test_failures_are_counted_and_no_answer(failure):
    def simulator(x):
        if x[0] < 0.85:
            return values(x)
        failed.append(x)
        if failure is ZeroDivisionError:
            raise failure
        return None if failure is None else (failure, 1.0)

    failed = []
    result = run(simulator, on_error="fail")
    assert sum(result.failures.values()) == len(failed) > 0
    assert np.isfinite([result.lower_fun, result.fun]).all()
    assert result.x[0] < 0.85


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_upper_objective_that_is_not_finite_somewhere_warns_of_nothing(value):
    result = run(lower, lambda x: np.where(x[:, 0] > 0.7, value, upper(x)), vectorized=True)
    assert np.isfinite(result.lower_fun)


def test_an_objective_that_fails_in_all_local_searches_leaves_the_result_of_the_swarm():
    swarm = run(max_evals=102, n_particles=50, local_search=False)

    def simulator(x):
        return values(x) if counted.n <= 102 else None

    counted = Counted(simulator)
    result = run(counted)
    assert counted.n > 102
    assert is_as_good(result, swarm)
    assert result.lower_fun <= swarm.lower_fun


def test_an_error_in_a_local_search_is_raised():
    with pytest.raises(ZeroDivisionError):
        run(Fragile(values, 200, error=ZeroDivisionError))


def test_everything_failing_is_an_error():
    with pytest.warns(SCB2OWarning, match="fresh"), pytest.raises(RuntimeError, match="max_failed_batches=2"):
        run(lambda x: None, max_failed_batches=2)


def test_huge_values_are_data():
    result = run(lambda x: (1e300 * values(x)[0], 1e300 * values(x)[1]), vectorized=True)
    assert np.linalg.norm(result.x) == pytest.approx(1.0, abs=0.2)  # by the swarm alone


def test_without_a_lower_level_local_searches_are_an_error():
    with pytest.raises(ValueError, match="selection='none'"):
        run(selection="none")


# what is shown


def test_nothing_is_printed_unless_asked(capfd):
    result = run(vectorized=True)
    assert capfd.readouterr() == ("", "")
    run(vectorized=True, disp=True)
    out, err = capfd.readouterr()
    assert result.message in out + err


def test_the_history_is_that_of_the_first_swarm():
    options = {"max_evals": None, "max_iter": 5, "vectorized": True, "track_consensus": True}
    swarm, result = run(n_particles=50, local_search=False, **options), run(**options)
    assert same(list(result.history.values()), list(swarm.history.values()))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"n_runs": 2}, {"restarts": 1, "n_particles": 10, "tol": 0.1}], ids=str)
def test_of_several_runs_the_answer_is_as_good_as_each(options):
    result = run(max_evals=1000, vectorized=True, **options)
    assert all(is_as_good(result, one) for one in result.runs)
    assert 0 <= result.best_run < len(result.runs)


# checkpoints


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.scb2o"


@pytest.mark.parametrize("objectives", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("options", some_slow([{}], [{"n_runs": 2}, {"lower_tol": 0.05, "polish": True}]), ids=str)
@pytest.mark.parametrize("every", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been_and_repeats_nothing(path, objectives, options, every):
    expected = run(*objectives, **options)
    first, *others = objectives
    fragile = Fragile(first, 60, 106, 107, 150, 260)
    results = [run(fragile, *others, checkpoint=path, checkpoint_every=every, **options) for _ in range(6)]
    assert all("interrupted" in result.message for result in results[:5])
    assert_same(results[-1], expected)
    assert len(fragile.seen) == expected.nfev_lower


@pytest.mark.slow
def test_a_run_that_is_killed_in_a_local_search_goes_on_as_if_it_had_not_been(path):
    program = """
        import os, sys
        from sklearn_scb2o import minimize

        def simulator(x):
            global calls
            calls += 1
            if calls == 200:
                os._exit(1)
            return (x @ x - 1.0) ** 2, (x[0] - 2.0) ** 2 + (x[1] - 1.0) ** 2

        calls = 0
        minimize(simulator, bounds=[(-3, 3)] * 2, max_evals=400, random_state=0, local_search=True,
                 checkpoint=sys.argv[1])
    """

    def simulator(x):
        return (x @ x - 1.0) ** 2, (x[0] - 2.0) ** 2 + (x[1] - 1.0) ** 2

    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(path)], check=False)
    assert done.returncode == 1
    expected, counted = run(simulator), Counted(simulator)
    assert_same(run(counted, checkpoint=path), expected)
    assert counted.n == expected.nfev_lower - 199


@pytest.mark.parametrize("objectives", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_run_that_has_ended_is_returned_without_an_evaluation(path, objectives):
    first, *others = objectives
    once, counted = run(*objectives, checkpoint=path), Counted(first)
    again = run(counted, *others, checkpoint=path)
    assert counted.n == 0
    assert (again.lower_fun, again.fun, again.nfev_lower) == (once.lower_fun, once.fun, once.nfev_lower)
    assert same([again.x], [once.x])


@pytest.mark.parametrize("max_evals", [401, 480])
def test_a_run_with_a_larger_budget_goes_on_and_is_not_worse(path, max_evals):
    less, counted = run(checkpoint=path), Counted(values)
    more = run(counted, checkpoint=path, max_evals=max_evals)
    assert less.nfev + counted.n == more.nfev <= max_evals
    assert is_as_good(more, less)


def test_a_callback_that_stops_the_local_searches_is_no_end(path):
    def stop(intermediate_result):
        if not np.isnan(intermediate_result.fun):
            raise StopIteration

    assert "StopIteration" in run(callback=stop, checkpoint=path, max_evals=600).message
    assert_same(run(checkpoint=path, max_evals=600), run(max_evals=600))


def test_where_G_is_a_function_of_its_own_searches_are_by_differences_too():
    problem = circle()
    result = minimize(
        problem.lower, problem.upper, bounds=problem.bounds, vectorized=True, local_search=True, polish=True,
        max_evals=2500, random_state=0,
    )  # fmt: skip
    assert result.nfev_upper < result.nfev_lower  # the swarm did not ask for every G
    assert problem.distance(result.x) < 1e-6
