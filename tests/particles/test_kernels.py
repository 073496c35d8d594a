"""The kernels for CuPy, compiled for the CPU, against the array functions; and on a GPU where there is one."""

import ctypes
import math
import shutil
import subprocess

import numpy as np
import pytest
from scipy import stats

from sklearn_scb2o.particles import BOUNDARIES, NOISES, apply_boundary, euler_maruyama_step, fused

HORIZON = 2.0**50  # bounds from here on are none
DTYPES = ("float32", "float64")
RTOL = {"float32": 2e-6, "float64": 1e-14}
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """The kernels as functions of the CPU, by type."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("kernels")
    libraries = {}
    for dtype in DTYPES:
        path = folder / f"{dtype}.cpp"
        path.write_text(fused.source(dtype), encoding="utf-8")
        command = [COMPILER, "-O2", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC", "-o"]
        subprocess.run([*command, path.with_suffix(".so"), path], check=True)
        libraries[dtype] = ctypes.CDLL(str(path.with_suffix(".so")))
    return libraries


def call(kernel, *arguments):
    """Call a kernel with arrays and NumPy scalars, each passed as what it is; None is a null pointer."""
    as_ctypes = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int32": ctypes.c_int}
    as_ctypes.update({"int64": ctypes.c_longlong, "uint64": ctypes.c_ulonglong})
    kernel(
        *(
            None if a is None else ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray)
            else as_ctypes[a.dtype.name](a.item())
            for a in arguments
        )
    )  # fmt: skip


def random_numbers(library, dtype, rows, d, seed=7, draw=0, normal=True):
    out = np.empty((rows, d), dtype)
    sizes = np.int64(rows), np.int32(d)
    call(library[dtype].fill_random, out, *sizes, np.uint64(seed), np.uint64(draw), np.int32(normal))
    return out


def move(library, x, m, low, high, noise, boundary, cap=None, floor=None, normals=None, seed=7, draw=3):
    """`fused.move_particles` on the CPU, with lam = 0.8, sigma = 1.3, dt = 0.3 and that horizon."""
    real, (n_runs, n, d) = x.dtype.type, x.shape
    out = np.empty_like(x)
    strength = 1.3 * math.sqrt(0.3) / (math.sqrt(d) if noise == "scaled" else 1.0)
    call(
        library[x.dtype.name].move_particles, x, m, low, high, normals, out, np.int64(n_runs * n), np.int64(n),
        np.int32(d), real(0.8 * 0.3), real(strength), real(math.inf if cap is None else cap), real(floor or 0.0),
        real(HORIZON), np.int32(noise == "anisotropic"), np.int32(BOUNDARIES.index(boundary)), np.uint64(seed),
        np.uint64(draw),
    )  # fmt: skip
    return out


def swarm(dtype, n_runs=2, n=50, d=5):
    """Positions, consensus, normals and a box with a fixed coordinate, one without bounds, and a half-open one."""
    rng = np.random.default_rng(0)
    low, high = -np.ones(d), np.full(d, 1.25)
    low[1:4], high[1:4] = [0.5, -HORIZON, -1.0], [0.5, HORIZON, HORIZON]
    x, m = rng.uniform(-1.0, 1.25, (n_runs, n, d)), rng.uniform(-0.5, 0.5, (n_runs, d))
    x[..., 1] = m[:, 1] = 0.5
    return [v.astype(dtype) for v in (x, m, rng.standard_normal((n_runs, n, d)), low, high)]


def reference(x, m, low, high, noise, boundary, cap, floor, normals):
    """The array functions, in float64."""
    x, m, low, high, normals = (v.astype(float) for v in (x, m, low, high, normals))
    options = {"noise": noise, "cap": cap, "floor": floor}
    moved = euler_maruyama_step(x, m[:, None, :], normals, lam=0.8, sigma=1.3, dt=0.3, **options)
    if boundary == "periodic":
        ends = np.where(low <= -HORIZON, -np.inf, low), np.where(high >= HORIZON, np.inf, high)
        moved, boundary = apply_boundary(moved, *ends, "periodic"), "clip"
    return apply_boundary(moved, low, high, boundary)


@each_dtype
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("cap", "floor"), [(None, None), (0.4, None), (None, 0.4)])
def test_step_is_that_of_the_array_functions(compiled, dtype, noise, boundary, cap, floor):
    x, m, normals, low, high = swarm(dtype)
    moved = move(compiled, x, m, low, high, noise, boundary, cap, floor, normals)
    expected = reference(x, m, low, high, noise, boundary, cap, floor, normals)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=8 * RTOL[dtype])
    assert ((moved >= low) & (moved <= high)).all()


@each_dtype
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_step_draws_the_random_numbers_of_its_counter(compiled, dtype, d):
    x, m, _, low, high = (v[..., :d].copy() for v in swarm(dtype, d=max(d, 5)))
    normals = random_numbers(compiled, dtype, x.shape[0] * x.shape[1], d, seed=5, draw=11).reshape(x.shape)
    drawn = move(compiled, x, m, low, high, "scaled", "reflect", seed=5, draw=11)
    np.testing.assert_array_equal(drawn, move(compiled, x, m, low, high, "scaled", "reflect", normals=normals))


def philox_words(counter, seed):
    """The four words of Philox4x32-10, on Python's integers."""
    a, b, c, d = counter
    key, key2 = seed
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ key, q & 0xFFFFFFFF, (p >> 32) ^ d ^ key2, p & 0xFFFFFFFF
        key, key2 = (key + 0x9E3779B9) & 0xFFFFFFFF, (key2 + 0xBB67AE85) & 0xFFFFFFFF
    return a, b, c, d


