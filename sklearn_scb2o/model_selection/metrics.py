"""Metrics that serve as an upper objective: worst group, gaps between groups, calibration; smaller is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_consistent_length

from .metric_inputs import (
    check_binning,
    check_loss,
    check_same_kind,
    checked_column,
    checked_probabilities,
    checked_weights,
    group_codes,
    is_positive,
    is_text,
    label_codes,
    predicted_labels,
    true_columns,
)

__all__ = ["demographic_parity_gap", "equalized_odds_gap", "expected_calibration_error", "worst_group_loss"]


def worst_group_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    loss: str | Callable[[Any, Any], ArrayLike] = "zero_one",
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Largest mean loss over the groups: ``max_g sum_{i in g} w_i loss_i / sum_{i in g} w_i``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels or targets.
    y_pred : array-like of shape (n_samples,) or (n_samples, n_classes)
        Predictions. For ``loss="log_loss"`` probabilities: one column per entry of `labels`, or one-dimensional with
        the probability of the second of two labels.
    sensitive_features : array-like of shape (n_samples,)
        Group of each row, as numbers or strings. A numeric one may have at most 20 distinct values.
    loss : {"zero_one", "squared_error", "absolute_error", "log_loss"} or callable, default="zero_one"
        Loss of a row. A callable takes `y_true` and `y_pred` and returns an array of shape (n_samples,). The log-loss
        clips probabilities to the machine epsilon of their type, as `sklearn.metrics.log_loss` does.
    labels : array-like of shape (n_classes,), default=None
        Only for the log-loss: the label of each column of `y_pred`; by default the sorted values of `y_true`.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights; a row of weight zero counts as absent. None: one each.

    Returns
    -------
    float
        The largest mean loss.

    Raises
    ------
    ValueError
        If lengths differ, values are missing or infinite, weights are negative or all zero, the sensitive column is
        continuous, labels and predictions mix text and numbers, or probabilities leave [0, 1], do not sum to one or
        do not fit `labels`.

    References
    ----------
    Sagawa, Koh, Hashimoto and Liang (2020), Distributionally robust neural networks for group shifts, ICLR.

    Examples
    --------
    >>> from sklearn_scb2o.model_selection.metrics import worst_group_loss
    >>> worst_group_loss([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["a", "a", "b", "b"])
    0.5
    """
    y_true = checked_column(y_true, "y_true")
    groups = group_codes(sensitive_features)
    check_consistent_length(y_true, y_pred, groups)
    weights = checked_weights(sample_weight, y_true.size)
    losses = _row_losses(y_true, y_pred, loss, labels)
    totals = np.bincount(groups, weights)
    sums = np.bincount(groups, losses if weights is None else weights * losses)
    present = totals > 0.0
    return float((sums[present] / totals[present]).max())


