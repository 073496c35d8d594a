"""Objectives of models, and the search over weights, on array libraries other than NumPy: the same numbers."""

import warnings

import array_api_compat
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sklearn_scb2o import BilevelSearchCV
from sklearn_scb2o.model_selection import WeightSpace, losses, make_weight_space
from sklearn_scb2o.model_selection.criteria import as_criterion
from sklearn_scb2o.model_selection.groups import groups_in, membership_of
from sklearn_scb2o.model_selection.linear_spaces import LinearWeightSpace
from sklearn_scb2o.model_selection.weight_search import Coordinates, Thresholded
from sklearn_scb2o.particles.backend import dtype_name, get_namespace, to_numpy

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 4)) + 0.3
Y = X @ [1.0, 2.0, 0.0, -1.0] + 0.5 * rng.standard_normal(50)
THREE = np.digitize(Y + rng.standard_normal(50), [-0.5, 1.5])
WEIGHT = rng.integers(0, 3, size=50).astype(float)
MODELS = {
    "least squares": (LinearRegression(), np.c_[Y, Y**2]),
    "ridge, no intercept": (Ridge(fit_intercept=False), Y),
    "elastic net": (ElasticNet(0.1), Y),
    "poisson": (PoissonRegressor(), THREE),
    "logistic": (LogisticRegression(class_weight="balanced"), THREE > 0),
    "multinomial": (LogisticRegression(), THREE),
    "svc, three classes": (LinearSVC(loss="hinge"), THREE),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), THREE > 0),
    "mlp classifier": (MLPClassifier((3, 2), activation="tanh", max_iter=5), THREE),
    "mlp regressor": (MLPRegressor(hidden_layer_sizes=(5,), activation="logistic", max_iter=5), np.c_[Y, -Y]),
    "mlp of two classes": (MLPClassifier((4,), max_iter=5), THREE > 0),
}
LOSSES = [
    loss
    for name in losses.__all__
    if name != "Loss"
    for loss in {getattr(losses, name)(), getattr(losses, name)().smoothed(0.5)}
]


class Library:
    """An array library on a device, of array-api-strict another one than the host's."""

    def __init__(self, name):
        module = pytest.importorskip(name)
        self.xp = get_namespace(module.zeros(1))
        if name == "cupy" and not module.is_available():
            pytest.skip("no GPU")
        self.device = module.Device("device1") if name == "array_api_strict" else None

    def array(self, values):
        return self.xp.asarray(np.array(values), device=self.device)

    @property
    def params(self):
        return {"xp": self.xp, "device": self.device}

    def holds(self, x):
        on_device = array_api_compat.device(x) == array_api_compat.device(self.array(0.0))
        return get_namespace(x) is self.xp and dtype_name(x) == "float64" and on_device


@pytest.fixture(scope="module", params=["array_api_strict", "torch", "cupy"])
def lib(request):
    return Library(request.param)


@pytest.fixture(scope="module", params=MODELS)
def space(request):
    model, y = MODELS[request.param]
    model = sklearn.base.clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return make_weight_space(model, X, y, WEIGHT)


def population(space, n=7):
    weights = np.random.default_rng(1).standard_normal((n, space.n_weights))
    weights[0] = 0.0
    return weights


# --- losses and objectives


