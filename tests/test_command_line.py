import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from program_cases import write_problem

from sklearn_scb2o import __version__
from sklearn_scb2o.__main__ import main
from sklearn_scb2o.command_line import demonstration, read_problem
from sklearn_scb2o.command_line.problem_file import ACCEPTED
from sklearn_scb2o.reproduce import PAPER_2D, figure_2d, run_2d, table_2d
from sklearn_scb2o.reproduce.two_dimensional import Row


@pytest.fixture(scope="module")
def rows():
    return run_2d(2, steps=30)


def test_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as status:
        main(["--version"])
    assert status.value.code == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("seeds", ["0", "-1", "two"])
def test_a_bad_number_of_seeds_is_refused(seeds, capsys):
    with pytest.raises(SystemExit) as status:
        main(["reproduce", "2d", "--seeds", seeds])
    assert status.value.code == 2
    assert "not a positive integer" in capsys.readouterr().err


def test_rows_cover_the_paper_and_hold_every_step_and_seed(rows):
    assert [(row.problem, row.method) for row in rows] == [(p, m) for p, methods in PAPER_2D.items() for m in methods]
    assert all(
        v.shape == (30, 2) and np.isfinite(v).all() for r in rows for v in (r.lower, r.gap, r.distance, r.spread)
    )


def test_a_seed_gives_the_same_row_alone_and_among_others(rows):
    alone = run_2d(1, first_seed=1, steps=30)
    for one, both in zip(alone, rows, strict=True):
        np.testing.assert_array_equal(one.distance[:, 0], both.distance[:, 1])


def test_table_shows_our_values_and_those_of_the_paper(rows):
    text = table_2d(rows)
    assert "3.9e-02" in text
    assert f"{rows[0].distance[-1].mean():.1e}" in text


def test_rows_that_are_far_from_the_paper_are_marked():
    seeds = np.array([[0.8, 1.0, 1.1, 1.2, 1.0]])
    value, _, distance, _ = PAPER_2D["circle"]["CB2O"]
    rows = [
        Row("circle", "CB2O", value * a * seeds, seeds, distance * b * seeds, seeds)
        for a, b in ((1.0, 1.0), (10.0, 1.0), (1.0, 0.1))
    ]
    assert ["differs" in line for line in table_2d(rows).splitlines()[-3:]] == [False, True, True]
    wide = seeds * [0.1, 0.1, 10.0, 10.0, 0.1]  # a mean that could be the paper's as well
    assert "differs" not in table_2d([Row("circle", "CB2O", value * wide, seeds, distance * seeds, seeds)])


