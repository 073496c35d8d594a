"""Threads that share the work on a large array of NumPy, whose functions let others run meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import joblib

MOST = 4  #: threads at most: calls that take some tens of microseconds leave no room for more between them

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def n_threads() -> int:
    """As many as the environment variable SCB2O_NUM_THREADS asks for, but no more than cores or `MOST`; by default one.

    On cores that other threads need, among them those of NumPy's linear algebra, several take longer than one.
    """
    wanted = os.environ.get("SCB2O_NUM_THREADS", "")
    return max(1, min(MOST, _n_cores(), int(wanted))) if wanted.isdecimal() else 1


def map_in_threads(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """The results in the order of the items."""
    n = n_threads()
    return list(_pool(n).map(function, items) if min(n, len(items)) > 1 else map(function, items))


@lru_cache(maxsize=1)
def _n_cores() -> int:
    return int(joblib.cpu_count())


@lru_cache(maxsize=1)
def _pool(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, thread_name_prefix="sklearn_scb2o")


if hasattr(os, "register_at_fork"):  # threads do not exist in a forked process
    os.register_at_fork(after_in_child=_pool.cache_clear)
