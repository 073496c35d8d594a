"""Callbacks in SciPy's manner."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from scipy.optimize import OptimizeResult


def as_callback(
    callback: Callable[..., Any] | None, points: Callable[[OptimizeResult], tuple[Any, ...]]
) -> Callable[[OptimizeResult], bool] | None:
    """The callback as a function of the intermediate result, which returns whether it raised StopIteration.

    Parameters
    ----------
    callback : callable or None
        Called as ``callback(intermediate_result=result)`` if its only parameter has that name, else with points.
    points : callable
        The points of a result.
    """
    if callback is None:
        return None
    try:
        takes_result = set(inspect.signature(callback).parameters) == {"intermediate_result"}
    except (TypeError, ValueError):
        takes_result = False

    def call(result: OptimizeResult) -> bool:
        try:
            if takes_result:
                callback(intermediate_result=result)
            else:
                callback(*points(result))
        except StopIteration:
            return True
        return False

    return call
