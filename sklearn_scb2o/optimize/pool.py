"""What pools have in common: they take calls at points and give their outcomes, in any order."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import Any

import joblib
from numpy.typing import NDArray

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


def run(worker: Worker, tasks: list[Task]) -> list[Finished]:
    """Evaluate in a worker, as many as take a short time together, at least one."""
    worker.begin()
    start, finished = time.monotonic(), []
    for key, call, x in tasks:
        finished.append((key, call(x)))
        if time.monotonic() - start > TOGETHER[1]:
            break
    return finished


def run_nested(worker: Worker, tasks: list[Task]) -> list[Finished]:
    """The same in one that joblib does not know of: inside it joblib uses threads, not more processes."""
    with joblib.parallel_config("threading"):
        return run(worker, tasks)


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
