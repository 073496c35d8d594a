import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds

from sklearn_scb2o.optimize.archive import Archive, Seen

BOX = Bounds([-3.0, 1.0], [3.0, 5.0])


def archive(x, bounds=BOX, lower=None, upper=None):
    x = np.array(x, dtype=float)
    zeros = np.zeros(len(x))
    return Archive(bounds, x, zeros if lower is None else np.array(lower), zeros if upper is None else np.array(upper))


def test_points_come_back_in_order():
    seen = Seen()
    seen.add(np.zeros((2, 3)), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    seen.add(np.ones((1, 3)), np.array([5.0]), np.array([np.nan]))
    x, lower, upper = seen.arrays()
    np.testing.assert_array_equal(x[:, 0], [0, 0, 1])
    np.testing.assert_array_equal(lower, [1, 2, 5])
    np.testing.assert_array_equal(upper, [3, 4, np.nan])


def test_seen_points_are_copies():
    seen, x = Seen(), np.zeros((1, 2))
    seen.add(x, np.zeros(1), np.zeros(1))
    x[:] = 7.0
    np.testing.assert_array_equal(seen.arrays()[0], 0.0)


def test_what_was_seen_goes_on_from_its_state():
    seen, again = Seen(), Seen()
    assert seen.state() == {}
    seen.add(np.array([[1.0, 2.0]]), np.array([3.0]), np.array([4.0]))
    again.add(**seen.state())
    for a, b in zip(seen.arrays(), again.arrays(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_box_has_width_one():
    known = archive([[-3.0, 5.0], [0.0, 3.0]])
    np.testing.assert_array_equal(known.z, [[0, 1], [0.5, 0.5]])
    np.testing.assert_array_equal([known.region.low, known.region.high], [[0, 0], [1, 1]])


def test_without_bounds_the_unit_is_the_spread_of_the_points():
    known = archive([[1.0, 7.0], [5.0, 7.0]], Bounds([-np.inf, 0.0], [np.inf, np.inf]))
    np.testing.assert_array_equal(known.z, [[0, 1], [1, 1]])
    np.testing.assert_array_equal([known.region.low, known.region.high], [[-np.inf, 0], [np.inf, np.inf]])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_steps_of_differences_turn_where_so_many_leave_the_box(sign):
    known, z = archive([[0.0, 3.0]]), 0.5 + sign * np.array([0.35, 0.25])
    np.testing.assert_array_equal(known.region.steps_inside(z, sign * 0.1), [sign * 0.1, sign * 0.1])
    np.testing.assert_array_equal(known.region.steps_inside(z, sign * 0.1, 2), [-sign * 0.1, sign * 0.1])


def test_room_for_steps_ends_at_the_radius_or_with_the_box():
    low, high = archive([[0.0, 3.0]]).region.room(np.array([0.05, 0.98]), 0.1)
    np.testing.assert_allclose([low, high], [[-0.05, -0.1], [0.1, 0.02]], atol=1e-15)


def test_points_without_both_values_are_left_out():
    known = archive(np.ones((5, 2)), lower=[1, np.nan, np.inf, 4, 5], upper=[1, 2, 3, np.nan, 5])
    np.testing.assert_array_equal(known.lower, [1, 5])
    assert known.z.shape == (2, 2)


def test_an_upper_value_that_a_swarm_did_not_ask_for_is_no_failure():
    lower, upper = np.array([0.0, 1.0, np.nan, 3.0]), np.array([1.0, np.nan, np.nan, np.inf])
    archive = Archive(Bounds([0.0], [1.0]), np.linspace(0, 1, 4)[:, None], lower, upper)
    assert (len(archive.z), archive.n_failed) == (1, 2)
    archive.add(np.array([[0.5]]), np.zeros(1), np.full(1, np.nan))
    assert archive.n_failed == 3


def test_more_points_than_there_was_room_for_stay_in_order():
    known = archive([[0.0, 1.0]])
    for i in range(1, 400):
        known.add(np.full((1, 2), i / 400), np.array([float(i)]), np.array([-float(i)]))
    np.testing.assert_array_equal(known.lower, np.arange(400.0))
    np.testing.assert_array_equal(known.upper, -np.arange(400.0))
    np.testing.assert_array_equal(known.z[1:, 0], np.arange(1, 400) / 400)


def test_fixed_coordinates_are_no_dimensions_and_keep_their_value():
    known = archive([[0.5, 0.1, 2.0]], Bounds([0.0, 0.1, -np.inf], [1.0, 0.1, np.inf]))
    assert known.d == 2
    np.testing.assert_array_equal(known.unscaled(np.array([[0.25, 0.0]])), [[0.25, 0.1, 2.0]])


def test_all_coordinates_may_be_fixed():
    known = archive([[0.5, 0.1]], Bounds([0.5, 0.1], [0.5, 0.1]))
    assert known.d == 0
    np.testing.assert_array_equal(known.unscaled(np.empty((2, 0))), [[0.5, 0.1]] * 2)


limits = st.floats(-1e6, 1e6).flatmap(lambda low: st.tuples(st.just(low), st.floats(low, low + 1e6)))


@given(limits, st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0, 1))
def test_points_of_the_box_stay_inside_to_the_last_bit(limits, parts, first):
    low, high = limits
    known = archive([[min(low + first * (high - low), high)]], Bounds([low], [high]))
    ends = [[known.region.low[0]], [known.region.high[0]]] if known.d else []
    x = known.unscaled(np.array([*([part] for part in parts), *ends]) if known.d else np.empty((3, 0)))
    assert np.all((x >= low) & (x <= high))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(-9, 9), st.floats(-9, 9)), min_size=1),
       st.integers(1, 5), st.floats(0.01, 0.5))  # fmt: skip
