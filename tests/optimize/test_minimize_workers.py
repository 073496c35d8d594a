"""minimize with workers of all kinds: the same answer, failures that are counted, results as they come in."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import joblib
import numpy as np
import pytest
from optimize_cases import BOX, SOLUTION, assert_same_result, lower, upper, values

from sklearn_scb2o import SCB2OWarning, minimize

SMALL = {"n_particles": 12, "max_iter": 6, "random_state": 0}


def joint(x):
    return values(x)


def run(f=joint, g=None, **options):
    return minimize(f, g, BOX, **{**SMALL, **options})


class Some:
    """The circle, with something else at every `every`-th call in this process."""

    def __init__(self, every, what):
        self.every, self.what, self.n = every, what, 0

    def __call__(self, x):
        self.n += 1
        return self.what(x) if self.n % self.every == 0 else values(x)


class Once:
    """The circle, with something else in the first call of all processes."""

    def __init__(self, path, what):
        self.path, self.what = path, what

    def __call__(self, x):
        try:
            self.path.touch(exist_ok=False)
        except FileExistsError:
            return values(x)
        return self.what(x)


def raise_value_error(x):
    raise ValueError("diverged")


def hang(x):
    time.sleep(60.0)


def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


# -- the same answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objectives", [(joint, None), (lower, upper)])
@pytest.mark.parametrize("workers", [2, -1, map])
def test_the_result_does_not_depend_on_the_workers(objectives, workers):
    assert_same_result(run(*objectives, workers=workers), run(*objectives))


def test_the_result_does_not_depend_on_the_backend():
    with joblib.parallel_config("threading"):
        threads = run(workers=2)
    assert_same_result(threads, run())


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, lambda n: ProcessPoolExecutor(n, get_context("forkserver"))])
def test_the_result_does_not_depend_on_the_executor(executor):
    with executor(2) as workers:
        assert_same_result(run(workers=workers), run())
        assert workers.submit(abs, -1).result() == 1  # it is not shut down


def test_vectorized_functions_take_no_workers():
    with pytest.raises(ValueError, match=r"vectorized=True with workers=2"):
        run(vectorized=True, workers=2)


@pytest.mark.parametrize("workers", [0, "many", 1.5, object()])
def test_other_workers_are_an_error(workers):
    with pytest.raises(ValueError, match="workers="):
        run(workers=workers)


def test_upper_values_are_evaluated_where_they_are_needed():
    result = run(lower, upper, workers=2)
    assert result.nfev_upper < result.nfev_lower


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_ends_the_run_and_says_where_it_happened(workers):
    with pytest.raises(ValueError, match="diverged") as raised:
        run(raise_value_error, workers=workers)
    notes = "\n".join(raised.value.__notes__)
    assert "x = [" in notes
    assert "on_error='fail'" in notes
    if workers == 2:
        assert "raise_value_error" in notes  # the traceback of the other process


@pytest.mark.parametrize("options", [{}, {"asynchronous": True}, {"workers": map}])
def test_exceptions_may_count_as_failed_evaluations(options):
    result = run(Some(4, raise_value_error), on_error="fail", **options)
    assert result.failures["exception"] == result.nfev_lower // 4
    assert sum(result.failures.values()) == result.failures["exception"] >= result.n_failed
    assert "diverged" in result.failure_log[0]["message"]
    assert len(result.failure_log[0]["x"]) == 2


@pytest.mark.parametrize("value", [None, (np.nan, 0.0), (np.inf, 0.0), (0.0, np.nan)])
@pytest.mark.parametrize("on_error", ["raise", "fail"])
def test_values_that_say_so_are_failed_evaluations(value, on_error):
    result = run(Some(3, lambda x: value), on_error=on_error)
    assert result.failures["nan"] == result.nfev_lower // 3
    assert result.n_failed == pytest.approx(result.failures["nan"], abs=1)  # the consensus is not the optimizer's


def test_wrong_types_are_invalid_where_failures_do_not_end_the_run():
    result = run(Some(3, lambda x: "text"), on_error="fail")
    assert result.failures["invalid"] == result.nfev_lower // 3
    assert "pair (L, G)" in result.failure_log[-1]["message"]


def test_a_vectorized_call_fails_as_a_whole():
    with pytest.warns(SCB2OWarning, match="all 12 evaluations"):
        result = run(Some(3, raise_value_error), vectorized=True, on_error="fail")
    assert result.failures["exception"] == 2 * 12


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("what", "kind", "timeout"), [(hang, "timeout", 1.0), (die, "killed", np.inf)])
def test_an_evaluation_that_hangs_or_dies_fails_alone(tmp_path, workers, what, kind, timeout):
    result = run(Once(tmp_path / "done", what), on_error="fail", timeout=timeout, workers=workers)
    assert result.failures == {"exception": 0, "invalid": 0, "timeout": 0, "killed": 0, "nan": 0} | {kind: 1}
    assert ("1 s" if kind == "timeout" else "SIGKILL") in result.failure_log[0]["message"]
    assert result.nit == 6


@pytest.mark.parametrize(("what", "error"), [(hang, TimeoutError), (die, RuntimeError)])
def test_a_time_out_or_a_death_ends_the_run_otherwise(what, error):
    with pytest.raises(error, match="lower failed"):
        run(Some(1, what), timeout=0.3)


def test_retries_are_made_before_an_evaluation_fails():
    result = run(Some(2, raise_value_error), retries=1)
    assert sum(result.failures.values()) == 0


def test_all_evaluations_failing_is_an_error_with_a_reason():
    with (
        pytest.warns(SCB2OWarning, match="failed"),
        pytest.raises(RuntimeError, match="10 batches in a row failed") as raised,
    ):
        run(raise_value_error, on_error="fail", max_iter=20)
    assert "diverged" in raised.value.__notes__[0]


@pytest.mark.parametrize("bad", [{"on_error": "ignore"}, {"timeout": 0.0}, {"timeout": "1"}, {"retries": -1}])
def test_wrong_parameters_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        run(**bad)


# -- as results come in ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objectives", [(joint, None), pytest.param((lower, upper), marks=pytest.mark.slow)])
def test_asynchronous_runs_solve_the_problem(objectives):
    result = run(*objectives, asynchronous=True, max_iter=80, n_particles=50)
    np.testing.assert_allclose(result.x, SOLUTION, atol=0.02)
    assert result.nfev_lower <= 80 * 50 + 1


def test_asynchronous_workers_do_not_wait_for_a_slow_one():
    lock, done, slow = threading.Lock(), [], threading.Event()

    def simulate(x):
        with lock:
            done.append(0)
            first = len(done) == 1
        if first:
            slow.wait(30.0)
        elif len(done) > 150:
            slow.set()
        return values(x)

    with ThreadPoolExecutor(2) as workers:
        result = run(simulate, workers=workers, asynchronous=True, n_particles=20, max_iter=10)
    assert slow.is_set()
    assert result.nfev_lower in (201, 202)  # one more was being evaluated


@pytest.mark.parametrize("max_evals", [1, 2, 50, 51])
@pytest.mark.parametrize("objectives", [(joint, None), (lower, upper)])
def test_asynchronous_runs_keep_the_budget(objectives, max_evals):
    with ThreadPoolExecutor(3) as workers:
        result = run(*objectives, workers=workers, asynchronous=True, max_iter=None, max_evals=max_evals)
    assert result.nfev_lower == (0 if max_evals == 1 else max_evals)


def test_asynchronous_loky_workers():
    result = run(workers=2, asynchronous=True)
    assert result.nit == 6
    assert result.nfev_lower in (73, 74)


@pytest.mark.parametrize("options", [{"vectorized": True}, {"track_consensus": True}, {"workers": map}])
def test_what_waits_for_a_batch_is_not_asynchronous(options):
    with pytest.raises(ValueError, match="asynchronous"):
        run(asynchronous=True, **options)


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_values_are_looked_up_on_request(tmp_path, workers):
    def simulate(x):
        with (tmp_path / "calls").open("a") as file:
            file.write("x")
        return values(x)

    first = run(simulate, memory=tmp_path / "memory", workers=workers)
    again = run(simulate, memory=joblib.Memory(tmp_path / "memory", verbose=0), workers=workers)
    assert_same_result(first, again)
    assert len((tmp_path / "calls").read_text()) == first.nfev_lower
