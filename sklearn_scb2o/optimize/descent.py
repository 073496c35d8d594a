"""A local search by finite differences, for smooth objectives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, OptimizeResult
from scipy.optimize import minimize as scipy_minimize

from .archive import Archive, Floats
from .differences import STAND_IN, Function, known_values, two_sided
from .violation import CuttingPlanes, Point, SecantModel, Step, ViolationModel, violation

#: Violation sqrt(L - lowest L) of the answer, in units of that of a usual point, or of the root of a given tolerance.
FINAL, INSIDE = 5e-8, 0.6
#: A descent of L ends where it gains less in an iteration: the square of this part of the violation of the answer, or
#: this part of all that it gained.
UNIT, ENOUGH = 0.3, 1e-6
#: The violation allowed at first, as part of that of the first point that has one, and by which factor it then falls.
FIRST_PART, STRICTER = 0.1, 0.3
#: A violation is reached when exceeded by these factors, in between and at last.
NEARLY, REACHED = 2.0, 1.3
#: What a better point of the same violation may be worth, in units of what all of the violation is worth: while more
#: is allowed than at last, and at last.
LITTLE, LEAST = 0.1, 0.01
#: Radius of the first region, in widths of the box, the largest, and that which ends a search.
RADIUS, LARGEST, SMALLEST = 0.1, 0.5, 1e-8
#: Both models are wrong by more than this part of the violation after a step that failed: second differences are taken,
#: with so many variables at most, and this step, in widths of the box.
WRONG, CURVATURES, LONG_STEP = 0.3, 12, 1e-4
#: Factors of the radius after success, after a failure that told of a constraint, and after others.
GROWTH, INFORMED, FAILED = 2.0, 0.7, 0.5
#: A violation is given up for the next one, or the search, where so many steps brought no lower G.
STALLED = 20
#: Where a search goes on from an answer: the radius of the first region, and the number of steps.
AGAIN_RADIUS, AGAIN_STEPS = 0.01, 100
#: Where an answer is refined: the violation, in units of that of a usual point, the radius of the first region, the
#: number of steps beside 2 d, and the step of the differences.
REFINED, NEARBY, REFINING, CENTRAL_STEP = 1e-9, 1e-5, 30, 1e-8
#: Steps of the differences, in widths of the box, and as part of the distance that the violation allowed makes.
LARGEST_STEP, SMALLEST_STEP, PART_STEP = 1e-7, 1e-9, 0.02

#: L and G of a point that is worse than any.
NO_RIVAL = np.inf, np.inf


class _Differences:
    """L and G with their gradients by forward differences; backward where the box ends."""

    def __init__(self, function: Function, archive: Archive) -> None:
        self._function, self._archive = function, archive
        self.step = LARGEST_STEP
        self._last: Point | None = None

    def at(self, z: Floats) -> Point:
        """Values and gradients at a point of shape (d,), evaluated in one call unless it was the last one."""
        if self._last is None or not np.array_equal(z, self._last.z):
            self._last = self._measured(z)
        return self._last

    def _measured(self, z: Floats) -> Point:
        """From d + 1 evaluations."""
        steps = self._archive.steps_inside(z, self.step)
        values, known = known_values(self._function, np.vstack([z, z + np.diag(steps)]))
        slopes = np.where(known[:, 1:] & known[:, :1], (values[:, 1:] - values[:, :1]) / steps, 0.0)
        return Point(z.copy(), float(values[0, 0]), float(values[1, 0]), slopes[0], slopes[1])

    def curvatures(self, point: Point) -> tuple[Floats, Floats]:
        """Second derivatives of L and G by forward differences, shape (d, d) each; d (d + 1) / 2 evaluations."""
        z, (i, j) = point.z, np.triu_indices(len(point.z), 1)
        steps = self._archive.steps_inside(z, LONG_STEP, 2)
        ahead = np.diag(steps)
        values = self._function(np.vstack([z + ahead, z + ahead[i] + ahead[j]]))
        return (
            _second_differences(values[0], point.lower, point.slope_lower, steps),
            _second_differences(values[1], point.upper, point.slope_upper, steps),
        )


class _CentralDifferences(_Differences):
    """The same by differences over both sides, or twice over one where the box ends; 2 d + 1 evaluations.

    They are so exact that the gradient of ``sqrt(L - lowest L)`` is right to some digits at a violation of `REFINED`.
    """

    def _measured(self, z: Floats) -> Point:
        found = two_sided(self._function, self._archive, z, CENTRAL_STEP)
        lower, upper = (np.where(known, slope, 0.0) for known, slope in zip(found.known, found.point[3:], strict=True))
        return found.point._replace(slope_lower=lower, slope_upper=upper)


def _second_differences(values: Floats, here: float, slope: Floats, steps: Floats) -> Floats:
    """From the values after each step, then after each two of them; 0 where one is missing, and what is rounding."""
    d = len(slope)
    (i, j), single, double = np.triu_indices(d, 1), values[:d], values[d:]
    with np.errstate(invalid="ignore"):  # inf - inf
        change = np.diag(2.0 * (single - here - slope * steps))
        change[i, j] = change[j, i] = double - single[i] - single[j] + here
    known = (np.abs(change) < STAND_IN) & (np.abs(change) > 1e-12 * abs(here))
    return np.where(known, change, 0.0) / np.outer(steps, steps)


class _Stagnation:
    """Ends a descent that gains less than 1 in an iteration, or a small part of what it gained in all."""

    def __init__(self, first: float) -> None:
        self._first = self._last = first

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        value = float(intermediate_result.fun)
        if self._last - value <= max(1.0, 1e-8 * abs(value), ENOUGH * (self._first - value)):
            raise StopIteration
        self._last = value


def descend(
    function: Function, archive: Archive, start: Floats, lower_tol: float,
    rival: tuple[float, float] = NO_RIVAL,
) -> None:  # fmt: skip
    """Minimise L, then G while L is nearly as low, with tolerances that become smaller.

    First L-BFGS-B on L. Then steps in a region around the best point, each to the lowest G that a model of the
    violation ``c = sqrt(L - lowest L)`` admits: of linearisations at many points (`CuttingPlanes`) and a quadratic
    model of L (`SecantModel`), that which predicted better so far. A step is taken where ``G + pi max(c - v, 0)`` falls
    as expected; whatever comes, the models learn from it, and where both were wrong the second is told the second
    differences of L and G. When G is as low as it gets with violation v, v becomes smaller.

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points; the lowest L is that of all.
    start : array of shape (d,)
        Where to begin.
    lower_tol : float
        L may exceed its minimum by this; 0: it shall be as low as can be told.
    rival : pair of floats
        L and G of another point: the search ends where it will not do better.
    """
    final = _final_violation(archive, lower_tol, FINAL, float(np.abs(archive.lower).max()))
    differences = _Differences(function, archive)
    z = _minimise_lower(differences, archive, start, (UNIT * final) ** 2)
    _UpperSearch(differences, archive, differences.at(z), final, rival=rival).run()


def go_on(function: Function, archive: Archive, start: Floats, lower_tol: float, part: float) -> None:
    """Minimise L, then G, from a point where a search has ended, by central differences.

    As `descend`, which may end where G is flat or constraints are many: with slopes that are off by some per cent the
    steps cannot be longer than the violation allowed is wide. So these are exact, and more is allowed at first.

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points.
    start : array of shape (d,)
        Where to begin.
    lower_tol : float
        L may exceed its minimum by this; 0: it shall be as low as can be told.
    part : float
        The violation allowed at first, in units of that of a usual point.
    """
    differences = _CentralDifferences(function, archive)
    final = _final_violation(archive, lower_tol, FINAL, abs(float(archive.lower.min())))
    z = _minimise_lower(differences, archive, start, (UNIT * final) ** 2)
    _UpperSearch(
        differences, archive, differences.at(z), final,
        allowed=max(part * archive.usual_excess**0.5, final), radius=AGAIN_RADIUS, steps=AGAIN_STEPS,
    ).run()  # fmt: skip


def looks_smooth(function: Function, archive: Archive, z: Floats, rng: np.random.Generator) -> bool:
    """Whether L and G are like parabolas on a very short line from z, and G is not flat; 5 evaluations."""
    step = archive.steps_inside(z, 1e-6 * rng.choice([-1.0, 1.0], z.size), 4)
    for values in function(z + np.arange(5)[:, None] * step):
        if not np.isfinite(values).all():
            return False
        first, third = (np.abs(np.diff(values, n)).max() for n in (1, 3))
        if not third <= 1e-2 * first + 1e-14 * np.abs(values).max():
            return False
    return bool(first > 0)


def _final_violation(archive: Archive, lower_tol: float, part: float, size: float) -> float:
    """The violation of an answer: inside a tolerance that is given, else a part of the usual one, above rounding."""
    if lower_tol:
        return INSIDE * lower_tol**0.5
    rounding = float(np.finfo(float).eps * size)
    return float(max(part * np.sqrt(max(archive.usual_excess, rounding, 1e-300)), 10.0 * rounding**0.5))


def _minimise_lower(differences: _Differences, archive: Archive, start: Floats, unit: float) -> Floats:
    """The end of L-BFGS-B on L, which is wanted up to about `unit`."""
    first = differences.at(start).lower / unit
    found = scipy_minimize(
        lambda z: differences.at(z).lower / unit, start, jac=lambda z: differences.at(z).slope_lower / unit,
        method="L-BFGS-B", bounds=Bounds(archive.low, archive.high), callback=_Stagnation(first),
        options={"ftol": 0.0, "gtol": 1e-6},
    )  # fmt: skip
    return np.clip(found.x, archive.low, archive.high)


class _Proposal(NamedTuple):
    """A step, the weight pi of the violation beside G, by how much G + pi max(c - v, 0) is to fall, if it will."""

    step: Step
    weight: float
    promised: float
    is_stuck: bool


class _UpperSearch:
    """So many steps to lower G from a point of low L, while the violation that is allowed falls to `final`."""

    _exact = 1e-10  # a step that promises less than this part of the slope of G is none

    def __init__(
        self, differences: _Differences, archive: Archive, center: Point, final: float, *,
        allowed: float = np.inf, radius: float = RADIUS, steps: float = np.inf, rival: tuple[float, float] = NO_RIVAL,
    ) -> None:  # fmt: skip
        self._differences, self._archive, self._center = differences, archive, center
        self._final, self._rival = final, rival
        self._planes = CuttingPlanes(center, 0.1 * final)
        self._secant = SecantModel(center)
        self._models: list[ViolationModel] = [self._planes, self._secant]
        self._allowed, self._radius, self._steps = allowed, radius, steps
        self._lowest_upper, self._since = np.inf, 0  # with the violation allowed, and how many steps ago
        self._measured: Point | None = None  # where second differences were taken last

    def run(self) -> None:
        """Until nothing better is within reach."""
        while self._steps > 0:
            self._steps -= 1
            self._lowest = float(self._archive.lower.min())
            self._now = violation(self._center.lower, self._lowest)
            for model in self._models:
                model.look_at(self._center, self._lowest)
            self._count()
            proposal = self._propose()
            if not proposal.is_stuck and not self._is_good_enough(proposal.step):
                self._try(proposal)
            elif self._is_behind() or (self._is_last and not self._lower_L()):
                return
            else:
                self._be_stricter(proposal.step.size)

    def _count(self) -> None:
        """Count the steps since G was lowest."""
        self._since += 1
        if self._keeps_to_it and self._center.upper < self._lowest_upper:
            self._lowest_upper, self._since = self._center.upper, 0

    def _propose(self) -> _Proposal:
        """The step of the model that predicted better so far; of the other one where it knows of none."""
        region = self._region()
        for model in sorted(self._models, key=lambda model: model.error):
            step = model.best_step(self._allowed, *region)
            if self._allowed == np.inf:
                step = step._replace(multiplier=0.0)
            gain = self._excess(self._now) - self._excess(step.violation)
            weight = max(2.0 * step.multiplier, step.change / (0.5 * gain) if gain > 0.0 else 0.0)
            promised = weight * gain - step.change
            too_little = bool(promised <= self._exact * np.linalg.norm(self._center.slope_upper))
            proposal = _Proposal(step, weight, promised, too_little or min(step.size, self._radius) < SMALLEST)
            if not proposal.is_stuck:
                break
        return proposal

    @property
    def _is_last(self) -> bool:
        return self._allowed <= self._final

    @property
    def _noise(self) -> float:
        """By how much a step may seem worse than it is."""
        return 0.0

    @property
    def _keeps_to_it(self) -> bool:
        """Whether the violation is as small as that allowed, nearly."""
        return self._now <= (REACHED if self._is_last else NEARLY) * self._allowed

    def _excess(self, c: float) -> float:
        return max(c - self._allowed, 0.0)

    def _region(self) -> tuple[Floats, Floats]:
        """How far the next step may go; sets the steps of the differences, too."""
        if self._allowed < np.inf and self._planes.steepest > 0.0:
            step = PART_STEP * self._allowed / self._planes.steepest
            self._differences.step = float(np.clip(step, SMALLEST_STEP, LARGEST_STEP))
        return self._archive.room(self._center.z, self._radius)

    def _is_good_enough(self, step: Step) -> bool:
        """Whether the point keeps to the violation allowed, and steps gain next to nothing at the same one."""
        worth = step.multiplier * self._allowed if self._allowed < np.inf else 0.0
        gain = step.multiplier * max(self._now - step.violation, 0.0) - step.change
        little = LEAST if self._is_last else LITTLE
        return self._keeps_to_it and (gain <= little * worth or self._since > STALLED)

    def _is_behind(self) -> bool:
        """Whether the rival is better already, though this search still is allowed more."""
        keeps = self._now <= NEARLY * self._allowed < np.inf
        rival = violation(self._rival[0], self._lowest)
        return keeps and self._center.upper >= self._rival[1] and rival <= NEARLY * self._final

    def _may_measure(self) -> bool:
        """Whether second differences have not been taken here, and would not be too many."""
        return self._measured is not self._center and self._archive.d <= CURVATURES

    def _lower_L(self) -> bool:
        """Whether L can still be lowered, so that the violation was taken for less than it is."""
        _minimise_lower(self._differences, self._archive, self._center.z, (UNIT * self._final) ** 2)
        lowest = float(self._archive.lower.min())
        self._now = violation(self._center.lower, lowest)
        return violation(self._lowest, lowest) > 0.5 * self._final

    def _be_stricter(self, size: float) -> None:
        """Allow less violation, in a region that is large beside the last step."""
        self._lowest_upper, self._since = np.inf, 0
        known = self._allowed < np.inf
        self._allowed = max(STRICTER * min(self._allowed, 10.0 * self._now), self._final) if known else self._final
        self._radius = max(self._radius, 10.0 * size, 1e-3)

    def _try(self, proposal: _Proposal) -> None:
        """Evaluate the end of a step, learn from it, and go there if it is better."""
        center, (step, weight, promised, _) = self._center, proposal
        new = self._differences.at(np.clip(center.z + step.step, self._archive.low, self._archive.high))
        if max(new.lower, abs(new.upper)) >= STAND_IN:
            self._radius = FAILED * step.size
            return
        after = violation(new.lower, self._lowest)
        unit = after + (self._allowed if self._allowed < np.inf else self._final)
        for model in self._models:
            model.error = 0.5 * (model.error + abs(model.at(step.step) - after) / unit)
        if self._allowed == np.inf and after > self._final:
            self._allowed = max(FIRST_PART * after, self._final)
        weight = max(weight, 0.1 * promised / self._allowed)
        reached = center.upper - new.upper + weight * (self._excess(self._now) - self._excess(after))
        for model in self._models:
            model.learn(new, step.multiplier, after - max(step.violation, self._allowed))
        if reached >= 0.1 * promised - self._noise:
            self._center = new
            if reached > 0.7 * promised and step.size > 0.9 * self._radius:
                self._radius = min(GROWTH * self._radius, LARGEST)
        elif self._may_measure() and min(model.error for model in self._models) > WRONG:
            self._measured = center
            self._secant.be_told(*self._differences.curvatures(center))
        else:  # a linearisation that does not contradict what is known here tells of a constraint
            told = after > 0.0 and after - new.slope_lower @ (new.z - center.z) / (2.0 * after) <= self._now
            self._radius = (INFORMED if told else FAILED) * min(self._radius, step.size)


class Refinement(_UpperSearch):
    """Steps from a point that is nearly the answer, by central differences, until rounding hides what they gain.

    The violation falls to that inside `lower_tol`, if one is given, else to 1e-9 of the usual one, and along the
    minimisers of L the point is the answer to about the same distance.

    Parameters
    ----------
    function : callable
        Evaluates L and G, and adds them to the archive. What it raises ends the search.
    archive : Archive
        Known points.
    start : array of shape (d,)
        Where to begin.
    lower_tol : float
        L may exceed its minimum by this; 0: it shall be as low as can be told.
    """

    _exact = 1e-16

    def __init__(self, function: Function, archive: Archive, start: Floats, lower_tol: float) -> None:
        differences = _CentralDifferences(function, archive)
        final = _final_violation(archive, lower_tol, REFINED, abs(float(archive.lower.min())))
        super().__init__(
            differences, archive, differences.at(start), final,
            allowed=final, radius=NEARBY, steps=REFINING + 2 * archive.d,
        )  # fmt: skip

    def run(self) -> None:
        """Until nothing better can be told."""
        if self._archive.d <= CURVATURES:
            self._measured = self._center
            curvatures = self._differences.curvatures(self._center)
            self._secant.be_told(*curvatures)
            self._planes.be_told(curvatures[1])
        super().run()

    @property
    def answer(self) -> tuple[float, float, Floats]:
        """L, G and z where it is."""
        return self._center.lower, self._center.upper, self._center.z

    def _is_good_enough(self, step: Step) -> bool:
        """Whether there is no step that can be told from none."""
        return False

    @property
    def _noise(self) -> float:
        return 1e-15 * abs(self._center.upper)


def refinement_evaluations(d: int) -> int:
    """Evaluations of a `Refinement` with d variables, about: of its steps, and second differences."""
    return (REFINING + 2 * d) * (2 * d + 1) + (d * (d + 1) // 2 if d <= CURVATURES else 0)
