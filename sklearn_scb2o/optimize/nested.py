"""NestedOptimizer: bi-level problems whose lower level has a parameter, by two nested particle systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from .local_model import model_minimisers
from .nested_parameters import COLD_RATE, OUTER_BETA, OUTER_RATE, WARM_RATE, Sizes, checked_options, contracting
from .optimizer import SCB2OOptimizer
from .parameters import check_count
from .result import CONVERGED, LIMITS, Result
from .values import seed_sequence
from .warm_start import Floats, Solved, sorted_by_lower, warm_start

#: Columns of the history: of the last outer consensus point, its inner solution, and of the particles of both levels.
COLUMNS = ("x_outer", "x_inner", "lower", "upper", "spread", "inner_spread", "nfev_lower")

_NOTHING_ASKED = "without a pending batch: call ask() first, evaluate the pairs it returns, then tell() once"


class NestedOptimizer:
    r"""Derivative-free optimization of problems whose lower level depends on outer variables phi.

    .. math:: \min_{\phi, \theta} G(\phi, \theta) \quad\text{over}\quad \theta \in \operatorname{argmin} L(\phi, \cdot)

    For each phi, SCB2O over theta approximates a best response, the minimiser of ``L(phi, .)`` with the smallest G;
    consensus-based optimization over phi minimises G there. All inner problems of an outer iteration are solved
    together, as runs of one `SCB2OOptimizer`. In the first iteration they start from the whole box; later from what
    was found at the nearest outer points, and then a few iterations are enough. Each inner solution is the
    consensus point, or where a quadratic model of L, fitted to what was evaluated anyway, moves it, if L is less there.

    The caller owns the loop: `ask` for pairs (phi, theta), evaluate L and G, `tell` the values.

    Parameters
    ----------
    outer_bounds, inner_bounds : list of pairs (low, high), array of shape (d, 2), or scipy.optimize.Bounds
        The boxes of phi and theta.
    n_outer : int, at least 3
        R, the outer points of an iteration: R - 1 particles and, last, their consensus point of the iteration before.
    n_inner : int, at least 7, or "auto"
        N, the inner particles of each outer point. "auto": 8 + 2 d, with d the dimension of theta.
    first_iter, inner_iter : int, at least 2, or "auto"
        Inner iterations in the first outer iteration ("auto": 10 + 2 d), and in later ones (3 + d // 2).
    max_iter, max_evals, max_time : optional
        Limits that `stop` reports: outer iterations; evaluations of L, which the next outer iteration would exceed;
        seconds.
    tol : float
        `stop` reports a mean spread of the outer particles below ``tol`` times the first one.
    outer_options, inner_options : dict, optional
        Parameters of the outer and the inner `SCB2OOptimizer`, such as ``{"selection": "hard"}`` for an inner CB2O,
        ``{"lower_tol": 1e-3}``, or ``{"x0": ...}`` for the first outer iteration. The outer selection is "none".
    random_state : None, int, numpy SeedSequence, Generator or RandomState
        Seed.

    Attributes
    ----------
    n_iter : int
        Outer iterations done.
    consensus : array of shape (d_phi,) or None
        The consensus point of the outer particles.
    result : scipy.optimize.OptimizeResult
        Everything found so far.

    See Also
    --------
    minimize_nested : the loop around it, for objectives that are Python functions.

    References
    ----------
    SCB2O paper, appendix "Extension to parameterized lower-level solution sets".

    Examples
    --------
    The circle of radius phi and its point theta for which ``phi^2 + ||theta - (2, 1)||^2`` is smallest:

    >>> import numpy as np
    >>> opt = NestedOptimizer([(0, 3)], [(-3, 3), (-3, 3)], max_evals=20_000, random_state=0)
    >>> while not opt.stop():
    ...     phi, theta = opt.ask()
    ...     radius = phi[:, None, 0]
    ...     L = (np.sum(theta**2, axis=-1) - radius**2) ** 2
    ...     G = radius**2 + np.sum((theta - [2, 1]) ** 2, axis=-1)
    ...     opt.tell(L, G)
    >>> bool(abs(opt.result.x_outer[0] - 5**0.5 / 2) < 0.02)
    True
    """

    def __init__(
        self,
        outer_bounds: Any,
        inner_bounds: Any,
        *,
        n_outer: int = 12,
        n_inner: int | str = "auto",
        first_iter: int | str = "auto",
        inner_iter: int | str = "auto",
        max_iter: int | None = None,
        max_evals: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-4,
        outer_options: Mapping[str, Any] | None = None,
        inner_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self._outer_options = checked_options("outer_options", outer_options, frozenset(["selection"]))
        self._inner_options = checked_options("inner_options", inner_options, frozenset())
        self._inner_bounds = inner_bounds
        self.max_evals = None if max_evals is None else check_count("max_evals", max_evals, least=0)
        d = SCB2OOptimizer(inner_bounds, n_particles=2, **self._inner_options).bounds.lb.size
        sizes = Sizes.checked(d, n_outer, n_inner, first_iter, inner_iter)
        self.n_outer, self.n_inner = sizes.n_outer, sizes.n_inner
        self.first_iter, self.inner_iter = sizes.first_iter, sizes.inner_iter

        outer_seed, self._inner_seed, draws = seed_sequence(random_state).spawn(3)
        self._rng = np.random.default_rng(draws)
        self._outer = SCB2OOptimizer(
            outer_bounds, n_particles=self.n_outer - 1, selection="none", max_iter=max_iter, max_time=max_time,
            tol=tol, random_state=outer_seed, **{"beta": OUTER_BETA, **contracting(OUTER_RATE, self._outer_options)},
        )  # fmt: skip
        self._inner = self._runs(COLD_RATE)
        self._remaining = 0  # inner iterations of this outer one; 0 between outer iterations
        self._phi = self._theta = np.empty((0, 0))
        self._scale = np.empty(0)
        self._judged: NDArray[np.intp] | None = (
            None  # which inner particles are the consensus points, and the moved ones
        )
        self._seen: list[tuple[Floats, Floats]] = []  # inner points and L of this outer iteration
        self._last: Solved | None = None  # all of the last outer iteration
        self._archive = np.empty((0, self._inner.bounds.lb.size))  # inner solutions of the first outer points
        self._known: Solved | None = None  # what did not fail of the last one in which something did not
        self._history: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._nfev_lower = self._nfev_upper = self._n_failed = 0

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(d_outer={self._outer.bounds.lb.size}, d_inner={self._inner.bounds.lb.size}, "
            f"n_outer={self.n_outer}, n_inner={self.n_inner}, n_iter={self.n_iter})"
        )

    def _repr_html_(self) -> str:
        return f"<code>{self!r}</code>{self.intermediate_result()._repr_html_()}"

    # -- the loop ------------------------------------------------------------------------------------------------

    def ask(self) -> tuple[Floats, Floats]:
        """Return the next pairs to evaluate: each phi with N points theta.

        Returns
        -------
        phi : array of shape (R, d_phi)
            Outer points, the same ones until their inner problems are solved.
        theta : array of shape (R, N, d_theta)
            Inner points of each. Asking again before telling returns the same pairs.

        Examples
        --------
        >>> opt = NestedOptimizer([(0, 1)], [(0, 1)] * 3, random_state=0)
        >>> phi, theta = opt.ask()
        >>> phi.shape, theta.shape
        ((12, 1), (12, 14, 3))
        """
        if not self._remaining:
            self._begin()
        if self._remaining == 1 and self._judged is None:
            # the consensus point and where a model of L moves it take part in the last inner iteration
            population = self._inner.intermediate_result().population.x
            consensus: Floats = np.asarray(self._inner.consensus)
            consensus = np.where(np.isfinite(consensus), consensus, population[:, 0, :])
            box = self._inner.bounds
            points, values = (np.concatenate(parts, axis=1) for parts in zip(*self._seen, strict=True))
            judged = np.stack([consensus, model_minimisers(consensus, points, values, box.lb, box.ub)], axis=1)
            self._inner.inject(judged)
            distance = np.abs(self._inner.ask()[:, None] - judged[:, :, None]).sum(axis=-1)
            self._judged = np.argmin(distance, axis=-1)
        self._theta = self._inner.ask()
        return self._phi.copy(), self._theta.copy()

    def needs_upper(self, L: Any) -> NDArray[np.bool_]:
        """Pairs of the pending batch whose upper value can matter, given the lower values, (R, N).

        Where G is expensive, evaluate it on these only and tell NaN for the others: the result is the same.
        """
        if not self._remaining:
            raise RuntimeError(f"needs_upper() {_NOTHING_ASKED}")
        needed = np.array(self._inner.needs_upper(L))
        if self._judged is not None:
            np.put_along_axis(needed, self._judged, True, axis=1)
        return needed

    def tell(self, L: Any, G: Any) -> None:
        """Take the values of the pending pairs.

        NaN or +inf in L, or NaN in G where `needs_upper`, marks a failed evaluation, as for `SCB2OOptimizer`.

        Parameters
        ----------
        L, G : array of shape (R, N)
            Lower and upper values, in the order of the pairs asked.
        """
        if not self._remaining:
            raise RuntimeError(f"tell() {_NOTHING_ASKED}")
        self._inner.tell(L, G)
        self._remaining -= 1
        self._nfev_lower += self.n_outer * self.n_inner
        if self._judged is None:
            self._seen.append((self._theta, np.array(L, dtype=float)))
            return
        lower, upper = (np.take_along_axis(np.asarray(v, dtype=float), self._judged, axis=1) for v in (L, G))
        moved = (lower[:, 1] + self._inner.parameters.lower_tol < lower[:, 0]) & (upper[:, 1] == upper[:, 1])
        at = np.arange(self.n_outer), moved.astype(int)
        self._end(self._theta[at[0], self._judged[at]], lower[at], upper[at])

    def stop(self) -> dict[str, str]:
        """Reasons to stop that hold now, each with its explanation; empty means go on.

        Within an outer iteration there are none.

        Returns
        -------
        dict
            Keys among "max_iter", "max_evals", "max_time", "spread".
        """
        if self._remaining:
            return {}
        reasons = self._outer.stop()
        if self.max_evals is not None:
            more = self.n_outer * self.n_inner * self._next_iter
            if self._nfev_lower + more > self.max_evals:
                reasons["max_evals"] = (
                    f"{self._nfev_lower} evaluations done, an outer iteration of {more} would exceed "
                    f"max_evals={self.max_evals}"
                )
        return reasons

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def n_iter(self) -> int:
        """Number of outer iterations done."""
        return self._outer.n_iter

    @property
    def consensus(self) -> Floats | None:
        """The consensus point of the outer particles, (d_phi,); None before the first outer iteration is done."""
        return self._outer.consensus

    @property
    def result(self) -> Result:
        """Everything found in the outer iterations that are done.

        ``x_outer`` is the consensus point of the outer particles, or the best of them where more than half are better,
        as where the consensus lies between two basins; ``x_inner`` is the inner solution there, ``fun`` and
        ``lower_fun`` are G and L at this pair. Further ``population`` (x_outer, x_inner, lower, upper of the last outer
        iteration), ``nit``, ``nfev_lower``, ``nfev_upper``, ``nfev`` (the larger one), ``n_failed``, ``success``,
        ``status``, ``message``, and ``history``, whose columns are x_outer, x_inner, lower and upper of the consensus
        point, spread and inner_spread of the particles, and nfev_lower, one row for each outer iteration.
        """
        result = self.intermediate_result()
        result.history = {name: np.array(column) for name, column in self._history.items()}
        return result

    def intermediate_result(self) -> Result:
        """The `result` without its history, for callbacks."""
        reasons = self.stop()
        converged = [reason for reason in reasons if reason in CONVERGED]
        nfev_upper, n_failed = self._counts()
        result = Result(
            x_outer=None, x_inner=None, fun=np.nan, lower_fun=np.nan, population=None, nit=self.n_iter,
            nfev_lower=self._nfev_lower, nfev_upper=nfev_upper, nfev=max(self._nfev_lower, nfev_upper),
            n_failed=n_failed, success=bool(converged),
            status=min([CONVERGED.get(k, LIMITS.get(k, 9)) for k in reasons], default=0),
            message="; ".join(reasons.values()) or "no stopping criterion holds yet", history=None,
        )  # fmt: skip
        if self._last is None:
            return result
        phi, theta, lower, upper, _ = self._last
        ranked = np.where(upper == upper, upper, np.inf)
        better = np.count_nonzero(ranked < ranked[-1])
        best = int(np.argmin(ranked)) if 2 * better > len(upper) or ranked[-1] == np.inf else -1
        result.x_outer, result.x_inner = phi[best].copy(), theta[best].copy()
        result.lower_fun, result.fun = float(lower[best]), float(upper[best])
        result.population = OptimizeResult(
            x_outer=phi.copy(), x_inner=theta.copy(), lower=lower.copy(), upper=upper.copy()
        )
        return result

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _next_iter(self) -> int:
        return self.first_iter if self._known is None else self.inner_iter

    def _counts(self) -> tuple[int, int]:
        """Evaluations of G, and failed evaluations."""
        if not self._remaining:
            return self._nfev_upper, self._n_failed
        now = self._inner.intermediate_result()
        return self._nfev_upper + int(np.sum(now.nfev_upper)), self._n_failed + int(np.sum(now.n_failed))

    def _runs(self, rate: float, **options: Any) -> SCB2OOptimizer:
        """The inner problems of an outer iteration."""
        runs = SCB2OOptimizer(
            self._inner_bounds, n_particles=self.n_inner, n_runs=self.n_outer, tol=0.0,
            random_state=self._inner_seed.spawn(1)[0], **contracting(rate, {**self._inner_options, **options}),
        )  # fmt: skip
        runs._state.warned_failure = True  # an outer point may well fail; the outer level warns where all do
        return runs

    def _begin(self) -> None:
        """Begin an outer iteration: new outer points, and inner populations for them."""
        particles, box = self._outer.ask(), self._outer.bounds
        center = self._outer.consensus
        if center is None or not np.isfinite(center).all():
            center = particles.mean(axis=0)
        self._phi = np.concatenate([particles, np.clip(center, box.lb, box.ub)[None, :]])
        if self.n_iter == 0:
            width = np.ptp(self._phi, axis=0)
            self._scale = np.where(width > 0, width, 1.0)
        elif self._known is None:
            self._inner = self._runs(COLD_RATE)
        else:
            box = self._inner.bounds
            x0 = warm_start(self._phi, self._known, self._archive, self._scale, self._rng, box.lb, box.ub)
            self._inner = self._runs(WARM_RATE, x0=x0)
        self._remaining, self._judged, self._seen = self._next_iter, None, []

    def _end(self, theta: Floats, lower: Floats, upper: Floats) -> None:
        """End an outer iteration, given the consensus points of the inner runs, (R, d), and L and G there, (R,)."""
        inner = self._inner.intermediate_result()
        # the best particle, where it is known to be at least as good in both
        best = inner.best
        failed = ~(lower < np.inf) | (upper != upper)
        swap = failed | ((best.lower <= lower) & (best.upper <= upper))
        theta, lower = np.where(swap[:, None], best.x, theta), np.where(swap, best.lower, lower)
        upper = np.where(lower < np.inf, np.where(swap, best.upper, upper), np.nan)

        population = sorted_by_lower(inner.population.x, inner.population.lower)
        self._last = solved = Solved(self._phi, theta, lower, upper, population)
        usable = upper == upper
        if usable.any():
            self._known = Solved(*(values[usable] for values in solved))
            if not len(self._archive):
                self._archive = theta[usable]
        self._nfev_upper += int(np.sum(inner.nfev_upper))
        self._n_failed += int(np.sum(inner.n_failed))
        self._outer.tell(None, upper[:-1])
        spreads = self._outer.history.last("spread")[0], self._inner.history.last("spread").mean()
        row = self._phi[-1], theta[-1], lower[-1], upper[-1], *spreads, self._nfev_lower
        for column, value in zip(self._history.values(), row, strict=True):
            column.append(value)
