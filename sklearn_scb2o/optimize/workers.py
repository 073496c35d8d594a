"""Pools: where evaluations are made. Each takes calls at points and gives their outcomes, in any order."""

from __future__ import annotations

import logging
import math
import os
import queue
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from threading import Event
from typing import Any

import joblib
from joblib.externals.loky import ProcessPoolExecutor
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from . import isolation
from .calls import Call, Outcome
from .isolation import Worker

Key = tuple[int, str]  # running number of the evaluation; "L", "G" or "LG"
Task = tuple[Key, Call, NDArray[Any]]
Finished = tuple[Key, Outcome]

_log = logging.getLogger("sklearn_scb2o")

#: Times in a row that worker processes may die without an evaluation being finished.
MAX_BREAKS = 3
#: Seconds that evaluations which are sent together should take at least, and may take at most.
TOGETHER = 0.1, 0.5
#: Seconds for which the number of an executor's workers is taken to be what it was.
COUNT_EVERY = 1.0
#: Seconds of waiting for dask without workers, after which that is told.
DESERTED = 30.0


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


def _run(worker: Worker, tasks: list[Task]) -> list[Finished]:
    """Evaluate in a worker, as many as take a short time together, at least one."""
    worker.begin()
    start, finished = time.monotonic(), []
    for key, call, x in tasks:
        finished.append((key, call(x)))
        if time.monotonic() - start > TOGETHER[1]:
            break
    return finished


def _run_nested(worker: Worker, tasks: list[Task]) -> list[Finished]:
    """The same in one that joblib does not know of: inside it joblib uses threads, not more processes."""
    with joblib.parallel_config("threading"):
        return _run(worker, tasks)


class Pool(ABC):
    """Where evaluations are made."""

    _needs_pickling = False
    _isolate = False
    _breaks = 0  # since an evaluation was finished

    def __init__(self) -> None:
        self._unfinished: dict[Key, tuple[Call, NDArray[Any]]] = {}  # in order of submission

    @property
    def capacity(self) -> int:
        """Evaluations that can be worked on at once."""
        return 1

    def submit(self, key: Key, call: Call, x: NDArray[Any]) -> None:
        """Ask for an evaluation; keys of unfinished ones differ."""
        if self._needs_pickling:
            call.check()
        self._unfinished[key] = call.isolated() if self._isolate else call, x

    def next(self) -> Finished:
        """Wait for one that is finished."""
        if not self._unfinished:
            raise RuntimeError("no evaluation is unfinished: submit one first")
        key, outcome = self._wait()
        del self._unfinished[key]
        self._breaks = 0
        return key, outcome

    def close(self) -> None:
        """Drop what is unfinished, and free what is our own."""
        self._unfinished.clear()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _wait(self) -> Finished: ...

    def _mend(self, error: BaseException) -> None:
        # It cannot be known which evaluation has killed its worker. So the unfinished ones are repeated and, from then
        # on, all are made in processes of their own: those that die there are the ones
        self._breaks, self._isolate = self._breaks + 1, True
        if self._breaks > MAX_BREAKS:
            raise RuntimeError(
                f"worker processes have died {self._breaks} times in a row, with no evaluation finished: {error}"
            ) from error
        _log.warning("a worker process has died; from now on each evaluation is made in a process of its own")
        self._unfinished = {key: (call.isolated(), x) for key, (call, x) in self._unfinished.items()}


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
                run = joblib.delayed(partial(_run, self._worker))
                tasks = [(key, *task) for key, task in self._unfinished.items()]
                self._results = iter(self._parallel(run([task]) for task in takewhile(self._goes_on, tasks)))
            except BrokenExecutor as error:
                self._mend(error)
                self._results = iter(())
                self._parallel.__exit__(None, None, None)  # it may still hold tasks
                self._parallel = joblib.Parallel(**self._options).__enter__()


