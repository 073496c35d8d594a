"""The benchmarks that measure speed, and that of the ingredients, run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["steps", "quantile", "runs", "scaling", "ablation"])
def test_benchmark_prints_a_table(name):
    if name in ("steps", "scaling"):
        pytest.importorskip("cbx")
    command = [sys.executable, FOLDER / f"{name}.py", "--quick"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ}).stdout
    assert len(printed.splitlines()) > 3
    assert "nan" not in printed
