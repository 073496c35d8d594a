"""Threads that share the work on a large array."""

import multiprocessing
import threading

import pytest

from sklearn_scb2o.optimize import threads
from sklearn_scb2o.optimize.threads import MOST, map_in_threads, n_threads


@pytest.fixture(autouse=True)
def _many_threads(monkeypatch):
    monkeypatch.setattr(threads, "_n_cores", lambda: 16)
    monkeypatch.setenv("SCB2O_NUM_THREADS", str(MOST))


@pytest.mark.parametrize(
    ("wanted", "n"),
    [("1", 1), ("3", 3), ("100", MOST), ("0", 1), ("", 1), ("-2", 1), ("all", 1), ("\N{SUPERSCRIPT TWO}", 1)],
)
def test_the_environment_says_how_many_threads(wanted, n, monkeypatch):
    monkeypatch.setenv("SCB2O_NUM_THREADS", wanted)
    assert n_threads() == n


def test_there_is_one_thread_by_default(monkeypatch):
    monkeypatch.delenv("SCB2O_NUM_THREADS")
    assert n_threads() == 1


def test_there_are_no_more_threads_than_cores(monkeypatch):
    monkeypatch.setattr(threads, "_n_cores", lambda: 2)
    assert n_threads() == 2


def test_results_come_in_the_order_of_the_items_from_threads_that_run_at_once():
    barrier = threading.Barrier(MOST, timeout=60)

    def square(x):
        barrier.wait()
        return x * x

    assert map_in_threads(square, range(2 * MOST)) == [x * x for x in range(2 * MOST)]


def test_a_single_item_or_thread_needs_no_pool(monkeypatch):
    here = threading.get_ident()
    assert map_in_threads(lambda _: threading.get_ident(), [0]) == [here]
    monkeypatch.setenv("SCB2O_NUM_THREADS", "1")
    assert map_in_threads(lambda _: threading.get_ident(), [0, 1]) == [here, here]


def test_an_exception_is_that_of_the_function():
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda x: 1 // x, [2, 1, 0])


def _doubled(values):
    return map_in_threads(lambda x: 2 * x, values)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # of later Pythons
def test_a_forked_process_has_threads_of_its_own():
    assert _doubled([1, 2, 3]) == [2, 4, 6]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_doubled, ([1, 2, 3],)).get(timeout=60) == [2, 4, 6]
