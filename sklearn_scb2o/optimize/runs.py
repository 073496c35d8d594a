"""All runs of one call of `minimize`: several at once, restarts, and which of them is the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from .checkpoint import Checkpoint
from .evaluation import Evaluator
from .loop import BatchLoop, TicketLoop, evaluate_consensus
from .optimizer import SCB2OOptimizer
from .parameters import check_count, check_number
from .result import Result
from .values import seed_sequence

#: Differences of L below this part of its range in the first batch say nothing about which run is better: where L
#: is smooth they belong to distances of 1e-3 of the width of the search, and runs that have converged differ so much.
RESOLUTION = 1e-6
# Spawn keys of the seeds of restarts begin here; those of runs and streams are counted from 0.
_RESTART_KEY = 2**31


class Runs:
    """The runs of `minimize`: those that go on, in one optimizer, and the results of those that have ended.

    A round is `n_runs` runs side by side. A run that has converged takes no further evaluations; when all of a round
    have, the next round begins, with a larger population.

    Parameters
    ----------
    optimizer : SCB2OOptimizer
        Of the first round.
    random_state
        Its seed, that of later rounds too.
    restarts : int
        Further rounds at most.
    growth : float, at least 1
        Factor of the population from one round to the next.

    Attributes
    ----------
    optimizer : SCB2OOptimizer
        The runs of this round that go on.
    """

    def __init__(self, optimizer: SCB2OOptimizer, random_state: Any, restarts: int = 0, growth: float = 2.0) -> None:
        self._restarts = check_count("restarts", restarts, least=0)
        self._growth = check_number("restart_growth", growth)
        if self._growth < 1.0:
            raise ValueError(f"restart_growth={growth!r} must be at least 1: populations do not shrink")
        self.optimizer, self._random_state = optimizer, random_state
        self._n_runs = optimizer.n_runs  # of a round
        self._first = optimizer.arguments()
        self._batch_grows = optimizer.batch_size == optimizer.n_particles
        self._round = 0
        self._open = np.arange(self._n_runs)  # numbers, in the order of the optimizer's runs, of those that go on
        self._ended: dict[int, OptimizeResult] = {}

    # -- the course of a call --------------------------------------------------------------------------------------

    def iterate(
        self,
        evaluator: Evaluator,
        budget: int | None,
        make_loop: Callable[[SCB2OOptimizer], BatchLoop | TicketLoop],
        when_restarted: Callable[[], None],
    ) -> Iterator[BatchLoop | TicketLoop]:
        """Run all rounds, each by the loop that `make_loop` gives; yields it after each iteration."""
        while True:
            loop = make_loop(self.optimizer)
            for _ in loop:
                self._end_converged(evaluator)
                yield loop
            evaluate_consensus(self.optimizer, evaluator)
            if not self._restart(np.inf if budget is None else budget - evaluator.nfev_lower):
                return
            when_restarted()

    def _end_converged(self, evaluator: Evaluator) -> None:
        """Take the results of runs that have converged, and go on without them, while there are others."""
        if self.optimizer.n_runs == 1:
            return
        done = self.optimizer.converged_runs
        if done.any() and not done.all():
            evaluate_consensus(self.optimizer, evaluator, done)
            for i in np.flatnonzero(done):
                self._ended[int(self._open[i])] = self.optimizer.run_result(int(i))
            self.optimizer.keep_runs(np.flatnonzero(~done))
            self._open = self._open[~done]

    def _restart(self, evaluations_left: float) -> bool:
        """Begin the next round, if the runs of this one have converged and there is room for one; whether it began."""
        if self._round == self._restarts or not self.optimizer.converged_runs.all():
            return False
        following = self._make(self._round + 1)
        if following.n_runs * (following.batch_size + 1) > evaluations_left:
            return False
        following.count_time_of(self.optimizer)
        if following.stop():  # no time is left
            return False
        self._ended.update(self._open_results())
        self.optimizer, self._round = following, self._round + 1
        self._open = np.arange(self._n_runs) + self._round * self._n_runs
        return True

    def _make(self, number: int) -> SCB2OOptimizer:
        """The optimizer of a later round: a larger population, without the start of the first, by another seed."""
        options = {**self._first, "x0": None}
        options["n_particles"] = round(self._first["n_particles"] * self._growth**number)
        if self._batch_grows:
            options["batch_size"] = None
        if self._first["x0"] is not None and not np.isfinite(self._first["bounds"]).all():
            # where there are no bounds the particles start around something
            options["x0"] = self._first["x0"].reshape(-1, len(self._first["bounds"])).mean(axis=0)
        return SCB2OOptimizer(**options, random_state=later_seed(self._random_state, number))

    def other_seed(self) -> np.random.SeedSequence:
        """A seed for what is not a run."""
        seed = later_seed(self._random_state, -1)
        return seed[0] if isinstance(seed, list) else seed

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def several(self) -> bool:
        """Whether there is or may be more than one run."""
        return self._n_runs > 1 or self._restarts > 0

    def result(self) -> OptimizeResult:
        """The result of the best run; of several, with those of all as ``runs``."""
        results = self.results()
        if not self.several:
            return results[0]
        best = self.best(results)
        return Result({**results[best], "runs": results, "best_run": best})

    def results(self) -> list[OptimizeResult]:
        """The results of all runs so far, in order."""
        known = {**self._ended, **self._open_results()}
        return [known[number] for number in sorted(known)]

    def _open_results(self) -> dict[int, OptimizeResult]:
        return {int(number): self.optimizer.run_result(i) for i, number in enumerate(self._open)}

    def intermediate_result(self) -> OptimizeResult:
        """Of the run that is the best so far, without its history."""
        if not self.several:
            return self.optimizer.intermediate_result()
        ended, now = list(self._ended.values()), self.optimizer.intermediate_result()
        columns = [
            now.best.lower, now.best.upper, self.optimizer.history.last("quantile"),
            self.optimizer.history.first("quantile"),
        ]  # fmt: skip
        rows = [(result.best.lower, result.best.upper, *_quantiles(result)) for result in ended]
        rows += list(zip(*map(np.atleast_1d, columns), strict=True))
        best = best_of(rows, self.optimizer.parameters)
        if best < len(ended):
            return deepcopy(Result({**ended[best], "history": None}))
        return self.optimizer.run_result(best - len(ended), with_history=False)

    def best(self, results: Sequence[OptimizeResult]) -> int:
        """Which of the results is the best, see `best_of`: by its x, where that is known of all runs."""
        known = not np.isnan([(result.lower_fun, result.fun) for result in results]).any()
        rows = [
            ((r.lower_fun, r.fun) if known or r.best is None else (r.best.lower, r.best.upper)) + _quantiles(r)
            for r in results
        ]
        return best_of(rows, self.optimizer.parameters)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def write(self, store: Checkpoint, **more: Any) -> None:
        """Write a checkpoint of all runs."""
        runs = {
            "n_runs": self._n_runs,
            "round": self._round,
            "open": self._open,
            "ended": {str(number): _as_dict(result) for number, result in self._ended.items()},
        }
        store.write(self.optimizer, **more, runs=runs if self.several else None)

    def restore(self, store: Checkpoint) -> None:
        """Go on from a checkpoint that has contents, of a call with the same parameters."""
        runs = (store.contents or {}).get("runs")
        if runs is not None:
            if runs["n_runs"] != self._n_runs:
                raise ValueError(
                    f"{store.path} belongs to a run with other parameters: n_runs={self._n_runs}, there "
                    f"{runs['n_runs']}. Give the same, or another file"
                )
            optimizer = self.optimizer if not runs["round"] else self._make(runs["round"])
            if len(runs["open"]) < self._n_runs:
                optimizer.keep_runs(runs["open"] - runs["round"] * self._n_runs)
            store.restore(optimizer)
            self.optimizer, self._round, self._open = optimizer, runs["round"], runs["open"]
            self._ended = {int(number): _as_result(values) for number, values in runs["ended"].items()}
        else:
            store.restore(self.optimizer)


def best_of(candidates: Any, parameters: Any) -> int:
    """The best of several points: that of smallest G among those whose L is as good as the smallest.

    As good as the smallest L, that of run b, is what does not exceed it by more than the largest of

    - the `lower_tol` that the user has given,
    - what run b itself still selects: its last hard quantile less the smallest L,
    - `RESOLUTION` times the range of L, the hard quantile of the first batch less the smallest L.

    So of two converged runs that found 1e-12 and 2e-12, where L was 1 at the start, G decides.

    Parameters
    ----------
    candidates : list of n rows of four numbers, or array of shape (n, 4)
        L, G, and the last and the first hard quantile of the run. Rows with NaN in L or G, where evaluations failed,
        come last.
    parameters : Parameters
        With `lower_tol` and `selection`, without which only G counts.

    Returns
    -------
    int

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> parameters = SimpleNamespace(selection="soft", lower_tol=0.0)
    >>> best_of([(1e-12, 3.0, 1e-12, 1.0), (2e-12, 2.0, 2e-12, 1.0), (0.1, 1.0, 0.1, 1.0)], parameters)
    1
    """
    lower, upper, quantile, first = np.array(candidates, dtype=float).T
    if (known := ~np.isnan(upper) & ~np.isnan(lower)).any():
        lower = np.where(known, lower, np.nan)
    if np.isnan(lower).all():
        return 0
    b = int(np.nanargmin(lower))
    margins = [parameters.lower_tol, quantile[b] - lower[b], *RESOLUTION * (first - lower[b])]
    good = lower <= lower[b] + np.nanmax(margins)
    if parameters.selection == "none":
        good = ~np.isnan(lower)
    order = np.lexsort((lower, upper, ~good))  # the last key counts most; NaN comes last
    return int(order[0])


def _quantiles(result: OptimizeResult) -> tuple[float, float]:
    """The last and the first hard quantile of a run."""
    return (result.history["quantile"][-1], result.history["quantile"][0]) if result.nit else (np.nan, np.nan)


def later_seed(random_state: Any, number: int) -> Any:
    """The seed of round `number` from that of the first."""
    if isinstance(random_state, (list, tuple)):
        return [later_seed(seed, number) for seed in random_state]
    seed = seed_sequence(random_state)
    return np.random.SeedSequence(
        seed.entropy, spawn_key=(*seed.spawn_key, _RESTART_KEY + number), pool_size=seed.pool_size
    )


def _as_dict(value: Any) -> Any:
    """A result as dictionaries, for a checkpoint."""
    return {k: _as_dict(v) for k, v in value.items()} if isinstance(value, dict) else value


def _as_result(values: dict[str, Any]) -> OptimizeResult:
    parts = {name: OptimizeResult(values[name]) for name in ("consensus", "best", "population") if values[name]}
    return Result({**values, **parts})
