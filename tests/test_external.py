import json
import math
import os
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_cases import PYTHON, XY, write_problem

from sklearn_scb2o.command_line import ExternalProgram, ProgramError, read_problem
from sklearn_scb2o.command_line.problem import Variable

ONE = [{"name": "x", "low": -3.0, "high": 3.0}]
ANSWER = '{"L": 1, "G": {"total": 2}}'


def program_of(folder, code, *arguments, variables=ONE, **tables):
    """The objective whose program is this Python code."""
    (folder / "code.py").write_text(code)
    tables["program"] = {
        "command": [*PYTHON, str(folder / "code.py"), *(arguments or ["{x}"])],
        "links": None,
        **tables.get("program", {}),
    }
    return ExternalProgram(read_problem(write_problem(folder, variables=variables, **tables)))


def answering(folder, answer, **tables):
    """The objective whose program prints this."""
    return program_of(folder, f"print({answer!r})", **tables)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True


# -- variables ---------------------------------------------------------------------------------------------------


def test_each_integer_has_the_same_part_of_the_coordinate():
    variable = Variable("n", -1, 3, integer=True)
    low, high = variable.bounds
    values = [variable.value(y) for y in np.linspace(low, high, 5001)[:-1]]
    assert {v: values.count(v) for v in set(values)} == dict.fromkeys(range(-1, 4), 1000)
    assert all(type(v) is int for v in values)


def test_the_coordinate_of_a_logarithmic_variable_is_its_logarithm():
    variable = Variable("k", 1e-3, 10.0, log=True)
    assert variable.bounds == (math.log(1e-3), math.log(10.0))
    assert variable.value(math.log(0.5)) == pytest.approx(0.5, rel=1e-15)
    assert variable.value(variable.coordinate(0.3)) == pytest.approx(0.3, rel=1e-15)


def test_an_integer_on_a_logarithmic_scale_covers_its_range():
    variable = Variable("n", 1, 100, log=True, integer=True)
    assert {variable.value(y) for y in np.linspace(*variable.bounds, 20_001)} == set(range(1, 101))


@given(st.floats(1e-300, 1e300), st.floats(0.0, 1e6), st.booleans(), st.floats(0.0, 1.0))
def test_values_lie_within_the_bounds_to_the_last_bit(low, width, log, u):
    variable = Variable("v", low, low * (1 + width), log)
    a, b = variable.bounds
    for y in (a, b, min(b, a + u * (b - a))):
        assert variable.low <= variable.value(y) <= variable.high


def test_an_integer_that_is_fixed_takes_no_width():
    assert Variable("n", 4, 4, integer=True).bounds == (4, 4)


def test_the_start_is_the_first_point(tmp_path):
    variables = [
        {"name": "x", "low": 0.1, "high": 10.0, "log": True, "start": 2.0},
        {"name": "y", "low": 1, "high": 8, "integer": True, "start": 3},
    ]
    problem = read_problem(write_problem(tmp_path, variables=variables))
    assert problem.values(problem.optimizer["x0"]) == {"x": 2.0, "y": 3}


# -- how values reach the program --------------------------------------------------------------------------------


def test_values_are_passed_in_full_precision_and_integers_as_integers(tmp_path):
    variables = [*ONE, {"name": "n", "low": 0, "high": 9, "integer": True}]
    out = tmp_path / "arguments.json"
    code = f"import sys, json; open(r'{out}', 'w').write(json.dumps(sys.argv[1:])); print({ANSWER!r})"
    program = program_of(tmp_path, code, "--x={x}", "{n}", variables=variables)
    program([0.1 + 0.2, 6.9])
    assert json.loads(out.read_text()) == ["--x=0.30000000000000004", "7"]


def test_the_json_file_holds_all_variables(tmp_path):
    code = 'import sys, shutil; shutil.copy(sys.argv[1], r\'{}\'); print(\'{{"L": 0, "G": {{"total": 1}}}}\')'
    out = tmp_path / "copy.json"
    program = program_of(tmp_path, code.format(out), "{parameters}", variables=XY)
    program([0.1 + 0.2, -1e-300])
    assert json.loads(out.read_text()) == {"x": 0.1 + 0.2, "y": -1e-300}


