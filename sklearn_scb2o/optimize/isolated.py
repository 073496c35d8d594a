"""The child of isolation.py: a script that by itself imports the standard library alone and runs what it is sent."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from typing import Any

if sys.platform == "win32":
    from multiprocessing.connection import PipeConnection as Connection
else:
    from multiprocessing.connection import Connection

#: Fields of an Outcome as they travel: value (pickled), failure, message, error (pickled), seconds.
Reply = tuple[bytes, str | None, str, bytes, float]
#: Functions that a process keeps; with one more it forgets them and starts afresh.
KEPT = 4
#: Seconds that a child has to end by itself.
GRACE = 1.0


def pack(value: Any, failure: str | None, message: str, error: BaseException | None, seconds: float) -> Reply:
    """Pickle what can be pickled; another value is a failed evaluation, another error is left out."""
    try:
        packed = _dumps(value)
    except Exception as problem:
        message = f"returned a {type(value).__qualname__}, which cannot be sent to another process: {problem!r}"
        return pack(None, "exception", message, None, seconds)
    try:
        return packed, failure, message, _dumps(error), seconds
    except Exception:
        return packed, failure, message, _dumps(None), seconds


def traceback_of(error: BaseException, skip: int) -> str:
    """The traceback as text, without its first frames, which are ours."""
    trace = error.__traceback__
    for _ in range(skip):
        trace = trace.tb_next if trace is not None else None
    return "".join(traceback.format_exception(type(error), error, trace))


def kind_of(error: BaseException) -> str:
    """What kind of failure an exception of the function is: it may watch the time itself."""
    return "timeout" if isinstance(error, TimeoutError) else "exception"


def send(connection: Connection, message: Any) -> None:
    """What ``connection.send`` does, in less time."""
    connection.send_bytes(pickle.dumps(message, protocol=5))


def receive(connection: Connection) -> Any:
    """What ``connection.recv`` does."""
    return pickle.loads(connection.recv_bytes())


def _dumps(value: Any) -> bytes:
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        if name in sys.modules:  # local classes came here by it, and go back by it
            return sys.modules[name].dumps(value)
    return pickle.dumps(value)


def _main(handle: int) -> None:
    connection = Connection(handle)
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the parent's; unlike SIG_IGN, not inherited
    threading.Thread(target=_end_with_parent, args=(_standard_input(),), daemon=True).start()
    functions: dict[str, Any] = {}
    try:
        sys.path[:] = receive(connection)
        send(connection, "ready")
        while True:
            token, payload, x = receive(connection)
            if payload is None:
                function, args = functions[token]
                reply = _evaluate(function, args, x)
            else:
                if len(functions) == KEPT:
                    functions.clear()
                reply = _load(functions, token, *payload)
            send(connection, reply)
            with contextlib.suppress(Exception):  # the function may have closed it
                sys.stdout.flush()
    except (EOFError, OSError):  # the parent has closed the connection, or has died
        return


def _standard_input() -> int:
    """A pipe that only the parent can write to, and never does; the function finds an empty input in its place."""
    watched = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return watched


def _end_with_parent(watched: int) -> None:
    os.read(watched, 1)  # returns when the other end is closed
    time.sleep(GRACE)
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)  # and the programs that the function has started
    os._exit(1)


def _load(functions: dict[str, Any], token: str, data: bytes, buffers: list[Any]) -> Reply:
    try:
        functions[token] = pickle.loads(data, buffers=buffers)
    except BaseException as error:
        return pack(None, "exception", traceback_of(error, 1), error, 0.0)
    return pack(None, None, "", None, 0.0)


def _evaluate(function: Any, args: tuple[Any, ...], x: Any) -> Reply:
    start = time.perf_counter()
    try:
        value = function(x, *args)
    except BaseException as error:
        return pack(None, kind_of(error), traceback_of(error, 1), error, time.perf_counter() - start)
    return pack(value, None, "", None, time.perf_counter() - start)


if __name__ == "__main__":
    _main(int(sys.argv.pop()))
