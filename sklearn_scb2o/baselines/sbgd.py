"""SBGD: gradient steps on the lower and on the upper objective in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.optimize import OptimizeResult

from ..optimize.parameters import check_number
from .descent import Floats, Project, descend
from .gradients import Objective


def sbgd(
    lower: Callable[..., Any],
    upper: Callable[..., Any],
    x0: Any,
    *,
    lower_grad: Callable[..., Any] | None = None,
    upper_grad: Callable[..., Any] | None = None,
    bounds: Any = None,
    vectorized: bool = False,
    step_size: float = 0.01,
    ratio: float = 50.0,
    max_iter: int = 300,
    tol: float = 0.0,
) -> OptimizeResult:
    r"""Sequential bi-level gradient descent (SBGD).

    .. math::
        x_{k+1/2} &= \Pi_C(x_k - \gamma\alpha \nabla L(x_k)) \\
        x_{k+1} &= \Pi_C(x_{k+1/2} - \alpha \nabla G(x_{k+1/2}))

    with step size :math:`\alpha`, step ratio :math:`\gamma` and the projection :math:`\Pi_C` to the box. For small
    steps its fixed points are close to the stationary points of :math:`G + \gamma L`.

    Near a minimiser where H and A are the Hessian matrices of L and G, an iteration multiplies the distance to the
    fixed point by :math:`(I - \alpha A)(I - \gamma\alpha H)`. Beyond :math:`\gamma\alpha = 2 / \lambda_{\max}(H)` it
    jumps between the basins of L without end.

    Parameters
    ----------
    lower, upper, x0, lower_grad, upper_grad, bounds, vectorized
        As in `vpbgd`.
    step_size : float
        Step :math:`\alpha` on G.
    ratio : float
        Ratio :math:`\gamma` of the step on L to that on G.
    max_iter, tol
        As in `vpbgd`.

    Returns
    -------
    scipy.optimize.OptimizeResult
        As that of `vpbgd`, of the start that ends with the smallest :math:`G + \gamma L`.

    Raises
    ------
    ValueError
        For parameters outside their range, starts outside the bounds, and values of the wrong shape or type.

    See Also
    --------
    vpbgd : one step on both together.

    References
    ----------
    SCB2O paper, appendix "Comparison against gradient based methods", algorithm "SBGD".

    Examples
    --------
    ``L = x_0^2`` is minimal on a line, on which ``G = (x_0 - 1)^2 + (x_1 - 1)^2`` is minimal at (0, 1):

    >>> result = sbgd(lambda x: x[0] ** 2, lambda x: (x[0] - 1) ** 2 + (x[1] - 1) ** 2, [3.0, 3.0], max_iter=2000)
    >>> result.x.round(2).tolist()
    [0.02, 1.0]
    """
    check_number("step_size", step_size)
    check_number("ratio", ratio)

    def step(x: Floats, L: Objective, G: Objective, project: Project) -> Floats:
        half = project(x - ratio * step_size * L.gradient(x))
        return project(half - step_size * G.gradient(half))

    return descend(
        step, ratio, lower, upper, x0, lower_grad=lower_grad, upper_grad=upper_grad, bounds=bounds,
        vectorized=vectorized, max_iter=max_iter, tol=tol,
    )  # fmt: skip
