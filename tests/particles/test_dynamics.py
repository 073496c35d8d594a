import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sklearn_scb2o.particles import BOUNDARIES, NOISES, apply_boundary, diffusion, euler_maruyama_step

every_noise = pytest.mark.parametrize("noise", NOISES)
every_boundary = pytest.mark.parametrize("boundary", BOUNDARIES)


def step_by_loops(x, m, normals, lam, sigma, dt, noise, cap=math.inf, floor=0.0):
    moved = np.empty_like(x)
    for i in range(x.shape[0]):
        z = [x[i, j] - m[j] for j in range(x.shape[1])]
        norm = math.sqrt(sum(v * v for v in z))
        for j in range(x.shape[1]):
            size = {
                "isotropic": max(min(norm, cap), floor),
                "scaled": max(min(norm, cap), floor) / math.sqrt(x.shape[1]),
                "anisotropic": max(min(abs(z[j]), cap), floor),
            }[noise]
            moved[i, j] = x[i, j] - lam * dt * z[j] + sigma * math.sqrt(dt) * size * normals[i, j]
    return moved


def swarm(N, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)) * 3.0, rng.normal(size=d), rng.standard_normal((N, d))


# --- diffusion and step


@every_noise
@pytest.mark.parametrize(("cap", "floor"), [(None, None), (0.7, None), (3.0, 2.0), (None, 1.0)])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_step_agrees_with_plain_loops(xp, noise, cap, floor, d):
    x, m, normals = swarm(9, d)
    expected = step_by_loops(x, m, normals, 0.8, 1.3, 0.07, noise, math.inf if cap is None else cap, floor or 0.0)
    moved = euler_maruyama_step(
        xp.array(x), xp.array(m), xp.array(normals), lam=0.8, sigma=1.3, dt=0.07, noise=noise, cap=cap, floor=floor
    )
    np.testing.assert_allclose(xp.numpy(moved), expected, rtol=1e-12, atol=1e-13)


@settings(max_examples=40)
@given(
    N=st.integers(1, 8),
    d=st.integers(1, 6),
    seed=st.integers(0, 1000),
    lam=st.floats(0.1, 5.0),
    sigma=st.floats(0.0, 5.0),
    dt=st.floats(1e-3, 1.0),
    cap=st.one_of(st.none(), st.floats(1e-3, 10.0)),
    noise=st.sampled_from(NOISES),
)
def test_step_agrees_with_plain_loops_for_any_parameters(N, d, seed, lam, sigma, dt, cap, noise):
    x, m, normals = swarm(N, d, seed)
    expected = step_by_loops(x, m, normals, lam, sigma, dt, noise, math.inf if cap is None else cap)
    moved = euler_maruyama_step(x, m, normals, lam=lam, sigma=sigma, dt=dt, noise=noise, cap=cap)
    np.testing.assert_allclose(moved, expected, rtol=1e-12, atol=1e-12)


@every_noise
def test_step_of_a_batch_is_that_of_each_run(xp, noise):
    rng = np.random.default_rng(0)
    x, m, normals = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 1, 2)), rng.normal(size=(3, 5, 2))
    moved = xp.numpy(euler_maruyama_step(xp.array(x), xp.array(m), xp.array(normals), noise=noise))
    for run in range(3):
        alone = euler_maruyama_step(x[run], m[run], normals[run], noise=noise)
        np.testing.assert_allclose(moved[run], alone, rtol=1e-14, atol=1e-15)


def test_each_run_has_its_own_drift_noise_and_step_size(xp):
    rng = np.random.default_rng(0)
    x, m, normals = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 1, 2)), rng.normal(size=(3, 5, 2))
    lam, sigma, dt = [1.0, 2.0, 3.0], [0.5, 0.0, 1.5], [0.1, 0.2, 0.3]
    columns = [xp.array(np.reshape(v, (3, 1, 1))) for v in (lam, sigma, dt)]
    moved = euler_maruyama_step(
        xp.array(x), xp.array(m), xp.array(normals), lam=columns[0], sigma=columns[1], dt=columns[2]
    )
    for run in range(3):
        alone = euler_maruyama_step(x[run], m[run], normals[run], lam=lam[run], sigma=sigma[run], dt=dt[run])
        np.testing.assert_allclose(xp.numpy(moved)[run], alone, rtol=1e-13, atol=1e-14)


