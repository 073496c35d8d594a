"""What a larger tolerance buys, and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .panels import BLACK, BLUE, VERMILLION, make_axes

#: What the criteria of `cv_results_` are called in a picture.
LABELS = {"n_features": "features", "upper": "upper criterion", "lower": "training objective"}


class SelectionPathDisplay:
    r"""Cross-validation score and criterion of the selected models against the tolerance.

    Above the mean score over the folds, with its standard error :math:`s / \sqrt{k}` (s the standard deviation of k
    folds); below the mean criterion over the folds, with its smallest and largest value. Vertical lines: the tolerance
    of the best score, and the largest one whose score is within a standard error of it. A large marker: the one that
    was chosen.

    Parameters
    ----------
    tolerances : array of shape (n,)
        In ascending order, as all that follows.
    scores, criteria : arrays of shape (n, n_splits)
        Test scores and criteria of the folds.
    criterion, scoring : str
        Their names.
    best, within_1se, chosen : int
        Which tolerance has the best mean score, is the one-standard-error choice, was chosen.

    Attributes
    ----------
    axes_ : array of 2 Axes
        Scores, criteria.
    figure_ : Figure
        Theirs.
    scores_, criteria_ : ErrorbarContainer
        What is drawn.

    See Also
    --------
    sklearn.model_selection.ValidationCurveDisplay : scores against any parameter.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn_scb2o import BilevelSearchCV
    >>> from sklearn_scb2o.plotting import SelectionPathDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = BilevelSearchCV(LinearRegression(), lower_tol=[0.01, 0.1, 0.5], refit="1se", cv=3, random_state=0)
    >>> display = SelectionPathDisplay.from_estimator(search.fit(X, y))
    >>> display.criteria_.lines[0].get_ydata().round(1)
    array([6. , 3.3, 1. ])
    """

    def __init__(
        self,
        *,
        tolerances: NDArray[np.float64],
        scores: NDArray[np.float64],
        criteria: NDArray[np.float64],
        criterion: str,
        scoring: str,
        best: int,
        within_1se: int,
        chosen: int,
    ) -> None:
        self.tolerances = tolerances
        self.scores, self.criteria = scores, criteria
        self.criterion, self.scoring = criterion, scoring
        self.best, self.within_1se, self.chosen = best, within_1se, chosen

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, criterion: str = "n_features", ax: Any = None, **options: Any
    ) -> SelectionPathDisplay:
        """Draw the cross-validation of a fitted search.

        Parameters
        ----------
        estimator : BilevelSearchCV
            Fitted with several tolerances.
        criterion : {"n_features", "upper", "lower"}
            What is drawn below the score: number of features, upper criterion or training objective.
        ax, **options
            As for `plot`.

        Returns
        -------
        SelectionPathDisplay

        Raises
        ------
        ValueError
            If the search has compared no tolerances, or for an unknown criterion.
        """
        from ..model_selection.cross_validation import best_index

        results = getattr(estimator, "cv_results_", {})
        if "param_lower_tol" not in results:
            raise ValueError(
                "the search has compared no tolerances: fit BilevelSearchCV with several, lower_tol=[0.01, 0.1]"
            )
        if criterion not in LABELS:
            raise ValueError(f"criterion={criterion!r} is not one of {tuple(LABELS)}")
        tolerances = np.asarray(results["param_lower_tol"], dtype=float)
        order = np.argsort(tolerances)
        place = np.argsort(order)

        def table(name: str) -> NDArray[np.float64]:
            return np.stack([results[f"split{k}_{name}"] for k in range(estimator.n_splits_)], axis=1)[order]

        scoring = estimator.scoring if isinstance(estimator.scoring, str) else "score"
        return cls(
            tolerances=tolerances[order], scores=table("test_score"), criteria=table(criterion), criterion=criterion,
            scoring=scoring, best=place[best_index(results, True)], within_1se=place[best_index(results, "1se")],
            chosen=place[estimator.best_index_],
        ).plot(ax, **options)  # fmt: skip

    def plot(self, ax: Any = None, *, negate_score: bool = False, legend: bool = True) -> SelectionPathDisplay:
        """Draw score and criterion above each other.

        Parameters
        ----------
        ax : Axes or array of 2 Axes, optional
            Where; the place of a single one is divided. By default a new figure.
        negate_score : bool
            Whether the scores change their sign, such as those of "neg_log_loss".
        legend : bool
            Whether there is an explanation of the lines.

        Returns
        -------
        self
        """
        axes = make_axes(self, ax, 2, stacked=True, size=(5.2, 2.6))
        k = self.scores.shape[1]
        scores, name = self.scores, self.scoring
        if negate_score:
            scores, name = -scores, name.removeprefix("neg_")
        error = np.std(scores, axis=1, ddof=1) / np.sqrt(k) if k > 1 else np.zeros(len(scores))
        mean, count = scores.mean(axis=1), self.criteria.mean(axis=1)
        ranges = np.abs(np.stack([self.criteria.min(axis=1), self.criteria.max(axis=1)]) - count)
        style = {"color": BLUE, "linewidth": 1.6, "elinewidth": 1.0, "capsize": 3, "markersize": 4.5}
        self.scores_ = axes[0].errorbar(self.tolerances, mean, error, fmt="o-", **style)
        self.criteria_ = axes[1].errorbar(self.tolerances, count, ranges, fmt="s-", **style)
        at = self.tolerances[self.chosen]
        for panel, values in zip(axes, (mean, count), strict=True):
            panel.axvline(self.tolerances[self.best], color=BLACK, linestyle=":", label="best score")
            panel.axvline(
                self.tolerances[self.within_1se], color=VERMILLION, linestyle="--", label="one standard error"
            )
            chosen = {"marker": "D", "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.6}
            panel.plot(at, values[self.chosen], **chosen, color=BLACK, linestyle="none", label="chosen")
            _set_scale(panel, self.tolerances)
        axes[0].set(ylabel=name.replace("_", " "))
        axes[1].set(ylabel=LABELS[self.criterion], xlabel="tolerance of the training objective")
        if self.criterion == "n_features":
            axes[1].set_ylim(0.0, None)
        if legend:
            axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize="small")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _set_scale(panel: Any, tolerances: NDArray[np.float64]) -> None:
    """A logarithmic scale, with room for a tolerance of 0 where there is one, and ticks at up to ten tolerances."""
    positive = tolerances[tolerances > 0.0]
    if len(positive) < 2:
        return
    if len(positive) == len(tolerances):
        panel.set_xscale("log")
    else:
        panel.set_xscale("symlog", linthresh=positive.min(), linscale=0.5)
    if len(tolerances) <= 10:
        panel.set_xticks(tolerances, [f"{tol:.3g}" for tol in tolerances])
        panel.set_xticks([], minor=True)
