"""Criteria that have no gradient: gaps between groups and the worst group, on held-out rows.

    python benchmarks/fairness.py [--splits 10]

The data are the arrests of scikit-lego: release with a summons, by colour. Ours: the model of smallest criterion among
those whose training objective is at most 5% above the smallest. Beside it what a practitioner would do: leave the
column out, weigh the rows such that group and label are independent (Kamiran and Calders, 2012), or move the threshold
of each group such that the rates of positive predictions on the training rows agree. All are measured on the half of
the rows that no model has seen. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklego.datasets import load_arrests

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import DemographicParityGap, EqualizedOddsGap, WorstGroupLoss

COLOUR = 3  # index of the sensitive column
CRITERIA = {
    "parity gap": DemographicParityGap(sensitive=COLOUR),
    "odds gap": EqualizedOddsGap(sensitive=COLOUR),
    "worst 0-1": WorstGroupLoss(sensitive=COLOUR),
    "worst log loss": WorstGroupLoss(sensitive=COLOUR, loss="log_loss"),
}


class WithoutColumn:
    """The plain model without the sensitive column."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> WithoutColumn:
        self.model.fit(np.delete(X, COLOUR, axis=1), y)
        self.classes_ = self.model.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(np.delete(X, COLOUR, axis=1))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(np.delete(X, COLOUR, axis=1))


class Thresholded:
    """The plain model with a threshold for each group, at which the training rates of both are the overall one."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> Thresholded:
        p = self.model.fit(X, y).predict_proba(X)[:, 1]
        self.classes_, rate = self.model.classes_, np.mean(p > 0.5)
        self.thresholds = {g: np.quantile(p[X[:, COLOUR] == g], 1.0 - rate) for g in np.unique(X[:, COLOUR])}
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        threshold = np.array([self.thresholds[g] for g in X[:, COLOUR]])
        return (self.model.predict_proba(X)[:, 1] > threshold).astype(int)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(X)


def load() -> tuple[np.ndarray, np.ndarray]:
    """Columns year, age, checks, colour, sex, employed, citizen; released or not."""
    data = load_arrests(as_frame=True)
    numbers = data[["year", "age", "checks"]].to_numpy(dtype=float)
    flags = {"colour": "White", "sex": "Male", "employed": "Yes", "citizen": "Yes"}
    X = np.column_stack([numbers, *((data[name] == value).to_numpy(dtype=float) for name, value in flags.items())])
    return X, (data["released"] == "Yes").to_numpy().astype(int)


def reweighed(X: np.ndarray, y: np.ndarray) -> Any:
    """Logistic regression on rows weighed such that each cell of group and label counts as if they were independent."""
    weights = np.empty(len(y))
    for group in np.unique(X[:, COLOUR]):
        for label in (0, 1):
            cell = (X[:, COLOUR] == group) & (y == label)
            weights[cell] = np.mean(X[:, COLOUR] == group) / 2.0 / np.mean(cell)
    return plain(class_weight=None).fit(X, y, logisticregression__sample_weight=weights)


def plain(class_weight: str | None = "balanced") -> Any:
    """The model that all start from."""
    return make_pipeline(StandardScaler(), LogisticRegression(class_weight=class_weight))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    X, y = load()
    rows: dict[str, list[list[float]]] = {}
    seconds = []
    for seed in range(parser.parse_args().splits):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.5, stratify=2 * X[:, COLOUR] + y, random_state=seed
        )
        models = {
            "plain": plain().fit(X_train, y_train),
            "without the column": WithoutColumn(plain()).fit(X_train, y_train),
            "reweighed rows": reweighed(X_train, y_train),
            "threshold by group": Thresholded(plain()).fit(X_train, y_train),
        }
        for name, criterion in CRITERIA.items():
            start = time.perf_counter()
            search = BilevelSearchCV(plain(), upper=criterion, lower_tol=0.05, random_state=seed)
            models[f"ours, {name}"] = search.fit(X_train, y_train)
            seconds.append(time.perf_counter() - start)
        for name, model in models.items():
            values = [criterion(model, X_test, y_test) for criterion in CRITERIA.values()]
            rows.setdefault(name, []).append([*values, balanced_accuracy_score(y_test, model.predict(X_test))])
    print(f"held-out rows, mean and standard deviation over {len(rows['plain'])} splits; ours at 5% slack")
    print(f"{'':22}" + "".join(f"{name:>18}" for name in (*CRITERIA, "balanced accuracy")))
    for name, table in rows.items():
        cells = zip(np.mean(table, axis=0), np.std(table, axis=0, ddof=1), strict=True)
        print(f"{name:22}" + "".join(f"{mean:10.3f} +-{spread:.3f}" for mean, spread in cells))
    print(f"seconds a search: {np.mean(seconds):.1f} (largest {np.max(seconds):.1f})")


if __name__ == "__main__":
    main()
