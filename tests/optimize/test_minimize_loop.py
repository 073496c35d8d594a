import numpy as np
import pytest
from optimize_cases import SOLUTION, Counted, assert_same_result, lower, same, small, upper, values
from scipy.optimize import OptimizeResult

from sklearn_scb2o import minimize
from sklearn_scb2o.problems import circle, star


def test_callback_gets_the_point():
    points = []
    result = small(callback=lambda x: points.append(x))
    assert len(points) == 10
    assert same([points[-1]], [result.consensus.x])
    assert all(x.shape == (2,) for x in points)


def test_callback_by_name_gets_the_result():
    results = []

    def callback(intermediate_result):
        results.append(intermediate_result)

    final = small(callback=callback, track_consensus=True)
    assert [r.nit for r in results] == list(range(1, 11))
    assert all(isinstance(r, OptimizeResult) for r in results)
    np.testing.assert_allclose([results[4].lower_fun, results[4].fun], values(results[4].x), rtol=1e-12)
    assert same([results[-1].x], [final.x])


def test_callback_may_be_an_object_or_a_builtin():
    class Callback:
        n = 0

        def __call__(self, intermediate_result):
            self.n += intermediate_result.nit

    callback = Callback()
    small(callback=callback)
    assert callback.n == 55
    points = []
    small(callback=points.append)
    assert len(points) == 10


def test_callback_that_writes_into_the_point_changes_nothing():
    def spoil(x):
        x[...] = np.nan

    assert_same_result(small(callback=spoil), small())


@pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt])
@pytest.mark.parametrize("track", [False, True])
def test_stop_in_the_callback_returns_the_result_so_far(error, track):
    def callback(intermediate_result):
        if intermediate_result.nit == 4:
            raise error

    result = small(callback=callback, track_consensus=track, polish=True)
    assert result.nit == 4
    assert not result.success
    assert error.__name__ in result.message
    assert same([result.consensus.x], [small(max_iter=4).consensus.x])
    assert result.nfev_lower == 80 + 4 * track


def test_interrupt_in_an_objective_returns_the_result_so_far():
    def interrupted(x):
        if low.n > 70:
            raise KeyboardInterrupt
        return lower(x)

    low = Counted(interrupted)
    result = small(low, upper)
    assert result.nit == 3
    assert not result.success
    assert "KeyboardInterrupt" in result.message
    assert np.isfinite(result.x).all()


def test_interrupt_before_the_first_iteration_ends():
    def interrupted(x):
        raise KeyboardInterrupt

    result = small(interrupted, upper)
    assert result.x is None
    assert not result.success
    assert "KeyboardInterrupt" in result.message


@pytest.mark.parametrize(
    "options", [{}, {"track_consensus": True}, {"polish": True}, {"track_consensus": True, "polish": True}]
)
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("max_evals", [1, 19, 20, 21, 40, 41, 42, 43, 100, 250, 777])
def test_max_evals_is_never_exceeded(max_evals, joint, options):
    counted = [Counted(values)] if joint else [Counted(lower), Counted(upper)]
    result = small(*counted, max_evals=max_evals, max_iter=None, **options)
    assert max(f.n for f in counted) <= max_evals
    assert (result.nfev_lower, result.nfev_upper) == (counted[0].n, counted[-1].n)
    assert not result.success


def test_message_names_the_limit_that_was_given():
    assert "max_evals=100" in small(max_evals=100, max_iter=None).message


def test_every_point_is_inside_the_bounds():
    bounds = [(0.1, 0.3), (1 / 3, 0.7), (0.1, 0.1)]
    low, up = Counted(lower), Counted(upper)
    for track in (False, True):
        small(low, up, bounds=bounds, track_consensus=track, polish=True, max_iter=60)
    seen = np.asarray(low.seen + up.seen)
    assert np.all((seen >= np.transpose(bounds)[0]) & (seen <= np.transpose(bounds)[1]))


def test_tracked_consensus_is_in_the_history():
    result = small(track_consensus=True)
    assert np.isfinite(result.history["lower"]).all()
    assert np.isfinite(result.history["upper"]).all()
    assert result.nfev_lower == 210
    untracked = small()
    assert np.isnan(untracked.history["lower"][:-1]).all()
    assert same(
        [result.consensus.x, result.history["lower"][-1:]], [untracked.consensus.x, untracked.history["lower"][-1:]]
    )


def test_nothing_is_printed(capfd):
    small(polish=True)
    assert capfd.readouterr() == ("", "")


def test_disp_prints_progress_and_message(capfd):
    result = small(disp=True)
    out, err = capfd.readouterr()
    assert "10/10" in err
    assert result.message in out + err


@pytest.mark.parametrize("problem", [circle(), star()], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_polish_lowers_the_lower_objective(problem, seed):
    options = {"bounds": problem.bounds, "random_state": seed, "max_iter": 25, "max_evals": None, "n_particles": 50}
    plain = minimize(problem.lower, problem.upper, **options)
    polished = minimize(problem.lower, problem.upper, **options, polish=True)
    assert polished.lower_fun <= plain.lower_fun
    assert polished.lower_fun < 1e-12
    np.testing.assert_allclose(
        [polished.lower_fun, polished.fun], [problem.lower(polished.x), problem.upper(polished.x)], rtol=1e-12
    )
    assert_same_result(plain, OptimizeResult(polished, x=plain.x, fun=plain.fun, lower_fun=plain.lower_fun))


def test_polish_brings_the_result_to_the_solution_of_a_smooth_problem():
    # the solution is the point (1, 0) of the line x + y = 1
    functions = (lambda x: (x[0] + x[1] - 1) ** 2, upper)
    for seed in range(6):
        plain, polished = (small(*functions, max_iter=25, random_state=seed, polish=polish) for polish in (False, True))
        assert np.linalg.norm(plain.x - [1, 0]) > 1e-3
        assert np.linalg.norm(polished.x - [1, 0]) < 1e-6
        assert polished.nfev > plain.nfev


@pytest.mark.parametrize("seed", range(3))
def test_polish_has_its_share_of_max_evals(seed):
    polished = small(max_evals=1500, max_iter=None, random_state=seed, polish=True)
    assert polished.nfev <= 1500
    assert polished.nit == 37  # of 20 points each, in half of the evaluations
    np.testing.assert_allclose(polished.x, SOLUTION, atol=1e-6)
    assert "local searches have ended within max_evals=1500" in polished.message


def test_polish_is_with_models_where_the_objectives_are_not_smooth():
    def kinked(x):
        return abs(x[0] - 1.0) + 2.0 * abs(x[1] + 0.5)

    plain, polished = (small(kinked, upper, max_iter=40, polish=polish) for polish in (False, True))
    assert polished.lower_fun < 0.1 * plain.lower_fun


def test_polish_without_a_lower_level_minimises_the_upper_objective():
    result = small(lambda x: 0.0, upper, selection="none", max_evals=1500, max_iter=None, polish=True)
    np.testing.assert_allclose(result.x, [2.0, 1.0], atol=1e-4)


def test_polish_leaves_fixed_coordinates():
    result = small(bounds=[(-3, 3), (0.1, 0.1)], polish=True)
    assert result.x[1] == 0.1


def test_polish_with_a_failing_objective():
    result = small(lower, lambda x: np.nan if x[0] > 0.9 else upper(x), polish=True, max_iter=40)
    assert np.isfinite([result.fun, result.lower_fun]).all()