@every_noise
def test_step_without_noise_is_the_convex_combination(xp, noise):
    x, m, normals = swarm(20, 3)
    for sigma, b in ((0.0, normals), (1.5, np.zeros_like(normals))):
        moved = euler_maruyama_step(xp.array(x), xp.array(m), xp.array(b), lam=2.0, sigma=sigma, dt=0.1, noise=noise)
        np.testing.assert_allclose(xp.numpy(moved), 0.8 * x + 0.2 * m, rtol=1e-13, atol=1e-14)


@every_noise
def test_a_particle_at_the_consensus_stays(xp, noise):
    x, _, normals = swarm(1, 4)
    moved = euler_maruyama_step(xp.array(x), xp.array(x[0]), xp.array(normals), noise=noise)
    np.testing.assert_array_equal(xp.numpy(moved), x)


def expected_covariance(z, sigma, dt, noise, cap=math.inf):
    size = {
        "isotropic": np.full(z.size, min(np.linalg.norm(z), cap)),
        "scaled": np.full(z.size, min(np.linalg.norm(z), cap) / math.sqrt(z.size)),
        "anisotropic": np.minimum(np.abs(z), cap),
    }[noise]
    return np.diag(sigma**2 * dt * size**2)


@every_noise
@pytest.mark.parametrize("cap", [None, 1.0])
def test_step_has_the_mean_and_covariance_of_the_dynamics(noise, cap):
    count, lam, sigma, dt = 400_000, 1.0, 1.4, 0.1
    x, m = np.asarray([2.0, -1.0, 0.5]), np.asarray([0.5, 1.0, 0.0])
    normals = np.random.default_rng(11).standard_normal((count, 3))
    moved = euler_maruyama_step(
        np.broadcast_to(x, (count, 3)), m, normals, lam=lam, sigma=sigma, dt=dt, noise=noise, cap=cap
    )
    covariance = expected_covariance(x - m, sigma, dt, noise, math.inf if cap is None else cap)
    deviation = np.sqrt(np.diag(covariance))
    # five standard errors
    assert (np.abs(moved.mean(axis=0) - (x - lam * dt * (x - m))) <= 5 * deviation / math.sqrt(count)).all()
    error = np.abs(np.cov(moved.T) - covariance) / np.outer(deviation, deviation)
    assert (error <= 5 * math.sqrt(2.0 / count)).all()


@every_noise
def test_cap_below_every_distance_makes_the_noise_uniform(xp, noise):
    z = xp.array([[3.0, 4.0], [-30.0, 40.0]])
    size = xp.numpy(diffusion(z, noise, cap=2.0))
    np.testing.assert_allclose(size, 2.0 / math.sqrt(2) if noise == "scaled" else 2.0, rtol=1e-15)


@every_noise
def test_cap_above_every_distance_changes_nothing(xp, noise):
    z = xp.array([[3.0, 4.0], [-30.0, 40.0]])
    np.testing.assert_array_equal(xp.numpy(diffusion(z, noise, cap=100.0)), xp.numpy(diffusion(z, noise)))


@pytest.mark.parametrize(
    ("noise", "expected"),
    [("isotropic", [[5.0], [0.0]]), ("scaled", [[5 / math.sqrt(2)], [0.0]]), ("anisotropic", [[3.0, 4.0], [0.0, 0.0]])],
)
def test_diffusion_values_and_shapes(xp, noise, expected):
    size = xp.numpy(diffusion(xp.array([[3.0, -4.0], [0.0, 0.0]]), noise))
    np.testing.assert_allclose(size, expected, rtol=1e-15)
    assert size.shape == np.shape(expected)


@every_noise
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_step_keeps_the_dtype(xp, noise, dtype):
    x, m, normals = (xp.array(v, dtype=dtype) for v in swarm(4, 3))
    assert euler_maruyama_step(x, m, normals, noise=noise, cap=1.0).dtype == x.dtype


@every_noise
def test_noise_kinds_agree_in_one_dimension(xp, noise):
    x, m, normals = (xp.array(v) for v in swarm(10, 1))
    expected = euler_maruyama_step(x, m, normals, noise="isotropic")
    moved = euler_maruyama_step(x, m, normals, noise=noise)
    np.testing.assert_allclose(xp.numpy(moved), xp.numpy(expected), rtol=1e-14)


@every_noise
@given(k=st.integers(-300, 300), seed=st.integers(0, 100))
def test_step_is_equivariant_under_scaling_by_a_power_of_two(noise, k, seed):
    x, m, normals = swarm(6, 3, seed)
    scale = 2.0**k
    base = euler_maruyama_step(x, m, normals, noise=noise)
    np.testing.assert_array_equal(euler_maruyama_step(x * scale, m * scale, normals, noise=noise), base * scale)


