"""L and G at points, through a pool of workers; failures counted and noted."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from .calls import Call, Outcome
from .journal import Journal, JournaledPool
from .pool import Key, Pool

Floats = NDArray[np.float64]
ON_ERROR = ("raise", "fail")
#: Kinds of failed evaluations: the function raised, returned what is no number, took too long, lost its process, or
#: said so by returning None, NaN, or an infinite L.
FAILURES = ("exception", "invalid", "timeout", "killed", "nan")
#: Failures that are noted with their point and message.
MAX_NOTED = 100


class Evaluator:
    """The two objectives of a problem.

    Parameters
    ----------
    lower : callable
        ``lower(x, *args)``, L at a point of shape (d,); with `vectorized`, at points of shape (n, d), returning (n,).
        Where `upper` is None it returns the pair (L, G).
    upper : callable or None
        ``upper(x, *args)``, G likewise.
    pool : Pool
        Where they are called.
    args : tuple
        Further arguments of both.
    vectorized : bool
        Whether the functions take batches, which then are evaluated, or fail, as a whole.
    on_error : {"raise", "fail"}
        Whether a function that fails ends the run.
    timeout : float or None
        Seconds that a call may take, in a process of its own.
    retries : int
        Further attempts after a failure.
    memory : str, path or joblib.Memory, optional
        Where values are kept and looked up.
    journal : Journal, optional
        Where finished evaluations are recorded, and taken from when a run is resumed.

    Attributes
    ----------
    nfev_lower, nfev_upper : int
        Evaluations that are finished.
    failures : dict
        Number of failed evaluations by kind.
    failure_log : deque of dict
        The last of them: number, objective, x, kind, message.
    """

    def __init__(
        self,
        lower: Callable[..., Any],
        upper: Callable[..., Any] | None,
        pool: Pool,
        *,
        args: tuple[Any, ...] = (),
        vectorized: bool = False,
        on_error: str = "raise",
        timeout: float | None = None,
        retries: int = 0,
        memory: Any = None,
        journal: Journal | None = None,
    ) -> None:
        if on_error not in ON_ERROR:
            raise ValueError(f"on_error={on_error!r} is not one of {ON_ERROR}")
        self._pool = pool if journal is None else JournaledPool(pool, journal, self._is_kept)
        self._vectorized, self._raises = vectorized, on_error == "raise"
        functions = {"LG": lower} if upper is None else {"L": lower, "G": upper}
        if isinstance(memory, (str, os.PathLike)):
            memory = joblib.Memory(memory, verbose=0)
        if memory is not None:
            functions = {kind: memory.cache(f) for kind, f in functions.items()}
        self._calls = {kind: Call(f, args, retries=retries, timeout=timeout) for kind, f in functions.items()}
        self._points: dict[Key, Floats] = {}  # of evaluations that are not finished
        self._extra = 0  # points so far that the optimizer did not ask for; their numbers are negative
        self.nfev_lower = self.nfev_upper = 0
        self.failures = dict.fromkeys(FAILURES, 0)
        self.failure_log: deque[dict[str, Any]] = deque(maxlen=MAX_NOTED)

    @property
    def is_joint(self) -> bool:
        """Whether one call gives both values."""
        return "LG" in self._calls

    @property
    def first_kind(self) -> str:
        """What is evaluated first at a point: "LG", or "L"."""
        return "LG" if self.is_joint else "L"

    @property
    def capacity(self) -> int:
        """Evaluations that can be worked on at once."""
        return self._pool.capacity

    @property
    def n_running(self) -> int:
        """Evaluations that are submitted and not finished."""
        return len(self._points)

    @property
    def n_asked(self) -> int:
        """Points so far that the optimizer asked for."""
        return self.nfev_lower - self._extra

    def batch(self, x: Floats, first: int, needs_upper: Callable[[Floats], Any]) -> tuple[Floats, Floats]:
        """L and G at the points of a batch, G only where it is needed, else NaN.

        Parameters
        ----------
        x : array of shape (n, d)
            Points.
        first : int
            The running number of the first one.
        needs_upper : callable
            Rows whose upper value matters, given the lower values.
        """
        numbers = np.arange(first, first + len(x))
        if self.is_joint:
            L, G = self._values("LG", numbers, x)
            return L, G
        (L,) = self._values("L", numbers, x)
        rows = np.flatnonzero(needs_upper(L))
        G = np.full(len(x), np.nan)
        if len(rows):
            (G[rows],) = self._values("G", numbers[rows], x[rows])
        return L, G

    def both(self, x: Floats) -> tuple[Floats, Floats]:
        """L and G at points of shape (n, d) that the optimizer did not ask for."""
        self._extra += len(x)
        return self.batch(x, -self._extra, lambda L: np.ones(len(L), dtype=bool))

    def submit(self, kind: str, number: int, x: Floats) -> None:
        """Start an evaluation of "L", "G" or "LG" at a point, or with vectorized functions at several."""
        self._points[number, kind] = x
        self._pool.submit((number, kind), self._calls[kind], x)

    def next(self) -> tuple[int, str, tuple[Any, ...]]:
        """Wait for an evaluation that is finished: its number, its kind, its values, of several points as arrays."""
        key, outcome = self._pool.next()
        return *key, self._judge(key, outcome, self._points.pop(key))

    def state(self) -> dict[str, Any]:
        """Counts and notes, for a checkpoint; see `load_state`."""
        return {
            "nfev": [self.nfev_lower, self.nfev_upper, self._extra],
            "failures": dict(self.failures),
            "failure_log": list(self.failure_log),
        }

    def load_state(self, values: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        self.nfev_lower, self.nfev_upper, self._extra = values["nfev"]
        self.failures = dict(values["failures"])
        self.failure_log = deque(values["failure_log"], maxlen=MAX_NOTED)

    def close(self) -> None:
        """Drop what is running, and free the workers."""
        self._pool.close()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _is_kept(self, key: Key, outcome: Outcome) -> bool:
        """Whether an evaluation goes on record: what ends the run does not, as it would end the next one, too."""
        if not self._raises:
            return True
        if outcome.failure is None:
            with contextlib.suppress(ValueError):
                self._numbers(key[1], outcome.value, self._points[key])
                return True
        return False

    def _values(self, kind: str, numbers: NDArray[np.intp], x: Floats) -> tuple[Floats, ...]:
        """For each value of the objective an array (n,)."""
        if self._vectorized:
            self.submit(kind, int(numbers[0]), x)
            return self.next()[2]
        for number, point in zip(numbers.tolist(), x, strict=True):
            self.submit(kind, number, point)
        finished = sorted(self.next() for _ in numbers)
        return tuple(np.array(column) for column in zip(*(values for _, _, values in finished), strict=True))

    def _judge(self, key: Key, outcome: Outcome, x: Floats) -> tuple[Any, ...]:
        """The values of an evaluation, NaN where it failed; failures are counted, or raised."""
        number, kind = key
        n = len(x) if self._vectorized else 1
        failure, message = outcome.failure, outcome.message
        if failure is None:
            try:
                values = self._numbers(kind, outcome.value, x)
            except ValueError as error:
                if self._raises:
                    raise
                failure, message = "invalid", str(error)
        elif self._raises:
            _raise(kind, outcome, x)
        if "L" in kind:
            self.nfev_lower += n
        if "G" in kind:
            self.nfev_upper += n
        if failure is not None:
            self._note(number, kind, x, failure, message, n)
            return (np.full(n, np.nan) if self._vectorized else np.nan,) * len(kind)
        failed: Any = False
        for letter, value in zip(kind, values, strict=True):
            failed = failed | (value != value) | ((value == np.inf) & (letter == "L"))
        n_failed = int(np.count_nonzero(failed)) if self._vectorized else int(failed)
        if n_failed:
            self._note(number, kind, x, "nan", "None, NaN or an infinite L", n_failed)
        return values

    def _note(self, number: int, kind: str, x: Floats, failure: str, message: str, count: int) -> None:
        self.failures[failure] += count
        self.failure_log.append(
            {"evaluation": number, "objective": kind, "x": x.tolist(), "kind": failure, "message": message}
        )

    def _numbers(self, kind: str, value: Any, x: Floats) -> tuple[Any, ...]:
        """What an objective returned as floats, or of several points as arrays (n,)."""
        name = "upper" if kind == "G" else "lower"
        returned = pair(value, name) if kind == "LG" else (value,)
        return tuple(_numbers(v, x, name) if self._vectorized else _number(v, name) for v in returned)


def pair(value: Any, name: str) -> tuple[Any, Any]:
    """L and G as a joint function returned them; None twice where it returned None, a failed evaluation."""
    try:
        low, up = value
    except (TypeError, ValueError):
        if value is None:  # a failed evaluation
            return None, None
        raise ValueError(
            f"{name} returned {value!r:.80}; without an upper function it must return the pair (L, G)"
        ) from None
    return low, up


def _number(value: Any, name: str) -> float:
    """A value as a float; None, a failed evaluation, becomes NaN."""
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):
        pass
    try:  # an array of one element
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return a real number per point, got {value!r:.80}") from None
    if array.size != 1:
        raise ValueError(f"{name} must return one real number per point, got values of shape {array.shape}")
    return float(array.item())


def _numbers(values: Any, x: Floats, name: str) -> Floats:
    """Values of several points as an array of shape (n,)."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must return a real number per point, got {values!r:.80}") from None
    if array.ndim == 2 and array.shape[1] == 1:  # a column
        array = array[:, 0]
    if array.shape != (len(x),):
        raise ValueError(
            f"{name} returned shape {array.shape} for points of shape {x.shape}; with vectorized=True it must "
            f"return ({len(x)},), one value per row"
        )
    return array


def _raise(kind: str, outcome: Outcome, x: Floats) -> None:
    """Raise what made an evaluation fail, with what there is to know about it."""
    name = "upper" if kind == "G" else "lower"
    where = f"x = {x.tolist()}" if x.ndim == 1 else f"points of shape {x.shape}"
    error = outcome.error
    if error is None:
        kinds = {"timeout": TimeoutError, "killed": RuntimeError}
        error = kinds.get(str(outcome.failure), RuntimeError)(f"{name} failed: {outcome.message}")
    elif error.__traceback__ is None and outcome.message:  # it comes from another process
        error.add_note(outcome.message)
    error.add_note(
        f"This happened while {name} was evaluated at {where}. With on_error='fail' such evaluations count as failed "
        "and the run goes on; with checkpoint= a run that is started again goes on where it ended."
    )
    raise error
