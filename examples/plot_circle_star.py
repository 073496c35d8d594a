"""
Circle and star: the paper's two constrained problems
=====================================================

The Ackley function has its minimum at (1/2, 1/3) and many local ones around it. We look for its smallest value on a
circle and on a star, both given only through a lower objective that is 0 there: ``L = h(x)^2``.
"""

import matplotlib.pyplot as plt

from sklearn_scb2o import minimize
from sklearn_scb2o.plotting import ParticlesDisplay
from sklearn_scb2o.problems import circle, star

# %%
# One run on each problem with the defaults, 5,000 evaluations. A callback keeps the state after each iteration.


def run(problem):
    frames = []

    def keep(intermediate_result):
        frames.append(intermediate_result)

    options = {"vectorized": True, "max_evals": 5_000, "random_state": 1, "callback": keep}
    return minimize(problem.lower, problem.upper, problem.bounds, **options), frames


# %%
# We draw a few of these states.

moments = (1, 10, 25, 49)
view = {"legend": False, "colorbar": False}
fig, axes = plt.subplots(2, len(moments), figsize=(12, 6.2), layout="constrained", sharex=True, sharey=True)

for line, problem in zip(axes, (circle(), star()), strict=True):
    result, frames = run(problem)
    states = [frames[k - 1] for k in moments]
    display = ParticlesDisplay.from_result(
        states,
        problem.lower,
        problem.upper,
        [(-2, 2), (-2, 2)],
        vectorized=True,
        grid_resolution=400,
        x_opt=problem.x_opt,
        ax=line[0],
        frame=0,
        **view,
    )
    for frame in range(1, len(moments)):
        display.plot(line[frame], frame=frame, **view)
    print(
        f"{problem.name:>6}: found ({result.x[0]:.4f}, {result.x[1]:.4f}), distance to the solution "
        f"{problem.distance(result.x):.1e}, L = {result.lower_fun:.1e}, G - G* = {result.fun - problem.upper_opt:+.1e}"
    )
    assert problem.distance(result.x) < 1e-2
for ax in axes.flat:
    ax.label_outer()

# %%
# Orange: the particles. Black cross: the consensus; diamond: the best point evaluated. White star: the solution. The
# black line is where L is smallest, the shade is the Ackley function. With all of ``frames``,
# ``display.animate("star.gif")`` would show every iteration.

plt.show()
