"""minimize with a checkpoint: however a run ends, the next one goes on as if it had not."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from optimize_cases import BOX, Counted, assert_same_result, lower, small, upper, values

from sklearn_scb2o import CheckpointError, SCB2OOptimizer, minimize
from sklearn_scb2o.optimize import journal

OBJECTIVES = {"joint": (values,), "two functions": (lower, upper)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.scb2o"


class Fragile:
    """A function that raises at some of its calls, each time once."""

    def __init__(self, f, *calls, error=KeyboardInterrupt):
        self.f, self.calls, self.error, self.n, self.seen = f, set(calls), error, 0, []

    def __call__(self, x):
        self.n += 1
        if self.n in self.calls:
            raise self.error
        self.seen.append(x.tobytes())
        return self.f(x)


@pytest.mark.parametrize("objectives", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("options", [{}, {"asynchronous": True}, {"track_consensus": True}], ids=str)
@pytest.mark.parametrize("every", [1, 4, 100])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been_and_repeats_nothing(path, objectives, options, every):
    expected = small(*objectives, **options)
    first, *others = objectives
    fragile = Fragile(first, 1, 2, 50, 51, 130)
    results = [small(fragile, *others, checkpoint=path, checkpoint_every=every, **options) for _ in range(6)]
    assert [result.status for result in results] == [results[0].status] * 5 + [expected.status]
    assert "interrupted" in results[4].message
    assert_same_result(results[-1], expected)
    assert (results[-1].nfev_lower, results[-1].nfev_upper) == (expected.nfev_lower, expected.nfev_upper)
    assert len(fragile.seen) == len(set(fragile.seen)) == expected.nfev_lower


@pytest.mark.parametrize("objectives", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_run_that_has_ended_is_returned_without_an_evaluation(path, objectives):
    first, *others = objectives
    once = small(first, *others, checkpoint=path, polish=True)
    counted = Counted(first)
    again = small(counted, *others, checkpoint=path, polish=True)
    assert counted.n == 0
    assert_same_result(again, once)
    assert (again.nfev_lower, again.message) == (once.nfev_lower, once.message)


@pytest.mark.parametrize("limits", [({"max_iter": 6}, {"max_iter": 15}), ({"max_evals": 100}, {"max_evals": 290})])
def test_a_run_with_a_larger_budget_goes_on(path, limits):
    less, more = ({"max_iter": None, **limit} for limit in limits)
    small(checkpoint=path, **less)
    longer = small(checkpoint=path, **more)
    at_once = small(**more)
    assert longer.nit == at_once.nit
    np.testing.assert_array_equal(longer.population.x, at_once.population.x)


def test_a_callback_that_stops_is_no_end(path):
    def stop(intermediate_result):
        if intermediate_result.nit == 3:
            raise StopIteration

    assert small(callback=stop, checkpoint=path).nit == 3
    assert_same_result(small(checkpoint=path), small())


def test_failures_are_counted_over_all_parts_of_a_run(path):
    def simulator(x):
        if x[0] < 0:
            raise ValueError("negative")
        return values(x)

    expected = small(simulator, on_error="fail")
    fragile = Fragile(simulator, 70)
    for _ in range(2):
        result = small(fragile, on_error="fail", checkpoint=path, checkpoint_every=3)
    assert result.failures == expected.failures
    assert result.failures["exception"] > 0
    assert [note["x"] for note in result.failure_log] == [note["x"] for note in expected.failure_log]


def test_an_error_that_has_ended_a_run_is_not_on_record(path):
    fragile = Fragile(values, 33, error=ValueError("no licence"))
    with pytest.raises(ValueError, match="no licence") as raised:
        small(fragile, checkpoint=path)
    assert any("goes on where it ended" in note for note in raised.value.__notes__)
    assert_same_result(small(fragile, checkpoint=path), small(values))
    assert len(fragile.seen) == len(set(fragile.seen))


def test_parameters_of_another_run_are_refused_and_the_file_stays(path):
    small(checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"other parameters: .*n_particles=30, there 20"):
        small(checkpoint=path, n_particles=30)
    with pytest.raises(ValueError, match=r"other parameters: .*bounds"):
        minimize(lower, upper, [(-1, 1)] * 2, n_particles=20, max_iter=10, random_state=0, checkpoint=path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_an_error_and_stays(path):
    small(checkpoint=path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match="truncated"):
        small(checkpoint=path)
    assert path.exists()


def test_a_file_of_an_optimizer_is_gone_on_with(path):
    opt = SCB2OOptimizer(BOX, n_particles=20, max_iter=10, random_state=0)
    for _ in range(4):
        opt.tell(*values(opt.ask()))
    opt.save(path)
    assert small(checkpoint=path).nit == 10


def test_a_missing_folder_is_an_error_before_any_evaluation(tmp_path):
    counted = Counted(values)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        small(counted, checkpoint=tmp_path / "missing" / "run.scb2o")
    assert counted.n == 0


# one run at a time


def test_two_runs_at_once_are_refused_and_the_first_one_goes_on(path):
    def simulator(x):
        if not refused:
            with pytest.raises(CheckpointError, match="in use by a run that has not ended") as raised:
                small(checkpoint=path)
            refused.append(raised.value)
        return values(x)

    refused = []
    assert_same_result(small(simulator, checkpoint=path), small(values))
    assert len(refused) == 1


def test_a_run_of_another_process_is_noticed_until_it_is_killed(path):
    program = """
        import sys, time
        from sklearn_scb2o import minimize

        def simulator(x):
            print("running", flush=True)
            time.sleep(60)

        minimize(simulator, bounds=[(-3, 3)] * 2, n_particles=20, max_iter=10, random_state=0, checkpoint=sys.argv[1])
    """
    command = [sys.executable, "-c", textwrap.dedent(program), os.fspath(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        with pytest.raises(CheckpointError, match="in use"):
            small(checkpoint=path)
        process.kill()
    assert_same_result(small(values, checkpoint=path), small(values))


def test_an_error_frees_the_file(path):
    fragile = Fragile(values, 2, error=ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        small(fragile, checkpoint=path)
    assert small(values, checkpoint=path).nit == 10


# the disk


@pytest.mark.parametrize(("seconds", "least", "most"), [(0.0, 201, 260), (1e9, 1, 60)])
def test_evaluations_are_forced_to_the_disk_now_and_then(path, monkeypatch, seconds, least, most):
    synced = []
    monkeypatch.setattr(journal, "SYNC", seconds)
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(file))
    small(values, checkpoint=path, checkpoint_every=1000)
    assert least <= len(synced) <= most
