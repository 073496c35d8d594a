import numpy as np
import pytest
from optimize_cases import Counted, adding
from scipy.optimize import Bounds

from sklearn_scb2o.optimize import upper_search
from sklearn_scb2o.optimize.archive import Archive
from sklearn_scb2o.optimize.descent import AGAIN_STEPS, descend, go_on
from sklearn_scb2o.optimize.differences import CentralDifferences, ForwardDifferences
from sklearn_scb2o.optimize.upper_search import GRANTED, Refinement, UpperSearch

UNIT = 2.0**10


class Spent(Exception):
    pass


def unit_box(x, lower, upper):
    """An archive of points of the unit box."""
    d = x.shape[1]
    return Archive(Bounds(np.zeros(d), np.ones(d)), x, lower, upper)


def run(f, start, lower_tol=0.0, seed=0, budget=10**6, first=None):
    """Search the unit box from 20 points that are known; the archive, and the points that were evaluated, in order."""
    d = len(start)
    x = np.random.default_rng(seed).uniform(size=(20, d)) if first is None else first
    archive, asked = unit_box(x, *f(x)), []

    def evaluate(z):
        if sum(map(len, asked)) + len(z) > budget:
            raise Spent
        asked.append(z.copy())
        values = f(z)
        archive.add(z, *values)
        return values

    try:
        descend(evaluate, archive, np.array(start, dtype=float), lower_tol)
    finally:
        archive.asked = np.concatenate([np.empty((0, d)), *asked])
    return archive


def best(archive, tol=1e-11):
    """Of the points whose L is as good as the lowest, up to `tol`, that of lowest G."""
    good = np.flatnonzero(archive.lower <= archive.lower.min() + tol)
    return archive.z[good[np.argmin(archive.upper[good])]]


def circle(z):
    """The circle of radius 0.3 around the middle, as a squared violation, and the distance from a point outside."""
    return (np.sum((z - 0.5) ** 2, axis=-1) - 0.09) ** 2, np.sum((z - 1.2) ** 2, axis=-1)


def solution(d):
    """Of `circle`."""
    return 0.5 + np.full(d, 0.3 / d**0.5)


@pytest.mark.parametrize("start", [[0.4, 0.7, 0.2], [1.0, 0.3, 1.0]])  # where the box ends differences are backward
def test_second_differences_are_the_curvatures(start):
    A, B = np.random.default_rng(0).standard_normal((2, 3, 3))
    f = Counted(lambda z: (np.einsum("...i,ij,...j", z, A, z) + z[..., 0], np.einsum("...i,ij,...j", z, B, z) - 3.0))
    z = np.array([start])
    differences = ForwardDifferences(f, unit_box(z, *f(z)).region)
    point = differences.at(z[0])
    known = f.n
    curvatures = differences.curvatures(point)
    np.testing.assert_allclose(curvatures, [A + A.T, B + B.T], atol=0.02)
    assert f.n - known == 6


def test_second_differences_are_zero_where_there_is_only_rounding_or_no_value():
    def plane(z):
        return 1e3 + z @ np.array([1.0, -2.0]), np.where(z[..., 1] > 0.5, np.inf, z[..., 0] ** 2)

    z = np.array([[0.3, 0.5 - 1e-6]])
    differences = ForwardDifferences(plane, unit_box(z, *plane(z)).region)
    lower, upper = differences.curvatures(differences.at(z[0]))
    assert not lower.any()
    np.testing.assert_allclose(upper, [[2.0, 0.0], [0.0, 0.0]], atol=0.02)


def limits(z):
    """Inside of a disc and of a strip, as squared violations, and the distance from a point outside of both."""
    over = np.maximum([np.sum((z - 0.5) ** 2, axis=-1) - 0.09, z[..., 0] - 0.6], 0.0)
    return np.sum(over**2, axis=0), np.sum((z - 1.2) ** 2, axis=-1)


@pytest.mark.parametrize("excess", [1e-3, 1e-5, 1e-7])
def test_close_to_a_limit_slopes_are_right_to_some_digits(excess):
    z = np.array([[0.6 + excess, 0.5]])
    differences = ForwardDifferences(limits, unit_box(z, *limits(z)).region)
    differences.look_close(excess, 0.0)
    np.testing.assert_allclose(differences.at(z[0]).slope_lower, [2.0 * excess, 0.0], rtol=2e-3)


def test_steps_of_differences_are_not_so_short_that_rounding_shows():
    z = np.array([[0.5, 0.5]])
    differences = ForwardDifferences(limits, unit_box(z, *limits(z)).region, resolution=1e-13)
    steps = []
    for distance, rounding in ((1.0, 0.0), (1e-6, 0.0), (1e-6, 1e-8), (1e-9, 0.0)):
        differences.look_close(distance, rounding)
        steps.append(differences.step)
    assert steps == pytest.approx([1e-7, 2e-9, 1e-8, 1e-10])


