import functools
import logging
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext

import joblib
import numpy as np
import psutil
import pytest
from worker_cases import (
    dies_at_five,
    divides_by_zero,
    hangs_dies_or_raises,
    is_running,
    kills_its_worker,
    numbers_in,
    outcomes,
    points,
    power,
    process_id,
    records,
    sleeps,
    slow_process_id,
    spoils_its_argument,
    total,
    values,
    wait_until,
)

from sklearn_scb2o import minimize
from sklearn_scb2o.optimize import executors
from sklearn_scb2o.optimize.calls import Call
from sklearn_scb2o.optimize.executors import ExecutorPool
from sklearn_scb2o.optimize.workers import SerialPool, make_pool

slow = pytest.mark.slow
SPAWN = multiprocessing.get_context("spawn")
THREADS = ["threads", "threads, asynchronous", "thread executor"]
LOKY = ["loky", pytest.param("loky, asynchronous", marks=slow)]
OTHER_PROCESSES = [
    pytest.param(name, marks=slow) for name in ("process executor", "map of processes", "joblib multiprocessing")
]
EVERY_POOL = ["serial", "map", *THREADS, *LOKY, *OTHER_PROCESSES]


@pytest.fixture
def said(monkeypatch):
    """What the package has logged."""
    texts = []
    monkeypatch.setattr(logging.getLogger("sklearn_scb2o"), "handle", lambda record: texts.append(record.getMessage()))
    return texts


@contextmanager
def opened(name):
    """A pool of two workers."""
    with ExitStack() as stack:
        workers, backend = 2, None
        if name in ("serial", "map"):
            workers = 1 if name == "serial" else map
        elif name in ("threads", "threads, asynchronous"):
            backend = "threading"
        elif name == "joblib multiprocessing":
            backend = "multiprocessing"
        elif name == "thread executor":
            workers = stack.enter_context(ThreadPoolExecutor(2))
        elif name == "process executor":
            workers = stack.enter_context(ProcessPoolExecutor(2, SPAWN))
        elif name == "map of processes":
            workers = functools.partial(stack.enter_context(SPAWN.Pool(2)).map, chunksize=1)
        with joblib.parallel_config(backend) if backend else nullcontext():
            pool = make_pool(workers, asynchronous="asynchronous" in name)
        yield stack.enter_context(pool)


@pytest.fixture(scope="module", autouse=True)
def loky_workers_have_imported():
    """The first workers of joblib's own pool, which later tests use again."""
    with opened("loky") as pool:
        values(pool, Call(total), points(4))


@pytest.fixture(scope="module", params=EVERY_POOL)
def pool(request):
    with opened(request.param) as pool:
        yield pool


# every pool


def test_every_evaluation_is_made_and_comes_back_with_its_key(pool):
    assert values(pool, Call(total), points(20)) == [3.0 * i for i in range(20)]


def test_arguments_are_passed_and_functions_of_a_closure_work(pool):
    factor = 2
    assert values(pool, Call(power, (2,)), points(3)) == [0.0, 9.0, 36.0]
    assert values(pool, Call(lambda x: factor * float(x[0])), points(3)) == [0.0, 2.0, 4.0]


def test_two_functions_share_a_pool(pool):
    lower, upper = Call(total), Call(power, (2,))
    for i, x in enumerate(points(4)):
        pool.submit((i, "L"), lower, x)
        pool.submit((i, "G"), upper, x)
    found = {key: outcome.value for key, outcome in (pool.next() for _ in range(8))}
    assert found == {(i, name): (3.0 * i) ** (1 + (name == "G")) for i in range(4) for name in "LG"}


def test_what_is_written_into_the_argument_stays_there(pool):
    x = points(4)
    for row in x:
        row.flags.writeable = False
    assert values(pool, Call(spoils_its_argument), x) == [0.0, 3.0, 6.0, 9.0]
    assert [row.tolist() for row in x] == [[i] * 3 for i in range(4)]


def test_rows_of_more_than_a_megabyte_can_be_written_to(pool):
    x = points(3, d=200_000)
    assert values(pool, Call(spoils_its_argument), x) == [0.0, 2e5, 4e5]


