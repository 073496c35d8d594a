"""
Hundreds of runs on a GPU
=========================

The optimizer works on the arrays of NumPy, CuPy, torch and JAX. On a GPU everything stays there: points, values, and
what is drawn at random. That pays where there are many particles, or many runs, and objectives that are array code.
This script takes a GPU where CuPy or torch finds one, and NumPy otherwise.
"""

import importlib
import time

import matplotlib.pyplot as plt
import numpy as np

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.plotting import ConvergenceDisplay
from sklearn_scb2o.problems import star


def pick_library():
    """Name of an array library, and the device."""
    for name, device in (("cupy", None), ("torch", "cuda")):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        if library.cuda.is_available():
            return name, device
    return "numpy", None


name, device = pick_library()

# %%
# The objectives in terms of what all these libraries have: the shifted Ackley function on a five-pointed star, as in
# `sklearn_scb2o.problems.star`. The last axis has the coordinates; there may be any others before.

xp = importlib.import_module(name)
atan2 = getattr(xp, "atan2", None) or xp.arctan2


def lower(x):
    radius = 1.0 + 0.5 * xp.sin(5.0 * atan2(x[..., 1], x[..., 0]))
    return (x[..., 0] ** 2 + x[..., 1] ** 2 - radius**2) ** 2


def upper(x):
    a, b = x[..., 0] - 0.5, x[..., 1] - 1.0 / 3.0
    cosines = (xp.cos(6.0 * np.pi * a) + xp.cos(6.0 * np.pi * b)) / 2.0
    return -20.0 * xp.exp(-0.6 * xp.sqrt((a * a + b * b) / 2.0)) - xp.exp(cosines) + 20.0 + np.e


# %%
# 300 runs of 100 particles: batches of 30,000 points, of shape (300, 100, 2).

problem = star()
n_runs, n_particles, n_iterations = 300, 100, 150
optimizer = SCB2OOptimizer(
    problem.bounds,
    n_runs=n_runs,
    n_particles=n_particles,
    x_opt=problem.x_opt,
    xp=name,
    device=device,
    random_state=0,
)
began = time.perf_counter()
for _ in range(n_iterations):
    x = optimizer.ask()
    optimizer.tell(lower(x), upper(x))
result = optimizer.result  # as NumPy arrays; this waits for the device
seconds = time.perf_counter() - began

distances = problem.distance(result.consensus.x)
print(f"{name} on {device or ('the CPU' if name == 'numpy' else 'the GPU')}: {n_runs} runs, ", end="")
print(f"{n_runs * n_particles * n_iterations:,} evaluations in {seconds:.1f} s")
print(f"distance to the solution: median {np.median(distances):.1e}, largest {distances.max():.1e}")
print(f"runs closer than 0.01: {np.mean(distances < 0.01):.1%}")
assert np.mean(distances < 0.01) > 0.9

# %%
# All runs: the median, and a band that leaves out the best and the worst hundredth.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
ConvergenceDisplay.from_history(
    optimizer.history,
    n_particles * np.arange(1, n_iterations + 1),
    metrics=["distance", "quantile"],
    band=(0.01, 0.99),
    ax=axes,
)
plt.show()
