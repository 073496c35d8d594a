"""
Fairer at the same quality of fit
=================================

5,226 people arrested in Toronto for possession of marijuana; most were released with a summons, some were not. A
balanced logistic regression that predicts release does so far more often for white people. Among the models whose
training objective is within a few per cent of the smallest, which one has the smallest gap, and what does it cost?

The data set is part of the package scikit-lego (``pip install scikit-lego``).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklego.datasets import load_arrests

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import DemographicParityGap

data = load_arrests(as_frame=True)
y, X = (data["released"] == "Yes").to_numpy().astype(int), data.drop(columns="released")
gap = DemographicParityGap(sensitive="colour")

columns = make_column_transformer(
    (OneHotEncoder(drop="if_binary"), ["colour", "sex", "employed", "citizen"]),
    (StandardScaler(), ["year", "age", "checks"]),
)
model = make_pipeline(columns, LogisticRegression(class_weight="balanced"))

# %%
# Both the gap and the accuracy are measured on rows that the models have not seen, over several splits. A practitioner
# might drop the column, or weigh the rows such that colour and release are independent (Kamiran and Calders, 2012).


def balancing_weights(y, colour):
    weights = np.empty(len(y))
    for group in np.unique(colour):
        for label in (0, 1):
            cell = (colour == group) & (y == label)
            weights[cell] = np.mean(colour == group) / np.mean(cell) / 2.0
    return weights


tolerances = (0.01, 0.03)
rows = {}
for seed in range(3):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    weights = balancing_weights(y_train, X_train["colour"].to_numpy())
    unweighted = make_pipeline(columns, LogisticRegression())
    models = {
        "plain": model,
        "without the column": make_pipeline(
            make_column_transformer(
                (OneHotEncoder(drop="if_binary"), ["sex", "employed", "citizen"]), columns.transformers[1][1:]
            ),
            LogisticRegression(class_weight="balanced"),
        ),
        "reweighed rows": unweighted,
        **{
            f"within {tol:.0%}": BilevelSearchCV(model, upper=gap, lower_tol=tol, max_iter=50, random_state=0)
            for tol in tolerances
        },
    }
    for name, candidate in models.items():
        params = {"logisticregression__sample_weight": weights} if name == "reweighed rows" else {}
        candidate.fit(X_train, y_train, **params)
        accuracy = balanced_accuracy_score(y_test, candidate.predict(X_test))
        rows.setdefault(name, []).append((gap(candidate, X_test, y_test), accuracy))

print("model                gap in release   balanced accuracy   (held-out rows, mean and spread over splits)")
for name, values in rows.items():
    (g, a), (dg, da) = np.mean(values, axis=0), np.std(values, axis=0)
    print(f"{name:20} {g:7.3f} +- {dg:.3f}   {a:10.3f} +- {da:.3f}")
assert np.mean(rows["within 3%"], axis=0)[0] < 0.5 * np.mean(rows["plain"], axis=0)[0]

# %%
# Every model within the tolerance fits the data about as well, yet they treat people very differently.

fig, ax = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
for name, values in rows.items():
    (g, a), (dg, da) = np.mean(values, axis=0), np.std(values, axis=0)
    color, marker = ("#0072B2", "o") if name.startswith("within") else ("#808080", "s")
    ax.errorbar(g, a, da, dg, fmt=marker, color=color, capsize=3)
    ax.annotate(name, (g, a), xytext=(5, 5), textcoords="offset points")
ax.set(xlabel="gap between the rates of predicted release", ylabel="balanced accuracy", xlim=(0, None))
plt.show()
