"""The optimizer on array libraries other than NumPy: the same mathematics, and nothing that waits for a device."""

import copy
import pickle

import array_api_compat
import array_api_strict as strict
import numpy as np
import pytest
from optimize_cases import BOX, advance, assert_equal_results, same, values
from scipy import stats

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning
from sklearn_scb2o.optimize import ask_tell as ask_tell_module
from sklearn_scb2o.optimize import history as history_module
from sklearn_scb2o.optimize import ranking as ranking_module
from sklearn_scb2o.particles import order_statistics
from sklearn_scb2o.particles.backend import dtype_name, get_namespace, to_numpy

#: array-api-strict on a device other than that of the host, which refuses to mix arrays with those of another
DEVICE = strict.Device("device1")


class Library:
    """An array library and a device, and optimizers on them."""

    def __init__(self, name):
        module = pytest.importorskip(name)
        self.name, self.xp, self.options = name, get_namespace(module.zeros(1)), {}
        if name == "cupy" and not self.xp.is_available():
            pytest.skip("no GPU")
        if name == "array_api_strict":
            self.options["device"] = DEVICE
        if name == "jax.numpy":
            self.options["dtype"] = "float32"
        self.is_double = "dtype" not in self.options
        self.tolerance = {"rtol": 1e-9, "atol": 1e-9} if self.is_double else {"rtol": 2e-3, "atol": 2e-3}
        self.type = type(self.array(1.0))

    def make(self, bounds=BOX, **options):
        return SCB2OOptimizer(
            bounds, **{"n_particles": 20, "random_state": 0, "xp": self.xp, **self.options, **options}
        )

    def make_plain(self, bounds=BOX, **options):
        """The same optimizer on NumPy."""
        known = {name: value for name, value in self.options.items() if name == "dtype"}
        return SCB2OOptimizer(bounds, **{"n_particles": 20, "random_state": 0, **known, **options})

    def array(self, value, dtype=None):
        value = np.asarray(value)
        if dtype is None and value.dtype.kind == "f" and "dtype" in self.options:
            value = value.astype(self.options["dtype"])
        return self.xp.asarray(value, dtype=dtype, device=self.options.get("device"))

    def values(self, X):
        """`values`, computed by the library."""
        xp = self.xp
        ones = xp.ones_like(X[..., :1])
        away = X - xp.concat([2.0 * ones, *[ones] * (X.shape[-1] - 1)], axis=-1)
        return (xp.sum(X * X, axis=-1) - 1.0) ** 2, xp.sum(away * away, axis=-1)


@pytest.fixture(
    scope="session", params=["array_api_strict", "torch", "cupy", pytest.param("jax.numpy", marks=pytest.mark.slow)]
)
def lib(request):
    return Library(request.param)


def tell(opt, wrong=None):
    """An iteration, with values computed in NumPy and told as arrays of the optimizer's library; the batch."""
    X = opt.ask()
    told = [np.array(v, dtype=dtype_name(X)) for v in values(to_numpy(X))]
    if wrong is not None:
        wrong(*told)
    if not isinstance(X, np.ndarray):
        xp, device = array_api_compat.array_namespace(X), array_api_compat.device(X)
        told = [xp.asarray(v, device=device) for v in told]
    opt.tell(*told)
    return to_numpy(X)


def wrong_values(L, G):
    L[..., 0], L[..., 1], G[..., :4] = np.nan, np.inf, np.nan


