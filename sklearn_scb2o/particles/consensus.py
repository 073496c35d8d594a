"""The consensus point: Gibbs weights of the upper objective on the selected particles, and their mean."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from .backend import Array, clamp, float_info, get_namespace, overflow_is_infinity, row_max, row_min, row_sum

_VANISHING = -746.0  # the exponential of less is 0


@overflow_is_infinity
def gibbs_weights(
    G: Array, alpha: Array | float, log_eta: Array | None = None, *, xp: ModuleType | None = None
) -> Array:
    r"""Normalised weights ``eta_i exp(-alpha G_i) / sum_j eta_j exp(-alpha G_j)``.

    Computed in logarithms relative to the largest one, so they neither overflow nor vanish together.

    Parameters
    ----------
    G : array of shape (..., N)
        Upper values; +inf excludes a particle. One in each run is finite.
    alpha : float or array of shape (..., 1), non-negative
        Inverse temperature, in units of 1/G.
    log_eta : array of shape (..., N), optional
        Logarithms of the selection weights; all equal by default, which is consensus-based optimization without a
        lower level.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., N)
        Non-negative, each run sums to 1.

    References
    ----------
    SCB2O paper, equation (soft consensus).

    Examples
    --------
    >>> import numpy as np
    >>> gibbs_weights(np.asarray([0.0, 0.0, np.log(2.0)]), 1.0)
    array([0.4, 0.4, 0.2])
    """
    xp = get_namespace(G, xp=xp)
    eps, tiny, largest = float_info(G, xp)
    # alpha in a range where excluded particles get -infinity and the best one 0, never NaN
    least = tiny * eps
    alpha = min(max(alpha, least), largest) if isinstance(alpha, (int, float)) else clamp(alpha, least, largest, xp)
    if log_eta is not None:
        is_in = log_eta > -math.inf
        if xp is np and G.ndim == 2 and 2 * np.count_nonzero(is_in) < G.size:
            return _weights_of_few(G, alpha, log_eta, is_in & (math.inf > G))
        G = xp.where(is_in, G, math.inf)
    logits = (G - row_min(G, xp)) * -alpha
    if log_eta is not None:
        logits = logits + log_eta
    weights = _exponentials(logits - row_max(logits, xp), xp)
    return weights / row_sum(weights, xp)


def _weights_of_few(G: Array, alpha: Any, log_eta: Array, is_in: Array) -> Array:
    """`gibbs_weights` on NumPy, G of shape (R, N), to the bit, where few particles have any weight."""
    n_runs, n = G.shape
    (index,) = is_in.reshape(-1).nonzero()
    ends = index.searchsorted(n * np.arange(n_runs + 1))
    starts, counts = ends[:-1], ends[1:] - ends[:-1]  # of each run among all that are in
    logits = G.take(index)
    logits -= np.minimum.reduceat(logits, starts).repeat(counts)
    logits *= -alpha if np.ndim(alpha) == 0 else -alpha[:, 0].repeat(counts)
    logits += log_eta.take(index)
    logits -= np.maximum.reduceat(logits, starts).repeat(counts)
    weights = np.zeros_like(G)
    weights.put(index, np.exp(logits))
    weights /= row_sum(weights, np)
    return weights


def _exponentials(logits: Array, xp: ModuleType) -> Array:
    """``exp(logits)``; on NumPy, where most are 0, in a fraction of the time."""
    if xp is not np:
        return xp.exp(logits)
    flat, out = logits.reshape(-1), np.zeros_like(logits)
    (index,) = (flat > _VANISHING).nonzero()
    out.put(index, np.exp(flat.take(index)))
    return out


def consensus_point(x: Array, weights: Array, *, xp: ModuleType | None = None) -> Array:
    """Weighted mean ``m = sum_i w_i x_i`` of the particles of each run.

    Parameters
    ----------
    x : array of shape (..., N, d)
        Positions.
    weights : array of shape (..., N)
        Normalised weights, as `gibbs_weights` returns them.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., d)
        Inside the convex hull of the particles, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> consensus_point(np.asarray([[0.0, 0.0], [2.0, 4.0]]), np.asarray([0.5, 0.5]))
    array([1., 2.])
    """
    xp = get_namespace(x, weights, xp=xp)
    return xp.matmul(weights[..., None, :], x)[..., 0, :]


def effective_sample_size(weights: Array, *, xp: ModuleType | None = None) -> Array:
    """Effective sample size ``(sum_i w_i)^2 / sum_i w_i^2`` of each run, between 1 and N.

    Parameters
    ----------
    weights : array of shape (..., N)
        Non-negative weights, not all zero.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (...)

    Examples
    --------
    >>> import numpy as np
    >>> float(effective_sample_size(np.asarray([0.5, 0.5, 0.0])))
    2.0
    """
    xp = get_namespace(weights, xp=xp)
    scaled = weights / row_max(weights, xp)
    total = row_sum(scaled, xp)[..., 0]
    return total * total / xp.vecdot(scaled, scaled)
