"""Normals made of random words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sklearn_scb2o.optimize.normals import PIECE, fill_with_normals, n_words, normals_from_words


def generators(*seeds):
    return [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]


def filled(shape, *seeds, dtype=float):
    out = np.empty(shape, dtype)
    fill_with_normals(generators(*seeds), out)
    return out


@pytest.mark.parametrize("n", [1, 2, 3, 100, PIECE, PIECE + 1, 100_001])
def test_all_of_any_number_are_written(n):
    out = np.full((1, n), np.nan)
    fill_with_normals(generators(0), out)
    assert np.isfinite(out).all()
    assert len(np.unique(out)) > 0.99 * n


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_normals_are_those_of_box_and_muller(words):
    words = np.array(words, np.uint64)
    out = np.empty(2 * len(words))
    normals_from_words(words.copy(), out)
    first, second = words.view(np.uint32).reshape(2, -1).astype(float)
    u, turn = (first + 0.5) / 2.0**32, second.astype(np.uint32).view(np.int32) / 2.0**31
    expected = np.sqrt(-2.0 * np.log(u)) * np.stack([np.cos(np.pi * turn), np.sin(np.pi * turn)])
    # 24 bits; next to the middle the logarithm of a float32 is coarser
    np.testing.assert_allclose(out, expected.ravel(), rtol=1e-5, atol=5e-4)


def test_distribution_is_the_normal_one():
    values = filled((20, 500_000), *range(20))
    p = [stats.kstest(row, "norm").pvalue for row in values]
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    n = values.size
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        error = stats.norm.moment(2 * power) ** 0.5 / np.sqrt(n)
        assert abs(np.mean(values**power) - moment) < 5.0 * error


@pytest.mark.parametrize("limit", [3.0, 4.0, 4.5])
def test_tails_are_as_heavy_as_those_of_the_normal_distribution(limit):
    values = filled((1, 10_000_000), 1)
    expected = values.size * stats.norm.sf(limit)
    for found in (np.count_nonzero(values > limit), np.count_nonzero(values < -limit)):
        assert abs(found - expected) < 5.0 * np.sqrt(expected)


def test_both_of_a_pair_and_neighbours_are_independent():
    values = filled((1, 200_000), 2)[0]
    for a, b in ((values[: PIECE // 2], values[PIECE // 2 : PIECE]), (values[:-1], values[1:])):
        for x, y in ((a, b), (a * a, b * b), (abs(a), b)):
            assert abs(np.corrcoef(x, y)[0, 1]) < 5.0 / np.sqrt(len(a))


def test_single_precision_has_the_same_normals():
    np.testing.assert_array_equal(filled((1, 1001), 5, dtype=np.float32), filled((1, 1001), 5).astype(np.float32))


@pytest.mark.parametrize("n", [5, 301, 60_000, PIECE + 5])
def test_a_run_has_the_same_normals_alone_and_among_others(n):
    together = filled((3, n), 7, 8, 9)
    for row, seed in zip(together, (7, 8, 9), strict=True):
        np.testing.assert_array_equal(row[None], filled((1, n), seed))


def test_generators_draw_no_more_words_than_are_needed():
    (rng,), (other,) = generators(3), generators(3)
    fill_with_normals([rng], np.empty((1, 4001)))
    other.bit_generator.random_raw(n_words(4001))
    assert rng.bit_generator.random_raw() == other.bit_generator.random_raw()
