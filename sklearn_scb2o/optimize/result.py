"""What an optimizer has found, as a scipy OptimizeResult."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from ..particles.backend import to_numpy
from .state import State

#: Reasons to stop that mean that the particles have converged, with the status of a result.
CONVERGED = {"spread": 1, "stagnation": 2}
#: Limits that were reached before.
LIMITS = {"max_iter": 3, "max_evals": 4, "max_time": 5}


#: Fields that a result shows, in this order, where it has them.
SHOWN = (
    "message", "success", "x", "x_outer", "x_inner", "lower_fun", "fun", "nit", "nfev_lower", "nfev_upper", "n_failed",
)  # fmt: skip


class Result(OptimizeResult):  # type: ignore[misc]  # untyped base
    """A SciPy result that is shown in a dozen lines, with the names of the fields that are left out."""

    def shown(self) -> dict[str, str]:
        """What is shown of each field."""
        rows = {name: _short(self[name]) for name in SHOWN if name in self}
        return {**rows, "and": ", ".join(name for name in self if name not in SHOWN)}

    def __repr__(self) -> str:
        rows = self.shown()
        width = max(map(len, rows))
        return "\n".join(f"{name:>{width}}: {value}" for name, value in rows.items())

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in self.shown().items())
        return f"<table>{''.join(rows)}</table>"


def _short(value: Any) -> str:
    """A value in a line or, of several runs, in a few."""
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=5, threshold=8, edgeitems=2, prefix=" " * 12)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def build_result(reasons: dict[str, str], state: State, to_user: Any, with_history: bool = True) -> Result:
    """Collect the result of an optimizer.

    Parameters
    ----------
    reasons : dict
        Reasons to stop that hold, with their explanations.
    state : State
        Its state.
    to_user : callable
        Maps internal coordinates to points.
    with_history : bool
        Whether the columns of the history, which grow with the iterations, are copied into the result.

    Returns
    -------
    Result
        With ``x``, ``fun`` (G there), ``lower_fun`` (L there): the consensus point, or the best evaluated particle
        where that is known to be at least as good in both. Further ``consensus`` and ``best`` (each with x, lower,
        upper), ``population`` (x, lower, upper of the last batch), ``nit``, ``nfev_lower``, ``nfev_upper``, ``nfev``
        (the larger one), ``n_failed``, ``success``, ``status``, ``message``, ``history``. With several runs the
        fields have a leading axis R.
    """
    n_runs = state.y.shape[0]
    single = n_runs == 1

    def out(value: Any) -> Any:
        array = np.array(to_numpy(value))
        array = array if array.ndim else np.full(n_runs, value)
        if not single:
            return array
        return array[0] if array.ndim > 1 else array[0].item()

    converged = [k for k in reasons if k in CONVERGED]
    status = min([CONVERGED.get(k, LIMITS.get(k, 9)) for k in reasons], default=0)
    history = state.history.columns() if with_history else None
    result = Result(
        x=None, fun=np.nan, lower_fun=np.nan, consensus=None, best=None, population=None,
        nit=state.n_iter, nfev_lower=out(state.nfev_lower), nfev_upper=out(state.nfev_upper),
        nfev=max(state.nfev_lower, int(np.max(to_numpy(state.nfev_upper)))), n_failed=out(state.n_failed),
        success=bool(converged), status=status,
        message="; ".join(reasons.values()) or "no stopping criterion holds yet", history=history,
    )  # fmt: skip
    if state.m is None:
        result.message = "nothing was told yet"
        return result
    unknown = np.full(state.y.shape[0], np.nan)
    m = to_numpy(to_user(state.m))
    if state.alive is not None:
        m = np.where(to_numpy(state.alive)[:, None], m, np.nan)
    m_lower = unknown if state.m_lower is None else state.m_lower
    m_upper = unknown if state.m_upper is None else state.m_upper
    best, best_lower, best_upper = (to_numpy(v) for v in (to_user(state.best_y), state.best_lower, state.best_upper))
    best_lower, best_upper = best_lower[:, 0], best_upper[:, 0]
    dominates = (best_lower <= m_lower) & (best_upper <= m_upper)
    result.x = out(np.where(dominates[:, None], best, m))
    result.fun = out(np.where(dominates, best_upper, m_upper))
    result.lower_fun = out(np.where(dominates, best_lower, m_lower))
    result.consensus = OptimizeResult(x=out(m), lower=out(m_lower), upper=out(m_upper))
    result.best = OptimizeResult(x=out(best), lower=out(best_lower), upper=out(best_upper))
    if state.tickets is not None or not state.moved:
        y, L, G = state.latest
        result.population = OptimizeResult(x=out(to_user(y)), lower=out(L), upper=out(G))
    else:
        result.population = OptimizeResult(x=out(to_user(state.y)), lower=None, upper=None)
    return result
