import numpy as np
import pytest
from optimize_cases import BOX, advance, same, values

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.optimize import ask_tell as ask_tell_module
from sklearn_scb2o.optimize import update as update_module


def test_batch_has_one_row_per_particle(make):
    assert make(n_particles=7).ask().shape == (7, 2)


def test_runs_lead_the_batch(make):
    opt = make(n_runs=3, n_particles=7)
    assert opt.ask().shape == (3, 7, 2)
    opt.tell(*values(opt.ask()))
    assert opt.consensus.shape == (3, 2)


def test_asking_twice_returns_the_same_batch(make):
    opt = make()
    first, second = opt.ask(), opt.ask()
    assert same([first], [second])
    opt.tell(*values(second))
    assert opt.n_iter == 1


def test_asking_twice_does_not_change_the_run(make):
    once, twice = make(), make()
    for _ in range(4):
        X, _, Y = once.ask(), twice.ask(), twice.ask()
        assert same([X], [Y])
        once.tell(*values(X))
        twice.tell(*values(Y))


def test_asked_batch_is_the_callers_own_copy(make):
    opt, other = make(), make()
    for _ in range(3):
        X = opt.ask()
        LG = values(X)
        X[...] = np.nan
        opt.tell(*LG)
        other.tell(*values(other.ask()))
    assert same([opt.ask(), opt.consensus], [other.ask(), other.consensus])


def test_consensus_is_a_copy(make):
    opt = make()
    advance(opt, 1)
    before = opt.consensus
    opt.consensus[...] = 7.0
    assert same([opt.consensus], [before])


def test_consensus_is_none_before_the_first_tell(make):
    opt = make()
    assert opt.consensus is None
    opt.ask()
    assert opt.consensus is None


def test_tell_before_ask_is_refused(make):
    with pytest.raises(RuntimeError, match=r"ask\(\)"):
        make().tell(np.zeros(20), np.zeros(20))


def test_second_tell_is_refused(make):
    opt = make()
    advance(opt, 1)
    with pytest.raises(RuntimeError, match=r"ask\(\)"):
        opt.tell(np.zeros(20), np.zeros(20))


def test_needs_upper_without_a_batch_is_refused(make):
    opt = make()
    with pytest.raises(RuntimeError, match=r"ask\(\)"):
        opt.needs_upper(np.zeros(20))
    advance(opt, 1)
    with pytest.raises(RuntimeError, match=r"ask\(\)"):
        opt.needs_upper(np.zeros(20))


def test_tell_consensus_before_the_first_tell_is_refused(make):
    with pytest.raises(RuntimeError, match="tell"):
        make().tell_consensus(0.0, 0.0)


WRONG = {
    "column": lambda v: v[:, None],
    "row": lambda v: v[None, :],
    "one too few": lambda v: v[:-1],
    "one too many": lambda v: np.append(v, 0.0),
    "empty": lambda v: v[:0],
    "number": lambda v: 1.0,
    "None": lambda v: None,
    "strings": lambda v: ["a"] * len(v),
    "string": lambda v: "a" * len(v),
    "complex": lambda v: v + 1j,
    "dates": lambda v: np.zeros(len(v), dtype="datetime64[s]"),
    "objects": lambda v: [object()] * len(v),
    "ragged": lambda v: [[0.0], *v[1:]],
}


