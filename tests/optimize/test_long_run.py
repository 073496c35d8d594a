"""The iteration of a run of many particles, on those selected, against the array functions."""

import numpy as np
import pytest

from sklearn_scb2o.optimize.long_run import RankingOfMany
from sklearn_scb2o.optimize.ranking import Settings, rank, rank_on_arrays
from sklearn_scb2o.optimize.update import update_consensus
from sklearn_scb2o.particles import SELECTORS

N, BEST = 2000, np.full((1, 1), np.inf)
KINDS = {
    "normal": lambda rng: rng.normal(size=(1, N)),
    "heavy": lambda rng: rng.standard_cauchy(size=(1, N)) ** 3,
    "ties": lambda rng: np.round(rng.normal(size=(1, N)), 1),
    "equal": lambda rng: np.full((1, N), 3.0),
    "scales": lambda rng: 10.0 ** rng.uniform(-30, 30, size=(1, N)),
}


def usual(alpha, beta=0.1):
    return Settings("soft", SELECTORS["logistic"], alpha, beta, None, None, 0.0, None, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [None, 30.0])
@pytest.mark.parametrize("beta", [1e-4, 0.1, 0.7])
def test_selected_particles_give_what_all_give(kind, alpha, beta):
    rng, settings = np.random.default_rng(1), usual(alpha, beta)
    L, G, y = KINDS[kind](rng), KINDS[kind](rng), rng.normal(size=(1, N, 3))
    known, on_arrays = rank(L, settings, BEST, np), rank_on_arrays(L, settings, BEST, np)
    assert isinstance(known, RankingOfMany)
    assert known.needed[on_arrays.needed].all()
    selected, arrays = (update_consensus(y, L, G, settings, BEST, np, r) for r in (known, on_arrays))
    for name in ("weights", "consensus", "quantile", "alpha", "tau"):
        np.testing.assert_allclose(
            np.ravel(getattr(selected, name)), np.ravel(getattr(arrays, name)), rtol=1e-7, atol=1e-12, err_msg=name
        )


def test_upper_values_that_are_not_needed_may_be_unknown():
    rng, settings = np.random.default_rng(2), usual(None)
    L, G, y = rng.normal(size=(1, N)), rng.normal(size=(1, N)), rng.normal(size=(1, N, 3))
    needed = rank(L, settings, BEST, np).needed
    complete = update_consensus(y, L, G, settings, BEST, np)
    partial = update_consensus(y, L, np.where(needed, G, np.nan), settings, BEST, np)
    np.testing.assert_array_equal(partial.consensus, complete.consensus)
    np.testing.assert_array_equal(partial.evaluated_upper, needed)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_values_out_of_the_ordinary_are_left_to_the_arrays(value):
    L = np.random.default_rng(3).normal(size=(1, N))
    L[0, 7] = value
    assert not isinstance(rank(L, usual(None), BEST, np), RankingOfMany)
