"""Upper criteria of an estimator on data: worst group, gaps between groups, calibration; smaller is better."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import get_config
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from .metric_inputs import check_binning, check_loss
from .metrics import (
    demographic_parity_gap,
    equalized_odds_gap,
    expected_calibration_error,
    worst_group_loss,
)

__all__ = ["DemographicParityGap", "EqualizedOddsGap", "ExpectedCalibrationError", "WorstGroupLoss"]


@dataclass(frozen=True, kw_only=True)
class _Criterion:
    # what the user asked for with `set_score_request`; a dictionary has no hash
    _requests: dict[str, Any] = field(default_factory=dict, init=False, repr=False, hash=False)

    def get_metadata_routing(self) -> MetadataRequest:
        """Metadata that the criterion asks a meta-estimator for, under the method `score`.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
            The requests.
        """
        request = MetadataRequest(owner=type(self).__name__)
        for name, alias in (self._default_requests() | self._requests).items():
            request.score.add_request(param=name, alias=alias)
        return request

    def set_score_request(
        self, *, sensitive_features: bool | str | None = UNCHANGED, sample_weight: bool | str | None = UNCHANGED
    ) -> Self:
        """Change which metadata the criterion asks for; see scikit-learn's user guide on metadata routing.

        Parameters
        ----------
        sensitive_features, sample_weight : bool, str or None
            True: pass it on; False: do not; None: an error if the user gives it; a name: pass what has that name.

        Returns
        -------
        self
            The criterion itself.

        Raises
        ------
        RuntimeError
            If metadata routing is not enabled in scikit-learn's configuration.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError("Enable metadata routing first: sklearn.set_config(enable_metadata_routing=True).")
        given = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        changes = {name: alias for name, alias in given.items() if alias != UNCHANGED}
        for name, alias in changes.items():
            MetadataRequest(owner=type(self).__name__).score.add_request(param=name, alias=alias)  # refuses nonsense
        self._requests.update(changes)
        return self

    def _default_requests(self) -> dict[str, Any]:
        return {"sensitive_features": False, "sample_weight": None}


