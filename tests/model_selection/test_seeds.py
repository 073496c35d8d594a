"""Supports that enter the first population."""

import numpy as np
import pytest
from search_cases import ridge_supports
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import membership_of
from sklearn_scb2o.model_selection.seeds import seed_supports, smallest_l1_norm
from sklearn_scb2o.model_selection.supports import WeightSupports


@pytest.mark.parametrize("slack", [0.01, 0.3])
def test_seeds_keep_within_the_limit(slack):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = LogisticRegression().fit(X, y)
    space = make_weight_space(model, X, y)
    supports = WeightSupports(space, membership_of(space, "feature", 30), space.weights_of(model))
    limit = supports.value(np.ones(30, dtype=bool)) * (1.0 + slack)
    seeds = seed_supports(supports, limit)
    assert set(seeds) == {"plain", "l1", "magnitude", "backward"}
    for name, support in seeds.items():
        assert supports.value(support) <= limit
        assert support.all() == (name == "plain")


def test_no_seeds_within_a_limit_that_nothing_reaches():
    supports = ridge_supports()
    assert seed_supports(supports, 0.0) == {}


def test_the_empty_support_is_found_where_anything_is_good_enough():
    supports = ridge_supports()
    seeds = seed_supports(supports, 1e9)
    assert not seeds["backward"].any()


@pytest.mark.parametrize("slack", [0.01, 0.1])
def test_smallest_l1_norm_is_that_of_the_lagrangian(slack):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)[:, :8]
    model = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y)
    space = make_weight_space(model, X, y)
    start = space.weights_of(model)
    limit = (1.0 + slack) * float(space.objective(start[None])[0])
    weights = smallest_l1_norm(space, start, limit)
    assert float(space.objective(weights[None])[0]) == pytest.approx(limit, rel=1e-3)
    # at the solution the gradient is -mu sign(w) where w is not zero, and no larger than mu elsewhere
    gradient, coef = space.gradient(weights[None])[0, :-1], weights[:-1]
    used = coef != 0.0
    mu = -gradient[used] * np.sign(coef[used])
    assert mu == pytest.approx(np.full_like(mu, mu.mean()), rel=2e-2)
    assert np.all(np.abs(gradient[~used]) <= 1.02 * mu.mean())
