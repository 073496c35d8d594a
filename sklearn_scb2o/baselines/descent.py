"""The loop that gradient methods share: steps from several starts, the best of which is the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from ..optimize.box import make_box
from ..optimize.parameters import check_count, check_number
from .gradients import Objective

Floats = NDArray[np.float64]
#: Projects points to the box.
Project = Callable[[Floats], Floats]
#: One step of a method: from points (n, d), L, G and the projection to new points.
Step = Callable[[Floats, Objective, Objective, Project], Floats]
CONVERGED, MAX_ITER, NOT_FINITE = 1, 3, 9


def descend(
    step: Step,
    penalty: float,
    lower: Callable[..., Any],
    upper: Callable[..., Any],
    x0: Any,
    *,
    lower_grad: Callable[..., Any] | None,
    upper_grad: Callable[..., Any] | None,
    bounds: Any,
    vectorized: bool,
    max_iter: int,
    tol: float,
) -> OptimizeResult:
    """Repeat a step from each start; the result is the start that ends with the smallest ``G + penalty L``.

    A start whose next point would not be finite stays where it is. Parameters and result are those of `vpbgd`.
    """
    check_count("max_iter", max_iter, least=0)
    check_number("tol", tol, zero=True)
    x, low, high = _starts(x0, bounds)
    is_single = np.ndim(x0) == 1
    L = Objective("lower", lower, lower_grad, vectorized, low, high)
    G = Objective("upper", upper, upper_grad, vectorized, low, high)
    lower_values, upper_values = [L(x)], [G(x)]
    stuck: Any = np.zeros(len(x), dtype=bool)
    converged = False
    while not converged and len(lower_values) <= max_iter:
        with np.errstate(over="ignore", invalid="ignore"):
            new = step(x, L, G, lambda points: np.clip(points, low, high))
        stuck = ~np.isfinite(new).all(axis=1)
        new = np.where(stuck[:, None], x, new)
        converged = bool(np.abs(new - x).max() < tol)
        x = new
        lower_values.append(L(x))
        upper_values.append(G(x))
    with np.errstate(over="ignore", invalid="ignore"):
        merit = upper_values[-1] + penalty * lower_values[-1]
    best = int(np.argmin(np.where(np.isnan(merit), np.inf, merit)))
    if stuck[best] or not np.isfinite(merit[best]):
        status, message = (
            NOT_FINITE,
            "the next point or the values at x are not finite; take a smaller step_size or another x0",
        )
    elif converged:
        status, message = CONVERGED, f"no coordinate of any start has moved by tol={tol:g}"
    else:
        status, message = MAX_ITER, f"max_iter={max_iter} iterations done"
    history = {"lower": np.stack(lower_values), "upper": np.stack(upper_values)}
    return OptimizeResult(
        x=x[best].copy(), fun=float(upper_values[-1][best]), lower_fun=float(lower_values[-1][best]),
        nit=len(lower_values) - 1, nfev_lower=L.nfev, nfev_upper=G.nfev, nfev=max(L.nfev, G.nfev), njev=L.njev,
        n_failed=int(stuck.sum()), success=status == CONVERGED, status=status, message=message,
        history={name: values[:, 0] for name, values in history.items()} if is_single else history,
        population=OptimizeResult(x=x, lower=lower_values[-1], upper=upper_values[-1]),
    )  # fmt: skip


def _starts(x0: Any, bounds: Any) -> tuple[Floats, Floats, Floats]:
    """Starts as points (n, d), and the box."""
    try:
        x = np.array(x0, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"x0={x0!r:.80} must hold real numbers") from None
    if x.ndim not in (1, 2) or x.size == 0:
        raise ValueError(f"x0 has shape {x.shape}, expected (d,) for one start or (n, d) for n of them")
    box = make_box(bounds, x, 1.0, float)
    box.check_points(x, "x0")
    return np.atleast_2d(x), box.low, box.high
