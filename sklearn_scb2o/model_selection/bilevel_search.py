"""BilevelSearchCV: among the models that train equally well, the sparsest, cheapest, fairest."""

from __future__ import annotations

from copy import deepcopy
from numbers import Real
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..optimize.values import seed_sequence
from .criteria import as_criterion
from .cross_validation import best_index, cross_validate_tolerances
from .metadata import route_to_fit, router_of, row_weights_of
from .plan import Data, Plan
from .selection import folds_of, select_models


def _estimator_has(method: str) -> Any:
    def check(self: Any) -> bool:
        getattr(getattr(self, "best_estimator_", self.estimator), method)
        return True

    return check


class BilevelSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    r"""Among the models that train equally well, the one that is sparsest, cheapest, fairest.

    Minimises the upper criterion over the models whose training objective is minimal up to a tolerance,

        min upper(w)   over   L(w) <= (1 + lower_tol) min L,

    where L is the estimator's own training objective: its loss plus its penalty.

    Parameters
    ----------
    estimator : estimator
        What is fitted. Linear models and multilayer perceptrons of scikit-learn, and pipelines that end in one, are
        searched by their weights (`register_weight_space` adds others); any other estimator by its columns.
    upper : {"l0", "l1"}, ("lp", p), ("cost", costs), str or callable, default="l0"
        What is to be small:

        - "l0": the number of groups (see `group_by`) that are in the model;
        - ("cost", costs): the sum of their costs: one for each group, or for each column, or a mapping from column
          names or group labels;
        - "l1", ("lp", p): ``sum_j |w_j|^p`` without intercepts;
        - the name of a scorer, or a scorer object: its negative;
        - a callable of one argument: a function of the weights, (n_particles, n_weights) -> (n_particles,); a row is
          `coef_` and then `intercept_`, flattened;
        - a callable(estimator, X, y): a function of the fitted model and of rows (see `upper_on`), such as
          `WorstGroupLoss`, `DemographicParityGap`, `EqualizedOddsGap`, `ExpectedCalibrationError`.
    lower_tol : float or list of float, at least 0, default=0.05
        Relative tolerance. Of several values cross-validation chooses, as `refit` says.
    lower_atol : float, default=1e-6
        Where the minimum is below this part of the constant model's objective, as for models that interpolate, this
        part is the tolerance.
    lower : None, str or callable, default=None
        Another lower objective: a callable(estimator, X, y) -> float to be minimised, or the name of a scorer to be
        maximised on the training rows. Of an estimator without a weight space, None is its training loss: log loss,
        zero-one loss without `predict_proba`, mean squared error.
    search_space : {"auto", "support", "weights"}, default="auto"
        What a particle is. "support": a score for each group, which is in where the score is positive; the weights
        are the fit on that support. "weights": the weights. "auto": "support" for "l0" and costs and for estimators
        without a weight space, else "weights".
    group_by : {"feature", "weight", "unit"} or array-like of shape (n_features,), default="feature"
        What enters and leaves together: all weights of a column; each weight; all weights of a hidden unit; the
        columns with the same label. In a pipeline, columns are those that its last step sees.
    upper_on : {"train", "validation", "cv"}, default="train"
        Rows on which a criterion of the model is evaluated: those it is fitted to; a part held out from them; each
        fold of `cv` in turn, with the estimator refitted on the others (supports only).
    validation_fraction : float in (0, 1), default=0.2
        The part that is held out.
    cv : int, splitter, iterable or None, default=None
        Folds over which tolerances are compared; None: five where there are several tolerances, no cross-validation
        where there is one.
    scoring : str, callable or None, default=None
        Score by which tolerances are compared; None: `score` of the estimator.
    refit : bool, "1se" or callable, default=True
        How the tolerance is chosen. True: best mean score (of equal ones the largest tolerance). "1se": the largest
        tolerance whose mean score is within one standard error of the best. A callable of `cv_results_` returns an
        index. False: no model is fitted to all rows.
    n_particles, max_iter : int or None, default=None
        Size and length of a search; None: 20 and 30 for supports, 50 and 200 for weights.
    max_fits : int or None, default=None
        About how many inner fits a search over supports may make, besides those of its seeds; None: no limit, but
        100 for a perceptron and others whose training objective is not convex.
    optimizer_params : dict or None, default=None
        Further parameters of `SCB2OOptimizer`; and ``gamma``, the strength of a drift along the negative gradient of
        the training objective. With ``{"xp": "torch", "device": "cuda"}``, ``"cupy"`` and so on, a search over the
        weights of a linear model or a perceptron holds data and particles there; a callable of the weights is given
        arrays of that library. X must be dense then. ``"dtype": "float32"`` halves what is moved and stored; that
        the selected model is within the tolerance is checked in float64.
    n_jobs : int or None, default=None
        Folds in parallel.
    random_state : int, RandomState, Generator or None, default=None
        Seed. The result does not depend on `n_jobs`.
    verbose : int, default=0
        Progress of the folds, as of joblib's Parallel.
    error_score : "raise" or float, default="raise"
        Score of a fold that fails.

    Attributes
    ----------
    best_estimator_ : estimator
        The selected model.
    support_ : ndarray of bool, shape (n_features,)
        Columns that it uses; in a pipeline, of those that its last step sees.
    n_features_selected_ : int
        Their number.
    lower_, upper_ : float
        Training objective and upper criterion of the selected model.
    lower_min_, upper_at_fit_ : float
        The same of the plain fit.
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        Those of the selected model, where it has them.
    cv_results_ : dict
        As of scikit-learn's searches, with `n_features`, `lower` and `upper` of each candidate and fold. Without
        cross-validation, only these three of the selected model.
    best_index_, best_params_, best_score_
        The chosen tolerance; the score where there is cross-validation.
    scorer_ : callable
        The scorer.
    n_splits_ : int
        Number of folds.
    optimizer_result_ : scipy.optimize.OptimizeResult
        Of the last search.
    n_iter_ : int
        Its iterations.
    message_ : str
        What there is to say about the result; mostly empty.

    See Also
    --------
    sklearn.feature_selection.RFECV : backward elimination with the number of features chosen by cross-validation.

    References
    ----------
    Chao, Sun, Riedl, Khadiv, Etesami, "Convergence of consensus-based particle methods for nonconvex bi-level
    optimization" (2026), the nested scheme of its appendix.

    Examples
    --------
    Of 30 columns, few are needed for a training objective at most 10% above the smallest:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_scb2o import BilevelSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> search = BilevelSearchCV(LogisticRegression(), lower_tol=0.1, random_state=0).fit(X, y)
    >>> search.n_features_selected_
    13
    """

    def __init__(
        self,
        estimator: Any,
        *,
        upper: Any = "l0",
        lower_tol: Any = 0.05,
        lower_atol: float = 1e-6,
        lower: Any = None,
        search_space: str = "auto",
        group_by: Any = "feature",
        upper_on: str = "train",
        validation_fraction: float = 0.2,
        cv: Any = None,
        scoring: Any = None,
        refit: Any = True,
        n_particles: int | None = None,
        max_iter: int | None = None,
        max_fits: int | None = None,
        optimizer_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        error_score: Any = "raise",
    ) -> None:
        self.estimator = estimator
        self.upper = upper
        self.lower_tol = lower_tol
        self.lower_atol = lower_atol
        self.lower = lower
        self.search_space = search_space
        self.group_by = group_by
        self.upper_on = upper_on
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_particles = n_particles
        self.max_iter = max_iter
        self.max_fits = max_fits
        self.optimizer_params = optimizer_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.error_score = error_score

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> BilevelSearchCV:
        """Select a model.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in the fit and in the training objective.
        **params
            Metadata: `groups` goes to the splitter, what the upper criterion takes (`sensitive_features`) to it, the
            rest to `fit` of the estimator; with metadata routing enabled, to whoever requests it.

        Returns
        -------
        self
            The fitted search.
        """
        plan, tolerances = self._plan(), self._tolerances()
        X, y = indexable(X, y)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)
            check_consistent_length(X, sample_weight)
        routed = route_to_fit(self, sample_weight, params)
        data = Data(X, y, routed.fit, routed.upper, row_weights_of(self.estimator, routed.fit), routed.split)
        seed = seed_sequence(self.random_state)
        final = seed.spawn(1)[0]
        for name in [name for name in vars(self) if name.endswith("_")]:  # of an earlier fit
            delattr(self, name)
        self.scorer_ = check_scoring(self.estimator, scoring=self.scoring)
        if len(tolerances) > 1 and plan.upper_on == "cv" and np.iterable(self.cv):
            raise ValueError(
                f"cv={self.cv!r} with upper_on='cv' and several tolerances: rows of each training part are split "
                "again, so give a number of folds or a splitter"
            )
        if len(tolerances) > 1 or (self.cv is not None and plan.upper_on != "cv"):
            splits = folds_of(plan, data)
            self.n_splits_ = len(splits)
            self.cv_results_ = cross_validate_tolerances(
                plan, data, tolerances, splits, self.scorer_, routed.score, seed.spawn(len(splits)),
                n_jobs=self.n_jobs, verbose=self.verbose, error_score=self.error_score,
            )  # fmt: skip
            self.best_index_ = best_index(self.cv_results_, self.refit)
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        else:
            self.cv_results_, self.best_index_ = {"params": [{"lower_tol": tolerances[0]}]}, 0
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        if self.refit is False:
            return self
        # smaller tolerances first: what they select are candidates for the chosen one
        path = [tol for tol in tolerances if tol <= tolerances[self.best_index_]]
        selected = select_models(plan, data, path, final)[path.index(tolerances[self.best_index_])]
        self.best_estimator_ = selected.estimator
        self.support_, self.n_features_selected_ = selected.support, selected.n_features
        self.lower_, self.upper_ = selected.lower, selected.upper
        self.lower_min_, self.upper_at_fit_ = selected.lower_min, selected.upper_at_fit
        self.optimizer_result_, self.message_ = selected.optimizer_result, selected.message
        self.n_iter_ = max(1, int(selected.optimizer_result.nit))
        if len(self.cv_results_) == 1:
            for name in ("n_features", "lower", "upper"):
                self.cv_results_[name] = np.array([getattr(selected, name)])
        return self

    # -- what the selected model offers --------------------------------------------------------------------------

    @available_if(_estimator_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any, **params: Any) -> Any:
        """Predictions of the selected model for rows X, (n_samples, n_features)."""
        return self._best().predict(X, **params)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes by the selected model, (n_samples, n_classes)."""
        return self._best().predict_proba(X)

    @available_if(_estimator_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities of the classes, (n_samples, n_classes)."""
        return self._best().predict_log_proba(X)

    @available_if(_estimator_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Decision function of the selected model."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Any = None, **params: Any) -> float:
        """Score of the selected model by `scoring`, or its own `score`.

        Parameters
        ----------
        X, y
            Rows and targets.
        **params
            What the scorer takes, such as `sample_weight`.
        """
        best = self._best()
        if sklearn.get_config()["enable_metadata_routing"]:
            params = process_routing(self, "score", **params).scorer.score
        return float(self.scorer_(best, X, y, **params))

    def _best(self) -> Any:
        check_is_fitted(self)
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(
                f"this {type(self).__name__} was fitted with refit=False, so there is no model to predict with: choose "
                "refit=True, '1se' or a callable"
            )
        return self.best_estimator_

    def _of_model(self, name: str) -> Any:
        model = self._best()
        while not hasattr(model, name) and isinstance(model, Pipeline):
            model = model.steps[-1][1]
        return getattr(model, name)

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the selected model."""
        return self._of_model("coef_")

    @property
    def intercept_(self) -> Any:
        """Intercept of the selected model."""
        return self._of_model("intercept_")

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the selected model."""
        return self._of_model("classes_")

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen by `fit`."""
        return self._of_model("n_features_in_")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns seen by `fit`."""
        return self._of_model("feature_names_in_")

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = deepcopy(own.classifier_tags), deepcopy(own.regressor_tags)
        tags.target_tags, tags.input_tags = deepcopy(own.target_tags), deepcopy(own.input_tags)
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Who is given which metadata: the estimator, the splitter, the scorer, the upper criterion."""
        return router_of(self)

    # -- parameters ----------------------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        if not (isinstance(self.refit, bool) or callable(self.refit) or self.refit == "1se"):
            raise ValueError(f"refit={self.refit!r}: choose True, False, '1se' or a callable of cv_results_")
        if not (isinstance(self.error_score, Real) or self.error_score == "raise"):
            raise ValueError(f"error_score={self.error_score!r}: give a number or 'raise'")
        return Plan(
            self.estimator, as_criterion(self.upper), self.lower, self.lower_atol, self.search_space, self.group_by,
            self.upper_on, self.validation_fraction, self.cv, self.n_particles, self.max_iter, self.max_fits,
            self.optimizer_params,
        )  # fmt: skip

    def _tolerances(self) -> list[float]:
        values = list(self.lower_tol) if np.iterable(self.lower_tol) else [self.lower_tol]
        if not values or not all(isinstance(v, Real) and 0.0 <= float(v) < np.inf for v in values):
            raise ValueError(f"lower_tol={self.lower_tol!r}: give a number, 0 or larger, or a list of such numbers")
        return [float(v) for v in values]
