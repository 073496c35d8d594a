"""The inner problem: the smallest training objective among the weights that a support leaves free."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize

from .second_order import curvature_solver
from .weight_spaces import WeightSpace

# Up to so many free weights a Newton step costs less than the iterations of L-BFGS that it saves.
NEWTON_WEIGHTS = 600
SLOW = 0.05  # a factor of an earlier curvature is kept while each step gains less than this part of the one before
RESTARTS = 5
SMOOTHING = (1e-1, 1e-2, 1e-3)  # widths over which kinks are rounded, one after the other


class Fit(NamedTuple):
    """Weights, shape (n_weights,), and the training objective there."""

    weights: np.ndarray
    objective: float


def fit_active(
    space: WeightSpace, active: np.ndarray, start: np.ndarray, *, tol: float = 1e-6, max_iter: int, floor: float = 0.0
) -> Fit:
    """Minimise the objective over the `active` weights (indices), all others zero.

    Newton's method where there is a curvature matrix of moderate size, else L-BFGS-B. Kinks of the loss are rounded
    over a width that shrinks; an L1 part is split into two non-negative halves. Never worse than the start.

    Parameters
    ----------
    space : WeightSpace
        The objective.
    active : ndarray of int
        Indices of the weights that are free.
    start : ndarray of shape (n_weights,)
        Start; its other entries are taken as zero.
    tol : float
        The step is small enough when it lowers the objective by less than `tol` times its value.
    max_iter : int
        Limit on the iterations of the solver.
    floor : float
        An objective that is smaller counts as this large in that; for models that interpolate.

    Returns
    -------
    Fit
    """
    weights = np.zeros(space.n_weights)
    weights[active] = start[active]
    best = Fit(weights, float(space.objective(weights[None])[0]))
    if len(active) == 0:
        return best
    newton = space.l1 is None and space.is_convex and len(active) <= NEWTON_WEIGHTS
    spaces = [space]
    if not space.is_smooth and space.smoothed(1.0) is not space:
        spaces = [space.smoothed(width) for width in SMOOTHING]
    for smooth in spaces:
        if newton:
            weights = _newton(smooth, active, weights, tol, max_iter, floor)
        else:
            weights = _lbfgs(smooth, active, weights, tol, max_iter)
        value = float(space.objective(weights[None])[0])
        if value < best.objective:
            best = Fit(weights, value)
    return best


def _newton(
    space: WeightSpace, active: np.ndarray, weights: np.ndarray, tol: float, max_iter: int, floor: float
) -> np.ndarray:
    """Newton's method; a factor of the curvature serves as long as its steps get shorter fast."""
    value = float(space.objective(weights[None])[0])
    lengths = 0.5 ** np.arange(8)
    solve: Callable[[np.ndarray], np.ndarray] | None = None
    last_gain = np.inf
    for _ in range(max_iter):
        gradient = space.gradient(weights[None])[0, active]
        gain = np.inf
        if solve is not None:
            step = solve(gradient)
            gain = gradient @ step / 2.0  # of the quadratic model
        is_fresh = not gain < SLOW * last_gain
        if is_fresh:
            hessian = space.hessian(weights, active)
            if hessian is None:
                return _lbfgs(space, active, weights, tol, max_iter)
            solve = curvature_solver(hessian)
            step = solve(gradient)
            gain = gradient @ step / 2.0
        if not gain > tol * max(abs(value), floor):
            break
        trial = weights.copy()
        trial[active] -= step
        trial_value = float(space.objective(trial[None])[0])
        if not value - trial_value > 0.1 * gain:  # the model is poor there: the best of shorter steps
            trials = np.repeat(weights[None], len(lengths), axis=0)
            trials[:, active] -= lengths[:, None] * step
            values = space.objective(trials)
            k = int(np.nanargmin(np.where(np.isnan(values), np.inf, values)))
            trial, trial_value, gain = trials[k], float(values[k]), 0.0
        if trial_value < value:
            weights, value, last_gain = trial, trial_value, gain
        elif is_fresh:
            break
        else:
            last_gain = 0.0
    return weights


def _lbfgs(space: WeightSpace, active: np.ndarray, weights: np.ndarray, tol: float, max_iter: int) -> np.ndarray:
    l1 = None if space.l1 is None else space.l1[active]
    full = np.zeros((1, space.n_weights))

    def value_and_gradient(free: np.ndarray) -> tuple[float, np.ndarray]:
        full[0, active] = free
        return float(space.objective(full)[0]), space.gradient(full)[0, active]

    def of_halves(halves: np.ndarray) -> tuple[float, np.ndarray]:
        # w = u - v with u, v >= 0, |w| = u + v: smooth where the L1 part is not
        u, v = np.split(halves, 2)
        value, gradient = value_and_gradient(u - v)
        smooth = gradient - l1 * np.sign(u - v)
        return value + l1 @ (u + v - np.abs(u - v)), np.concatenate([smooth + l1, l1 - smooth])

    start = weights[active]
    options = {"maxiter": max_iter, "ftol": tol, "gtol": 0.0, "maxcor": 20, "maxfun": 10 * max_iter}
    if l1 is None:
        found = optimize.minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x
    else:
        found, last = start, np.inf
        for _ in range(RESTARTS):  # at the bounds the method may stop early
            halves = np.concatenate([np.maximum(found, 0.0), np.maximum(-found, 0.0)])
            bounds = optimize.Bounds(0.0, np.inf)
            run = optimize.minimize(of_halves, halves, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            u, v = np.split(run.x, 2)
            found = u - v
            if not run.fun < last - tol * abs(run.fun):
                break
            last = run.fun
    result = np.zeros(space.n_weights)
    result[active] = found
    return result
