"""
Hyper-parameters as the outer level
===================================

Ridge regression with a penalty for each group of columns. The lower level fits the coefficients theta to the training
rows, given the penalties 10^phi; the upper level wants the penalties whose fit predicts the validation rows best.
`minimize_nested` solves both levels together, without a derivative and without ever solving the inner problem to the
end. As a ridge fit has a closed form here, we can compare with a grid.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_scb2o import minimize_nested

# %%
# Body measures (body mass index, blood pressure) form one group, two blood serum values the other. Only 30 rows are for
# training, so that the penalties matter.

data = load_diabetes(as_frame=True)
columns, group = ["bmi", "bp", "s1", "s5"], np.array([0, 0, 1, 1])
X, y = StandardScaler().fit_transform(data.data[columns]), data.target.to_numpy()
y = (y - y.mean()) / y.std()
X_train, X_val, y_train, y_val = train_test_split(X, y, train_size=30, random_state=1)


def training_objective(phi, theta):
    """L: squared training error and penalties, for phi (..., 2) and theta (..., 4)."""
    error = np.mean((theta @ X_train.T - y_train) ** 2, axis=-1)
    return error + np.sum(10.0 ** phi[..., group] * theta**2, axis=-1)


def validation_error(phi, theta):
    """G: squared error on the validation rows."""
    return np.mean((theta @ X_val.T - y_val) ** 2, axis=-1)


box = [(-3, 2), (-3, 2)]
result = minimize_nested(
    training_objective, validation_error, box, [(-2, 2)] * 4, vectorized=True, max_evals=40_000, random_state=0
)

# %%
# The grid: 61 x 61 ridge fits in closed form.


def ridge(phi):
    n = len(X_train)
    return np.linalg.solve(X_train.T @ X_train / n + np.diag(10.0 ** phi[group]), X_train.T @ y_train / n)


ticks = np.linspace(-3, 2, 61)
grid = np.array([[validation_error(None, ridge(np.array([a, b]))) for a in ticks] for b in ticks])
exact = ridge(result.x_outer)
row, column = np.unravel_index(np.argmin(grid), grid.shape)
print(f"grid:            log10 penalties ({ticks[column]:.2f}, {ticks[row]:.2f}), validation error {grid.min():.4f}")
print(f"minimize_nested: log10 penalties ({result.x_outer[0]:.2f}, {result.x_outer[1]:.2f}), ", end="")
print(f"validation error {result.fun:.4f} after {result.nfev_lower:,} evaluations of the training objective")
print(f"largest error of the inner solution: {np.abs(result.x_inner - exact).max():.1e}")
assert validation_error(None, exact) < grid.min() + 0.005

# %%
# Left: the validation error over both penalties, and the way of the outer consensus point. Right: its value at the
# consensus against evaluations of the training objective.

history = result.history
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
shade = left.contourf(
    ticks, ticks, grid, levels=np.linspace(grid.min(), grid.min() + 0.3, 21), extend="max", cmap="cividis"
)
fig.colorbar(shade, ax=left, label="validation error")
edge = {"markeredgecolor": "white", "linestyle": "none"}
left.plot(*history["x_outer"].T, "o-", color="#E69F00", markeredgecolor="black", linewidth=1.0, label="outer consensus")
left.plot(*result.x_outer, "D", color="black", markersize=8, label="result", **edge)
left.plot(ticks[column], ticks[row], "*", color="#D55E00", markersize=15, label="grid", **edge)
left.set(xlabel="log10 penalty of body measures", ylabel="log10 penalty of serum values", xlim=(-3, 2), ylim=(-3, 2))
left.legend(loc="lower right")
right.plot(history["nfev_lower"], history["upper"], "o-", color="#0072B2", markersize=4, label="outer consensus")
right.axhline(grid.min(), color="#D55E00", linestyle="--", label="grid of 3,721 exact fits")
right.set(xlabel="evaluations of the training objective", ylabel="validation error")
right.legend(frameon=False)
plt.show()
