"""Local search over supports: drop what is not needed, swap what fits less well, until no such move helps."""

from __future__ import annotations

import numpy as np

from .supports import Supports

# True fits for the moves that the quadratic model ranks first; of large supports this share leaves at a time.
TRIES = 8
SHARE = 0.02


def descend(supports: Supports, support: np.ndarray, limit: float, costs: np.ndarray) -> np.ndarray:
    """Improve a support until no drop, swap or entry that the quadratic model proposes does.

    Better means, in this order: the objective is within the limit (or closer to it), the cost of the groups is
    smaller, the objective is smaller. Each step lowers that, so the search ends.

    Parameters
    ----------
    supports : Supports
        The objective, with its predictions.
    support : ndarray of bool, shape (n_groups,)
        Start.
    limit : float
        Objectives up to here are good enough.
    costs : ndarray of shape (n_groups,)
        Cost of each group, positive or 0.

    Returns
    -------
    ndarray of bool, shape (n_groups,)
    """
    support = support.copy()
    while True:
        better = _step(supports, support, limit, costs)
        if better is None:
            return support
        support = better


def _step(supports: Supports, support: np.ndarray, limit: float, costs: np.ndarray) -> np.ndarray | None:
    value = supports.value(support)
    leaving, entering, changes = supports.changes(support)
    if value <= limit:
        moved = _drop(supports, support, limit, costs, leaving, changes.drop)
        if moved is not None:
            return moved
    elif len(entering):
        gain = changes.add / np.maximum(costs[entering], 1e-12)
        for k in np.argsort(gain, kind="stable")[:TRIES]:
            moved = _move(support, enters=entering[k])
            if supports.value(moved, support) < value * (1.0 - 1e-9):
                return moved
    return _swap(supports, support, limit, costs, leaving, entering, value + changes.swap)


def _drop(
    supports: Supports, support: np.ndarray, limit: float, costs: np.ndarray, leaving: np.ndarray, increase: np.ndarray
) -> np.ndarray | None:
    """Let the groups go that cost the objective least for what they cost; several at once of a large support."""
    if len(leaving) == 0:
        return None
    order = np.argsort(increase / np.maximum(costs[leaving], 1e-12), kind="stable")
    count = max(1, round(SHARE * len(leaving)))
    room = limit - supports.value(support)
    while count > 1:
        # no more than a part of the room at a time, so that what is left can adapt
        if np.sum(increase[order[:count]]) <= 0.5 * room:
            moved = _move(support, leaves=leaving[order[:count]])
            if supports.value(moved, support) <= limit:
                return moved
        count //= 2
    for j in order[:TRIES]:
        if increase[j] > 3.0 * room:  # hopeless
            break
        moved = _move(support, leaves=leaving[j])
        if supports.value(moved, support) <= limit:
            return moved
    return None


def _swap(
    supports: Supports,
    support: np.ndarray,
    limit: float,
    costs: np.ndarray,
    leaving: np.ndarray,
    entering: np.ndarray,
    predicted: np.ndarray,
) -> np.ndarray | None:
    value = supports.value(support)
    if predicted.size == 0:
        return None
    saving = costs[leaving][:, None] - costs[entering][None]
    # cheaper and still good enough, or as cheap and of a smaller objective
    useful = (saving > 0.0) & (predicted <= max(limit, value)) | (saving == 0.0) & (predicted < value * (1.0 - 1e-9))
    i, k = np.nonzero(useful)
    best = None
    for move in np.lexsort((predicted[i, k], -saving[i, k]))[:TRIES]:
        moved = _move(support, leaves=leaving[i[move]], enters=entering[k[move]])
        reached = supports.value(moved, support)
        if saving[i[move], k[move]] > 0.0 and reached <= max(limit, value):
            return moved
        if reached < value * (1.0 - 1e-9) and (best is None or reached < best[0]):
            best = (reached, moved)
    return None if best is None else best[1]


def _move(
    support: np.ndarray, leaves: np.ndarray | int | None = None, enters: np.ndarray | int | None = None
) -> np.ndarray:
    moved = support.copy()
    if leaves is not None:
        moved[leaves] = False
    if enters is not None:
        moved[enters] = True
    return moved