def test_where_L_has_a_plateau_no_second_differences_are_taken_and_no_lower_L_is_looked_for(monkeypatch):
    x = np.random.default_rng(0).uniform(0.3, 0.7, size=(20, 2))
    archive = unit_box(x, *limits(x))
    assert archive.has_plateau
    monkeypatch.setattr(ForwardDifferences, "curvatures", None)
    monkeypatch.setattr(upper_search, "minimise_lower", None)
    descend(adding(limits, archive), archive, np.array([0.4, 0.4]), 0.0)
    monkeypatch.setattr("sklearn_scb2o.optimize.descent.minimise_lower", None)
    go_on(adding(limits, archive), archive, best(archive), 0.0, 1e-3)
    corner = [0.6, 0.5 + 0.08**0.5]
    np.testing.assert_allclose(best(archive), corner, atol=1e-4)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_quadratic_upper_objective_on_a_sphere_is_minimised(d, seed):
    start = 0.5 + 0.3 * np.random.default_rng(seed).uniform(size=d)
    np.testing.assert_allclose(best(run(circle, start, seed=seed)), solution(d), atol=1e-3)


def test_the_one_minimiser_of_L_is_found_whatever_G_is():
    def f(z):
        return np.sum((z - [0.3, 0.8]) ** 2, axis=-1), np.sin(9.0 * z).sum(axis=-1)

    np.testing.assert_allclose(best(run(f, [0.6, 0.6])), [0.3, 0.8], atol=1e-3)


def test_bounds_that_hold_are_reached():
    def f(z):
        return (z[:, 0] - z[:, 1]) ** 2, -z[:, 0] - z[:, 1]

    np.testing.assert_allclose(best(run(f, [0.4, 0.3])), 1.0, atol=1e-3)


def test_with_a_tolerance_L_may_be_larger_by_it():
    def f(z):
        return np.sum((z - 0.5) ** 2, axis=-1), -z[:, 0]

    archive = run(f, [0.3, 0.3], lower_tol=0.01)
    x = best(archive, 0.01)
    assert np.sum((x - 0.5) ** 2) <= 0.01
    # at most 0.6, and G takes it
    assert 0.54 < x[0] <= 0.6


def test_every_point_lies_in_the_box():
    def f(z):
        return (z.sum(axis=-1) - 2.0) ** 2, z[:, 0]

    asked = run(f, [0.9, 0.9]).asked
    assert np.all((asked >= 0) & (asked <= 1))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("factor", [UNIT**4, UNIT**-4])
def test_units_of_the_objectives_do_not_matter(which, factor):
    def scaled(z):
        return tuple(v * (factor if i == which else 1.0) for i, v in enumerate(circle(z)))

    found = best(run(scaled, [0.7, 0.6]), 1e-11 * (factor if which == 0 else 1.0))
    np.testing.assert_allclose(found, solution(2), atol=1e-3)


def test_evaluations_that_fail_on_the_way_are_no_end():
    def f(z):
        L, G = circle(z)
        return np.where((z[:, 1] > 0.6) & (z[:, 1] < 0.7), np.nan, L), G

    archive = run(f, [0.7, 0.5])
    before = circle(archive.asked[:1])
    assert archive.lower.min() < 0.1 * before[0]
    assert circle(best(archive))[1] < before[1]


@pytest.mark.parametrize("values", [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0)], ids=str)
def test_it_ends_where_every_evaluation_fails(values):
    f = Counted(lambda z: circle(z) if f.n <= 20 else tuple(np.full(len(z), v) for v in values))
    archive = run(f, [0.7, 0.6])
    assert len(archive.z) == 20
    assert f.n < 2000


@pytest.mark.parametrize("f", [
    lambda z: (np.zeros(len(z)), np.zeros(len(z))),
    lambda z: (np.full(len(z), 7.0), np.sum((z - 0.3) ** 2, axis=-1)),
    lambda z: (np.sum((z - 0.3) ** 2, axis=-1), np.full(len(z), 7.0)),
], ids=["both", "L", "G"])  # fmt: skip
def test_objectives_may_be_constant(f):
    archive = run(f, [0.7, 0.6])
    if np.ptp(archive.lower) + np.ptp(archive.upper):
        np.testing.assert_allclose(best(archive), 0.3, atol=1e-3)


@pytest.mark.parametrize("budget", [1, 2, 17, 40])
def test_what_ends_the_evaluations_ends_the_search_and_nothing_is_lost(budget):
    f = Counted(circle)
    with pytest.raises(Spent):
        run(f, [0.7, 0.6], budget=budget)
    assert f.n <= 20 + budget


def test_one_known_point_is_enough():
    archive = run(circle, [0.7, 0.6], first=np.array([[0.7, 0.6]]))
    assert archive.lower.min() < circle(np.array([0.7, 0.6]))[0]


