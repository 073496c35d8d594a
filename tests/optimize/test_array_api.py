import array_api_strict as strict
import numpy as np
import pytest
from optimize_cases import same, values

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning

STRICT_ARRAY = type(strict.zeros(1))


def tell(opt, wrong=None):
    """An iteration, with values computed in NumPy and told as arrays of the optimizer's library; the batch."""
    X = opt.ask()
    told = [np.array(v) for v in values(np.asarray(X))]
    if wrong is not None:
        wrong(*told)
    if isinstance(X, STRICT_ARRAY):
        told = [strict.asarray(v, dtype=X.dtype) for v in told]
    opt.tell(*told)
    return np.asarray(X)


KINDS = {
    "default": {},
    "hard": {"selection": "hard"},
    "none": {"selection": "none"},
    "gumbel": {"selector": "gumbel"},
    "runs": {"n_runs": 2},
    "mini-batches": {"batch_size": 8},
    "isotropic": {"noise": "isotropic"},
    "anisotropic": {"noise": "anisotropic", "noise_cap": 0.5},
    "clip": {"boundary": "clip"},
    "periodic": {"boundary": "periodic"},
    "xi": {"xi": 10.0},
    "tau": {"tau": 0.5, "alpha": 2.0},
    "lower_tol": {"lower_tol": 0.2, "lower_max": 50.0, "upper_max": 8.0},
    "x_opt": {"x_opt": [0.9, 0.4], "stagnation": 10},
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@each_kind
def test_same_trajectory_as_numpy(make, kind):
    plain, opt = make(**kind), make(xp=strict, **kind)
    for _ in range(6):
        np.testing.assert_allclose(tell(opt), tell(plain), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.asarray(opt.consensus), plain.consensus, rtol=1e-9, atol=1e-9)


@each_kind
def test_same_trajectory_as_numpy_with_failures(make, kind):
    def wrong(L, G):
        L[..., 0], L[..., 1], G[..., :4] = np.nan, np.inf, np.nan

    plain, opt = make(**kind), make(xp=strict, **kind)
    for _ in range(4):
        np.testing.assert_allclose(tell(opt, wrong), tell(plain, wrong), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(opt.result.n_failed, plain.result.n_failed)


def test_arrays_are_of_the_library(make):
    opt = make(xp=strict)
    X = opt.ask()
    assert isinstance(X, STRICT_ARRAY)
    assert X.dtype == strict.float64
    assert isinstance(opt.needs_upper(strict.asarray(values(np.asarray(X))[0])), STRICT_ARRAY)
    tell(opt)
    assert isinstance(opt.consensus, STRICT_ARRAY)


def test_library_by_name(make):
    assert isinstance(make(xp="array_api_strict").ask(), STRICT_ARRAY)


def test_library_is_that_of_x0(make):
    opt = make(x0=strict.asarray([1.0, 2.0]))
    X = opt.ask()
    assert isinstance(X, STRICT_ARRAY)
    np.testing.assert_array_equal(np.asarray(X)[0], [1.0, 2.0])


def test_values_may_be_numpy_arrays_or_lists(make):
    opts = [make(xp=strict) for _ in range(3)]
    for opt, convert in zip(opts, (strict.asarray, np.asarray, np.ndarray.tolist), strict=True):
        opt.tell(*map(convert, values(np.asarray(opt.ask()))))
    consensus = [np.asarray(opt.consensus) for opt in opts]
    assert same(consensus[:1] * 2, consensus[1:])


@pytest.mark.parametrize("kind", [{}, {"n_runs": 2}, {"selection": "hard"}], ids=str)
def test_float32(make, kind):
    opt = make(xp=strict, dtype=strict.float32, **kind)
    plain = make(dtype="float32", **kind)
    for _ in range(2):
        X = tell(opt)
        assert X.dtype == np.float32
        np.testing.assert_allclose(X, tell(plain), rtol=1e-3, atol=1e-3)
    assert opt.ask().dtype == strict.float32


def test_wrong_shape_is_refused(make):
    opt = make(xp=strict)
    opt.ask()
    with pytest.raises(ValueError, match=r"\(20,\)"):
        opt.tell(strict.zeros((20, 1)), strict.zeros(20))
    tell(opt)
    assert opt.n_iter == 1


def test_told_arrays_stay_as_they_were(make):
    opt = make(xp=strict)
    told = [strict.asarray(v) for v in values(np.asarray(opt.ask()))]
    kept = [np.array(np.asarray(v)) for v in told]
    opt.tell(*told)
    opt.ask()
    assert same([np.asarray(v) for v in told], kept)


def test_asked_array_is_a_copy(make):
    opt, other = make(xp=strict), make(xp=strict)
    for _ in range(2):
        X = opt.ask()
        LG = values(np.asarray(X))
        X[...] = 7.0
        opt.tell(*LG)
        tell(other)
    assert same([np.asarray(opt.ask())], [np.asarray(other.ask())])


def test_result_is_of_numpy_arrays(make):
    opt = make(xp=strict)
    tell(opt)
    opt.tell_consensus(0.0, 1.0)
    result = opt.result
    for value in (result.x, result.best.x, result.population.x, result.population.lower):
        assert type(value) is np.ndarray


def test_failed_batch(make):
    def nans(L, G):
        L[:] = np.nan

    for first in (True, False):
        opt = make(xp=strict)
        if not first:
            tell(opt)
        with pytest.warns(SCB2OWarning, match="20 evaluations"):
            tell(opt, nans)
        tell(opt)
        assert np.isfinite(np.asarray(opt.consensus)).all()


def test_injection(make):
    opt = make(xp=strict)
    tell(opt)
    opt.inject(strict.asarray([[1.0, 2.0]]))
    assert [1.0, 2.0] in np.asarray(opt.ask()).tolist()


@pytest.mark.parametrize("pending", [True, False])
def test_state_goes_from_numpy_to_the_library(make, pending):
    plain = make()
    for _ in range(3):
        tell(plain)
    if pending:
        plain.ask()
    opt = make(xp=strict, random_state=5)
    opt.load_state_dict(plain.state_dict())
    for _ in range(3):
        np.testing.assert_allclose(tell(opt), tell(plain), rtol=1e-9, atol=1e-9)


def test_state_of_the_library_is_loaded_again(make):
    opt, again = make(xp=strict), make(xp=strict)
    tell(opt)
    again.load_state_dict(opt.state_dict())
    assert same([tell(opt), tell(opt)], [tell(again), tell(again)])


def test_values_of_numpy_run_take_arrays_of_another_library(make):
    opt, other = make(), make()
    opt.tell(*map(strict.asarray, values(opt.ask())))
    other.tell(*values(other.ask()))
    assert same([opt.consensus], [other.consensus])


def test_library_that_is_none_is_an_error():
    with pytest.raises(ImportError, match="no_such_library"):
        SCB2OOptimizer([(0, 1)], xp="no_such_library")
