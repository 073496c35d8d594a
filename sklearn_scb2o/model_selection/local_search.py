"""Local search over supports: drop what is not needed, swap what fits less well, until no such move helps."""

from __future__ import annotations

import numpy as np

from .second_order import Changes, QuadraticModel, Step
from .supports import Supports

TRIES = 8  # true fits for the moves that the quadratic model ranks first
SHARE = 0.02  # of large supports this share leaves at a time where there is no quadratic model
CAUTION = 0.5  # part of the room up to the limit that one path in an inexact model may take
EXACT = 0.01  # the model is exact when it errs by less than this part of the room
NONCONVEX_PART = 10  # one of so many groups leaves at most in a path of a model that is a part of the truth only
LEAST = 1e-9  # smaller relative improvements are rounding


def descend(
    supports: Supports, support: np.ndarray, limit: float, costs: np.ndarray, *, max_fits: float = np.inf
) -> np.ndarray:
    """Improve a support until no drop, swap or entry that the quadratic model proposes does.

    Better means, in this order: the objective is within the limit (or closer to it), the cost of the groups is
    smaller, the objective is smaller. Each step lowers that, so the search ends. A path of many moves is searched in
    the quadratic model alone; its end, or a shorter part of it, is then verified by an inner fit.

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
    max_fits : float
        The search ends when `supports` has made so many inner fits in all.

    Returns
    -------
    ndarray of bool, shape (n_groups,)
    """
    support, share, length = support.copy(), CAUTION, 16 + len(support) // 10
    while supports.n_fits < max_fits:
        value = supports.value(support)
        model = supports.quadratic_model(support)
        if model is None:
            better = _step(supports, support, limit, costs, *supports.changes(support))
            if better is None:
                break
            support = better
            continue
        leaving, entering, single = model.leaving, model.entering, model.changes()
        room = limit - value
        goal = value + share * room if room > 0.0 else limit
        if not supports.is_convex:
            length = min(length, max(1, len(leaving) // NONCONVEX_PART))
        steps = path(model, goal, costs, length)
        if share < 1.0 and not steps and room > 0.0:
            steps = path(model, limit, costs, 1)
        found = _verified(supports, steps, key_of(support, value, limit, costs), limit, goal, costs)
        if found is None:
            better = _step(supports, support, limit, costs, leaving, entering, single)
            if better is None:
                break
            support = better
            continue
        step, reached = found
        exact = abs(reached - step.predicted) <= EXACT * abs(room)
        share = min(1.0, 2.0 * share) if exact else CAUTION
        length = 2 * length if step is steps[-1] else max(1, length // 2)
        support = step.support
    return support


def key_of(support: np.ndarray, value: float, limit: float, costs: np.ndarray) -> tuple[float, float, float]:
    """What a local search makes smaller."""
    return max(value, limit), float(costs[support].sum()), value


def path(model: QuadraticModel, limit: float, costs: np.ndarray, max_moves: int) -> list[Step]:
    """Supports after each of the best moves of the model, until there is none or `max_moves` are made."""
    steps: list[Step] = []
    while len(steps) < max_moves and _best_move(model, limit, costs):
        steps.append(model.step())
    return steps


def _best_move(model: QuadraticModel, limit: float, costs: np.ndarray) -> bool:
    value, leaving, entering = model.value, model.leaving, model.entering
    floor = np.maximum(costs, 1e-12)
    if value <= limit and len(leaving):
        drops = model.drops()
        ratio = np.where(value + drops <= limit, np.maximum(drops, 0.0) / floor[leaving], np.inf)
        if np.isfinite(ratio).any():
            model.leave(leaving[np.argmin(ratio)])
            return True
    elif value > limit and len(entering):
        gain = model.adds() / floor[entering]
        if gain.min() * floor[entering][np.argmin(gain)] < -LEAST * abs(value):
            model.enter(entering[np.argmin(gain)])
            return True
    if not (len(leaving) and len(entering)):
        return False
    predicted = value + model.swaps()
    saving = costs[leaving][:, None] - costs[entering][None]
    within = np.where((saving > 0.0) & (predicted <= max(limit, value)), saving, 0.0)
    if within.any():
        best = np.argmin(np.where(within == within.max(), predicted, np.inf))
    else:
        same = np.where(saving == 0.0, predicted, np.inf)
        best = np.argmin(same)
        if not same.flat[best] < value - LEAST * abs(value):
            return False
    i, k = np.unravel_index(best, predicted.shape)
    model.leave(leaving[i])
    model.enter(entering[k])
    return True


def _verified(
    supports: Supports,
    steps: list[Step],
    key: tuple[float, float, float],
    limit: float,
    goal: float,
    costs: np.ndarray,
) -> tuple[Step, float] | None:
    """The end of a path, or of a half, quarter, ... of it, that is truly better than `key`; with its objective.

    More than one move may not take the objective further than twice the way to `goal`.
    """
    count = len(steps)
    while count:
        step = steps[count - 1]
        value = supports.value_from(step.support, step.weights)
        above, cost, value_there = key_of(step.support, value, limit, costs)
        if count > 1 and key[2] <= limit and value > 2.0 * goal - key[2]:
            count //= 2
            continue
        if (above, cost) < key[:2] or ((above, cost) == key[:2] and value_there < key[2] - LEAST * abs(key[2])):
            return step, value
        count //= 2
    return None


def _step(
    supports: Supports,
    support: np.ndarray,
    limit: float,
    costs: np.ndarray,
    leaving: np.ndarray,
    entering: np.ndarray,
    changes: Changes,
) -> np.ndarray | None:
    """The first of the single moves that the predictions rank first that is truly better."""
    value = supports.value(support)
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
