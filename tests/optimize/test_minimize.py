import numpy as np
import pytest
from optimize_cases import BOX, SOLUTION, Counted, assert_same_result, lower, same, small, upper, values
from scipy.optimize import Bounds, OptimizeResult

from sklearn_scb2o import SCB2OOptimizer, SCB2OWarning, minimize
from sklearn_scb2o.problems import circle, star


@pytest.mark.parametrize("problem", [circle(), star()], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_problems_of_the_paper_are_solved_with_5000_evaluations(problem, seed):
    result = minimize(problem.lower, problem.upper, problem.bounds, vectorized=True, max_evals=5000, random_state=seed)
    assert problem.distance(result.x) < 1e-2
    assert result.nfev <= 5000


def test_result_is_that_of_the_loop(make):
    opt = make(max_iter=10)
    while not opt.stop():
        opt.tell(*values(opt.ask()))
    opt.tell_consensus(*values(opt.consensus))
    assert_same_result(small(), opt.result)


def test_values_are_those_at_x():
    result = small(max_iter=30)
    np.testing.assert_allclose([result.lower_fun, result.fun], values(result.x), rtol=1e-12)
    np.testing.assert_allclose([result.consensus.lower, result.consensus.upper], values(result.consensus.x), rtol=1e-12)
    assert isinstance(result, OptimizeResult)


def test_convergence_is_success():
    result = small(max_iter=20_000, tol=1e-3)
    assert result.success
    assert "spread" in result.message
    assert not small().success


def test_default_limit_is_1000_iterations():
    # nearly at rest, so that no other reason to stop comes first
    result = small(lambda x: 0.0, lambda x: 0.0, n_particles=2, sigma=0.0, dt=1e-6, max_iter=None)
    assert result.nit == 1000
    assert "max_iter=1000" in result.message


def test_args_are_passed_to_both():
    def scaled(f):
        return lambda x, factor, shift: factor * f(x) + shift

    assert same([small(scaled(lower), scaled(upper), args=(1.0, 0.0)).x], [small().x])
    seen = []
    small(
        lambda x, *args: seen.append(args) or 0.0, lambda x, *args: seen.append(args) or 0.0, args=(3, "a"), max_iter=1
    )
    assert set(seen) == {(3, "a")}


@pytest.mark.parametrize("joint", [False, True])
def test_vectorized_is_the_same(joint):
    functions = (values,) if joint else (lower, upper)
    assert_same_result(small(*functions), small(*functions, vectorized=True))


def test_joint_objective_is_the_same():
    assert_same_result(small(), small(values))


def test_joint_objective_counts_both():
    both = Counted(values)
    result = small(both)
    assert result.nfev_lower == result.nfev_upper == result.nfev == both.n == 201


def test_upper_is_evaluated_only_where_it_can_matter():
    low, up = Counted(lower), Counted(upper)
    result = small(low, up, n_particles=100)
    assert (result.nfev_lower, result.nfev_upper) == (low.n, up.n)
    assert result.nfev == low.n == 1001
    assert up.n < 600


def test_points_are_vectors_or_rows():
    shapes = set()
    small(lambda x: shapes.add(x.shape) or lower(x), upper)
    assert shapes == {(2,)}
    shapes.clear()
    small(lambda x: shapes.add(x.shape) or lower(x), upper, vectorized=True)
    assert shapes == {(20, 2), (1, 2)}


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("track", [False, True])
def test_objective_may_write_into_its_argument(vectorized, joint, track):
    def spoiling(f):
        def spoiled(x):
            value = f(x.copy())
            x[...] = np.nan
            return value

        return spoiled

    functions = (values,) if joint else (lower, upper)
    options = {"vectorized": vectorized, "track_consensus": track, "polish": True}
    assert_same_result(small(*map(spoiling, functions), **options), small(*functions, **options))


@pytest.mark.parametrize("failure", [None, np.nan, np.inf])
@pytest.mark.parametrize("joint", [False, True])
def test_failed_evaluations_are_counted(failure, joint):
    failed = []

    def partly(x):
        if x[0] < -1:
            failed.append(x)
            return failure
        return lower(x)

    def both(x):
        if x[0] < -1 and failure is None:
            failed.append(x)
            return None
        return partly(x), upper(x)

    result = small(both) if joint else small(partly, upper)
    assert result.n_failed == len(failed) > 0
    assert np.isfinite(result.x).all()


def test_failed_upper_evaluations_are_counted():
    result = small(lower, lambda x: None if x[0] < -0.5 else upper(x), n_particles=100)
    assert result.n_failed > 0
    assert result.x[0] >= -0.5


def test_all_evaluations_failing_is_an_error():
    with pytest.warns(SCB2OWarning, match="fresh"), pytest.raises(RuntimeError, match="max_failed_batches=3"):
        small(lambda x: None, upper, max_failed_batches=3)


@pytest.mark.parametrize("vectorized", [False, True])
def test_arrays_of_one_element_are_numbers(vectorized):
    def boxed(f):
        return lambda x: np.asarray(f(x))[..., None]

    assert_same_result(small(boxed(lower), boxed(upper), vectorized=vectorized), small())


WRONG = {
    "vector": (lambda x: x, False, "lower must return one real number per point"),
    "string": (lambda x: "a", False, "lower must return a real number per point"),
    "complex": (lambda x: 1j, False, "lower must return a real number per point"),
    "pair": (lambda x: (0.0, 0.0), False, "lower must return one real number per point"),
    "too few": (lambda x: np.zeros(len(x) - 1), True, r"lower returned shape \(19,\).*\(20,\)"),
    "matrix": (lambda x: x, True, r"lower returned shape \(20, 2\).*\(20,\)"),
    "number": (lambda x: 0.0, True, r"lower.*one"),
    "nothing": (lambda x: None, True, "lower"),
}


@pytest.mark.parametrize(("f", "vectorized", "message"), WRONG.values(), ids=WRONG)
def test_wrong_return_of_lower_is_named(f, vectorized, message):
    with pytest.raises(ValueError, match=message):
        small(f, upper, vectorized=vectorized)


def test_wrong_return_of_upper_is_named():
    with pytest.raises(ValueError, match="upper must return one real number"):
        small(lower, lambda x: x)


@pytest.mark.parametrize("f", [lambda x: 1.0, lambda x: (1.0, 2.0, 3.0), lambda x: "ab c", lambda x: []])
def test_joint_objective_must_return_a_pair(f):
    with pytest.raises(ValueError, match=r"pair \(L, G\)"):
        small(f)


def test_exception_of_an_objective_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        small(lambda x: 1 / 0, upper)


def test_preset_is_that_of_the_paper():
    opt = SCB2OOptimizer.from_paper(BOX, max_iter=5, random_state=0)
    while not opt.stop():
        opt.tell(*values(opt.ask()))
    result = minimize(lower, upper, BOX, preset="paper", max_iter=5, random_state=0)
    assert same([result.consensus.x], [opt.consensus])
    np.testing.assert_allclose(result.history["alpha"], 30.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "papers"}, "preset='papers'"),
        ({"n_runs": 2, "asynchronous": True}, "n_runs=2"),
        ({"max_evals": -1}, "max_evals=-1"),
        ({"n_particles": 1}, "n_particles=1"),
        ({"bounds": None}, "bounds"),
    ],
)
def test_wrong_parameter_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options)


