import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


@pytest.mark.slow
def test_gpu_benchmark_runs_on_the_cpu():
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, SCRIPT, "--cpu"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "torch cpu, float64: differs from NumPy by consensus" in done.stdout
    assert "selection, N = 10000  torch cpu  float32" in done.stdout
