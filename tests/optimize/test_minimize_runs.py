"""minimize with several runs at once, and with restarts."""

import time

import numpy as np
import pytest
from optimize_cases import BOX, Counted, assert_same_result, lower, same, small, upper, values
from test_minimize_checkpoint import Fragile

from sklearn_scb2o import minimize
from sklearn_scb2o.optimize.parameters import Parameters
from sklearn_scb2o.optimize.runs import best_of
from sklearn_scb2o.particles import SELECTORS

PARAMETERS = Parameters("soft", SELECTORS["logistic"], *["auto"] * 3, None, 1.0, "auto", 1.0, "scaled", None, 0.0,
                        "reflect", 0.0, None, None)  # fmt: skip
# little noise, so that the particles meet soon
QUICK = {"max_iter": 100, "tol": 1e-2, "sigma": 0.5}
CONVERGING = {**QUICK, "vectorized": True}
SEEDS = np.random.SeedSequence(0).spawn(4)


def assert_same_runs(a, b):
    for one, other in zip(a.runs, b.runs, strict=True):
        assert_same_result(one, other)
        assert same(list(one.history.values()), list(other.history.values()))
    assert (a.best_run, a.nfev_lower, a.nfev_upper) == (b.best_run, b.nfev_lower, b.nfev_upper)


@pytest.mark.parametrize(
    "options", [{}, CONVERGING, {**CONVERGING, "stagnation": 3, "tol": 1e-3}, {"track_consensus": True}], ids=str
)
def test_each_run_equals_that_run_alone(options):
    together = small(n_runs=4, **options)
    for run, seed in zip(together.runs, SEEDS, strict=True):
        alone = small(random_state=seed, **options)
        assert_same_result(run, alone)
        assert (run.message, run.success) == (alone.message, alone.success)
        assert same(list(run.history.values()), list(alone.history.values()))


def test_the_best_run_is_returned():
    result = small(n_runs=4, **CONVERGING)
    assert_same_result(result, result.runs[result.best_run])
    assert same([result.x], [small(random_state=SEEDS[result.best_run], **CONVERGING).x])


def test_runs_that_have_converged_are_evaluated_no_more():
    counted = Counted(lower)
    result = small(counted, upper, n_runs=4, **CONVERGING)
    nits = [run.nit for run in result.runs]
    assert len(set(nits)) > 1
    assert counted.n == result.nfev_lower == sum(20 * nit + 1 for nit in nits)


def test_points_of_all_runs_are_one_batch():
    shapes = []

    def vectorized(x):
        shapes.append(x.shape)
        return values(x)

    result = small(vectorized, vectorized=True, n_runs=5)
    assert shapes == [(100, 2)] * 10 + [(5, 2)]
    assert_same_runs(result, small(values, n_runs=5, workers=map))


@pytest.mark.parametrize("options", [{"n_runs": 3}, {"restarts": 3, **QUICK}, {"n_runs": 2, "restarts": 2, **QUICK}])
@pytest.mark.parametrize("more", [{}, {"track_consensus": True}, {"polish": True}], ids=str)
@pytest.mark.parametrize("max_evals", [1, 62, 63, 66, 200, 777, 1500])
def test_max_evals_is_never_exceeded(options, more, max_evals):
    low, up = Counted(lower), Counted(upper)
    result = small(low, up, **{**options, **more, "max_evals": max_evals, "max_iter": None})
    assert max(low.n, up.n) <= max_evals
    assert (result.nfev_lower, result.nfev_upper) == (low.n, up.n)
    if max_evals >= 63 and "restarts" not in options:
        assert "max_evals" in result.message


def test_callback_gets_the_best_run_so_far():
    results, points = [], []

    def callback(intermediate_result):
        results.append(intermediate_result)
        intermediate_result.x[...] = np.nan  # is its own

    final = small(n_runs=4, callback=callback, **CONVERGING)
    assert_same_runs(final, small(n_runs=4, callback=points.append, **CONVERGING))
    assert all(r.x.shape == (2,) for r in results)
    assert all(x.shape == (2,) for x in points)
    assert len(results) == len(points) == max(run.nit for run in final.runs)