def test_starts_are_good_points_that_are_apart(rows, most, distance):
    x, lower, upper = np.array(rows)[:, :2], *np.array(rows)[:, 2:].T
    known = archive(x, Bounds([0, 0], [1, 1]), lower, upper)
    starts = np.array(known.apart(most, distance))
    assert 1 <= len(starts) <= most
    between = np.abs(starts[:, None] - starts).max(axis=-1)
    assert np.all(between[~np.eye(len(starts), dtype=bool)] >= distance)
    cut = np.sort(lower)[max(1, len(lower) // 10) - 1]
    for start in starts:
        assert np.min(lower[(x == start).all(axis=1)]) <= cut


def test_the_first_start_is_the_lowest_in_G_of_those_with_a_low_L():
    lower, upper = np.arange(30.0), np.r_[2.0, 1.0, 3.0, np.full(27, -9.0)]
    known = archive(np.linspace([-3, 1], [3, 5], 30), lower=lower, upper=upper)
    np.testing.assert_array_equal(known.apart(1, 0.1)[0], known.z[1])


def test_starts_may_be_limited_to_late_points_and_to_those_away_from_others():
    lower = np.r_[np.zeros(10), np.arange(20.0)]  # the early points have the lowest L
    known = archive(np.linspace([-3, 1], [3, 5], 30), lower=lower, upper=np.arange(30.0))
    late = known.z[10:12]  # the tenth of the late ones with the lowest L
    np.testing.assert_array_equal(known.apart(5, 1e-3, since=10), late)
    np.testing.assert_array_equal(known.apart(5, 1e-3, since=10, taken=[late[0] + 1e-4]), late[1:])
    assert known.apart(5, 1e-3, since=10, taken=list(late)) == []


@pytest.mark.parametrize("n", [0, 1])
def test_values_may_all_be_missing(n):
    known = archive(np.zeros((3, 2)), lower=np.full(3, np.nan))
    known.add(np.zeros((n, 2)), np.full(n, np.nan), np.zeros(n))
    assert known.z.shape == (0, 2)
    assert known.apart(3, 0.1) == []


def test_a_plateau_has_more_lowest_points_than_a_simplex():
    x = np.random.default_rng(0).uniform(size=(6, 3))
    box = Bounds(np.zeros(3), np.ones(3))
    assert Archive(box, x, np.array([0.0, 1.0, 0.0, 0.0, 0.0, 2.0]), np.zeros(6)).has_plateau
    assert not Archive(box, x, np.array([0.0, 1.0, 0.0, 0.0, 1e-12, 2.0]), np.zeros(6)).has_plateau
    assert not Archive(box, x, np.arange(6.0), np.zeros(6)).has_plateau


@pytest.mark.parametrize(("low", "width"), [(0.0, 1.0), (-3.0, 6.0), (1e5, 1.0), (-1e5, 10.0)])
def test_the_resolution_is_the_rounding_of_coordinates_in_widths_of_the_box(low, width):
    archive = Archive(Bounds([low], [low + width]), np.array([[low]]), np.zeros(1), np.zeros(1))
    assert archive.resolution == pytest.approx(np.finfo(float).eps * max(abs(low), abs(low + width)) / width)
