from types import SimpleNamespace

import numpy as np
import pytest
from optimize_cases import Counted, adding
from scipy.optimize import Bounds

from sklearn_scb2o import minimize
from sklearn_scb2o.optimize.archive import MARGIN, Archive, Jump, Region
from sklearn_scb2o.optimize.descent import descend
from sklearn_scb2o.optimize.hybrid import Hybrid
from sklearn_scb2o.optimize.jumps import NEAR, PLANES, OneSide, find_jump, meets_jump, on_one_side
from sklearn_scb2o.optimize.violation import Point

BOX = Region(np.zeros(3), np.ones(3))
GAIN = np.array([0.8, 0.5, -0.2])


def some_archive():
    """What `find_jump` looks at of an archive."""
    return SimpleNamespace(seeks_planes=True)


class SeenPoints:
    """What `adding` tells."""

    def add(self, z, lower, upper):
        self.z = z


def stepped(place, height, rate=0.0, coordinate=0):
    """A linear cost, and a fee and another rate where a coordinate passes a value."""

    def f(z):
        above = z[..., coordinate] - place
        return np.zeros(z.shape[:-1]), 2.0 - z @ GAIN + (above > 0) * (height + rate * above)

    return f


def point(f, z, slope=None):
    """With slopes that are exact but for jumps."""
    z = np.asarray(z, dtype=float)
    if slope is None:
        slope = [(f(z + e)[1] - f(z - e)[1]) / 2e-7 for e in 1e-7 * np.eye(3)]
    lower, upper = f(z)
    return Point(z, float(lower), float(upper), np.zeros(3), np.asarray(slope))


@pytest.mark.parametrize("place", [0.3011, 0.555])
@pytest.mark.parametrize("coordinate", [0, 2])
@pytest.mark.parametrize(("height", "rate"), [(0.4, 0.1), (-0.4, 0.1), (1e-4, 0.0)])
@pytest.mark.parametrize("way", [1, -1])
def test_a_jump_is_found_where_a_coordinate_passes_a_value(place, coordinate, height, rate, way):
    f = Counted(stepped(place, height, rate, coordinate))
    near, far = [point(f, z) for z in ([0.1, 0.2, 0.25], [0.7, 0.6, 0.8])][::way]
    known = f.n
    found = find_jump(f, some_archive(), BOX, near, far)
    np.testing.assert_array_equal(found.normal, np.eye(3)[coordinate])
    assert abs(found.value - place) < 2.0 * NEAR
    assert f.n - known < 40


def test_a_step_over_a_jump_is_told_from_one_along_a_curve():
    f = stepped(0.5, 0.2, 0.3)
    assert meets_jump(point(f, [0.45, 0.4, 0.5]), point(f, [0.55, 0.5, 0.4]))
    assert not meets_jump(point(f, [0.25, 0.4, 0.5]), point(f, [0.45, 0.5, 0.4]))

    def curved(z):
        return np.zeros(z.shape[:-1]), np.exp(3.0 * z.sum(axis=-1)) + np.sin(9.0 * z[..., 0])

    assert not meets_jump(point(curved, [0.3, 0.4, 0.5]), point(curved, [0.4, 0.5, 0.4]))


@pytest.mark.parametrize("steep", [
    lambda z: np.tanh(20.0 * (z[..., 0] - 0.4)),
    lambda z: (z[..., 0] - 0.4) ** 3,
    lambda z: np.sin(40.0 * z[..., 1]),
], ids=["tanh", "cubic", "waves"])  # fmt: skip
def test_where_G_is_only_steep_there_is_no_jump(steep):
    f = Counted(lambda z: (np.zeros(z.shape[:-1]), steep(z)))
    near, far = point(f, [0.1, 0.2, 0.2]), point(f, [0.7, 0.6, 0.8])
    known = f.n
    assert find_jump(f, some_archive(), BOX, near, far) is None
    assert f.n - known < 12


@pytest.mark.parametrize("normal", [[1.0, 1.0, 0.0], [1.0, 0.2, -0.3], [1.0, 1e-3, 0.0], [0.2, 1.0, 0.9]])
@pytest.mark.parametrize("way", [1, -1])
def test_a_jump_is_found_where_a_linear_function_passes_a_value(normal, way):
    normal = np.array(normal) / np.linalg.norm(normal)
    value, gain = 0.4, np.array([0.1, -0.3, 0.2])
    f = Counted(lambda z: (np.zeros(z.shape[:-1]), z @ gain + 1.0 * (z @ normal > value)))
    near, far = [point(f, z, gain) for z in ([0.1, 0.2, 0.2], [0.9, 0.7, 0.6])][::way]
    known = f.n
    found = find_jump(f, some_archive(), BOX, near, far)
    assert f.n - known < 43 + 2 * 28
    assert found.is_below(near.z)
    assert not found.is_below(far.z)
    np.testing.assert_allclose(found.normal, way * normal, atol=2e-6)
    assert found.value == pytest.approx(way * value, abs=2e-6)