def test_stop_in_the_callback_ends_all_runs():
    def callback(intermediate_result):
        if intermediate_result.nit == 4:
            raise StopIteration

    result = small(n_runs=3, restarts=1, callback=callback)
    assert [run.nit for run in result.runs] == [4, 4, 4]
    assert not result.success
    assert "StopIteration" in result.message


def test_failures_of_one_run_leave_the_others_alone():
    def simulator(x):
        if x[0] < 0:
            raise ValueError("negative")
        return values(x)

    together = small(simulator, n_runs=4, on_error="fail")
    for run, seed in zip(together.runs, SEEDS, strict=True):
        assert_same_result(run, small(simulator, random_state=seed, on_error="fail"))
    assert together.failures["exception"] == sum(run.n_failed for run in together.runs)


def test_polish_improves_the_best_run():
    plain, polished = (small(n_runs=3, max_iter=10, polish=polish) for polish in (False, True))
    assert_same_result(plain.runs[plain.best_run], polished.runs[polished.best_run])
    assert polished.lower_fun < 1e-6 * plain.lower_fun


def test_progress_of_several_runs_is_shown(capfd):
    result = small(n_runs=3, max_iter=None, max_evals=630, disp=True)
    assert "10/10" in capfd.readouterr().err
    assert result.nfev == 603


def test_several_asynchronous_runs_are_an_error():
    with pytest.raises(ValueError, match=r"asynchronous=True with n_runs=2: .* Leave one"):
        small(n_runs=2, asynchronous=True)


@pytest.mark.parametrize(
    ("name", "value"), [("restarts", -1), ("restarts", 0.5), ("restart_growth", 0.5), ("restart_growth", "twice")]
)
def test_wrong_restarts_are_an_error(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} must be"):
        small(**{name: value})


# which run is the best


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        ([(1e-12, 2.0, 1e-12, 1.0), (2e-12, 1.0, 2e-12, 1.0)], 1),  # what both miss is nothing
        ([(0.0, 2.0, 0.0, 1.0), (1e-3, 1.0, 1e-3, 1.0)], 0),
        ([(0.0, 2.0, 2e-3, 1.0), (1e-3, 1.0, 1e-3, 1.0)], 1),  # the best run itself selects such values
        ([(1e3 + 1e-9, 1.0, 1e3, 1e6), (1e3, 2.0, 1e3, 1e6)], 0),
        ([(1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)], 0),
        ([(2e-12, 1.0, 2e-12, 1.0), (1e-12, 1.0, 2e-12, 1.0)], 1),
        ([(np.nan, np.nan, np.nan, np.nan), (5.0, np.nan, 6.0, np.nan), (7.0, 1.0, 9.0, 7.0)], 2),
        ([(np.nan, np.nan, np.nan, np.nan), (5.0, np.nan, 5.0, np.nan)], 1),
        ([(np.nan, np.nan, np.nan, np.nan)] * 2, 0),
    ],
)  # fmt: skip
def test_the_best_run_has_the_smallest_upper_value_among_those_of_equal_lower_value(candidates, best):
    assert best_of(candidates, PARAMETERS) == best


def test_runs_within_lower_tol_are_equal():
    result = small(n_runs=4, lower_tol=0.5)
    smallest = min(run.lower_fun for run in result.runs)
    good = [run.fun for run in result.runs if run.lower_fun <= smallest + 0.5]
    assert len(good) > 1
    assert result.fun == min(good)


def test_without_lower_level_the_smallest_upper_value_wins():
    result = small(n_runs=4, selection="none")
    assert result.fun == min(run.fun for run in result.runs)


# restarts


def test_a_restart_begins_where_a_run_ends_with_a_larger_population():
    once = small(**CONVERGING)
    result = small(restarts=2, **CONVERGING)
    assert_same_result(result.runs[0], once)
    assert [len(run.population.x) for run in result.runs] == [20, 40, 80]
    assert all(run.success for run in result.runs)
    starts = [run.history["quantile"][0] for run in result.runs]
    assert len(set(starts)) == 3
    grown = small(restarts=2, restart_growth=1.5, **CONVERGING)
    assert [len(run.population.x) for run in grown.runs] == [20, 30, 45]


