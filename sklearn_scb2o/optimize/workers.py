"""The pool that `workers` asks for: the caller, a function like ``map``, joblib, or an executor."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from functools import partial
from itertools import takewhile
from threading import Event
from typing import Any

import joblib
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from . import isolation
from .calls import Call, Outcome
from .executors import ExecutorPool, LokyPool, ThreadPool
from .isolation import Worker
from .pool import Finished, Key, Pool, Task, run


def make_pool(workers: Any, *, asynchronous: bool) -> Pool:
    """The pool that `workers` asks for.

    Parameters
    ----------
    workers : int, callable, executor or None
        A number of joblib's workers in its active backend (-1: one per core; None or 1: no workers, evaluations are
        made by the caller), a function like ``map``, or an object like a `concurrent.futures.Executor`.
    asynchronous : bool
        Whether calls are submitted while others are being evaluated.
    """
    if workers is None:
        return SerialPool()
    if hasattr(workers, "__index__") and not isinstance(workers, bool) and workers != 0:
        return SerialPool() if workers == 1 else _joblib_pool(int(workers), asynchronous)
    if hasattr(workers, "submit"):
        return ExecutorPool(workers)
    if callable(workers) and not asynchronous:
        return MapPool(workers)
    map_like = "" if asynchronous else "a callable like map, "  # all its values come at once
    raise ValueError(
        f"workers={workers!r} must be an int other than 0 (-1: one worker per core), {map_like}or a "
        f"concurrent.futures.Executor where asynchronous={asynchronous}"
    )


def _joblib_pool(n_jobs: int, asynchronous: bool) -> Pool:
    backend, _ = get_active_backend()
    if hasattr(backend, "client"):
        # dask: joblib would wait for ever for a task whose workers have died
        return ExecutorPool(backend.client.get_executor(pure=False))
    n_jobs = joblib.effective_n_jobs(n_jobs)
    if n_jobs == 1:
        return SerialPool()
    if not asynchronous:
        return JoblibPool(n_jobs)
    if getattr(backend, "supports_sharedmem", False):
        return ThreadPool(n_jobs)
    if _is_loky(backend):
        return LokyPool(n_jobs)
    raise ValueError(
        f"joblib's backend {type(backend).__name__} cannot take one evaluation at a time, as asynchronous evaluation "
        'needs; use "loky", "threading" or "dask", or pass workers=executor, a concurrent.futures.Executor'
    )


class SerialPool(Pool):
    """The caller evaluates, in order of submission."""

    def close(self) -> None:
        """End the process that evaluates, if there is one."""
        super().close()
        isolation.end_child()

    def _wait(self) -> Finished:
        key, (call, x) = next(iter(self._unfinished.items()))
        return key, call(x)


class MapPool(SerialPool):
    """A function like ``map``: ``map_like(call, points)`` returns the outcomes in order, one by one or all at once."""

    def __init__(self, map_like: Callable[..., Any]) -> None:
        super().__init__()
        self._map = map_like
        self._results: Iterator[Finished] = iter(())

    def _wait(self) -> Finished:
        finished = next(self._results, None)
        if finished is None:
            call, _ = next(iter(self._unfinished.values()))
            points = {key: x for key, (other, x) in self._unfinished.items() if other is call}
            self._results = self._mapped(call, points)
            finished = next(self._results)
        return finished

    def _mapped(self, call: Call, points: dict[Key, NDArray[Any]]) -> Iterator[Finished]:
        outcomes = iter(self._map(call, list(points.values())))
        for i, key in enumerate(points, 1):
            outcome = next(outcomes, None)
            if not isinstance(outcome, Outcome):
                raise ValueError(
                    f"workers={self._map!r} must return, as map does, what its function returns for each point; at "
                    f"point {i} of {len(points)} it had {outcome!r:.80}"
                )
            yield key, outcome


class JoblibPool(Pool):
    """Workers of joblib in its active backend, one pool of them for all evaluations.

    Evaluations are started when `next` needs one and none is running; those submitted later wait for these.
    """

    def __init__(self, n_jobs: int) -> None:
        super().__init__()
        backend, _ = get_active_backend()
        in_threads = getattr(backend, "supports_sharedmem", False)
        self._n_jobs, self._needs_pickling = n_jobs, not in_threads
        self._stop = Event()
        if in_threads:
            self._worker = Worker(stop=self._stop, environment=isolation.share_of_cores(n_jobs))
        else:
            self._worker = Worker(parent=os.getpid() if _is_loky(backend) else None)
        self._results: Iterator[list[Finished]] = iter(())
        self._is_open = True
        self._options = {
            "n_jobs": n_jobs,
            "return_as": "generator_unordered" if getattr(backend, "supports_return_generator", False) else "list",
            "batch_size": 1,  # fast evaluations do not make slow ones wait for each other
            "mmap_mode": "c",  # large arrays that the function holds can be written to
        }
        self._parallel = joblib.Parallel(**self._options).__enter__()

    @property
    def capacity(self) -> int:
        """The number of workers."""
        return self._n_jobs

    def close(self) -> None:
        """Stop the workers where they are evaluating; idle ones are kept by joblib for others."""
        if not self._is_open:
            return
        self._is_open = False
        self._stop.set()
        if self._unfinished and hasattr(self._results, "close"):
            # no more tasks are given to it; loky's thread fails at those that it has not taken when its workers end
            time.sleep(0.1)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*tasks ", UserWarning)  # that they are dropped, as is asked
                self._results.close()
        super().close()
        self._parallel.__exit__(None, None, None)

    def _goes_on(self, _: Task) -> bool:
        return self._is_open

    def _wait(self) -> Finished:
        while True:
            try:
                return next(self._results)[0]
            except StopIteration:
                delayed = joblib.delayed(partial(run, self._worker))
                tasks = [(key, *task) for key, task in self._unfinished.items()]
                self._results = iter(self._parallel(delayed([task]) for task in takewhile(self._goes_on, tasks)))
            except BrokenExecutor as error:
                self._mend(error)
                self._results = iter(())
                self._parallel.__exit__(None, None, None)  # it may still hold tasks
                self._parallel = joblib.Parallel(**self._options).__enter__()


def _is_loky(backend: Any) -> bool:
    return type(backend).__name__ == "LokyBackend"
