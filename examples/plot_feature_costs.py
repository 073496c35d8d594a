"""
The cheapest measurements that are good enough
==============================================

A model predicts the progress of diabetes within a year from ten measurements. Age and sex cost a question, the body
mass index a pair of scales, and six blood values a laboratory. Which measurements are the cheapest for a squared error
at most a few per cent above that of all ten? The prices here are invented, the patients are not.

With ten columns all 1,023 sets of them can be tried, so that we know the answer.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from sklearn_scb2o import BilevelSearchCV

X, y = load_diabetes(return_X_y=True, as_frame=True)
prices = {
    **{"age": 0.5, "sex": 0.5, "bmi": 2.0, "bp": 3.0},
    **{"s1": 4.0, "s2": 7.0, "s3": 6.0, "s4": 8.0, "s5": 9.0, "s6": 5.0},
}

# %%
# A search for each tolerance, with the prices as the upper criterion; for comparison one that counts columns.

tolerances = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4]


def select(upper, tol):
    return BilevelSearchCV(LinearRegression(), upper=upper, lower_tol=tol, random_state=0).fit(X, y)


def price(search):
    return sum(prices[name] for name in X.columns[search.support_])


cheapest = [select(("cost", prices), tol) for tol in tolerances]
fewest = [select("l0", tol) for tol in tolerances]

# %%
# All sets of columns.

sets = [list(names) for k in range(1, 11) for names in combinations(X.columns, k)]
errors = np.array([np.mean((LinearRegression().fit(X[s], y).predict(X[s]) - y) ** 2) for s in sets])
costs = np.array([sum(prices[name] for name in s) for s in sets])
errors /= errors[-1]

print("tolerance   fewest columns   cheapest   of all sets   columns of the cheapest")
for tol, few, cheap in zip(tolerances, fewest, cheapest, strict=True):
    best = costs[errors <= 1.0 + tol].min()
    print(
        f"{tol:9.0%}   {price(few):14.1f}   {price(cheap):8.1f}   {best:11.1f}   {' '.join(X.columns[cheap.support_])}"
    )
    assert price(cheap) == best

# %%
# Each dot is a set of columns. Those that the search has found have nothing to their lower left.

fig, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
ax.plot(costs, errors - 1.0, ".", color="#808080", ms=3, alpha=0.6, label="all sets of columns")
for searches, style, label in (
    (fewest, {"marker": "s", "color": "#D55E00", "mfc": "none", "ls": "none", "ms": 9}, "fewest columns"),
    (cheapest, {"marker": "o", "color": "#0072B2", "ls": "-", "ms": 6}, "cheapest columns"),
):
    ax.plot([price(s) for s in searches], [s.lower_ / s.lower_min_ - 1.0 for s in searches], label=label, **style)
ax.set(xlabel="price of the measurements", ylabel="squared error above the smallest", ylim=(-0.02, 0.6))
ax.yaxis.set_major_formatter("{x:.0%}")
ax.legend(frameon=False)
plt.show()