def test_restarts_repeat_with_the_seed():
    assert_same_runs(small(restarts=2, **CONVERGING), small(restarts=2, **CONVERGING))
    generators = [small(restarts=1, random_state=np.random.default_rng(3), **CONVERGING) for _ in range(2)]
    assert_same_runs(*generators)


def test_every_run_of_a_round_is_restarted():
    result = small(n_runs=3, restarts=1, **CONVERGING)
    assert [len(run.population.x) for run in result.runs] == [20] * 3 + [40] * 3
    assert len({run.x.tobytes() for run in result.runs}) == 6


def test_a_run_that_ends_by_a_limit_is_not_restarted():
    assert len(small(restarts=3, max_iter=5).runs) == 1
    assert len(small(restarts=3, max_iter=None, max_evals=100).runs) == 1


def test_max_time_is_for_all_restarts():
    def slow(x):
        time.sleep(0.002)
        return values(x)

    result = small(slow, restarts=100, restart_growth=1.0, max_time=0.2, **CONVERGING)
    assert 1 < len(result.runs) < 60


@pytest.mark.parametrize("bounds", [BOX, None])
def test_x0_enters_the_first_run_only(bounds):
    seen = []

    def recorded(x):
        seen.append(x)
        return values(x)

    x0 = [[0.125, 0.25], [0.5, 0.0]]
    result = small(recorded, bounds=bounds, x0=x0, restarts=1, **CONVERGING)
    first, second = (next(x for x in seen if len(x) == n) for n in (20, 40))
    assert same([first[:2]], [np.asarray(x0)])
    assert not (second[:, None] == np.asarray(x0)).all(axis=-1).any()
    assert len(result.runs) == 2


def test_asynchronous_runs_are_restarted():
    result = small(asynchronous=True, restarts=1, **QUICK)
    assert [len(run.population.x) for run in result.runs] == [20, 40]


def test_restarts_find_what_a_run_of_few_particles_misses():
    def rastrigin(x):
        return np.sum(x * x - 3.0 * np.cos(4.0 * np.pi * x) + 3.0, axis=-1)

    options = {"vectorized": True, "bounds": BOX, "n_particles": 4, "selection": "none", "random_state": 0}
    one, several = (
        minimize(lambda x: (np.zeros(len(x)), rastrigin(x)), restarts=restarts, tol=1e-3, sigma=0.7, **options)
        for restarts in (0, 4)
    )
    assert one.fun > 0.1
    assert several.fun < 1e-3


# checkpoints


@pytest.mark.parametrize(
    "options",
    [
        {"n_runs": 3},
        {"restarts": 2},
        {"n_runs": 2, "restarts": 1},
        {"restarts": 1, "asynchronous": True},
        {"restarts": 1, "polish": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("every", [1, 30])
def test_an_interrupted_call_goes_on_as_if_it_had_not_been(tmp_path, options, every):
    options = {**QUICK, **options}
    expected = small(values, **options)
    calls = np.linspace(1, sum(run.nfev for run in expected.runs), 7, dtype=int)[:-1] + np.arange(6)
    fragile = Fragile(values, *calls)
    for _ in range(7):
        result = small(fragile, checkpoint=tmp_path / "run", checkpoint_every=every, **options)
    assert_same_runs(result, expected)
    assert len(fragile.seen) == expected.nfev_lower
    counted = Counted(values)
    assert_same_result(small(counted, checkpoint=tmp_path / "run", **options), expected)
    assert counted.n == 0


def test_more_restarts_go_on_from_a_checkpoint(tmp_path):
    small(values, checkpoint=tmp_path / "run", restarts=1, **CONVERGING)
    counted = Counted(values)
    more = small(counted, checkpoint=tmp_path / "run", restarts=2, **CONVERGING)
    assert_same_runs(more, small(values, restarts=2, **CONVERGING))
    assert counted.n == 80 * more.runs[2].nit + 1


def test_a_checkpoint_of_another_number_of_runs_is_refused(tmp_path):
    small(checkpoint=tmp_path / "run", n_runs=3)
    with pytest.raises(ValueError, match=r"n_runs=2, there 3"):
        small(checkpoint=tmp_path / "run", n_runs=2)
