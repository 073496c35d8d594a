"""minimize_nested: stopping, ways to give the objectives, callbacks, failed evaluations, wrong parameters."""

import numpy as np
import pytest
from nested_cases import CIRCLE, assert_same_result, make, small, step
from optimize_cases import same

from sklearn_scb2o import NestedOptimizer, SCB2OWarning

# --- stopping


def test_convergence_is_success():
    result = small(tol=0.5, max_iter=100)
    assert result.success
    assert result.status == 1
    assert "spread" in result.message


def test_limit_on_outer_iterations():
    result = small()
    assert (result.nit, result.success, result.status) == (3, False, 3)
    assert "max_iter=3" in result.message


@pytest.mark.parametrize("max_evals", [160, 279, 280, 1000])
def test_limit_on_evaluations_is_kept(max_evals):
    result = small(max_iter=None, max_evals=max_evals)
    assert max_evals - 3 * 40 < result.nfev == result.nfev_lower <= max_evals
    assert result.status == 4
    assert f"max_evals={max_evals}" in result.message


def test_too_few_evaluations_for_an_iteration_give_no_solution():
    result = small(max_evals=159)
    assert result.x_outer is None
    assert result.nfev == 0
    assert "max_evals=159" in result.message


def test_limit_on_time():
    result = small(max_iter=None, max_time=0.0)
    assert result.status == 5


def test_there_is_a_default_limit():
    result = small(max_iter=None, tol=0.0)
    assert result.nit == 100


# --- minimize_nested


def test_result_is_that_of_the_loop():
    opt = make(max_iter=3)
    while not opt.stop():
        step(opt)
    assert_same_result(small(), opt.result)


def test_values_are_those_at_the_solution():
    result = small()
    assert result.lower_fun == pytest.approx(CIRCLE.lower(result.x_outer, result.x_inner), rel=1e-12)
    assert result.fun == pytest.approx(CIRCLE.upper(result.x_outer, result.x_inner), rel=1e-12)


def joint(phi, theta):
    return CIRCLE.lower(phi, theta), CIRCLE.upper(phi, theta)