class ExecutorPool(Pool):
    """An executor of the caller: anything with a method ``submit`` that returns futures. It is never shut down.

    Evaluations are sent when `next` needs one; those that are fast several at a time.

    Parameters
    ----------
    executor : concurrent.futures.Executor, or alike
        Threads, processes, dask (``client.get_executor()`` or the client itself), MPI (``mpi4py.futures``) and so on.
    """

    _most_sent: float = math.inf
    _worker, _run = Worker(), staticmethod(_run)

    def __init__(self, executor: Any) -> None:
        super().__init__()
        self._executor = executor
        self._capacity, self._counted_at = _capacity(executor), time.monotonic()
        self._waiting: deque[Key] = deque()
        self._sent: dict[Key, Any] = {}  # the first key of each task, and its future
        self._arrived: queue.SimpleQueue[tuple[list[Key], Any]] = queue.SimpleQueue()
        self._finished: deque[Finished] = deque()
        self._alone = False
        self._deserted_since: float | None = None
        self._seconds = math.inf  # of the evaluations of late, on average

    @property
    def capacity(self) -> int:
        """The number of workers, which may change while a cluster runs: as it was less than `COUNT_EVERY` ago."""
        now = time.monotonic()
        if now - self._counted_at >= COUNT_EVERY:
            self._capacity, self._counted_at = _capacity(self._executor), now
        return self._capacity

    def submit(self, key: Key, call: Call, x: NDArray[Any]) -> None:
        """Queue it."""
        super().submit(key, call, x)
        self._waiting.append(key)

    def close(self) -> None:
        """Cancel what has not begun."""
        super().close()
        for future in list(self._sent.values()):
            future.cancel()

    def _wait(self) -> Finished:
        while True:
            self._send()
            if self._finished:
                break
            try:
                keys, result = self._arrived.get(timeout=1.0)
            except queue.Empty:  # a wait without an end does not see Ctrl-C where another thread was told of it
                self._warn_if_deserted()
                continue
            if not isinstance(result, BaseException):
                self._finished.extend(result)
                self._waiting.extendleft(reversed(keys[len(result) :]))  # they would have waited for a slow one
            elif isinstance(result, BrokenExecutor):
                self._renew(result)
            elif type(result).__name__ == "KilledWorker":  # of dask
                self._repeat_or_fail(keys, str(result))
            else:
                raise result
        key, outcome = self._finished.popleft()
        self._seconds = 0.9 * self._seconds + 0.1 * outcome.seconds if self._seconds < math.inf else outcome.seconds
        return key, outcome

    def _send(self) -> None:
        while self._waiting and len(self._sent) < self._most_sent:
            keys = [self._waiting.popleft() for _ in range(self._next_size())]
            tasks = [(key, *self._unfinished[key]) for key in keys]
            try:
                future = self._executor.submit(self._run, self._worker, tasks)
            except BrokenExecutor as error:
                self._arrived.put((keys, error))
                return
            self._sent[keys[0]] = future
            future.add_done_callback(partial(self._done, keys))

    def _next_size(self) -> int:
        """How many to send together: of fast ones many at first and fewer at the end, so that all workers end at once.

        A task costs dask as much as 10 ms.
        """
        if self._alone:
            return 1
        least, most = (seconds / max(self._seconds, 1e-6) for seconds in TOGETHER)
        share = len(self._waiting) / self.capacity
        return max(1, int(min(most, max(share / 2, min(share, least)))))

    def _done(self, keys: list[Key], future: Any) -> None:
        # futures are dropped at once: results of those that are kept are made again by dask when a worker is lost
        self._sent.pop(keys[0], None)
        try:
            result = future.result()
        except BaseException as error:
            result = error
        self._arrived.put((keys, result))

    def _warn_if_deserted(self) -> None:
        # dask waits for workers for ever, as a cluster may grow; but those that die again and again it may give up
        if _n_threads_of_dask(self._executor) != 0:
            self._deserted_since = None
        elif self._deserted_since is None:
            self._deserted_since = time.monotonic()
        elif time.monotonic() - self._deserted_since >= DESERTED:
            self._deserted_since = math.inf  # it is told once
            _log.warning("dask has no workers; waiting for some to join")

    def _repeat_or_fail(self, keys: list[Key], message: str) -> None:
        # one beside it may be to blame: from now on each is sent alone, to a process of its own
        self._isolate = self._alone = True
        for key in keys:
            call, x = self._unfinished[key]
            if len(keys) == 1 and call.timeout is not None:
                self._finished.append((key, Outcome(failure="killed", message=message)))
            else:
                self.submit(key, call, x)

    def _renew(self, error: BrokenExecutor) -> None:
        raise RuntimeError(
            f"workers={self._executor!r} is broken, a worker process has died: {error}; with workers=<int> a broken "
            "pool is replaced, and with timeout= evaluations cannot break one"
        ) from error


class LokyPool(ExecutorPool):
    """Processes of our own, which are replaced when they die."""

    _needs_pickling = True
    _run = staticmethod(_run_nested)

    def __init__(self, n_jobs: int) -> None:
        self._n_jobs = n_jobs
        super().__init__(self._new_executor())
        self._worker = Worker(parent=os.getpid())
        self._most_sent = 2 * n_jobs  # loky has room for so many; its own queue could not be given up

    def close(self) -> None:
        """Kill the processes."""
        futures = list(self._sent.values())
        Pool.close(self)
        # loky's thread must have taken what was sent, or it fails at it; there is room for all, so this is soon
        deadline = time.monotonic() + 1.0
        while any(not (f.running() or f.done()) for f in futures) and time.monotonic() < deadline:
            time.sleep(0.001)
        self._executor.shutdown(wait=True, kill_workers=True)

    def _new_executor(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._n_jobs, env=isolation.share_of_cores(self._n_jobs))

    def _renew(self, error: BrokenExecutor) -> None:
        self._mend(error)
        self._executor.shutdown(wait=True, kill_workers=True)
        self._executor = self._new_executor()
        # of what was sent all has arrived by now, some with values
        arrived = [self._arrived.get()[1] for _ in range(self._arrived.qsize())]
        self._finished.extend(item for result in arrived if isinstance(result, list) for item in result)
        known = {key for key, _ in self._finished}
        self._waiting = deque(key for key in self._unfinished if key not in known)


class ThreadPool(ExecutorPool):
    """Threads of our own."""

    _run = staticmethod(_run_nested)

    def __init__(self, n_jobs: int) -> None:
        super().__init__(ThreadPoolExecutor(n_jobs))
        self._stop = Event()
        self._worker = Worker(stop=self._stop, environment=isolation.share_of_cores(n_jobs))

    def close(self) -> None:
        """End the threads; evaluations in processes of their own are killed, others cannot be interrupted."""
        super().close()
        self._stop.set()
        self._executor.shutdown(wait=False, cancel_futures=True)


def _capacity(executor: Any) -> int:
    """Workers of an executor: of mpi4py, of the standard library and loky, or threads of dask's workers."""
    for name in ("num_workers", "_max_workers"):
        if isinstance(getattr(executor, name, None), int):
            return int(getattr(executor, name))
    n = _n_threads_of_dask(executor)
    return max(1, n) if n is not None else os.cpu_count() or 1


def _n_threads_of_dask(executor: Any) -> int | None:
    """Threads of the workers of dask at this time; None where it is another executor."""
    client = getattr(executor, "_client", executor)
    return sum(client.nthreads().values()) if hasattr(client, "nthreads") else None


def _is_loky(backend: Any) -> bool:
    return type(backend).__name__ == "LokyBackend"
