import numpy as np
import pytest
from plotting_cases import make_run
from sklearn.linear_model import Ridge

from sklearn_scb2o import BilevelSearchCV, SCB2OOptimizer, minimize, minimize_nested
from sklearn_scb2o.plotting import ConvergenceDisplay
from sklearn_scb2o.problems import circle


def run_circle(**options):
    problem = circle()
    return minimize(
        problem.lower,
        problem.upper,
        problem.bounds,
        vectorized=True,
        max_iter=12,
        n_particles=20,
        random_state=0,
        **options,
    )


def test_the_curves_are_the_columns_of_the_history():
    result = run_circle(track_consensus=True)
    display = ConvergenceDisplay.from_result(result, over="iterations")
    assert list(display.lines_) == ["lower", "upper", "spread", "ess"]
    for name, line in display.lines_.items():
        assert line.get_xdata() == pytest.approx(np.arange(1, 13))
        assert line.get_ydata() == pytest.approx(result.history[name])


@pytest.mark.parametrize("options", [{}, {"polish": True}, {"n_runs": 2}, {"local_search": True}])
def test_an_iteration_takes_the_evaluations_of_its_batch(options):
    display = ConvergenceDisplay.from_result(run_circle(**options), metrics="spread")
    assert display.lines_["spread"].get_xdata() == pytest.approx(20 * np.arange(1, 13))


def test_without_a_population_evaluations_are_spread_over_the_iterations():
    display = ConvergenceDisplay.from_result(make_run({"spread": [3, 2, 1, 1]}, 80))
    assert display.lines_["spread"].get_xdata() == pytest.approx([20, 40, 60, 80])


def test_the_quantile_is_drawn_where_the_consensus_was_not_evaluated():
    assert list(ConvergenceDisplay.from_result(run_circle()).lines_) == ["quantile", "spread", "ess"]


def test_of_several_runs_there_are_the_median_and_a_band():
    result = run_circle(n_runs=5, track_consensus=True)
    display = ConvergenceDisplay.from_result(result, metrics="spread", band=(0.0, 1.0))
    spreads = np.stack([run.history["spread"] for run in result.runs], axis=1)
    assert display.lines_["spread"].get_ydata() == pytest.approx(np.median(spreads, axis=1))
    heights = display.bands_["spread"].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(spreads.min())
    assert heights.max() == pytest.approx(spreads.max())


def test_a_run_that_has_ended_keeps_its_last_values():
    runs = [make_run({"spread": [4, 2]}, 20), make_run({"spread": [4, 3, 2, 0]}, 40)]
    line = ConvergenceDisplay.from_result(runs).lines_["spread"]
    assert line.get_xdata() == pytest.approx([10, 20, 30, 40])
    assert line.get_ydata() == pytest.approx([4, 2.5, 2, 1])


def test_runs_with_other_batches_are_compared_at_equal_evaluations():
    runs = [make_run({"spread": [4, 3, 2, 1]}, 40), make_run({"spread": [8, 6]}, 40)]
    line = ConvergenceDisplay.from_result(runs).lines_["spread"]
    assert line.get_xdata() == pytest.approx([20, 30, 40])
    assert line.get_ydata() == pytest.approx([5.5, 5, 3.5])


def test_the_distance_of_g_to_its_optimum_has_no_sign():
    display = ConvergenceDisplay.from_history({"upper": [1.0, 3.0, 2.0]}, upper_opt=2.0)
    assert display.lines_["upper"].get_ydata() == pytest.approx([1, 1, 0])


def test_values_over_several_magnitudes_have_a_logarithmic_scale():
    display = ConvergenceDisplay.from_history({"lower": [1.0, 0.01, 1e-4], "upper": [1.0, -1.0, 20.0]})
    assert [ax.get_yscale() for ax in display.axes_] == ["log", "linear"]


def test_an_optimizers_own_history_can_be_drawn():
    problem = circle()
    optimizer = SCB2OOptimizer(problem.bounds, n_particles=20, n_runs=3, random_state=0)
    for _ in range(4):
        x = optimizer.ask()
        optimizer.tell(problem.lower(x), problem.upper(x))
    display = ConvergenceDisplay.from_history(optimizer.history, [20, 40, 60, 80], metrics="spread")
    assert display.lines_["spread"].get_xdata() == pytest.approx([20, 40, 60, 80])
    assert list(display.bands_) == ["spread"]


def test_a_result_of_minimize_nested_has_its_own_count_of_evaluations():
    result = minimize_nested(
        lambda phi, theta: np.sum((theta - phi) ** 2, axis=-1),
        lambda phi, theta: np.sum((phi + theta - 1.0) ** 2, axis=-1),
        [(0, 1)],
        [(0, 1)],
        vectorized=True,
        max_iter=5,
        random_state=0,
    )
    line = ConvergenceDisplay.from_result(result, metrics="upper").lines_["upper"]
    assert line.get_xdata() == pytest.approx(result.history["nfev_lower"])


def test_the_search_of_a_fitted_estimator_can_be_drawn():
    X = np.random.default_rng(0).standard_normal((40, 6))
    search = BilevelSearchCV(Ridge(), random_state=0).fit(X, X[:, 0])
    display = ConvergenceDisplay.from_estimator(search, metrics="spread", over="iterations")
    assert display.lines_["spread"].get_ydata() == pytest.approx(search.optimizer_result_.history["spread"])


def test_a_second_display_is_drawn_over_the_first_in_other_colours_and_dashes():
    first = ConvergenceDisplay.from_history({"spread": [2.0, 1.0]}, label="one")
    second = ConvergenceDisplay.from_history({"spread": [3.0, 1.0]}, label="other", ax=first.axes_)
    a, b = first.lines_["spread"], second.lines_["spread"]
    assert a.axes is b.axes
    assert a.get_color() != b.get_color()
    assert a.get_linestyle() != b.get_linestyle()
    assert [text.get_text() for text in a.axes.get_legend().get_texts()] == ["one", "other"]


def test_the_place_of_one_axes_is_divided():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2)
    display = ConvergenceDisplay.from_history({"lower": [2.0, 1.0], "spread": [2.0, 1.0]}, ax=axes[1])
    assert len(display.axes_) == 2
    assert display.figure_ is figure
    assert all(ax.get_position().x0 > 0.5 for ax in display.axes_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": "speed"}, "metrics='speed'"),
        ({"metrics": "lower"}, "choose among"),  # NaN: not known
        ({"over": "time"}, "over='time'"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    history = {"spread": [2.0, 1.0], "lower": [np.nan, np.nan]}
    with pytest.raises(ValueError, match=message):
        ConvergenceDisplay.from_history(history, **options)


def test_too_few_axes_are_refused():
    import matplotlib.pyplot as plt

    columns = {"lower": [2.0, 1.0], "upper": [1.0, 1.0], "spread": [2.0, 1.0]}
    with pytest.raises(ValueError, match="holds 2 axes, expected 3"):
        ConvergenceDisplay.from_history(columns, ax=plt.subplots(1, 2)[1])


def test_a_result_without_history_is_refused():
    with pytest.raises(ValueError, match="without a history"):
        ConvergenceDisplay.from_result(make_run({"spread": []}, 0))
