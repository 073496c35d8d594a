"""Where local searches begin, and how evaluations are shared out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds

from sklearn_scb2o.optimize import hybrid
from sklearn_scb2o.optimize.archive import Archive
from sklearn_scb2o.optimize.hybrid import APART, ITERATIONS, MOST_STARTS, STARTS, Hybrid, first_share


def searches(monkeypatch, function, d, budget, length=0):
    """Where searches by differences begin, with the answer then; each takes so many evaluations and finds nothing."""
    known = np.random.default_rng(0).uniform(size=(100, d))
    archive, begun = Archive(Bounds(np.zeros(d), np.ones(d)), known, *function(known)), []

    def descend(evaluate, archive, start, lower_tol, rival):
        begun.append((start.copy(), search.answer[2]))
        if length:
            evaluate(np.tile(start, (length, 1)))

    monkeypatch.setattr(hybrid, "descend", descend)
    search = Hybrid(function, archive, (*map(float, function(known[0])), known[0]), budget, 1e-6, seed=0)
    for _ in search:
        pass
    return begun


def shorten_searches_with_models(monkeypatch, length=400):
    """They take so many evaluations, and find nothing."""
    monkeypatch.setattr(Hybrid, "_by_models", lambda self, start: self._at(np.tile(start, (length, 1))))


def valley(z):
    """Smooth, all of the box is nearly as good."""
    return 1e-9 * np.sum(z**2, axis=-1), np.sum(np.sin(5.0 * z), axis=-1)


def test_searches_begin_where_none_has_begun_or_from_the_answer(monkeypatch):
    shorten_searches_with_models(monkeypatch)
    begun = searches(monkeypatch, valley, d=6, budget=6000)
    assert len(begun) > 10
    for i, (start, answer) in enumerate(begun):
        away = [np.abs(start - other).max() for other, _ in begun[:i]]
        assert min(away, default=1.0) >= APART or np.array_equal(start, answer)


def rounds(monkeypatch, length, swarm=1000, budget=20_000):
    """Which searches there are after each swarm, which takes so many evaluations, with six variables."""
    order = [[]]

    def run_swarm(self, evaluations):
        order.append([])
        self._at(self._anywhere(swarm))

    def by_models(self, start):
        order[-1].append("models")
        self._at(np.tile(start, (length, 1)))

    def by_differences(self, start):
        order[-1].append("differences")
        self._at(np.tile(start, (length, 1)))

    monkeypatch.setattr(Hybrid, "_swarm", run_swarm)
    monkeypatch.setattr(Hybrid, "_by_models", by_models)
    monkeypatch.setattr(Hybrid, "_by_differences", by_differences)
    searches(monkeypatch, valley, 6, budget)
    return order


def test_searches_begin_anywhere_until_they_had_as_many_evaluations_as_the_last_swarm(monkeypatch):
    order = rounds(monkeypatch, length=60)
    assert len(order) > 4
    assert all(1000 <= 60 * len(searches) < 1200 for searches in order[1:-1])


def test_searches_that_take_no_evaluations_end_sometime(monkeypatch):
    assert max(map(len, rounds(monkeypatch, length=0))) == MOST_STARTS


def test_where_differences_find_nothing_better_models_take_their_turn(monkeypatch):
    order = rounds(monkeypatch, length=300)
    kinds = [set(searches) for searches in order[1:5]]
    assert {"models"} in kinds
    assert {"differences"} in kinds


def test_a_search_goes_on_where_the_answer_was_lost_to_a_lower_L_elsewhere(monkeypatch):
    # the first search ends above the lowest L; the second one finds that, with a worse G
    ends = {0: (0.2, 1e-3, 0.0), 1: (0.8, 0.0, 5.0)}
    begun = []

    def descend(evaluate, archive, start, lower_tol, rival):
        place, L, G = ends.get(len(begun), (0.5, 1.0, 9.0))
        begun.append(start[0])
        archive.add(np.full((1, 6), place), np.array([L]), np.array([G]))

    archive = Archive(Bounds(np.zeros(6), np.ones(6)), np.full((1, 6), 0.4), np.ones(1), np.ones(1))
    monkeypatch.setattr(hybrid, "descend", descend)
    search = Hybrid(valley, archive, (1.0, 1.0, np.full(6, 0.4)), None, 1e-6, seed=0)
    search._by_differences(np.full(6, 0.4))
    search._by_differences(np.full(6, 0.6))
    assert begun == [0.4, 0.6, 0.2]


@pytest.mark.parametrize(("failed", "expected"), [(5, True), (20, False)])
def test_a_few_failures_do_not_make_objectives_rough(failed, expected):
    z = np.random.default_rng(0).uniform(size=(100, 2))
    lower, upper = valley(z)
    lower[:failed] = np.nan
    archive = Archive(Bounds(np.zeros(2), np.ones(2)), z, lower, upper)
    search = Hybrid(valley, archive, (float(lower[50]), float(upper[50]), z[50]), None, 1e-6, seed=0)
    assert search._looks_smooth(z[50]) is expected


@pytest.mark.parametrize("budget", [None, 2000])
def test_a_refinement_has_evaluations_of_its_own(monkeypatch, budget):
    begun = []

    class Refinement(hybrid.Refinement):
        def run(self):
            begun.append(self.answer)
            super().run()

    monkeypatch.setattr(hybrid, "Refinement", Refinement)
    known = np.random.default_rng(0).uniform(-2, 2, size=(100, 2))
    archive = Archive(Bounds(-2 * np.ones(2), 2 * np.ones(2)), known, *ring(known))
    count = 0

    def evaluate(x):
        nonlocal count
        count += len(x)
        return ring(x)

    start = 1.0, 1.0, np.array([2.0, 0.0])
    search = Hybrid(evaluate, archive, start, budget, 0.0, seed=0, refine=True)
    for _ in search:
        pass
    assert len(begun) == 1
    assert count <= (budget or np.inf)
    np.testing.assert_allclose(search.answer[2], np.array([2.0, 1.0]) / 5**0.5, atol=1e-7)


def ring(x):
    return (x[..., 0] ** 2 + x[..., 1] ** 2 - 1) ** 2, (x[..., 0] - 2) ** 2 + (x[..., 1] - 1) ** 2


def test_within_a_tolerance_a_refinement_does_not_raise_G():
    known = np.random.default_rng(0).uniform(-2, 2, size=(100, 2))
    answers = []
    for refine in (False, True):
        archive = Archive(Bounds(-2 * np.ones(2), 2 * np.ones(2)), known, *ring(known))
        search = Hybrid(ring, archive, (1.0, 1.0, np.array([2.0, 0.0])), None, 1e-4, seed=0, refine=refine)
        for _ in search:
            pass
        answers.append(search.answer)
    assert answers[1][0] <= 1e-4
    assert answers[1][1] <= answers[0][1]


def test_rough_objectives_are_not_refined(monkeypatch):
    def rounded(x):
        L, G = ring(x)
        return L, np.round(G, 2)

    known = np.random.default_rng(0).uniform(-2, 2, size=(100, 2))
    archive = Archive(Bounds(-2 * np.ones(2), 2 * np.ones(2)), known, *rounded(known))
    monkeypatch.delattr(hybrid, "Refinement")
    search = Hybrid(rounded, archive, (1.0, 1.0, np.array([2.0, 0.0])), 1000, 0.0, seed=0, refine=True)
    for _ in search:
        pass
    assert search.answer[0] <= 1e-4


def averaged(monkeypatch, d, budget, length=400, promise=-np.inf):
    """Where searches by differences begin, and the ends to which averages lead, which promise so much."""
    ends, rng = [], np.random.default_rng(1)

    def graduate(function, archive, start, _):
        ends.append(rng.uniform(size=d))
        function(start[None])
        return ends[-1], promise

    monkeypatch.setattr(hybrid, "graduate", graduate)
    begun = [start for start, _ in searches(monkeypatch, valley, d, budget, length)]
    return [any(np.array_equal(start, end) for end in ends) for start in begun], len(ends)


def test_with_many_variables_averages_take_turns_with_swarms(monkeypatch):
    led, n_ends = averaged(monkeypatch, d=6, budget=20_000)
    assert sum(led) == n_ends > 0
    first = led.index(True)
    assert first <= STARTS  # after the first swarm
    assert not all(led[first:])


def test_where_averages_promise_nothing_no_search_begins(monkeypatch):
    shorten_searches_with_models(monkeypatch)
    led, n_ends = averaged(monkeypatch, d=6, budget=20_000, promise=np.inf)
    assert n_ends > 0
    assert not any(led)


@pytest.mark.parametrize(
    ("d", "budget", "length"),
    [
        pytest.param(5, 20_000, 400, id="few variables"),
        pytest.param(6, 3000, 400, id="costlier than a swarm"),
        pytest.param(6, 20_000, 100, id="costlier than a search"),
    ],
)
def test_averages_are_left_out_where_others_do_better(monkeypatch, d, budget, length):
    shorten_searches_with_models(monkeypatch)
    assert averaged(monkeypatch, d, budget, length)[1] == 0


def test_averages_go_on_as_long_as_they_lead_to_better_answers(monkeypatch):
    order = []
    monkeypatch.setattr(Hybrid, "_swarm", lambda self, evaluations: order.append("swarm"))

    def better(self):
        order.append("averages")
        if order.count("averages") < 4:
            self._archive.add(np.zeros((1, 6)), np.zeros(1), np.full(1, -10.0 * len(order)))
        yield

    monkeypatch.setattr(Hybrid, "_averaged_round", better)
    searches(monkeypatch, valley, d=6, budget=20_000, length=400)
    assert order[:5] == ["averages"] * 4 + ["swarm"]


def test_rough_objectives_are_searched_from_their_best_points_again_and_again(monkeypatch):
    begun = []
    monkeypatch.setattr(Hybrid, "_by_models", lambda self, start: begun.append(start.copy()))

    def rough(z):
        return np.modf(1e4 * np.sin(1e7 * (z @ np.array([0.7, 1.3]))))[0], z[..., 1]

    assert searches(monkeypatch, rough, d=2, budget=2000) == []
    assert len({start.tobytes() for start in begun}) < len(begun)


@given(st.integers(1, 10**6), st.integers(1, 1000), st.integers(1, 1000))
def test_the_first_swarm_has_a_tenth_to_a_quarter_of_the_evaluations_or_fifty_iterations(budget, d, batch):
    least = min(0.1 * budget - 1, ITERATIONS * batch)
    assert least <= first_share(budget, d, batch) <= min(0.25 * budget, 50 * batch)


@pytest.mark.parametrize(
    ("budget", "d", "expected"), [(2000, 2, 500), (2000, 7, 400), (2000, 50, 200), (10_000, 7, 2500)]
)
def test_it_leaves_evaluations_for_a_search_by_differences(budget, d, expected):
    assert first_share(budget, d) == expected