@pytest.mark.parametrize("start", [[0.4, 0.7, 0.2], [1.0, 0.3, 1.0], [0.0, 0.0, 0.5]])  # at bounds both are inside
def test_central_differences_of_a_quadratic_are_exact_but_for_rounding(start):
    seen, start = [], np.array(start)

    def f(z):
        seen.append(z)
        return np.sum((z - 0.3) ** 2, axis=-1), np.prod(z[..., :2], axis=-1)

    point = CentralDifferences(f, unit_box(np.full((1, 3), 0.5), *f(np.full((1, 3), 0.5))).region).at(start)
    np.testing.assert_allclose(point.slope_lower, 2.0 * (start - 0.3), atol=1e-7)
    np.testing.assert_allclose(point.slope_upper, [start[1], start[0], 0.0], atol=1e-7)
    assert np.min(np.vstack(seen)) >= 0.0
    assert np.max(np.vstack(seen)) <= 1.0


def test_a_violation_is_given_up_when_steps_no_longer_lower_G(monkeypatch):
    starts = np.random.default_rng(0).uniform(size=(12, 3))
    patient = [run(circle, start) for start in starts]
    monkeypatch.setattr(upper_search, "STALLED", 2)
    hasty = [run(circle, start) for start in starts]
    assert sum(len(archive.asked) for archive in hasty) < sum(len(archive.asked) for archive in patient)
    for archive in hasty:
        np.testing.assert_allclose(best(archive), solution(3), atol=0.02)


@pytest.mark.parametrize("least", [0.0, 7.0, -7.0])
def test_violations_are_counted_from_what_L_is_expected_to_become(least):
    def f(z):
        return np.sum((z - 0.4) ** 2, axis=-1) + least, z[..., 0]

    known = np.full((1, 3), 0.6)
    archive = unit_box(known, *f(known))
    differences = CentralDifferences(f, archive.region)
    search = UpperSearch(differences, archive, differences.at(np.full(3, 0.7)), 1e-6, allowed=0.1, radius=1.0)
    lowest = 0.12 + least
    assert search._lowest_expected() == pytest.approx(lowest)  # nothing is known of curvatures
    search._secant.be_told(2.0 * np.eye(3), np.eye(3))
    expected = max(0.27 - GRANTED * 0.27, 0.0) + least
    assert search._lowest_expected() == pytest.approx(expected, abs=1e-6)
    search._secant.error = 1.0
    assert search._lowest_expected() == pytest.approx(lowest)
    search._secant.be_told(0.1 * np.eye(3), np.eye(3))  # far too little
    expected = 0.27 - GRANTED * 3 * (0.6 - 0.05) + least
    assert search._lowest_expected() == pytest.approx(max(expected, 0.0) if least == 0.0 else expected, abs=1e-6)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("part", [1e-3, 1e-4])
def test_going_on_leads_along_the_minimisers_of_L_to_the_answer(d, part):
    known = np.random.default_rng(0).uniform(size=(50, d))
    archive = unit_box(known, *circle(known))
    away = 1.0 + 0.3 * np.eye(d)[0]
    end = 0.5 + 0.3 * away / np.linalg.norm(away)
    archive.add(end[None], np.zeros(1), circle(end)[1][None])

    go_on(adding(circle, archive), archive, end, 0.0, part)
    np.testing.assert_allclose(best(archive, 1e-14), solution(d), atol=1e-4)
    assert len(archive.z) < 50 + (AGAIN_STEPS + 20) * (2 * d + 1)


def test_going_on_finds_a_lower_L_first():
    known = np.random.default_rng(0).uniform(size=(50, 3))
    archive = unit_box(known, *circle(known))

    go_on(adding(circle, archive), archive, solution(3) + 0.01, 0.0, 1e-3)
    np.testing.assert_allclose(best(archive, 1e-14), solution(3), atol=1e-5)


@pytest.mark.parametrize("d", [2, 5, 14])  # the last has no second differences
@pytest.mark.parametrize("seed", range(4))
def test_a_refinement_goes_from_near_the_answer_to_it(d, seed):
    rng = np.random.default_rng(seed)
    start = solution(d) + 1e-5 * rng.standard_normal(d)
    known = rng.uniform(size=(50, d))
    archive = unit_box(known, *circle(known))
    archive.add(solution(d)[None], np.zeros(1), circle(solution(d))[1][None])

    search = Refinement(adding(circle, archive), archive, start, 0.0)
    search.run()
    lower, upper, z = search.answer
    np.testing.assert_allclose([lower, upper], circle(z), rtol=1e-6)
    np.testing.assert_allclose(z, solution(d), atol=1e-7)


def test_a_refinement_keeps_inside_a_tolerance():
    known = np.random.default_rng(0).uniform(size=(50, 3))
    archive = unit_box(known, *circle(known))
    search = Refinement(circle, archive, solution(3), 1e-6)
    archive.add(solution(3)[None], np.zeros(1), circle(solution(3))[1][None])
    search.run()
    lower, upper, _ = search.answer
    assert lower <= 1e-6
    assert upper < circle(solution(3))[1]
