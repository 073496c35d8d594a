import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optimize_cases import BOX, advance, same, values
from scipy.optimize import Bounds

from sklearn_scb2o import SCB2OOptimizer

BOUNDARIES = ["reflect", "clip", "periodic"]
HUGE = 1.7976931348623157e308  # the largest float


def asked(bounds, n=30, f=values, **options):
    opt = SCB2OOptimizer(bounds, **{"n_particles": 12, "random_state": 0, **options})
    return opt, np.stack(advance(opt, n, f))


def assert_inside(X, low, high):
    assert np.all(np.asarray(low) <= X)
    assert np.all(np.asarray(high) >= X)


def steep(X):
    """Pulls to the upper corner of any box, without overflow."""
    s = -np.sum(np.arcsinh(X), axis=-1)
    return s, s


def tame(X):
    """Pulls to the origin, without overflow."""
    s = np.sum(np.abs(np.arcsinh(X)), axis=-1)
    return s, s


FORMS = {
    "list of pairs": [(-1, 2), (0.5, 4)],
    "list of lists": [[-1, 2], [0.5, 4]],
    "tuple": ((-1.0, 2.0), (0.5, 4.0)),
    "array": np.asarray([[-1.0, 2.0], [0.5, 4.0]]),
    "transposed view": np.asarray([[-1.0, 0.5], [2.0, 4.0]]).T,
    "zip": list(zip([-1, 0.5], [2, 4], strict=True)),
    "generator": ((low, high) for low, high in [(-1, 2), (0.5, 4)]),
    "scipy": Bounds([-1, 0.5], [2, 4]),
    "float32": np.asarray([[-1, 2], [0.5, 4]], dtype=np.float32),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_bounds_are_accepted_in_every_form(form):
    opt, X = asked(form, 5)
    assert_inside(X, [-1, 0.5], [2, 4])
    np.testing.assert_array_equal(opt.bounds.lb, [-1, 0.5])
    np.testing.assert_array_equal(opt.bounds.ub, [2, 4])
    assert same(X, asked([(-1, 2), (0.5, 4)], 5)[1])


def test_callers_bounds_stay_as_they_were():
    bounds = np.asarray([[-1.0, 2.0], [0.5, 4.0]])
    kept = bounds.copy()
    opt, _ = asked(bounds, 3)
    bounds[:] = 100.0
    assert_inside(opt.ask(), kept[:, 0], kept[:, 1])


def test_scipy_bounds_of_numbers_take_the_dimension_from_x0():
    opt, X = asked(Bounds(-1, 1), x0=[0.5, 0.5, 0.5])
    assert X.shape[-1] == 3
    assert_inside(X, -1, 1)
    np.testing.assert_array_equal(opt.bounds.lb, [-1, -1, -1])


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [
        ([(0, None), (0, 1)], [0, 0], [np.inf, 1]),
        ([(None, 5), (0, 1)], [-np.inf, 0], [5, 1]),
        ([(None, None), (-1, 1)], [-np.inf, -1], [np.inf, 1]),
        ([(-np.inf, np.inf), (-np.inf, 1)], [-np.inf, -np.inf], [np.inf, 1]),
        (Bounds([0, -np.inf], [np.inf, 1]), [0, -np.inf], [np.inf, 1]),
        ([(1e6, None), (None, -1e-6)], [1e6, -np.inf], [np.inf, -1e-6]),
    ],
)
def test_missing_bounds(bounds, low, high, boundary):
    _, X = asked(bounds, f=tame, boundary=boundary)
    assert np.abs(X).max() < 1e8
    assert np.isfinite(X).all()
    assert_inside(X, low, high)
    assert X[0].std(axis=0).min() > 0.1


def test_no_bounds_start_about_x0():
    _, X = asked(None, 30, x0=[10.0, -1000.0, 0.0], n_particles=200)
    assert np.isfinite(X).all()
    np.testing.assert_array_equal(X[0, 0], [10.0, -1000.0, 0.0])
    np.testing.assert_allclose(X[0].mean(axis=0), [10.0, -1000.0, 0.0], atol=250)
    assert X[0].std(axis=0)[1] > X[0].std(axis=0)[2]


def test_dimension_must_be_known():
    with pytest.raises(ValueError, match="x0"):
        SCB2OOptimizer()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("value", [0.1, 0.0, -3.7, 1e6, 5e-324, 1e-40])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_equal_bounds_fix_a_coordinate_exactly(value, dtype, boundary):
    _, X = asked([(value, value), (-1, 1)], dtype=dtype, boundary=boundary)
    assert np.all(X[..., 0] == np.dtype(dtype).type(value))
    assert X[0, :, 1].std() > 0


