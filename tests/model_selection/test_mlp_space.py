import copy
import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_scb2o.model_selection import make_weight_space

VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
takes_sample_weight = pytest.mark.skipif(VERSION < (1, 7), reason="no sample_weight")

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3))
Y1 = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=50)
Y2 = np.c_[Y1, X[:, 2]]
TWO = np.where(Y1 > 0.7, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(Y1, [0.0, 1.0])]
LABELS = 1 * (np.c_[Y2, -Y1] > 0.2)
COUNTS = rng.poisson(np.exp(0.5 * X[:, 0]))
WEIGHTS = rng.integers(0, 4, size=50)

CASES = {
    "regression": (MLPRegressor, {}, Y1),
    "regression, two outputs": (MLPRegressor, {}, Y2),
    "two classes": (MLPClassifier, {}, TWO),
    "three classes": (MLPClassifier, {}, THREE),
    "labels": (MLPClassifier, {}, LABELS),
}
if VERSION >= (1, 7):
    CASES["poisson"] = (MLPRegressor, {"loss": "poisson"}, COUNTS)
ACTIVATIONS = ["identity", "logistic", "tanh", "relu"]


def fitted(name, sample_weight=None, X=X, **params):
    model, own, y = CASES[name]
    defaults = {"hidden_layer_sizes": (4, 3), "activation": "tanh", "solver": "lbfgs", "alpha": 0.5, "random_state": 0}
    estimator = model(**{**defaults, "tol": 1e-7, "max_iter": 20, "max_fun": 100_000, **own, **params})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged
        estimator.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
    return estimator, y


def space_of(name, sample_weight=None, **params):
    estimator, y = fitted(name, **params)
    space = make_weight_space(estimator, X, y, sample_weight)
    return space, space.weights_of(estimator)


def around(w, n=6, scale=0.5):
    return w + scale * np.random.default_rng(1).normal(size=(n, len(w)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=takes_sample_weight)])
@pytest.mark.parametrize("name", CASES)
def test_objective_is_the_loss_that_scikit_learn_reports(name, weighted, activation):
    weight = WEIGHTS if weighted else None
    estimator, y = fitted(name, weight, activation=activation)
    space = make_weight_space(estimator, X, y, weight)
    objective = space.objective(space.weights_of(estimator)[None])[0]
    if name == "regression, two outputs":  # scikit-learn reports the mean over the outputs and minimises their sum
        weight = np.ones(50) if weight is None else weight
        errors = weight @ (estimator.predict(X) - y) ** 2 / weight.sum()
        objective += 0.5 * errors.mean() - 0.5 * errors.sum()
    assert objective == pytest.approx(estimator.loss_, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=takes_sample_weight)])
@pytest.mark.parametrize("name", sorted(CASES.keys() - {"regression, two outputs"}))
def test_fit_of_scikit_learn_is_a_local_minimum(name, weighted):
    weight = WEIGHTS if weighted else None
    estimator, y = fitted(name, weight, max_iter=5000)
    space = make_weight_space(estimator, X, y, weight)
    w = space.weights_of(estimator)
    assert np.max(np.abs(space.gradient(w[None]))) < 1e-3
    value = space.objective(w[None])[0]
    for scale in (1e-1, 1e-2):
        assert np.all(space.objective(around(w, 200, scale)) > value)


def test_full_batches_of_gradient_descent_follow_the_gradient():
    for name in ("regression, two outputs", "three classes"):
        settings = {"solver": "sgd", "momentum": 0.0, "learning_rate_init": 0.01, "batch_size": 50, "tol": 0.0}
        before, y = fitted(name, **settings, max_iter=3)
        after, _ = fitted(name, **settings, max_iter=4)
        space = make_weight_space(before, X, y)
        w = space.weights_of(before)
        np.testing.assert_allclose(space.weights_of(after), w - 0.01 * space.gradient(w[None])[0], atol=1e-14)


