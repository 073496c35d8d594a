"""The best candidate of a search."""

import numpy as np
import pytest

from sklearn_scb2o.model_selection.incumbent import Incumbent

BETTER_AND_BETTER = [(3.0, 0.0), (2.0, 9.0), (0.9, 8.0), (1.0, 7.0), (0.5, 7.0)]


def offered(*candidates):
    best = Incumbent(1.0)
    return best, [best.take(np.array([i]), *values) for i, values in enumerate(candidates)]


def test_first_within_the_limit_then_a_small_upper_value_then_a_small_objective():
    best, taken = offered(*BETTER_AND_BETTER)
    assert all(taken)
    assert (best.item[0], best.lower, best.upper) == (4, 0.5, 7.0)


def test_what_is_no_better_is_not_taken():
    best, taken = offered(*BETTER_AND_BETTER[::-1], BETTER_AND_BETTER[-1])
    assert taken == [True] + [False] * 5
    assert best.item[0] == 0


@pytest.mark.parametrize("first", [(np.nan, 1.0), (0.5, np.nan), (np.inf, np.inf)])
def test_values_that_are_no_numbers_give_way_to_any_other(first):
    best, taken = offered(first, (0.9, 1e9))
    assert taken[1]
    assert best.upper == 1e9


def test_candidates_without_a_value_are_better_than_none():
    best, taken = offered((0.5, np.nan))
    assert taken == [True]
    assert best.upper == np.inf


def test_an_objective_within_the_limit_always_reaches():
    best, _ = offered((0.5, 7.0))
    assert best.reaches(1.0)
    assert not best.reaches(1.1)
    assert not best.reaches(np.nan)


def test_the_item_is_a_copy():
    best, item = Incumbent(0.0), np.zeros(2)
    best.take(item, 0.0, 0.0)
    item[:] = 1.0
    assert not best.item.any()
