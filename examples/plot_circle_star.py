"""
Circle and star: the paper's two constrained problems
=====================================================

The Ackley function has its minimum at (1/2, 1/3) and many local ones around it. We look for its smallest value on a
circle and on a star, both given only through a lower objective that is 0 there: ``L = h(x)^2``.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.problems import circle, star

# %%
# One run on each problem with the defaults, 5,000 evaluations. We keep the population at a few moments to draw it.

moments = (1, 10, 25, 50)
fig, axes = plt.subplots(2, len(moments), figsize=(12, 6.2), layout="constrained", sharex=True, sharey=True)
grid = np.stack(np.meshgrid(np.linspace(-2, 2, 501), np.linspace(-2, 2, 501)), axis=-1)

for line, problem in zip(axes, (circle(), star()), strict=True):
    optimizer = SCB2OOptimizer(problem.bounds, random_state=1, max_evals=5_000)
    while not optimizer.stop():
        x = optimizer.ask()
        optimizer.tell(problem.lower(x), problem.upper(x))
        if optimizer.n_iter in moments:
            ax = line[moments.index(optimizer.n_iter)]
            ax.contourf(*np.moveaxis(grid, -1, 0), problem.upper(grid), levels=20, cmap="Blues_r", alpha=0.7)
            ax.contourf(*np.moveaxis(grid, -1, 0), np.sqrt(problem.lower(grid)), levels=[0, 0.05], colors="black")
            ax.plot(*x.T, ".", color="tab:orange", ms=4)
            ax.plot(*problem.x_opt, "*", color="tab:red", ms=16, mec="white")
            ax.plot(*optimizer.consensus, "P", color="black", ms=7, mec="white")
            ax.set(title=f"{problem.name}, iteration {optimizer.n_iter}", xlim=(-2, 2), ylim=(-2, 2), aspect="equal")
    c = optimizer.consensus
    print(
        f"{problem.name:>6}: consensus ({c[0]:.4f}, {c[1]:.4f}), distance to the solution {problem.distance(c):.1e}, "
        f"L = {problem.lower(c):.1e}, G - G* = {problem.upper(c) - problem.upper_opt:+.1e}"
    )
    assert problem.distance(c) < 1e-2

# %%
# Orange: the particles. Black cross: the consensus. Red star: the solution. The black line is where L is smallest,
# the shade is the Ackley function.

plt.show()