def test_penalty_of_stochastic_solvers_is_that_of_their_batches():
    estimator, y = fitted("regression", solver="adam", batch_size=10, max_iter=2)
    space = make_weight_space(estimator, X, y)
    w = space.weights_of(estimator)
    squares = sum(np.sum(coef**2) for coef in estimator.coefs_)
    expected = 0.5 * np.mean((estimator.predict(X) - y) ** 2) + 0.5 * 0.5 * squares / 10
    assert space.objective(w[None])[0] == pytest.approx(expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", CASES)
def test_gradient_matches_finite_differences(name, activation):
    space, w = space_of(name, WEIGHTS, activation=activation)
    for row in around(w, 3):
        steps = 1e-7 * np.eye(len(row))  # small, not to cross kinks
        difference = (space.objective(row + steps) - space.objective(row - steps)) / 2e-7
        np.testing.assert_allclose(space.gradient(row[None])[0], difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("hidden", [(), (5,), (4, 3), (3, 2, 4)])
@pytest.mark.parametrize("name", CASES)
def test_hessian_is_the_gauss_newton_matrix(name, hidden):
    """Against the second derivative of the loss of the linearised outputs."""
    estimator, y = fitted(name, hidden_layer_sizes=hidden)
    space = make_weight_space(estimator, X, y, WEIGHTS)
    w = around(space.weights_of(estimator), 1)[0]
    n, h = space.n_weights, 1e-6
    forward = lambda w: space._forward(space._X, *space._layers(w, np), np)[-1]  # noqa: E731
    jacobian = (forward(w + h * np.eye(n)) - forward(w - h * np.eye(n))) / (2 * h)
    eta = forward(w[None])[0]
    expected = np.diag(space._l2)
    for i, weight in enumerate(space._row_weight):
        curvature = np.empty((len(eta), len(eta)))
        for k in range(len(eta)):
            step = np.zeros((len(eta), 1))
            step[k] = h
            slopes = [space.loss.derivative(eta[:, [i]] + s * step, space._targets[:, [i]])[:, 0] for s in (1, -1)]
            curvature[k] = (slopes[0] - slopes[1]) / (2 * h)
        expected += weight * jacobian[:, :, i] @ curvature @ jacobian[:, :, i].T
    hessian = space.hessian(w, np.arange(n))
    np.testing.assert_allclose(hessian, expected, atol=1e-6)
    assert np.linalg.eigvalsh(hessian).min() > -1e-12
    active = np.random.default_rng(2).permutation(n)[: n // 2]
    np.testing.assert_allclose(space.hessian(w, active), hessian[np.ix_(active, active)], atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_hessian_is_the_second_derivative_where_the_outputs_are_linear(name):
    space, w = space_of(name, hidden_layer_sizes=())
    w = around(w, 1)[0]
    steps = 1e-6 * np.eye(len(w))
    difference = (space.gradient(w + steps) - space.gradient(w - steps)) / 2e-6
    np.testing.assert_allclose(space.hessian(w, np.arange(len(w))), difference, atol=1e-6)


def test_hessian_is_the_second_derivative_at_zero_residuals():
    estimator, _ = fitted("regression, two outputs")
    estimator.alpha = 0.0
    space = make_weight_space(estimator, X, estimator.predict(X))
    w = space.weights_of(estimator)
    assert space.objective(w[None])[0] < 1e-28
    steps = 1e-6 * np.eye(len(w))
    difference = (space.gradient(w + steps) - space.gradient(w - steps)) / 2e-6
    np.testing.assert_allclose(space.hessian(w, np.arange(len(w))), difference, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_population_is_its_rows_whatever_the_blocks(name):
    space, w = space_of(name, WEIGHTS)
    w = around(w)
    objective, gradient, hessian = space.objective(w), space.gradient(w), space.hessian(w[0], np.arange(9))
    np.testing.assert_allclose(objective, [space.objective(row[None])[0] for row in w], rtol=1e-12)
    np.testing.assert_allclose(gradient, [space.gradient(row[None])[0] for row in w], atol=1e-12)
    with sklearn.config_context(working_memory=1e-4):  # one particle, one row
        np.testing.assert_allclose(space.objective(w), objective, rtol=1e-12)
        np.testing.assert_allclose(space.gradient(w), gradient, atol=1e-12)
        np.testing.assert_allclose(space.hessian(w[0], np.arange(9)), hessian, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_integer_weights_are_repeated_rows(name):
    estimator, y = fitted(name)
    space = make_weight_space(estimator, X, y, WEIGHTS)
    repeated = make_weight_space(estimator, np.repeat(X, WEIGHTS, axis=0), np.repeat(y, WEIGHTS, axis=0))
    w = around(space.weights_of(estimator))
    np.testing.assert_allclose(space.objective(w), repeated.objective(w), rtol=1e-12)
    np.testing.assert_allclose(space.gradient(w), repeated.gradient(w), atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_sparse_is_dense(name):
    estimator, y = fitted(name)
    holes = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, space = (make_weight_space(estimator, A, y, WEIGHTS) for A in (holes, sparse.csr_array(holes)))
    w = around(dense.weights_of(estimator))
    np.testing.assert_allclose(space.objective(w), dense.objective(w), rtol=1e-12)
    np.testing.assert_allclose(space.gradient(w), dense.gradient(w), atol=1e-12)
    active = np.array([0, 20, 5, len(w[0]) - 1])
    np.testing.assert_allclose(space.hessian(w[0], active), dense.hessian(w[0], active), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_put_round_trip(name, dtype):
    estimator, y = fitted(name, X=X.astype(dtype))
    twin = copy.deepcopy(estimator)
    space = make_weight_space(estimator, X.astype(dtype), y)
    w = space.weights_of(estimator)
    space.put(np.zeros(len(w)), twin)
    assert not np.any(space.weights_of(twin))
    given = w.copy()
    space.put(given, twin)
    given[:] = np.nan
    for before, after in zip(
        [*estimator.coefs_, *estimator.intercepts_], [*twin.coefs_, *twin.intercepts_], strict=True
    ):
        assert np.array_equal(after, before)
        assert after.dtype == before.dtype
    assert np.array_equal(space.weights_of(twin), w)
    assert np.array_equal(twin.predict(X), estimator.predict(X))


def test_layout_and_units():
    estimator, y = fitted("three classes")
    space = make_weight_space(estimator, X, y)
    w = space.weights_of(estimator)
    n_coef = 3 * 4 + 4 * 3 + 3 * 3
    assert np.array_equal(w[:12].reshape(3, 4), estimator.coefs_[0])
    assert np.array_equal(space.feature_of_weight[:12], np.repeat([0, 1, 2], 4))
    assert np.all(space.feature_of_weight[12:] == -1)
    assert np.array_equal(space.is_intercept, np.arange(n_coef + 10) >= n_coef)
    units = space.units()
    assert units.shape == (7, space.n_weights)
    assert np.array_equal(units.sum(axis=1), [3 + 1 + 3] * 4 + [4 + 1 + 3] * 3)
    for u, (layer, j) in enumerate([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]):
        marked = copy.deepcopy(estimator)
        space.put(np.zeros(len(w)), marked)
        marked.coefs_[layer][:, j] = marked.intercepts_[layer][j] = marked.coefs_[layer + 1][j] = 1.0
        assert np.array_equal(units[[u]].toarray()[0], space.weights_of(marked) == 1.0)


def test_a_network_without_hidden_layers_has_no_units():
    space, _ = space_of("regression", hidden_layer_sizes=())
    assert space.units().shape == (0, 4)


def test_only_relu_has_kinks():
    for activation in ACTIVATIONS:
        space, _ = space_of("regression", activation=activation)
        assert space.is_smooth == (activation != "relu")
        assert not space.is_strictly_convex
        assert space.l1 is None


def test_pipeline():
    pipeline = make_pipeline(StandardScaler(), fitted("three classes")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(X, THREE)
    space = make_weight_space(pipeline, X, THREE)
    w = space.weights_of(pipeline)
    assert space.objective(w[None])[0] == pytest.approx(pipeline[-1].loss_)
    assert space.units().shape == (7, len(w))


def test_tiny_losses_keep_their_digits():
    estimator, _ = fitted("regression", hidden_layer_sizes=(3,), activation="identity")
    estimator.alpha = 0.0
    y = estimator.predict(X)
    space = make_weight_space(estimator, X, y + 1e-12)
    objective = space.objective(space.weights_of(estimator)[None])[0]
    assert objective == pytest.approx(0.5e-24, rel=1e-2)


def test_bad_targets():
    estimator, _ = fitted("regression, two outputs")
    with pytest.raises(ValueError, match="1 outputs; MLPRegressor was fitted to 2"):
        make_weight_space(estimator, X, Y1)
    estimator, _ = fitted("three classes")
    with pytest.raises(ValueError, match=r"not fitted to: .*yes"):
        make_weight_space(estimator, X, TWO)
    space = make_weight_space(estimator, X, THREE)
    with pytest.raises(ValueError, match="layers"):
        space.weights_of(fitted("two classes")[0])
