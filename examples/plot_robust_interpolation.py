"""
The interpolating model that survives a broken sensor
=====================================================

Thirty sensors, ten calibration measurements: infinitely many linear models fit these exactly, and the usual one is
that with the smallest norm. We want the one for which the failure of any single sensor does the least harm. If sensor
j reads 0 instead of its value, the prediction changes by ``w_j`` times that value, so with sensors of equal scale

- lower objective L: mean squared error, which is 0 for all models that interpolate;
- upper objective G: ``max_j |w_j|``.

G is not differentiable, yet convex; so linear programming knows the answer, and we can compare.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog
from sklearn.linear_model import LinearRegression

from sklearn_scb2o import BilevelSearchCV

rng = np.random.default_rng(0)
n, d = 10, 30
truth = rng.standard_normal(d) / np.sqrt(d)
X, X_new = rng.standard_normal((n, d)), rng.standard_normal((2_000, d))
y, y_new = X @ truth, X_new @ truth

# %%
# Particles are weight vectors here. The criterion takes those of all particles at once. Where the smallest training
# error is 0, models up to a millionth of the error of a constant count as interpolating (``lower_atol``).


def largest_weight(weights):
    return np.abs(weights).max(axis=1)


model = LinearRegression(fit_intercept=False)
search = BilevelSearchCV(
    model, upper=largest_weight, search_space="weights", n_particles=200, max_iter=1_000, random_state=0
)
search.fit(X, y)

# %%
# Linear programming: the smallest t such that ``-t <= w_j <= t`` for all j, and ``X w = y``.

identity, ones = np.eye(d), np.ones((d, 1))
program = linprog(
    np.append(np.zeros(d), 1.0),
    A_ub=np.block([[identity, -ones], [-identity, -ones]]),
    b_ub=np.zeros(2 * d),
    A_eq=np.hstack([X, np.zeros((n, 1))]),
    b_eq=y,
    bounds=(None, None),
)
models = {
    "smallest norm": model.fit(X, y).coef_,
    "BilevelSearchCV": search.coef_,
    "linear programming": program.x[:d],
}


def harm(w):
    """Largest mean change of the predictions for new rows, over the sensor that fails."""
    return np.sqrt(np.mean((X_new * w) ** 2, axis=0)).max()


print(f"{'model':<20} {'training error':>15} {'largest weight':>15} {'harm of a failure':>18} {'error, new rows':>16}")
for name, w in models.items():
    error, new = np.mean((X @ w - y) ** 2), np.sqrt(np.mean((X_new @ w - y_new) ** 2))
    print(f"{name:<20} {error:15.1e} {np.abs(w).max():15.3f} {harm(w):18.3f} {new:16.3f}")
assert np.abs(search.coef_).max() < 1.1 * program.x[-1]
assert np.mean((X @ search.coef_ - y) ** 2) < 2e-6 * np.mean(y**2)

# %%
# The absolute weights in descending order: the smallest norm relies on few sensors, the others spread the load.

fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for (name, w), color, style in zip(models.items(), ("#808080", "#0072B2", "#D55E00"), ("s--", "o-", "x:"), strict=True):
    ax.plot(np.arange(1, d + 1), np.sort(np.abs(w))[::-1], style, color=color, ms=5, label=name)
ax.set(xlabel="sensors, in order of their weight", ylabel="absolute weight", ylim=(0, None))
ax.legend(frameon=False)
plt.show()