@pytest.mark.parametrize("functions", [(CIRCLE.lower, CIRCLE.upper), (joint, None)], ids=["two", "joint"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_every_way_to_give_the_objectives_is_the_same(functions, vectorized):
    assert_same_result(small(*functions, vectorized=vectorized), small())


def test_objectives_see_vectors():
    shapes = set()
    small(lambda phi, theta: shapes.add((phi.shape, theta.shape)) or 0.0)
    assert shapes == {((1,), (2,))}


def test_vectorized_objectives_see_arrays_that_broadcast():
    shapes = set()

    def upper(phi, theta):
        shapes.add((phi.shape, theta.shape[0], theta.shape[2]))
        return CIRCLE.upper(phi, theta)

    small(upper=upper, vectorized=True)
    assert shapes == {((5, 1, 1), 5, 2)}


@pytest.mark.parametrize("vectorized", [False, True])
def test_objectives_may_write_into_their_arguments(vectorized):
    def spoiling(f):
        def spoiled(phi, theta):
            value = f(phi.copy(), theta.copy())
            phi[...] = theta[...] = np.nan
            return value

        return spoiled

    result = small(spoiling(CIRCLE.lower), spoiling(CIRCLE.upper), vectorized=vectorized)
    assert_same_result(result, small())


def test_evaluations_are_counted():
    calls = {"L": 0, "G": 0}

    def counted(name, f):
        def count(phi, theta):
            calls[name] += 1
            return f(phi, theta)

        return count

    result = small(counted("L", CIRCLE.lower), counted("G", CIRCLE.upper), n_inner=20)
    assert (result.nfev_lower, result.nfev_upper) == (calls["L"], calls["G"])
    assert calls["L"] == 5 * 20 * (4 + 3 + 3)
    assert calls["G"] < 0.7 * calls["L"]


def test_args_are_passed_to_both():
    def scaled(f):
        return lambda phi, theta, factor, shift: factor * f(phi, theta) + shift

    assert_same_result(small(scaled(CIRCLE.lower), scaled(CIRCLE.upper), args=(1.0, 0.0)), small())


def test_callback_gets_the_best_pair():
    seen = []
    result = small(callback=lambda phi, theta: seen.append((phi, theta)))
    assert len(seen) == 3
    assert same(seen[-1], (result.x_outer, result.x_inner))


def test_callback_gets_the_intermediate_result_by_name():
    seen = []
    small(callback=lambda intermediate_result: seen.append(intermediate_result))
    assert [result.nit for result in seen] == [1, 2, 3]
    assert [result.nfev for result in seen] == [160, 280, 400]


def test_callback_can_stop_the_run():
    def stop(intermediate_result):
        raise StopIteration

    result = small(callback=stop)
    assert (result.nit, result.status, result.success) == (1, 6, False)
    assert "StopIteration" in result.message


def test_interrupted_run_returns_what_it_has():
    calls = []

    def interrupted(phi, theta):
        calls.append(phi)
        if len(calls) == 200:
            raise KeyboardInterrupt
        return CIRCLE.lower(phi, theta)

    result = small(interrupted)
    assert (result.nit, result.status) == (1, 7)
    assert result.x_outer is not None


def test_progress_is_shown_only_on_demand(capsys):
    small()
    assert capsys.readouterr() == ("", "")
    small(disp=True)
    out, err = capsys.readouterr()
    assert "max_iter=3" in out
    assert "evals=400" in err


@pytest.mark.parametrize("seed", [0, np.random.SeedSequence(4)])
def test_random_state_determines_the_result(seed):
    assert_same_result(small(random_state=seed), small(random_state=seed))
    assert not same([small(random_state=seed).x_outer], [small(random_state=1).x_outer])


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    small()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# --- failed evaluations


@pytest.mark.parametrize("failure", [None, np.nan, np.inf])
def test_failed_evaluations_are_counted_and_avoided(failure):
    failed = []

    def partly(phi, theta):
        if theta[0] < 0:
            failed.append(theta)
            return failure
        return CIRCLE.lower(phi, theta)

    result = small(partly)
    assert result.n_failed == len(failed) > 0
    assert result.x_inner[0] >= 0


def test_outer_points_at_which_everything_fails_are_avoided():
    result = small(lambda phi, theta: np.nan if phi[0] < 1.0 else CIRCLE.lower(phi, theta), max_iter=10)
    assert result.x_outer[0] >= 1.0
    assert np.isfinite(result.fun)


def test_all_evaluations_failing_is_an_error():
    with pytest.warns(SCB2OWarning, match="fresh"), pytest.raises(RuntimeError, match="failed"):
        small(lambda phi, theta: None, max_iter=None)


# --- parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_outer": 2}, "n_outer=2"),
        ({"n_inner": 5}, "n_inner=5"),
        ({"n_inner": "many"}, "n_inner='many'"),
        ({"first_iter": 1}, "first_iter=1"),
        ({"inner_iter": 1.5}, "inner_iter=1.5"),
        ({"n_inner": 1.5}, "n_inner=1.5"),
        ({"first_iter": "all"}, "first_iter='all' must be 'auto' or an integer of at least 2"),
        ({"inner_options": [1]}, r"inner_options=\[1\] must be a dictionary"),
        ({"max_iter": -1}, "max_iter=-1"),
        ({"max_evals": -1}, "max_evals=-1"),
        ({"tol": -1.0}, "tol=-1.0"),
        ({"outer_options": {"n_runs": 2}}, "outer_options has 'n_runs'"),
        ({"outer_options": {"selection": "soft"}}, "outer_options has 'selection'"),
        ({"inner_options": {"n_particles": 2, "tol": 0}}, "inner_options has 'n_particles', 'tol'"),
        ({"inner_options": {"beta": 2.0}}, "beta=2.0"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_wrong_parameter_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options)


@pytest.mark.parametrize("bounds", [{"outer": [(1, 0)]}, {"inner": [(1, 0)]}])
def test_wrong_bounds_are_named(bounds):
    with pytest.raises(ValueError, match="reversed"):
        NestedOptimizer(bounds.get("outer", [(0, 1)]), bounds.get("inner", [(0, 1)]))


def test_unknown_option_is_an_error():
    with pytest.raises(TypeError, match="particles"):
        small(particles=10)


WRONG = {
    "vector": (lambda p, t: t, False, "lower must return one real number per pair"),
    "string": (lambda p, t: "a", False, "lower must return a real number per pair"),
    "rows": (lambda p, t: np.zeros(5), True, r"lower returned shape \(5,\).*must return \(5, 8\)"),
    "nothing": (lambda p, t: None, True, r"lower returned shape \(\)"),
}


@pytest.mark.parametrize(("f", "vectorized", "message"), WRONG.values(), ids=WRONG)
def test_wrong_return_of_an_objective_is_named(f, vectorized, message):
    with pytest.raises(ValueError, match=message):
        small(f, vectorized=vectorized)


@pytest.mark.parametrize("f", [lambda p, t: 1.0, lambda p, t: (1.0, 2.0, 3.0)])
def test_joint_objective_must_return_a_pair(f):
    with pytest.raises(ValueError, match=r"pair \(L, G\)"):
        small(f, None)
