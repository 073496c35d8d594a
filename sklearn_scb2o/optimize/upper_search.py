"""The second part of a local search by differences: steps that lower G where L is nearly as low as it can be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .archive import Archive, Floats
from .differences import STAND_IN, CentralDifferences, ForwardDifferences, Function
from .fitted_constraints import FittedConstraints
from .jumps import find_jump, meets_jump, on_one_side
from .lower_search import minimise_lower
from .violation import CuttingPlanes, Point, SecantModel, Step, ViolationModel, violation

#: Violation sqrt(L - lowest L) of the answer, in units of that of a usual point, or of the root of a given tolerance.
FINAL, INSIDE = 5e-8, 0.6
#: A descent of L ends where it gains less in an iteration than the square of this part of the violation of the answer.
UNIT = 0.3
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
#: with so many variables at most.
WRONG, CURVATURES = 0.3, 12
#: Part of what the secant model expects L to become lower nearby that is taken for granted, where it was wrong by no
#: more than this part of the violation.
GRANTED, SURE = 0.8, 0.5
#: Factors of the radius after success, after a failure that told of a constraint, and after others.
GROWTH, INFORMED, FAILED = 2.0, 0.7, 0.5
#: A violation is given up for the next one, or the search, where so many steps brought no lower G.
STALLED = 20
#: So many steps are looked at for a jump of G.
TRIES = 5
#: Where an answer is refined: the violation, in units of that of a usual point, the radius of the first region, and the
#: number of steps beside 2 d.
REFINED, NEARBY, REFINING = 1e-9, 1e-5, 30

#: L and G of a point that is worse than any.
NO_RIVAL = np.inf, np.inf


def final_violation(archive: Archive, lower_tol: float, part: float, size: float) -> float:
    """The violation of an answer: inside a tolerance that is given, else a part of the usual one, above rounding."""
    if lower_tol:
        return INSIDE * lower_tol**0.5
    rounding = float(np.finfo(float).eps * size)
    return float(max(part * np.sqrt(max(archive.usual_excess, rounding, 1e-300)), 10.0 * rounding**0.5))


class Proposal(NamedTuple):
    """A step, the weight pi of the violation beside G, by how much G + pi max(c - v, 0) is to fall, if it will."""

    step: Step
    weight: float
    promised: float
    is_stuck: bool


class UpperSearch:
    """So many steps to lower G from a point of low L, while the violation that is allowed falls to `final`."""

    _exact = 1e-10  # a step that promises less than this part of the slope of G is none
    _sure = SURE

    def __init__(
        self, differences: ForwardDifferences, archive: Archive, center: Point, final: float, *,
        allowed: float = np.inf, radius: float = RADIUS, steps: float = np.inf, rival: tuple[float, float] = NO_RIVAL,
    ) -> None:  # fmt: skip
        self._differences, self._archive, self._center = differences, archive, center
        self._final, self._rival = final, rival
        has_kinks = archive.has_plateau  # L has, at its edge, and no curvature inside
        self._planes = CuttingPlanes(center, 0.1 * final, is_scaled=not has_kinks)
        self._secant = SecantModel(center)
        self._models: list[ViolationModel] = [self._planes, self._secant]
        if has_kinks:
            self._models = [FittedConstraints(center, 0.1 * final), self._planes]
        self._radius, self._steps = radius, steps
        self._allow(allowed)
        self._tries = TRIES
        self._beside: set[int] = set()  # jumps of the archive that steps do not pass
        self._measured: Point | None = None  # where second differences were taken last

    def run(self) -> None:
        """Until nothing better is within reach."""
        while self._steps > 0:
            self._steps -= 1
            self._lowest = self._lowest_expected()
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

    @property
    def _lowest_known(self) -> float:
        return float(self._archive.lower.min())

    def _lowest_expected(self) -> float:
        """The lowest L, or nearly what it is expected to become, but not below 0 where no L was so far.

        A descent of L ends where it gains little, and in a curved valley that may be far above its minimum: steps that
        keep to such an L would creep.
        """
        lowest = self._lowest_known
        if self._allowed == np.inf or self._secant.error >= self._sure:
            return lowest
        expected = self._center.lower - GRANTED * self._secant.lower_by(self._center, self._radius)
        return min(lowest, max(expected, 0.0) if lowest >= 0.0 else expected)

    def _allow(self, c: float) -> None:
        """Allow this violation from now on."""
        self._allowed = c
        self._lowest_upper, self._since = np.inf, 0  # with this violation, and how many steps ago

    def _count(self) -> None:
        """Count the steps since G was lowest."""
        self._since += 1
        if self._keeps_to_it and self._center.upper < self._lowest_upper:
            self._lowest_upper, self._since = self._center.upper, 0

    def _propose(self) -> Proposal:
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
            proposal = Proposal(step, weight, promised, too_little or min(step.size, self._radius) < SMALLEST)
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
        if self._allowed < np.inf and (steepest := self._planes.steepest) > 0.0:
            rounding = float(np.finfo(float).eps * abs(self._lowest)) ** 0.5
            self._differences.look_close(self._allowed / steepest, rounding / steepest)
        return self._differences.region.room(self._center.z, self._radius)

    def _is_good_enough(self, step: Step) -> bool:
        """Whether the point keeps to the violation allowed, and steps gain next to nothing at the same one."""
        worth = step.multiplier * self._allowed if self._allowed < np.inf else 0.0
        gain = step.multiplier * max(self._now - step.violation, 0.0) - step.change
        little = LEAST if self._is_last else LITTLE
        return self._keeps_to_it and (gain <= little * worth or self._since > STALLED)

    def _is_behind(self) -> bool:
        """Whether the rival is better already, though this search still is allowed more."""
        keeps = self._now <= NEARLY * self._allowed < np.inf
        rival = violation(self._rival[0], self._lowest_known)
        return keeps and self._center.upper >= self._rival[1] and rival <= NEARLY * self._final

    def _jumps_before(self, new: Point) -> set[int]:
        """Jumps of G on the way to a point, by their number, if what G does there tells of one."""
        differences, archive, z = self._differences, self._archive, self._center.z
        jumps = archive.jumps
        if not meets_jump(self._center, new):
            return set()
        known = {i for i, jump in enumerate(jumps) if jump.is_below(z) != jump.is_below(new.z)} - self._beside
        if known or not self._tries:
            return known
        self._tries -= 1
        jump = find_jump(differences.function, archive, differences.region, self._center, new)
        if jump is None:
            return set()
        jumps.append(jump)
        return {len(jumps) - 1}

    def _stay_beside(self, numbers: set[int]) -> None:
        """From now on, take no step over these jumps."""
        differences, archive, z = self._differences, self._archive, self._center.z
        self._beside |= numbers
        sides = [(archive.jumps[i], archive.jumps[i].is_below(z)) for i in sorted(numbers)]
        function, region = on_one_side(differences.function, differences.region, sides, archive.usual_excess)
        differences.region = region.with_point(z)
        if function is not differences.function:
            differences.go_on_with(function)
            self._center = differences.at(z)

    def _may_measure(self) -> bool:
        """Whether second differences have not been taken here, would not be too many, and L has no kinks.

        Where its lowest points are a plateau it has: slopes begin there.
        """
        return self._measured is not self._center and self._archive.d <= CURVATURES and not self._archive.has_plateau

    def _lower_L(self) -> bool:
        """Whether L can still be lowered, so that the violation was taken for less than it is."""
        if self._archive.has_plateau:
            return False
        minimise_lower(self._differences, self._center.z, (UNIT * self._final) ** 2)
        lowest = self._lowest_known
        self._now = violation(self._center.lower, lowest)
        return violation(self._lowest, lowest) > 0.5 * self._final

    def _be_stricter(self, size: float) -> None:
        """Allow less violation, in a region that is large beside the last step."""
        known = self._allowed < np.inf
        self._allow(max(STRICTER * min(self._allowed, 10.0 * self._now), self._final) if known else self._final)
        self._radius = max(self._radius, 10.0 * size, 1e-3)

    def _try(self, proposal: Proposal) -> None:
        """Evaluate the end of a step, learn from it, and go there if it is better."""
        center, (step, weight, promised, _) = self._center, proposal
        new = self._differences.at(self._differences.region.clip(center.z + step.step))
        if max(new.lower, abs(new.upper)) >= STAND_IN:
            self._radius = FAILED * step.size
            return
        after = violation(new.lower, self._lowest)
        unit = after + (self._allowed if self._allowed < np.inf else self._final)
        for model in self._models:
            model.error = 0.5 * (model.error + abs(model.at(step.step) - after) / unit)
        if self._allowed == np.inf and after > self._final:
            self._allow(max(FIRST_PART * after, self._final))
        weight = max(weight, 0.1 * promised / self._allowed)
        reached = center.upper - new.upper + weight * (self._excess(self._now) - self._excess(after))
        for model in self._models:
            model.learn(new, step.multiplier, after - max(step.violation, self._allowed))
        jumps = self._jumps_before(new)
        if reached >= 0.1 * promised - self._noise:
            self._center = new
            if reached > 0.7 * promised and step.size > 0.9 * self._radius:
                self._radius = min(GROWTH * self._radius, LARGEST)
        elif jumps and new.upper > center.upper:
            self._stay_beside(jumps)
        elif self._may_measure() and min(model.error for model in self._models) > WRONG:
            self._measured = center
            self._secant.be_told(*self._differences.curvatures(center))
        else:  # a linearisation that does not contradict what is known here tells of a constraint
            told = after > 0.0 and after - new.slope_lower @ (new.z - center.z) / (2.0 * after) <= self._now
            self._radius = (INFORMED if told else FAILED) * min(self._radius, step.size)


class Refinement(UpperSearch):
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
    _sure = 0.0

    def __init__(self, function: Function, archive: Archive, start: Floats, lower_tol: float) -> None:
        differences = CentralDifferences(function, archive.region)
        final = final_violation(archive, lower_tol, REFINED, abs(float(archive.lower.min())))
        super().__init__(
            differences, archive, differences.at(start), final,
            allowed=final, radius=NEARBY, steps=REFINING + 2 * archive.d,
        )  # fmt: skip
        self._models = [self._planes, self._secant]  # which take second differences

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