@pytest.mark.parametrize("noise", ["isotropic", "scaled"])
def test_step_is_equivariant_under_rotation(noise):
    x, m, normals = swarm(10, 4)
    q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    base = euler_maruyama_step(x, m, normals, noise=noise)
    turned = euler_maruyama_step(x @ q, m @ q, normals @ q, noise=noise)
    np.testing.assert_allclose(turned, base @ q, rtol=0, atol=1e-12)


@every_noise
def test_step_does_not_modify_its_inputs(xp, noise):
    originals = swarm(5, 2)
    arrays = [xp.array(v) for v in originals]
    euler_maruyama_step(*arrays, noise=noise, cap=1.0)
    for array, original in zip(arrays, originals, strict=True):
        np.testing.assert_array_equal(xp.numpy(array), original)


def test_step_takes_strided_and_fortran_ordered_arrays():
    x, m, normals = swarm(12, 4)
    expected = euler_maruyama_step(np.ascontiguousarray(x[::2, ::-1]), m, np.ascontiguousarray(normals[::2]))
    actual = euler_maruyama_step(x[::2, ::-1], m, np.asfortranarray(normals[::2]))
    np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("function", [diffusion, lambda z, noise: euler_maruyama_step(z, z[0], z, noise=noise)])
def test_unknown_noise_is_refused_with_the_accepted_names(function):
    with pytest.raises(ValueError, match=r"noise='brown'.*isotropic.*scaled.*anisotropic"):
        function(np.ones((2, 2)), "brown")


# --- boundary

edges = st.one_of(st.just(-math.inf), st.just(math.inf), st.floats(-1e300, 1e300), st.floats(-10, 10))
positions = st.one_of(st.floats(-1e300, 1e300), st.floats(-20, 20))


@st.composite
def boxes_and_points(draw):
    d = draw(st.integers(1, 4))
    pairs = [sorted((draw(edges), draw(edges))) for _ in range(d)]
    low = np.asarray([-math.inf if pair[0] == math.inf else pair[0] for pair in pairs])
    high = np.asarray([math.inf if pair[1] == -math.inf else pair[1] for pair in pairs])
    fixed = draw(st.booleans()) and math.isfinite(low[0])
    if fixed:
        high[0] = low[0]
    N = draw(st.integers(1, 4))
    x = np.asarray([[draw(positions) for _ in range(d)] for _ in range(N)])
    return x, low, high


UNIT = (np.asarray([[-3.0, 0.5], [1.0, 7.0]]), np.zeros(2), np.ones(2))


@every_boundary
@settings(max_examples=200)
@given(case=boxes_and_points())
@example(case=UNIT)
@example(case=(np.asarray([[np.nextafter(0.1, 1)], [np.nextafter(0.1, 0)], [-1e-300]]), np.zeros(1), np.full(1, 0.1)))
@example(case=(np.asarray([[1e300], [-1e300]]), np.full(1, -1e300), np.full(1, 1e300)))
@example(case=(np.asarray([[0.7], [0.1 + 0.2]]), np.full(1, 0.3), np.full(1, 0.3)))
def test_result_is_inside_to_the_last_bit(boundary, case):
    x, low, high = case
    inside = apply_boundary(x, low, high, boundary)
    assert ((inside >= low) & (inside <= high)).all()


@every_boundary
@settings(max_examples=200)
@given(case=boxes_and_points())
def test_points_inside_are_left_alone_to_the_bit(boundary, case):
    x, low, high = case
    x = np.clip(x, low, high)
    np.testing.assert_array_equal(apply_boundary(x, low, high, boundary), x)


@every_boundary
@given(case=boxes_and_points())
def test_only_the_coordinates_outside_change(boundary, case):
    x, low, high = case
    within = (x >= low) & (x <= high)
    np.testing.assert_array_equal(apply_boundary(x, low, high, boundary)[within], x[within])


@given(case=boxes_and_points())
def test_clip_moves_to_the_nearest_point(case):
    np.testing.assert_array_equal(apply_boundary(*case, "clip"), np.clip(*case))


@given(u=st.floats(-1.0, 2.0), low=st.floats(-100, 100), width=st.floats(1e-3, 100))
def test_reflect_mirrors_at_the_bound_that_was_crossed(u, low, width):
    high = low + width
    x = low + u * width
    expected = 2 * low - x if x < low else 2 * high - x if x > high else x
    moved = apply_boundary(np.asarray([x]), np.asarray([low]), np.asarray([high]), "reflect")[0]
    assert abs(moved - expected) <= 1e-13 * (abs(low) + width)


