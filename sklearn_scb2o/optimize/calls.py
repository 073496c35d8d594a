"""One evaluation of the user's function, in whatever process: errors are caught, attempts repeated, time is limited."""

from __future__ import annotations

import contextlib
import math
import pickle
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import isolation
from .isolated import KEPT, kind_of, pack, traceback_of
from .parameters import check_count, check_number

try:
    import cloudpickle
except ImportError:  # joblib has carried its own
    from joblib.externals import cloudpickle

#: Bytes from which on arrays that a function holds are sent beside it, so that joblib can map them into memory.
LARGE = 1_000_000


@dataclass(frozen=True)
class Outcome:
    """What came out of an evaluation.

    Attributes
    ----------
    value : object
        What the function returned.
    failure : {None, "exception", "timeout", "killed"}
        Why there is no value; a TimeoutError of the function is a "timeout", too.
    message : str
        The traceback, or what has happened.
    error : BaseException, optional
        The exception, where it could be brought here from the process that raised it.
    seconds : float
        Duration of the last attempt.
    """

    value: Any = None
    failure: str | None = None
    message: str = ""
    error: BaseException | None = None
    seconds: float = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        # whatever pickles it, an odd value or error is no trouble for the pool
        return _unpack, pack(self.value, self.failure, self.message, self.error, self.seconds)


def _unpack(value: bytes, failure: str | None, message: str, error: bytes, seconds: float) -> Outcome:
    raised: BaseException | None = None
    with contextlib.suppress(Exception):
        raised = pickle.loads(error)
    try:
        return Outcome(pickle.loads(value), failure, message, raised, seconds)
    except Exception as problem:
        message = f"returned what cannot be read in the process of the optimizer: {problem!r}"
        return Outcome(None, "exception", message, None, seconds)


class Call:
    """Evaluations of a function: called with a point it returns an `Outcome`, wherever it is called.

    Parameters
    ----------
    function : callable
        ``function(x, *args)``. It gets an array of its own each time, contiguous and writable.
    args : tuple
        Further arguments.
    retries : int
        Attempts after one that raised, ran out of time or was killed.
    timeout : float, optional
        Seconds for an attempt. The function is then evaluated in a process of its own, which is killed after that
        time, and may itself die without harm. With ``inf`` there is no limit, only that process.

    Notes
    -----
    KeyboardInterrupt is not caught in the process of the caller. SystemExit counts as an exception of the function.

    Examples
    --------
    >>> import numpy as np
    >>> Call(lambda x, power: float(x.sum() ** power), (2,))(np.ones(3)).value
    9.0
    >>> Call(lambda x: 1 / 0)(np.ones(3)).failure
    'exception'
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        *,
        retries: int = 0,
        timeout: float | None = None,
    ) -> None:
        self._function = function if isinstance(function, _Function) else _Function((function, tuple(args)))
        self.retries = check_count("retries", retries, least=0)
        if timeout is not None and timeout != math.inf:
            timeout = check_number("timeout", timeout)
        self.timeout = timeout

    def __call__(self, x: NDArray[Any]) -> Outcome:
        """Evaluate at a point."""
        for _ in range(self.retries + 1):
            outcome = self._attempt(np.array(x, order="C"))
            if outcome.failure is None:
                break
        return outcome

    def isolated(self) -> Call:
        """The same with each evaluation in a process of its own."""
        if self.timeout is not None:
            return self
        return Call(self._function, retries=self.retries, timeout=math.inf)

    def check(self) -> None:
        """Raise ValueError if it cannot be sent to another process."""
        self._function.payload()

    def __reduce__(self) -> tuple[Any, ...]:
        return _received_call, (self._function.token, *self._function.payload(), self.retries, self.timeout)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return self._function.token, self.retries, self.timeout

    def _attempt(self, x: NDArray[Any]) -> Outcome:
        if self.timeout is not None:
            return _unpack(*isolation.evaluate(self._function.token, self._function.payload, x, self.timeout))
        start = time.perf_counter()
        try:
            value = self._function(x)
        except (Exception, SystemExit) as error:
            return Outcome(None, kind_of(error), traceback_of(error, 2), error, time.perf_counter() - start)
        return Outcome(value, seconds=time.perf_counter() - start)


class _Function:
    """A function with its further arguments, here or in transit: pickled once, loaded once by each process."""

    def __init__(
        self,
        local: tuple[Callable[..., Any], tuple[Any, ...]] | None,
        token: str = "",
        sent: tuple[bytes, list[Any]] | None = None,
    ) -> None:
        self._local, self.token, self._sent = local, token or uuid.uuid4().hex, sent

    def __call__(self, x: NDArray[Any]) -> Any:
        if self._local is None:
            data, buffers = self.payload()
            self._local = pickle.loads(data, buffers=buffers)
        function, args = self._local
        return function(x, *args)

    def payload(self) -> tuple[bytes, list[Any]]:
        """It pickled, and the contents of the large arrays that it holds."""
        if self._sent is None:
            buffers: list[Any] = []

            def keep(buffer: pickle.PickleBuffer) -> bool:
                content = np.frombuffer(buffer.raw(), dtype=np.uint8)
                if content.nbytes < LARGE:
                    return True
                buffers.append(content)
                return False

            try:
                data = cloudpickle.dumps(self._local, protocol=5, buffer_callback=keep)
            except Exception as error:
                assert self._local is not None
                name = getattr(self._local[0], "__qualname__", repr(self._local[0]))
                raise ValueError(
                    f"{name} (or its args) cannot be sent to another process: {error}; open what cannot be pickled "
                    "inside the function, or evaluate in this process: no timeout, and workers=1 or threads, by "
                    'joblib.parallel_config("threading")'
                ) from error
            self._sent = data, buffers
        return self._sent

    def __hash__(self) -> int:
        return hash(self.token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Function) and other.token == self.token


@lru_cache(maxsize=KEPT)
def _first_of(function: _Function) -> _Function:
    """The equal one that came first to this process, which has been loaded."""
    return function


def _received_call(token: str, data: bytes, buffers: list[Any], retries: int, timeout: float | None) -> Call:
    return Call(_first_of(_Function(None, token, (data, buffers))), retries=retries, timeout=timeout)
