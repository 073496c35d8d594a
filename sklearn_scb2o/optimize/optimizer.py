"""SCB2OOptimizer: the particle system as an object that its user asks for points and tells their values."""

from __future__ import annotations

import time
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from ..particles.backend import Array, to_numpy
from ..particles.selection import quantile_rank
from .box import make_box
from .history import LOOK_EVERY, History
from .parameters import PAPER, Parameters, as_selector, check_count
from .ranking import Remembered, rank, recall
from .savable import Savable
from .schedules import Schedules
from .state import Counts, State
from .stopping import Limits
from .streams import make_streams
from .swarm import Swarm
from .tickets import Tickets
from .update import update_consensus
from .values import as_start, as_values, pick_dtype, pick_namespace

_NOTHING_ASKED = "{}() without a pending batch: call ask() first, evaluate the points it returns, then tell() once"


class SCB2OOptimizer(Savable):
    r"""Derivative-free bi-level optimization by soft consensus: minimise G over the minimisers of L.

    N particles move towards a consensus point and explore around it. Per iteration, with the values L_i, G_i of the
    particles x_i:

    1. soft quantile q of the lower values, ``mean_i psi((q - L_i)/tau) = beta``,
    2. selection weights ``eta_i = psi((q - L_i)/tau)``,
    3. consensus ``m = sum_i x_i eta_i exp(-alpha G_i) / sum_i eta_i exp(-alpha G_i)``,
    4. ``x_i <- x_i - lam dt (x_i - m) + sigma sqrt(dt) D(x_i - m) B_i``, B_i standard normal.

    The caller owns the loop: `ask` for a batch of points, evaluate them, `tell` the values. By default alpha, tau
    and sigma adapt, and the result does not depend on the units of L and G; `from_paper` fixes the paper's constants.

    Parameters
    ----------
    bounds : list of d pairs (low, high), array of shape (d, 2), or scipy.optimize.Bounds, optional
        The box to search; None or an infinity in a pair means no bound, ``low == high`` fixes a coordinate. Every
        point asked lies inside. Optional where x0 is given.
    x0 : array of shape (d,), (k, d) with k <= N, (R, N, d), or a result of this optimizer, optional
        Start: these points enter the first population (of a result: its population), the rest is drawn uniformly in
        the box, or normally about the mean of x0 where there are no bounds.
    n_particles : int, at least 2
        N.
    n_runs : int
        R independent runs advanced together; arrays then have a leading axis R.
    selection : {"soft", "hard", "none"}
        SCB2O, CB2O (hard quantile), CBO (no lower level: every particle is selected).
    selector : {"logistic", "gumbel"} or Selector
        The function psi.
    alpha : "auto", positive float, or callable
        Inverse temperature in units of 1/G. "auto": the particle at three fifths of the ranks of G inside the quantile
        has the weight exp(-2) of the best one.
    beta : "auto", float in (0, 1], or callable
        Quantile level. "auto": 0.05 d, between 0.1 and 0.25.
    tau : "auto", positive float, or callable
        Softness of the selection in units of L. "auto": 0.05 of the spread of the values inside the quantile.
    xi : positive float or callable, optional
        The paper's sharpness, ``xi = 1 / (tau alpha)``, instead of tau.
    lam : positive float or callable
        Drift.
    sigma : "auto", non-negative float, or callable
        Noise. "auto": such that the swarm contracts almost surely by exp(-0.06 / d^0.3) per iteration.
    dt : positive float or callable
        Step size.
    noise : {"scaled", "isotropic", "anisotropic"}
        Diffusion D(z): ``||z|| / sqrt(d)``, ``||z||`` (the paper's), or ``diag(z)``.
    noise_cap : positive float, optional
        Truncated noise: D is at most this, in units of `x_scale`.
    noise_floor : non-negative float or callable
        D is at least this: steady re-excitation, with which particles that have met go on exploring.
    batch_size : int, optional
        Ask for a random part of the particles at a time, of this size; the others rest. All by default.
    boundary : {"reflect", "clip", "periodic"}
        What happens to a particle that a step carries out of the box.
    lower_tol : float
        L is replaced by ``max(L, L_best + lower_tol)``: points so close to the best value count as minimisers.
    lower_max, upper_max : float, optional
        Values above are clipped to these.
    x_scale : "auto", positive float or array of shape (d,)
        Width of the search in each coordinate, rounded to a power of two; noise is isotropic in x / x_scale. "auto":
        the width of the box, or ``max(1, |x0|)``.
    x_opt : array of shape (d,), optional
        A known optimum, to record the distance to it in the history.
    max_iter, max_evals : int, optional
        Limits that `stop` reports: iterations; evaluations of L per run, which the next batch would exceed.
    max_time : float, optional
        Limit in seconds since the first `ask`.
    tol : float
        `stop` reports a mean spread below ``tol`` times the first one.
    stagnation : int, optional
        `stop` reports a consensus that has moved by less than ``tol`` times the first spread in so many iterations.
    max_failed_batches : int
        So many batches in a row whose evaluations all fail are an error.
    dtype : {"float64", "float32"} or dtype, optional
        Type of positions and values; that of a floating x0, else float64.
    xp : module or str, optional
        Array API namespace of the arrays asked and told; that of x0, else NumPy.
    device : optional
        Device of the arrays, as `xp` names it.
    random_state : None, int, numpy SeedSequence, Generator or RandomState, or a sequence of n_runs of them
        Seed of the optimizer's own stream. Run r of several equals a single run with the r-th child of
        ``SeedSequence(seed).spawn(n_runs)``.

    Attributes
    ----------
    consensus : array of shape (d,) or (R, d)
        The current consensus point.
    result : scipy.optimize.OptimizeResult
        Everything found so far.

    Raises
    ------
    ValueError
        For a parameter outside its range, naming it, its value and the accepted range.

    See Also
    --------
    minimize : the loop around it, for objectives that are Python functions.

    Notes
    -----
    On array libraries other than NumPy `ask` and `tell` queue work on the device and do not wait for it, once every
    run has a consensus. Failed batches are looked at every 64 iterations, and by `stop` and `result`, which wait:
    call `stop` every so many iterations where an iteration takes less than a millisecond. The history comes to the
    host when it is read. Values that are told as arrays of the library, on the device, stay there.

    References
    ----------
    Chao, Sun, Riedl, Khadiv, Etesami, "Convergence of consensus-based particle methods for nonconvex bi-level
    optimization" (2026); Garcia Trillos et al., "CB2O: consensus-based bi-level optimization", arXiv 2411.13394.

    Examples
    --------
    The point of the unit circle that is closest to (2, 1):

    >>> import numpy as np
    >>> opt = SCB2OOptimizer([(-3, 3), (-3, 3)], max_iter=150, random_state=0)
    >>> while not opt.stop():
    ...     X = opt.ask()
    ...     L = (np.sum(X**2, axis=1) - 1) ** 2
    ...     G = np.sum((X - [2, 1]) ** 2, axis=1)
    ...     opt.tell(L, G)
    >>> bool(np.abs(opt.consensus - np.array([2, 1]) / 5**0.5).max() < 0.01)
    True
    """

    def __init__(
        self,
        bounds: Any = None,
        *,
        x0: Any = None,
        n_particles: int = 100,
        n_runs: int = 1,
        selection: str = "soft",
        selector: Any = "logistic",
        alpha: Any = "auto",
        beta: Any = "auto",
        tau: Any = "auto",
        xi: Any = None,
        lam: Any = 1.0,
        sigma: Any = "auto",
        dt: Any = 0.8,
        noise: str = "scaled",
        noise_cap: float | None = None,
        noise_floor: Any = 0.0,
        batch_size: int | None = None,
        boundary: str = "reflect",
        lower_tol: float = 0.0,
        lower_max: float | None = None,
        upper_max: float | None = None,
        x_scale: Any = "auto",
        x_opt: Any = None,
        max_iter: int | None = None,
        max_evals: int | None = None,
        max_time: float | None = None,
        tol: float = 1e-8,
        stagnation: int | None = None,
        max_failed_batches: int = 10,
        dtype: Any = None,
        xp: ModuleType | str | None = None,
        device: Any = None,
        random_state: Any = None,
    ) -> None:
        self.parameters = Parameters(
            selection, as_selector(selector), alpha, beta, tau, xi, lam, sigma, dt, noise, noise_cap, noise_floor,
            boundary, lower_tol, lower_max, upper_max,
        )  # fmt: skip
        self.n_particles = check_count(
            "n_particles", n_particles, least=2, why=": a single particle is its own consensus and never moves"
        )
        self.n_runs = check_count("n_runs", n_runs)
        self.batch_size = self.n_particles if batch_size is None else check_count("batch_size", batch_size, least=2)
        if self.batch_size > self.n_particles:
            raise ValueError(f"batch_size={batch_size} must lie in [2, n_particles], n_particles={n_particles}")
        self.limits = Limits(max_iter, max_evals, max_time, tol, stagnation, max_failed_batches)

        if isinstance(x0, OptimizeResult):
            x0 = x0["population"]["x"]
        xp, device = pick_namespace(xp, x0, device)
        dtype = pick_dtype(dtype, x0)
        start = as_start(x0, self.n_runs, self.n_particles, dtype)
        box = make_box(bounds, start, x_scale, dtype)
        if start is not None:
            start = box.check_points(start, "x0")
        self.parameters.warn_if_expanding(box.d)
        self.x_opt = None if x_opt is None else np.asarray(x_opt, dtype=float)
        if self.x_opt is not None and self.x_opt.shape != (box.d,):
            raise ValueError(f"x_opt has shape {self.x_opt.shape}, expected ({box.d},)")

        self._schedules = Schedules(self.parameters, box.d)
        self._swarm = swarm = Swarm(box, self.n_runs, self.n_particles, self.batch_size, start, xp, device)
        self._x_opt = self.x_opt if self.x_opt is None or xp is np else swarm.array(self.x_opt.astype(dtype))
        streams = make_streams(random_state, self.n_runs, self.n_particles, swarm.scale)
        y = swarm.first(streams)
        spread = swarm.spread(y)
        best = xp.full_like(y[:, :1, 0], np.inf)
        history = History(self.n_runs, swarm.measure)
        self._state = State(y, spread, best, streams, history, (0, self.batch_size), first_spread=spread)
        self._value_shape = (self.batch_size,) if self.n_runs == 1 else (self.n_runs, self.batch_size)
        self._remembered: Remembered | None = None  # what `needs_upper` has found out, for `tell`
        self._started_at: float | None = None

    @classmethod
    def from_paper(cls, bounds: Any = None, **overrides: Any) -> SCB2OOptimizer:
        """The optimizer with the constants of the paper's two-dimensional experiments.

        N = 100, alpha = 30, beta = 0.05, lam = sigma = 1, dt = 0.01, isotropic noise, no scaling of coordinates.
        The softness is up to the caller: ``xi=`` (the paper sweeps 10 to 10000; 1000 by default), ``tau=``, or
        ``selection="hard"`` for CB2O.

        Parameters
        ----------
        bounds
            As for the class.
        **overrides
            Any parameter of the class.

        Returns
        -------
        SCB2OOptimizer

        Examples
        --------
        >>> SCB2OOptimizer.from_paper([(-3, 3), (-3, 3)], xi=100.0)
        SCB2OOptimizer(d=2, n_particles=100, selection='soft', n_iter=0)
        """
        settings = {**PAPER, **overrides}
        if settings.get("selection", "soft") == "soft" and "tau" not in overrides:
            settings.setdefault("xi", 1000.0)
        return cls(bounds, **settings)

    def __repr__(self) -> str:
        runs = f", n_runs={self.n_runs}" if self.n_runs > 1 else ""
        return (
            f"{type(self).__name__}(d={self._swarm.box.d}, n_particles={self.n_particles}{runs}, "
            f"selection={self.parameters.selection!r}, n_iter={self.n_iter})"
        )

    # -- the loop ------------------------------------------------------------------------------------------------

    def ask(self, n: int | None = None) -> Any:
        """Return the next points to evaluate: a batch, or, as others are still being evaluated, n of them.

        Parameters
        ----------
        n : int, optional
            How many points (of a single run, without `batch_size`). They come with running numbers under which `tell`
            takes their values, in any order, all at once or not. Fewer come where all other particles are out, or
            `max_evals` is reached. A particle moves when its values were told and it is needed again.

        Returns
        -------
        array of shape (N, d), or (R, N, d) for R > 1 runs
            (B, d) with a batch size B. The caller's own copy. Asking again before telling returns the same batch.
            With n, a pair of arrays: numbers (n,), points (n, d).

        Examples
        --------
        >>> opt = SCB2OOptimizer([(0, 1)] * 3, n_particles=20, random_state=0)
        >>> opt.ask().shape
        (20, 3)

        Three at a time, of which the last is told first:

        >>> opt = SCB2OOptimizer([(0, 1)] * 3, n_particles=20, random_state=0)
        >>> ids, X = opt.ask(3)
        >>> ids
        array([0, 1, 2])
        >>> opt.tell([X[2].sum()], [1.0], ids=ids[2:])
        """
        if self._started_at is None:
            self._started_at = time.monotonic()
        state = self._state
        if n is not None:
            return self._hand_out(n)
        if state.tickets is not None:
            if state.tickets.n_out:
                raise RuntimeError(
                    f"ask() while {state.tickets.n_out} points are out: tell() them first, or go on with ask(n)"
                )
            state.tickets = None
        x = None
        if not state.pending:
            if not state.moved:
                x = self._swarm.advance(state, self._schedules.step(self))
            if state.injected:
                x = None
                self._swarm.place(state, np.concatenate(state.injected, axis=1))
                state.injected = []
            state.pending = state.moved = True
        return self._unbatched(self._swarm.to_user(state.batch) if x is None else x)

    def needs_upper(self, L: Any, *, ids: Any = None) -> Array:
        """Rows of the pending batch whose upper value can matter, given the lower values.

        Where G is expensive, evaluate it on these rows only and tell NaN on the others: the result is the same.

        Parameters
        ----------
        L : array of shape (N,) or (R, N)
            Lower values of the pending batch.
        ids : array of shape (k,), optional
            Numbers of points that ask(n) returned; L is then (k,).

        Returns
        -------
        boolean array of the shape of `L`

        Examples
        --------
        >>> opt = SCB2OOptimizer([(-1, 1)] * 2, random_state=0)
        >>> int(opt.needs_upper(opt.ask()[:, 0] ** 2).sum())
        20
        """
        rows = self._asked(ids, "needs_upper")
        return self._unbatched(self._needed(self._values("L", L, rows), rows))

    def tell(self, L: Any, G: Any, *, ids: Any = None, drift: Any = None) -> None:
        """Take the values of the pending batch and compute the new consensus.

        NaN or +inf in L, or NaN in G on a row that `needs_upper`, marks a failed evaluation: it has no weight.
        -inf and huge values are data. None counts as NaN. The arrays are not written to.

        Parameters
        ----------
        L, G : array of shape (N,) or (R, N)
            Lower and upper values, in the order of the points asked. With ``selection="none"`` L may be None.
        ids : array of shape (k,), optional
            Numbers of points that ask(n) returned, all or some, in any order; L and G are then (k,). The consensus is
            that of the last values of all particles.
        drift : array of shape (N, d) or (R, N, d), optional
            A velocity of each particle, such as ``-gamma * grad L``: before its next step the particle moves by
            ``dt * drift``, and no further than the bounds.

        Raises
        ------
        RuntimeError
            If no batch is pending, or after `max_failed_batches` batches in a row whose evaluations all failed.
        ValueError
            If a shape or type is wrong; the optimizer is then as before the call.
        """
        state, swarm = self._state, self._swarm
        rows = self._asked(ids, "tell")
        if L is None and self.parameters.selection == "none":
            L = np.zeros(self._value_shape if rows is None else len(rows))
        L, G = self._values("L", L, rows), self._values("G", G, rows)
        if rows is not None and drift is not None:
            raise ValueError("drift goes with whole batches: leave it out where ids are given")
        velocity = None if drift is None else swarm.velocities(drift, state)
        settings = self._schedules.settings(self)
        missed = None if rows is None else self._missed(L, G, rows)
        # from here on nothing is refused
        if rows is None:
            state.told_lower, state.told_upper = L, G
        else:
            assert state.tickets is not None
            assert missed is not None
            state.tickets.take_in(state, rows, L, G, missed, swarm)
        points, lower, upper = state.latest
        if state.tickets is not None:
            upper = state.tickets.compared_upper(swarm)
        known = None if state.tickets is not None else recall(self._remembered, lower, settings, state.lower_best)
        update = update_consensus(points, lower, upper, settings, state.lower_best, swarm.xp, known)
        self._remembered = None
        counts = (
            Counts.of_batch(update, L.shape[1], swarm.xp)
            if missed is None or L.shape[1] == self.n_particles
            else _counts(L, G, missed)
        )
        state.absorb(update, counts, swarm.xp)
        state.drift = velocity
        failed = counts.failed
        if state.tickets is not None:
            failed = state.tickets.complete(counts)
            if failed is None:
                return
            swarm.settle(state)
        state.close(
            update,
            failed,
            np.nan if self.x_opt is None else swarm.distances(state.m, self._x_opt),
            None if self.limits.stagnation is None else self.limits.still_below(state, swarm.scale, swarm.xp),
            swarm.xp,
        )
        if state.tickets is not None:
            self._look_at_failures(state.n_iter, np.full(1, failed >= self.n_particles), 3)
        elif swarm.xp is not np:
            state.dead.append(update.dead)
            if len(state.dead) == LOOK_EVERY:
                self._look_back(4)
        elif update.dead is None:
            state.failed_batches = 0
        else:
            self._look_at_failures(state.n_iter, update.dead, 3)

    def tell_consensus(self, L: Any, G: Any) -> None:
        """Take the values of the current consensus point, for the history and the result.

        Parameters
        ----------
        L, G : float, or arrays of shape (R,)
            Lower and upper value at `consensus`. NaN where an evaluation failed.
        """
        if self._state.m is None:
            raise RuntimeError("tell_consensus() before the first tell(): there is no consensus point yet")
        values = {}
        for name, value in (("L", L), ("G", G)):
            array = to_numpy(np.nan if value is None else value).astype(float)
            if array.shape not in {(), (self.n_runs,)}:
                raise ValueError(
                    f"{name} at the consensus has shape {array.shape}, expected ({self.n_runs},) or a number"
                )
            values[name] = np.array(np.broadcast_to(array, (self.n_runs,)))
        self._state.m_lower, self._state.m_upper = values["L"], values["G"]
        self._state.history.amend(lower=values["L"], upper=values["G"])

    def inject(self, points: Any) -> None:
        """Let the given points take the place of the particles of least weight in the next new batch.

        Parameters
        ----------
        points : array of shape (d,), (k, d) or (R, k, d)
            Points inside the bounds; all that wait together at most as many as a batch has.
        """
        y = self._swarm.box.check_points(to_numpy(points), "points")
        y = y.reshape(1, -1, self._swarm.box.d) if y.ndim < 3 else y
        waiting = sum(p.shape[1] for p in self._state.injected)
        if y.shape[0] not in (1, self.n_runs) or y.shape[1] + waiting > self.batch_size:
            raise ValueError(
                f"points have shape {np.shape(points)}, expected (k, {self._swarm.box.d}) or "
                f"({self.n_runs}, k, {self._swarm.box.d}) with k <= {self.batch_size - waiting}"
            )
        self._state.injected.append(np.array(np.broadcast_to(y, (self.n_runs, *y.shape[1:]))))

    # -- inside --------------------------------------------------------------------------------------------------

    def _values(self, name: str, values: Any, rows: Any = None) -> Array:
        shape = self._value_shape if rows is None else (len(rows),)
        return as_values(name, values, shape, self._state.y, self._swarm.xp, self._swarm.device)

    def _needed(self, L: Array, rows: Any) -> Array:
        """Where the upper value matters, given the lower values of a batch, or of particles that are out."""
        state, swarm, settings = self._state, self._swarm, self._schedules.settings(self)
        if rows is None:
            ranking = rank(L, settings, state.lower_best, swarm.xp)
            if swarm.xp is np:  # elsewhere, looking whether the same values are told would wait for a device
                self._remembered = Remembered(L, settings, state.lower_best, ranking)
            return ranking.needed
        assert state.tickets is not None
        present = state.tickets.present(rows, L, swarm)
        known = int(np.count_nonzero(to_numpy(present) < np.inf))
        if known < quantile_rank(settings.beta, self.n_particles):
            return np.inf > L  # each may be inside the quantile in the end
        # the softness of the selection may still grow: the fewer are known, the more particles are asked for
        settings = replace(settings, beta=min(1.0, settings.beta * (2.0 - known / self.n_particles)))
        return swarm.take(rank(present, settings, state.lower_best, swarm.xp).needed, rows)

    def _missed(self, L: Array, G: Array, rows: Any) -> NDArray[np.bool_]:
        """Which of some particles lack an upper value that matters, (k,)."""
        unknown = np.isnan(to_numpy(G)[0])
        return unknown & to_numpy(self._needed(L, rows))[0] if unknown.any() else unknown

    def _asked(self, ids: Any, call: str) -> Any:
        """The particles that were handed out under these numbers; None for a batch, which must be pending."""
        state = self._state
        if ids is None:
            if state.pending:
                return None
            if state.tickets is not None and state.tickets.n_out:
                raise RuntimeError(f"{call}() without ids while points are out: pass the numbers that ask(n) returned")
            raise RuntimeError(_NOTHING_ASKED.format(call))
        if state.tickets is None:
            raise RuntimeError(f"{call}(ids=...) without points that are out: call ask(n) first")
        return state.tickets.find(ids)

    def _hand_out(self, n: int) -> tuple[NDArray[np.int64], Array]:
        state, swarm = self._state, self._swarm
        n = check_count("n", n, least=0)
        if self.n_runs > 1 or self.batch_size < self.n_particles:
            raise ValueError(
                f"ask({n}) needs a single run that evaluates all particles, not n_runs={self.n_runs}, "
                f"batch_size={self.batch_size}: use ask(), or another optimizer"
            )
        if state.pending:
            raise RuntimeError(f"ask({n}) while a batch is pending: tell() its values first, or go on with ask()")
        if state.tickets is None:
            self._look_back(4)
            state.tickets = Tickets.begin(state, swarm)
        if self.limits.max_evals is not None:
            n = min(n, max(0, self.limits.max_evals - state.nfev_lower - state.tickets.n_out))
        numbers, y = state.tickets.hand_out(state, swarm, self._schedules.step(self), n)
        return numbers, swarm.to_user(y)[0, ...]


def _counts(L: Array, G: Array, missed: NDArray[np.bool_]) -> Counts:
    """Counts of values of a single run, (1, k), among which a G that matters is missing in some rows."""
    L, G = to_numpy(L), to_numpy(G)
    failed = ~(np.inf > L) | missed
    return Counts(L.shape[1], int(np.sum(~np.isnan(G) | missed)), int(np.sum(failed)))
