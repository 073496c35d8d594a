"""Results to draw: exact numbers, so that pictures do not change with the optimizer."""

import numpy as np
from scipy.optimize import OptimizeResult


def make_result(x, lower=None, upper=None, *, nit=1, **more):
    """A result whose consensus is the mean of the points, and whose best point the first of them."""
    x = np.asarray(x, dtype=float)
    return OptimizeResult(
        x=x.mean(axis=0),
        consensus=OptimizeResult(x=x.mean(axis=0)),
        best=OptimizeResult(x=x[0]),
        population=OptimizeResult(x=x, lower=lower, upper=upper),
        nit=nit,
        **more,
    )


def make_run(columns, evaluations):
    """A result that has a history only."""
    columns = {name: np.asarray(values, dtype=float) for name, values in columns.items()}
    return OptimizeResult(history=columns, nit=len(next(iter(columns.values()))), nfev_lower=evaluations)


def ring(x):
    """L: 0 on the unit circle."""
    return (np.sum(np.asarray(x) ** 2, axis=-1) - 1.0) ** 2


def bowl(x):
    """G: 0 at (1, 1/2)."""
    return np.sum((np.asarray(x)[..., :2] - [1.0, 0.5]) ** 2, axis=-1)


def spiral(n):
    """Points (n, 2) on a spiral."""
    angle = np.linspace(0.0, 6.0, n)
    return 0.25 * angle[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
