"""VPBGD: gradient descent on the upper objective with a penalty for the lower one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.optimize import OptimizeResult

from ..optimize.parameters import check_number
from .descent import Floats, Project, descend
from .gradients import Objective


def vpbgd(
    lower: Callable[..., Any],
    upper: Callable[..., Any],
    x0: Any,
    *,
    lower_grad: Callable[..., Any] | None = None,
    upper_grad: Callable[..., Any] | None = None,
    bounds: Any = None,
    vectorized: bool = False,
    step_size: float = 0.01,
    penalty: float = 50.0,
    max_iter: int = 300,
    tol: float = 0.0,
) -> OptimizeResult:
    r"""Value-function penalty-based bi-level gradient descent (VPBGD).

    .. math:: x_{k+1} = \Pi_C\bigl(x_k - \tfrac{\eta}{\xi} (\nabla G(x_k) + \xi \nabla L(x_k))\bigr)

    with step size :math:`\eta`, penalty :math:`\xi` and the projection :math:`\Pi_C` to the box. It descends on
    :math:`G + \xi (L - v)`, where the value function v, the minimum of L over the variables of the lower level, is a
    constant: here these are all variables. So a fixed point is a stationary point of :math:`G + \xi L`, and L exceeds
    its minimum there by an amount of order :math:`1/\xi^2`; which basin it lies in is decided by the start.

    Near a minimiser where H and A are the Hessian matrices of L and G, an iteration multiplies the distance to the
    fixed point by :math:`I - \eta (H + A/\xi)`: it is stable for :math:`\eta < 2 / \lambda_{\max}(H + A/\xi)`.

    Parameters
    ----------
    lower : callable
        ``lower(x) -> float``, the lower objective L at a point of shape (d,). None, NaN or inf says that the
        evaluation failed.
    upper : callable
        ``upper(x) -> float``, the upper objective G.
    x0 : array of shape (d,) or (n, d)
        One start, or n of them, which advance together and do not see each other.
    lower_grad, upper_grad : callable, optional
        Gradients of L and G, from (d,) to (d,). By default central differences, which take 2d evaluations and do not
        leave the box.
    bounds : list of d pairs, array of shape (d, 2), or scipy.optimize.Bounds, optional
        The box C; by default no bounds.
    vectorized : bool
        The functions take points of shape (m, d) and return (m,), their gradients (m, d).
    step_size : float
        Step :math:`\eta` along the gradient of L.
    penalty : float
        Weight :math:`\xi` of L against G.
    max_iter : int
        Iterations at most.
    tol : float
        The run ends where no coordinate of any start moves by this much. With 0 it does all iterations.

    Returns
    -------
    scipy.optimize.OptimizeResult
        Of the start that ends with the smallest :math:`G + \xi L`: ``x``, ``fun`` (G there), ``lower_fun`` (L there).
        Of all starts: ``population`` (x, lower, upper at the end), ``history`` (``"lower"`` and ``"upper"``, each
        (nit + 1, n), or (nit + 1,) for x0 of shape (d,)), ``nit``, ``nfev_lower``, ``nfev_upper`` (evaluations, those
        for the history and for differences included), ``nfev`` (the larger one), ``njev`` (gradients of L, as many as
        of G), ``n_failed`` (starts that stay where they are because their next point is not finite), ``success``
        (whether `tol` was reached), ``status``, ``message``.

    Raises
    ------
    ValueError
        For parameters outside their range, starts outside the bounds, and values of the wrong shape or type.

    See Also
    --------
    sbgd : alternates steps on L and on G.

    References
    ----------
    Shen, Chen, "On penalty-based bilevel gradient descent method" (2023), where the step size is
    :math:`\eta/\xi`. SCB2O paper, appendix "Comparison against gradient based methods".

    Examples
    --------
    ``L = x_0^2`` is minimal on a line, on which ``G = (x_0 - 1)^2 + (x_1 - 1)^2`` is minimal at (0, 1); the fixed point
    has ``x_0 = 1 / (1 + penalty)``:

    >>> result = vpbgd(
    ...     lambda x: x[0] ** 2, lambda x: (x[0] - 1) ** 2 + (x[1] - 1) ** 2, [3.0, 3.0], step_size=0.5, max_iter=2000
    ... )
    >>> result.x.round(4).tolist(), round(1 / 51, 4)
    ([0.0196, 1.0], 0.0196)
    """
    check_number("step_size", step_size)
    check_number("penalty", penalty)

    def step(x: Floats, L: Objective, G: Objective, project: Project) -> Floats:
        return project(x - step_size * L.gradient(x) - step_size / penalty * G.gradient(x))

    return descend(
        step, penalty, lower, upper, x0, lower_grad=lower_grad, upper_grad=upper_grad, bounds=bounds,
        vectorized=vectorized, max_iter=max_iter, tol=tol,
    )  # fmt: skip