KINDS = {
    "default": {},
    "hard": {"selection": "hard"},
    "none": {"selection": "none"},
    "gumbel": {"selector": "gumbel"},
    "runs": {"n_runs": 2},
    "mini-batches": {"batch_size": 8},
    "isotropic": {"noise": "isotropic"},
    "anisotropic": {"noise": "anisotropic", "noise_cap": 0.5},
    "floor": {"noise_floor": 0.2},
    "clip": {"boundary": "clip"},
    "periodic": {"boundary": "periodic"},
    "xi": {"xi": 10.0},
    "tau": {"tau": 0.5, "alpha": 2.0},
    "lower_tol": {"lower_tol": 0.2, "lower_max": 50.0, "upper_max": 8.0},
    "x_opt": {"x_opt": [0.9, 0.4], "stagnation": 10},
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


# --- the same numbers as NumPy


def assert_same_iteration(lib, plain, opt, wrong=None):
    """From the state of an optimizer on NumPy both make an iteration."""
    plain.ask()
    opt.load_state_dict(plain.state_dict())
    np.testing.assert_array_equal(tell(opt, wrong), tell(plain, wrong))
    a, b = opt.result, plain.result
    for there, here in [(a.x, b.x), (a.consensus.x, b.consensus.x), *((a.best[k], b.best[k]) for k in b.best)]:
        np.testing.assert_allclose(there, here, **lib.tolerance)
    for name, column in b.history.items():
        np.testing.assert_allclose(a.history[name], column, **lib.tolerance, err_msg=name)
    for name in ("nfev_lower", "nfev_upper", "n_failed", "nit"):
        np.testing.assert_array_equal(a[name], b[name])


@each_kind
@pytest.mark.parametrize("wrong", [None, wrong_values], ids=["", "failures"])
def test_same_iteration_as_numpy(lib, kind, wrong):
    plain, opt = lib.make_plain(**kind), lib.make(random_state=5, **kind)
    for _ in range(2):
        assert_same_iteration(lib, plain, opt, wrong)


@each_kind
@pytest.mark.parametrize("wrong", [None, wrong_values], ids=["", "failures"])
def test_same_trajectory_as_numpy_by_its_random_numbers(kind, wrong):
    lib = Library("array_api_strict")
    plain, opt = lib.make_plain(**kind), lib.make(**kind)
    for _ in range(4):
        np.testing.assert_allclose(tell(opt, wrong), tell(plain, wrong), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(to_numpy(opt.consensus), plain.consensus, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(opt.result.n_failed, plain.result.n_failed)


@pytest.mark.parametrize("kind", [{}, {"batch_size": 8}, {"noise": "anisotropic"}], ids=str)
def test_runs_are_distributed_as_on_numpy(lib, kind):
    consensus = []
    for opt, f in ((lib.make_plain(n_runs=300, **kind), values), (lib.make(n_runs=300, **kind), lib.values)):
        for _ in range(5):
            opt.tell(*f(opt.ask()))
        consensus.append(to_numpy(opt.consensus))
    for j in range(2):
        assert stats.ks_2samp(consensus[0][:, j], consensus[1][:, j], method="asymp").pvalue > 0.001


@pytest.mark.parametrize("bounds", [[(0, None), (-3, 3)], [(None, None), (None, 1)]], ids=str)
@pytest.mark.parametrize("x0", [None, [0.5, 0.5], [[0.5, 0.5], [1.0, -1.0]]], ids=["", "point", "points"])
def test_first_population_is_distributed_as_on_numpy(lib, bounds, x0):
    first = [to_numpy(make(bounds, x0=x0, n_particles=500).ask()) for make in (lib.make_plain, lib.make)]
    given = 0 if x0 is None else len(np.atleast_2d(x0))
    np.testing.assert_array_equal(first[1][:given], first[0][:given])
    for j in range(2):
        assert stats.ks_2samp(first[0][given:, j], first[1][given:, j], method="asymp").pvalue > 0.001


@pytest.mark.parametrize("kind", [{}, {"n_runs": 2}, {"xi": 10.0}], ids=str)
def test_each_batch_is_ranked_once_even_if_upper_values_are_missing(lib, kind, monkeypatch):
    opt, calls = lib.make(**kind), []
    L, G = (to_numpy(v).copy() for v in lib.values(opt.ask()))
    G[..., ::3] = np.nan

    def count(*args, **options):
        calls.append(args)
        return order_statistics(*args, **options)

    monkeypatch.setattr(ranking_module, "order_statistics", count)
    opt.tell(lib.array(L), lib.array(G))
    assert len(calls) == 1


# --- nothing waits for the device


def forbid_the_host(monkeypatch, lib):
    """Let everything fail that brings the contents of an array to the host."""

    def refuse(*_, **__):
        raise AssertionError("an array came to the host")

    # what is not among these names, such as numpy.asarray of a device1, fails by itself
    names = ("__bool__", "__float__", "__int__", "__index__", "item", "tolist", "cpu", "numpy", "get", "to_device")
    for name in names:
        if hasattr(lib.type, name):
            monkeypatch.setattr(lib.type, name, refuse)
    if lib.name == "torch":
        monkeypatch.setattr(lib.type, "__array__", refuse)


@pytest.mark.parametrize("kind", ["default", "runs", "mini-batches", "periodic", "lower_tol", "x_opt"])
def test_ask_and_tell_leave_arrays_on_the_device(lib, kind, monkeypatch):
    opt = lib.make(**KINDS[kind])
    opt.tell(*lib.values(opt.ask()))  # whether each run has a consensus is looked at here
    forbid_the_host(monkeypatch, lib)
    for _ in range(3):
        X = opt.ask()
        L, G = lib.values(X)
        opt.needs_upper(L)
        opt.tell(L, G, drift=X if opt.batch_size == 20 else None)
    assert opt.consensus is not None
    opt.inject([[0.5, 0.5]])
    opt.tell(*lib.values(opt.ask()))
    opt.tell_consensus(1.0, 2.0)


def test_failures_are_looked_at_on_the_host_when_asked(lib):
    opt = lib.make()
    tell(opt)

    def nans(L, G):
        L[:] = np.nan

    tell(opt, nans)
    tell(opt)
    with pytest.warns(SCB2OWarning, match="all 20 evaluations of iteration 2 failed; the consensus is kept"):
        opt.stop()
    opt.stop()
    assert opt.result.n_failed == 20
    assert np.isfinite(to_numpy(opt.consensus)).all()


def test_failures_are_looked_at_every_so_many_iterations(lib, monkeypatch):
    for module in (ask_tell_module, history_module):
        monkeypatch.setattr(module, "LOOK_EVERY", 8)
    opt = lib.make()
    for i in range(7):
        L, G = lib.values(opt.ask())
        opt.tell(L * np.nan if i == 5 else L, G)
    with pytest.warns(SCB2OWarning, match="of iteration 6 failed"):
        opt.tell(*lib.values(opt.ask()))


def test_failed_batches_in_a_row_are_an_error(lib):
    opt = lib.make(max_failed_batches=3)
    for _ in range(3):
        L, G = lib.values(opt.ask())
        opt.tell(L * np.nan, G)
    with pytest.warns(SCB2OWarning), pytest.raises(RuntimeError, match="3 batches in a row"):
        opt.stop()


def test_fresh_points_are_drawn_until_a_run_has_a_consensus(lib):
    opt = lib.make(n_runs=2)

    def nans(L, G):
        L[1] = np.nan

    first = tell(opt, nans)
    second = tell(opt)
    assert not np.isin(second[1], first[1]).any()
    assert np.isfinite(to_numpy(opt.consensus)).all()
    with pytest.warns(SCB2OWarning, match="in 1 of 2 runs"):
        opt.stop()


# --- arrays and types


def test_arrays_are_of_the_library(lib):
    opt = lib.make()
    X = opt.ask()
    L, G = lib.values(X)
    needed = opt.needs_upper(L)
    opt.tell(L, G)
    for array in (X, needed, opt.consensus):
        assert isinstance(array, lib.type)
        assert array_api_compat.device(array) == lib.options.get("device", array_api_compat.device(lib.array(1.0)))
    assert dtype_name(X) == ("float64" if lib.is_double else "float32")


def test_library_by_name():
    for name in ("array_api_strict", "torch"):
        pytest.importorskip(name)
        assert type(SCB2OOptimizer(BOX, xp=name).ask()).__module__.startswith(name)


def test_library_and_device_are_those_of_x0(lib):
    start = lib.array([1.0, 2.0])
    X = SCB2OOptimizer(BOX, x0=start).ask()
    assert isinstance(X, lib.type)
    assert array_api_compat.device(X) == array_api_compat.device(start)
    np.testing.assert_array_equal(to_numpy(X)[0], [1.0, 2.0])


@pytest.mark.slow
def test_type_that_the_library_has_not_is_refused():
    pytest.importorskip("jax")
    with pytest.raises(ValueError, match="jax_enable_x64"):
        SCB2OOptimizer(BOX, xp="jax.numpy", dtype="float64")


def test_values_may_be_numpy_arrays_or_lists(lib):
    opts = [lib.make() for _ in range(3)]
    for opt, convert in zip(opts, (lib.array, np.asarray, np.ndarray.tolist), strict=True):
        opt.tell(*map(convert, values(to_numpy(opt.ask()))))
    consensus = [to_numpy(opt.consensus) for opt in opts]
    assert same(consensus[:1] * 2, consensus[1:])


@pytest.mark.parametrize("kind", [{}, {"n_runs": 2}, {"selection": "hard"}, {"selector": "gumbel"}], ids=str)
def test_float32(lib, kind):
    plain, opt = lib.make_plain(dtype="float32", **kind), lib.make(dtype="float32", **kind)
    for _ in range(3):
        assert dtype_name(opt.ask()) == "float32"
        plain.ask()
        opt.load_state_dict(plain.state_dict())
        np.testing.assert_array_equal(tell(opt), tell(plain))
        np.testing.assert_allclose(to_numpy(opt.consensus), plain.consensus, rtol=2e-3, atol=2e-3)


def test_wrong_shape_is_refused(lib):
    opt = lib.make()
    opt.ask()
    with pytest.raises(ValueError, match=r"\(20,\)"):
        opt.tell(lib.array(np.zeros((20, 1))), lib.array(np.zeros(20)))
    tell(opt)
    assert opt.n_iter == 1


def test_told_arrays_stay_as_they_were(lib):
    opt = lib.make()
    told = [lib.array(v) for v in values(to_numpy(opt.ask()))]
    kept = [np.array(to_numpy(v)) for v in told]
    opt.tell(*told)
    opt.ask()
    assert same([to_numpy(v) for v in told], kept)


def test_asked_array_is_a_copy(lib):
    if lib.name == "jax.numpy":
        pytest.skip("arrays of JAX cannot be written to")
    opt, other = lib.make(), lib.make()
    for _ in range(2):
        X = opt.ask()
        LG = values(to_numpy(X))
        X[...] = 7.0
        opt.tell(*map(lib.array, LG))
        tell(other)
    assert same([to_numpy(opt.ask())], [to_numpy(other.ask())])


def test_values_with_a_gradient_are_taken_without_it():
    torch = pytest.importorskip("torch")
    opt = SCB2OOptimizer(BOX, xp=torch, n_particles=20)
    X = opt.ask().requires_grad_()
    opt.tell(torch.sum(X * X, -1), torch.sum(X, -1))
    assert not opt.consensus.requires_grad


def test_result_is_of_numpy_arrays(lib):
    opt = lib.make()
    tell(opt)
    opt.tell_consensus(0.0, 1.0)
    result = opt.result
    assert (result.consensus.lower, result.history["upper"].tolist()) == (0.0, [1.0])
    for value in (result.x, result.best.x, result.population.x, result.population.lower):
        assert type(value) is np.ndarray


def test_injection(lib):
    opt = lib.make()
    tell(opt)
    opt.inject(lib.array([[1.0, 2.0], [0.5, 0.25]]))
    points = to_numpy(opt.ask()).tolist()
    assert [1.0, 2.0] in points
    assert [0.5, 0.25] in points


def test_injected_points_take_the_places_that_they_take_on_numpy(lib):
    plain, opt = lib.make_plain(n_runs=2), lib.make(n_runs=2)
    tell(plain)
    plain.inject([[1.0, 2.0], [0.5, 0.25]])
    opt.load_state_dict(plain.state_dict())
    places = [
        np.argwhere((to_numpy(o.ask()) == point).all(-1)) for o in (plain, opt) for point in ([1, 2], [0.5, 0.25])
    ]
    assert same(places[:2], places[2:])


def test_points_one_by_one(lib):
    opt = lib.make()
    for _ in range(12):
        ids, X = opt.ask(7)
        L, G = lib.values(X)
        opt.tell(L[:3], G[:3], ids=ids[:3])
        opt.tell(L[3:], G[3:], ids=ids[3:])
    assert opt.result.nfev_lower == 84
    assert np.isfinite(opt.result.x).all()


# --- saved and restored


@pytest.mark.parametrize("kind", [{}, {"n_runs": 2, "batch_size": 8}], ids=str)
@pytest.mark.parametrize("way", ["state", "file", "pickle", "deepcopy"])
def test_run_continues_to_the_bit(lib, way, kind, tmp_path):
    opt = lib.make(**kind)
    for _ in range(3):
        tell(opt)
    if way == "state":
        again = lib.make(**{**kind, "random_state": 9})
        again.load_state_dict(opt.state_dict())
    elif way == "file":
        opt.save(tmp_path / "run.scb2o")
        again = SCB2OOptimizer.load(tmp_path / "run.scb2o", **{k: lib.options[k] for k in lib.options if k == "device"})
    else:
        again = pickle.loads(pickle.dumps(opt)) if way == "pickle" else copy.deepcopy(opt)
    for _ in range(4):
        assert same([tell(opt)], [tell(again)])
    assert_equal_results(opt, again)


def test_seeds_give_the_same_run_and_others_another(lib):
    first, same_seed, other = (
        [tell(opt) for _ in range(3)] for opt in (lib.make(), lib.make(), lib.make(random_state=1))
    )
    assert same(first, same_seed)
    assert not np.isin(first, other).any()


def test_runs_are_independent(lib):
    X = to_numpy(lib.make(n_runs=3).ask())
    assert np.unique(X).size == X.size


def test_state_of_another_library_is_continued_by_other_random_numbers(lib):
    plain = lib.make_plain()
    advance(plain, 3)
    opts = [lib.make(random_state=seed) for seed in (1, 2)]
    for opt in opts:
        opt.load_state_dict(plain.state_dict())
    assert same([tell(opts[0]) for _ in range(3)], [tell(opts[1]) for _ in range(3)])
    back = lib.make_plain(random_state=7)
    back.load_state_dict(opts[0].state_dict())
    assert same([back.ask()], [to_numpy(opts[0].ask())]) or lib.name != "array_api_strict"


def test_values_of_numpy_run_take_arrays_of_another_library(make):
    opt, other = make(), make()
    opt.tell(*map(strict.asarray, values(opt.ask())))
    other.tell(*values(other.ask()))
    assert same([opt.consensus], [other.consensus])


def test_library_that_is_none_is_an_error():
    with pytest.raises(ImportError, match="no_such_library"):
        SCB2OOptimizer([(0, 1)], xp="no_such_library")
