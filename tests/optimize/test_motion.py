"""Moving a population in place, block by block, against the array functions; the memory of the points asked."""

from threading import get_ident

import numpy as np
import pytest
from optimize_cases import values

from sklearn_scb2o.optimize import motion, threads
from sklearn_scb2o.optimize.box import make_box
from sklearn_scb2o.optimize.motion import Step, move
from sklearn_scb2o.optimize.normals import fill_with_normals
from sklearn_scb2o.optimize.streams import make_streams
from sklearn_scb2o.particles import BOUNDARIES, NOISES, apply_boundary, euler_maruyama_step

# one block of few numbers, and of many; blocks of whole runs; blocks of one run; few particles in many dimensions
SHAPES = [(1, 40, 2), (3, 900, 3), (50, 500, 3), (1, 70_000, 1), (2, 700, 110), (1, 30, 3000), (1, 400, 1030)]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_cube", [True, False], ids=["cube", "box"])
def test_moved_population_is_that_of_the_array_functions(shape, boundary, is_cube):
    n_runs, n, d = shape
    low, high = (np.full(d, -1.0), np.full(d, 1.5)) if is_cube else (-1.0 - np.arange(d) / d, 1.0 + np.arange(d) / d)
    rng = np.random.default_rng(0)
    y, m = rng.uniform(-1.0, 1.0, shape), rng.uniform(-1.0, 1.0, (n_runs, d))
    noise = NOISES[BOUNDARIES.index(boundary)]
    normals, drawn = (make_streams(7, n_runs, n, np.ones(d)) for _ in range(2))
    step = Step(0.9, 0.8, 0.7, noise, None, None, boundary)
    expected = euler_maruyama_step(y, m[:, None], normals.normals(shape), lam=0.9, sigma=0.8, dt=0.7, noise=noise)
    assert ((expected < low) | (expected > high)).any()
    expected = apply_boundary(expected, low, high, boundary)
    user = np.empty(shape)
    moved, sums = move(y, m, drawn, low, high, step, np, scale=np.full((1, 1, 1), 2.0), user=user)
    np.testing.assert_array_equal(moved, expected)
    np.testing.assert_array_equal(user, 2.0 * expected)
    z = expected - m[:, None]
    np.testing.assert_allclose(sums.first, z.sum(axis=1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sums.second, (z * z).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "is_threaded"), [((1, 450, 1000), True), ((2, 90_000, 5), True), ((5, 450, 300), False)]
)
def test_moved_population_does_not_depend_on_the_number_of_threads(shape, is_threaded, monkeypatch):
    n_runs, n, d = shape
    low, high, step = np.full(d, -1.0), np.full(d, 1.0), Step(0.9, 0.8, 0.7, "scaled", None, None, "reflect")
    found, used = [], []
    monkeypatch.setattr(motion, "fill_with_normals", lambda *a: (used.append(get_ident()), fill_with_normals(*a)))
    for n_threads in (1, 2, 3):
        monkeypatch.setattr(threads, "n_threads", lambda n=n_threads: n)
        rng = np.random.default_rng(0)
        y, m = rng.uniform(-1.0, 1.0, shape), rng.uniform(-1.0, 1.0, (n_runs, d))
        used.clear()
        found.append(move(y, m, make_streams(7, n_runs, n, np.ones(d)), low, high, step, np))
        assert (get_ident() not in used) == (is_threaded and n_threads > 1)
    for y, sums in found[1:]:
        np.testing.assert_array_equal(y, found[0][0])
        np.testing.assert_array_equal(sums, found[0][1])


def test_normals_taken_one_by_one_are_those_drawn_alone():
    ahead, alone = (make_streams(3, 4, 10, np.ones(2)) for _ in range(2))
    for _ in range(11):
        np.testing.assert_array_equal(ahead.next_normals((4, 10, 2)), alone.normals((4, 10, 2)))
    np.testing.assert_array_equal(ahead.uniforms((4, 5)), alone.uniforms((4, 5)))
    np.testing.assert_array_equal(ahead.next_normals((4, 10, 2)), alone.normals((4, 10, 2)))


def test_streams_saved_while_normals_are_ahead_have_only_drawn_those_taken():
    ahead, alone = (make_streams(3, 2, 10, np.ones(2)) for _ in range(2))
    for _ in range(3):
        ahead.next_normals((2, 10, 2))
        alone.normals((2, 10, 2))
    for one, other in zip(ahead.to_state(), alone.to_state(), strict=True):
        np.testing.assert_equal(one, other)


@pytest.mark.parametrize("n_runs", [1, 3])
@pytest.mark.parametrize("kept", ["batch", "view"])
def test_points_do_not_change_while_somebody_has_them(make, n_runs, kept):
    opt = make(n_runs=n_runs, n_particles=100)
    held = []
    for _ in range(4):
        X = opt.ask()
        opt.tell(*values(X))
        part = X if kept == "batch" else X[..., ::3, 1:].T
        held.append((part, part.copy()))
        del X, part
    for part, copy in held:
        np.testing.assert_array_equal(part, copy)


def test_memory_of_points_that_nobody_has_is_used_again(make):
    opt = make(n_particles=100)
    X = opt.ask()
    where = X.ctypes.data
    opt.tell(*values(X))
    del X
    assert opt.ask().ctypes.data == where


def test_points_may_be_reshaped_and_made_read_only(make):
    opt, other = make(n_runs=2), make(n_runs=2)
    for _ in range(3):
        X = opt.ask()
        LG = values(X)
        X.shape = (-1,)
        X.flags.writeable = False
        del X
        opt.tell(*LG)
        Y = other.ask()
        other.tell(*values(Y))
    np.testing.assert_array_equal(opt.ask(), other.ask())


def test_points_are_sampled_into_a_given_array():
    box = make_box([(-1.0, 3.0)], None, 1.0, float)
    y = np.empty((1000, 1))
    assert box.sample(np.random.default_rng(0), 1000, out=y) is y
    np.testing.assert_array_equal(y, box.sample(np.random.default_rng(0), 1000))
    assert -1.0 <= y.min() < -0.9
    assert 2.9 < y.max() <= 3.0