def test_all_coordinates_fixed():
    opt, X = asked([(1.5, 1.5), (0.1, 0.1)], 3)
    assert np.all(X == [1.5, 0.1])
    np.testing.assert_array_equal(opt.consensus, [1.5, 0.1])
    assert "spread" in opt.stop()


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    "bounds",
    [[(0, 1), (0, 1)], [(0.1, 0.3), (-0.1, 0.7)], [(0.1, 0.1 + 1e-9), (1e-12, 1e-3)], [(1 / 3, 1e7), (-1e7, 0.1)]],
)
def test_float32_points_are_inside_bounds_given_in_float64(bounds, boundary):
    _, X = asked(bounds, 60, f=steep, dtype="float32", boundary=boundary)
    assert X.dtype == np.float32
    low, high = np.transpose(bounds)
    wide = low.astype(np.float32) < high.astype(np.float32)  # a box between two floats has no point inside
    assert_inside(X.astype(float)[..., wide], low[wide], high[wide])


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("noise", ["scaled", "isotropic", "anisotropic"])
@pytest.mark.parametrize("f", [tame, steep])
@pytest.mark.parametrize(
    "bounds",
    [
        [(-HUGE, HUGE), (-HUGE, HUGE)],
        [(0.0, HUGE), (-1.0, 1.0)],
        [(-HUGE, -1e308), (-1e-308, 1e-308)],
        [(-np.inf, HUGE), (-HUGE, None)],
        [(1e300, 1.0000001e300), (-5e-324, 5e-324)],
    ],
)
def test_bounds_at_the_ends_of_the_float_range(bounds, f, noise, boundary):
    opt, X = asked(bounds, f=f, boundary=boundary, noise=noise)
    assert np.isfinite(X).all()
    assert_inside(X, opt.bounds.lb, opt.bounds.ub)


@pytest.mark.parametrize("options", [{}, {"n_runs": 3}, {"sigma": 1.0}, {"batch_size": 5}, {"noise": "anisotropic"}])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("f", [values, steep])
def test_points_stay_inside_over_many_iterations(options, boundary, f):
    bounds = [(0.1, 0.3), (-1 / 3, 1e-9), (1e5, 1e5 + 0.7)]
    _, X = asked(bounds, 200, f=f, boundary=boundary, **options)
    assert_inside(X, *np.transpose(bounds))


numbers = st.floats(-1e100, 1e100, allow_subnormal=True) | st.floats(-10, 10) | st.integers(-3, 3).map(float)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(numbers | st.just(-np.inf), numbers | st.just(np.inf)), min_size=1, max_size=4),
    st.sampled_from(BOUNDARIES),
    st.sampled_from(["float64", "float32"]),
    st.integers(0, 10),
)
def test_points_are_inside_any_box(pairs, boundary, dtype, seed):
    bounds = [(min(p), max(p)) for p in pairs]
    if dtype == "float32":
        bounds = [tuple(float(np.float32(np.clip(v, -1e30, 1e30) if np.isfinite(v) else v)) for v in p) for p in bounds]

    opt = SCB2OOptimizer(bounds, n_particles=5, dtype=dtype, boundary=boundary, random_state=seed)
    low, high = np.transpose(bounds)
    for X in advance(opt, 12, steep if seed % 2 else tame):
        assert np.isfinite(X).all()
        assert_inside(X.astype(float), low, high)
    assert_inside(opt.consensus.astype(float), low, high)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (np.asarray([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]), ["(2, 3)", "(d, 2)", "transposed"]),
        ([(-1, 1), (2, 1)], ["coordinate 1", "reversed", "2", "1"]),
        (Bounds([0, 2], [1, 1]), ["coordinate 1", "reversed"]),
        ([(-1, 1), (np.nan, 1)], ["NaN"]),
        ([(-1, np.nan)], ["NaN"]),
        ([-1, 1], ["(d, 2)"]),
        ([(-1, 1, 2)], ["(d, 2)"]),
        ([], ["(d, 2)"]),
        (3.0, ["(d, 2)"]),
        ([("a", "b")], ["(low, high)"]),
        ([(np.inf, np.inf)], ["inf"]),
        ([(-np.inf, -np.inf)], ["inf"]),
    ],
    ids=str,
)
def test_wrong_bounds_are_named(bounds, words):
    with pytest.raises(ValueError, match="bounds") as caught:
        SCB2OOptimizer(bounds)
    for word in words:
        assert word in str(caught.value)


def test_x0_of_integers_gives_floats(make):
    opt = make(None, x0=np.asarray([1, 2]))
    X = opt.ask()
    assert X.dtype == np.float64
    np.testing.assert_array_equal(X[0], [1.0, 2.0])
    assert not np.all(np.rint(X) == X)


@pytest.mark.parametrize("x0", [[-3.0, 3.0], [3, -3], [[-3.0, -3.0], [3.0, 3.0]]])
def test_x0_on_the_bound_is_accepted_exactly(make, x0):
    X = make(x0=x0).ask()
    np.testing.assert_array_equal(X[: np.atleast_2d(x0).shape[0]], np.atleast_2d(x0))


def test_x0_outside_names_the_coordinate(make):
    with pytest.raises(ValueError, match=r"x0.*coordinate 1.*4\.0.*\[-3\.0, 3\.0\]"):
        make(x0=[0.0, 4.0])
    with pytest.raises(ValueError, match=r"x0.*coordinate 0"):
        make(x0=[[0.0, 0.0], [np.nextafter(3.0, 4.0), 0.0]])


