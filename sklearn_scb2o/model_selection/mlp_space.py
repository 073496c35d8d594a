"""Weight space of scikit-learn's multilayer perceptrons."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.utils import column_or_1d

from ..particles.backend import Array
from .losses import HalfPoisson, Logistic, Loss, Multinomial, SquaredError, expit
from .space_registry import register_weight_space
from .targets import class_indicators, class_indices, real_targets
from .training_data import TrainingData, add_blocks, blocks_of_particles
from .weight_spaces import WeightSpace

__all__ = ["MLPWeightSpace"]


_Activation = Callable[[Array, ModuleType], Array]
# Activations, and their derivatives as functions of the activation's value.
ACTIVATIONS: dict[str, tuple[_Activation, _Activation]] = {
    "identity": (lambda z, _: z, lambda a, xp: xp.ones_like(a)),
    "logistic": (expit, lambda a, _: a * (1.0 - a)),
    "tanh": (lambda z, xp: xp.tanh(z), lambda a, _: 1.0 - a**2),
    "relu": (lambda z, xp: xp.maximum(z, 0.0), lambda a, xp: xp.astype(a > 0, a.dtype)),
}


class MLPWeightSpace(WeightSpace):
    """Weights of a multilayer perceptron.

    With ``a_0 = x`` and ``a_l = activation(a_{l-1} @ coefs_[l] + intercepts_[l])`` the outputs `eta` are those of the
    last layer without an activation, and the objective is

        sum_ki row_weight_i loss(eta_ki, targets_ki) + l2 / 2 * sum_l ||coefs_[l]||^2

    The layout of the vector is ``coefs_[0]``, row by row, ``coefs_[1]``, ..., ``intercepts_[0]``, ...

    Parameters
    ----------
    X : {ndarray, sparse array} of shape (n_samples, n_features)
        A sparse X is never made dense.
    targets : ndarray of shape (n_outputs, n_samples)
        What `loss` takes as y.
    loss : Loss
        From `sklearn_scb2o.model_selection.losses`, of `eta`.
    layer_sizes : sequence of int
        n_features, the numbers of hidden units, n_outputs.
    activation : {"identity", "logistic", "tanh", "relu"}
        Of the hidden layers.
    row_weight : ndarray of shape (n_samples,), default=None
        Nonnegative factors of the losses; None for ``1 / n_samples``.
    l2 : float, default=0.0
        Penalty of the coefficients; biases have none.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_scb2o.model_selection.losses import SquaredError
    >>> from sklearn_scb2o.model_selection.mlp_space import MLPWeightSpace
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([[1.0, 0.0, 1.0]])
    >>> space = MLPWeightSpace(X, y, SquaredError(), [1, 2, 1], "relu")
    >>> space.objective(np.array([[1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]))  # |x| of two units
    array([0.])
    """

    def __init__(
        self,
        X: Any,
        targets: np.ndarray,
        loss: Loss,
        layer_sizes: Any,
        activation: str,
        *,
        row_weight: np.ndarray | None = None,
        l2: float = 0.0,
    ) -> None:
        if row_weight is None:
            row_weight = np.full(X.shape[0], 1.0 / X.shape[0])
        used = row_weight > 0
        if not used.all():
            X, targets, row_weight = X[used], targets[:, used], row_weight[used]
        self._X, self._targets, self._row_weight, self.loss = X, targets, row_weight, loss
        self._sizes = [int(size) for size in layer_sizes]
        self._activate, self._slope = ACTIVATIONS[activation]
        self.is_smooth = activation != "relu"

        shapes: list[tuple[int, ...]] = [*pairwise(self._sizes), *((size,) for size in self._sizes[1:])]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        # slice of the vector and shape of each of coefs_ and intercepts_
        self._parts = [(slice(end - int(np.prod(shape)), end), shape) for end, shape in zip(ends, shapes, strict=True)]
        self._n_layers = len(self._sizes) - 1
        n_coef = sum(fan_in * fan_out for fan_in, fan_out in pairwise(self._sizes))

        self.feature_of_weight = np.full(ends[-1], -1)
        self.feature_of_weight[self._parts[0][0]] = np.repeat(np.arange(self._sizes[0]), self._sizes[1])
        self.is_intercept = np.arange(ends[-1]) >= n_coef
        self._l2 = np.where(self.is_intercept, 0.0, l2)
        self._data = TrainingData(X, targets, row_weight, self._l2, None)

    def weights_of(self, estimator: Any) -> np.ndarray:
        """`coefs_` and `intercepts_` of a fitted estimator, as a new array of shape (n_weights,)."""
        arrays = [*estimator.coefs_, *estimator.intercepts_]
        if [array.shape for array in arrays] != [shape for _, shape in self._parts]:
            raise ValueError(f"estimator has layers {[c.shape for c in estimator.coefs_]}; this space {self._sizes}")
        return np.concatenate([np.ravel(array) for array in arrays]).astype(float)

    def put(self, weights: np.ndarray, estimator: Any) -> None:
        """Write `weights`, shape (n_weights,), into `coefs_` and `intercepts_`, in their dtypes."""
        weights = np.asarray(weights, dtype=float)
        arrays = [weights[part].reshape(shape) for part, shape in self._parts]
        old = [*estimator.coefs_, *estimator.intercepts_]
        new = [array.astype(before.dtype) for array, before in zip(arrays, old, strict=True)]  # astype copies
        estimator.coefs_, estimator.intercepts_ = new[: self._n_layers], new[self._n_layers :]

    def on(self, like: Array) -> WeightSpace:
        """The same space for weights that are arrays such as `like`; a sparse X stays with NumPy."""
        space = copy.copy(self)
        space._data = self._data.on(like)
        return space

    def _layers(self, weights: Array, xp: ModuleType) -> tuple[list[Array], list[Array]]:
        """Coefficients, (n_particles, fan_in, fan_out) each, and biases, (n_particles, fan_out) each."""
        arrays = [xp.reshape(weights[:, part], (weights.shape[0], *shape)) for part, shape in self._parts]
        return arrays[: self._n_layers], arrays[self._n_layers :]

    def _forward(self, X: Any, coefs: list[Array], biases: list[Array], xp: ModuleType) -> list[Array]:
        """Values of the layers after X, (n_particles, n_units, n_samples) each; of the last one before activation."""
        n_particles, p, n_units = coefs[0].shape
        flat = xp.reshape(xp.matrix_transpose(coefs[0]), (n_particles * n_units, p))
        # one product for all particles
        z = xp.reshape((X @ flat.T).T if sparse.issparse(X) else flat @ X.T, (n_particles, n_units, -1))
        z = z + biases[0][..., None]
        values = []
        for coef, bias in zip(coefs[1:], biases[1:], strict=True):
            values.append(self._activate(z, xp))
            z = xp.matrix_transpose(coef) @ values[-1] + bias[..., None]
        return [*values, z]

    def _blocks(self, weights: Array) -> Iterator[slice]:
        # a layer is held before and after its activation
        return blocks_of_particles(weights.shape[0], 2 * self._X.shape[0] * sum(self._sizes[1:]))

    def objective(self, weights: Array) -> Array:
        """Training objective of each row of `weights`, (n_particles, n_weights) -> (n_particles,)."""
        X, targets, row_weight, l2, _ = self._data
        weights, xp = self._data.weights(weights)
        blocks = []
        with np.errstate(over="ignore", invalid="ignore"):  # far away the value is infinite
            values = 0.5 * xp.sum(weights * l2 * weights, axis=1)
            for block in self._blocks(weights):
                eta = self._forward(X, *self._layers(weights[block, :], xp), xp)[-1]
                blocks.append(xp.sum(self.loss.value(eta, targets) @ row_weight, axis=1))
            return add_blocks(values, blocks, xp)

    def gradient(self, weights: Array) -> Array:
        """Gradient of the objective at each row, (n_particles, n_weights) -> (n_particles, n_weights).

        The derivative of relu at zero is zero, as in scikit-learn.
        """
        X, targets, row_weight, l2, _ = self._data
        weights, xp = self._data.weights(weights)
        blocks = []
        with np.errstate(over="ignore", invalid="ignore"):
            gradient = weights * l2
            for block in self._blocks(weights):
                coefs, biases = self._layers(weights[block, :], xp)
                *hidden, eta = self._forward(X, coefs, biases, xp)
                delta = self.loss.derivative(eta, targets) * row_weight
                by_coef, by_bias = [], []  # from the last layer to the first
                for layer in reversed(range(self._n_layers)):
                    by_bias.append(xp.sum(delta, axis=-1))
                    if layer == 0:
                        flat = xp.reshape(delta, (-1, delta.shape[-1]))
                        by_unit = (X.T @ flat.T).T if sparse.issparse(X) else flat @ X
                        by_coef.append(xp.matrix_transpose(xp.reshape(by_unit, (*delta.shape[:2], -1))))
                    else:
                        by_coef.append(hidden[layer - 1] @ xp.matrix_transpose(delta))
                        delta = (coefs[layer] @ delta) * self._slope(hidden[layer - 1], xp)
                n = delta.shape[0]
                blocks.append(xp.concat([xp.reshape(v, (n, -1)) for v in (*by_coef[::-1], *by_bias[::-1])], axis=1))
            return add_blocks(gradient, blocks, xp)

    def hessian(self, weights: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Gauss-Newton matrix plus penalty at one weight vector, (n_weights,), among its `active` entries.

        It is ``sum_i J_i^T L_i J_i`` with the Jacobian `J_i` of the outputs of row i by the weights and the second
        derivative `L_i` of the loss by the outputs; it leaves out the second derivatives of the outputs.
        """
        weights, active = np.asarray(weights, dtype=float), np.asarray(active, dtype=int)
        coefs, biases = self._layers(weights[None], np)
        n_outputs, n_active = self._sizes[-1], len(active)
        hessian = np.diag(self._l2[active])
        for rows in blocks_of_particles(self._X.shape[0], n_outputs * (2 * n_active + sum(self._sizes[1:]))):
            *hidden, eta = self._forward(self._X[rows], coefs, biases, np)
            jacobian = self._jacobian(self._X[rows], coefs, hidden, active)
            row_weight = self._row_weight[rows]
            if isinstance(self.loss, Multinomial):  # diag(p) - p p^T
                p = self.loss.probabilities(eta[0])
                mean = np.sum(jacobian * p, axis=1) * np.sqrt(row_weight)
                hessian -= mean @ mean.T
                curvature = p * row_weight
            else:
                curvature = self.loss.second_derivative(eta[0], self._targets[:, rows]) * row_weight
            jacobian *= np.sqrt(curvature)
            flat = jacobian.reshape(n_active, -1)
            hessian += flat @ flat.T
        return hessian

    def _jacobian(self, X: Any, coefs: list[np.ndarray], hidden: list[np.ndarray], active: np.ndarray) -> np.ndarray:
        """Derivatives of the outputs by the active weights of one vector, (n_active, n_outputs, n_samples)."""
        n_outputs, n_samples = self._sizes[-1], X.shape[0]
        jacobian = np.empty((len(active), n_outputs, n_samples))
        # derivatives of the outputs by the input of each unit of a layer, (n_units, n_outputs, n_samples)
        delta = np.broadcast_to(np.eye(n_outputs)[:, :, None], (n_outputs, n_outputs, n_samples))
        for layer in reversed(range(self._n_layers)):
            (part, shape), (bias_part, _) = self._parts[layer], self._parts[self._n_layers + layer]
            mine = np.flatnonzero((active >= bias_part.start) & (active < bias_part.stop))
            jacobian[mine] = delta[active[mine] - bias_part.start]
            mine = np.flatnonzero((active >= part.start) & (active < part.stop))
            source, unit = np.divmod(active[mine] - part.start, shape[1])
            if layer > 0:
                values = hidden[layer - 1][0]
                jacobian[mine] = values[source, None] * delta[unit]
                delta = np.tensordot(coefs[layer][0], delta, axes=1) * self._slope(values, np)[:, None]
            else:
                columns = X[:, source].toarray() if sparse.issparse(X) else X[:, source]
                jacobian[mine] = columns.T[:, None] * delta[unit]
        return jacobian

    def units(self) -> sparse.csr_array:
        """Membership (n_hidden_units, n_weights): a hidden unit has its incoming weights, bias and outgoing weights."""
        rows, columns = [], []
        index, first = np.arange(self.n_weights), 0
        for layer, size in enumerate(self._sizes[1:-1]):
            part, shape = self._parts[layer]
            incoming = index[part].reshape(shape).T
            part, _ = self._parts[self._n_layers + layer]
            bias = index[part][:, None]
            part, shape = self._parts[layer + 1]
            outgoing = index[part].reshape(shape)
            members = np.hstack([incoming, bias, outgoing])
            rows.append(np.repeat(np.arange(first, first + size), members.shape[1]))
            columns.append(members.ravel())
            first += size
        where = (np.concatenate(rows), np.concatenate(columns)) if rows else (np.empty(0, int), np.empty(0, int))
        return sparse.csr_array((np.ones(len(where[0]), dtype=bool), where), shape=(first, self.n_weights))


def _mlp(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray) -> WeightSpace:
    """MLPClassifier and MLPRegressor.

    Stochastic solvers add the whole penalty to the mean loss of every batch, lbfgs to that of all rows. (The `loss_`
    of an MLPRegressor with several outputs is the mean over them; the gradient that it follows is that of the sum.)
    """
    n_outputs = estimator.n_outputs_
    loss: Loss
    if estimator.out_activation_ == "softmax":
        targets, loss = class_indicators(estimator, column_or_1d(y)), Multinomial()
    elif estimator.out_activation_ == "logistic":
        y = y.toarray() if sparse.issparse(y) else np.asarray(y)
        several = y.ndim == 2 and y.shape[1] > 1
        indicators = y.T if several else class_indices(estimator, column_or_1d(y))[None]
        targets, loss = 2.0 * (indicators == 1) - 1.0, Logistic()
    else:
        targets = real_targets(y)
        loss = HalfPoisson() if estimator.out_activation_ == "exp" else SquaredError()
    if len(targets) != n_outputs:
        raise ValueError(f"y has {len(targets)} outputs; {type(estimator).__name__} was fitted to {n_outputs}")

    n_samples, total = X.shape[0], sample_weight.sum()
    batch_size = n_samples
    if estimator.solver != "lbfgs":
        batch_size = min(200 if estimator.batch_size == "auto" else estimator.batch_size, n_samples)
    return MLPWeightSpace(
        X,
        targets,
        loss,
        [estimator.coefs_[0].shape[0], *(coef.shape[1] for coef in estimator.coefs_)],
        estimator.activation,
        row_weight=sample_weight / total,
        l2=estimator.alpha / (total * batch_size / n_samples),
    )


for _class in (MLPClassifier, MLPRegressor):
    register_weight_space(_class, _mlp)
