"""Local search over supports."""

import numpy as np
import pytest
from search_cases import ridge_supports

from sklearn_scb2o.model_selection.local_search import descend, key_of


def neighbours(support):
    for j in np.flatnonzero(support):
        smaller = support.copy()
        smaller[j] = False
        yield smaller
        for k in np.flatnonzero(~support):
            swapped = smaller.copy()
            swapped[k] = True
            yield swapped


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slack", [0.05, 0.5])
@pytest.mark.parametrize("full", [True, False])  # without groups the start is above the limit
def test_no_single_drop_or_swap_is_better(seed, slack, full):
    supports = ridge_supports(seed=seed)
    limit = supports.value(np.ones(8, dtype=bool)) * (1.0 + slack)
    costs = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0])
    found = descend(supports, np.full(8, full), limit, costs)
    key = key_of(found, supports.value(found), limit, costs)
    assert key[0] == limit
    for other in neighbours(found):
        above, cost, value = key_of(other, supports.value(other), limit, costs)
        assert (above, cost, value * (1.0 + 1e-8)) >= key


def test_dear_groups_leave_first():
    supports = ridge_supports()
    limit = 1e9  # anything is good enough
    assert not descend(supports, np.ones(8, dtype=bool), limit, np.ones(8)).any()
    costs = np.where(np.arange(8) == 3, 0.0, 1.0)
    found = descend(supports, np.ones(8, dtype=bool), limit, costs)
    assert costs[found].sum() == 0.0


def test_ends_when_the_fits_are_used_up():
    supports = ridge_supports()
    start = np.ones(8, dtype=bool)
    np.testing.assert_array_equal(descend(supports, start, 1e9, np.ones(8), max_fits=0), start)
