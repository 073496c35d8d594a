"""Noise, rounding, plateaus, jumps, kinks and failures, on spheres."""

from __future__ import annotations

import itertools
import math

import numpy as np

from .geometry import closest_on_cross_polytope, ends_of_section, lowest_on_sphere
from .problem import ROUGH, VIOLATION, Floats, QualityProblem, Values, box, equal, mixed, rotation
from .smooth import sphere


def _rough(problem: QualityProblem, name: str, **changes: object) -> QualityProblem:
    fields = {
        "bounds": problem.bounds, "upper": problem.upper, "constraints": problem.constraints,
        "solutions": problem.solutions, "upper_opt": problem.upper_opt,
    }  # fmt: skip
    return QualityProblem(f"{name} {problem.d}", ROUGH, **(fields | changes))  # type: ignore[arg-type]


def noisy(d: int, seed: int) -> QualityProblem:
    """Noise that is added: 1e-7 on L, 1e-4 on h, 1e-3 on G."""

    def observe(rng: np.random.Generator, x: Floats, v: Values) -> Values:
        L, G = (a + s * rng.standard_normal(a.shape) for a, s in ((v.lower, 1e-7), (v.upper, 1e-3)))
        return v._replace(lower=L, upper=G, equalities=v.equalities + 1e-4 * rng.standard_normal(v.equalities.shape))

    return _rough(sphere(d, seed), "noise", observe=observe)


def noisy_factor(d: int, seed: int) -> QualityProblem:
    """Noise that multiplies: 20% on L, 10% on h, 0.1% on G."""

    def observe(rng: np.random.Generator, x: Floats, v: Values) -> Values:
        L, G, h = (
            a * (1.0 + s * rng.standard_normal(a.shape))
            for a, s in ((v.lower, 0.2), (v.upper, 1e-3), (v.equalities, 0.1))
        )
        return v._replace(lower=np.abs(L), upper=G, equalities=h)

    return _rough(sphere(d, seed), "noisy factor", observe=observe)


def ruffled(d: int, seed: int) -> QualityProblem:
    """The error of a simulation: small waves of a length of 1e-3 on h and G, the same at each evaluation."""
    wave = np.random.default_rng([d, seed]).standard_normal((2, d))

    def observe(rng: np.random.Generator, x: Floats, v: Values) -> Values:
        e = np.sin(6e3 * (x @ wave.T))
        h = v.equalities + 2e-4 * e[:, :1]
        return v._replace(lower=np.sum(h * h, axis=-1), upper=v.upper + 1e-3 * e[:, 1], equalities=h)

    return _rough(sphere(d, seed), "ruffled", observe=observe)


def rounded(d: int, seed: int) -> QualityProblem:
    """Values of h in steps of 1e-3, of G in steps of 1e-2."""

    def observe(rng: np.random.Generator, x: Floats, v: Values) -> Values:
        h = np.round(v.equalities, 3)
        return v._replace(lower=np.sum(h * h, axis=-1), upper=np.round(v.upper, 2), equalities=h)

    return _rough(sphere(d, seed), "rounded", observe=observe)