@pytest.mark.parametrize("x0", [[np.nan, 0.0], [0.0, np.inf]])
def test_x0_that_is_not_finite_is_refused(make, x0):
    for bounds in (BOX, None):
        with pytest.raises(ValueError, match=r"x0.*finite"):
            make(bounds, x0=x0)


@pytest.mark.parametrize(
    "x0", [[0.0], [0.0, 0.0, 0.0], np.zeros((2, 3)), np.zeros((21, 2)), np.zeros((2, 5, 2)), [], 1.0, ["a", "b"]]
)
def test_x0_of_a_wrong_shape_is_refused(make, x0):
    with pytest.raises(ValueError, match="x0"):
        make(x0=x0)


@pytest.mark.parametrize("k", [1, 7, 20])
def test_x0_points_are_asked_first_exactly_as_given(make, rng, k):
    x0 = rng.uniform(-3, 3, (k, 2))
    X = make(x0=x0).ask()
    np.testing.assert_array_equal(X[:k], x0)
    assert len(np.unique(X, axis=0)) == 20
    assert_inside(X, -3, 3)


@pytest.mark.parametrize("bounds", [None, [(0.1, 0.3), (-1e-7, 3e9)], [(-1e300, 1e3)] * 2])
@pytest.mark.parametrize("x_scale", ["auto", 3.0, 1e-5])
def test_x0_points_survive_any_scale(make, rng, bounds, x_scale):
    x0 = rng.uniform(0.1, 0.3, (20, 2))
    np.testing.assert_array_equal(make(bounds, x0=x0, x_scale=x_scale).ask(), x0)


def test_x0_of_several_runs(make, rng):
    x0 = rng.uniform(-3, 3, (3, 5, 2))
    np.testing.assert_array_equal(make(x0=x0, n_runs=3).ask()[:, :5], x0)
    np.testing.assert_array_equal(make(x0=x0[0], n_runs=3).ask()[:, :5], np.broadcast_to(x0[0], (3, 5, 2)))


def test_callers_x0_stays_as_it_was(make, rng):
    x0 = rng.uniform(-3, 3, (20, 2))
    kept = x0.copy()
    opt = make(x0=x0)
    advance(opt, 3)
    assert same([x0], [kept])
    opt = make(x0=x0)
    x0[:] = 0.0
    np.testing.assert_array_equal(opt.ask(), kept)


def test_result_is_a_warm_start(make):
    opt = make()
    advance(opt, 5)
    again = make(x0=opt.result, random_state=3)
    np.testing.assert_array_equal(again.ask(), opt.result.population.x)


def test_injected_points_are_in_the_next_batch(make, rng):
    opt = make()
    advance(opt, 3)
    points = rng.uniform(-3, 3, (4, 2))
    opt.inject(points)
    X = opt.ask()
    assert np.isin(points, X).all()
    opt.tell(*values(X))
    assert not np.isin(points, opt.ask()).any()


def test_injected_point_does_not_enter_a_pending_batch(make):
    opt = make()
    X = opt.ask()
    opt.inject([1.0, 2.0])
    assert same([opt.ask()], [X])
    opt.tell(*values(X))
    assert [1.0, 2.0] in opt.ask().tolist()


def test_injected_points_replace_particles_of_least_weight(make):
    opt, other = make(), make()
    advance(other, 1)
    L, G = values(opt.ask())
    opt.tell(L, G)
    opt.inject([1.0, 2.0])
    X, Y = opt.ask(), other.ask()
    (replaced,) = np.flatnonzero(np.any(X != Y, axis=1))
    assert L[replaced] > np.sort(L)[1]  # beta is 0.1: the two smallest have the weight


def test_injected_points_of_several_runs(make, rng):
    opt = make(n_runs=3)
    advance(opt, 1)
    points = rng.uniform(-3, 3, (3, 2, 2))
    opt.inject(points)
    X = opt.ask()
    for run, wanted in zip(X, points, strict=True):
        assert np.isin(wanted, run).all()
    advance(opt, 1)
    opt.inject([0.25, 0.75])
    assert all([0.25, 0.75] in run for run in opt.ask().tolist())


def test_points_injected_one_after_the_other_are_all_asked(make):
    opt = make()
    advance(opt, 1)
    opt.inject([1.0, 2.0])
    opt.inject([[2.0, 1.0], [0.5, 0.5]])
    X = opt.ask().tolist()
    assert all(point in X for point in ([1.0, 2.0], [2.0, 1.0], [0.5, 0.5]))


def test_injection_before_the_first_batch_keeps_x0(make):
    opt = make(x0=[1.0, 1.0])
    opt.inject([2.0, 2.0])
    X = opt.ask().tolist()
    assert [1.0, 1.0] in X
    assert [2.0, 2.0] in X


@pytest.mark.parametrize(
    "points", [[4.0, 0.0], [0.0], [np.nan, 0.0], np.zeros((21, 2)), np.zeros((2, 1, 2)), ["a", "b"]]
)
def test_wrong_injection_changes_nothing(make, points):
    opt, other = make(), make()
    advance(opt, 1)
    advance(other, 1)
    with pytest.raises(ValueError, match="points"):
        opt.inject(points)
    assert same([opt.ask()], [other.ask()])
