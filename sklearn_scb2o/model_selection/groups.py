"""Which weights enter and leave a model together."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..particles.backend import Array, get_namespace, move
from .weight_spaces import WeightSpace

GROUP_BY = ("feature", "weight", "unit")


def feature_labels(group_by: Any, n_features: int) -> np.ndarray:
    """Group of each column: its own for "feature", else the given labels numbered from 0 in the order of np.unique."""
    if isinstance(group_by, str):
        return np.arange(n_features)
    labels = np.asarray(group_by)
    if labels.shape != (n_features,):
        raise ValueError(
            f"group_by has shape {labels.shape}, but X has {n_features} columns: give a label for each column, or one "
            f"of {GROUP_BY}"
        )
    return np.unique(labels, return_inverse=True)[1]


def membership_of(space: WeightSpace, group_by: Any, n_features: int) -> sparse.csr_array:
    """Membership of weights in groups, a sparse 0/1 array of shape (n_groups, n_weights).

    Parameters
    ----------
    space : WeightSpace
        Where the weights are.
    group_by : {"feature", "weight", "unit"} or array-like of shape (n_features,)
        One group for each column of X, for each weight that is not an intercept, for each hidden unit; or the label
        of the group of each column.
    n_features : int
        Columns of X.
    """
    if isinstance(group_by, str) and group_by == "unit":
        units = space.units()
        if units is None:
            raise ValueError("group_by='unit' needs a model with hidden units, such as MLPClassifier")
        return units
    if isinstance(group_by, str) and group_by == "weight":
        members = np.flatnonzero(~space.is_intercept)
        groups, n_groups = np.arange(len(members)), len(members)
    else:
        labels = feature_labels(group_by, n_features)
        members = np.flatnonzero(space.feature_of_weight >= 0)
        groups, n_groups = labels[space.feature_of_weight[members]], int(labels.max()) + 1
    return sparse.csr_array((np.ones(len(members)), (groups, members)), shape=(n_groups, space.n_weights))


def groups_in(membership: sparse.csr_array, weights: Array) -> Array:
    """Which groups have a weight that is not zero, as numbers 0 and 1.

    Parameters
    ----------
    membership : sparse array of shape (n_groups, n_weights)
        See `membership_of`.
    weights : array of shape (k, n_weights)
        Of any library.

    Returns
    -------
    array of shape (k, n_groups)
    """
    if isinstance(weights, np.ndarray):
        return (membership @ (weights != 0.0).T.astype(float) > 0.0).T.astype(weights.dtype)
    xp = get_namespace(weights)
    rows = membership.tocsr()
    is_in = xp.take(weights != 0.0, move(rows.indices.astype(np.int64), weights), axis=1)
    counts = xp.cumulative_sum(xp.astype(is_in, xp.int64), axis=1, include_initial=True)
    ends = move(rows.indptr.astype(np.int64), weights)
    return xp.astype(xp.take(counts, ends[1:], axis=1) > xp.take(counts, ends[:-1], axis=1), weights.dtype)