@pytest.mark.slow
def test_figure_is_written(rows, tmp_path):
    pytest.importorskip("matplotlib")
    figure_2d(rows, tmp_path / "new" / "figure.png")
    assert (tmp_path / "new" / "figure.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_reproduce_agrees_with_the_table_of_the_paper(capsys, tmp_path):
    assert main(["reproduce", "2d", "--seeds", "20", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "differs" not in out
    assert (tmp_path / "benchmark2d.png").exists()


def test_the_experiment_that_needs_torch_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr("sklearn_scb2o.reproduce.mnist.find_spec", lambda name: None)
    assert main(["reproduce", "mnist"]) == 1
    assert "pip install 'sklearn-scb2o[torch]'" in capsys.readouterr().err


@pytest.mark.slow
def test_demonstration_prints_two_tables_and_no_progress_bar_to_a_file(monkeypatch, capsys):
    monkeypatch.setattr(demonstration, "DEMO_SEEDS", 2)
    assert main([]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("star") >= 2
    assert printed.err == ""


def test_commands_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "sklearn_scb2o", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"sklearn_scb2o {__version__}", "")


# -- programs that are not Python --------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def scb2o(*arguments):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "sklearn_scb2o", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def found_by(path, capsys):
    """What ``scb2o report --json`` prints."""
    capsys.readouterr()
    assert main(["report", str(path), "--json", "--no-picture"]) == 0
    return json.loads(capsys.readouterr().out)


def wait_for_evaluations(checkpoint, number, process):
    """Wait until a run has noted so many evaluations since its checkpoint."""
    journal = checkpoint.with_name(f"{checkpoint.name}.journal")
    end = time.monotonic() + 60
    while not journal.exists() or len(journal.read_text().splitlines()) <= number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no evaluation within a minute"
        time.sleep(0.005)


def test_run_prints_the_best_point_and_what_it_took(tmp_path, capsys):
    path = write_problem(tmp_path)
    assert main(["run", str(path)]) == 0
    out = capsys.readouterr().out
    assert "max_evals=30" in out
    assert "3 iterations, 27 evaluations" in out
    found = found_by(path, capsys)
    x, y = found["variables"]["x"], found["variables"]["y"]
    assert found["lower"] == (x * x + y * y - 1) ** 2
    assert f"{x:.7g}" in out
    assert f"{found['lower']:.7g}" in out


def test_the_number_of_workers_changes_nothing(tmp_path, capsys):
    results = []
    for workers in (1, 2):
        path = write_problem(tmp_path, name=f"with{workers}", run={"workers": workers})
        assert main(["run", str(path)]) == 0
        results.append({**found_by(path, capsys), "problem": ""})
    assert results[0] == results[1]


def test_asynchronous_evaluation_works(tmp_path, capsys):
    path = write_problem(tmp_path, run={"workers": 2, "asynchronous": True})
    assert main(["run", str(path)]) == 0
    found = found_by(path, capsys)
    assert 24 <= found["evaluations"] <= 30
    assert np.isfinite(found["lower"])


def test_arguments_take_precedence_over_the_file(tmp_path, capsys):
    path = write_problem(tmp_path)
    assert main(["run", str(path), "--max-evals", "20", "--seed", "5", "--workers", "2", "--no-progress"]) == 0
    first = found_by(path, capsys)
    assert first["evaluations"] == 18
    assert main(["run", str(path), "--max-evals", "20", "--restart"]) == 0
    assert found_by(path, capsys)["variables"] != first["variables"]


def test_resume_goes_on_with_a_larger_budget_as_if_there_had_been_no_end(tmp_path, capsys):
    path, other = write_problem(tmp_path), write_problem(tmp_path, name="other")
    assert main(["run", str(path), "--max-evals", "20"]) == 0
    assert main(["resume", str(path), "--max-evals", "30"]) == 0
    assert main(["run", str(other)]) == 0
    assert {**found_by(path, capsys), "problem": "other"} == found_by(other, capsys)


def test_run_does_not_overwrite_a_run_and_says_how_to_resume(tmp_path, capsys):
    path = write_problem(tmp_path)
    checkpoint = tmp_path / "problem.scb2o"
    checkpoint.write_text("precious")
    assert main(["run", str(path)]) == 1
    error = capsys.readouterr().err
    assert str(checkpoint) in error
    assert f"scb2o resume {path}" in error
    assert "--restart" in error
    assert checkpoint.read_text() == "precious"
    assert main(["run", str(path), "--restart"]) == 0


@pytest.mark.parametrize("command", ["resume", "report"])
def test_without_a_checkpoint_the_way_to_begin_is_said(tmp_path, capsys, command):
    path = write_problem(tmp_path)
    assert main([command, str(path)]) == 1
    assert f"scb2o run {path}" in capsys.readouterr().err


def test_a_checkpoint_of_other_variables_is_refused(tmp_path, capsys):
    path = write_problem(tmp_path)
    assert main(["run", str(path)]) == 0
    write_problem(tmp_path, variables=[{"name": v, "low": 0.0, "high": 1.0} for v in "xy"])
    assert main(["resume", str(path)]) == 1
    assert "bounds=" in capsys.readouterr().err


def test_an_error_of_the_file_is_one_message(tmp_path, capsys):
    path = write_problem(tmp_path, run={"wrokers": 2})
    assert main(["run", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"scb2o: {path}: [run] wrokers = 2 is unknown; accepted are workers,")
    assert main(["run", str(tmp_path / "none.toml")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "'0' is not a positive integer or -1"),
        (["--max-evals", "1.5"], "'1.5' is not a positive integer"),
        (["--max-time", "inf"], "'inf' is not a positive number of seconds"),
        (["--seed", "-3"], "'-3' is not an integer of at least 0"),
    ],
)
def test_a_bad_argument_is_refused(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as status:
        main(["run", "problem.toml", *arguments])
    assert status.value.code == 2
    assert message in capsys.readouterr().err


def test_failures_are_counted_and_the_run_goes_on(tmp_path, capsys):
    (tmp_path / "mode").write_text("fails right")
    path = write_problem(tmp_path, program={"files": ["mode"]}, run={"workers": 2})
    assert main(["run", str(path)]) == 0
    out = capsys.readouterr().out
    found = found_by(path, capsys)
    assert found["evaluations"] == 27
    assert 0 < found["failures"]["exception"] < 27
    assert f"failed evaluations: {found['failures']['exception']} exception" in out
    assert "exit status 3\nstandard error ends with:\nno licence" in out
    assert "Traceback" not in out


def test_where_all_fail_the_run_ends_with_the_reason_and_can_be_resumed_after_a_repair(tmp_path, capsys):
    mode = tmp_path / "mode"
    mode.write_text("fails")
    path, other = write_problem(tmp_path, program={"files": ["mode"]}), write_problem(tmp_path, name="other")
    assert main(["run", str(path)]) == 1
    error = capsys.readouterr().err
    assert "all evaluations of 1 batch" in error
    assert "exit status 3\nstandard error ends with:\nno licence" in error
    assert f"scb2o resume {path}" in error
    assert "Traceback" not in error
    mode.write_text("")
    assert main(["resume", str(path)]) == 0
    assert main(["run", str(other)]) == 0
    assert found_by(path, capsys)["variables"] == found_by(other, capsys)["variables"]


def test_on_error_raise_ends_the_run_at_the_first_failure(tmp_path, capsys):
    mode = tmp_path / "mode"
    mode.write_text("fails right")
    path = write_problem(tmp_path, program={"files": ["mode"]}, run={"on_error": "raise"})
    assert main(["run", str(path)]) == 1
    error = capsys.readouterr().err
    assert 'on_error = "raise"' in error
    assert "no licence" in error
    mode.write_text("")
    assert main(["resume", str(path)]) == 0


def test_retries_repeat_what_has_failed(tmp_path, capsys):
    once = tmp_path / "once.py"
    once.write_text(
        "import os, sys; mark = sys.argv[3] + '/' + sys.argv[1]\n"
        "if not os.path.exists(mark): open(mark, 'w').close(); sys.exit(1)\n"
        "open('result.json', 'w').write('{\"L\": %s, \"G\": {\"total\": 0}}' % (float(sys.argv[1]) ** 2))"
    )
    (tmp_path / "marks").mkdir()
    command = [sys.executable, "-I", "-S", str(once), "{x}", "{y}", str(tmp_path / "marks")]
    path = write_problem(
        tmp_path, program={"command": command}, run={"retries": 1, "max_evals": 20}, output={"file": "result.json"}
    )
    assert main(["run", str(path)]) == 0
    assert found_by(path, capsys)["failures"] == {}


@pytest.mark.slow
def test_report_saves_a_picture(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = write_problem(tmp_path)
    assert main(["run", str(path)]) == 0
    assert main(["report", str(path)]) == 0
    assert str(tmp_path / "convergence.png") in capsys.readouterr().out
    assert main(["report", str(path), "--picture", str(tmp_path / "new" / "p.pdf")]) == 0
    assert (tmp_path / "convergence.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "new" / "p.pdf").read_bytes()[:4] == b"%PDF"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2)])
def test_a_stopped_run_says_how_to_resume_and_ends_as_if_it_had_not_been(tmp_path, capsys, number, workers):
    (tmp_path / "mode").write_text("is slow")
    path = write_problem(tmp_path, program={"files": ["mode"]}, run={"workers": workers})
    with scb2o("run", path) as process:
        wait_for_evaluations(tmp_path / "problem.scb2o", 3, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.strip() == f"Stopped. Go on with: scb2o resume {path}"
    assert not out
    assert found_by(path, capsys)["evaluations"] < 27
    assert main(["resume", str(path)]) == 0
    other = write_problem(tmp_path, name="other", program={"files": None})
    assert main(["run", str(other)]) == 0
    assert {**found_by(path, capsys), "problem": "other"} == found_by(other, capsys)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_the_example_compiles_is_interrupted_resumed_and_finds_the_cheapest_pendulum(tmp_path):
    folder = tmp_path / "external_program"
    shutil.copytree(ROOT / "examples" / "external_program", folder, ignore=shutil.ignore_patterns("*.scb2o*"))
    subprocess.run([COMPILER, "-O2", "-std=c99", "-o", "pendulum", "pendulum.c", "-lm"], cwd=folder, check=True)
    path = folder / "problem.toml"
    with scb2o("run", path) as process:
        wait_for_evaluations(folder / "problem.scb2o", 10, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"scb2o resume {path}" in err
    with scb2o("resume", path) as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    with scb2o("report", path, "--json", "--no-picture") as process:
        found = json.loads(process.communicate(timeout=60)[0])
    assert f"{found['upper']:.7g}" in out
    # length and friction / mass follow from the record, the mass from the price 4 mass + 0.6 / friction
    length, mass, friction = found["variables"].values()
    assert length == pytest.approx(1.2, abs=0.05)
    assert 0.0399 <= found["lower"] < 0.0399 + 1.5 * 0.01  # the best misfit, and lower_tol
    assert found["upper"] == pytest.approx(4 * mass + 0.6 / friction)
    assert found["upper"] == pytest.approx(8.67, rel=0.05)
    assert found["failures"] == {}


def test_the_documented_file_is_accepted_and_holds_every_key(tmp_path):
    text = (ROOT / "docs" / "guide" / "command_line.md").read_text(encoding="utf-8")
    example = text.partition("```toml\n")[2].partition("```")[0]
    for name in ("mesh.dat", "tables", "solve"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "beam.toml").write_text(example)
    read_problem(tmp_path / "beam.toml")
    values = tomllib.loads(example)
    keys = {key for row in values["variables"] for key in row}
    assert keys == set(ACCEPTED["variables"])
    for table in ("program", "output", "run"):
        assert set(values[table]) == set(ACCEPTED[table])
    for key in ACCEPTED["optimizer"]:
        assert f"`{key}`" in text
