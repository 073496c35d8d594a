import subprocess
import sys

import numpy as np
import pytest

from sklearn_scb2o import __version__
from sklearn_scb2o.__main__ import main
from sklearn_scb2o.reproduce import PAPER_2D, figure_2d, run_2d, table_2d


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


@pytest.mark.slow
def test_demonstration_runs_as_a_module_and_prints_no_progress_bar_to_a_file():
    done = subprocess.run([sys.executable, "-m", "sklearn_scb2o"], capture_output=True, text=True, check=True)
    assert "star" in done.stdout
    assert done.stderr == ""