def test_reflect_ends_at_a_bound_after_more_than_the_whole_box(xp):
    moved = apply_boundary(xp.array([[-5.0], [9.0]]), xp.array([0.0]), xp.array([1.0]), "reflect")
    np.testing.assert_array_equal(xp.numpy(moved), [[1.0], [0.0]])


def test_reflect_mirrors_at_the_one_bound_there_is(xp):
    low, high = xp.array([0.0, -math.inf]), xp.array([math.inf, 0.0])
    moved = apply_boundary(xp.array([[-50.0, 50.0], [50.0, -50.0]]), low, high, "reflect")
    np.testing.assert_array_equal(xp.numpy(moved), [[50.0, -50.0], [50.0, -50.0]])


@given(turns=st.integers(-1000, 1000), u=st.floats(0.01, 0.99), low=st.floats(-100, 100), width=st.floats(0.1, 100))
def test_periodic_wraps_around(turns, u, low, width):
    x = low + (u + turns) * width
    moved = apply_boundary(np.asarray([x]), np.asarray([low]), np.asarray([low + width]), "periodic")[0]
    rounding = 1e-15 * (abs(turns) + 2) * (abs(low) + width)  # an error in the period counts in every turn
    assert abs(moved - (low + u * width)) <= rounding


def test_periodic_keeps_both_ends(xp):
    moved = apply_boundary(xp.array([[0.0], [1.0]]), xp.array([0.0]), xp.array([1.0]), "periodic")
    np.testing.assert_array_equal(xp.numpy(moved), [[0.0], [1.0]])


def test_periodic_clips_coordinates_without_two_finite_bounds(xp):
    low, high = xp.array([0.0, -math.inf, -math.inf, 2.0]), xp.array([math.inf, 0.0, math.inf, 2.0])
    moved = apply_boundary(xp.array([[-5.0, 5.0, 1e300, 7.0]]), low, high, "periodic")
    np.testing.assert_array_equal(xp.numpy(moved), [[0.0, 0.0, 1e300, 2.0]])


@every_boundary
def test_without_bounds_nothing_changes(xp, boundary):
    x = [[-1.7e308, 3.0], [1e300, -0.25]]
    moved = apply_boundary(xp.array(x), xp.array([-math.inf] * 2), xp.array([math.inf] * 2), boundary)
    np.testing.assert_array_equal(xp.numpy(moved), x)


@every_boundary
def test_equal_bounds_fix_a_coordinate(xp, boundary):
    bound = xp.array([0.1 + 0.2])
    moved = apply_boundary(xp.array([[5.0], [-7.0], [0.3], [1e300]]), bound, bound, boundary)
    np.testing.assert_array_equal(xp.numpy(moved), np.full((4, 1), 0.1 + 0.2))


@every_boundary
def test_float32_stays_inside(xp, boundary):
    rng = np.random.default_rng(0)
    low, high = np.float32([0.1, -0.7, 0.3]), np.float32([0.3, 0.9, 0.3])
    x = xp.array(rng.normal(size=(500, 3)) * 3, dtype="float32")
    moved = apply_boundary(x, xp.array(low, dtype="float32"), xp.array(high, dtype="float32"), boundary)
    assert moved.dtype == x.dtype
    result = xp.numpy(moved)
    assert ((result >= low) & (result <= high)).all()


@every_boundary
def test_boundary_takes_any_leading_shape(xp, boundary):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 2)) * 3
    low, high = np.asarray([-1.0, -2.0]), np.asarray([1.0, 0.5])
    moved = xp.numpy(apply_boundary(xp.array(x), xp.array(low), xp.array(high), boundary))
    flat = apply_boundary(x.reshape(-1, 2), low, high, boundary)
    np.testing.assert_array_equal(moved, flat.reshape(x.shape))


@every_boundary
def test_boundary_does_not_modify_its_inputs(xp, boundary):
    arrays = [xp.array(v) for v in UNIT]
    apply_boundary(*arrays, boundary)
    for array, original in zip(arrays, UNIT, strict=True):
        np.testing.assert_array_equal(xp.numpy(array), original)


def test_unknown_boundary_is_refused_with_the_accepted_names():
    with pytest.raises(ValueError, match=r"boundary='wall'.*reflect.*clip.*periodic"):
        apply_boundary(*UNIT, "wall")
