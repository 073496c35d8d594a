"""
A program that is not Python
============================

The simulator is written in C: from length, mass and friction it integrates the swing of a pendulum, and prints how far
that is from a recorded one, and what the pendulum costs. Of all pendulums that swing like the record, which one is the
cheapest? The record determines the length, and the ratio of friction and mass, not the two. A file in the folder
`external_program`, `problem.toml`, says how the program is started and read; the rest is done on the command line.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.plotting import ConvergenceDisplay, ParticlesDisplay

here = Path(__file__).parent if "__file__" in globals() else Path.cwd()
source = here / "external_program"
print((source / "problem.toml").read_text())

# %%
# ``make`` and ``scb2o run problem.toml``, here in a copy of the folder. The program is started 2,000 times. Where there
# is no C compiler, the same simulator in Python takes its place; it is slower, so that it is started 1,000 times.

folder = tempfile.TemporaryDirectory()
copy = Path(folder.name, "external_program")
shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.scb2o*", "pendulum"))


def scb2o(*arguments):
    print("$ scb2o", *arguments)
    command = [sys.executable, "-m", "sklearn_scb2o", *arguments]
    return subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True).stdout


program, compiled = copy / "pendulum", shutil.which("make") and shutil.which("cc")
if compiled:
    subprocess.run(["make", "--silent"], cwd=copy, check=True)
else:
    program.write_text(f"#!{sys.executable} -IS\n{(source / 'pendulum.py').read_text()}")
    program.chmod(0o755)

scb2o("run", "problem.toml", "--max-evals", "2000" if compiled else "1000", "--no-progress")
print(scb2o("report", "problem.toml", "--no-picture"))

# %%
# The state of the run is a checkpoint of the optimizer, and can be looked at in Python. Mass and friction were searched
# on a logarithmic scale.

optimizer = SCB2OOptimizer.load(copy / "problem.scb2o")
result = optimizer.result
length, mass, friction = result.x[0], *np.exp(result.x[1:])
print(f"length {length:.3f} m, mass {mass:.3f} kg, friction {friction:.4f} N m s, ratio {friction / mass:.4f}")
assert abs(length - 1.2) < 0.02
assert abs(friction / mass - 0.125) < (0.01 if compiled else 0.03)

# %%
# The particles at the end, above misfit and price of pendulums of the length that was found: those in the black valley
# swing like the record, and the cheapest of them is wanted. The valley follows a constant ratio of friction and mass.


def simulate(x):
    arguments = (x[0], *np.exp(x[1:]))
    answer = json.loads(subprocess.check_output([program, copy / "record.txt", *map(str, arguments)]))
    return answer["misfit"], answer["price"]["total"]


box = np.stack([optimizer.bounds.lb, optimizer.bounds.ub], axis=1)
display = ParticlesDisplay.from_result(
    result,
    simulate,
    None,
    box[1:],
    grid_resolution=50 if compiled else 20,
    coordinates=(1, 2),
    lower_tol=0.01,
    names=("log mass", "log friction"),
)
display.figure_.axes[-1].set_ylabel("price")
folder.cleanup()

# %%
# L and G at the consensus, in the course of the run.

ConvergenceDisplay.from_result(result, metrics=["lower", "upper", "spread"])
plt.show()
