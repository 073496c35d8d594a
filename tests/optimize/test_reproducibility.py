import copy
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from optimize_cases import BOX, CUTS, advance, assert_equal_results, same, values

from sklearn_scb2o import SCB2OOptimizer, minimize

KINDS = {
    "default": {},
    "runs": {"n_runs": 3},
    "mini-batches": {"batch_size": 7},
    "runs in mini-batches": {"n_runs": 2, "batch_size": 7},
    "float32": {"dtype": "float32"},
    "lower_tol": {"lower_tol": 0.1, "stagnation": 50},
    "x_opt": {"x_opt": [0.9, 0.4], "selector": "gumbel"},
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@each_kind
def test_same_seed_gives_the_same_run(make, kind):
    assert same(advance(make(**kind), 10), advance(make(**kind), 10))


@each_kind
def test_other_seed_gives_another_run(make, kind):
    assert not np.array_equal(make(**kind).ask(), make(**kind, random_state=1).ask())


def test_no_seed_gives_another_run_each_time(make):
    assert not np.array_equal(make(random_state=None).ask(), make(random_state=None).ask())


def test_runs_of_one_optimizer_differ(make):
    X = make(n_runs=3).ask()
    assert not np.isin(X[0], X[1:]).any()
    assert not np.isin(X[1], X[2]).any()


def test_run_of_several_is_the_single_run_of_its_child_seed(make):
    opt = make(n_runs=3, random_state=5)
    batches = np.stack(advance(opt, 10))
    for r, child in enumerate(np.random.SeedSequence(5).spawn(3)):
        single = np.stack(advance(make(random_state=child), 10))
        np.testing.assert_allclose(batches[:, r], single, rtol=1e-6)


def test_seeds_of_each_run(make):
    opt = make(n_runs=3, random_state=[7, 8, 7])
    X = opt.ask()
    assert same([X[0], X[0]], [X[2], make(random_state=7).ask()])
    assert same([X[1]], [make(random_state=8).ask()])


def test_run_does_not_depend_on_the_other_runs(make):
    batches = [np.stack(advance(make(n_runs=2, random_state=[7, other]), 8))[:, 0] for other in (1, 2)]
    assert same(*batches)


@pytest.mark.parametrize(
    "run", [lambda: advance(SCB2OOptimizer(BOX, random_state=0), 3), lambda: advance(SCB2OOptimizer(BOX), 3)]
)
def test_global_numpy_state_is_not_written(run):
    np.random.seed(3)  # noqa: NPY002
    before = pickle.dumps(np.random.get_state())  # noqa: NPY002
    run()
    assert pickle.dumps(np.random.get_state()) == before  # noqa: NPY002


def test_global_numpy_state_is_not_read(make):
    runs = []
    for seed in (0, 0, 1):
        np.random.seed(seed)  # noqa: NPY002
        runs.append((make().ask(), make(random_state=None).ask()))
    assert same([runs[0][0]], [runs[2][0]])
    assert not np.array_equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize(
    "seed",
    [
        lambda: 3,
        lambda: np.int64(3),
        lambda: 2**100,
        lambda: np.random.SeedSequence(3),
        lambda: np.random.SeedSequence(3).spawn(2)[1],
        lambda: np.random.default_rng(3),
        lambda: np.random.RandomState(3),
        lambda: [3],
    ],
)
def test_every_kind_of_seed(make, seed):
    assert same(advance(make(random_state=seed()), 3), advance(make(random_state=seed()), 3))
    for opt in (make(n_runs=2, random_state=seed()) for _ in range(not isinstance(seed(), list))):
        X = opt.ask()
        assert not np.array_equal(X[0], X[1])


def test_integer_seed_is_its_seed_sequence(make):
    assert same([make(random_state=3).ask()], [make(random_state=np.random.SeedSequence(3)).ask()])


def test_seed_sequence_of_the_caller_does_not_count_our_children(make):
    seed = np.random.SeedSequence(3)
    make(random_state=seed, n_runs=3)
    assert seed.n_children_spawned == 0
    assert same([make(random_state=seed).ask()], [make(random_state=seed).ask()])


def test_generator_of_the_caller_advances(make):
    rng = np.random.default_rng(3)
    assert not np.array_equal(make(random_state=rng).ask(), make(random_state=rng).ask())


def by_pickle(opt):
    return pickle.loads(pickle.dumps(opt))


def by_joblib(opt):
    file = io.BytesIO()
    joblib.dump(opt, file)
    file.seek(0)
    return joblib.load(file)


each_cut = pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)


@each_cut
@each_kind
@pytest.mark.parametrize("copied", [by_pickle, by_joblib, copy.deepcopy])
def test_copy_continues_identically(make, kind, cut, copied):
    opt = make(**kind)
    cut(opt)
    other = copied(opt)
    X = advance(opt, 5)
    assert same(X, advance(other, 5))  # after opt has moved: nothing is shared
    assert_equal_results(opt, other)
    assert same(advance(copied(opt), 2), advance(opt, 2))


@each_cut
@each_kind
def test_loaded_state_continues_bit_for_bit(make, kind, cut):
    opt, other = make(**kind), make(**kind, random_state=99)
    cut(opt)
    other.load_state_dict(opt.state_dict())
    X = advance(opt, 5)
    assert same(X, advance(other, 5))
    assert_equal_results(opt, other)


def test_optimizer_that_has_moved_takes_a_state(make):
    opt, other = make(), make(random_state=99)
    advance(opt, 3)
    advance(other, 5)
    other.load_state_dict(opt.state_dict())
    assert same(advance(opt, 5), advance(other, 5))
    assert_equal_results(opt, other)


