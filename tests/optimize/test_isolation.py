import math
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import psutil
import pytest
from worker_cases import (
    dies,
    divides_by_zero,
    exits,
    hangs,
    is_running,
    numbers_in,
    process_id,
    raises_strange,
    records,
    spoils_its_argument,
    total,
    wait_until,
)

from sklearn_scb2o.optimize import isolation
from sklearn_scb2o.optimize.calls import Call

POINT = np.arange(4.0)
posix = pytest.mark.skipif(sys.platform == "win32", reason="of POSIX systems")


@pytest.fixture(autouse=True)
def no_child_is_left():
    isolation.end_child()
    yield
    isolation.end_child()
    assert [child for child in psutil.Process().children() if "isolated.py" in " ".join(child.cmdline())] == []


def isolated(function, *args, timeout=math.inf, **options):
    return Call(function, args, timeout=timeout, **options)


def child():
    return isolated(process_id)(POINT).value


def test_evaluates_in_another_process_that_is_kept():
    first = child()
    assert first != os.getpid()
    assert [child() for _ in range(3)] == [first] * 3
    assert isolated(total)(POINT).value == 6.0
    isolation.end_child()
    assert not is_running(first)
    assert child() != first


def test_the_argument_can_be_written_to_there():
    x = POINT.copy()
    x.flags.writeable = False
    assert isolated(spoils_its_argument)(x).value == 6.0
    assert x.tolist() == [0, 1, 2, 3]


def test_lambdas_and_their_large_arrays_are_evaluated():
    data = np.ones(500_000)

    def simulator(x):
        data[0] += x.sum()
        return data[0]

    call = isolated(simulator)
    assert [call(POINT).value for _ in range(2)] == [7.0, 13.0]
    assert data[0] == 1


def test_many_functions_in_turn_are_loaded_again():
    calls = [isolated(lambda x, i=i: i) for i in range(7)]
    assert [call(POINT).value for _ in range(2) for call in calls] == [*range(7), *range(7)]
    assert child()


def test_an_exception_comes_back_with_the_traceback_of_the_function_alone():
    outcome = isolated(divides_by_zero)(POINT)
    assert outcome.failure == "exception"
    assert type(outcome.error) is ZeroDivisionError
    assert outcome.message.count("File") == 1
    assert "in divides_by_zero" in outcome.message


def test_an_exception_of_a_local_class_comes_back():
    class Local(Exception):
        pass

    def simulator(x):
        raise Local("text")

    outcome = isolated(simulator)(POINT)
    assert type(outcome.error) is Local
    assert outcome.error.args == ("text",)


def test_an_exception_that_cannot_be_sent_leaves_its_traceback():
    outcome = isolated(raises_strange)(POINT)
    assert (outcome.failure, outcome.error) == ("exception", None)
    assert "Strange: 1 and 2" in outcome.message


@pytest.mark.parametrize("function", [exits, lambda x: sys.exit(), lambda x: exec("raise KeyboardInterrupt")])
def test_no_exception_ends_the_process(function):
    before = child()
    assert isolated(function)(POINT).failure == "exception"
    assert child() == before


def test_a_value_that_cannot_be_sent_is_a_failed_evaluation():
    outcome = isolated(lambda x: (i for i in range(3)))(POINT)
    assert outcome.failure == "exception"
    assert "returned a generator, which cannot be sent" in outcome.message


def test_one_that_hangs_is_killed_at_the_time_limit():
    before = child()
    start = time.monotonic()
    outcome = isolated(hangs, timeout=0.3)(POINT)
    assert 0.3 <= time.monotonic() - start < 2.0
    assert outcome.failure == "timeout"
    assert "timeout=0.3 seconds" in outcome.message
    assert 0.3 <= outcome.seconds < 1.0
    assert not is_running(before)
    assert isolated(total, timeout=0.3)(POINT).value == 6.0


def test_one_that_computes_without_end_is_killed_at_the_time_limit():
    def spins(x):
        while True:
            pass

    assert isolated(spins, timeout=0.2)(POINT).failure == "timeout"


def test_loading_the_function_is_not_counted():
    class SlowToLoad:
        def __reduce__(self):
            return slow_load, ()

        def __call__(self, x):
            raise AssertionError("not this one")

    def slow_load():
        time.sleep(0.5)
        return sum

    assert isolated(SlowToLoad(), timeout=0.3)(POINT).value == 6.0


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (dies, "was killed by SIGKILL"),
        (lambda x: os._exit(3), "ended with exit code 3"),
        (lambda x: os.abort(), "SIGABRT"),
    ],
    ids=["kill", "exit", "abort"],
)
@posix
def test_one_that_dies_is_reported_with_the_way_it_ended(function, how):
    outcome = isolated(function)(POINT)
    assert outcome.failure == "killed"
    assert how in outcome.message
    assert isolated(total)(POINT).value == 6.0


