"""
How many features does a classifier need?
=========================================

Thirty measurements of a cell nucleus, a logistic regression. Which of them are needed for a training objective at most
10% above the smallest? We compare `BilevelSearchCV` with the usual way, the L1 path with a refit on what it selects,
and let cross-validation choose the tolerance.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import make_weight_space
from sklearn_scb2o.plotting import SelectionPathDisplay

data = load_breast_cancer()
X, y = StandardScaler().fit_transform(data.data), data.target
plain = LogisticRegression().fit(X, y)

# %%
# Ours: one search for each tolerance.

tolerances = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0]
ours = [BilevelSearchCV(plain, lower_tol=tol, random_state=0).fit(X, y).n_features_selected_ for tol in tolerances]

# %%
# The L1 path: the strongest penalty whose features, refitted without that penalty, train well enough. The training
# objective of the plain model is what `make_weight_space` gives.


def refitted_objective(columns):
    model = LogisticRegression().fit(X[:, columns], y)
    space = make_weight_space(model, X[:, columns], y)
    return space.objective(space.weights_of(model)[None])[0]


everything = tuple(range(X.shape[1]))
smallest = refitted_objective(np.arange(X.shape[1]))
path = {everything: smallest}
for C in np.geomspace(1e-2, 3.0, 60):
    l1 = LogisticRegression(solver="liblinear", l1_ratio=1.0, C=C, max_iter=5_000, random_state=0).fit(X, y)
    columns = np.flatnonzero(l1.coef_[0])
    if len(columns):
        path.setdefault(tuple(columns), refitted_objective(columns))
by_l1 = [
    min(len(columns) for columns, objective in path.items() if objective <= (1 + tol) * smallest) for tol in tolerances
]

print("tolerance   BilevelSearchCV   L1 path, refitted")
for row in zip(tolerances, ours, by_l1, strict=True):
    print("{:9.0%}   {:15d}   {:17d}".format(*row))
assert all(a <= b for a, b in zip(ours, by_l1, strict=True))

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
ax.semilogx(tolerances, by_l1, "s--", color="#808080", label="L1 path, refitted")
ax.semilogx(tolerances, ours, "o-", color="#0072B2", label="BilevelSearchCV")
ax.set(xlabel="tolerance of the training objective", ylabel="features", ylim=(0, None))
ax.legend(frameon=False)

# %%
# Several tolerances are compared by cross-validation. The one-standard-error rule takes the largest tolerance, that is
# the sparsest model, that predicts about as well as the best.

search = BilevelSearchCV(plain, lower_tol=tolerances, scoring="neg_log_loss", refit="1se", cv=5, random_state=0)
search.fit(X, y)
print(f"\nchosen: {search.best_params_['lower_tol']:.0%}, {search.n_features_selected_} features:")
print(", ".join(data.feature_names[search.support_]))
SelectionPathDisplay.from_estimator(search, negate_score=True)
plt.show()
