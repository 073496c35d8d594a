"""minimize: the loop around the optimizer, for objectives that are Python functions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from scipy.optimize import OptimizeResult
from tqdm.auto import tqdm

from .archive import Seen
from .callback import as_callback
from .checkpoint import Checkpoint
from .evaluation import Evaluator
from .hybrid import N_PARTICLES, first_share
from .improve import as_improved, local_searches
from .loop import BatchLoop, TicketLoop
from .optimizer import SCB2OOptimizer
from .parameters import check_count
from .polish import polish_evaluations
from .result import LIMITS
from .runs import Runs
from .values import settled_seed
from .workers import make_pool

_log = logging.getLogger("sklearn_scb2o")

#: Iterations where neither max_iter, max_evals nor max_time is given.
DEFAULT_MAX_ITER = 1000
INTERRUPTED = 7, "interrupted by the user (KeyboardInterrupt)"
STOPPED = 6, "the callback stopped the run (StopIteration)"


def minimize(
    lower: Callable[..., Any],
    upper: Callable[..., Any] | None = None,
    bounds: Any = None,
    *,
    args: tuple[Any, ...] = (),
    vectorized: bool = False,
    workers: Any = 1,
    asynchronous: bool = False,
    n_runs: int = 1,
    restarts: int = 0,
    restart_growth: float = 2.0,
    on_error: str = "raise",
    timeout: float | None = None,
    retries: int = 0,
    memory: Any = None,
    checkpoint: Any = None,
    checkpoint_every: int = 10,
    callback: Callable[..., Any] | None = None,
    track_consensus: bool = False,
    local_search: bool = False,
    polish: bool = False,
    disp: bool = False,
    preset: str | None = None,
    **options: Any,
) -> OptimizeResult:
    r"""Minimise an upper objective G over the minimisers of a lower objective L.

    .. math:: \min_x G(x) \quad\text{over}\quad x \in \operatorname{argmin} L

    Both functions are black boxes and may be nonconvex, nonsmooth and discontinuous; no derivatives are used.

    Parameters
    ----------
    lower : callable
        ``lower(x, *args) -> float``, the lower objective L at a point of shape (d,). None, NaN or inf says that the
        evaluation failed.
    upper : callable, optional
        ``upper(x, *args) -> float``, the upper objective G. Evaluated only where it can matter. If None, `lower`
        returns the pair (L, G).
    bounds : list of d pairs, array of shape (d, 2), or scipy.optimize.Bounds, optional
        The box to search. Optional where ``x0=`` is given.
    args : tuple
        Further arguments of both functions.
    vectorized : bool
        The functions take points of shape (n, d) and return (n,). They are called in this process.
    workers : int, concurrent.futures.Executor or map-like callable
        Who evaluates. A number of processes (-1: one per core), or of whatever the active `joblib.parallel_config`
        names: threads, dask, ray; an executor, such as that of a dask client or `mpi4py.futures`; a callable as `map`.
        The result does not depend on it.
    asynchronous : bool
        Whether each worker gets a new point as soon as it is free, so that no one waits for the slowest of a batch:
        for run times that vary. Particles then move with what is known at the time, so that the result depends on
        which evaluation is finished first.
    n_runs : int
        R independent runs side by side, all of whose points are evaluated together; the best of them is returned. A run
        that has converged before the others needs no more evaluations.
    restarts : int
        How many times to start again, once the particles have met or stagnate and evaluations are left: from a new
        population (of all `n_runs`), drawn without regard to x0, and larger each time. The best of all is returned.
        `max_evals` and `max_time` limit all together, `max_iter` each run; one that ends by it is not restarted.
    restart_growth : float
        Factor of `n_particles` at each restart, at least 1.
    on_error : {"raise", "fail"}
        Whether an exception, a time-out or the death of a worker process ends the run, or counts as a failed
        evaluation.
    timeout : float, optional
        Seconds that an evaluation may take. Each worker then has a further process for the evaluations, which is killed
        and started again, so that one that hangs or crashes takes nothing with it. inf: that alone.
    retries : int
        Further attempts at an evaluation that raises, takes too long or crashes.
    memory : str, path or joblib.Memory, optional
        Where values of points are kept and looked up, for deterministic functions.
    checkpoint : str or path, optional
        File in which the run is kept, and from which it goes on where the file exists already, with the same parameters
        but for limits. Each evaluation that is finished is added to a journal beside it, so that a run that is killed
        loses only those in flight; that of deterministic functions then ends, to the bit, as if it had not been
        killed (not with `asynchronous`, where order matters).
    checkpoint_every : int
        Iterations between two rewritings of that file.
    callback : callable, optional
        Called after each iteration, as ``callback(intermediate_result=result)`` if its parameter has that name, else
        as ``callback(x)`` with the consensus point; of several runs, those of the best so far. May raise StopIteration.
    track_consensus : bool
        Evaluate the consensus point in each iteration, for the history; otherwise once, at the end.
    local_search : bool
        Let local searches take turns with swarms of 50 particles: the first swarm has a tenth to a quarter of
        `max_evals`, and 50 iterations at most; the searches start from its good points, by differences where the
        objectives are smooth and by quadratic models elsewhere, and what is left is for further swarms and searches.
        By far the best answer for a number of evaluations, unless G has very many local minima. L counts as lowest up
        to `lower_tol`, or else 1e-14 of its usual excess, or its noise.
    polish : bool
        End with a local search from the result, which ends where L is lower, or as low and G lower. Where the
        objectives are smooth it is by differences, and x becomes accurate to about 1e-8 of the box; elsewhere by
        quadratic models. Up to half of `max_evals` is kept for it, and 300 (d + 1) evaluations at most; of `max_time`
        nothing. With `local_search`, of which it is the end, up to a tenth of `max_evals` is kept.
    disp : bool
        Show a progress bar and the final message.
    preset : {"paper"}, optional
        The paper's constants instead of adaptive ones, see `SCB2OOptimizer.from_paper`.
    **options
        Parameters of `SCB2OOptimizer`: ``x0``, ``n_particles``, ``max_iter`` (1000 where no limit is given),
        ``max_evals``, ``max_time``, ``tol``, ``lower_tol``, ``random_state``, and all others.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x``, ``fun`` (G there), ``lower_fun`` (L there), ``consensus``, ``best``, ``population``, ``nit``,
        ``nfev_lower``, ``nfev_upper``, ``nfev``, ``n_failed``, ``success``, ``status``, ``message``, ``history``; see
        `SCB2OOptimizer.result`. ``success`` says that the particles have met; a limit reached before is no success.
        With several runs or restarts these are those of the best run, except that ``nfev_lower``, ``nfev_upper``,
        ``nfev`` count all evaluations; ``runs`` is the list of the results of all runs, in order, and ``best_run`` the
        index of the best there: among those whose L is as good as the smallest (up to `lower_tol`, what that run itself
        still selects, and 1e-6 of the range of L at the start), that of smallest G.
        ``failures`` counts failed evaluations by kind ("exception", "invalid", "timeout", "killed", "nan"), and
        ``failure_log`` has the last of them, with point and traceback.

    Raises
    ------
    ValueError
        For parameters outside their range, and values of the wrong shape or type.

    See Also
    --------
    SCB2OOptimizer : the same with the loop in the caller's hands.

    References
    ----------
    Chao, Sun, Riedl, Khadiv, Etesami, "Convergence of consensus-based particle methods for nonconvex bi-level
    optimization" (2026).

    Examples
    --------
    The point of the unit circle that is closest to (2, 1):

    >>> result = minimize(
    ...     lambda x: (x[0] ** 2 + x[1] ** 2 - 1) ** 2,
    ...     lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
    ...     [(-3, 3), (-3, 3)],
    ...     max_evals=20_000,
    ...     random_state=0,
    ... )
    >>> bool(abs(result.x[0] - 2 / 5**0.5) < 0.01), bool(result.lower_fun < 1e-4)
    (True, True)
    """
    if preset not in (None, "paper"):
        raise ValueError(f"preset={preset!r} is not one of (None, 'paper')")
    if all(options.get(name) is None for name in ("max_iter", "max_evals", "max_time")):
        options["max_iter"] = DEFAULT_MAX_ITER
    budget = options.pop("max_evals", None)  # counted here, with the evaluations of consensus points
    if budget is not None:
        check_count("max_evals", budget, least=0)
    if vectorized and not (workers is None or workers == 1):
        raise ValueError(f"vectorized=True with workers={workers!r}: a batch is one call, so leave workers at 1")
    if asynchronous and (vectorized or track_consensus):
        raise ValueError(
            "asynchronous=True evaluates point by point without a pause: it goes neither with vectorized=True nor with "
            "track_consensus=True"
        )
    if asynchronous and n_runs != 1:
        raise ValueError(
            f"asynchronous=True with n_runs={n_runs!r}: several runs move together, batch by batch. Leave one of the "
            "two out, or call minimize several times"
        )
    if local_search and options.get("selection") == "none":
        raise ValueError("local_search=True with selection='none': there is no lower level to search")
    make = SCB2OOptimizer.from_paper if preset else SCB2OOptimizer
    random_state = settled_seed(options.pop("random_state", None))
    if local_search:
        options.setdefault("n_particles", N_PARTICLES)
    optimizer = make(bounds, n_runs=n_runs, random_state=random_state, **options)
    seen = Seen(first_only=not local_search) if local_search or polish else None
    swarm_budget = budget
    if budget is not None and seen is not None:
        batch, d = n_runs * (optimizer.batch_size + 1), len(optimizer.bounds.lb)
        share = first_share(budget, d, batch) if local_search else budget - polish_evaluations(budget, d)
        swarm_budget = min(budget, max(share, 2 * batch))
    runs = Runs(optimizer, random_state, restarts, restart_growth)
    with (
        nullcontext() if checkpoint is None else Checkpoint.locked(checkpoint, checkpoint_every) as store,
        Evaluator(
            lower, upper, make_pool(workers, asynchronous=asynchronous), args=args, vectorized=vectorized,
            on_error=on_error, timeout=timeout, retries=retries, memory=memory,
            journal=None if store is None else store.journal,
        ) as evaluator,
    ):  # fmt: skip
        if store is not None:
            _resume(store, runs, evaluator, seen)
        result, stopped = None, None
        call_back = as_callback(callback, lambda result: (result.consensus.x,))

        def write(**more: Any) -> None:
            if store is not None:
                runs.write(store, evaluator=evaluator.state(), seen=seen and seen.state(), **more)

        def make_loop(optimizer: SCB2OOptimizer) -> BatchLoop | TicketLoop:
            if asynchronous:
                return TicketLoop(optimizer, evaluator, swarm_budget, seen)
            return BatchLoop(optimizer, evaluator, swarm_budget, seen, track_consensus)

        with _progress_bar(runs.optimizer, budget, disp) as bar:
            try:
                for loop in runs.iterate(evaluator, swarm_budget, make_loop, when_restarted=write):
                    bar.update()
                    if disp:
                        bar.set_postfix(_figures(runs, evaluator))
                    if store is not None and store.is_due(runs.optimizer.n_iter):
                        write(unsettled=loop.unsettled)
                    if call_back is not None and call_back(runs.intermediate_result()):
                        stopped = STOPPED
                        break
                result = runs.result()
                if seen is not None and stopped is None and result.x is not None:
                    write()
                    for _ in local_searches(
                        result, seen, evaluator, runs, budget, store, polish=polish, only_polish=not local_search
                    ):
                        if call_back is not None and call_back(result):
                            stopped = STOPPED
                            break
            except KeyboardInterrupt:
                stopped = INTERRUPTED
            except RuntimeError as error:
                if evaluator.failure_log:
                    error.add_note(f"The last evaluation that failed:\n{evaluator.failure_log[-1]['message']}")
                raise
        result = runs.result() if result is None else result
        if stopped is None and store is not None:
            write(improved=as_improved(result, budget) if polish or local_search else None)
    result.nfev_lower, result.nfev_upper = evaluator.nfev_lower, evaluator.nfev_upper
    result.nfev = max(evaluator.nfev_lower, evaluator.nfev_upper)
    result.failures, result.failure_log = dict(evaluator.failures), list(evaluator.failure_log)
    if stopped is not None:
        result.success, (result.status, result.message) = False, stopped
    else:
        for run in (result, *result.get("runs", ())):
            if not run.status:
                run.status = LIMITS["max_evals"]
                end = "another batch would exceed" if seen is None else "the local searches have ended within"
                run.message = f"{result.nfev} evaluations done, {end} max_evals={budget}"
    _log.info("%s: L=%.6g, G=%.6g after %d evaluations", result.message, result.lower_fun, result.fun, result.nfev)
    if disp:
        tqdm.write(f"{result.message}: L = {result.lower_fun:.6g}, G = {result.fun:.6g}, {result.nfev} evaluations")
    return result


def _resume(store: Checkpoint, runs: Runs, evaluator: Evaluator, seen: Seen | None) -> None:
    """Go on where a checkpoint ends; without one, write the first."""
    if store.contents is None:
        runs.write(store, evaluator=evaluator.state())
        return
    runs.restore(store)
    if "evaluator" in store.contents:
        evaluator.load_state(store.contents["evaluator"])
    if seen is not None and store.contents.get("seen"):
        seen.add(**store.contents["seen"])
    _log.info("resumed from %s after %d iterations", store.path, runs.optimizer.n_iter)


def _progress_bar(optimizer: SCB2OOptimizer, budget: int | None, disp: bool) -> Any:
    """A bar of the iterations, as far as their number is known."""
    totals = [
        optimizer.limits.max_iter,
        None if budget is None else (budget - optimizer.n_runs) // (optimizer.n_runs * optimizer.batch_size),
    ]
    total = min((total for total in totals if total is not None), default=None)
    return tqdm(total=total, initial=optimizer.n_iter, disable=not disp, unit="it", desc="scb2o")


def _figures(runs: Runs, evaluator: Evaluator) -> dict[str, Any]:
    """What the bar shows: evaluations, the best point, how far the particles are apart, failures."""
    best = runs.intermediate_result().best
    figures = {
        "evals": evaluator.nfev_lower, "L": f"{best.lower:.3g}", "G": f"{best.upper:.3g}",
        "spread": f"{float(runs.optimizer.history.last('spread').max()):.1e}",
    }  # fmt: skip
    failed = sum(evaluator.failures.values())
    return {**figures, "failed": failed} if failed else figures