@posix
def test_one_that_dies_is_noticed_where_a_process_it_started_goes_on():
    def forks_and_dies(x):
        if os.fork() == 0:
            time.sleep(60)
        os._exit(3)

    start = time.monotonic()
    assert isolated(forks_and_dies)(POINT).failure == "killed"
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("ending", [hangs, dies, divides_by_zero])
def test_retries_follow_any_failure(ending, tmp_path):
    def simulator(x):
        records(np.zeros(1), path)
        return ending(x) if len(numbers_in(path)) < 3 else 1.0

    path = str(tmp_path / "attempts")
    assert isolated(simulator, timeout=0.3, retries=4)(POINT).value == 1.0
    assert len(numbers_in(path)) == 3


@posix
def test_programs_that_the_function_has_started_are_killed_with_it(tmp_path):
    def simulator(x):
        program = subprocess.Popen(["sleep", "60"])
        records(np.zeros(1), path + "-own")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{program.pid}\n")
        program.wait()

    path = str(tmp_path / "program")
    assert isolated(simulator, timeout=0.5)(POINT).failure == "timeout"
    (program,) = numbers_in(path)
    wait_until(lambda: not is_running(program))


def test_standard_input_is_empty_and_standard_output_the_users(capfd):
    def simulator(x):
        print("from the simulator")
        return sys.stdin.read()

    assert isolated(simulator, timeout=5)(POINT).value == ""
    assert capfd.readouterr().out == "from the simulator\n"


def test_modules_and_the_working_directory_are_those_of_the_parent(tmp_path, monkeypatch):
    # also one that is named like a module beside the script of the child
    (tmp_path / "values.py").write_text("import os\ndef simulator(x):\n    return os.getcwd()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    import values

    try:
        assert isolated(values.simulator)(POINT).value == str(tmp_path)
    finally:
        del sys.modules["values"]


@posix
def test_ctrl_c_ends_the_evaluation_and_is_raised_in_the_parent():
    before = child()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        isolated(hangs)(POINT)
    timer.join()
    assert not is_running(before)
    assert isolated(total)(POINT).value == 6.0


@posix
def test_an_interrupt_that_reaches_the_child_too_is_ignored_there(capfd):
    def interrupted(x):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return 1.0

    assert isolated(interrupted)(POINT).value == 1.0
    assert capfd.readouterr().err == ""


def test_each_thread_has_a_process_that_ends_with_it():
    found = []
    threads = [threading.Thread(target=lambda: found.append(child())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*found, child()}) == 3
    for pid in found:
        wait_until(lambda pid=pid: not psutil.pid_exists(pid))


def test_an_event_ends_what_a_thread_waits_for():
    event, found = threading.Event(), []

    def evaluate():
        isolation.Worker(stop=event).begin()
        found.append(isolated(hangs)(POINT).failure)

    thread = threading.Thread(target=evaluate)
    thread.start()
    event.set()
    thread.join(5)
    assert found == ["killed"]


@posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # of later Pythons
def test_a_fork_of_the_process_starts_a_child_of_its_own(tmp_path):
    before = child()
    path = str(tmp_path / "pid")

    def forked():
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{child()}\n")
        isolation.end_child()

    process = multiprocessing.get_context("fork").Process(target=forked)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert numbers_in(path)[0] != before
    assert child() == before


@posix
def test_a_process_that_cannot_be_started_is_an_error_not_a_failed_evaluation(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match=r"/bin/false was started for an evaluation .* exit code 1"):
        isolated(total)(POINT)


def script(tmp_path, text):
    """A program in a process of its own."""
    path = tmp_path / "script.py"
    header = f"import sys\nsys.path[:0] = {[os.path.dirname(__file__), os.getcwd()]!r}\n"
    path.write_text(header + textwrap.dedent(text), encoding="utf-8")
    return [sys.executable, str(path)]


EVALUATES = """
    import numpy as np
    from worker_cases import records
    from sklearn_scb2o.optimize.calls import Call

    Call(records, (sys.argv[1],), timeout=60)(np.array([float(sys.argv[2])]))
    if float(sys.argv[2]) == 0:
        sys.stdin.read()
"""


@pytest.mark.slow
def test_nothing_is_left_when_the_program_ends(tmp_path):
    path = str(tmp_path / "pid")
    subprocess.run([*script(tmp_path, EVALUATES), path, "0"], stdin=subprocess.DEVNULL, check=True)
    (pid,) = numbers_in(path)
    assert not is_running(pid)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 60], ids=["idle", "evaluating"])
def test_nothing_is_left_when_the_program_is_killed(tmp_path, seconds):
    path = str(tmp_path / "pid")
    with subprocess.Popen([*script(tmp_path, EVALUATES), path, str(seconds)], stdin=subprocess.PIPE) as program:
        wait_until(lambda: numbers_in(path), 30)
        program.kill()
    (pid,) = numbers_in(path)
    wait_until(lambda: not is_running(pid), 5)
