"""Where local searches begin, and how evaluations are shared out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds

from sklearn_scb2o.optimize import hybrid
from sklearn_scb2o.optimize.archive import Archive
from sklearn_scb2o.optimize.hybrid import APART, STARTS, Hybrid, first_share


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


def valley(z):
    """Smooth, all of the box is nearly as good."""
    return 1e-9 * np.sum(z**2, axis=-1), np.sum(np.sin(5.0 * z), axis=-1)


def test_searches_begin_where_none_has_begun_or_from_the_answer(monkeypatch):
    begun = searches(monkeypatch, valley, d=6, budget=6000)
    assert len(begun) > 10
    for i, (start, answer) in enumerate(begun):
        away = [np.abs(start - other).max() for other, _ in begun[:i]]
        assert min(away, default=1.0) >= APART or np.array_equal(start, answer)


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
    assert (
        searches(monkeypatch, lambda z: (np.modf(1e7 * (z @ np.array([0.7, 1.3])))[0], z[..., 1]), d=2, budget=2000)
        == []
    )
    assert len({start.tobytes() for start in begun}) < len(begun)


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_the_first_swarm_has_a_tenth_to_a_quarter_of_the_evaluations(budget, d):
    assert 0.1 * budget - 1 <= first_share(budget, d) <= 0.25 * budget


@pytest.mark.parametrize(
    ("budget", "d", "expected"), [(2000, 2, 500), (2000, 7, 400), (2000, 50, 200), (10_000, 7, 2500)]
)
def test_it_leaves_evaluations_for_a_search_by_differences(budget, d, expected):
    assert first_share(budget, d) == expected
