"""Counts evaluations, cuts off at the budget, and keeps the answer that a solver would give at each time."""

from __future__ import annotations

import numpy as np

from .problems.problem import Floats, QualityProblem, Values

#: A point whose observed violation of each constraint is at most this is feasible, for solvers that are told them.
FEASIBLE = 1e-4


class BudgetSpent(Exception):
    """Ends a solver."""


class Recorder:
    """The functions of a problem as a solver sees them, in the unit box.

    An evaluation is a point, whatever is asked there: L and G, and the constraint functions for those that are told
    them. The answer at any time is, of the points evaluated so far, the one with the lowest G among those

    - whose L is at most the lowest one plus a quarter of the tolerance of the problem,
    - or, told the constraints, whose violation is at most 1e-4; the least violated one where there is none,

    unless the solver has a view of its own and proposes answers.

    Parameters
    ----------
    problem : QualityProblem
        The problem.
    budget : int
        Evaluations that are allowed; the next one raises `BudgetSpent`.
    seed : int
        Seed of the noise of the problem.
    told : bool
        Whether the values contain those of the constraint functions.
    own_view : bool
        Whether the solver proposes answers.
    """

    def __init__(
        self, problem: QualityProblem, budget: int, seed: int, *, told: bool = False, own_view: bool = False
    ) -> None:
        self.problem, self.budget, self.told, self.own_view = problem, budget, told, own_view
        self.low, self.widths, self.d = problem.bounds[:, 0], problem.widths, problem.d
        self.count = 0
        #: (evaluations, answer in the coordinates of the problem) at each change of the answer
        self.trace: list[tuple[int, Floats]] = []
        self._rng = np.random.default_rng([seed, 99])
        #: of the points that can still become the answer, none of which is worse in L (violation) and in G
        self._front: list[tuple[float, float, Floats]] = []

    @property
    def left(self) -> int:
        return self.budget - self.count

    @property
    def lowest(self) -> float:
        """Lowest L (told: violation) so far."""
        return self._front[0][0] if self._front else np.inf

    @property
    def answer(self) -> Floats:
        """The last answer, in the unit box; its middle where there is none."""
        return (self.trace[-1][1] - self.low) / self.widths if self.trace else np.full(self.d, 0.5)

    def __call__(self, z: Floats) -> Values:
        """Values at points of shape (n, d) of the unit box."""
        return self.at(self.low + np.clip(z, 0.0, 1.0) * self.widths)

    def at(self, x: Floats) -> Values:
        """Values at points of shape (n, d), in the coordinates of the problem."""
        if self.left <= 0:
            raise BudgetSpent
        cut = len(x) > self.left
        x = np.array(x[: self.left], dtype=float)
        outside = np.abs(np.clip(x, self.problem.bounds[:, 0], self.problem.bounds[:, 1]) - x) > 1e-9 * self.widths
        if outside.any():
            raise ValueError(f"{self.problem.name}: a point outside the box was asked, {x[outside.any(axis=1)][0]}")
        values = self.problem.observed(x, self._rng)
        if not self.own_view:
            self._watch(x, values)
        self.count += len(x)
        if cut:
            raise BudgetSpent
        return values if self.told else values._replace(equalities=None, inequalities=None)

    def propose(self, x: Floats) -> None:
        """Replace the answer, a point in the coordinates of the problem."""
        if not self.trace or not np.array_equal(x, self.trace[-1][1]):
            self.trace.append((self.count, np.array(x, dtype=float)))

    def _watch(self, x: Floats, values: Values) -> None:
        first, tolerance = values.lower, 0.25 * self.problem.lower_tol
        if self.told:
            worst = np.max(np.concatenate([np.abs(values.equalities), values.inequalities], axis=-1), axis=-1)
            first, tolerance = np.where(worst <= FEASIBLE, 0.0, worst), 0.0
        for i in np.flatnonzero(np.isfinite(first) & np.isfinite(values.upper)):
            L, G = float(first[i]), float(values.upper[i])
            if self.lowest + tolerance < L or any(a <= L and b <= G for a, b, _ in self._front):
                continue
            kept = [entry for entry in self._front if not (entry[0] >= L and entry[1] >= G)]
            kept.append((L, G, x[i]))
            kept.sort(key=lambda entry: entry[0])
            self._front = [entry for entry in kept if entry[0] <= kept[0][0] + tolerance]
            # the lower L, the higher G along the front
            best = self._front[-1][2]
            if not self.trace or best is not self.trace[-1][1]:
                self.trace.append((self.count + int(i) + 1, best))