#: Counter, key and words: the known answers of the Random123 library of the authors of Philox.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_words_of_philox_are_the_published_ones(counter, key, words):
    counter, key, words = ([int(word, 16) for word in text.split()] for text in (counter, key, words))
    assert list(philox_words(counter, key)) == words


@pytest.mark.parametrize(("seed", "draw"), [(0, 0), (2**64 - 1, 2**64 - 1), (0x299F31D0A4093822, 0x0370734413198A2E)])
def test_random_numbers_are_those_of_philox(compiled, seed, draw):
    uniforms = random_numbers(compiled, "float32", 50, 3, seed, draw, normal=False)
    split = seed & 0xFFFFFFFF, seed >> 32
    words = [philox_words((i, 0, draw & 0xFFFFFFFF, draw >> 32), split)[:3] for i in range(50)]
    np.testing.assert_array_equal(uniforms, (np.array(words) >> 8) * 2.0**-24)
    doubles = random_numbers(compiled, "float64", 50, 2, seed, draw, normal=False)
    words = np.array([philox_words((i, 0, draw & 0xFFFFFFFF, draw >> 32), split) for i in range(50)])
    np.testing.assert_array_equal(doubles, ((words[:, ::2] >> 5) * 2.0**26 + (words[:, 1::2] >> 6)) * 2.0**-53)


@each_dtype
def test_normals_are_normal(compiled, dtype):
    normals = random_numbers(compiled, dtype, 50_000, 4)
    assert stats.kstest(normals.ravel().astype(float), "norm").pvalue > 0.01
    assert np.abs(np.corrcoef(normals.T) - np.eye(4)).max() < 0.02
    assert np.abs(normals).max() > 4.0


@each_dtype
def test_uniforms_are_uniform(compiled, dtype):
    uniforms = random_numbers(compiled, dtype, 50_000, 4, normal=False)
    assert stats.kstest(uniforms.ravel().astype(float), "uniform").pvalue > 0.01
    assert uniforms.min() >= 0.0
    assert uniforms.max() < 1.0