@pytest.mark.parametrize("method", ["value", "derivative", "second_derivative"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_losses_equal_those_of_numpy(loss, method, lib):
    eta = np.random.default_rng(2).uniform(-40.0, 40.0, size=(4, 3, 30))
    eta[..., :3] = 0.0  # at kinks of some
    classes = np.random.default_rng(3).integers(3, size=30)
    if isinstance(loss, losses.Multinomial):
        y = 1.0 * (classes == np.arange(3)[:, None])
    else:
        y = np.tile(classes * 1.0 if isinstance(loss, losses.HalfPoisson) else 2.0 * (classes > 0) - 1.0, (3, 1))
    there = getattr(loss, method)(lib.array(eta), lib.array(y))
    assert lib.holds(there)
    np.testing.assert_allclose(to_numpy(there), getattr(loss, method)(eta, y), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("method", ["objective", "gradient"])
def test_objectives_equal_those_of_numpy(space, method, lib):
    weights = population(space)
    there = getattr(space.on(lib.array(weights)), method)(lib.array(weights))
    assert lib.holds(there)
    np.testing.assert_allclose(to_numpy(there), getattr(space, method)(weights), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["objective", "gradient"])
def test_objectives_are_computed_in_blocks(space, method, lib):
    weights = population(space, 60)
    with sklearn.config_context(working_memory=0.01):
        there = getattr(space.on(lib.array(weights)), method)(lib.array(weights))
    np.testing.assert_allclose(to_numpy(there), getattr(space, method)(weights), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["objective", "gradient"])
def test_objectives_in_single_precision(space, method, xp):
    weights = population(space)
    like = xp.module.asarray(weights, dtype=xp.module.float32)
    there = getattr(space.on(like), method)(like)
    assert dtype_name(there) == "float32"
    np.testing.assert_allclose(to_numpy(there), getattr(space, method)(weights), rtol=1e-4, atol=1e-4)


def test_a_space_elsewhere_leaves_that_of_numpy_as_it_was(space, lib):
    weights = population(space)
    before = space.objective(weights)
    active = np.arange(space.n_weights)
    there = space.on(lib.array(weights))
    np.testing.assert_array_equal(space.objective(weights), before)
    np.testing.assert_array_equal(there.hessian(weights[1], active), space.hessian(weights[1], active))


def test_a_sparse_x_stays_with_numpy(lib):
    space = LinearWeightSpace(sparse.csr_array(X), Y, losses.SquaredError())
    with pytest.raises(ValueError, match=r"X is sparse, .* leave xp out"):
        space.on(lib.array(population(space)))


def test_a_sparse_x_in_single_precision():
    weights = np.ones((2, 5))
    spaces = [LinearWeightSpace(make(X), Y, losses.SquaredError()) for make in (np.asarray, sparse.csr_array)]
    dense, thin = (space.on(weights.astype("f")).objective(weights) for space in spaces)
    assert thin.dtype == np.float32
    np.testing.assert_allclose(thin, dense, rtol=1e-5)


def test_an_objective_of_ones_own_is_computed_by_numpy(lib):
    class Doubled(WeightSpace):
        feature_of_weight, is_intercept = np.array([0, 1]), np.zeros(2, dtype=bool)

        def weights_of(self, estimator):
            return estimator.weights_

        def put(self, weights, estimator):
            estimator.weights_ = weights

        def objective(self, weights):
            assert isinstance(weights, np.ndarray)
            return 2.0 * np.sum(weights**2, axis=1)

    weights = population(Doubled())
    space = Doubled().on(lib.array(weights))
    assert lib.holds(space.objective(lib.array(weights)))
    np.testing.assert_allclose(to_numpy(space.objective(lib.array(weights))), Doubled().objective(weights))
    np.testing.assert_allclose(to_numpy(space.gradient(lib.array(weights))), 4.0 * weights, atol=1e-8)


# --- coordinates and criteria


def coordinates_of(kind, space, monkeypatch):
    if kind == "thresholded":
        return Thresholded(np.linspace(0.5, 2.0, space.n_weights), space.is_intercept)
    if kind == "plain":
        monkeypatch.setattr("sklearn_scb2o.model_selection.weight_search.MAX_WHITENED", 1)
    return Coordinates(space, np.linspace(-1.0, 1.0, space.n_weights), 0.1)


@pytest.mark.parametrize("kind", ["whitened", "plain", "thresholded"])
def test_coordinates_equal_those_of_numpy(kind, lib, monkeypatch):
    space = LinearWeightSpace(X, Y, losses.SquaredError())
    here = coordinates_of(kind, space, monkeypatch)
    u, slope = population(space), population(space)[::-1].copy()
    there = here.on(lib.array(u))
    np.testing.assert_allclose(to_numpy(there.weights(lib.array(u))), here.weights(u), rtol=1e-12)
    there = there.gradient(lib.array(u), lib.array(slope))
    np.testing.assert_allclose(to_numpy(there), here.gradient(u, slope), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("upper", ["l1", ("lp", 0.5)], ids=str)
def test_norms_equal_those_of_numpy(upper, lib):
    weights, is_intercept = population(LinearWeightSpace(X, Y, losses.SquaredError())), np.arange(5) == 4
    criterion = as_criterion(upper)
    there = criterion(lib.array(weights), is_intercept)
    assert lib.holds(there)
    np.testing.assert_allclose(to_numpy(there), criterion(weights, is_intercept), rtol=1e-12)


@pytest.mark.parametrize("group_by", ["feature", "weight", [1, 0, 1, 0], "unit"], ids=str)
def test_groups_that_are_in_equal_those_of_numpy(group_by, lib):
    model, y = MODELS["mlp of two classes"]
    with pytest.warns(match="Maximum iterations"):
        space = make_weight_space(sklearn.base.clone(model).fit(X, y), X, y)
    membership = membership_of(space, group_by, 4)
    weights = population(space, 20) * (np.random.default_rng(5).random((20, space.n_weights)) < 0.1)
    there = groups_in(membership, lib.array(weights))
    assert lib.holds(there)
    np.testing.assert_array_equal(to_numpy(there), groups_in(membership, weights))


# --- the search


def fitted(lib, *, estimator=None, y=Y, **options):
    params = {**lib.params, **options.pop("optimizer_params", {})}
    options = {"upper": "l1", "lower_tol": 0.1, "random_state": 0, "optimizer_params": params, **options}
    return BilevelSearchCV(LinearRegression() if estimator is None else estimator, **options).fit(X, y)


def test_reaches_the_smallest_value_of_a_linear_function_on_an_ellipsoid(lib):
    c = np.array([1.0, -2.0, 0.5, 1.0, 0.0])

    def upper(weights):
        assert lib.holds(weights)
        return weights @ lib.array(c)

    search = fitted(lib, upper=upper, n_particles=30, max_iter=60)
    Z = np.column_stack([X, np.ones(50)])
    slack = 0.1 * np.mean((LinearRegression().fit(X, Y).predict(X) - Y) ** 2)
    attainable = np.sqrt(50 * slack * c @ np.linalg.solve(Z.T @ Z, c))
    assert search.upper_at_fit_ - search.upper_ == pytest.approx(attainable, rel=0.1)
    assert search.upper_at_fit_ - search.upper_ <= attainable * (1.0 + 1e-6)


@pytest.mark.parametrize("kind", ["l1", "l0", "cost", "model", "mlp", "drift"])
def test_the_limit_holds_and_the_criterion_is_no_worse_than_at_the_fit(kind, lib):
    options = {
        "l1": {},
        "l0": {"upper": "l0", "search_space": "weights"},
        "cost": {"upper": ("cost", [1.0, 2.0, 1.0, 0.5]), "search_space": "weights"},
        "model": {"upper": lambda estimator, X, y: float(np.abs(estimator.predict(X)).mean())},
        "mlp": {"estimator": MLPRegressor(hidden_layer_sizes=(2,), solver="lbfgs", random_state=0)},
        "drift": {"optimizer_params": {"gamma": 0.5}},
    }[kind]
    search = fitted(lib, max_iter=15, n_particles=20, **options)
    assert search.lower_ <= search.lower_min_ * (1.1 + 1e-6)
    assert search.upper_ < search.upper_at_fit_
    assert type(search.optimizer_result_.x) is np.ndarray
    assert search.best_estimator_.predict(X).dtype == np.float64


def test_in_single_precision_the_limit_holds_in_double(xp):
    params = {"xp": xp.module, "dtype": "float32"}
    search = BilevelSearchCV(Ridge(), upper="l1", lower_tol=0.1, random_state=0, max_iter=30, optimizer_params=params)
    search.fit(X, Y)
    limit = search.lower_min_ * (1.1 + 1e-7)
    assert search.lower_min_ * 1.05 < search.lower_ <= limit
    assert search.upper_ < 0.95 * search.upper_at_fit_


def test_supports_are_searched_with_scores_of_the_library(lib):
    here = BilevelSearchCV(LogisticRegression(), lower_tol=0.1, random_state=0).fit(X, THREE > 0)
    there = fitted(lib, estimator=LogisticRegression(), y=THREE > 0, upper="l0")
    assert there.upper_ == here.upper_
    assert there.lower_ <= there.lower_min_ * (1.1 + 1e-6)


def test_library_by_name_survives_clone():
    pytest.importorskip("array_api_strict")
    params = {"xp": "array_api_strict", "n_particles": 10, "max_iter": 2}
    search = BilevelSearchCV(Ridge(), upper="l1", lower_tol=0.2, optimizer_params=params)
    assert sklearn.base.clone(search).fit(X, Y).upper_ > 0.0