@dataclass(frozen=True, kw_only=True)
class _GroupCriterion(_Criterion, ABC):
    sensitive: int | str | Callable[[Any], ArrayLike] | None = None

    def __post_init__(self) -> None:
        valid = self.sensitive is None or isinstance(self.sensitive, (Integral, str)) or callable(self.sensitive)
        if not valid or isinstance(self.sensitive, bool):
            raise TypeError(
                f"sensitive must be None, a column's index or name, or a callable of X, got {self.sensitive!r}."
            )

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Value for a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            Model to judge.
        X : array-like or frame of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels or targets.
        sensitive_features : array-like of shape (n_samples,), default=None
            Group of each row; must be given if ``sensitive`` is None, and only then.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        float
            The value; smaller is better.
        """
        name = type(self).__name__
        if self.sensitive is None and sensitive_features is None:
            raise ValueError(
                f"{name} needs the groups: pass sensitive_features=, or give the column of X as {name}(sensitive=...)."
            )
        if self.sensitive is not None and sensitive_features is not None:
            raise ValueError(f"{name} takes its groups from sensitive={self.sensitive!r}; drop sensitive_features=.")
        groups = sensitive_features if self.sensitive is None else _sensitive_column(X, self.sensitive)
        return self._value(estimator, X, y, sensitive_features=groups, sample_weight=sample_weight)

    @abstractmethod
    def _value(self, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> float: ...

    def _default_requests(self) -> dict[str, Any]:
        return {"sensitive_features": self.sensitive is None, "sample_weight": None}


@dataclass(frozen=True, kw_only=True)
class WorstGroupLoss(_GroupCriterion):
    """Largest mean loss over groups, of an estimator: see `worst_group_loss`.

    Called as ``criterion(estimator, X, y, sensitive_features=None, sample_weight=None)``. Criteria compare equal if
    their options do, and can be copied and pickled (a callable option must be a named function for the latter).

    Parameters
    ----------
    sensitive : int, str, callable or None, default=None
        Where the groups are: a column of X by its index, or by its name in a pandas or polars frame, or a function
        of X that returns an array of shape (n_samples,). None: `sensitive_features` is passed with each call, and is
        requested under metadata routing. A numeric column may have at most 20 distinct values; bin it otherwise.
    loss : {"zero_one", "squared_error", "absolute_error", "log_loss"} or callable, default="zero_one"
        Loss of a row. The log-loss takes `predict_proba` of the estimator, all others take `predict`.

    Raises
    ------
    ValueError
        If ``loss`` is unknown; on a call also if no groups are given or they are given twice, and as the metric.
    TypeError
        If ``sensitive`` is of another type, or is a name and X has no named columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_scb2o.model_selection.fair_criteria import WorstGroupLoss
    >>> X = np.array([[0.0, 0], [1.0, 0], [2.0, 1], [3.0, 1]])
    >>> y = np.array([0, 0, 1, 1])
    >>> criterion = WorstGroupLoss(sensitive=1)
    >>> criterion
    WorstGroupLoss(sensitive=1, loss='zero_one')
    >>> criterion(LogisticRegression().fit(X, y), X, y)
    0.0
    """

    loss: str | Callable[[Any, Any], ArrayLike] = "zero_one"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_loss(self.loss)

    def _value(self, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> float:
        if self.loss == "log_loss":
            y_prob = estimator.predict_proba(X)
            return worst_group_loss(y, y_prob, loss=self.loss, labels=estimator.classes_, **options)
        return worst_group_loss(y, estimator.predict(X), loss=self.loss, **options)


@dataclass(frozen=True, kw_only=True)
class DemographicParityGap(_GroupCriterion):
    """Gap in selection rates between groups, of a classifier's `predict`: see `demographic_parity_gap`.

    Parameters
    ----------
    sensitive : int, str, callable or None, default=None
        Where the groups are, as in `WorstGroupLoss`.
    pos_label : label, default=None
        The one class to look at. None: all; with two classes they have the same gap.

    Raises
    ------
    ValueError
        On a call, if no groups are given or they are given twice, and as the metric.
    TypeError
        If ``sensitive`` is of another type, or is a name and X has no named columns.

    References
    ----------
    Dwork, Hardt, Pitassi, Reingold and Zemel (2012), Fairness through awareness, ITCS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_scb2o.model_selection.fair_criteria import DemographicParityGap
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> DemographicParityGap()(LogisticRegression().fit(X, y), X, y, sensitive_features=["a", "a", "b", "b"])
    1.0
    """

    pos_label: Any = None

    def _value(self, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> float:
        return demographic_parity_gap(y, estimator.predict(X), pos_label=self.pos_label, **options)


@dataclass(frozen=True, kw_only=True)
class EqualizedOddsGap(_GroupCriterion):
    """Larger gap in true- and false-positive rates, of a classifier's `predict`: see `equalized_odds_gap`.

    Parameters
    ----------
    sensitive : int, str, callable or None, default=None
        Where the groups are, as in `WorstGroupLoss`.
    pos_label : label, default=None
        The one class to look at. None: all; with two classes they have the same gap.

    Raises
    ------
    ValueError
        On a call, if no groups are given or they are given twice, and as the metric.
    TypeError
        If ``sensitive`` is of another type, or is a name and X has no named columns.

    References
    ----------
    Hardt, Price and Srebro (2016), Equality of opportunity in supervised learning, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_scb2o.model_selection.fair_criteria import EqualizedOddsGap
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> EqualizedOddsGap()(LogisticRegression().fit(X, y), X, y, sensitive_features=["a", "b", "a", "b"])
    0.0
    """

    pos_label: Any = None

    def _value(self, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> float:
        return equalized_odds_gap(y, estimator.predict(X), pos_label=self.pos_label, **options)


@dataclass(frozen=True, kw_only=True)
class ExpectedCalibrationError(_Criterion):
    """Expected calibration error of a classifier's `predict_proba`: see `expected_calibration_error`.

    Called as ``criterion(estimator, X, y, sample_weight=None)``. With two classes it bins the probability of
    ``classes_[1]``, with more the largest one.

    Parameters
    ----------
    n_bins : int, default=15
        Number of bins, at least 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width on [0, 1], or of about equal weight.

    Raises
    ------
    ValueError
        If an option is not one of those above; on a call, as the metric.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), On calibration of modern neural networks, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn_scb2o.model_selection.fair_criteria import ExpectedCalibrationError
    >>> X, y = np.zeros((4, 1)), np.array([0, 0, 0, 1])
    >>> ExpectedCalibrationError(n_bins=10)(DummyClassifier(strategy="prior").fit(X, y), X, y)
    0.0
    """

    n_bins: int = 15
    strategy: str = "uniform"

    def __post_init__(self) -> None:
        check_binning(self.n_bins, self.strategy)

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Value for a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Model to judge.
        X : array-like or frame of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels.
        sensitive_features : array-like, default=None
            Not used; here so that all criteria are called alike.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        float
            The error, in [0, 1]; smaller is better.
        """
        y_prob, classes = estimator.predict_proba(X), estimator.classes_
        options: Any = {"n_bins": self.n_bins, "strategy": self.strategy, "sample_weight": sample_weight}
        if len(classes) == 2:
            return expected_calibration_error(y, y_prob[:, 1], pos_label=classes[1], **options)
        return expected_calibration_error(y, y_prob, labels=classes, **options)


def _sensitive_column(X: Any, sensitive: Any) -> Any:
    if callable(sensitive):
        return sensitive(X)
    if isinstance(sensitive, str):
        if not hasattr(X, "columns"):
            raise TypeError(f"sensitive={sensitive!r} names a column, but X is no data frame: give the column's index.")
        if sensitive not in X.columns:
            raise ValueError(f"X has no column {sensitive!r}.")
        return X[sensitive]
    if hasattr(X, "iloc"):  # pandas
        return X.iloc[:, sensitive]
    if sparse.issparse(X):
        return X[:, [sensitive]].toarray().ravel()
    return (X if hasattr(X, "columns") else np.asarray(X))[:, sensitive]
