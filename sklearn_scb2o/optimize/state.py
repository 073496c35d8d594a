"""The state of an optimizer: everything that changes while it runs, explicit and serialisable."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..particles.backend import Array, any_true, as_index, count_up, dtype_name, get_namespace, take_rows, to_numpy
from .history import History
from .motion import Moments
from .streams import Streams, restored_streams
from .tickets import Tickets
from .update import Update


class Counts(NamedTuple):
    """Evaluations that were told: of L, of G, and those that failed; the last two per run where they may differ."""

    lower: int
    upper: Any
    failed: Any

    @classmethod
    def of_batch(cls, update: Update, n: int, xp: ModuleType) -> Counts:
        """Those of a batch of n."""
        used, failed = update.evaluated_upper, update.failed
        return cls(n, n if used is None else _count(used, xp), 0 if failed is None else _count(failed, xp))


@dataclass(eq=False)
class State:
    """Arrays lead with the axis of the R runs; positions are in internal coordinates, ``x = y * scale``."""

    y: Array  #: positions, (R, N, d)
    #: mean spread of y, user units, (R,); or its moments, or None, until somebody asks
    spread: Array | Moments | None
    lower_best: Array  #: smallest lower value seen, (R, 1)
    streams: Streams
    history: History
    rows: tuple[int, int]  #: the particles of the current batch
    pending: bool = False  #: the batch was asked and not yet told
    moved: bool = True  #: the batch is new; False once told, until the particles have moved
    injected: list[Any] = field(default_factory=list)  #: arrays (R, k, d) that enter the next batch
    drift: Array | None = None  #: velocities (R, n, d) that the caller gave to the batch just told
    m: Array | None = None  #: consensus, (R, d)
    m_lower: Any = None  #: values there, (R,), None until told
    m_upper: Any = None
    alive: Array | None = None  #: (R,), runs that have a consensus; None if all have
    weights: Array | None = None  #: of the last batch, (R, n)
    told_lower: Array | None = None  #: values of the last batch, (R, n)
    told_upper: Array | None = None
    best_y: Array | None = None  #: incumbent, (R, d)
    best_lower: Array | None = None  #: its values, (R, 1)
    best_upper: Array | None = None
    first_spread: Array | None = None  #: (R,)
    still_since: Any = 0  #: (R,), iteration since which the consensus has stayed at still_at
    still_at: Array | None = None
    n_iter: int = 0
    nfev_lower: int = 0  #: per run
    nfev_upper: Any = 0  #: likewise; (R,) once it may differ between runs
    n_failed: Any = 0
    failed_batches: int = 0  #: in a row, in which every run failed
    dead: list[Array] = field(default_factory=list)  #: (R,), runs that failed, of the iterations not yet looked at
    warned_failure: bool = False
    tickets: Tickets | None = None  #: with points handed out one by one
    elapsed: float = 0.0  #: seconds spent before this process

    @property
    def batch(self) -> Array:
        """The particles of the current batch, a view of `y`."""
        start, stop = self.rows
        return self.y if stop - start == self.y.shape[1] else self.y[:, start:stop, :]

    @property
    def latest(self) -> tuple[Array, Array, Array]:
        """The points (R, n, d) that the consensus is made of, and their values (R, n)."""
        if self.tickets is not None:
            return self.tickets.y, self.tickets.L, self.tickets.G
        return self.batch, self.told_lower, self.told_upper

    def absorb(self, update: Update, counts: Counts, xp: ModuleType) -> None:
        """Take in what was learned from `latest`, and how many of its values are new."""
        y, L, G = self.latest
        dead = update.dead
        self.nfev_lower += counts.lower
        self.nfev_upper = self.nfev_upper + counts.upper
        self.n_failed = self.n_failed + counts.failed
        self.weights, self.lower_best = update.weights, update.lower_best
        self.m_lower = self.m_upper = None
        self.pending = self.moved = False

        if dead is None:
            self.m, self.alive = update.consensus, None
        elif self.m is not None:  # a dead run keeps its consensus
            self.m = xp.where(dead[:, None], self.m, update.consensus)
            if self.alive is not None:
                self.alive = _unless_all(self.alive | ~dead, xp)
        else:
            self.m, self.alive = update.consensus, _unless_all(~dead, xp)
        if xp is np and dead is None and len(L) == 1:
            self._renew_best_of_one(y, L, G, update)
        else:
            self._renew_best(y, L, G, update, xp)

    def close(self, update: Update, failed: Any, distance: Any, still_below: Any, xp: ModuleType) -> None:
        """End an iteration in which `failed` evaluations failed, per run."""
        self.n_iter += 1
        if still_below is not None:
            self._notice_stillness(still_below, xp)
        spread = self.spread if isinstance(self.spread, Moments) else _run_values(self.spread)
        alpha, tau, quantile = (_run_values(v) for v in (update.alpha, update.tau, update.quantile))
        self.history.append(np.nan, np.nan, distance, spread, update.weights, alpha, tau, quantile, failed)

    def _notice_stillness(self, still_below: Array, xp: ModuleType) -> None:
        """Note since when the consensus of each run has not moved by more than `still_below`, (R, 1)."""
        assert self.m is not None
        moved = xp.ones_like(self.m[:, 0], dtype=xp.bool)
        if self.still_at is not None:
            moved = xp.any(xp.abs(self.m - self.still_at) > still_below, axis=-1)
        now = as_index(moved, xp) * 0 + self.n_iter
        self.still_since = now if self.still_at is None else xp.where(moved, now, self.still_since)
        self.still_at = self.m if self.still_at is None else xp.where(moved[:, None], self.m, self.still_at)

    def of_runs(self, runs: NDArray[np.intp], xp: ModuleType) -> State:
        """The state of some of the runs, in that order."""

        def part(value: Any) -> Any:
            if isinstance(value, (Streams, History)):
                return value.of_runs(runs)
            if isinstance(value, list):
                return [part(v) for v in value]
            return take_rows(value, runs, xp) if getattr(value, "ndim", 0) else value

        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        alike = ("rows", "tickets")  # in all runs
        return State(**{name: value if name in alike else part(value) for name, value in kept.items()})

    def _renew_best(self, y: Array, L: Array, G: Array, update: Update, xp: ModuleType) -> None:
        """Keep the incumbent while it would still be selected and no selected particle has a smaller G.

        The challenger is the particle of largest weight in the batch.
        """
        n_runs, n, d = y.shape
        index = xp.argmax(update.weights, axis=-1)
        index = index + n * count_up(n_runs, index, xp)
        lower, upper = (take_rows(xp.reshape(v, (-1,)), index, xp)[:, None] for v in (L, G))
        if self.best_lower is None:
            out = xp.ones_like(lower, dtype=xp.bool) if update.dead is None else ~update.dead[:, None]
            self.best_lower = self.best_upper = xp.full_like(lower, np.inf)
            self.best_y = xp.take(xp.reshape(y, (-1, d)), index, axis=0)
        else:
            out = (self.best_lower > update.quantile) | (upper < self.best_upper)
            out = out | ((upper == self.best_upper) & (lower < self.best_lower))
            if update.dead is not None:
                out = out & ~update.dead[:, None]
            if xp is np and not any_true(out, xp):
                return
        self.best_y = xp.where(out, xp.take(xp.reshape(y, (-1, d)), index, axis=0), self.best_y)
        self.best_lower = xp.where(out, lower, self.best_lower)
        self.best_upper = xp.where(out, upper, self.best_upper)

    def _renew_best_of_one(self, y: Array, L: Array, G: Array, update: Update) -> None:
        """`_renew_best` of a single run on NumPy, where comparing numbers is many times cheaper than arrays."""
        i = int(update.weights.argmax())
        lower, upper = L.item(i), G.item(i)
        if self.best_lower is not None and self.best_upper is not None:
            best_lower, best_upper = self.best_lower.item(), self.best_upper.item()
            is_better = upper < best_upper or (upper == best_upper and lower < best_lower)
            if not (is_better or best_lower > _run_values(update.quantile)):
                return
        self.best_y = y[:, i, :].copy()
        self.best_lower, self.best_upper = L[:, i : i + 1].copy(), G[:, i : i + 1].copy()

    def to_dict(self) -> dict[str, Any]:
        """Arrays, numbers, strings, lists and dictionaries that hold the whole state; nothing is shared."""
        out: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "streams":
                value = value.to_state()
            elif f.name == "history":
                value = value.table()
            elif f.name in ("injected", "dead"):
                value = [np.array(to_numpy(v)) for v in value]
            elif f.name == "tickets":
                value = None if value is None else value.to_dict()
            elif f.name == "rows":
                value = list(value)
            elif hasattr(value, "shape"):
                value = np.array(to_numpy(value))
            out[f.name] = value
        return out

    @classmethod
    def from_dict(cls, values: dict[str, Any], like: State, as_array: Any) -> State:
        """The state that `to_dict` wrote, with arrays made by `as_array` where those of `like` are arrays."""
        known = {f.name for f in fields(cls)}
        if set(values) != known:
            wrong = sorted(set(values) ^ known)
            raise ValueError(f"this is not the state of an optimizer: {', '.join(wrong)} missing or unknown")
        values = dict(values)
        y = np.asarray(values["y"])
        if y.shape != tuple(like.y.shape):
            raise ValueError(f"the state has particles of shape {y.shape}, this optimizer has {tuple(like.y.shape)}")
        if y.dtype.name != dtype_name(like.y):
            raise ValueError(f"the state has particles of type {y.dtype}, this optimizer has {dtype_name(like.y)}")
        sizes = [stop - start for start, stop in (values["rows"], like.rows)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"the state has batches of {sizes[0]} particles, this optimizer has batches of {sizes[1]}")
        on_host = {"m_lower", "m_upper", "history"}
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = value.copy() if name in on_host else as_array(value.copy())
        if values["tickets"] is not None:
            values["tickets"] = Tickets.from_dict(values["tickets"], as_array)
        values["streams"] = restored_streams(values["streams"], like.streams, y.shape[1])
        values["history"] = History.from_table(values["history"], like.history.measure)
        values["dead"] = [as_array(np.array(v)) for v in values["dead"]]
        values["rows"], values["injected"] = tuple(values["rows"]), [np.array(v) for v in values["injected"]]
        return cls(**values)


def _unless_all(mask: Array, xp: ModuleType) -> Array | None:
    """The mask, or None where it is true everywhere; waits for its device, until each run has a consensus."""
    return None if to_numpy(xp.all(mask)) else mask


def _run_values(x: Any) -> Any:
    """A number for each run, from a number or an array of R elements: of NumPy a float for one run, else (R,)."""
    if isinstance(x, float):
        return x
    if isinstance(x, np.ndarray):
        return x.item() if x.size == 1 else x.reshape(-1)
    return get_namespace(x).reshape(x, (-1,))


def _count(mask: Array, xp: ModuleType) -> Array:
    return xp.sum(as_index(mask, xp), axis=-1)