def stairs(d: int, seed: int) -> QualityProblem:
    """Values of h in steps of 0.05, towards 0: L is flat nearly everywhere, its minimisers are a thick shell."""
    rng = np.random.default_rng([d, seed])
    R, weights = rotation(d, rng), np.geomspace(1.0, 5.0, d)
    center = 2.0 / math.sqrt(d) * rng.choice([-1.0, 1.0], d) * rng.uniform(0.7, 1.3, d)
    x_opt = R @ lowest_on_sphere(weights, center, math.sqrt(1.05) - 1e-12)  # the center lies outside

    def upper(x: Floats) -> Floats:
        return 1.0 + np.sum(weights * (x @ R - center) ** 2, axis=-1)

    def h(x: Floats) -> Floats:
        return 0.05 * np.trunc((np.sum(x * x, axis=-1) - 1.0) / 0.05)

    return QualityProblem(
        f"stairs {d}", ROUGH, box(-3, 3, d), upper, lambda x: equal(h(x)), solutions=x_opt[None],
        upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def _cap(d: int, seed: int) -> tuple[Floats, float, Floats, Floats]:
    """A normal, a level, a target, and the point of the sphere closest to it below the level."""
    R = rotation(d, np.random.default_rng([d, seed]))
    normal, level = R[:, 0], 0.3
    target = 1.5 * normal + R[:, 1]  # its closest point lies above
    return normal, level, target, level * normal + math.sqrt(1.0 - level**2) * R[:, 1]


def upper_jump(d: int, seed: int) -> QualityProblem:
    """G jumps up by 3 on a cap of the sphere, and its minimum lies at the edge."""
    normal, level, target, x_opt = _cap(d, seed)

    def smooth(x: Floats) -> Floats:
        return np.sum((x - target) ** 2, axis=-1)

    return QualityProblem(
        f"G jumps {d}", ROUGH, box(-3, 3, d), lambda x: smooth(x) + 3.0 * (x @ normal > level + 1e-9),
        lambda x: equal(np.sum(x * x, axis=-1) - 1), solutions=x_opt[None], upper_opt=float(smooth(x_opt)),
    )  # fmt: skip


def tariffs(d: int, n_planes: int, n_fees: int, seed: int) -> QualityProblem:
    """A linear cost, with fees and other rates above thresholds of some coordinates, on a section of the sphere.

    The lowest cost is one of: each coordinate with a fee below its threshold, at it, or above it.
    """
    rng = np.random.default_rng([d, seed])
    planes, levels, gain = rotation(d, rng)[:n_planes], rng.uniform(-0.2, 0.2, n_planes), rotation(d, rng)[0]
    best = next(ends_of_section(planes, levels, gain))
    thresholds = best[:n_fees] - rng.uniform(0.1, 0.3, n_fees)
    fees, rates = rng.uniform(0.05, 0.2, n_fees), rng.uniform(-0.1, 0.3, n_fees)

    def upper(x: Floats) -> Floats:
        above = x[..., :n_fees] - thresholds
        return 2.0 - x @ gain + np.sum((above > 1e-9) * (fees + rates * above), axis=-1)

    candidates = [
        x
        for places in itertools.product((-1, 0, 1), repeat=n_fees)
        for at, above in [(np.flatnonzero(np.equal(places, place)) for place in (0, 1))]
        for x in ends_of_section(
            np.vstack([planes, np.eye(d)[at]]),
            np.append(levels, thresholds[at]),
            gain - rates[above] @ np.eye(d)[above],
        )
        if all(place * (x[i] - thresholds[i]) > 0 for i, place in enumerate(places) if place)
    ]
    x_opt = min(candidates, key=upper)

    def h(x: Floats) -> Floats:
        return np.concatenate([np.sum(x * x, axis=-1, keepdims=True) - 1.0, x @ planes.T - levels], axis=-1)

    return QualityProblem(
        f"tariffs {d}-{n_planes}", ROUGH, box(-3, 3, d), upper, lambda x: equal(*np.moveaxis(h(x), -1, 0)),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def lower_jump(d: int, seed: int) -> QualityProblem:
    """L jumps up by 1 on a cap of the sphere; a constraint function that only says whether it holds."""
    normal, level, target, x_opt = _cap(d, seed)

    def upper(x: Floats) -> Floats:
        return np.sum((x - target) ** 2, axis=-1)

    def constraints(x: Floats) -> tuple[Floats, Floats]:
        return mixed([np.sum(x * x, axis=-1) - 1], [1.0 * (x @ normal > level + 1e-9)])

    return QualityProblem(
        f"L jumps {d}", ROUGH, box(-3, 3, d), upper, constraints, solutions=x_opt[None],
        upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def absolute(d: int, seed: int) -> QualityProblem:
    """L = |h|: a violation of 1e-3 is an L of 1e-3."""
    problem = sphere(d, seed)
    return _rough(
        problem, "|h|", lower=lambda x: np.abs(problem.constraints(x)[0][..., 0]), lower_tol=VIOLATION
    )  # fmt: skip


def diamond(d: int, seed: int) -> QualityProblem:
    """A rotated cross-polytope, whose closest point to the target has zeros."""
    rng = np.random.default_rng([d, seed])
    R = rotation(d, rng)
    center = rng.choice([-1.0, 1.0], d) * np.concatenate([rng.uniform(1.0, 1.3, 2), rng.uniform(0.0, 0.4, d - 2)])
    x_opt = R @ closest_on_cross_polytope(center)

    def upper(x: Floats) -> Floats:
        return np.sum((x @ R - center) ** 2, axis=-1)

    return QualityProblem(
        f"diamond {d}", ROUGH, box(-3, 3, d), upper, lambda x: equal(np.sum(np.abs(x @ R), axis=-1) - 1),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def kinks(d: int, seed: int) -> QualityProblem:
    """A sum of absolute values on the sphere, with its minimum where all of them have their kink."""
    rng = np.random.default_rng([d, seed])
    R, y = rotation(d, rng), rng.choice([-1.0, 1.0], d - 1) * rng.uniform(0.1, 0.4, d - 1) * math.sqrt(3 / (d + 1))
    x_opt = R @ np.concatenate([[math.sqrt(1.0 - y @ y)], y])

    def upper(x: Floats) -> Floats:
        z = x @ R
        return 2.0 + np.sum(np.abs(z[..., 1:] - y), axis=-1) - 0.2 * z[..., 0]

    return QualityProblem(
        f"kinks {d}", ROUGH, box(-3, 3, d), upper, lambda x: equal(np.sum(x * x, axis=-1) - 1),
        solutions=x_opt[None], upper_opt=float(upper(x_opt)),
    )  # fmt: skip


def failing(d: int, seed: int) -> QualityProblem:
    """Nothing comes back from two fifths of the box, in slabs; one begins close to the solution."""
    problem = sphere(d, seed)
    normal = rotation(d, np.random.default_rng([d, seed, 1]))[0]

    def observe(rng: np.random.Generator, x: Floats, v: Values) -> Values:
        fails = np.sin(4.0 * ((x - problem.solutions[0]) @ normal)) > 0.3
        return Values(*(np.where(fails if a.ndim == 1 else fails[:, None], np.nan, a) for a in v))

    return _rough(problem, "failures", observe=observe)
