import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, lsq_linear
from scipy.optimize import minimize as scipy_minimize

from sklearn_scb2o.optimize.archive import Archive
from sklearn_scb2o.optimize.quadratic import minimise_in_box
from sklearn_scb2o.optimize.trust_region import TrustRegionSearch

#: No search may take so many turns.
ENDLESS = 5000


def known_at(points, f, bounds=None):
    """An archive of the unit box, or of another one, that knows some points."""
    points = np.atleast_2d(np.array(points, dtype=float))
    d = points.shape[1]
    return Archive(Bounds(np.zeros(d), np.ones(d)) if bounds is None else bounds, points, *f(points))


def run(archive, f, start=None, **options):
    """Search to the end; the search, and the points that it asked for, in order."""
    search = TrustRegionSearch(archive, archive.z[0] if start is None else np.asarray(start), **options)
    asked = []
    for _ in range(ENDLESS):
        points = search.ask()
        if points is None:
            return search, np.concatenate([np.empty((0, archive.d)), *asked])
        assert points.ndim == 2
        assert len(points)
        values = f(points)
        archive.add(points, *values)
        search.tell(*values)
        asked.append(points)
    raise AssertionError("the search does not end")


def circle(z):
    """The circle of radius 0.3 around the middle, as a squared violation, and the distance from a point outside."""
    return (np.sum((z - 0.5) ** 2, axis=-1) - 0.09) ** 2, np.sum((z - 1.2) ** 2, axis=-1)


def middle(d):
    return np.full(d, 0.5)


def solution(d):
    """Of `circle`."""
    return middle(d) + 0.3 / d**0.5