def test_a_jump_is_found_at_the_edge_of_the_box():
    normal = np.array([0.6, 0.8, 0.0])
    f = Counted(lambda z: (np.zeros(z.shape[:-1]), 1.0 * (z @ normal > 0.5)))
    found = find_jump(
        f, some_archive(), BOX, point(f, [0.1, 0.2, 1.0], np.zeros(3)), point(f, [0.7, 0.9, 1.0], np.zeros(3))
    )
    np.testing.assert_allclose(found.normal, normal, atol=2e-6)


def test_a_jump_at_a_curve_is_not_taken_for_a_plane():
    center = np.array([0.2, 0.1, 0.3])
    f = Counted(lambda z: (np.zeros(z.shape[:-1]), 1.0 * (np.linalg.norm(z - center, axis=-1) > 0.5)))
    near, far = point(f, [0.25, 0.2, 0.35], np.zeros(3)), point(f, [0.9, 0.8, 0.7], np.zeros(3))
    archive = some_archive()
    assert find_jump(f, archive, BOX, near, far) is None
    assert not archive.seeks_planes
    known = f.n
    assert find_jump(f, archive, BOX, near, far) is None
    assert f.n - known < 40


def test_with_many_variables_a_jump_is_found_where_it_depends_on_one():
    d = PLANES + 1
    for normal, is_found in ((np.eye(d)[3], True), (np.ones(d) / d**0.5, False)):
        f = Counted(lambda z, normal=normal: (np.zeros(z.shape[:-1]), 1.0 * (z @ normal > 0.5 * normal.sum())))
        ends = [Point(np.full(d, x), 0.0, y, np.zeros(d), np.zeros(d)) for x, y in ((0.3, 0.0), (0.8, 1.0))]
        assert (find_jump(f, some_archive(), Region(np.zeros(d), np.ones(d)), *ends) is not None) == is_found
        assert f.n < 35 + d


def test_a_region_beside_a_value_ends_a_little_before_it():
    below, above = (BOX.beside(1, 0.4, side) for side in (True, False))
    np.testing.assert_allclose(below, [[0, 0, 0], [1, 0.4 - MARGIN, 1]])
    np.testing.assert_allclose(above, [[0, 0.4 + MARGIN, 0], [1, 1, 1]])
    jump = Jump(np.eye(3)[1], 0.4)
    assert jump.is_below(below.high)
    assert not jump.is_below(above.low)


def test_a_region_beside_a_value_can_hold_a_point_that_is_nearer_to_it():
    z = np.array([0.5, 0.4 - 0.1 * MARGIN, 0.5])
    region = BOX.beside(1, 0.4, True).with_point(z)
    np.testing.assert_array_equal(region, [BOX.low, [1, z[1], 1]])
    least, most = region.room(z, 1e-7)
    assert np.all((least <= 0) & (most >= 0))


def test_at_jumps_of_one_coordinate_the_region_ends_and_at_others_the_function_changes():
    straight, oblique = Jump(np.eye(3)[2], 0.3), Jump(np.array([0.0, 0.6, 0.8]), 0.5)
    f = stepped(0.5, 1.0)
    function, region = on_one_side(f, BOX, [(straight, False)], 1.0)
    assert function is f
    np.testing.assert_array_equal(region, BOX.beside(2, 0.3, False))
    function, region = on_one_side(f, BOX, [(straight, False), (oblique, True)], 1.0)
    assert isinstance(function, OneSide)
    np.testing.assert_array_equal(region, BOX.beside(2, 0.3, False))


@pytest.mark.parametrize("below", [True, False])
def test_on_one_side_values_are_those_of_the_function_and_beyond_of_the_nearest_point(below):
    normal, value, weight = np.array([0.6, 0.8, 0.0]), 0.7, 5.0
    f = adding(lambda z: (z[..., 0], np.sum(z * z, axis=-1)), archive := SeenPoints())
    one_side = OneSide(f, BOX, [(Jump(normal, value), below)], weight)
    z = np.random.default_rng(0).uniform(size=(40, 3))
    excess = (1 if below else -1) * (z @ normal - value)
    there = excess <= -MARGIN
    assert 5 < there.sum() < 35
    lower, upper = one_side(z)
    asked = archive.z
    np.testing.assert_array_equal(asked[there], z[there])
    np.testing.assert_array_equal(lower[there], z[there, 0])
    np.testing.assert_array_equal(upper, np.sum(asked * asked, axis=-1))
    np.testing.assert_array_less((1 if below else -1) * (asked @ normal - value), -0.99 * MARGIN)
    inside = np.all((asked > 0.0) & (asked < 1.0), axis=1) & ~there
    distance = np.linalg.norm(z - asked, axis=1)
    np.testing.assert_allclose(distance[inside], excess[inside] + MARGIN)
    np.testing.assert_allclose(lower[inside], asked[inside, 0] + weight * distance[inside] ** 2)