def test_a_command_in_one_string_is_split_and_sees_no_shell(tmp_path):
    code = "import sys, json; print(json.dumps({'L': len(sys.argv), 'G': {'total': sys.argv[1:].index('$HOME;') }}))"
    (tmp_path / "code.py").write_text(code)
    command = f"'{sys.executable}' -I -S '{tmp_path}/code.py' \"two words {{x}}\" $HOME; '|' {{x}}"
    problem = read_problem(write_problem(tmp_path, variables=ONE, program={"command": command}))
    assert ExternalProgram(problem)([0.5]) == (5.0, 1.0)


def test_doubled_braces_are_braces(tmp_path):
    code = "import sys; print(sys.argv[1])"
    program = program_of(tmp_path, code, '{{"L": {x}, "G": {{"total": 2}}}}')
    assert program([0.25]) == (0.25, 2.0)


def test_the_directory_is_fresh_and_removed(tmp_path):
    log = tmp_path / "log"
    code = f"""
import os, sys
log = open(r"{log}", "a")
print(os.getcwd() == os.path.realpath(sys.argv[2]), sorted(os.listdir()), file=log)
print(os.getcwd(), file=log)
open("left.txt", "w").close()
print({ANSWER!r})
"""
    program = program_of(tmp_path, code, "{x}", "{directory}")
    program([0.0])
    program([0.0])
    lines = log.read_text().splitlines()
    assert lines[0] == lines[2] == "True ['parameters.json', 'stderr.txt', 'stdout.txt']"
    assert lines[1] != lines[3]
    assert not Path(lines[1]).exists()


@pytest.mark.parametrize(("keep", "kept"), [("none", 0), ("failed", 1), ("all", 2)])
def test_directories_are_kept_as_asked(tmp_path, keep, kept):
    code = 'import sys; sys.exit(1) if sys.argv[1] > \'1\' else print(\'{"L": 0, "G": {"total": 1}}\')'
    program = program_of(tmp_path, code, program={"keep": keep})
    program([0.5])
    with pytest.raises(ProgramError) as error:
        program([1.5])
    directories = list((tmp_path / "problem.evaluations").glob("*"))
    assert len(directories) == kept
    failed = [d for d in directories if json.loads((d / "parameters.json").read_text()) == {"x": 1.5}]
    assert [f"its directory: {d}" for d in failed] == getattr(error.value, "__notes__", [])


def test_a_directory_whose_answer_says_failed_is_kept_too(tmp_path):
    program = answering(tmp_path, '{"L": null, "G": {"total": 1}}', program={"keep": "failed"})
    program([0.5])
    assert len(list((tmp_path / "problem.evaluations").glob("*"))) == 1


def test_files_are_copied_and_links_point_to_their_origin(tmp_path):
    (tmp_path / "mesh").mkdir()
    (tmp_path / "mesh" / "nodes").write_text("12")
    (tmp_path / "big").write_text("34")
    code = """
import os, json
open("mesh/nodes", "a").write("5")
nodes, big = int(open("mesh/nodes").read()), int(open("big").read())
print(json.dumps({"L": nodes, "G": {"total": big + os.path.islink("big")}}))
"""
    program = program_of(tmp_path, code, program={"files": ["mesh"], "links": ["big"]})
    assert program([0.0]) == program([0.0]) == (125.0, 35.0)


def test_environment_is_added_to_that_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("SCB2O_FROM_OUTSIDE", "1")
    code = """
import os, json
print(json.dumps({"L": int(os.environ["SCB2O_FROM_OUTSIDE"]), "G": {"total": int(os.environ["MORE"])}}))
"""
    program = program_of(tmp_path, code, program={"environment": {"MORE": "2"}})
    assert program([0.0]) == (1.0, 2.0)


