"""What the objective becomes when groups of weights enter or leave a fit, from a quadratic model around it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .inner_fit import solve_curvature


class Changes(NamedTuple):
    """Predicted changes of the objective, each by group of weights.

    Attributes
    ----------
    drop : ndarray of shape (n_in,)
        Increase when a group leaves and the others are fitted anew.
    add : ndarray of shape (n_out,)
        Change, at most 0, when a group enters.
    swap : ndarray of shape (n_in, n_out)
        Change when one leaves and one enters.
    """

    drop: np.ndarray
    add: np.ndarray
    swap: np.ndarray


def predict_changes(
    weights: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
    leaving: list[np.ndarray],
    entering: list[np.ndarray],
) -> Changes:
    """Changes of the quadratic model ``L(w + v) = L(w) + g.v + v.H v / 2`` under moves of the support.

    With A the inverse of H on the free weights, a group J that leaves costs ``w_J.(A_JJ)^-1 w_J / 2``, and a group K
    that enters gains ``g_K.(H_KK - H_KF A H_FK)^-1 g_K / 2``; a swap is the second after the first. Exact for a
    quadratic objective.

    Parameters
    ----------
    weights, gradient : ndarray of shape (m,)
        At a minimiser over the free weights, which come first; those that may enter follow (their weights are 0).
    hessian : ndarray of shape (m, m)
        Curvature there.
    leaving, entering : list of arrays of int
        Positions of the weights of each group. All that are in no entering group are free.

    Returns
    -------
    Changes
    """
    outside = np.concatenate(entering) if entering else np.zeros(0, dtype=int)
    n_free = len(weights) - len(outside)
    curvature, cross, rest = hessian[:n_free, :n_free], hessian[:n_free, n_free:], hessian[n_free:, n_free:]
    inverse = solve_curvature(curvature, np.eye(n_free)) if n_free else np.zeros((0, 0))
    onto = inverse @ cross  # what the free weights do about an entering one
    schur = rest - cross.T @ onto
    # an entering weight that the free ones can imitate gains nothing
    np.fill_diagonal(schur, np.where(np.diag(schur) > 1e-7 * np.diag(rest), np.diag(schur), np.inf))
    slope = -gradient[n_free:]
    entering = [group - n_free for group in entering]
    if all(len(group) == 1 for group in (*leaving, *entering)):
        return _of_single_weights(weights, inverse, onto, np.diag(schur), slope, leaving, entering)
    drop = np.zeros(len(leaving))
    add = np.array([_gain(schur, slope, k) for k in entering])
    swap = np.zeros((len(leaving), len(entering)))
    for i, j in enumerate(leaving):
        if len(j) == 0:
            swap[i] = add
            continue
        force = solve_curvature(inverse[np.ix_(j, j)], np.column_stack([weights[j], onto[j]]))
        drop[i] = weights[j] @ force[:, 0] / 2.0
        slope_without = slope + onto[j].T @ force[:, 0]
        for h, k in enumerate(entering):
            schur_without = schur[np.ix_(k, k)] + onto[np.ix_(j, k)].T @ force[:, 1 + k]
            swap[i, h] = drop[i] + _gain(schur_without, slope_without[k], np.arange(len(k)))
    return Changes(drop, add, swap)


def _gain(schur: np.ndarray, slope: np.ndarray, group: np.ndarray) -> float:
    group = group[np.isfinite(np.diag(schur)[group])]
    return (
        -float(slope[group] @ solve_curvature(schur[np.ix_(group, group)], slope[group])) / 2.0 if len(group) else 0.0
    )


def _of_single_weights(
    weights: np.ndarray,
    inverse: np.ndarray,
    onto: np.ndarray,
    schur: np.ndarray,
    slope: np.ndarray,
    leaving: list[np.ndarray],
    entering: list[np.ndarray],
) -> Changes:
    """The same for groups of one weight each, without loops."""
    j = np.array([group[0] for group in leaving], dtype=int)
    k = np.array([group[0] for group in entering], dtype=int)
    variance = np.diag(inverse)[j]
    drop = weights[j] ** 2 / variance / 2.0
    add = -(slope[k] ** 2) / schur[k] / 2.0
    onto = onto[np.ix_(j, k)]
    slope_without = slope[k] + onto * (weights[j] / variance)[:, None]
    schur_without = schur[k] + onto**2 / variance[:, None]
    return Changes(drop, add, drop[:, None] - slope_without**2 / schur_without / 2.0)
