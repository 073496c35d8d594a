"""Checks of what the metrics are given: columns, groups, weights, labels and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import assert_all_finite, check_array, column_or_1d

# A numeric sensitive column with more distinct values than this is taken for a measurement, not for groups.
MAX_NUMERIC_GROUPS = 20

LOSSES = ("zero_one", "squared_error", "absolute_error", "log_loss")


def group_codes(sensitive_features: ArrayLike) -> np.ndarray:
    """Number the groups 0, 1, ...; an error for missing or continuous values."""
    column = checked_column(sensitive_features, "sensitive_features")
    names, codes = label_codes(column)
    if names.size > MAX_NUMERIC_GROUPS and not is_text(column):
        raise ValueError(
            f"sensitive_features is a numeric column with {names.size} distinct values, more than "
            f"{MAX_NUMERIC_GROUPS}: bin it into groups first, for example with numpy.digitize or pandas.cut "
            "(or turn codes into strings if these are groups indeed)."
        )
    return codes


def label_codes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values, in some order, and the position of each entry among them."""
    if values.dtype.kind != "O":
        return np.unique(values, return_inverse=True)
    # to sort Python objects takes several times as long as to look them up
    entries = values.tolist()
    position = {name: code for code, name in enumerate(dict.fromkeys(entries))}
    codes = np.fromiter(map(position.__getitem__, entries), dtype=np.intp, count=len(entries))
    return np.array(list(position), dtype=object), codes


def check_binning(n_bins: Any, strategy: Any) -> None:
    """Raise an error unless the options of the calibration error are valid."""
    if not isinstance(n_bins, (int, np.integer)) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins must be an integer of at least 1, got {n_bins!r}.")
    if strategy not in ("uniform", "quantile"):
        raise ValueError(f"strategy must be 'uniform' or 'quantile', got {strategy!r}.")


def check_loss(loss: Any) -> None:
    """Raise an error unless `loss` is a known name or a callable."""
    if not callable(loss) and loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))} or a callable, got {loss!r}.")


def checked_column(values: ArrayLike, name: str) -> np.ndarray:
    """One-dimensional array with at least one row and without missing or infinite values."""
    # scikit-learn's checks take longer than the metrics on small data: they are for what is not plainly right
    column = values if type(values) is np.ndarray and values.ndim == 1 else column_or_1d(values)
    if column.size == 0:
        raise ValueError(f"{name} has no rows.")
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        assert_all_finite(column, input_name=name)
    if column.dtype.kind == "O" and any(_is_missing(value) for value in set(column.tolist())):
        raise ValueError(f"{name} has missing values; give them a name of their own or drop the rows.")
    return column


def _is_missing(value: Any) -> bool:
    # not a number differs from itself; the missing value of pandas is of a class named NAType
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def predicted_labels(values: ArrayLike) -> np.ndarray:
    """Column of labels; an error for fractions, which are scores or probabilities."""
    labels = checked_column(values, "y_pred")
    if labels.dtype.kind == "f" and np.any(labels != np.trunc(labels)):
        raise ValueError("y_pred must hold predicted labels, not continuous scores or probabilities.")
    return labels


def checked_weights(sample_weight: ArrayLike | None, n_samples: int) -> np.ndarray | None:
    """Weights as floats, of which none is negative and not all are zero."""
    if sample_weight is None:
        return None
    weights = checked_column(sample_weight, "sample_weight").astype(float)
    if weights.size != n_samples:
        raise ValueError(f"sample_weight has {weights.size} entries for {n_samples} rows.")
    if np.any(weights < 0.0) or not np.any(weights):
        raise ValueError("sample_weight must be non-negative and not all zero.")
    return weights


def checked_probabilities(values: ArrayLike) -> np.ndarray:
    """Probabilities as an array of one or two dimensions."""
    y_prob: np.ndarray = np.asarray(values)
    if y_prob.dtype not in (np.float64, np.float32) or y_prob.ndim not in (1, 2) or not np.isfinite(y_prob).all():
        y_prob = check_array(values, ensure_2d=False, dtype=[np.float64, np.float32], input_name="y_prob")
    if y_prob.size and (y_prob.min() < 0.0 or y_prob.max() > 1.0):
        raise ValueError("Probabilities must lie in [0, 1].")
    if y_prob.ndim == 2 and np.any(np.abs(y_prob.sum(axis=1) - 1.0) > np.sqrt(np.finfo(y_prob.dtype).eps)):
        raise ValueError("The probabilities of a row must sum to one.")
    return y_prob


def true_columns(y_true: np.ndarray, labels: ArrayLike | None, n_columns: int) -> np.ndarray:
    """Column of each row's true label."""
    names = np.unique(y_true) if labels is None else checked_column(labels, "labels")
    if names.size != n_columns:
        raise ValueError(f"{n_columns} classes in the probabilities, but {names.size} labels: pass labels=.")
    check_same_kind(y_true, names)
    order = np.argsort(names)
    columns = order[np.minimum(np.searchsorted(names, y_true, sorter=order), names.size - 1)]
    if np.any(names[columns] != y_true):
        raise ValueError("y_true has a value that is not in labels.")
    return columns


def is_positive(y_true: np.ndarray, pos_label: Any) -> np.ndarray:
    """Whether each row is of the positive one of at most two classes."""
    labels = set(y_true.tolist())
    if len(labels) > 2:
        raise ValueError(f"One-dimensional y_prob is for two classes, but y_true has {len(labels)} labels.")
    if pos_label is None:
        if not (labels <= {0, 1} or labels <= {-1, 1}):
            raise ValueError("Pass pos_label=: the labels are neither in {0, 1} nor in {-1, 1}.")
        pos_label = 1
    elif len(labels) == 2 and pos_label not in labels:
        raise ValueError(f"pos_label={pos_label!r} is not in y_true.")
    return y_true == pos_label


def is_text(values: np.ndarray) -> bool:
    """Whether an array holds strings."""
    return values.dtype.kind in "UST" or (values.dtype.kind == "O" and isinstance(values[0], str))


def check_same_kind(first: np.ndarray, second: np.ndarray) -> None:
    """Raise an error if one array holds text and the other numbers: a comparison would never be true."""
    if is_text(first) != is_text(second):
        raise ValueError("True and predicted labels must be both text or both numbers.")