def test_a_program_beside_the_file_is_found_from_anywhere(tmp_path, monkeypatch):
    program = tmp_path / "model"
    program.write_text('#!/bin/sh\necho \'{"L": 1, "G": {"total": \'$1\'}}\'\n')
    program.chmod(0o755)
    path = write_problem(tmp_path, variables=ONE, program={"command": ["./model", "{x}"]})
    monkeypatch.chdir("/")
    assert ExternalProgram(read_problem(path))([2.5]) == (1.0, 2.5)


# -- how its answer is read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        '{"L": 1.5, "G": {"total": 2}}',
        'log\n{"L": 9}\n{"L": 1.5, "G": {"total": 2}}\n',
        '{"L": 1.5, "G": {"total": 2}}\nbye {}\n\n',
        '{\n"L": 1.5,\n"G": {"total": 2}\n}',
    ],
)
def test_the_answer_is_the_whole_output_or_its_last_json_object(tmp_path, answer):
    assert answering(tmp_path, answer)([0.0]) == (1.5, 2.0)


def test_the_answer_may_be_in_a_file(tmp_path):
    code = """
import os
os.mkdir("out")
open("out/result.json", "w").write('{"L": 1.5, "G": {"total": 2}}')
print('{"L": 0, "G": {"total": 0}}')
"""
    assert program_of(tmp_path, code, output={"file": "out/result.json"})([0.0]) == (1.5, 2.0)


def test_null_says_that_the_evaluation_failed(tmp_path):
    low, up = answering(tmp_path, '{"L": null, "G": {"total": 2}}')([0.0])
    assert math.isnan(low)
    assert up == 2.0


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import sys; print('a' * 5000 + 'why', file=sys.stderr); sys.exit(3)", ["exit status 3", "...aaa", "aawhy"]),
        ("import os; os.kill(os.getpid(), 11)", ["killed by SIGSEGV", "standard error is empty"]),
        ("import sys; print('oops', file=sys.stderr)", ["no JSON object in standard output", "is empty", "oops"]),
        ("print('L = 3')", ["no JSON object in standard output", "L = 3"]),
        ("print('[1, 2]')", ["no JSON object"]),
        ('print(\'{"G": {"total": 1}}\')', ["no 'L' of lower = \"L\"", "there is G"]),
        ('print(\'{"L": 1, "G": {}}\')', ["no 'total' of upper = \"G.total\"", "there is nothing"]),
        ('print(\'{"L": 1, "G": 7}\')', ["no 'total'", "there is 7"]),
        ('print(\'{"L": "1", "G": {"total": 1}}\')', ["'1' at lower", "no number"]),
        ('print(\'{"L": true, "G": {"total": 1}}\')', ["True at lower", "no number"]),
    ],
)
def test_what_was_wrong_is_said(tmp_path, code, parts):
    program = program_of(tmp_path, code)
    with pytest.raises(ProgramError) as error:
        program([0.5])
    for part in parts:
        assert part in str(error.value)
    assert len(str(error.value)) < 1200
    assert program.last_failure == f"x = 0.5: {error.value}"


def test_a_file_that_was_not_written_is_an_error(tmp_path):
    with pytest.raises(ProgramError, match=r"no result\.json: No such file"):
        program_of(tmp_path, "", output={"file": "result.json"})([0.0])


# -- time limit and stop -----------------------------------------------------------------------------------------

