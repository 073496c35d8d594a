"""Where the inner populations of new outer points start: near what was found at the outer points before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Outer points whose inner populations a new one draws on.
NEIGHBOURS = 5


class Solved(NamedTuple):
    """Inner problems that were solved at R outer points."""

    phi: Floats  #: outer points, (R, p)
    theta: Floats  #: inner solutions, (R, d)
    lower: Floats  #: L there, (R,)
    upper: Floats  #: G there, (R,); NaN where the evaluations failed
    population: Floats  #: inner particles by increasing L, (R, N, d)


def sorted_by_lower(population: Floats, lower: Floats) -> Floats:
    """Particles (R, N, d) of each run by increasing lower values (R, N); those that failed come last."""
    order = np.argsort(np.where(lower == lower, lower, np.inf), axis=1, kind="stable")
    return np.take_along_axis(population, order[..., None], axis=1)


def n_explorers(n: int) -> int:
    """How many of n inner particles are drawn from the whole box, and how many from the archive."""
    return max(1, n // 10)


def warm_start(
    phi: Floats, solved: Solved, archive: Floats, scale: Floats, rng: np.random.Generator, low: Floats, high: Floats
) -> Floats:
    """Inner start points of new outer points.

    They are the particles of least L of the nearest outer points, about as many of each; some solutions at any outer
    points, as the minimum of L may jump from one basin to another; and, last, the solution that an affine function of
    phi predicts. The rest of a population, `n_explorers`, is for the caller to draw from the whole box.

    Parameters
    ----------
    phi : array of shape (R, p)
        New outer points.
    solved : Solved
        What is known at other outer points; only those without failures.
    archive : array of shape (k, d)
        Solutions at any outer points.
    scale : array of shape (p,)
        Units in which outer points are compared.
    rng : numpy.random.Generator
        Draws from the archive.
    low, high : array of shape (d,)
        Inner bounds.

    Returns
    -------
    array of shape (R, k, d)
        For populations of N, ``k = N - n_explorers(N)``.
    """
    n = solved.population.shape[1]
    offsets = (solved.phi - phi[:, None, :]) / scale
    order = np.argsort(np.linalg.norm(offsets, axis=-1), axis=1, kind="stable")
    near = order[:, :NEIGHBOURS]
    n_archived = n_explorers(n)
    taken = n - n_explorers(n) - n_archived - 1
    shares = [len(part) for part in np.array_split(np.arange(taken), near.shape[1])]
    particles = [solved.population[near[:, j], :share] for j, share in enumerate(shares)]
    archived = archive[rng.integers(len(archive), size=(len(phi), n_archived))]
    predicted = np.clip(_predict(offsets, solved.theta, order), low, high)
    return np.concatenate([*particles, archived, predicted[:, None, :]], axis=1)


def _predict(offsets: Floats, theta: Floats, order: NDArray[Any]) -> Floats:
    """The affine function of phi that fits the solutions at the nearest outer points best, at offset 0, (R, d)."""
    nearest = order[:, : 2 * offsets.shape[-1] + 3]
    z = np.take_along_axis(offsets, nearest[..., None], axis=1)
    size = np.abs(z).max(axis=(1, 2), keepdims=True)
    z = z / np.where(size > 0, size, 1.0)
    design = np.concatenate([np.ones_like(z[..., :1]), z], axis=-1)
    return np.matmul(np.linalg.pinv(design, rcond=1e-6)[:, :1, :], theta[nearest])[:, 0, :]
