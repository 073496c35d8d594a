"""Search over supports."""

import numpy as np
import pytest
from search_cases import best_cost, ridge_supports

from sklearn_scb2o.model_selection.seeds import seed_supports
from sklearn_scb2o.model_selection.support_search import search_supports


def search(supports, slack, costs=None, seed=0, **options):
    limit = supports.value(np.ones(supports.n_groups, dtype=bool)) * (1.0 + slack)
    counts = np.ones(supports.n_groups) if costs is None else costs
    seeds = seed_supports(supports, limit)
    found = search_supports(
        supports,
        lambda s: float(counts[s].sum()),
        limit,
        seeds.values(),
        costs=counts,
        rng=np.random.default_rng(seed),
        **options,
    )
    return found, seeds, limit


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slack", [0.02, 0.1, 1.0])
def test_finds_the_smallest_support(seed, slack):
    supports = ridge_supports(seed=seed)
    costs = np.random.default_rng(seed).uniform(1.0, 2.0, 8) if seed % 2 else np.ones(8)
    found, _, limit = search(supports, slack, costs)
    assert found.lower <= limit
    assert found.upper == pytest.approx(best_cost(supports, limit, costs))


@pytest.mark.parametrize("max_fits", [0, 3, None])
def test_never_worse_than_a_seed(max_fits):
    supports = ridge_supports(p=20)
    found, seeds, limit = search(supports, 0.1, max_fits=max_fits)
    assert found.lower <= limit
    assert found.upper <= min(s.sum() for s in seeds.values())


def test_upper_values_that_are_no_sum_of_costs():
    supports = ridge_supports()
    limit = supports.value(np.ones(8, dtype=bool)) * 2.0
    found = search_supports(
        supports, lambda s: float(s.sum() ** 2), limit, [np.ones(8, dtype=bool)], rng=np.random.default_rng(0)
    )
    assert found.lower <= limit
    assert found.upper < 64.0


def test_same_seed_same_result_and_no_global_random_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (search(ridge_supports(p=15, seed=3), 0.1, seed=1)[0] for _ in range(2))
    np.testing.assert_array_equal(first.support, second.support)
    np.testing.assert_array_equal(first.optimizer_result.x, second.optimizer_result.x)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
