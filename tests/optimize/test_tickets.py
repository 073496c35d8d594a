"""Points handed out one by one under numbers, told in any order."""

import copy
import heapq
import pickle

import numpy as np
import pytest
from optimize_cases import BOX, advance, same, values

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning
from sklearn_scb2o.problems import circle, sphere


def tickets(opt, n):
    ids, X = opt.ask(n)
    return list(zip(ids.tolist(), X, strict=True))


def tell(opt, *pairs):
    ids, X = zip(*pairs, strict=True)
    opt.tell(*values(np.array(X)), ids=ids)


def assert_same(one, other):
    a, b = one.result, other.result
    assert same([a.x, a.consensus.x, a.best.x, a.population.x], [b.x, b.consensus.x, b.best.x, b.population.x])
    assert (a.nit, a.nfev_lower, a.nfev_upper, a.n_failed) == (b.nit, b.nfev_lower, b.nfev_upper, b.n_failed)


def state(opt):
    return pickle.dumps(opt.state_dict() | {"elapsed": 0.0})


# -- the synchronous case --------------------------------------------------------------------------------------------

KINDS = {
    "usual": {},
    "hard": {"selection": "hard"},
    "lower_tol": {"lower_tol": 0.1},
    "start": {"x0": [[0.5, 0.5], [1.0, 1.0]]},
    "float32": {"dtype": "float32"},
    "stagnation": {"stagnation": 3, "x_opt": [0.9, 0.4]},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_all_at_once_is_the_batch_to_the_bit(make, rng, kind, shuffled):
    batches, ones = make(**KINDS[kind]), make(**KINDS[kind])
    advance(batches, 8)
    for _ in range(8):
        ids, X = ones.ask(20)
        order = rng.permutation(20) if shuffled else np.arange(20)
        ones.tell(*values(X[order]), ids=ids[order])
    assert_same(batches, ones)
    assert same([*batches.history.columns().values()], [*ones.history.columns().values()])


@pytest.mark.parametrize("first_batch_fails", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn_scb2o.SCB2OWarning")
def test_all_at_once_is_the_batch_where_evaluations_fail(make, first_batch_fails):
    batches, ones = make(), make()
    for i in range(8):
        X = batches.ask()
        L, G = values(X)
        L[(X[:, 0] > 0.5) | (first_batch_fails and i == 0)] = np.nan
        G[X[:, 1] > 1.0] = np.nan
        batches.tell(L, G)
        ids, points = ones.ask(20)
        assert same([X], [points])
        ones.tell(L, G, ids=ids)
    assert_same(batches, ones)


def test_upper_values_where_they_are_needed_are_the_batch(make):
    batches, ones = make(), make()
    for _ in range(5):
        X = batches.ask()
        L, G = values(X)
        needed = batches.needs_upper(L)
        batches.tell(L, np.where(needed, G, np.nan))
        ids, X = ones.ask(20)
        assert same([ones.needs_upper(L, ids=ids)], [needed])
        ones.tell(L, np.where(needed, G, np.nan), ids=ids)
    assert_same(batches, ones)


def test_told_one_by_one_the_particles_go_the_same_way(make, rng):
    batches, ones = make(), make()
    for _ in range(6):
        X = batches.ask()
        batches.tell(*values(X))
        pairs = tickets(ones, 20)
        assert same([np.array([x for _, x in pairs])], [X])
        for i in rng.permutation(20):
            tell(ones, pairs[i])
    assert same([batches.consensus], [ones.consensus])
    assert ones.n_iter == 6


def test_between_batches_and_tickets_one_may_change(make):
    batches, both = make(), make()
    asked = advance(batches, 6)
    assert same(advance(both, 2), asked[:2])
    for X in asked[2:4]:
        pairs = tickets(both, 20)
        assert same([np.array([x for _, x in pairs])], [X])
        tell(both, *pairs)
    assert same(advance(both, 2), asked[4:])


# -- who is handed out -----------------------------------------------------------------------------------------------


def test_numbers_run_on(make):
    opt = make()
    first = tickets(opt, 3)
    second = tickets(opt, 2)
    assert [number for number, _ in first + second] == [0, 1, 2, 3, 4]
    tell(opt, second[1], first[0])
    assert [number for number, _ in tickets(opt, 2)] == [5, 6]


def test_numbers_follow_those_of_batches(make):
    opt = make()
    advance(opt, 3)
    assert [number for number, _ in tickets(opt, 2)] == [60, 61]


def test_no_point_is_handed_out_twice(make):
    opt, seen = make(), set()
    pairs = tickets(opt, 5)
    for _ in range(60):
        new = tickets(opt, 1)
        pairs += new
        tell(opt, pairs.pop(0))
        seen.update(tuple(x) for _, x in new)
    assert len(seen) == 60


def test_a_slow_particle_holds_nobody_back(make):
    opt = make()
    slow, *others = tickets(opt, 2)
    for _ in range(200):
        tell(opt, *others)
        others = tickets(opt, 1)
        assert len(others) == 1
    assert opt.n_iter == 10
    tell(opt, slow)


def test_fewer_where_all_others_are_out(make):
    opt = make()
    assert len(tickets(opt, 15)) == 15
    assert len(tickets(opt, 15)) == 5
    assert tickets(opt, 15) == []


def test_none_where_none_is_wanted(make):
    ids, X = make().ask(0)
    assert ids.shape == (0,)
    assert X.shape == (0, 2)


def test_no_more_than_max_evals(make):
    opt = make(max_evals=23)
    tell(opt, *tickets(opt, 20))
    pairs = tickets(opt, 20)
    assert len(pairs) == 3
    assert "max_evals" in opt.stop()
    tell(opt, *pairs)
    assert "max_evals" in opt.stop()
    assert opt.result.nfev == 23


def test_points_are_copies(make):
    opt = make()
    ids, X = opt.ask(20)
    L, G = values(X)
    X[:] = ids[:] = 0
    opt.tell(L, G, ids=np.arange(20))
    assert opt.result.best.x.any()


def test_points_lie_inside_the_bounds(make):
    opt = make([(0.0, 0.1), (2.0, 2.0)], sigma=3.0, dt=0.01)
    pairs = tickets(opt, 3)
    for _ in range(100):
        tell(opt, pairs.pop(0))
        pairs += tickets(opt, 1)
        assert all(0.0 <= x[0] <= 0.1 and x[1] == 2.0 for _, x in pairs)


def test_few_known_values_move_nobody(make):
    opt = make(n_particles=20)
    pairs = tickets(opt, 20)
    tell(opt, *pairs[:2])
    again = np.array([x for _, x in tickets(opt, 2)])
    assert (np.abs(again) <= 3.0).all()
    assert np.abs(again - opt.consensus).min() > 0.0  # drawn anew: not where the others are


# -- what is known ---------------------------------------------------------------------------------------------------


def test_consensus_is_that_of_the_latest_values_of_all(make):
    opt = make(selection="none", alpha=1.0)
    pairs = tickets(opt, 20)
    tell(opt, *pairs[:15])
    X = np.array([x for _, x in pairs[:15]])
    weights = np.exp(-values(X)[1])
    np.testing.assert_allclose(opt.consensus, weights @ X / weights.sum(), rtol=1e-12)
    more = tickets(opt, 4)  # these have moved, and count where they were until they are told
    np.testing.assert_allclose(opt.consensus, weights @ X / weights.sum(), rtol=1e-12)
    tell(opt, *more)
    moved = np.array([x for _, x in more])
    X[: len(moved)] = moved
    weights = np.exp(-values(X)[1])
    np.testing.assert_allclose(opt.consensus, weights @ X / weights.sum(), rtol=1e-12)


def test_an_iteration_is_as_many_values_as_particles(make):
    opt = make()
    pairs = tickets(opt, 7)
    for i in range(1, 101):
        tell(opt, pairs.pop(0))
        assert opt.n_iter == i // 20 == len(opt.history.columns()["lower"])
        pairs += tickets(opt, 1)
    assert opt.result.nfev_lower == opt.result.nfev_upper == 100


def test_the_best_point_is_known_at_once(make):
    opt = make()
    pairs = tickets(opt, 20)
    tell(opt, *pairs[:19])
    opt.tell([0.0], [-10.0], ids=[pairs[19][0]])
    assert opt.result.best.upper == -10.0
    assert same([opt.result.best.x], [pairs[19][1]])


def test_failed_evaluations_are_counted_once(make):
    opt = make()
    pairs = tickets(opt, 20)
    ids = [number for number, _ in pairs]
    opt.tell([np.nan, 1.0, None], [0.0, 2.0, 0.0], ids=ids[:3])
    assert opt.result.n_failed == 2
    tell(opt, *pairs[3:])
    assert opt.result.n_failed == 2
    assert opt.history.columns()["n_failed"].tolist() == [2.0]


def test_iterations_that_fail_as_a_whole_are_an_error_in_the_end(make):
    opt = make(max_failed_batches=2)
    for _ in range(19):
        opt.tell([np.nan], [0.0], ids=opt.ask(1)[0])
    with pytest.warns(SCB2OWarning, match="all 20 evaluations of iteration 1"):
        opt.tell([np.nan], [0.0], ids=opt.ask(1)[0])
    for _ in range(19):
        opt.tell([np.nan], [0.0], ids=opt.ask(1)[0])
    with pytest.raises(RuntimeError, match="2 batches in a row"):
        opt.tell([np.nan], [0.0], ids=opt.ask(1)[0])


def test_population_of_the_result_has_the_latest_values(make):
    opt = make()
    tell(opt, *tickets(opt, 20))
    pairs = tickets(opt, 3)
    tell(opt, pairs[1])
    population = opt.result.population
    np.testing.assert_array_equal(population.lower, values(population.x)[0])
    assert same([population.x[1]], [pairs[1][1]])


def test_injected_points_come_first_and_replace_nobody_who_is_out(make):
    opt = make()
    tell(opt, *tickets(opt, 20))
    out = tickets(opt, 18)
    points = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
    opt.inject(points)
    new = tickets(opt, 5)
    assert sorted(tuple(x) for _, x in new) == [(0.1, 0.2), (0.3, 0.4)]
    tell(opt, *out)
    assert (0.5, 0.6) in [tuple(x) for _, x in tickets(opt, 3)]


def test_upper_values_inside_the_quantile_in_the_end_are_nearly_always_needed_when_asked(make, rng):
    opt, needed, n_asked = make(n_particles=40), [], 0
    for _ in range(30):
        pairs = tickets(opt, 40)
        L, G = values(np.array([x for _, x in pairs]))
        asked = np.zeros(40, dtype=bool)
        for i in rng.permutation(40):
            number = [pairs[i][0]]
            asked[i] = opt.needs_upper(L[i : i + 1], ids=number)[0]
            opt.tell(L[i : i + 1], [G[i] if asked[i] else np.nan], ids=number)
        needed.extend(asked[np.argsort(L)[: int(np.ceil(0.1 * 40))]])
        n_asked += asked.sum()
    assert np.mean(needed) >= 0.95
    assert n_asked < 0.4 * 30 * 40
    assert opt.result.n_failed == 0


# -- saved and loaded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["state", "pickle", "file", "deepcopy"])
def test_what_was_out_is_handed_out_again(make, tmp_path, how):
    opt = make()
    tell(opt, *tickets(opt, 20))
    out = tickets(opt, 5)
    tell(opt, out[2])
    if how == "state":
        again = make()
        again.load_state_dict(opt.state_dict())
    elif how == "pickle":
        again = pickle.loads(pickle.dumps(opt))
    elif how == "deepcopy":
        again = copy.deepcopy(opt)
    else:
        opt.save(tmp_path / "run")
        again = SCB2OOptimizer.load(tmp_path / "run")
    pairs = tickets(again, 6)
    expected = [*out[:2], *out[3:]]
    assert [number for number, _ in pairs[:4]] == [number for number, _ in expected]
    assert same([x for _, x in pairs[:4]], [x for _, x in expected])
    mine = tickets(opt, 2)
    assert [number for number, _ in pairs[4:]] == [number for number, _ in mine] == [25, 26]
    tell(opt, *expected, *mine)
    tell(again, *pairs)
    assert same([opt.consensus], [again.consensus])


# -- what is refused -------------------------------------------------------------------------------------------------


def refused(opt, error, match, call):
    before = state(opt)
    with pytest.raises(error, match=match):
        call()
    assert state(opt) == before


@pytest.mark.parametrize(
    ("ids", "match"),
    [([7], "not out"), ([0, 0], "twice"), ([[0]], "array"), ([0.0], "array"), ("0", "array"), ([-1], "not out")],
)
def test_numbers_that_are_not_out_are_refused(make, ids, match):
    opt = make()
    opt.ask(3)
    n = np.size(ids)
    refused(opt, ValueError, match, lambda: opt.tell([0.0] * n, [0.0] * n, ids=ids))
    refused(opt, ValueError, match, lambda: opt.needs_upper([0.0] * n, ids=ids))


def test_a_number_that_was_told_is_refused(make):
    opt = make()
    pairs = tickets(opt, 3)
    tell(opt, pairs[0])
    refused(opt, ValueError, "told once", lambda: tell(opt, pairs[0]))


def test_other_shapes_are_refused(make):
    opt = make()
    ids, _ = opt.ask(3)
    refused(opt, ValueError, r"L has shape \(2,\), expected \(3,\)", lambda: opt.tell([0, 0], [0, 0, 0], ids=ids))
    refused(opt, ValueError, r"G has shape \(1,\), expected \(3,\)", lambda: opt.tell([0, 0, 0], [0], ids=ids))


def test_batches_and_tickets_do_not_mix(make):
    opt = make()
    opt.ask()
    refused(opt, RuntimeError, "a batch is pending", lambda: opt.ask(2))
    refused(opt, RuntimeError, "ask", lambda: opt.tell([0.0], [0.0], ids=[0]))
    opt = make()
    opt.ask(2)
    refused(opt, RuntimeError, "2 points are out", opt.ask)
    refused(opt, RuntimeError, "without ids", lambda: opt.tell(np.zeros(20), np.zeros(20)))
    refused(opt, RuntimeError, "without ids", lambda: opt.needs_upper(np.zeros(20)))


def test_drift_goes_with_batches(make):
    opt = make()
    ids, X = opt.ask(2)
    refused(opt, ValueError, "drift", lambda: opt.tell([0, 0], [0, 0], ids=ids, drift=X))


@pytest.mark.parametrize("options", [{"n_runs": 2}, {"batch_size": 10}])
def test_tickets_are_for_one_run_of_whole_batches(make, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make(**options).ask(2)


@pytest.mark.parametrize("n", [-1, 1.5, "2", True])
def test_how_many_is_a_count(make, n):
    with pytest.raises(ValueError, match="n="):
        make().ask(n)


def test_other_array_libraries():
    xp = pytest.importorskip("array_api_strict")
    own, plain = (SCB2OOptimizer(BOX, n_particles=20, random_state=0, xp=namespace) for namespace in (xp, None))
    for opt in (own, plain):
        ids, X = opt.ask(5)
        pairs = [(int(number), X[i, :]) for i, number in enumerate(ids)]
        for _ in range(60):
            number, x = pairs.pop(1)
            L, G = values(np.asarray(x))
            opt.tell([L], [G], ids=[number])
            ids, X = opt.ask(1)
            pairs.append((int(ids[0]), X[0, :]))
    np.testing.assert_allclose(np.asarray(own.consensus), plain.consensus, rtol=1e-9)


# -- answers ---------------------------------------------------------------------------------------------------------


def distance_after(problem, evaluations, workers, seed, n_particles=50):
    """Distance to the solution when run times vary by log-normal factors, on virtual workers."""
    rng = np.random.default_rng(seed)
    opt = SCB2OOptimizer(problem.bounds, n_particles=n_particles, max_evals=evaluations, tol=0.0, random_state=seed)
    running = []
    while True:
        for number, x in tickets(opt, workers - len(running)) if not opt.stop() else []:
            now = running[0][0] if running else 0.0
            heapq.heappush(running, (now + rng.lognormal(), number, x))
        if not running:
            return float(problem.distance(opt.consensus))
        _, number, x = heapq.heappop(running)
        opt.tell(problem.lower(x[None]), problem.upper(x[None]), ids=[number])


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "workers"), [(circle(), 2), (sphere(5), 25)], ids=["circle", "sphere"])
def test_answers_are_as_good_as_those_of_batches(problem, workers):
    def of_batches(seed):
        opt = SCB2OOptimizer(problem.bounds, n_particles=50, max_evals=1_500, tol=0.0, random_state=seed)
        while not opt.stop():
            X = opt.ask()
            opt.tell(problem.lower(X), problem.upper(X))
        return float(problem.distance(opt.consensus))

    batches = np.log10([of_batches(seed) for seed in range(6)])
    ones = np.log10([distance_after(problem, 1_500, workers, seed) for seed in range(6)])
    error = np.sqrt((batches.var(ddof=1) + ones.var(ddof=1)) / 6)
    assert ones.mean() < batches.mean() + 2.5 * error + 0.1
