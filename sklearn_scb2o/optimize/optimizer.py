"""SCB2OOptimizer: the particle system as an object that its user asks for points and tells their values."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from .ask_tell import AskTell
from .box import make_box
from .history import History
from .parameters import PAPER, Parameters, as_selector, check_count
from .ranking import Remembered
from .schedules import Schedules
from .state import State
from .stopping import Limits
from .streams import make_streams
from .swarm import Swarm
from .values import as_start, pick_dtype, pick_namespace


class SCB2OOptimizer(AskTell):
    r"""Derivative-free bi-level optimization by soft consensus: minimise G over the minimisers of L.

    N particles move towards a consensus point and explore around it. Per iteration, with the values L_i, G_i of the
    particles x_i:

    1. soft quantile q of the lower values, ``mean_i psi((q - L_i)/tau) = beta``,
    2. selection weights ``eta_i = psi((q - L_i)/tau)``,
    3. consensus ``m = sum_i x_i eta_i exp(-alpha G_i) / sum_i eta_i exp(-alpha G_i)``,
    4. ``x_i <- x_i - lam dt (x_i - m) + sigma sqrt(dt) D(x_i - m) B_i``, B_i standard normal.

    The caller owns the loop: `ask` for a batch of points, evaluate them, `tell` the values. By default alpha, tau
    and sigma adapt, and the result does not depend on the units of L and G; `from_paper` fixes the paper's constants.
    A parameter that may be callable is a schedule: it is called with the optimizer before each iteration.

    Parameters
    ----------
    bounds : list of d pairs (low, high), array of shape (d, 2), or scipy.optimize.Bounds, optional
        The box to search; None or an infinity in a pair means no bound, ``low == high`` fixes a coordinate. Every
        point asked lies inside. Optional where x0 is given.
    x0 : array of shape (d,), (k, d) with k <= N, (R, N, d), or a result of this optimizer, optional
        Start: these points enter the first population (of a result: its population), the rest is drawn uniformly in
        the box, or normally about the mean of x0 where there are no bounds.
    n_particles : int, at least 2, default=100
        The number N of particles, which are the points of a batch.
    n_runs : int, default=1
        R independent runs advanced together; arrays then have a leading axis R.
    selection : {"soft", "hard", "none"}, default="soft"
        SCB2O, CB2O (hard quantile), CBO (no lower level: every particle is selected).
    selector : {"logistic", "gumbel"} or Selector, default="logistic"
        The function psi, which increases from 0 to 1.
    alpha : "auto", positive float, or callable, default="auto"
        Inverse temperature in units of 1/G. "auto": the particle at three fifths of the ranks of G inside the quantile
        has the weight exp(-2) of the best one.
    beta : "auto", float in (0, 1], or callable, default="auto"
        Quantile level, the share of the particles that L selects. "auto": 0.05 d, between 0.1 and 0.25.
    tau : "auto", positive float, or callable, default="auto"
        Softness of the selection in units of L. "auto": 0.05 of the spread of the values inside the quantile.
    xi : positive float or callable, optional
        The paper's sharpness, ``xi = 1 / (tau alpha)``, instead of tau.
    lam : positive float or callable, default=1
        Strength of the drift to the consensus point.
    sigma : "auto", non-negative float, or callable, default="auto"
        Strength of the noise. "auto": such that the swarm contracts almost surely by exp(-0.06 / d^0.3) per iteration.
    dt : positive float or callable, default=0.8
        Step size.
    noise : {"scaled", "isotropic", "anisotropic"}, default="scaled"
        Diffusion D(z): ``||z|| / sqrt(d)``, ``||z||`` (the paper's), or ``diag(z)``.
    noise_cap : positive float, optional
        Truncated noise: D is at most this, in units of `x_scale`.
    noise_floor : non-negative float or callable, default=0
        D is at least this: steady re-excitation, with which particles that have met go on exploring.
    batch_size : int, optional
        Ask for a random part of the particles at a time, of this size; the others rest. All by default.
    boundary : {"reflect", "clip", "periodic"}, default="reflect"
        A particle that a step carries out of the box is reflected, put on the bound, or let in on the other side.
    lower_tol : float, default=0
        L is replaced by ``max(L, L_best + lower_tol)``: points so close to the best value count as minimisers.
    lower_max, upper_max : float, optional
        Values above are clipped to these.
    x_scale : "auto", positive float or array of shape (d,), default="auto"
        Width of the search in each coordinate, rounded to a power of two; noise is isotropic in x / x_scale. "auto":
        the width of the box, or ``max(1, |x0|)``.
    x_opt : array of shape (d,), optional
        A known optimum, to record the distance to it in the history.
    max_iter, max_evals : int, optional
        Limits that `stop` reports: iterations; evaluations of L per run, which the next batch would exceed.
    max_time : float, optional
        Limit in seconds since the first `ask`.
    tol : float, default=1e-8
        `stop` reports a mean spread below ``tol`` times the first one.
    stagnation : int, optional
        `stop` reports a consensus that has moved by less than ``tol`` times the first spread in so many iterations.
    max_failed_batches : int, default=10
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
    run has a consensus. Failed batches are looked at every 64 iterations, and by `stop` and `result`, which wait: call
    `stop` every so many iterations where they are fast. The history comes to the host when it is read.

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