@each_cut
def test_state_may_be_loaded_by_several(make, cut):
    opt = make()
    cut(opt)
    state = opt.state_dict()
    others = make(), make()
    for other in others:
        other.load_state_dict(state)
    X = advance(opt, 5)
    for other in others:
        assert same(X, advance(other, 5))
        assert_equal_results(opt, other)


def to_file(value, arrays):
    """Nested lists and dictionaries as JSON, with arrays taken out."""
    if isinstance(value, np.ndarray):
        arrays[name := f"a{len(arrays)}"] = value
        return {"array": name}
    if isinstance(value, dict):
        assert all(isinstance(k, str) for k in value)
        return {"dict": {k: to_file(v, arrays) for k, v in value.items()}}
    if isinstance(value, list):
        return [to_file(v, arrays) for v in value]
    assert value is None or type(value) in (bool, int, float, str), type(value)
    return value


def from_file(value, arrays):
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return {k: from_file(v, arrays) for k, v in value["dict"].items()}
    return [from_file(v, arrays) for v in value] if isinstance(value, list) else value


@each_cut
@each_kind
def test_state_survives_files_without_pickle(make, kind, cut):
    opt = make(**kind)
    cut(opt)
    arrays = {}
    text, file = json.dumps(to_file(opt.state_dict(), arrays)), io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        state = from_file(json.loads(text), dict(stored))
    other = make(**kind, random_state=99)
    other.load_state_dict(state)
    assert same(advance(opt, 5), advance(other, 5))
    assert_equal_results(opt, other)


def test_state_shares_nothing_with_the_optimizer(make):
    opt, other = make(), make()
    advance(opt, 3)
    advance(other, 3)
    arrays = {}
    to_file(opt.state_dict(), arrays)
    for array in arrays.values():
        array[...] = 0
    assert same(advance(opt, 3), advance(other, 3))


def test_loading_does_not_change_or_keep_the_state(make):
    opt = make()
    advance(opt, 3)
    state = opt.state_dict()
    arrays = {}
    to_file(state, arrays)
    kept = [v.copy() for v in arrays.values()]
    opt.load_state_dict(state)
    X = advance(opt, 3)
    assert same(list(arrays.values()), kept)
    opt.load_state_dict(state)
    assert same(X, advance(opt, 3))


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({}, lambda s: s.pop("m")),
        ({}, lambda s: s.update(unknown=1)),
        ({}, lambda s: s.clear()),
        ({"n_particles": 21}, None),
        ({"n_runs": 2}, None),
        ({"bounds": [(-3, 3)] * 3}, None),
    ],
    ids=["missing", "unknown", "empty", "particles", "runs", "dimension"],
)
def test_wrong_state_is_refused_and_changes_nothing(make, options, change):
    opt = make()
    advance(opt, 3)
    state = opt.state_dict()
    if change is not None:
        change(state)
    target, other = make(**options), make(**options)
    with pytest.raises(ValueError, match="state"):
        target.load_state_dict(state)
    assert same(advance(target, 2), advance(other, 2))


def test_state_of_another_batch_size_is_refused(make):
    opt = make(batch_size=10)
    advance(opt, 3)
    with pytest.raises(ValueError, match="state"):
        make().load_state_dict(opt.state_dict())


def test_state_of_another_dtype_is_refused(make):
    opt = make(dtype="float32")
    advance(opt, 3)
    with pytest.raises(ValueError, match="state"):
        make().load_state_dict(opt.state_dict())


def test_values_told_may_be_written_to_afterwards(make):
    opt = make()
    L, G = values(opt.ask())
    kept = L.copy(), G.copy()
    opt.tell(L, G)
    L[:] = G[:] = -1.0
    population = opt.result.population
    assert same([population.lower, population.upper], kept)


def test_result_may_be_written_to(make):
    opt, other = make(), make()
    advance(opt, 3)
    advance(other, 3)
    result = opt.result
    for part in (result, result.consensus, result.best, result.population, result.history):
        for value in part.values():
            if isinstance(value, np.ndarray):
                value[...] = 0.5
    assert_equal_results(opt, other)
    assert same(advance(opt, 2), advance(other, 2))


SCRIPT = """
import hashlib, numpy as np
from sklearn_scb2o import SCB2OOptimizer
opt = SCB2OOptimizer([(-3, 3)] * 40, n_particles=12_000, random_state=0)
digest = hashlib.sha256()
for _ in range(3):
    X = opt.ask()
    digest.update(X.tobytes())
    # sums of single columns: the objective itself must not depend on threads
    opt.tell(sum(X[:, j] ** 2 for j in range(40)), sum(X[:, j] for j in range(40)))
    digest.update(opt.consensus.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_run_does_not_depend_on_the_number_of_threads():
    digests = []
    for threads in ("1", "2"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SCB2O_NUM_THREADS")
        env = {**os.environ, **dict.fromkeys(names, threads)}
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
        digests.append(done.stdout.strip())
    assert len(digests[0]) == len(hashlib.sha256().hexdigest())
    assert len(set(digests)) == 1


def test_minimize_with_a_seed_gives_the_same_result():
    def run(seed):
        return minimize(lambda x: (x @ x - 1) ** 2, lambda x: x[0], BOX, n_particles=10, max_iter=15, random_state=seed)

    assert same([run(0).x, run(0).fun], [run(0).x, run(0).fun])
    assert not np.array_equal(run(0).x, run(1).x)