def section(x):
    """The unit sphere."""
    return (np.sum(x * x, axis=-1) - 1.0) ** 2


def edge(threshold, gain):
    """The point of the unit sphere furthest along `gain` whose first coordinate is at a threshold."""
    rest = np.append(0.0, gain[1:])
    return np.append(threshold, np.sqrt(1.0 - threshold**2) * rest[1:] / np.linalg.norm(rest))


@pytest.mark.parametrize("turned", [False, True])
def test_a_search_goes_along_a_jump_that_it_does_not_pass(turned):
    gain, threshold = np.array([0.6, 0.5, -0.4, 0.3]), 0.25
    axes = np.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0] if turned else np.eye(4)

    def f(z):
        x = (6.0 * z - 3.0) @ axes
        return section(x), 2.0 - x @ gain + 0.5 * (x[..., 0] > threshold)

    known = np.random.default_rng(0).uniform(size=(20, 4))
    archive = Archive(Bounds(np.zeros(4), np.ones(4)), known, *f(known))

    descend(adding(f, archive), archive, 0.5 + axes @ [-0.1, 0.1, 0.1, 0.0], 1e-8)
    good = np.flatnonzero(archive.lower <= 1e-8)
    found = (6.0 * archive.z[good[np.argmin(archive.upper[good])]] - 3.0) @ axes
    np.testing.assert_allclose(found, edge(threshold, gain), atol=1e-2 if turned else 1e-3)
    (jump,) = archive.jumps
    assert (jump.coordinate is None) == turned
    along, value = axes[:, 0], (threshold + 3.0 * axes[:, 0].sum()) / 6.0
    if jump.normal @ along < 0.0:
        along, value = -along, -value
    np.testing.assert_allclose(jump.normal, along, atol=2e-6)
    assert jump.value == pytest.approx(value, abs=2e-6 if turned else 1e-8)


@pytest.mark.parametrize("below", [True, False])
def test_from_the_answer_the_other_side_of_a_jump_is_searched_once(below):
    gain, threshold = np.array([0.6, 0.5, -0.4, 0.3]), 0.4
    gain /= np.linalg.norm(gain)
    beyond, fee = gain, 0.02 if below else 0.3  # worth it, or not
    known = np.random.default_rng(0).uniform(-3.0, 3.0, (50, 4))

    def both(x):
        return section(x), 2.0 - x @ gain + fee * (x[..., 0] > threshold)

    f = Counted(both)
    start, end = (edge(threshold, gain), beyond) if below else (beyond, edge(threshold, gain))
    archive = Archive(Bounds(np.full(4, -3.0), np.full(4, 3.0)), known, *both(known))
    hybrid = Hybrid(f, archive, (*map(float, both(start)), start), 5000, 1e-8, 0)
    assert not list(hybrid._other_sides())
    archive.jumps.append(Jump(np.eye(4)[0], (threshold + 3.0) / 6.0))
    assert len(list(hybrid._other_sides())) == 2  # there, and back
    np.testing.assert_allclose(hybrid.answer[2], end, atol=1e-3)
    asked = f.n
    assert not list(hybrid._other_sides())
    assert f.n == asked


@pytest.mark.parametrize("fee", [0.3, 0.02])  # that is not worth it, and that is
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("turned", [False, True])
def test_a_fee_is_paid_where_it_is_worth_it(fee, seed, turned):
    gain, threshold = np.array([0.6, 0.5, -0.4, 0.3, 0.1, -0.2]), 0.4
    gain /= np.linalg.norm(gain)
    axes = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0] if turned else np.eye(6)

    def both(x):
        return section(x), 2.0 - x @ axes @ gain + fee * ((x @ axes)[..., 0] > threshold)

    result = minimize(
        both, bounds=[(-3.0, 3.0)] * 6, vectorized=True, local_search=True, lower_tol=1e-8, max_evals=3000,
        random_state=seed,
    )  # fmt: skip
    x = gain if fee == 0.02 else edge(threshold, gain)
    np.testing.assert_allclose(result.x @ axes, x, atol=5e-3)
