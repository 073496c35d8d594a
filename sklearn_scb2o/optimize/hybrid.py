"""Local searches that take turns with swarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .archive import Archive, Floats
from .descent import descend
from .graduated import graduate, n_evaluations
from .optimizer import SCB2OOptimizer
from .trust_region import TrustRegionSearch

#: Part of the evaluations for the first swarm, at least and at most, and for each later one or what takes its turn.
LEAST_SHARE, FIRST_SHARE, LATER_SHARE = 0.1, 0.25, 0.1
#: Particles of a swarm, unless the caller says otherwise.
N_PARTICLES = 50
#: Local searches after each swarm, and how far apart they start, in widths of the box.
STARTS, APART = 5, 0.05
#: Evaluations of a search by differences, times d + 1: as many as the first swarm leaves for it, and at most.
DESCENT, LONGEST = 200, 600
#: L counts as lowest up to this part of its usual excess.
SAME_LOWER = 1e-14
#: Variables above which models cost more than they are worth where differences will do.
MODELS = 5
#: Swarms in a row without a better answer, after which the search ends.
PATIENCE = 5

Evaluate = Callable[[Floats], tuple[Floats, Floats]]


def first_share(budget: int, d: int) -> int:
    """Evaluations for the first swarm: so many that a search by differences can follow, within limits."""
    return int(max(LEAST_SHARE * budget, min(FIRST_SHARE * budget, budget - DESCENT * (d + 1))))


class SpentError(Exception):
    """No evaluations are left, in all or for a search, or no time; `evaluate` may raise it."""


class Hybrid:
    """Local searches from the good points of a swarm, then from those of another one, until the budget is spent.

    Where the objectives look smooth, searches by differences (`descend`) and with models (`TrustRegionSearch`) take
    turns, and begin where none has begun before; elsewhere they are all with models, from the best points again and
    again. Where searches by differences are long and there are many variables, swarms take turns with averages of G
    (`graduate`), whichever led to a better answer going on.

    Parameters
    ----------
    evaluate : callable
        L and G at points of shape (n, all coordinates) of the box.
    archive : Archive
        What the swarm knows.
    answer : tuple of float, float, array of shape (all coordinates,)
        L, G and x of the swarm's result.
    budget : int or None
        Evaluations that are left. If None, there is one round of searches.
    lower_tol : float
        L counts as lowest up to this; 0: up to 1e-14 of its usual excess, or its noise.
    seed : int or SeedSequence
        Of directions and later swarms.

    Attributes
    ----------
    spent : bool
        Whether it ended because the next evaluations would have exceeded the budget.
    """

    def __init__(
        self, evaluate: Evaluate, archive: Archive, answer: tuple[float, float, Floats], budget: int | None,
        lower_tol: float, seed: Any,
    ) -> None:  # fmt: skip
        self._evaluate, self._archive, self._budget = evaluate, archive, budget
        self._left: float = np.inf if budget is None else budget
        self._allowed = np.inf  # in the search that goes on
        self._searched: list[Floats] = []  # where searches began
        self._lengths: list[int] = []  # evaluations of those by differences
        self.spent = False
        self._rng = np.random.default_rng(seed)
        self._lower_tol = self._tol = lower_tol
        if not lower_tol and len(archive.z):
            self._tol = SAME_LOWER * archive.usual_excess
        lower, upper, x = answer
        archive.add(archive.scaled(x[None]), np.array([lower]), np.array([upper]))

    @property
    def answer(self) -> tuple[float, float, Floats] | None:
        """L, G and x: of all points whose L is as good as the lowest, that of lowest G; None if none is known."""
        archive = self._archive
        if not len(archive.z):
            return None
        i = self._best
        return float(archive.lower[i]), float(archive.upper[i]), archive.unscaled(archive.z[i][None])[0]

    @property
    def _best(self) -> int:
        L = self._archive.lower
        good = np.flatnonzero(L.min() + self._tol >= L)
        return int(good[np.argmin(self._archive.upper[good])])

    @property
    def _rival(self) -> tuple[float, float]:
        """L and G of the answer."""
        i = self._best
        return float(self._archive.lower[i]), float(self._archive.upper[i])

    def __iter__(self) -> Iterator[None]:
        """Run it; each turn is a search that has ended."""
        if not self._archive.d or not len(self._archive.z):
            return
        waiting = since = 0
        averaged = False
        try:
            while waiting < PATIENCE:
                before = self._rival
                yield from self._averaged_round() if averaged else self._round(since, goes_on=not waiting)
                lower, upper = self._rival
                better = lower < before[0] - self._tol or upper < before[1]
                if better or not averaged:
                    waiting = 0 if better else waiting + 1
                if self._budget is None:
                    return
                averaged = self._n_averaged > 0 and (averaged == better or not since)
                since = len(self._archive.z)
                if not averaged:
                    self._swarm(int(LATER_SHARE * self._budget))
        except SpentError:
            self.spent = True

    def _round(self, since: int, *, goes_on: bool) -> Iterator[None]:
        starts = self._archive.apart(STARTS, APART)
        smooth = self._looks_smooth(starts[0])
        if smooth and since:
            starts = self._new_starts(since, goes_on)
        self._searched.extend(starts)
        finished = None
        for start in starts:
            if smooth and (finished is None or self._archive.d > MODELS):
                self._by_differences(start)
                finished = self._best
                yield
                if self._archive.d > MODELS:
                    continue
                start = self._archive.z[finished]
            self._by_models(start)
            yield
        if smooth and self._best != finished:
            self._by_differences(self._archive.z[self._best])
            yield

    def _new_starts(self, since: int, goes_on: bool) -> list[Floats]:
        """Points of the last swarm from which no search has begun nearby; the answer before, if it may get better."""
        best = self._archive.z[self._best].copy()
        new = self._archive.apart(STARTS, APART, since, (*self._searched, best))
        return [best, *new][:STARTS] if goes_on or not new else new

    @property
    def _n_averaged(self) -> int:
        """How often `graduate` costs no more than a swarm, at most `STARTS`; 0 where searches cost less than it."""
        d, cost = self._archive.d, n_evaluations(self._archive.d)
        if d <= MODELS or self._budget is None or not self._lengths or cost > np.mean(self._lengths):
            return 0
        return min(STARTS, int(LATER_SHARE * self._budget / cost))

    def _averaged_round(self) -> Iterator[None]:
        """Searches from where averages lead from anywhere, if that is new and promises a better answer."""
        archive = self._archive
        starts = np.clip(self._rng.uniform(size=(self._n_averaged, archive.d)), archive.low, archive.high)
        ends = [graduate(self._at, archive, start, self._rng) for start in starts]
        for end, promise in sorted(ends, key=lambda end: end[1]):
            if promise < self._rival[1] and all(np.abs(end - other).max() >= APART for other in self._searched):
                self._searched.append(end)
                self._by_differences(end)
                yield

    def _by_models(self, start: Floats) -> None:
        search = TrustRegionSearch(self._archive, start, seed=int(self._rng.integers(2**31)), rival=self._rival)
        while (points := search.ask()) is not None:
            search.tell(*self._at(points))
        if not self._lower_tol:
            self._tol = max(self._tol, search.noise)

    def _by_differences(self, start: Floats) -> None:
        known = len(self._archive.z)
        self._allowed = LONGEST * (self._archive.d + 1)
        try:
            descend(self._at, self._archive, start, self._lower_tol, self._rival)
        except SpentError:
            if self._left <= 0:
                raise
        finally:
            self._allowed = np.inf
            self._lengths.append(len(self._archive.z) - known)

    def _looks_smooth(self, z: Floats) -> bool:
        """Whether all evaluations gave values, L and G are like parabolas on a very short line, and G is not flat."""
        if self._archive.n_failed:
            return False
        step = self._archive.steps_inside(z, 1e-6 * self._rng.choice([-1.0, 1.0], z.size), 4)
        for values in self._at(z + np.arange(5)[:, None] * step):
            if not np.isfinite(values).all():
                return False
            first, third = (np.abs(np.diff(values, n)).max() for n in (1, 3))
            if not third <= 1e-2 * first + 1e-14 * np.abs(values).max():
                return False
        return bool(first > 0)

    def _swarm(self, evaluations: int) -> None:
        """Run another swarm, from everywhere."""
        d, seed = self._archive.d, int(self._rng.integers(2**31))
        x0 = np.clip(self._rng.uniform(size=(N_PARTICLES, d)), self._archive.low, self._archive.high)
        box = np.stack([self._archive.low, self._archive.high], axis=1)
        optimizer = SCB2OOptimizer(box, x0=x0, n_particles=N_PARTICLES, lower_tol=self._lower_tol, random_state=seed)
        while evaluations >= N_PARTICLES and not optimizer.stop():
            optimizer.tell(*self._at(optimizer.ask()))
            evaluations -= N_PARTICLES

    def _at(self, z: Floats) -> tuple[Floats, Floats]:
        """Values at points of shape (n, d), which go to the archive; raises where there are too many."""
        if len(z) > self._left:
            self._left = 0
        if len(z) > min(self._left, self._allowed):
            raise SpentError
        self._left -= len(z)
        self._allowed -= len(z)
        L, G = self._evaluate(self._archive.unscaled(z))
        self._archive.add(z, L, G)
        return L, G