def demographic_parity_gap(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Largest minus smallest selection rate over the groups: ``max_g r_g - min_g r_g``, ``r_g = P(y_pred = c | g)``.

    Both of two classes have the same gap. With more classes the largest of their gaps counts.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or None
        True labels; they do not enter the value, and serve only to check the lengths and `pos_label`.
    y_pred : array-like of shape (n_samples,)
        Predicted labels, as numbers or strings.
    sensitive_features : array-like of shape (n_samples,)
        Group of each row, as numbers or strings. A numeric one may have at most 20 distinct values.
    pos_label : label, default=None
        The one class ``c`` to look at. None: all.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights; a row of weight zero counts as absent. None: one each.

    Returns
    -------
    float
        The gap, in [0, 1]; 0 if there is one group only.

    Raises
    ------
    ValueError
        If lengths differ, values are missing or infinite, weights are negative or all zero, the sensitive column or
        `y_pred` is continuous, labels and predictions mix text and numbers, or `pos_label` is no label.

    References
    ----------
    Dwork, Hardt, Pitassi, Reingold and Zemel (2012), Fairness through awareness, ITCS.

    Examples
    --------
    >>> from sklearn_scb2o.model_selection.metrics import demographic_parity_gap
    >>> demographic_parity_gap([0, 1, 1, 0], [1, 1, 1, 0], sensitive_features=["a", "a", "b", "b"])
    0.5
    """
    y_pred = predicted_labels(y_pred)
    y_true = y_pred if y_true is None else checked_column(y_true, "y_true")
    groups = group_codes(sensitive_features)
    check_consistent_length(y_true, y_pred, groups)
    check_same_kind(y_true, y_pred)
    weights = checked_weights(sample_weight, y_pred.size)
    if pos_label is not None:
        selected = y_pred == pos_label
        if not (np.any(selected) or np.any(y_true == pos_label)):
            raise ValueError(f"pos_label={pos_label!r} is neither in y_true nor in y_pred.")
        mass = selected if weights is None else weights * selected
        return _largest_gap(np.bincount(groups, mass), np.bincount(groups, weights))
    labels, codes = label_codes(y_pred)
    n_groups, n_labels = groups.max() + 1, labels.size
    cells = np.bincount(groups * n_labels + codes, weights, n_groups * n_labels).reshape(n_groups, n_labels)
    return _largest_gap(cells, cells.sum(axis=1, keepdims=True))


def equalized_odds_gap(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Larger of the gaps between groups in the true-positive and in the false-positive rate.

    The gap in a rate is its largest minus its smallest value over the groups, with the rates
    ``P(y_pred = c | y_true = c, g)`` and ``P(y_pred = c | y_true != c, g)``. With two classes both give the same
    value. With more, each class is set against the rest and the largest gap counts.

    A group without a row that a rate conditions on is left out of that rate; a rate left with fewer than two groups
    has gap 0.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, as numbers or strings.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    sensitive_features : array-like of shape (n_samples,)
        Group of each row, as numbers or strings. A numeric one may have at most 20 distinct values.
    pos_label : label, default=None
        The one class ``c`` to look at. None: all.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights; a row of weight zero counts as absent. None: one each.

    Returns
    -------
    float
        The gap, in [0, 1].

    Raises
    ------
    ValueError
        As `demographic_parity_gap`.

    References
    ----------
    Hardt, Price and Srebro (2016), Equality of opportunity in supervised learning, NeurIPS.

    Examples
    --------
    >>> from sklearn_scb2o.model_selection.metrics import equalized_odds_gap
    >>> equalized_odds_gap([1, 1, 0, 1, 1, 0], [1, 0, 0, 1, 1, 0], sensitive_features=list("aaabbb"))
    0.5
    """
    y_true, y_pred = checked_column(y_true, "y_true"), predicted_labels(y_pred)
    groups = group_codes(sensitive_features)
    check_consistent_length(y_true, y_pred, groups)
    check_same_kind(y_true, y_pred)
    weights = checked_weights(sample_weight, y_true.size)
    labels, codes = label_codes(np.concatenate([y_true, y_pred]))
    n_groups, n_labels = groups.max() + 1, labels.size
    cells = (groups * n_labels + codes[: y_true.size]) * n_labels + codes[y_true.size :]
    table = np.bincount(cells, weights, n_groups * n_labels**2).reshape(n_groups, n_labels, n_labels)
    # Sums of the other classes, not differences from the total: these would leave rounding where there is no row.
    others = 1.0 - np.eye(n_labels)
    of_class = table.sum(axis=2)
    true_positive = np.einsum("gcc->gc", table)
    false_positive = np.einsum("gtc,tc->gc", table, others)
    chosen = slice(None)
    if pos_label is not None:
        chosen = labels == pos_label
        if not np.any(chosen):
            raise ValueError(f"pos_label={pos_label!r} is neither in y_true nor in y_pred.")
    return max(
        _largest_gap(true_positive[:, chosen], of_class[:, chosen]),
        _largest_gap(false_positive[:, chosen], (of_class @ others)[:, chosen]),
    )


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Expected calibration error: ``sum_b |sum_{i in b} w_i (hit_i - p_i)| / sum_i w_i`` over bins ``b`` of ``p``.

    With one-dimensional `y_prob`, ``p_i`` is the probability of the positive class and ``hit_i`` says whether the row
    is of it. With a column per class, ``p_i`` is the largest probability of the row and ``hit_i`` says whether it is
    that of the true class (top-label calibration).

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, as numbers or strings.
    y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
        Probabilities, in [0, 1].
    n_bins : int, default=15
        Number of bins, at least 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins ``(a, b]`` of equal width on [0, 1], or of about equal weight.
    labels : array-like of shape (n_classes,), default=None
        The label of each column of `y_prob`; by default the sorted values of `y_true`.
    pos_label : label, default=None
        The positive class for one-dimensional `y_prob`. None: 1, if the labels are in {0, 1} or in {-1, 1}.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights; a row of weight zero counts as absent. None: one each.

    Returns
    -------
    float
        The error, in [0, 1].

    Raises
    ------
    ValueError
        If lengths differ, values are missing or infinite, weights are negative or all zero, probabilities leave
        [0, 1], do not sum to one or do not fit `labels`, `pos_label` is needed or is no label, or an option is not
        one of those above.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks, ICML.

    Examples
    --------
    >>> from sklearn_scb2o.model_selection.metrics import expected_calibration_error
    >>> expected_calibration_error([0, 1, 1, 1], [0.25, 0.75, 0.75, 0.75])
    0.25
    """
    check_binning(n_bins, strategy)
    y_true, y_prob = checked_column(y_true, "y_true"), checked_probabilities(y_prob)
    check_consistent_length(y_true, y_prob)
    weights = checked_weights(sample_weight, y_true.size)
    if y_prob.ndim == 1:
        confidence, hit = y_prob, is_positive(y_true, pos_label)
    else:
        confidence, hit = y_prob.max(axis=1), y_prob.argmax(axis=1) == true_columns(y_true, labels, y_prob.shape[1])
    levels = np.arange(1, n_bins) / n_bins
    edges = levels if strategy == "uniform" else _quantiles(confidence, levels, weights)
    bins = np.searchsorted(edges, confidence)
    excess, total = hit - confidence, y_true.size
    if weights is not None:
        excess, total = weights * excess, weights.sum()
    return float(np.abs(np.bincount(bins, excess)).sum() / total)


def _row_losses(y_true: np.ndarray, y_pred: Any, loss: Any, labels: ArrayLike | None) -> np.ndarray:
    check_loss(loss)
    if callable(loss):
        losses = np.asarray(loss(y_true, y_pred), dtype=float)
        if losses.shape != y_true.shape:
            raise ValueError(f"loss must return one value per row, shape {y_true.shape}, got {losses.shape}.")
        assert_all_finite(losses, input_name="loss")
        return losses
    if loss == "log_loss":
        y_prob = checked_probabilities(y_pred)
        n_labels = 2 if y_prob.ndim == 1 else y_prob.shape[1]
        columns = true_columns(y_true, labels, n_labels)
        if y_prob.ndim == 1:
            chosen = np.where(columns == 1, y_prob, 1.0 - y_prob)
        else:
            chosen = y_prob[np.arange(y_true.size), columns]
        return -np.log(np.maximum(chosen, np.finfo(y_prob.dtype).eps))
    y_pred = checked_column(y_pred, "y_pred")
    check_same_kind(y_true, y_pred)
    if loss == "zero_one":
        return (y_true != y_pred).astype(float)
    if is_text(y_true):
        raise ValueError(f"loss={loss!r} needs numeric targets.")
    difference = np.subtract(y_true, y_pred, dtype=float)
    return np.square(difference) if loss == "squared_error" else np.abs(difference)


def _quantiles(values: np.ndarray, levels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Smallest values with at least the given shares of the weight at or below them."""
    order = np.argsort(values)
    cumulated = np.arange(1, values.size + 1) if weights is None else np.cumsum(weights[order])
    return values[order[np.searchsorted(cumulated, levels * cumulated[-1])]]


def _largest_gap(mass: np.ndarray, total: np.ndarray) -> float:
    """Largest difference over the rows of mass / total, over columns; entries without mass in total are left out."""
    present = total > 0.0
    rates = mass / np.where(present, total, 1.0)
    gaps = np.where(present, rates, -np.inf).max(axis=0) - np.where(present, rates, np.inf).min(axis=0)
    return float(max(np.max(gaps), 0.0))
