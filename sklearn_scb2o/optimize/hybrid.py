"""Local searches that take turns with swarms."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .archive import Archive, Floats
from .descent import descend, go_on, looks_smooth
from .differences import Function
from .graduated import graduate, n_evaluations
from .jumps import on_one_side
from .optimizer import SCB2OOptimizer
from .trust_region import TrustRegionSearch
from .upper_search import Refinement, refinement_evaluations

#: Part of the evaluations for the first swarm, at least and at most, and for each later one or what takes its turn;
#: and iterations of a swarm at most: later it has settled, and searches tell more.
LEAST_SHARE, FIRST_SHARE, LATER_SHARE, ITERATIONS = 0.1, 0.25, 0.1, 50
#: Particles of a swarm, unless the caller says otherwise.
N_PARTICLES = 50
#: Part of the evaluations that may have failed where searches are by differences.
FAILED = 0.1
#: Part of the evaluations that is kept for a refinement, at most.
REFINING_SHARE = 0.1
#: Local searches after each swarm, at least and at most, and how far apart they start, in widths of the box.
STARTS, MOST_STARTS, APART = 5, 50, 0.05
#: Evaluations of a search by differences, times d + 1: as many as the first swarm leaves for it, and at most.
DESCENT, LONGEST = 200, 600
#: Part of the evaluations that are left which the searches of a round may have.
ROUND_SHARE = 0.5
#: Violations allowed at first where searches go on from the answer, in units of that of a usual point, and by how much
#: of the width of the box it moves, at least, if it is worth while.
AGAIN, MOVED = (1e-3, 1e-4), 1e-4
#: L counts as lowest up to this part of its usual excess.
SAME_LOWER = 1e-14
#: Variables above which models cost more than they are worth where differences will do.
MODELS = 5
#: Swarms in a row without a better answer, after which the search ends.
PATIENCE = 5

Evaluate = Callable[[Floats], tuple[Floats, Floats]]


def first_share(budget: int, d: int, batch: int = N_PARTICLES) -> int:
    """Evaluations for the first swarm, some in a batch: so that a search by differences can follow, within limits."""
    share = max(LEAST_SHARE * budget, min(FIRST_SHARE * budget, budget - DESCENT * (d + 1)))
    return int(min(ITERATIONS * batch, share))


class SpentError(Exception):
    """No evaluations are left, in all or for a search, or no time; `evaluate` may raise it."""


class Hybrid:
    """Local searches from the good points of a swarm, then from those of another one, until the budget is spent.

    Where the objectives look smooth, searches by differences (`descend`) and with models (`TrustRegionSearch`) take
    turns, and begin where none has begun before: at the good points of the last swarm and then anywhere, until they had
    as many evaluations as it; after them, one searches on the other side of each jump of G that was met, and ones that
    are more exact go on from the answer (`go_on`). Elsewhere they are all with models, from the best points again and
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
    refine : bool
        End with a `Refinement` of the answer, for which some of the evaluations are kept.

    Attributes
    ----------
    spent : bool
        Whether it ended because the next evaluations would have exceeded the budget.
    """

    def __init__(
        self, evaluate: Evaluate, archive: Archive, answer: tuple[float, float, Floats], budget: int | None,
        lower_tol: float, seed: Any, *, refine: bool = False,
    ) -> None:  # fmt: skip
        self._evaluate, self._archive, self._budget, self._refine = evaluate, archive, budget, refine
        self._left: float = np.inf if budget is None else budget
        self._kept: float = 0
        if refine and budget is not None:
            self._kept = min(refinement_evaluations(archive.d), int(REFINING_SHARE * budget))
        self._left -= self._kept
        self._refined: tuple[float, float, Floats] | None = None
        self._allowed = np.inf  # in the search that goes on
        self._searched: list[Floats] = []  # where searches began
        self._lengths: list[int] = []  # evaluations of those by differences
        self._settled = -1  # index of the answer from which there is no going on
        self._sides: set[tuple[bool, ...]] = set()  # of jumps, where searches were
        self.spent = False
        self._rng = np.random.default_rng(seed)
        self._lower_tol = self._tol = lower_tol
        if not lower_tol and len(archive.z):
            self._tol = SAME_LOWER * archive.usual_excess
        lower, upper, x = answer
        archive.add(archive.scaled(x[None]), np.array([lower]), np.array([upper]))
        self._first = 0  # index of the first point that can become the answer

    @property
    def answer(self) -> tuple[float, float, Floats] | None:
        """L, G and x: of all points whose L is as good as the lowest, that of lowest G; None if none is known."""
        archive = self._archive
        if self._refined is not None:
            lower, upper, z = self._refined
            return lower, upper, archive.unscaled(z[None])[0]
        if not len(archive.z):
            return None
        i = self._best
        return float(archive.lower[i]), float(archive.upper[i]), archive.unscaled(archive.z[i][None])[0]

    @property
    def _best(self) -> int:
        L, G = (values[self._first :] for values in (self._archive.lower, self._archive.upper))
        good = np.flatnonzero(L.min() + self._tol >= L)
        return int(self._first + good[np.argmin(G[good])])

    @property
    def _rival(self) -> tuple[float, float]:
        """L and G of the answer."""
        i = self._best
        return float(self._archive.lower[i]), float(self._archive.upper[i])

    def __iter__(self) -> Iterator[None]:
        """Run it; each turn is a search that has ended."""
        if not self._archive.d or not len(self._archive.z):
            return
        try:
            yield from self._rounds()
        except SpentError:
            self.spent = True
        if self._refine:
            self._left += self._kept
            with contextlib.suppress(SpentError):
                self._make_refinement()
            yield

    def _rounds(self) -> Iterator[None]:
        waiting = since = 0
        averaged = False
        while waiting < PATIENCE:
            before = self._rival
            yield from self._averaged_round() if averaged else self._round(since, waiting)
            lower, upper = self._rival
            better = lower < before[0] - self._tol or upper < before[1]
            if better or not averaged:
                waiting = 0 if better else waiting + 1
            if self._budget is None:
                return
            averaged = self._n_averaged > 0 and (averaged == better or not since)
            since = len(self._archive.z)
            if not averaged:
                self._swarm(int(min(LATER_SHARE * self._budget, ITERATIONS * N_PARTICLES)))

    def _round(self, since: int, waiting: int) -> Iterator[None]:
        """Searches after a swarm from which on points are new, and so many rounds without a better answer."""
        starts = self._archive.apart(STARTS, APART)
        if not self._looks_smooth(starts[0]):
            for start in starts:
                self._by_models(start)
                yield
            return
        least = 0
        if since:
            starts, least = self._new_starts(since), len(self._archive.z) - since
        few, finished, begun = self._archive.d <= MODELS, self._best, len(self._archive.z)
        for n, start in enumerate(self._starts(starts, least)):
            if 0 < n < STARTS if few else waiting % 2:
                self._by_models(start)
            else:
                self._by_differences(start)
                finished = self._best
            yield
        if self._best != finished:
            self._by_differences(self._archive.z[self._best])
            yield
        yield from self._other_sides()
        yield from self._go_on(len(self._archive.z) - begun)

    def _starts(self, first: list[Floats], least: int) -> Iterator[Floats]:
        """Where searches begin: at some points, then anywhere, until so many evaluations are made, or too many."""
        begun, most = len(self._archive.z), ROUND_SHARE * self._left
        for n in range(MOST_STARTS):
            used = len(self._archive.z) - begun
            if used > most or (n >= len(first) and used >= least):
                return
            self._searched.append(first[n] if n < len(first) else self._anywhere())
            yield self._searched[-1]

    def _go_on(self, evaluations: int) -> Iterator[None]:
        """Searches from the answer while it moves, until they had so many evaluations."""
        end, unmoved = len(self._archive.z) + evaluations, 0
        for part in itertools.cycle(AGAIN):
            if self._best == self._settled or len(self._archive.z) >= end:
                return
            before = self._archive.z[self._best].copy()
            self._search(go_on, before, self._lower_tol, part)
            moved = np.abs(self._archive.z[self._best] - before).max() >= MOVED
            unmoved = 0 if moved else unmoved + 1
            if unmoved == len(AGAIN):
                self._settled = self._best
            yield

    def _other_sides(self) -> Iterator[None]:
        """Searches on the other side of each jump of G that is known, from the answer."""
        archive, n = self._archive, 0
        while n < len(archive.jumps):
            z = archive.z[self._best]
            sides = tuple(jump.is_below(z) != (i == n) for i, jump in enumerate(archive.jumps))
            n += 1
            if sides in self._sides:
                continue
            self._sides.add(sides)
            there = list(zip(archive.jumps, sides, strict=True))
            function, region = on_one_side(self._at, archive.region, there, archive.usual_excess)
            if np.all(region.low < region.high):
                best = self._best
                self._search(descend, region.clip(z), self._lower_tol, self._rival, region, function=function)
                n = 0 if self._best != best else n
                yield

    def _anywhere(self, *n: int) -> Floats:
        """Uniform points, shape (*n, d)."""
        z = self._rng.uniform(size=(*n, self._archive.d))
        return self._archive.region.clip(z)

    def _new_starts(self, since: int) -> list[Floats]:
        """Points of the last swarm from which no search has begun nearby."""
        return self._archive.apart(STARTS, APART, since, (*self._searched, self._archive.z[self._best]))

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
        ends = [graduate(self._at, archive, start, self._rng) for start in self._anywhere(self._n_averaged)]
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
        """A search, and another one from the answer before where that was lost to a lower L, not to a lower G."""
        (lower, upper), before = self._rival, self._archive.z[self._best].copy()
        may_be_lost = bool(self._lengths)  # it was the end of a search
        self._descend(start)
        if may_be_lost and self._rival[0] < lower - self._tol and upper < self._rival[1]:
            self._descend(before)

    def _descend(self, start: Floats) -> None:
        known = len(self._archive.z)
        self._search(descend, start, self._lower_tol, self._rival)
        self._lengths.append(len(self._archive.z) - known)

    def _search(self, search: Callable[..., None], *arguments: Any, function: Function | None = None) -> None:
        """Run one of the searches by differences, of the objectives or a function of them; it may be too long."""
        self._allowed = LONGEST * (self._archive.d + 1)
        try:
            search(function or self._at, self._archive, *arguments)
        except SpentError:
            if self._left <= 0:
                raise
        finally:
            self._allowed = np.inf

    def _make_refinement(self) -> None:
        """Take the end of a refinement for the answer if its L is lower, or within a tolerance that is given its G."""
        start, before = self._archive.z[self._best].copy(), self._rival
        if not self._looks_smooth(start):
            return
        search = Refinement(self._at, self._archive, start, self._lower_tol)
        try:
            search.run()
        finally:
            if not self._lower_tol and search.answer[:2] <= before:
                self._refined = search.answer

    def _looks_smooth(self, z: Floats) -> bool:
        """Whether nearly all evaluations gave values, and L and G are smooth there."""
        archive = self._archive
        if archive.n_failed > FAILED * (archive.n_failed + len(archive.z)):
            return False
        return looks_smooth(self._at, archive, z, self._rng)

    def _swarm(self, evaluations: int) -> None:
        """Run another swarm, from everywhere."""
        seed, x0 = int(self._rng.integers(2**31)), self._anywhere(N_PARTICLES)
        box = np.stack(self._archive.region, axis=1)
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
