"""
Several runs at once, and restarts
==================================

A swarm is a random thing: one that is too small may end at the wrong place. Several runs side by side say how reliable
a setting is, and the best of them may be right where most are not; their points are evaluated together, as one batch.
Restarts spend what a run has left over on another one, with a larger population.

The problem: the smallest value of a rotated Ackley function, which has many local minima, on the unit sphere of
eight dimensions, which is known only through a function that is 0 there.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_scb2o import minimize
from sklearn_scb2o.plotting import ConvergenceDisplay
from sklearn_scb2o.problems import sphere

problem = sphere(8)
objectives = (problem.lower, problem.upper, problem.bounds)
found = 0.05  # the solution, and not another local minimum: these are 0.3 apart

# %%
# Twenty runs of each size, with 10,000 evaluations each. ``n_runs`` is all there is to it.

n_runs, evaluations = 20, 10_000
axes = None
print(f"{n_runs} runs with {evaluations:,} evaluations each")
print("particles   runs that found it   median distance   distance of the best run")
for n_particles in (25, 50, 100):
    result = minimize(
        *objectives,
        vectorized=True,
        n_runs=n_runs,
        n_particles=n_particles,
        max_evals=n_runs * evaluations,
        track_consensus=True,
        x_opt=problem.x_opt,
        random_state=0,
    )
    distances = np.array([problem.distance(run.x) for run in result.runs])
    print(
        f"{n_particles:9}   {np.sum(distances < found):18}   {np.median(distances):15.4f}   "
        f"{problem.distance(result.x):24.4f}"
    )
    assert problem.distance(result.x) < found  # chosen by L and G alone
    axes = ConvergenceDisplay.from_result(
        result, metrics=["lower", "distance", "spread"], label=f"{n_particles} particles", ax=axes
    ).axes_

# %%
# Lines: the median of the runs. Bands: all but the best and the worst tenth of them. Small swarms are faster, and more
# of them end at another local minimum.

plt.show()

# %%
# Restarts: a run that has converged, here to a hundredth of its first spread, is followed by one with twice as many
# particles, as long as there are evaluations left.

result = minimize(*objectives, vectorized=True, n_particles=40, tol=1e-2, restarts=3, max_evals=60_000, random_state=0)
print(f"\nrestarts, {result.nfev:,} evaluations together")
print("run   particles   iterations         L         G   distance")
for k, run in enumerate(result.runs):
    best = "   the best" if k == result.best_run else ""
    print(
        f"{k:3}   {len(run.population.x):9}   {run.nit:10}   {run.lower_fun:.1e}   {run.fun:7.4f}   "
        f"{problem.distance(run.x):8.4f}{best}"
    )
assert problem.distance(result.x) < found
