"""From the values of a batch to a consensus point: one iteration of the method as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..particles import alpha_from_rank, consensus_point, gibbs_weights
from ..particles.backend import Array, any_true, as_index, count_up, float_info, overflow_is_infinity
from .long_run import RankingOfMany
from .many_runs import RankingOfRuns
from .one_run import RankingOfOne
from .parameters import ALPHA_FRACTION
from .ranking import (
    AnyRanking,
    Ranking,
    RankingOfParts,
    Settings,
    clip_values,
    in_order,
    is_tame,
    rank,
    rank_on_arrays,
    select,
)


class Update(NamedTuple):
    """What one iteration learns; leading axis R, the runs."""

    weights: Array  #: (R, N); meaningless in a dead run
    consensus: Array  #: (R, d), likewise
    failed: Array | None  #: (R, N), evaluations that failed; None if there are none (known on NumPy only, as below)
    evaluated_upper: Array | None  #: (R, N), rows whose upper value is known or was needed; None if all are
    dead: Array | None  #: (R,), runs whose evaluations all failed; None if there are none
    quantile: Array | float  #: hard quantile, (R, 1)
    alpha: Array | float
    tau: Array | float
    lower_best: Array  #: smallest lower value so far, (R, 1); kept up with a `lower_tol`


def update_consensus(
    y: Array,
    L: Array,
    G: Array,
    settings: Settings,
    lower_best: Array,
    xp: ModuleType,
    ranking: AnyRanking | None = None,
) -> Update:
    """Selection, temperature, weights and consensus of one batch.

    Parameters
    ----------
    y : array of shape (R, N, d)
        Positions.
    L, G : array of shape (R, N)
        Values as told. NaN or +inf in L, or NaN in G where it is needed, is a failed evaluation.
    settings : Settings
        Parameters of this iteration.
    lower_best : array of shape (R, 1)
        Smallest lower value of the iterations before; used with a `lower_tol`.
    xp : module
        Array namespace.
    ranking : optional
        What `rank` returned for the same lower values and settings, where it is known already.

    Returns
    -------
    Update
    """
    if ranking is None and xp is np:
        ranking = rank(L, settings, lower_best, xp)
    if isinstance(ranking, RankingOfParts):
        return _of_parts(y, L, G, settings, lower_best, ranking.parts)
    if isinstance(ranking, (RankingOfOne, RankingOfRuns, RankingOfMany)):
        is_complete = is_tame(G)
        if is_complete or is_tame(G.take(ranking.used)):
            weights, m, alpha = ranking.weigh(y, G, settings.alpha)
            evaluated = None if is_complete else (G == G) | ranking.needed
            return Update(weights, m, None, evaluated, None, ranking.quantile, alpha, ranking.tau, lower_best)
        if isinstance(ranking, RankingOfRuns):
            usual = ranking.runs_that_are_tame(G)
            if usual.any():
                parts = [(mask.nonzero()[0], None) for mask in (usual, ~usual)]
                return _of_parts(y, L, G, settings, lower_best, parts)
        ranking = None
    return _update_on_arrays(y, L, G, settings, lower_best, xp, ranking)


def _of_parts(
    y: Array, L: Array, G: Array, settings: Settings, lower_best: Array, parts: Sequence[tuple[Any, AnyRanking | None]]
) -> Update:
    """What is learned from several runs of NumPy, from what is of each part of them."""
    updates = [
        (runs, update_consensus(y[runs], L[runs], G[runs], settings, lower_best[runs], np, ranking))
        for runs, ranking in parts
    ]

    def joined(name: str) -> Any:
        values = [(runs, getattr(update, name), len(update.weights)) for runs, update in updates]
        like = next((value for _, value, _ in values if np.ndim(value)), np.empty((1, 1)))
        if all(value is None for _, value, _ in values):
            return None
        none = name == "evaluated_upper"  # what None says of a run
        return in_order(
            [
                (runs, value if np.ndim(value) else np.full((n, *like.shape[1:]), none if value is None else value))
                for runs, value, n in values
            ]
        )

    return Update(*map(joined, Update._fields))


@overflow_is_infinity
def _update_on_arrays(
    y: Array, L: Array, G: Array, settings: Settings, lower_best: Array, xp: ModuleType, ranking: Ranking | None
) -> Update:
    """`update_consensus` in general: any array library, any number of runs, failed evaluations."""
    if ranking is None and xp is np:
        ranking = rank_on_arrays(L, settings, lower_best, xp)
    if ranking is not None and is_tame(G):
        upper, evaluated, failed = G, None, ranking.failed
    else:
        unknown = G != G
        upper = xp.where(unknown, 0.0, G)
        if not (xp is np and is_tame(upper)):  # +inf in G is data, as bad as can be
            upper = xp.minimum(clip_values(upper, xp), float_info(G, xp)[2] / 8.0)
        ranking, needed = _rank_known(L, unknown, settings, lower_best, xp, ranking)
        failed, evaluated = ~(math.inf > L) | (unknown & needed), ~unknown | needed
    if ranking.dead is not None:
        upper = xp.where(ranking.dead[:, None], 0.0, upper)
    if settings.upper_max is not None:
        upper = xp.minimum(upper, settings.upper_max)

    lower, order, alpha = ranking.lower, ranking.order, settings.alpha
    if alpha is None:
        inside = lower < math.inf if settings.selection == "none" else lower <= order.at
        alpha = alpha_from_rank(upper, inside, _alpha_rank(order.rank, xp), xp=xp)
    selected = ranking.selected or select(lower, order, settings, alpha, xp)
    weights = gibbs_weights(xp.where(selected.counts, upper, math.inf), alpha, selected.log_eta, xp=xp)
    quantile = order.at if ranking.dead is None else xp.where(ranking.dead[:, None], math.nan, order.at)
    return Update(
        weights, consensus_point(y, weights, xp=xp), failed, evaluated, ranking.dead, quantile, alpha, selected.tau,
        ranking.lower_best,
    )  # fmt: skip


def _rank_known(
    L: Array, unknown: Array, settings: Settings, lower_best: Array, xp: ModuleType, ranking: Ranking | None
) -> tuple[Ranking, Array]:
    """The ranking of a batch of which some upper values are unknown, and the rows that need one.

    A run that misses a needed value is ranked anew, among the rows whose values are all known.

    Parameters
    ----------
    L, settings, lower_best, xp
        As in `rank`.
    unknown : boolean array of shape (R, N)
        Where G is NaN.
    ranking : Ranking or None
        That of all rows; on NumPy only, and there always.
    """
    known = xp.where(unknown, math.inf, L)
    if ranking is not None or settings.tau_follows_upper:
        needed = math.inf > L if ranking is None else ranking.needed
        missed = xp.any(unknown & needed, axis=-1, keepdims=True)
        if ranking is None or any_true(missed, xp):
            ranking = rank_on_arrays(xp.where(missed, known, L), settings, lower_best, xp)
        return ranking, needed
    # looking at `missed` would wait for the device: both rankings are made, in one call
    n_runs = L.shape[0]
    both = rank_on_arrays(xp.concat([L, known]), settings, xp.concat([lower_best, lower_best]), xp)
    needed = both.needed[:n_runs, :]
    missed = as_index(xp.any(unknown & needed, axis=-1), xp)
    return both.take(count_up(n_runs, missed, xp) + n_runs * missed, xp), needed


def _alpha_rank(rank: Array | int, xp: ModuleType) -> Array | int:
    if isinstance(rank, int):
        return max(1, round(ALPHA_FRACTION * rank))
    return as_index(xp.maximum(xp.round(ALPHA_FRACTION * rank), 1.0), xp)