@each_dtype
def test_draws_and_seeds_give_other_numbers(compiled, dtype):
    draws = [random_numbers(compiled, dtype, 9, 5, *key).ravel() for key in ((1, 0), (1, 1), (2, 0), (1, 2**32))]
    assert np.unique(np.concatenate(draws)).size == 4 * 45


@each_dtype
@pytest.mark.parametrize("parts", [1, 4, 50])
def test_moments_are_sums(compiled, dtype, parts):
    y, m, *_ = swarm(dtype)
    first, second = (np.empty((2, parts, 5), dtype) for _ in range(2))
    sizes = np.int64(2), np.int64(50), np.int32(5), np.int64(parts)
    call(compiled[dtype].sum_moments, y, m, first, second, *sizes)
    z = y.astype(float) - m[:, None, :]
    np.testing.assert_allclose(first.sum(axis=1), z.sum(axis=1), atol=100 * RTOL[dtype])
    np.testing.assert_allclose(second.sum(axis=1), (z * z).sum(axis=1), rtol=50 * RTOL[dtype])


# --- on a GPU


@pytest.fixture(scope="session")
def cupy():
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    return cupy


@each_dtype
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("d", [5, 100, 5000], ids=["thread", "warp", "block"])
def test_step_on_gpu_is_that_of_the_array_functions(cupy, dtype, noise, boundary, d):
    x, m, normals, low, high = swarm(dtype, n=37, d=d)
    options = {
        "lam": 0.8,
        "sigma": 1.3,
        "dt": 0.3,
        "noise": noise,
        "cap": None,
        "floor": None,
        "boundary": boundary,
        "horizon": HORIZON,
    }
    given = [cupy.asarray(v) for v in (x, m, low, high)]
    moved = fused.move_particles(*given, normals=cupy.asarray(normals), **options).get()
    expected = reference(x, m, low, high, noise, boundary, None, None, normals)
    np.testing.assert_allclose(moved, expected, rtol=0, atol=100 * math.sqrt(d) * RTOL[dtype])


@each_dtype
@pytest.mark.parametrize("d", [5, 100, 5000], ids=["thread", "warp", "block"])
def test_step_on_gpu_draws_the_random_numbers_of_its_counter(cupy, dtype, d):
    x, m, _, low, high = (cupy.asarray(v) for v in swarm(dtype, n=37, d=d))
    options = {
        "lam": 0.8,
        "sigma": 1.3,
        "dt": 0.3,
        "noise": "scaled",
        "cap": None,
        "floor": None,
        "boundary": "clip",
        "horizon": HORIZON,
    }
    normals = fused.random_numbers(x.shape, x, 5, 11, normal=True)
    drawn = fused.move_particles(x, m, low, high, seed=5, draw=11, **options)
    given = fused.move_particles(x, m, low, high, normals=normals, **options)
    np.testing.assert_allclose(drawn.get(), given.get(), rtol=1e-5)


@each_dtype
def test_random_numbers_on_gpu_are_those_of_the_cpu(cupy, compiled, dtype):
    for normal in (False, True):
        there = fused.random_numbers((100, 7), cupy.empty(1, dtype), 5, 11, normal=normal).get()
        here = random_numbers(compiled, dtype, 100, 7, 5, 11, normal)
        np.testing.assert_allclose(there, here, rtol=10 * RTOL[dtype], atol=10 * RTOL[dtype])


@each_dtype
def test_moments_on_gpu_are_sums(cupy, dtype):
    y, m, *_ = swarm(dtype, n=3000, d=100)
    first, second = fused.sum_moments(cupy.asarray(y), cupy.asarray(m))
    z = y.astype(float) - m[:, None, :]
    np.testing.assert_allclose(first.get(), z.sum(axis=1), atol=2000 * RTOL[dtype])
    np.testing.assert_allclose(second.get(), (z * z).sum(axis=1), rtol=50 * RTOL[dtype])