def test_an_exception_is_the_outcome_of_that_evaluation_alone(pool):
    def simulator(x):
        return divides_by_zero(x) if x[0] == 1 else float(x[0])

    found = outcomes(pool, Call(simulator), points(3))
    assert [o.failure for o in found] == [None, "exception", None]
    assert type(found[1].error) is ZeroDivisionError
    assert "in divides_by_zero" in found[1].message


def test_hanging_dying_and_raising_are_told_apart_and_harm_no_other(pool):
    found = outcomes(pool, Call(hangs_dies_or_raises, timeout=0.3), points(10))
    failures = {i: o.failure for i, o in enumerate(found) if o.failure}
    assert failures == {3: "timeout", 5: "killed", 7: "exception"}
    assert [o.value for o in found if not o.failure] == [3.0 * i for i in (0, 1, 2, 4, 6, 8, 9)]


def test_evaluations_can_be_submitted_while_others_are_unfinished(pool):
    call, x = Call(total), points(30)
    for i in range(10):
        pool.submit((i, "L"), call, x[i])
    found = []
    for i in range(10, 30):
        found.append(pool.next())
        pool.submit((i, "L"), call, x[i])
    found += [pool.next() for _ in range(10)]
    assert {key: outcome.value for key, outcome in found} == {(i, "L"): 3.0 * i for i in range(30)}


def test_waiting_for_nothing_is_an_error(pool):
    with pytest.raises(RuntimeError, match="submit one first"):
        pool.next()


# which pool


@pytest.mark.parametrize("name", EVERY_POOL)
def test_closing_drops_what_is_unfinished_and_may_be_repeated(name):
    with opened(name) as pool:
        for i, x in enumerate(points(20)):
            pool.submit((i, "L"), Call(slow_process_id), x)
        pool.next()
        pool.close()
        pool.close()


