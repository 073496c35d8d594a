"""Weight space of linear models: a loss of ``X @ coef_.T + intercept_`` plus L1 and L2 penalties."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

from ..particles.backend import Array
from .losses import Loss, Multinomial, SquaredError
from .training_data import TrainingData, add_blocks, blocks_of_particles
from .weight_spaces import WeightSpace

__all__ = ["LinearWeightSpace"]

# Up to this number of columns the Gram matrix of X is kept (32 MiB at most); it is made only where n_samples is larger
# or the columns are few.
MAX_GRAM_COLUMNS = 2000
SMALL_GRAM_COLUMNS = 200


class LinearWeightSpace(WeightSpace):
    """Weights of a linear model with outputs ``eta_k = X @ coef_k + intercept_k``.

    The objective is

        sum_ki row_weight_ki loss(eta_ki, targets_ki) + sum_kj (l2_k coef_kj^2 / 2 + l1_k |coef_kj|)

    and the layout of the vector is `coef_`, (n_outputs, n_features), row by row, then the n_outputs intercepts.
    Rows of weight zero are left out.

    Parameters
    ----------
    X : {ndarray, sparse array} of shape (n_samples, n_features)
        A sparse X is never made dense.
    targets : ndarray of shape (n_outputs, n_samples) or (n_samples,)
        What `loss` takes as y, a row for each output.
    loss : Loss
        From `sklearn_scb2o.model_selection.losses`.
    row_weight : ndarray of shape (n_outputs, n_samples), (1, n_samples) or (n_samples,), default=None
        Nonnegative factors of the losses; None for ``1 / n_samples``.
    fit_intercept : bool, default=True
        Whether the vector has intercepts.
    l2, l1 : float or ndarray of shape (n_outputs,), default=0.0
        Penalties of the coefficients.
    intercept_scaling : float, default=None
        None for intercepts without penalty; otherwise an intercept is penalised as the coefficient of a column of
        that constant value, which is what liblinear does.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_scb2o.model_selection.linear_spaces import LinearWeightSpace
    >>> from sklearn_scb2o.model_selection.losses import SquaredError
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    >>> space = LinearWeightSpace(X, y, SquaredError(), l1=0.5)
    >>> space.objective(np.array([[2.0, 1.0], [0.0, 3.0]]))  # the exact fit, and the mean
    array([1.        , 1.33333333])
    """

    is_convex = True

    def __init__(
        self,
        X: Any,
        targets: np.ndarray,
        loss: Loss,
        *,
        row_weight: np.ndarray | None = None,
        fit_intercept: bool = True,
        l2: float | np.ndarray = 0.0,
        l1: float | np.ndarray = 0.0,
        intercept_scaling: float | None = None,
    ) -> None:
        targets = np.atleast_2d(targets)
        if row_weight is None:
            row_weight = np.full(X.shape[0], 1.0 / X.shape[0])
        row_weight = np.atleast_2d(row_weight)
        used = np.any(row_weight > 0, axis=0)
        if not used.all():
            X, targets, row_weight = X[used], targets[:, used], row_weight[:, used]
        self._X, self._targets, self._row_weight, self.loss = X, targets, row_weight, loss
        self._fit_intercept = fit_intercept
        self.n_features = X.shape[1]
        self.n_outputs = K = len(targets)

        self._n_coef = K * self.n_features
        n_intercepts = K if fit_intercept else 0
        self.feature_of_weight = np.r_[np.tile(np.arange(self.n_features), K), np.full(n_intercepts, -1)]
        self.is_intercept = self.feature_of_weight < 0
        # a column of the constant c with coefficient v gives the intercept c v
        on_intercept = 0.0 if intercept_scaling is None else 1.0 / intercept_scaling
        l1, l2 = np.broadcast_to(l1, K), np.broadcast_to(l2, K)
        self._l2 = np.r_[np.repeat(l2, self.n_features), (on_intercept**2 * l2)[:n_intercepts]].astype(float)
        self.l1 = np.r_[np.repeat(l1, self.n_features), (on_intercept * l1)[:n_intercepts]] if np.any(l1 > 0) else None

        self._data = TrainingData(X, targets, row_weight, self._l2, self.l1)

        self.is_smooth = not loss.has_kink
        free = self._l2 == 0
        # free intercepts are unique where the loss is strictly convex, for any coefficients
        self.is_strictly_convex = bool(
            not np.any(free[: self._n_coef]) and (loss.is_strictly_convex or not np.any(free[self._n_coef :]))
        )

    def weights_of(self, estimator: Any) -> np.ndarray:
        """`coef_` and `intercept_` of a fitted estimator, as a new array of shape (n_weights,)."""
        coef = estimator.coef_.toarray() if sparse.issparse(estimator.coef_) else np.asarray(estimator.coef_)
        intercepts = np.ravel(estimator.intercept_) if self._fit_intercept else np.empty(0)
        weights = np.concatenate([coef.ravel(), intercepts]).astype(float)
        if len(weights) != self.n_weights:
            raise ValueError(f"estimator has {len(weights)} weights; this space has {self.n_weights}")
        return weights

    def put(self, weights: np.ndarray, estimator: Any) -> None:
        """Write `weights`, shape (n_weights,), into `coef_` and `intercept_`, in their shapes and dtypes."""
        weights = np.asarray(weights, dtype=float)
        old = estimator.coef_
        coef = weights[: self._n_coef].reshape(old.shape).astype(old.dtype)  # astype copies
        estimator.coef_ = type(old)(coef) if sparse.issparse(old) else coef
        if self._fit_intercept:
            old = np.asarray(estimator.intercept_)
            # [()] makes a number of an array of no dimensions
            estimator.intercept_ = weights[self._n_coef :].reshape(old.shape).astype(old.dtype)[()]

    def on(self, like: Array) -> WeightSpace:
        """The same space for weights that are arrays such as `like`; a sparse X stays with NumPy."""
        space = copy.copy(self)
        space._data = self._data.on(like)
        return space

    def _predictors(self, weights: Array, X: Any, xp: ModuleType) -> Iterator[tuple[slice, Array]]:
        """Slices of the population, with their linear predictors of shape (n_particles, n_outputs, n_samples)."""
        n, p, K = X.shape[0], self.n_features, self.n_outputs
        for block in blocks_of_particles(weights.shape[0], n * K):
            coef = xp.reshape(weights[block, : self._n_coef], (-1, p))
            eta = xp.reshape((X @ coef.T).T if sparse.issparse(X) else coef @ X.T, (-1, K, n))
            if self._fit_intercept:
                eta += weights[block, self._n_coef :, None]
            yield block, eta

    def objective(self, weights: Array) -> Array:
        """Training objective of each row of `weights`, (n_particles, n_weights) -> (n_particles,)."""
        X, targets, row_weight, l2, l1 = self._data
        weights, xp = self._data.weights(weights)
        blocks = []
        with np.errstate(over="ignore", invalid="ignore"):  # far away the value is infinite
            values = 0.5 * xp.sum(weights * l2 * weights, axis=1)
            if l1 is not None:
                values += xp.abs(weights) @ l1
            for _, eta in self._predictors(weights, X, xp):
                loss = self.loss.value(eta, targets)
                if row_weight.shape[0] == 1:
                    blocks.append(xp.sum(loss @ row_weight[0, :], axis=1))
                else:
                    blocks.append(xp.reshape(loss, (loss.shape[0], -1)) @ xp.reshape(row_weight, (-1,)))
            return add_blocks(values, blocks, xp)

    def gradient(self, weights: Array) -> Array:
        """Gradient of the objective at each row, (n_particles, n_weights) -> (n_particles, n_weights).

        The part of an L1 penalty at a weight that is zero is zero.
        """
        X, targets, row_weight, l2, l1 = self._data
        weights, xp = self._data.weights(weights)
        blocks = []
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = weights * l2
            if l1 is not None:
                gradient += xp.sign(weights) * l1
            for _, eta in self._predictors(weights, X, xp):
                slope = self.loss.derivative(eta, targets) * row_weight
                flat = xp.reshape(slope, (-1, slope.shape[-1]))
                by_weight = xp.reshape((X.T @ flat.T).T if sparse.issparse(X) else flat @ X, (-1, self._n_coef))
                if self._fit_intercept:
                    by_weight = xp.concat([by_weight, xp.sum(slope, axis=-1)], axis=1)
                blocks.append(by_weight)
            return add_blocks(gradient, blocks, xp)

    def hessian(self, weights: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Second derivative at one weight vector, (n_weights,), among its `active` entries, an array of indices.

        An L1 part has none. Of a multinomial model, a term is added that keeps the sum of free intercepts in place.
        """
        weights, active = np.asarray(weights, dtype=float), np.asarray(active, dtype=int)
        is_coef = active < self._n_coef
        output = np.where(is_coef, active // self.n_features, active - self._n_coef)
        column = np.where(is_coef, active % self.n_features, self.n_features)  # the last one is the constant
        penalty = np.diag(self._l2[active])

        if isinstance(self.loss, SquaredError) and self._gram is not None:
            return penalty + np.where(output[:, None] == output, self._gram[np.ix_(column, column)], 0.0)

        ((_, eta),) = self._predictors(weights[None], self._X, np)
        if isinstance(self.loss, Multinomial):  # diag(p) - p p^T
            p = self.loss.probabilities(eta[0])
            curvature = p * self._row_weight
        else:
            curvature = self.loss.second_derivative(eta[0], self._targets) * self._row_weight
        hessian = penalty
        for k in np.unique(output):
            mine = np.flatnonzero(output == k)
            hessian[np.ix_(mine, mine)] += self._scaled_gram(column[mine], np.sqrt(curvature[k])[None])
        if isinstance(self.loss, Multinomial):
            hessian -= self._scaled_gram(column, np.sqrt(self._row_weight) * p[output])
            # nothing changes when all intercepts shift together: a Newton step must not go there by rounding
            free = np.flatnonzero(~is_coef & (self._l2[active] == 0.0))
            hessian[np.ix_(free, free)] += np.sum(self._row_weight) / self.n_outputs**2
        return hessian

    def _scaled_gram(self, columns: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """``Z^T Z`` of ``Z = scale.T * [X, 1][:, columns]``; `scale`: (len(columns), n_samples) or (1, n_samples)."""
        gram = np.zeros((len(columns), len(columns)))
        is_feature = columns < self.n_features
        sparse_design = self._sparse_design[:, columns] if sparse.issparse(self._X) else None
        for rows in blocks_of_particles(self._X.shape[0], len(columns)):
            if sparse_design is not None:
                design = sparse_design[rows].multiply(scale[:, rows].T).tocsc()
                gram += (design.T @ design).toarray()
            else:
                design = np.ones((rows.stop - rows.start, len(columns)), order="F")
                design[:, is_feature] = self._X[rows][:, columns[is_feature]]
                design *= scale[:, rows].T
                gram += design.T @ design  # NumPy computes half of a matrix times its own transpose
        return gram

    @cached_property
    def _sparse_design(self) -> sparse.csc_array:
        """``[X, 1]`` of a sparse X."""
        return sparse.hstack([self._X, sparse.csr_array(np.ones((self._X.shape[0], 1)))], format="csc")

    @cached_property
    def _gram(self) -> np.ndarray | None:
        """``[X, 1]^T diag(row_weight) [X, 1]``, the same for all vectors; None where it is not worth its memory."""
        n, p = self._X.shape
        if p > min(max(n, SMALL_GRAM_COLUMNS), MAX_GRAM_COLUMNS) or len(self._row_weight) > 1:
            return None
        return self._scaled_gram(np.arange(p + 1), np.sqrt(self._row_weight))

    def smoothed(self, width: float) -> WeightSpace:
        """The same space with every kink of the loss rounded over `width` (in units of the linear predictor)."""
        if not self.loss.has_kink:
            return self
        space = copy.copy(self)
        space.loss = self.loss.smoothed(width)
        space.is_smooth = not space.loss.has_kink
        return space
