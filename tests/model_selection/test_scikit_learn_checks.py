"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_scb2o import BilevelSearchCV

# ConvergenceWarning: of the estimators, on columns that are not scaled
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SMALL = {"n_particles": 6, "max_iter": 3}
WEIGHTED = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


@parametrize_with_checks(
    [
        BilevelSearchCV(LogisticRegression(), max_fits=3, **SMALL),
        BilevelSearchCV(Ridge(), max_fits=3, **SMALL),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        BilevelSearchCV(LogisticRegression(), upper="l1", lower_tol=0.0, **SMALL),
        BilevelSearchCV(LinearRegression(), lower_tol=[0.01, 0.1], cv=2, **SMALL),
        BilevelSearchCV(DecisionTreeClassifier(random_state=0), max_fits=10, **SMALL),
    ]
)
def test_scikit_learn_check_of_other_searches(estimator, check):
    if estimator.cv is not None and check.func.__name__ in WEIGHTED:
        pytest.skip("folds of repeated rows are not folds of weighted rows, though the choice may be the same")
    check(estimator)