@pytest.mark.parametrize("workers", [None, 1, np.int64(1)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_one_worker_is_the_caller(workers, asynchronous):
    with make_pool(workers, asynchronous=asynchronous) as pool:
        assert values(pool, Call(process_id), points(2)) == [os.getpid()] * 2


@pytest.mark.parametrize("workers", [0, False, True, 1.5, "2", [1], object()])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_other_workers_are_refused(workers, asynchronous):
    with pytest.raises(ValueError, match=r"workers=.* must be an int other than 0"):
        make_pool(workers, asynchronous=asynchronous)


def test_what_is_like_map_is_refused_for_asynchronous_evaluation():
    with pytest.raises(ValueError, match=r"workers=<class 'map'> must be an int .* where asynchronous=True"):
        make_pool(map, asynchronous=True)


def test_a_backend_that_takes_only_batches_is_refused_for_asynchronous_evaluation():
    with (
        joblib.parallel_config("multiprocessing"),
        pytest.raises(ValueError, match=r"MultiprocessingBackend cannot take one .* pass workers=executor"),
    ):
        make_pool(2, asynchronous=True)


def test_minus_one_is_a_worker_per_core():
    with joblib.parallel_config("threading"), make_pool(-1, asynchronous=True) as pool:
        assert pool.capacity == joblib.cpu_count()


@pytest.mark.parametrize(("name", "capacity"), [("serial", 1), ("map", 1), *((name, 2) for name in (*THREADS, "loky"))])
def test_capacity_is_what_can_be_worked_on_at_once(name, capacity):
    with opened(name) as pool:
        assert pool.capacity == capacity


def test_capacity_of_an_executor_that_does_not_tell_is_the_number_of_cores():
    class Silent:
        def submit(self, *args):
            raise AssertionError

    class Mpi(Silent):
        num_workers = 7

    assert ExecutorPool(Silent()).capacity == os.cpu_count()
    assert ExecutorPool(Mpi()).capacity == 7


def test_asynchronous_run_follows_the_number_of_workers(monkeypatch):
    monkeypatch.setattr(executors, "COUNT_EVERY", 0.0)
    at_work = []

    class Growing(ThreadPoolExecutor):
        num_workers = 1

        def submit(self, *args):
            future = super().submit(*args)
            at_work.append(future)
            return future

    def grow(intermediate_result):
        executor.num_workers = 3

    largest = {1: 0, 3: 0}  # number of evaluations at work, by number of workers
    deadline = time.monotonic() + 30.0

    def lower(x):
        n_workers = executor.num_workers
        while True:  # until there were as many as there can be
            largest[n_workers] = max(largest[n_workers], sum(not f.done() for f in at_work))
            if largest[n_workers] >= n_workers or time.monotonic() > deadline:
                break
            time.sleep(0.001)
        time.sleep(0.001)  # for one too many to be seen
        return float(x @ x), 0.0

    with Growing(8) as executor:
        minimize(
            lower, bounds=[(-1, 1)] * 2, n_particles=10, max_iter=4, workers=executor, asynchronous=True, callback=grow
        )
    assert largest == {1: 1, 3: 3}


def test_serial_evaluation_waits_for_next_and_keeps_the_order():
    seen = []
    with SerialPool() as pool:
        for i, x in enumerate(points(3)):
            pool.submit((i, "L"), Call(lambda x: seen.append(x[0])), x)
        assert seen == []
        assert [pool.next()[0][0] for _ in range(3)] == [0, 1, 2]
        assert seen == [0, 1, 2]


def test_a_keyboard_interrupt_in_serial_evaluation_is_raised_and_loses_nothing():
    interrupts = [KeyboardInterrupt]

    def simulator(x):
        if interrupts:
            raise interrupts.pop()
        return 1.0

    with SerialPool() as pool:
        pool.submit((0, "L"), Call(simulator), np.zeros(2))
        with pytest.raises(KeyboardInterrupt):
            pool.next()
        assert pool.next()[1].value == 1.0


@pytest.mark.parametrize("broken", [lambda f, x: [f(x[0])], lambda f, x: [f(x[0]), 2.0]], ids=["few", "other"])
def test_a_map_that_does_not_map_is_an_error(broken):
    with make_pool(broken, asynchronous=False) as pool:
        call = Call(total)
        for i, x in enumerate(points(2)):
            pool.submit((i, "L"), call, x)
        assert pool.next()[1].value == 0.0
        with pytest.raises(ValueError, match=r"must return, as map does, .* at point 2 of 2 it had (None|2\.0)"):
            pool.next()


def test_a_lazy_map_gives_each_result_when_it_is_there_and_an_interrupt_loses_none():
    seen, interrupts = [], {1: KeyboardInterrupt}

    def simulator(x):
        seen.append(x[0])
        if x[0] in interrupts:
            raise interrupts.pop(x[0])
        return float(x[0])

    with make_pool(map, asynchronous=False) as pool:
        call = Call(simulator)
        for i, x in enumerate(points(3)):
            pool.submit((i, "L"), call, x)
        assert pool.next()[1].value == 0.0
        assert seen == [0]
        with pytest.raises(KeyboardInterrupt):
            pool.next()
        assert [pool.next()[1].value for _ in range(2)] == [1.0, 2.0]
    assert seen == [0, 1, 1, 2]


# joblib's processes


@pytest.mark.parametrize("name", LOKY)
def test_the_same_processes_serve_all_rounds(name):
    with opened(name) as pool:
        found = {pid for _ in range(4) for pid in values(pool, Call(slow_process_id), points(10))}
    assert len(found) == 2
    assert os.getpid() not in found


@pytest.mark.parametrize("name", LOKY)
def test_large_arrays_of_the_function_are_at_hand_in_the_workers(name):
    data = np.ones(1_000_000)

    def simulator(x):
        data[0] += 1
        return float(data[1]), data.flags.writeable

    with opened(name) as pool:
        assert values(pool, Call(simulator), points(4)) == [(1.0, True)] * 4
    assert data[0] == 1


@pytest.mark.parametrize("name", LOKY)
def test_a_function_that_cannot_be_sent_is_refused_when_it_is_submitted(name):
    lock = threading.Lock()
    call = Call(lambda x: lock.locked())
    with opened(name) as pool:
        with pytest.raises(ValueError, match=r"cannot be sent to another process: .*lock.*threading"):
            pool.submit((0, "L"), call, np.zeros(2))
        assert values(pool, Call(total), points(2)) == [0.0, 3.0]
    with opened("threads") as pool:
        assert values(pool, call, points(2)) == [False, False]


@pytest.mark.parametrize("name", ["threads", "threads, asynchronous", *LOKY])
def test_parallel_functions_neither_block_nor_start_further_processes(name):
    def simulator(x):
        inner = joblib.Parallel(n_jobs=2)(joblib.delayed(process_id)(x) for _ in range(4))
        return set(inner) == {os.getpid()}

    with opened(name) as pool:
        assert values(pool, Call(simulator), points(6)) == [True] * 6


@pytest.mark.parametrize("name", ["threads", "threads, asynchronous", *LOKY])
def test_numerical_libraries_of_processes_that_work_at_once_share_the_cores(name, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    call = Call(lambda x: (os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]), timeout=60)
    with opened(name) as pool:
        assert values(pool, call, points(1)) == [(str(max(1, joblib.cpu_count() // 2)), "7")]


@slow
@pytest.mark.parametrize("name", LOKY)
def test_the_evaluation_that_kills_its_process_is_found_and_the_others_have_their_values(name, said):
    with opened(name) as pool:
        found = outcomes(pool, Call(dies_at_five), points(12))
        assert [o.value for o in found] == [None if i == 5 else 3.0 * i for i in range(12)]
        assert found[5].failure == "killed"
        assert "was killed by SIGKILL" in found[5].message
        assert sum("a worker process has died" in text for text in said) == 1
        # the next ones do not break the pool again
        assert outcomes(pool, Call(dies_at_five), points(12))[5].failure == "killed"
        assert sum("a worker process has died" in text for text in said) == 1


@slow
@pytest.mark.parametrize("name", LOKY)
def test_a_process_that_is_killed_from_outside_costs_no_evaluation(name):
    with opened(name) as pool:
        victim = values(pool, Call(process_id), points(1))[0]
        killer = threading.Timer(0.1, os.kill, (victim, signal.SIGKILL))
        killer.start()
        pids = set(values(pool, Call(slow_process_id), points(40)))
        assert victim not in pids or len(pids) > 2


@slow
@pytest.mark.parametrize("name", LOKY)
def test_processes_that_die_again_and_again_are_an_error(name):
    with opened(name) as pool:
        pool.submit((0, "L"), Call(kills_its_worker, (os.getpid(),)), np.zeros(2))
        with pytest.raises(RuntimeError, match="worker processes have died 4 times in a row"):
            pool.next()


@pytest.mark.parametrize("name", ["threads", "threads, asynchronous", *LOKY])
def test_an_interrupt_ends_the_evaluations(name, tmp_path):
    path = str(tmp_path / "pids")
    with opened(name) as pool:
        for i in range(12):
            pool.submit((i, "L"), Call(records, (path,), timeout=math.inf), np.array([60.0]))
        timer = threading.Timer(0.0, interrupt_when, (lambda: len(numbers_in(path)) == 2,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            pool.next()
        timer.join()
    wait_until(lambda: not any(map(is_running, numbers_in(path))))
    assert len(numbers_in(path)) == 2


def interrupt_when(condition):
    wait_until(condition, 30)
    os.kill(os.getpid(), signal.SIGINT)


# executors of the caller


def test_an_executor_is_not_shut_down():
    with ThreadPoolExecutor(2) as executor:
        with make_pool(executor, asynchronous=True) as pool:
            values(pool, Call(total), points(2))
        assert executor.submit(total, np.ones(2)).result() == 2.0


def test_closing_cancels_what_an_executor_has_not_begun():
    begun, go_on = threading.Event(), threading.Event()

    def simulator(x):
        if x[0] > 0:
            begun.set()
            go_on.wait(10)
        seen.append(x[0])

    seen = []
    with ThreadPoolExecutor(1) as executor:
        with make_pool(executor, asynchronous=True) as pool:
            for i, x in enumerate(points(3)):
                pool.submit((i, "L"), Call(simulator), x)
            assert pool.next()[0] == (0, "L")
            begun.wait(10)
        go_on.set()
    assert seen == [0, 1]


def test_fast_evaluations_are_sent_several_at_a_time_and_slow_ones_are_not():
    class Counting(ThreadPoolExecutor):
        n = 0

        def submit(self, *args, **kwargs):
            self.n += 1
            return super().submit(*args, **kwargs)

    with Counting(2) as executor, make_pool(executor, asynchronous=False) as pool:
        for x, sent in (
            (points(100), range(100, 101)),
            (points(100), range(6, 60)),
            ([np.array([0.2])] * 12, range(5, 13)),
        ):
            executor.n = 0
            values(pool, Call(sleeps), x)
            assert executor.n in sent


def test_a_slow_one_is_returned_without_those_that_were_sent_behind_it():
    slow_one_is_back = threading.Event()

    def simulator(x):
        if x[0] == 100:
            time.sleep(0.6)
        return x[0] >= 100 or slow_one_is_back.wait(10)

    with ThreadPoolExecutor(1) as executor, make_pool(executor, asynchronous=False) as pool:
        values(pool, Call(simulator), [np.array([101.0])] * 100)
        for i in range(5):
            pool.submit((i, "L"), Call(simulator), np.array([0.0 if i else 100.0]))
        assert pool.next()[0] == (0, "L")
        slow_one_is_back.set()
        assert all(pool.next()[1].value for _ in range(4))


@slow
def test_an_executor_that_breaks_is_an_error_that_names_ways_out():
    with (
        ProcessPoolExecutor(1, SPAWN) as executor,
        make_pool(executor, asynchronous=True) as pool,
        pytest.raises(RuntimeError, match=r"is broken, .* workers=<int> .* timeout="),
    ):
        outcomes(pool, Call(dies_at_five), points(6))


@slow
def test_a_function_that_an_executor_cannot_send_is_refused_with_ways_out():
    lock = threading.Lock()
    with ProcessPoolExecutor(1, SPAWN) as executor, make_pool(executor, asynchronous=True) as pool:
        pool.submit((0, "L"), Call(lambda x: lock.locked()), np.zeros(2))
        with pytest.raises(ValueError, match="cannot be sent to another process"):
            pool.next()


# whole programs


def run_script(tmp_path, text, *arguments):
    path = tmp_path / "script.py"
    header = f"import sys\nsys.path[:0] = {[os.path.dirname(__file__), os.getcwd()]!r}\n"
    path.write_text(header + textwrap.dedent(text), encoding="utf-8")
    return subprocess.Popen([sys.executable, str(path), *arguments], stdout=subprocess.PIPE, text=True)


MAIN = """
    from concurrent.futures import ProcessPoolExecutor
    import multiprocessing

    from sklearn_scb2o.optimize.calls import Call
    from sklearn_scb2o.optimize.workers import make_pool
    from worker_cases import outcomes, points, values

    class Failed(Exception):
        pass

    def simulator(x):
        if x[0] == 1:
            raise Failed("text")
        return helper(x)

    def helper(x):
        return 2.0 * x[0]

    if __name__ == "__main__":
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
            for workers, asynchronous, timeout in (
                (1, False, 60), (2, False, None), (2, True, 60), (executor, False, None)
            ):
                with make_pool(workers, asynchronous=asynchronous) as pool:
                    found = outcomes(pool, Call(simulator, timeout=timeout), points(3))
                    assert [o.value for o in found] == [0.0, None, 4.0], found
                    assert type(found[1].error) is Failed, found[1]
        print("passed")
"""


@slow
def test_functions_and_exceptions_of_a_script_work_in_all_pools(tmp_path):
    with run_script(tmp_path, MAIN) as program:
        assert program.communicate(timeout=120)[0] == "passed\n"
    assert program.returncode == 0


ORPHANS = """
    import time
    import numpy as np
    from worker_cases import records
    from sklearn_scb2o.optimize.calls import Call
    from sklearn_scb2o.optimize.workers import make_pool

    path, seconds, asynchronous, timeout = sys.argv[1:]
    pool = make_pool(2, asynchronous=asynchronous == "True")
    for i in range(2):
        pool.submit((i, "L"), Call(records, (path,), timeout=eval(timeout)), np.array([float(seconds)]))
    for i in range(2):
        pool.next()
    time.sleep(60)
"""


@slow
@pytest.mark.parametrize(
    ("asynchronous", "timeout", "seconds"), [(False, None, 0.2), (False, 60, 60), (True, None, 60), (True, 60, 0.2)]
)
def test_no_process_stays_when_the_program_is_killed(tmp_path, asynchronous, timeout, seconds):
    path = str(tmp_path / "pids")
    with run_script(tmp_path, ORPHANS, path, str(seconds), str(asynchronous), str(timeout)) as program:
        wait_until(lambda: len(numbers_in(path)) == 2, 60)
        family = psutil.Process(program.pid).children(recursive=True)
        program.kill()
    assert {process.pid for process in family} >= set(numbers_in(path))
    wait_until(lambda: not any(is_running(process.pid) for process in family), 15)


# dask


@pytest.fixture(scope="module")
def client():
    """Two worker processes; one that dies is started again, and takes what it was evaluating with it."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    # dask gives a worker up that is just being started when this time after its last death has passed
    settings = {"distributed.scheduler.allowed-failures": 0, "distributed.deploy.lost-worker-timeout": "1h"}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def opened_on_dask(how, client):
    if how == "joblib":
        with joblib.parallel_config("dask"), make_pool(2, asynchronous=False) as pool:
            yield pool
    else:
        with make_pool(client if how == "client" else client.get_executor(), asynchronous=True) as pool:
            yield pool


DASK = pytest.mark.parametrize("how", ["joblib", "executor", "client"])


@slow
@DASK
def test_dask_evaluates_in_its_workers(how, client):
    with opened_on_dask(how, client) as pool:
        assert pool.capacity == 2
        assert values(pool, Call(spoils_its_argument), points(10)) == [3.0 * i for i in range(10)]
        assert values(pool, Call(spoils_its_argument), points(2, d=200_000)) == [0.0, 2e5]
        pids = set(values(pool, Call(slow_process_id), points(20)))
    assert len(pids) == 2
    assert os.getpid() not in pids


@slow
@DASK
def test_dask_evaluates_the_same_point_each_time(how, client, tmp_path):
    path = str(tmp_path / "pids")
    with opened_on_dask(how, client) as pool:
        assert values(pool, Call(records, (path,)), [np.zeros(2)] * 6) == [0.0] * 6
    assert len(numbers_in(path)) == 6


@slow
@DASK
def test_dask_tells_hanging_dying_and_raising_apart(how, client):
    with opened_on_dask(how, client) as pool:
        found = outcomes(pool, Call(hangs_dies_or_raises, timeout=0.3), points(10))
    assert {i: o.failure for i, o in enumerate(found) if o.failure} == {3: "timeout", 5: "killed", 7: "exception"}


@slow
@DASK
def test_a_worker_of_dask_that_is_killed_within_a_batch_costs_no_evaluation(how, client):
    with opened_on_dask(how, client) as pool:
        victim = values(pool, Call(process_id), points(1))[0]
        for i, x in enumerate(points(40)):
            pool.submit((i, "L"), Call(slow_process_id), x)
        found = dict(pool.next() for _ in range(10))
        os.kill(victim, signal.SIGKILL)
        found |= dict(pool.next() for _ in range(30))
    assert [found[i, "L"].failure for i in range(40)] == [None] * 40


@slow
@DASK
def test_the_evaluation_that_kills_its_worker_of_dask_is_found(how, client):
    with opened_on_dask(how, client) as pool:
        found = outcomes(pool, Call(dies_at_five), points(12))
        assert [o.value for o in found] == [None if i == 5 else 3.0 * i for i in range(12)]
        assert found[5].failure == "killed"
        assert "was killed by SIGKILL" in found[5].message


@slow
def test_capacity_follows_a_growing_cluster_of_dask():
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
        make_pool(client.get_executor(), asynchronous=True) as pool,
    ):
        assert pool.capacity == 1
        cluster.scale(3)
        wait_until(lambda: pool.capacity == 3, 30)
        cluster.scale(1)
        wait_until(lambda: pool.capacity == 1, 30)


@slow
def test_waiting_for_dask_without_workers_is_told_once_and_ends_when_one_joins(said, monkeypatch):
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "DESERTED", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
        make_pool(client, asynchronous=True) as pool,
    ):
        pool.submit((0, "L"), Call(total), np.ones(3))
        later = threading.Timer(4.5, cluster.scale, [1])
        later.start()
        assert pool.next()[1].value == 3.0
        later.join()
    assert said.count("dask has no workers; waiting for some to join") == 1