@pytest.mark.parametrize("which", ["L", "G"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_refused_tell_leaves_the_optimizer_as_it_was(make, wrong, which):
    opt, other = make(), make()
    for i in range(3):
        X = opt.ask()
        L, G = values(X)
        if i == 1:
            with pytest.raises(ValueError, match=which):
                opt.tell(*((wrong(L), G) if which == "L" else (L, wrong(G))))
            assert opt.n_iter == 1
            assert same([opt.ask()], [X])
        opt.tell(L, G)
        other.tell(*values(other.ask()))
    assert same([opt.ask(), opt.consensus], [other.ask(), other.consensus])
    assert opt.result.nfev_lower == other.result.nfev_lower == 60


@pytest.mark.parametrize("shape", [(20, 1), (1, 20), (19,), ()])
def test_wrong_shape_is_named_with_the_right_one(make, shape):
    opt = make()
    opt.ask()
    with pytest.raises(ValueError) as caught:
        opt.tell(np.zeros(shape), np.zeros(20))
    assert str(shape) in str(caught.value)
    assert "(20,)" in str(caught.value)


@pytest.mark.parametrize("shape", [(20,), (2, 20), (1, 20), (20, 3), (3, 20, 1)])
def test_values_of_several_runs_do_not_broadcast(make, shape):
    opt = make(n_runs=3)
    opt.ask()
    with pytest.raises(ValueError, match=r"\(3, 20\)"):
        opt.tell(np.zeros(shape), np.zeros((3, 20)))


CONVERTED = {
    "list": lambda v: [float(x) for x in v],
    "tuple": lambda v: tuple(v.tolist()),
    "object": lambda v: v.astype(object),
    "numpy scalars": lambda v: list(v),
    "big-endian": lambda v: v.astype(">f8"),
    "longdouble": lambda v: v.astype(np.longdouble),
}


@pytest.mark.parametrize("convert", CONVERTED.values(), ids=CONVERTED)
def test_values_are_converted(make, convert):
    opt, other = make(), make()
    advance(opt, 3, lambda X: tuple(map(convert, values(X))))
    advance(other, 3)
    assert same([opt.ask(), opt.consensus], [other.ask(), other.consensus])


@pytest.mark.parametrize("convert", [lambda v: v, list, lambda v: v.astype(np.uint8), lambda v: v.astype(np.float32)])
def test_integers_are_converted(make, convert):
    def whole(X):
        return tuple(np.minimum(np.rint(v), 255).astype(np.int64) for v in values(X))

    opt, other = make(), make()
    advance(opt, 3, lambda X: tuple(map(convert, whole(X))))
    advance(other, 3, lambda X: tuple(v.astype(float) for v in whole(X)))
    assert same([opt.ask(), opt.consensus], [other.ask(), other.consensus])


def test_booleans_are_converted(make):
    opt, other = make(), make()
    advance(opt, 2, lambda X: (np.asarray(X)[:, 0] > 0, values(X)[1]))
    advance(other, 2, lambda X: ((np.asarray(X)[:, 0] > 0) * 1.0, values(X)[1]))
    assert same([opt.ask()], [other.ask()])


def test_none_counts_as_nan(make):
    opt, other = make(), make()
    L, G = values(opt.ask())
    other.ask()
    with_none = L.tolist()
    with_none[3] = None
    L[3] = np.nan
    opt.tell(with_none, G)
    other.tell(L, G)
    assert same([opt.ask(), opt.consensus], [other.ask(), other.consensus])
    assert opt.result.n_failed == 1


@pytest.mark.parametrize("layout", ["plain", "readonly", "strided", "reversed", "fortran"])
@pytest.mark.parametrize("n_runs", [1, 2])
def test_callers_arrays_stay_as_they_were(make, layout, n_runs):
    def lay(v):
        if layout == "strided":
            wide = np.full((*v.shape, 2), -1.0)
            wide[..., 0] = v
            return wide[..., 0]
        if layout == "reversed":
            return v[..., ::-1].copy()[..., ::-1]
        v = np.asfortranarray(v) if layout == "fortran" else v.copy()
        v.flags.writeable = layout != "readonly"
        return v

    opt, other = make(n_runs=n_runs), make(n_runs=n_runs)
    for _ in range(4):
        X = opt.ask()
        L, G = values(X)
        L[..., 2], G[..., 3], G[..., 4] = np.nan, np.nan, -np.inf
        told, kept = (X, lay(L), lay(G)), (X.copy(), L.copy(), G.copy())
        opt.tell(*told[1:])
        assert same(told, kept)
        other.ask()
        other.tell(L, G)
        opt.ask()
        assert same(told, kept)
    assert same([opt.ask(), opt.consensus], [other.ask(), other.consensus])


def test_needs_upper_does_not_change_its_argument_or_the_run(make):
    opt, other = make(), make()
    X = opt.ask()
    L, G = values(X)
    L[5] = np.nan
    kept = L.copy()
    opt.needs_upper(L)
    opt.needs_upper(L.tolist())
    assert same([L], [kept])
    opt.tell(L, G)
    other.ask()
    other.tell(L, G)
    assert same([opt.ask()], [other.ask()])


KINDS = {
    "default": {},
    "hard": {"selection": "hard"},
    "none": {"selection": "none"},
    "gumbel": {"selector": "gumbel"},
    "tau": {"tau": 0.1},
    "xi": {"xi": 10.0},
    "alpha and xi": {"alpha": 30.0, "xi": 100.0},
    "alpha": {"alpha": 3.0},
    "lower_tol": {"lower_tol": 0.1},
    "lower_max": {"lower_max": 5.0},
    "upper_max": {"upper_max": 4.0},
    "beta": {"beta": 0.5},
    "mini-batches": {"batch_size": 15},
    "runs": {"n_runs": 3},
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_nan_on_rows_that_are_not_needed_gives_the_same_run(kind, seed):
    full, partial = (SCB2OOptimizer(BOX, n_particles=40, random_state=seed, **kind) for _ in range(2))
    asked = 0
    for _ in range(8):
        X, Y = full.ask(), partial.ask()
        assert same([X], [Y])
        L, G = values(X)
        needed = partial.needs_upper(L)
        assert needed.shape == L.shape
        assert needed.dtype == bool
        asked += np.sum(needed, axis=-1)
        full.tell(L, G)
        partial.tell(L, np.where(needed, G, np.nan))
        assert same([full.consensus], [partial.consensus])
    np.testing.assert_array_equal(partial.result.nfev_upper, asked)
    assert np.all(partial.result.n_failed == 0)


@pytest.mark.parametrize("kind", [{}, {"n_runs": 3}, {"selector": "gumbel"}], ids=str)
def test_tell_selects_by_what_needs_upper_has_found(kind, make, monkeypatch):
    opt = make(**kind)
    X = opt.ask()
    L, G = values(X)
    needed = opt.needs_upper(L)

    def refuse(*_):
        raise AssertionError("selected again")

    for module in (update_module, ask_tell_module):
        for name in {"rank", "rank_on_arrays"} & set(vars(module)):
            monkeypatch.setattr(module, name, refuse)
    opt.tell(L, np.where(needed, G, np.nan))
    assert opt.n_iter == 1


@pytest.mark.parametrize("kind", [{}, {"n_runs": 3}, {"lower_tol": 0.1}], ids=str)
def test_other_values_than_needs_upper_was_given_are_selected_by_themselves(kind, make):
    opt, other = make(**kind), make(**kind)
    for _ in range(2):
        L, G = values(opt.ask())
        opt.needs_upper(L[..., ::-1])
        opt.tell(L, G)
        advance(other, 1)
    assert same([opt.consensus, opt.ask()], [other.consensus, other.ask()])


def test_needs_upper_before_a_state_is_loaded_says_nothing_about_it(make):
    opt, other = make(lower_tol=0.1), make(lower_tol=0.1)
    advance(other, 3)
    state = other.state_dict()
    L, G = values(other.ask())
    opt.ask()
    opt.needs_upper(L)
    opt.load_state_dict(state)
    opt.ask()
    opt.tell(L, G)
    other.tell(L, G)
    assert same([opt.consensus], [other.consensus])


def test_fewer_rows_are_needed_than_there_are(make_each):
    opt = make_each(n_particles=200)
    assert 20 <= opt.needs_upper(values(opt.ask())[0]).sum() < 100


def test_failed_rows_are_not_needed(make_each):
    opt = make_each()
    L, _ = values(opt.ask())
    L[np.argsort(L)[:2]] = np.nan, np.inf
    assert not opt.needs_upper(L)[~np.isfinite(L)].any()


def test_every_row_is_needed_without_a_lower_level(make_each):
    opt = make_each(selection="none")
    assert opt.needs_upper(values(opt.ask())[0]).all()


def test_needs_upper_refuses_a_wrong_shape(make):
    opt = make()
    opt.ask()
    with pytest.raises(ValueError, match=r"\(20,\)"):
        opt.needs_upper(np.zeros((20, 1)))


def test_representation_names_dimension_population_and_iteration(make):
    opt = make(n_runs=2)
    advance(opt, 3)
    text = repr(opt)
    for part in ("d=2", "n_particles=20", "n_runs=2", "n_iter=3"):
        assert part in text
