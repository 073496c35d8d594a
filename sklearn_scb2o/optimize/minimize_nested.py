"""minimize_nested: the loop around NestedOptimizer, for objectives that are Python functions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from scipy.optimize import OptimizeResult
from tqdm.auto import tqdm

from .callback import as_callback
from .minimize import INTERRUPTED, STOPPED
from .nested import NestedOptimizer
from .pairs import PairEvaluator

_log = logging.getLogger("sklearn_scb2o")

#: Outer iterations where neither max_iter, max_evals nor max_time is given.
DEFAULT_MAX_ITER = 100


def minimize_nested(
    lower: Callable[..., Any],
    upper: Callable[..., Any] | None,
    outer_bounds: Any,
    inner_bounds: Any,
    *,
    args: tuple[Any, ...] = (),
    vectorized: bool = False,
    callback: Callable[..., Any] | None = None,
    disp: bool = False,
    max_iter: int | None = None,
    max_evals: int | None = None,
    max_time: float | None = None,
    **options: Any,
) -> OptimizeResult:
    r"""Minimise G over phi and theta, where theta must be a minimiser of a lower objective that depends on phi.

    .. math:: \min_{\phi, \theta} G(\phi, \theta) \quad\text{over}\quad \theta \in \operatorname{argmin} L(\phi, \cdot)

    Where ``L(phi, .)`` has several minimisers, the one with the smallest G counts (the optimistic problem). Both
    functions are black boxes and may be nonconvex, nonsmooth and discontinuous; no derivatives are used.

    Parameters
    ----------
    lower : callable
        ``lower(phi, theta, *args) -> float``, the lower objective L at vectors phi and theta. None, NaN or inf says
        that the evaluation failed.
    upper : callable or None
        ``upper(phi, theta, *args) -> float``, the upper objective G. Evaluated only where it can matter. If None,
        `lower` returns the pair (L, G).
    outer_bounds, inner_bounds : list of pairs (low, high), array of shape (d, 2), or scipy.optimize.Bounds
        The boxes of phi and theta.
    args : tuple
        Further arguments of both functions.
    vectorized : bool
        The functions take phi of shape (R, 1, d_phi) and theta of shape (R, n, d_theta), which broadcast, and return
        (R, n).
    callback : callable, optional
        Called after each outer iteration, as ``callback(intermediate_result=result)`` if its parameter has that name,
        else as ``callback(x_outer, x_inner)`` with the best pair so far. May raise StopIteration.
    disp : bool
        Show a progress bar and the final message.
    max_iter, max_evals, max_time : optional
        Limits: outer iterations (100 where no limit is given), evaluations of L, seconds.
    **options
        Parameters of `NestedOptimizer`: ``n_outer``, ``n_inner``, ``first_iter``, ``inner_iter``, ``tol``,
        ``outer_options``, ``inner_options``, ``random_state``.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With ``x_outer`` (phi), ``x_inner`` (theta), ``fun`` (G there), ``lower_fun`` (L there), ``population``,
        ``nit``, ``nfev_lower``, ``nfev_upper``, ``nfev``, ``n_failed``, ``success``, ``status``, ``message``,
        ``history``; see `NestedOptimizer.result`. ``success`` says that the outer particles have met; a limit reached
        before is no success.

    Raises
    ------
    ValueError
        For parameters outside their range, and values of the wrong shape or type.

    See Also
    --------
    NestedOptimizer : the same with the loop in the caller's hands.
    minimize : bi-level problems without outer variables.

    References
    ----------
    SCB2O paper, appendix "Extension to parameterized lower-level solution sets".

    Examples
    --------
    The lower level has the minimisers ``+sqrt(phi)`` and ``-sqrt(phi)``, of which G picks the positive one:

    >>> result = minimize_nested(
    ...     lambda phi, theta: (theta[..., 0] ** 2 - phi[..., 0]) ** 2,
    ...     lambda phi, theta: phi[..., 0] ** 2 - theta[..., 0],
    ...     [(0, 1)],
    ...     [(-2, 2)],
    ...     vectorized=True,
    ...     max_evals=30_000,
    ...     random_state=0,
    ... )
    >>> bool(abs(result.x_outer[0] - 0.25 ** (2 / 3)) < 0.02), bool(abs(result.x_inner[0] - 0.25 ** (1 / 3)) < 0.02)
    (True, True)
    """
    if max_iter is None and max_evals is None and max_time is None:
        max_iter = DEFAULT_MAX_ITER
    optimizer = NestedOptimizer(
        outer_bounds, inner_bounds, max_iter=max_iter, max_evals=max_evals, max_time=max_time, **options
    )
    evaluator = PairEvaluator(lower, upper, args, vectorized)
    call_back = as_callback(callback, lambda result: (result.x_outer, result.x_inner))
    stopped: tuple[int, str] | None = None
    with tqdm(total=max_iter, disable=not disp, unit="it", desc="scb2o nested") as bar:
        try:
            while not optimizer.stop():
                _iterate(optimizer, evaluator)
                bar.update()
                if disp:
                    bar.set_postfix(_figures(optimizer.intermediate_result()))
                if call_back is not None and call_back(optimizer.intermediate_result()):
                    stopped = STOPPED
                    break
        except KeyboardInterrupt:
            stopped = INTERRUPTED
    result = optimizer.result
    result.nfev_lower, result.nfev_upper = evaluator.nfev_lower, evaluator.nfev_upper
    result.nfev = max(evaluator.nfev_lower, evaluator.nfev_upper)
    if stopped is not None:
        result.success, (result.status, result.message) = False, stopped
    _log.info("%s: L=%.6g, G=%.6g after %d evaluations", result.message, result.lower_fun, result.fun, result.nfev)
    if disp:
        tqdm.write(f"{result.message}: L = {result.lower_fun:.6g}, G = {result.fun:.6g}, {result.nfev} evaluations")
    return result


def _iterate(optimizer: NestedOptimizer, evaluator: PairEvaluator) -> None:
    """One outer iteration."""
    done = optimizer.n_iter
    while optimizer.n_iter == done:
        phi, theta = optimizer.ask()
        if evaluator.is_joint:
            L, G = evaluator.both(phi, theta)
        else:
            L = evaluator.lower(phi, theta)
            G = evaluator.upper(phi, theta, optimizer.needs_upper(L))
        optimizer.tell(L, G)


def _figures(result: OptimizeResult) -> Mapping[str, Any]:
    """What the progress bar shows."""
    return {"evals": result.nfev_lower, "L": f"{result.lower_fun:.3g}", "G": f"{result.fun:.3g}"}
