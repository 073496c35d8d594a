"""Rows of data of any container."""

from __future__ import annotations

from typing import Any

import numpy as np


def n_rows(X: Any) -> int:
    """Number of rows."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(data: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a sparse matrix, a pandas or polars frame or series, or a list; None stays None."""
    if data is None:
        return None
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if hasattr(data, "shape") or hasattr(data, "__dataframe__") or hasattr(data, "gather"):
        return data[rows]
    return [data[int(i)] for i in rows]


def take_params(params: dict[str, Any], rows: np.ndarray, n_samples: int) -> dict[str, Any]:
    """Parameters of `fit` for some rows: those with an entry for each row are cut, the others stay."""
    return {name: take_rows(value, rows) if _is_by_row(value, n_samples) else value for name, value in params.items()}


def _is_by_row(value: Any, n_samples: int) -> bool:
    sized = hasattr(value, "__len__") or hasattr(value, "shape")
    return sized and not isinstance(value, (str, bytes, dict)) and np.ndim(value) != 0 and n_rows(value) == n_samples
