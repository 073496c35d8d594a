import numpy as np
import pytest
from PIL import Image
from plotting_cases import bowl, make_result, ring, spiral
from scipy.optimize import OptimizeResult

from sklearn_scb2o import SCB2OOptimizer, minimize
from sklearn_scb2o.plotting import ParticlesDisplay

BOX = [(-2, 2), (-2, 2)]


def draw(result, **options):
    options = {"vectorized": True, "grid_resolution": 21, **options}
    return ParticlesDisplay.from_result(result, ring, bowl, BOX, **options)


def test_particles_consensus_and_best_point_are_where_they_are():
    result = make_result(spiral(30))
    display = draw(result)
    assert display.particles_.get_xydata() == pytest.approx(spiral(30))
    assert display.consensus_.get_xydata()[0] == pytest.approx(result.consensus.x)
    assert display.incumbent_.get_xydata()[0] == pytest.approx(result.best.x)


def test_the_grid_has_the_values_of_both_objectives():
    display = draw(make_result(spiral(3)))
    assert display.xx0[0, :3] == pytest.approx([-2, -1.8, -1.6])
    points = np.stack([display.xx0, display.xx1], axis=-1)
    assert display.lower == pytest.approx(ring(points))
    assert display.upper == pytest.approx(bowl(points))


def test_functions_of_a_single_point_give_the_same():
    one_by_one = ParticlesDisplay.from_result(make_result(spiral(3)), ring, bowl, BOX, grid_resolution=21)
    assert one_by_one.lower == pytest.approx(draw(make_result(spiral(3))).lower)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_function_that_returns_the_pair_gives_the_same(vectorized):
    display = ParticlesDisplay.from_result(
        make_result(spiral(3)), lambda x: (ring(x), bowl(x)), None, BOX, grid_resolution=21, vectorized=vectorized
    )
    expected = draw(make_result(spiral(3)))
    assert display.lower == pytest.approx(expected.lower)
    assert display.upper == pytest.approx(expected.upper)


def test_near_minimisers_are_those_within_the_tolerance():
    display = draw(make_result(spiral(3)), lower_tol=0.1, grid_resolution=201)
    radius = np.hypot(*np.concatenate([path.vertices for path in display.theta_.get_paths()]).T)
    # (r^2 - 1)^2 = 0.1
    assert radius.min() == pytest.approx(np.sqrt(1 - np.sqrt(0.1)), abs=0.01)
    assert radius.max() == pytest.approx(np.sqrt(1 + np.sqrt(0.1)), abs=0.01)


def test_a_region_where_l_is_smallest_is_drawn_as_a_whole():
    def outside(x):
        return np.maximum(np.abs(x[:, 0]) - 1.0, 0.0)

    display = ParticlesDisplay.from_result(make_result(spiral(3)), outside, bowl, BOX, vectorized=True)
    across = np.concatenate([path.vertices for path in display.theta_.get_paths()])[:, 0]
    assert across.min() == pytest.approx(-1.0, abs=0.05)
    assert across.max() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("value", [-5.0, 0.0, 5.0])
def test_objectives_that_are_the_same_everywhere_can_be_drawn(value):
    def constant(x):
        return np.full(len(x), value)

    display = ParticlesDisplay.from_result(make_result(spiral(3)), constant, constant, BOX, vectorized=True)
    across = np.concatenate([path.vertices for path in display.theta_.get_paths()])[:, 0]
    assert (across.min(), across.max()) == (-2, 2)
    display.figure_.canvas.draw()


def test_failed_evaluations_leave_holes():
    def fails(x):
        return None if x[0] > 0 else ring(x)

    display = ParticlesDisplay.from_result(make_result(spiral(3)), fails, bowl, BOX, grid_resolution=11)
    assert np.isnan(display.lower[:, 6:]).all()
    assert not np.isnan(display.lower[:, :6]).any()


def test_other_coordinates_are_those_of_the_result():
    x = np.column_stack([spiral(5), np.full(5, 0.6)])
    display = draw(make_result(x), coordinates=(2, 0))
    assert display.lower == pytest.approx((display.xx0**2 + display.xx1**2 + x[:, 1].mean() ** 2 - 1) ** 2)
    assert display.particles_.get_xydata() == pytest.approx(x[:, [2, 0]])
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x2", "x0")


def test_without_bounds_all_particles_are_in_the_picture():
    x = spiral(40)
    display = ParticlesDisplay.from_result(make_result(x), ring, bowl, vectorized=True)
    assert display.xx0.min() < x[:, 0].min()
    assert display.xx1.max() > x[:, 1].max()


def test_several_runs_of_an_optimizer_are_drawn_together():
    optimizer = SCB2OOptimizer(BOX, n_particles=10, n_runs=3, random_state=0)
    x = optimizer.ask()
    optimizer.tell(ring(x), bowl(x))
    display = draw(optimizer.result)
    assert display.particles_.get_xydata() == pytest.approx(x.reshape(30, 2))
    assert display.consensus_.get_xydata().shape == (3, 2)


def collect(n):
    frames = []

    def keep(intermediate_result):
        frames.append(intermediate_result)

    minimize(ring, bowl, BOX, vectorized=True, max_iter=n, n_particles=10, callback=keep, random_state=0)
    return frames


def test_frames_are_the_results_that_a_callback_has_collected():
    frames = collect(4)
    display = draw(frames, frame=1)
    assert display.particles_.get_xydata() == pytest.approx(frames[1].population.x)
    assert display.ax_.get_title() == "iteration 2"


def test_a_gif_has_a_picture_for_each_frame(tmp_path):
    draw(collect(2)).animate(tmp_path / "run.gif")
    with Image.open(tmp_path / "run.gif") as picture:
        assert picture.n_frames == 2


def test_a_page_has_a_picture_for_each_frame(tmp_path):
    draw(collect(2)).animate(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text(encoding="utf-8").count("data:image/png;base64") == 2


def test_other_formats_of_animations_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"its suffix must be .gif or .html"):
        draw(collect(2)).animate(tmp_path / "run.mov")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": (0, 2)}, "choose two of 0 to 1"),
        ({"coordinates": (1, 1)}, "choose two of 0 to 1"),
        ({"grid_resolution": 1}, "grid_resolution=1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        draw(make_result(spiral(3)), **options)


def test_bounds_of_another_number_of_coordinates_are_refused():
    with pytest.raises(ValueError, match="give two pairs"):
        ParticlesDisplay.from_result(make_result(spiral(3)), ring, bowl, [(0, 1)] * 3)


def test_a_result_before_anything_was_told_is_refused():
    with pytest.raises(ValueError, match="no population"):
        draw(OptimizeResult(x=None, population=None))


def test_an_empty_list_of_frames_is_refused():
    with pytest.raises(ValueError, match="empty list"):
        draw([])