def test_unknown_option_is_an_error():
    with pytest.raises(TypeError, match="particles"):
        small(particles=10)


def test_previous_result_is_a_warm_start():
    first = small()
    low = Counted(lower)
    small(low, upper, x0=first, random_state=1, max_iter=1)
    np.testing.assert_array_equal(low.seen[:20], first.population.x)


def test_warm_start_goes_on_from_where_the_first_run_ended():
    result = small(max_iter=60)
    again = small(max_iter=60, x0=result, random_state=1)
    assert again.history["spread"][0] == pytest.approx(result.history["spread"][-1])


def test_start_without_bounds():
    result = minimize(lower, upper, x0=[1.0, 1.0], max_iter=150, random_state=0)
    np.testing.assert_allclose(result.x, SOLUTION, atol=0.02)


def test_scipy_bounds():
    assert_same_result(small(bounds=Bounds([-3, -3], [3, 3])), small())


@pytest.mark.parametrize("seed", [0, np.random.SeedSequence(4)])
def test_random_state(seed):
    assert_same_result(small(random_state=seed), small(random_state=seed))
    assert not same([small(random_state=seed).x], [small(random_state=1).x])


def test_float32_run():
    seen = Counted(lower)
    result = small(seen, upper, dtype="float32", max_iter=60)
    assert seen.seen[0].dtype == np.float32
    np.testing.assert_allclose(result.x, SOLUTION, atol=0.1)


def test_hard_and_no_selection():
    np.testing.assert_allclose(small(selection="hard", max_iter=100, n_particles=60).x, SOLUTION, atol=0.02)
    np.testing.assert_allclose(small(selection="none", max_iter=100, n_particles=60).x, [2.0, 1.0], atol=0.02)
