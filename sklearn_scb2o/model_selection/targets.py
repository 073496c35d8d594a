"""Targets as losses take them, (n_outputs, n_samples), from y as a user gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

__all__ = ["class_indicators", "class_indices", "real_targets"]


def real_targets(y: Any) -> np.ndarray:
    """Targets (n_outputs, n_samples) of y, (n_samples,) or (n_samples, n_outputs)."""
    y = check_array(y, ensure_2d=False, dtype=np.float64)
    return y[None] if y.ndim == 1 else y.T


def class_indices(estimator: Any, y: Any) -> np.ndarray:
    """Index in `classes_` of each entry of y, (n_samples,)."""
    y, classes = np.asarray(y), estimator.classes_
    indices = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = np.unique(y[classes[indices] != y])
    if len(unknown):
        raise ValueError(f"y has classes that {type(estimator).__name__} was not fitted to: {unknown.tolist()}")
    return indices


def class_indicators(estimator: Any, y: Any) -> np.ndarray:
    """Indicators {0, 1} of the classes, (n_classes, n_samples); of two classes only the second, (1, n_samples)."""
    indices, n_classes = class_indices(estimator, y), len(estimator.classes_)
    if n_classes == 2:
        return 1.0 * (indices == 1)[None]
    return 1.0 * (indices == np.arange(n_classes)[:, None])