# --- quadratic functions in a box


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_a_convex_quadratic_has_the_minimum_that_scipy_finds(seed, d):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(d + 2, d)), rng.normal(size=d + 2)
    low, high = -rng.uniform(0.01, 2, size=d), rng.uniform(0.01, 2, size=d)
    step, value = minimise_in_box(-A.T @ b, A.T @ A, low, high)
    expected = lsq_linear(A, b, (low, high), tol=1e-14)
    np.testing.assert_allclose(value, expected.cost - 0.5 * b @ b, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(step, expected.x, atol=1e-4)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_of_an_indefinite_quadratic_a_local_minimum_is_found(seed, d):
    rng = np.random.default_rng(seed)
    A, slope = rng.normal(size=(d, d)), rng.normal(size=d)
    H, low, high = A + A.T, -rng.uniform(0.01, 2, size=d), rng.uniform(0.01, 2, size=d)
    step, value = minimise_in_box(slope, H, low, high)
    assert np.all((step >= low) & (step <= high))
    assert value == pytest.approx(slope @ step + 0.5 * step @ H @ step, abs=1e-10)
    around = np.clip(step + 1e-4 * rng.normal(size=(200, d)), low, high)
    assert value <= (around @ slope + 0.5 * np.einsum("ij,jk,ik->i", around, H, around)).min() + 1e-9


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_quadratic_that_is_concave_ends_at_a_vertex(seed, d):
    rng = np.random.default_rng(seed)
    A, slope = rng.normal(size=(d, d)), rng.normal(size=d)
    step, value = minimise_in_box(slope, -A @ A.T - 0.1 * np.eye(d), -np.ones(d), np.ones(d))
    np.testing.assert_array_equal(np.abs(step), 1.0)
    assert value < 0


@pytest.mark.parametrize("d", [1, 3])
def test_without_a_slope_the_step_is_zero(d):
    step, value = minimise_in_box(np.zeros(d), np.eye(d), -np.ones(d), np.ones(d))
    np.testing.assert_array_equal(step, 0.0)
    assert value == 0.0


def test_a_linear_function_is_least_at_a_vertex():
    step, value = minimise_in_box(np.array([1.0, -2.0, 3.0]), np.zeros((3, 3)), -np.ones(3), np.ones(3))
    np.testing.assert_array_equal(step, [-1, 1, -1])
    assert value == -6.0


def test_a_side_of_no_length_allows_no_step_along_it():
    step, _ = minimise_in_box(np.array([-1.0, -1.0]), np.eye(2), np.array([0.0, -1.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(step, [0, 1], atol=1e-12)


# --- solutions


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("seed", range(2))
def test_a_quadratic_upper_objective_on_a_sphere_is_minimised(d, seed):
    archive = known_at(middle(d) + 0.2 * np.random.default_rng(seed).uniform(size=d), circle)
    search, _ = run(archive, circle, seed=seed)
    np.testing.assert_allclose(search.x, solution(d), atol=5e-3)
    assert search.values[0] < 1e-9


@pytest.mark.parametrize("d", [2, 4])
def test_a_linear_upper_objective_on_a_sphere_is_minimised(d):
    def f(z):
        return circle(z)[0], -z.sum(axis=-1)

    search, _ = run(known_at(middle(d) + 0.2 * np.eye(d)[0], f), f)
    np.testing.assert_allclose(search.x, solution(d), atol=5e-3)


def test_a_lower_objective_with_a_kink_is_minimised():
    def f(z):
        return circle(z)[0] ** 0.5, -z[:, 0]

    search, _ = run(known_at([0.7, 0.6], f), f)
    assert search.values[0] < 1e-3
    assert -0.81 < search.values[1] < -0.75


def test_a_lower_objective_that_is_convex_has_one_minimiser_whatever_G_is():
    def f(z):
        return np.sum((z - [0.3, 0.8, 0.4]) ** 2, axis=-1), np.sin(20.0 * z).sum(axis=-1)

    search, _ = run(known_at([0.6, 0.6, 0.6], f), f)
    np.testing.assert_allclose(search.x, [0.3, 0.8, 0.4], atol=1e-4)


def test_minimisers_that_are_a_line_are_searched_along_it():
    def f(z):
        return (z[:, 0] - 0.25) ** 2, (z[:, 1] - 0.6) ** 2

    search, _ = run(known_at([0.5, 0.1], f), f)
    np.testing.assert_allclose(search.x, [0.25, 0.6], atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_noise_leaves_the_answer_within_its_level(seed):
    rng = np.random.default_rng(seed)

    def f(z):
        L, G = circle(z)
        return L + 1e-5 * rng.normal(size=L.shape), G + 1e-5 * rng.normal(size=G.shape)

    search, _ = run(known_at([0.6, 0.7], f), f, final_radius=1e-3)
    # L = 1e-5 is a distance of 5e-3 from the circle; along it, 0.05 changes G by 2e-3
    np.testing.assert_allclose(search.x, solution(2), atol=0.05)


def test_values_that_are_rounded_leave_the_answer_within_a_step():
    def f(z):
        return tuple(np.round(v, 4) for v in circle(z))

    search, _ = run(known_at([0.6, 0.7], f), f)
    np.testing.assert_allclose(search.x, solution(2), atol=0.05)


def test_coordinates_that_are_rounded_are_no_hindrance():
    def f(z):
        return circle(np.round(z, 2))

    search, _ = run(known_at([0.6, 0.7], f), f)
    assert search.values[0] < 1e-3
    assert search.values[1] < circle(np.array([0.6, 0.7]))[1]


def test_a_region_where_evaluations_fail_is_not_entered():
    def f(z):
        L, G = circle(z)
        return np.where(z[:, 1] > 0.75, np.nan, L), G

    search, _ = run(known_at([0.65, 0.65], f), f)
    np.testing.assert_allclose(search.x, solution(2), atol=0.01)
    assert search.x[1] <= 0.75


@pytest.mark.parametrize("constant", [0.0, 7.0, -1e9])
def test_a_constant_lower_objective_leaves_G_to_be_minimised(constant):
    def f(z):
        return np.full(len(z), constant), np.sum((z - [0.3, 0.6]) ** 2, axis=-1)

    search, _ = run(known_at([0.8, 0.2], f), f)
    np.testing.assert_allclose(search.x, [0.3, 0.6], atol=1e-4)


@pytest.mark.parametrize("constant", [0.0, 7.0])
def test_a_constant_upper_objective_leaves_L_to_be_minimised(constant):
    def f(z):
        return circle(z)[0], np.full(len(z), constant)

    search, asked = run(known_at([0.6, 0.7], f), f)
    assert search.values[0] < 1e-12
    assert len(asked) < 500


# --- it ends, and stays in the box


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("values", [(np.nan, 1.0), (1.0, np.nan), (np.inf, np.inf)], ids=str)
def test_a_search_ends_where_every_evaluation_fails(d, values):
    search, asked = run(known_at(middle(d), circle), lambda z: tuple(np.full(len(z), v) for v in values))
    np.testing.assert_array_equal(search.x, 0.5)
    assert len(asked) < 100 * d


@given(st.integers(0, 10**6))
def test_a_search_ends_where_values_are_random(seed):
    rng = np.random.default_rng(seed)

    def f(z):
        L, G = rng.normal(size=(2, len(z)))
        return np.where(rng.uniform(size=len(z)) < 0.2, np.nan, L), G

    archive = known_at([0.5, 0.4], circle)
    before = circle(np.array([0.5, 0.4]))
    search, asked = run(archive, f, final_radius=1e-3)
    assert np.all((asked >= 0) & (asked <= 1))
    assert np.isfinite([*search.values, *before]).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_search_among_very_many_points_ends(seed):
    # the points near the solution of a swarm that has converged
    spread = 10.0 ** np.random.default_rng(seed).uniform(-9, -1, size=(3000, 1))
    points = np.clip(solution(2) + spread * np.random.default_rng(seed + 1).normal(size=(3000, 2)), 0, 1)
    search, asked = run(known_at(points, circle), circle)
    np.testing.assert_allclose(search.x, solution(2), atol=5e-3)
    assert len(asked) < 500


@pytest.mark.parametrize("ends", [(0.1, 0.3), (1 / 3, 0.7), (-1e-3, 1e5)])
def test_every_point_lies_in_the_box_to_the_last_bit(ends):
    bounds = Bounds(np.full(3, ends[0]), np.full(3, ends[1]))

    def f(x):
        return np.sum(np.abs(x - ends[1]), axis=-1), np.sum(x, axis=-1)

    archive = known_at(np.full(3, ends[0]), f, bounds)
    _, asked = run(archive, lambda z: f(archive.unscaled(z)))
    assert np.all((asked >= archive.region.low) & (asked <= archive.region.high))
    assert archive.z[np.argmin(archive.lower)] == pytest.approx(1.0)


def test_bounds_that_hold_are_reached():
    def f(z):
        return (z[:, 0] - z[:, 1]) ** 2, -z[:, 0] - z[:, 1]

    search, _ = run(known_at([0.4, 0.3], f), f)
    np.testing.assert_allclose(search.x, [1, 1], atol=1e-6)


def test_a_box_of_hardly_any_width_is_no_hindrance():
    low = np.array([1.0, 0.0])
    bounds = Bounds(low, low + np.array([4 * np.finfo(float).eps, 1.0]))

    def f(x):
        return np.zeros(len(x)), (x[:, 1] - 0.3) ** 2

    archive = known_at(low, f, bounds)
    search, _ = run(archive, lambda z: f(archive.unscaled(z)))
    assert archive.unscaled(search.x[None])[0, 1] == pytest.approx(0.3, abs=1e-3)


def test_without_bounds_a_search_leaves_the_first_points_behind():
    def f(x):
        return (np.sum(x * x, axis=-1) - 25.0) ** 2, -x[:, 0]

    archive = known_at([[0.0, 1.0], [1.0, 2.0]], f, Bounds([-np.inf] * 2, [np.inf] * 2))
    search, _ = run(archive, lambda z: f(archive.unscaled(z)))
    np.testing.assert_allclose(archive.unscaled(search.x[None])[0], [5, 0], atol=0.1)


# --- models


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(1e-4, 0.2))
def test_models_of_quadratic_functions_are_exact_where_there_are_enough_points(seed, d, radius):
    rng = np.random.default_rng(seed)
    slopes, curves = rng.normal(size=(2, d)), rng.normal(size=(2, d, d))
    curves = curves + np.swapaxes(curves, 1, 2)

    def f(z):
        s = z - 0.5
        return tuple(s @ slopes[k] + 0.5 * np.einsum("ij,jk,ik->i", s, curves[k], s) for k in (0, 1))

    n = (d + 1) * (d + 2)  # twice as many as a quadratic function has coefficients
    points = np.concatenate([middle(d)[None], 0.5 + radius * rng.uniform(-1, 1, size=(n, d))])
    search = TrustRegionSearch(known_at(points, f), middle(d), radius=radius)
    near = search._near()
    for (slope, curve), g, H in zip(search._models(near), slopes, curves, strict=True):
        if near.size >= (d + 1) * (d + 2) // 2:
            np.testing.assert_allclose(slope, radius * g, atol=1e-4 * radius)
            np.testing.assert_allclose(curve, radius**2 * H, atol=1e-3 * radius)


@pytest.mark.parametrize("factor", [2.0**-30, 2.0**40])
@pytest.mark.parametrize("which", [0, 1])
def test_units_of_the_objectives_do_not_matter(factor, which):
    def scaled(z):
        return tuple(v * (factor if i == which else 1.0) for i, v in enumerate(circle(z)))

    points = [run(known_at([0.6, 0.7], f), f)[1] for f in (circle, scaled)]
    np.testing.assert_allclose(points[1][:15], points[0][:15], atol=1e-6)


def test_units_of_coordinates_do_not_matter():
    widths, asked = np.array([2.0**20, 2.0**-20]), []
    for unit in (np.ones(2), widths):
        archive = known_at(np.array([0.6, 0.7]) * unit, lambda x, u=unit: circle(x / u), Bounds(0 * unit, unit))
        asked.append(run(archive, lambda z, a=archive, u=unit: circle(a.unscaled(z) / u))[1])
    np.testing.assert_array_equal(asked[0], asked[1])


def test_a_search_is_determined_by_its_seed():
    asked = [run(known_at(middle(3), circle), circle, seed=seed)[1] for seed in (0, 0)]
    np.testing.assert_array_equal(asked[0], asked[1])


def test_the_nearest_known_point_is_where_a_search_begins():
    search = TrustRegionSearch(known_at([[0.1, 0.1], [0.6, 0.7]], circle), np.array([0.5, 0.5]))
    np.testing.assert_array_equal(search.x, [0.6, 0.7])
    assert search.values == tuple(v[1] for v in circle(np.array([[0.1, 0.1], [0.6, 0.7]])))


def test_points_that_are_known_around_the_centre_are_not_asked_for_again():
    points = np.array([0.6, 0.7]) + 0.1 * np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    assert len(TrustRegionSearch(known_at([0.6, 0.7], circle), np.array([0.6, 0.7])).ask()) > 1
    assert len(TrustRegionSearch(known_at(points, circle), np.array([0.6, 0.7])).ask()) == 1  # a step


def test_the_answer_is_as_good_as_that_of_a_method_that_is_told_the_constraint():
    def upper(z):
        return np.sum(np.exp(z[..., :2]), axis=-1) + np.sum(z**2, axis=-1)

    def f(z):
        return circle(z)[0], upper(z)

    constraint = {"type": "eq", "fun": lambda z: np.sum((z - 0.5) ** 2) - 0.09}
    told = scipy_minimize(upper, np.full(3, 0.4), method="SLSQP", constraints=constraint, options={"ftol": 1e-12})
    search, _ = run(known_at(np.full(3, 0.4), f), f)
    np.testing.assert_allclose(search.x, told.x, atol=1e-2)
