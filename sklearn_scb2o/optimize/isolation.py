"""A process of its own for the function that a thread evaluates, which may hang or die there."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import joblib
from numpy.typing import NDArray

from . import isolated
from .isolated import GRACE, KEPT, Reply, pack, receive, send

THREAD_LIMITS = (
    *(f"{library}_NUM_THREADS" for library in ("BLIS", "MKL", "NUMBA", "NUMEXPR", "OMP", "OPENBLAS")),
    "VECLIB_MAXIMUM_THREADS",
)

_local = threading.local()


def evaluate(token: str, payload: Callable[[], tuple[bytes, list[Any]]], x: NDArray[Any], timeout: float) -> Reply:
    """Evaluate a function in the child process of this thread, which is started where there is none.

    Parameters
    ----------
    token : str
        Which function it is.
    payload : callable
        Returns it pickled, with its large buffers; called where the child does not know the token yet.
    x : array
        Its argument.
    timeout : float
        Seconds after which the child is killed; loading the function does not count.

    Returns
    -------
    Reply
        The fields of an `Outcome`, see `isolated.pack`.
    """
    child = _child_of_this_thread()
    start = time.perf_counter()
    try:
        if token not in child.known:
            loaded = child.load(token, *payload())
            if loaded[1] is not None:
                return loaded
            start = time.perf_counter()
        return child.ask((token, None, x), timeout)
    except TimeoutError:
        failure, message = "timeout", f"not finished after timeout={timeout:g} seconds, and killed"
    except EOFError:
        failure, message = "killed", f"the process of the evaluation {child.how_it_ended}"
    return pack(None, failure, message, None, time.perf_counter() - start)


def end_child() -> None:
    """End the child process of this thread, if it has one."""
    child = getattr(_local, "child", None)
    if child is not None:
        child.end()


@dataclass(frozen=True)
class Worker:
    """What a worker is told with each evaluation.

    Attributes
    ----------
    parent : int, optional
        The process that its own is to end with.
    stop : threading.Event, optional
        Ends what it waits for, where it is a thread, which cannot be interrupted.
    environment : dict
        Variables of the process that evaluates for it.
    """

    parent: int | None = None
    stop: threading.Event | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Do as it says in this thread."""
        _local.worker = self
        if self.parent is not None:
            _end_with(self.parent)


def share_of_cores(n: int) -> dict[str, str]:
    """Variables for n processes that work at once: numerical libraries use n times as many threads otherwise."""
    share = str(max(1, joblib.cpu_count() // n))
    return {name: os.environ.get(name, share) for name in THREAD_LIMITS}


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent; workers of loky would wait for work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Child:
    """A Python process that evaluates functions for one thread, and can be killed."""

    def __init__(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = _start(theirs.fileno())
        self._connection = ours
        self._end = weakref.finalize(self, _end, self._process, ours, os.getpid())
        self.owner = os.getpid()
        self.known: set[str] = set()
        try:
            self.ask(sys.path)
        except EOFError:
            raise RuntimeError(
                f"{sys.executable} was started for an evaluation with a time limit and {self.how_it_ended}; "
                "its own message is above, on the standard error"
            ) from None

    @property
    def usable(self) -> bool:
        """Whether it can be asked, by this process: after a fork it is still the other one's."""
        return self._end.alive and self.owner == os.getpid() and self._process.poll() is None

    def load(self, token: str, data: bytes, buffers: list[Any]) -> Reply:
        """Give it a function."""
        if len(self.known) == KEPT:
            self.known.clear()
        reply: Reply = self.ask((token, (data, buffers), None))
        if reply[1] is None:
            self.known.add(token)
        return reply

    def ask(self, message: Any, timeout: float = math.inf) -> Any:
        """Its answer to a message; TimeoutError or EOFError where there is none, and it is no more."""
        deadline = time.monotonic() + timeout
        stop = _worker().stop
        try:
            send(self._connection, message)
            # its own children can hold the connection open when it has died: look after it each second
            while not self._connection.poll(min(1.0, max(0.0, deadline - time.monotonic()))):
                if time.monotonic() >= deadline:
                    raise TimeoutError
                if self._process.poll() is not None or (stop is not None and stop.is_set()):
                    raise EOFError
            return receive(self._connection)
        except BaseException as error:  # KeyboardInterrupt too: its late answer must not be taken for another's
            _kill(self._process)
            self.end()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise EOFError from None
            raise

    def end(self) -> None:
        """End it, if that has not been done."""
        self._end()

    @property
    def how_it_ended(self) -> str:
        """The exit code or the signal, in words."""
        code = self._process.returncode
        if code is None or code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"


def _child_of_this_thread() -> Child:
    child: Child | None = getattr(_local, "child", None)
    if child is None or not child.usable:
        _local.child = child = Child()
    return child


def _worker() -> Worker:
    return getattr(_local, "worker", Worker())


def _start(handle: int) -> subprocess.Popen[bytes]:
    options: dict[str, Any]
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)
        options = {"startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]})}
    else:
        options = {"pass_fds": [handle], "start_new_session": True}  # a group that can be killed as a whole
    # -P: the folder of the script is not a place to import from
    command = [sys.executable, "-P", isolated.__file__, str(handle)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | _worker().environment, **options)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it, with the programs that it has started where the system has groups of processes."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], connection: Connection, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the process that has started it
        return
    connection.close()
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        _kill(process)
    if process.stdin is not None:
        process.stdin.close()
    process.wait()
