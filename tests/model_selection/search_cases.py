import itertools

import numpy as np
from sklearn.linear_model import Ridge

from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.model_selection.groups import membership_of
from sklearn_scb2o.model_selection.supports import WeightSupports


def ridge_supports(p=8, seed=0, group_by="feature"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, p)) @ (np.eye(p) + 0.4 * rng.standard_normal((p, p)))
    y = X @ np.where(np.arange(p) < p // 2, rng.uniform(0.5, 2.0, p), 0.0) + 0.5 * rng.standard_normal(40)
    model = Ridge(alpha=0.1).fit(X, y)
    space = make_weight_space(model, X, y)
    return WeightSupports(space, membership_of(space, group_by, p), space.weights_of(model), tol=1e-12)


def best_cost(supports, limit, costs):
    """Smallest cost of a support within the limit, by brute force."""
    every = np.array(list(itertools.product([False, True], repeat=supports.n_groups)))
    return min(costs[s].sum() for s in every if supports.value(s) <= limit)
