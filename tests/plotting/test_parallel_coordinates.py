import numpy as np
import pytest
from plotting_cases import make_result

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.plotting import ParallelCoordinatesDisplay

X = np.array([[0.0, 10.0, 5.0], [1.0, 20.0, 5.0], [2.0, 15.0, 5.0], [4.0, 10.0, 5.0]])
LOWER, UPPER = np.array([0.0, 0.1, 0.2, 3.0]), np.array([1.0, 3.0, 2.0, np.nan])


def draw(**options):
    return ParallelCoordinatesDisplay.from_result(make_result(X, LOWER, UPPER), **options)


def test_coordinates_are_scaled_to_the_bounds():
    display = draw(bounds=[(0, 4), (0, 20), (0, 10)], lower_tol=0.0)
    (line,) = display.front_.get_segments()
    assert line == pytest.approx(np.array([[0, 0.0], [1, 0.5], [2, 0.5]]))
    assert display.chosen_.get_ydata() == pytest.approx(X.mean(axis=0) / [4, 20, 10])


def test_without_bounds_the_points_fill_the_axes_and_a_fixed_coordinate_is_in_the_middle():
    heights = np.array([line[:, 1] for line in draw(lower_tol=9.0).front_.get_segments()])
    assert heights.min(axis=0) == pytest.approx([0, 0, 0.5])
    assert heights[:, 2].max() == 0.5


def test_near_minimisers_are_coloured_by_g_with_the_smallest_in_front():
    display = draw(lower_tol=0.2)
    assert display.front_.get_array().tolist() == [3, 2, 1]
    assert len(display.back_.get_segments()) == 1
    assert display.front_.get_zorder() > display.back_.get_zorder()


def test_points_whose_g_is_not_known_are_behind():
    assert len(draw(lower_tol=9.0).back_.get_segments()) == 1


def test_names_and_ends_of_the_coordinates_can_be_read():
    display = draw(bounds=[(0, 4), (0, 20), (0, 10)], names=["a", "b", "c"])
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["a\n0", "b\n0", "c\n0"]
    assert [text.get_text() for text in display.ax_.texts] == ["4", "20", "10"]


def test_several_results_are_drawn_together():
    result = make_result(X, LOWER, UPPER)
    display = ParallelCoordinatesDisplay.from_result([result, result], lower_tol=0.2)
    assert len(display.front_.get_segments()) == 6


@pytest.mark.parametrize(
    ("options", "message"), [({"names": ["a"]}, "give 3, one for each"), ({"bounds": [(0, 1)]}, "give 3 pairs")]
)
def test_other_numbers_of_coordinates_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        draw(**options)


def test_a_population_whose_values_are_not_known_is_refused():
    optimizer = SCB2OOptimizer([(0, 1)] * 3, n_particles=10, random_state=0)
    optimizer.tell(optimizer.ask().sum(axis=1), np.ones(10))
    optimizer.ask()
    with pytest.raises(ValueError, match=r"take the result after tell\(\), before ask\(\)"):
        ParallelCoordinatesDisplay.from_result(optimizer.result)