#: Starts a process of its own that sleeps, notes the ids of both, and sleeps.
SLEEPER = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "60"])
open(r"{pids}.new", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.rename(r"{pids}.new", r"{pids}")
time.sleep(60)
"""


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.01)


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
def test_a_program_out_of_time_is_killed_with_all_that_it_has_started(tmp_path):
    program = program_of(tmp_path, SLEEPER.format(pids=tmp_path / "pids"), program={"timeout": 1.0})
    start = time.monotonic()
    with pytest.raises(TimeoutError, match=r"timeout = 1 seconds"):
        program([0.0])
    assert time.monotonic() - start < 10
    pids = map(int, (tmp_path / "pids").read_text().split())
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
def test_stop_kills_what_runs_in_other_threads_and_is_no_failure(tmp_path):
    program = program_of(tmp_path, SLEEPER.format(pids=tmp_path / "pids"))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(program, [0.0])
        wait_until((tmp_path / "pids").exists)
        program.stop()
        with pytest.raises(KeyboardInterrupt):
            future.result(10)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(is_alive, pids)))
    assert program.last_failure == ""
    with pytest.raises(KeyboardInterrupt):
        program([0.0])


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
def test_ctrl_c_while_it_waits_kills_the_program(tmp_path):
    program = program_of(tmp_path, SLEEPER.format(pids=tmp_path / "pids"))

    def interrupt():
        wait_until((tmp_path / "pids").exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        program([0.0])
    thread.join()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(is_alive, pids)))


def test_a_time_limit_leaves_no_thread_behind(tmp_path):
    program = answering(tmp_path, ANSWER, program={"timeout": 60.0})
    threads = threading.active_count()
    for _ in range(3):
        program([0.0])
    wait_until(lambda: threading.active_count() == threads)


def test_it_can_be_pickled(tmp_path):
    program = pickle.loads(pickle.dumps(answering(tmp_path, ANSWER)))
    assert program([0.0]) == (1.0, 2.0)


# -- the file ----------------------------------------------------------------------------------------------------


def refused(folder, **tables):
    path = write_problem(folder, **tables)
    with pytest.raises(ValueError) as error:
        read_problem(path)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value)


@pytest.mark.parametrize(
    ("tables", "parts"),
    [
        ({"solver": {}}, ["solver = {} is unknown", "variables, program, output, run, optimizer"]),
        ({"program": {"comand": "x"}}, ["[program] comand = 'x' is unknown", "command, files, links"]),
        ({"output": {"low": "x"}}, ["[output] low = 'x' is unknown", "file, lower, upper"]),
        ({"run": {"threads": 2}}, ["[run] threads = 2 is unknown", "workers"]),
        ({"optimizer": {"particles": 2}}, ["[optimizer] particles = 2 is unknown", "n_particles"]),
        ({"run": 3}, ["[run] is 3, it must be a table"]),
        ({"variables": []}, ["variables = []", "at least one table [[variables]]"]),
        ({"variables": [{"name": "x", "lo": 1}]}, ["[[variables]] number 1: lo = 1 is unknown", "name, low, high"]),
        ({"variables": [{"low": 1, "high": 2}]}, ["number 1: name is missing", "letters, digits and _"]),
        ({"variables": [{"name": "x", "high": 2}]}, ["[[variables]] x: low is missing", "a finite number"]),
        ({"variables": [{"name": "x y", "low": 1, "high": 2}]}, ["name = 'x y' must be a name"]),
        ({"variables": [{"name": "directory", "low": 1, "high": 2}]}, ["other than parameters and directory"]),
        ({"variables": [*XY, XY[0]]}, ["number 3: name = 'x'", "names must differ"]),
        ({"variables": [{"name": "x", "low": 3, "high": 2}]}, ["x: low = 3 must be at most high = 2.0"]),
        ({"variables": [{"name": "x", "low": "1", "high": 2}]}, ["x: low = '1' must be a finite number"]),
        ({"variables": [{"name": "x", "low": 0, "high": 2, "log": True}]}, ["low = 0 must be positive where log"]),
        ({"variables": [{"name": "x", "low": 0.5, "high": 2, "integer": True}]}, ["low = 0.5 must be an integer"]),
        ({"variables": [{"name": "x", "low": 0, "high": 2, "log": 1}]}, ["log = 1 must be true or false"]),
        ({"variables": [{"name": "x", "low": 0, "high": 2, "start": 3}]}, ["start = 3 must lie between low = 0.0"]),
        ({"variables": [{**XY[0], "start": 0}, XY[1]]}, ["start is given for x only", "all or for none"]),
        ({"program": {"command": None}}, ["[program] command is missing", "a list of strings, or one string"]),
        ({"program": {"command": []}}, ["command = [] must be a list of strings"]),
        ({"program": {"command": ["echo", 3]}}, ["command = ['echo', 3] must be a list of strings"]),
        ({"program": {"command": "echo '{x} {y}"}}, ["cannot be read: No closing quotation"]),
        (
            {"program": {"command": ["echo", "{x} {y} }"]}},
            ["cannot be read: Single '}'", "braces are written {{ and }}"],
        ),
        ({"program": {"command": "echo {x} {y} {z}"}}, ["placeholder {z}", "{x}, {y}, {parameters}, {directory}"]),
        ({"program": {"command": "echo {x} {y:.3f}"}}, ["placeholder {y:.3f}"]),
        ({"program": {"command": "echo {x} {y!r}"}}, ["placeholder {y!r}"]),
        ({"program": {"command": "echo {x} {y.real}"}}, ["placeholder {y.real}"]),
        ({"program": {"command": "echo {x} {}"}}, ["placeholder {}"]),
        ({"program": {"command": "echo {x}"}}, ["does not pass y", "as {y}", "as {parameters}"]),
        ({"program": {"command": "no-such-program {x} {y}"}}, ["needs the program no-such-program", "not on PATH"]),
        ({"program": {"command": "./missing {x} {y}"}}, ["/missing, which is missing or not executable"]),
        ({"program": {"command": "./circle.py {x} {y}"}}, ["/circle.py, which is missing or not executable"]),
        ({"program": {"files": ["nowhere"]}}, ["files = ['nowhere'] needs", "/nowhere, which is missing"]),
        ({"program": {"files": ["circle.py"]}}, ["brings circle.py into a directory that has already"]),
        ({"program": {"timeout": 0}}, ["timeout = 0 must be a positive number of seconds"]),
        ({"program": {"keep": "some"}}, ['keep = \'some\' must be "none" or "failed" or "all"']),
        ({"program": {"environment": {"A": 1}}}, ["environment = {'A': 1} must be a table of names with strings"]),
        ({"output": {"lower": None}}, ["[output] lower is missing", "a string"]),
        ({"output": {"file": "/tmp/x"}}, ["file = '/tmp/x' must be the path of a file in the directory"]),
        ({"output": {"file": "../x"}}, ["file = '../x' must be"]),
        ({"run": {"workers": 0}}, ["workers = 0 must be a positive integer, or -1"]),
        ({"run": {"workers": True}}, ["workers = True must be"]),
        ({"run": {"max_evals": 2.5}}, ["max_evals = 2.5 must be a positive integer"]),
        ({"run": {"seed": -1}}, ["seed = -1 must be an integer of at least 0"]),
        ({"run": {"on_error": "stop"}}, ['on_error = \'stop\' must be "fail" or "raise"']),
        ({"run": {"asynchronous": True, "track_consensus": True}}, ["track_consensus = True must be false"]),
        ({"optimizer": {"beta": 2.0}}, ["[optimizer] beta=2.0 must be"]),
        ({"optimizer": {"n_particles": 1}}, ["[optimizer] n_particles=1 must be"]),
    ],
)
def test_errors_of_the_file_name_key_value_and_what_is_accepted(tmp_path, tables, parts):
    message = refused(tmp_path, **tables)
    for part in parts:
        assert part in message


def test_a_file_that_is_not_toml_says_where(tmp_path):
    (tmp_path / "p.toml").write_text("x = 1\ny = ,")
    with pytest.raises(ValueError, match=r"p\.toml is not a TOML file: .*line 2"):
        read_problem(tmp_path / "p.toml")


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path, monkeypatch):
    path = write_problem(tmp_path, name="beam", program={"keep": "failed"})
    monkeypatch.chdir("/")
    problem = read_problem(path)
    assert problem.checkpoint == tmp_path / "beam.scb2o"
    assert problem.program.directory == tmp_path / "beam.evaluations"
    assert problem.program.links == (tmp_path / "circle.py",)


def test_defaults_let_a_run_go_on_after_failures_but_not_after_a_whole_batch(tmp_path):
    problem = read_problem(write_problem(tmp_path))
    assert problem.run == {"max_evals": 30, "on_error": "fail", "track_consensus": True, "random_state": 0}
    assert problem.optimizer == {"n_particles": 8, "max_failed_batches": 1}
