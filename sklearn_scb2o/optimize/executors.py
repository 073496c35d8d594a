"""Pools on executors: those of the caller, and processes and threads of our own."""

from __future__ import annotations

import logging
import math
import os
import queue
import time
from collections import deque
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from numpy.typing import NDArray

from . import isolation
from .calls import Call, Outcome
from .isolation import Worker
from .pool import TOGETHER, Finished, Key, Pool, run, run_nested

_log = logging.getLogger("sklearn_scb2o")

#: Seconds for which the number of an executor's workers is taken to be what it was.
COUNT_EVERY = 1.0
#: Seconds of waiting for dask without workers, after which that is told.
DESERTED = 30.0


class ExecutorPool(Pool):
    """An executor of the caller: anything with a method ``submit`` that returns futures. It is never shut down.

    Evaluations are sent when `next` needs one; those that are fast several at a time.

    Parameters
    ----------
    executor : concurrent.futures.Executor, or alike
        Threads, processes, dask (``client.get_executor()`` or the client itself), MPI (``mpi4py.futures``) and so on.
    """

    _most_sent: float = math.inf
    _worker, _run = Worker(), staticmethod(run)

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
    _run = staticmethod(run_nested)

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

    _run = staticmethod(run_nested)

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
