"""
Pruning a neural network
========================

A perceptron reads handwritten digits. How many of its weights are needed, if its training objective may be 20% above
what the full network reaches? A search over sets of weights says which ones are in, and trains the network again with
them. For comparison, the usual pruning: the smallest weights are set to 0, and the others stay as they are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import make_weight_space

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, train_size=600, random_state=0, stratify=y)
full = MLPClassifier((16,), solver="lbfgs", alpha=1.0, max_iter=2_000, random_state=0).fit(X_train, y_train)

# %%
# Each fit of the network takes a while, so their number is limited.

tol = 0.2
search = BilevelSearchCV(full, upper="l0", group_by="weight", lower_tol=tol, max_fits=20, random_state=0)
search.fit(X_train, y_train)
pruned = search.best_estimator_

# %%
# The largest weights of the full network, as few as the same training objective allows. A weight space is the network
# as a vector, with its training objective.

space = make_weight_space(full, X_train, y_train)
w = space.weights_of(full)
removable = np.flatnonzero(~space.is_intercept)
order = removable[np.argsort(np.abs(w[removable]))]
path = np.tile(w, (len(order), 1))
for k in range(len(order)):
    path[k, order[:k]] = 0.0  # without the k smallest
objectives = np.concatenate([space.objective(part) for part in np.array_split(path, 20)])
removed = np.flatnonzero(objectives <= (1.0 + tol) * search.lower_min_).max()


def weights_of(network):
    return sum(np.count_nonzero(coef) for coef in network.coefs_)


rows = [("full", weights_of(full), search.lower_min_, full.score(X_test, y_test))]
space.put(path[removed], full)
rows.append(("its largest weights", weights_of(full), objectives[removed], full.score(X_test, y_test)))
rows.append(("BilevelSearchCV", weights_of(pruned), search.lower_, pruned.score(X_test, y_test)))
print("network               weights   training objective   test accuracy")
for row in rows:
    print("{:<20} {:8}   {:18.4f}   {:13.3f}".format(*row))
assert weights_of(pruned) < 0.5 * weights_of(full)

# %%
# How many weights lead from each pixel to the 16 hidden units. Nobody needs the margins; the search needs less of
# everything else too.

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
axes[0].imshow(X_train[y_train == 3].mean(axis=0).reshape(8, 8), cmap="Greys")
axes[0].set(title="a three, on average")
for ax, network, name in zip(axes[1:], (full, pruned), ("the largest weights", "BilevelSearchCV"), strict=True):
    count = np.count_nonzero(network.coefs_[0], axis=1).reshape(8, 8)
    shade = ax.imshow(count, cmap="cividis", vmin=0, vmax=12)
    ax.set(title=f"{name}: {weights_of(network)}")
fig.colorbar(shade, ax=axes, label="weights of a pixel")
for ax in axes:
    ax.set(xticks=[], yticks=[])
plt.show()
