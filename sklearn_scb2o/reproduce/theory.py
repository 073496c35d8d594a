"""The paper's rates, measured: error of finitely many particles against N, of the Euler-Maruyama step against dt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..particles import consensus_point, euler_maruyama_step, gibbs_weights, soft_selection
from ..problems import circle
from .figures import save_figure

Array = NDArray[np.float64]

#: Up to time 1, isotropic noise with 2 lam > d sigma^2, start uniform on [-1.5, 1.5]^2. The rates are those of large N
#: and small dt; the more sharply alpha and tau select, the larger and smaller. With alpha = 30, beta = 0.05 and xi = 10
#: of the paper's experiment, the N and dt below give the slopes -0.83 and 0.20.
HORIZON, LAM, SIGMA, HALF_WIDTH = 1.0, 1.0, 0.7, 1.5
ALPHA, BETA, TAU = 1.0, 0.3, 0.1
#: L is capped, as the paper's assumption of a bounded Lipschitz function asks for.
LOWER_MAX = 1.0

PARTICLES, LARGE, COPIES, PARTICLE_STEPS = (50, 100, 200, 400, 800), 32_768, 24, 20
STEPS, FINE_STEPS, STEP_PARTICLES = (64, 128, 256, 512, 1024), 32_768, 64


@dataclass(frozen=True)
class ErrorCurve:
    """Mean square errors against N or dt, by seed, and the slope that the paper states."""

    name: str  #: "N" or "dt"
    x: Array  #: abscissae, shape (n,)
    squared: Array  #: mean square errors, (n_seeds, times, n)
    root: bool  #: whether the error is the root of the mean square
    expected: float  #: slope of the error in double logarithms

    def error(self, weights: Array | None = None) -> Array:
        """Largest over time of the mean over seeds, weighted by the last axis of `weights`; shape (..., n)."""
        n_seeds = len(self.squared)
        weights = np.full(n_seeds, 1.0 / n_seeds) if weights is None else weights
        mean_square = np.tensordot(weights, self.squared, axes=1).max(axis=-2)
        return np.sqrt(mean_square) if self.root else mean_square

    def slope(self, weights: Array | None = None) -> Array:
        """Slope of the least-squares line through the logarithms, for each row of `weights`."""
        centred = np.log(self.x) - np.log(self.x).mean()
        return np.log(self.error(weights)) @ centred / (centred @ centred)

    def interval(self, statistic: Callable[[Array], Array], level: float = 0.95, n_samples: int = 2000) -> Array:
        """Bootstrap interval over seeds of `error` or `slope`: the two percentiles; NaN for a single seed."""
        n_seeds = len(self.squared)
        drawn = np.random.default_rng(0).multinomial(n_seeds, np.full(n_seeds, 1.0 / n_seeds), size=n_samples)
        ends = np.quantile(statistic(drawn / n_seeds), [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
        return ends if n_seeds > 1 else np.full_like(ends, np.nan)


def particle_error(
    seeds: Sequence[int],
    *,
    particles: Sequence[int] = PARTICLES,
    large: int = LARGE,
    copies: int = COPIES,
    steps: int = PARTICLE_STEPS,
    advance: Callable[[], object] = lambda: None,
) -> ErrorCurve:
    """Mean square distance of N particles to as many of a large system with the same start and Brownian paths.

    The large system stands for the mean-field limit. It is cut into blocks of N; the first `copies` of them are the
    starts and paths of as many independent systems of N particles.

    Parameters
    ----------
    seeds : sequence of int
        One large system each.
    particles : sequence of int
        Values of N.
    large : int
        Particles of the large system, many times the largest N.
    copies : int
        Systems of N particles for each N and seed, as far as the large one is enough for.
    steps : int
        Euler-Maruyama steps up to time 1, the same for all systems.
    advance : callable
        Called after each seed.

    Returns
    -------
    ErrorCurve
        The paper's slope is -1.

    References
    ----------
    SCB2O paper, proposition "sharp mean-field approximation", equation (MFA-result).

    Examples
    --------
    >>> curve = particle_error([0, 1], particles=[20, 40], large=400, steps=5)
    >>> curve.squared.shape, curve.expected
    ((2, 5, 2), -1.0)
    """
    squared = []
    for seed in seeds:
        rng = np.random.default_rng([seed, 0])
        reference = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (large, 2))
        cuts = [partial(_blocks, N=N, copies=copies) for N in particles]
        swarms = [cut(reference) for cut in cuts]
        path = []
        for _ in range(steps):
            normals = rng.standard_normal(reference.shape)
            swarms = [_step(x, cut(normals), HORIZON / steps) for x, cut in zip(swarms, cuts, strict=True)]
            reference = _step(reference, normals, HORIZON / steps)
            path.append([_mean_square(x, cut(reference)).mean() for x, cut in zip(swarms, cuts, strict=True)])
        squared.append(path)
        advance()
    return ErrorCurve("N", np.asarray(particles, float), np.asarray(squared), root=False, expected=-1.0)


def step_error(
    seeds: Sequence[int],
    *,
    steps: Sequence[int] = STEPS,
    fine_steps: int = FINE_STEPS,
    particles: int = STEP_PARTICLES,
    advance: Callable[[], object] = lambda: None,
) -> ErrorCurve:
    """Root mean square distance at time 1 of N particles moved in few steps to the same moved in many.

    A long step takes the sum of the Brownian increments of the short ones.

    Parameters
    ----------
    seeds : sequence of int
        One system of particles each; they advance together.
    steps : sequence of int
        Numbers of steps, each a multiple of the first and a divisor of `fine_steps`.
    fine_steps : int
        Steps of the reference.
    particles : int
        N.
    advance : callable
        Called ``len(seeds)`` times in all, evenly.

    Returns
    -------
    ErrorCurve
        The paper's slope is 1/2.

    References
    ----------
    SCB2O paper, lemma "localized Euler-Maruyama approximation", equation (localized-EM-conditional-error-m).

    Examples
    --------
    >>> curve = step_error([0, 1], steps=[2, 4], fine_steps=16, particles=10)
    >>> curve.x, curve.squared.shape, curve.expected
    (array([0.5 , 0.25]), (2, 1, 2), 0.5)
    """
    rngs = [np.random.default_rng([seed, 1]) for seed in seeds]
    start = np.stack([rng.uniform(-HALF_WIDTH, HALF_WIDTH, (particles, 2)) for rng in rngs])
    counts = (*steps, fine_steps)
    swarms = [start] * len(counts)
    done = 0
    for stretch in range(1, steps[0] + 1):
        shape = fine_steps // steps[0], particles, 2
        fine = np.stack([rng.standard_normal(shape) for rng in rngs], axis=1)
        for i, count in enumerate(counts):
            ratio = fine_steps // count
            for normals in fine.reshape(-1, ratio, *fine.shape[1:]).sum(axis=1) / math.sqrt(ratio):
                swarms[i] = _step(swarms[i], normals, HORIZON / count)
        while done < stretch * len(seeds) // steps[0]:
            done += 1
            advance()
    squared = np.stack([_mean_square(x, swarms[-1]) for x in swarms[:-1]], axis=-1)
    return ErrorCurve("dt", HORIZON / np.asarray(steps, float), squared[:, None], root=True, expected=0.5)


def _step(x: Array, normals: Array, dt: float) -> Array:
    """One step (em_scheme) of systems of shape (..., N, 2) on the circle problem."""
    L = np.minimum(_CIRCLE.lower(x), LOWER_MAX)
    weights = gibbs_weights(_CIRCLE.upper(x), ALPHA, soft_selection(L, BETA, TAU).log_eta)
    m = consensus_point(x, weights)[..., None, :]
    return euler_maruyama_step(x, m, normals, lam=LAM, sigma=SIGMA, dt=dt, noise="isotropic")


def _blocks(x: Array, N: int, copies: int) -> Array:
    """The first rows of x as at most `copies` systems of N, shape (copies, N, d)."""
    copies = min(copies, len(x) // N)
    return x[: copies * N].reshape(copies, N, -1)


def _mean_square(x: Array, y: Array) -> Array:
    return np.mean(np.sum((x - y) ** 2, axis=-1), axis=-1)


_CIRCLE = circle()


def run_theory(n_seeds: int, advance: Callable[[], object] = lambda: None) -> list[ErrorCurve]:
    """Measure both errors.

    Parameters
    ----------
    n_seeds : int
        Seeds 0 to n_seeds - 1.
    advance : callable
        Called ``2 n_seeds`` times, after equal parts of the work of either error.

    Returns
    -------
    list of ErrorCurve
        Against the number of particles, and against the step.

    Examples
    --------
    >>> [curve.name for curve in run_theory(20)]  # doctest: +SKIP
    ['N', 'dt']
    """
    return [measure(range(n_seeds), advance=advance) for measure in (particle_error, step_error)]


def table_theory(curves: Sequence[ErrorCurve]) -> str:
    """Errors and slopes as text.

    Parameters
    ----------
    curves : sequence of ErrorCurve
        From `particle_error` and `step_error`.

    Returns
    -------
    str
        With 95% intervals by bootstrap over seeds.
    """
    lines = []
    for curve in curves:
        what = (
            f"root mean square error against {curve.name}" if curve.root else f"mean square error against {curve.name}"
        )
        lines += [f"{what}, {len(curve.squared)} seeds", f"{curve.name:>10}  {'error':>8}  {'95% interval':>18}"]
        low, high = curve.interval(curve.error)
        for x, error, a, b in zip(curve.x, curve.error(), low, high, strict=True):
            lines.append(f"{x:>10.4g}  {error:8.2e}  {a:8.2e}, {b:8.2e}")
        lines += [f"     slope  {_slope_text(curve)}; the paper's {curve.expected:g}", ""]
    return "\n".join(lines[:-1])


def _slope_text(curve: ErrorCurve) -> str:
    low, high = curve.interval(curve.slope)
    return f"{curve.slope():.3f} [{low:.3f}, {high:.3f}]"


def figure_theory(curves: Sequence[ErrorCurve], path: Path) -> None:
    """Save the errors in double logarithms, a panel per curve, with the fitted line and the paper's slope.

    Parameters
    ----------
    curves : sequence of ErrorCurve
        From `particle_error` and `step_error`.
    path : Path
        Where to write the picture; its suffix is the format.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(4.6 * len(curves), 3.6), layout="constrained")
    for ax, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
        error, (low, high) = curve.error(), curve.interval(curve.error)
        bars = np.nan_to_num(np.maximum([error - low, high - error], 0.0))
        ax.errorbar(curve.x, error, bars, fmt="o", color="#0072B2", ms=5, capsize=3, label="mean, 95% interval")
        middle = np.exp(np.mean(np.log(curve.x))), np.exp(np.mean(np.log(error)))
        for slope, style, label in (
            (curve.slope(), {"color": "#0072B2", "ls": "-"}, f"slope {_slope_text(curve)}"),
            (curve.expected, {"color": "black", "ls": "--"}, f"slope {curve.expected:g}, the paper's"),
        ):
            ax.plot(curve.x, middle[1] * (curve.x / middle[0]) ** slope, lw=1.2, label=label, **style)
        kind = "root mean square" if curve.root else "mean square"
        xlabel = "number of particles N" if curve.name == "N" else "step size dt"
        title = "finitely many particles" if curve.name == "N" else "Euler-Maruyama steps"
        ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=f"{kind} error", title=title)
        ax.set_xticks(curve.x, [f"{x:g}" if x >= 1 else f"1/{round(1 / x)}" for x in curve.x])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.legend(fontsize=8, frameon=False)
    save_figure(figure, path, dpi=150)
