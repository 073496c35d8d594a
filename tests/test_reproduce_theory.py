import re
from functools import partial

import numpy as np
import pytest

from sklearn_scb2o.__main__ import main
from sklearn_scb2o.reproduce import theory
from sklearn_scb2o.reproduce.theory import ErrorCurve, figure_theory, particle_error, step_error, table_theory

few_particles = partial(particle_error, particles=[10, 20, 40], large=400, copies=4, steps=5)
few_steps = partial(step_error, steps=[4, 8, 16], fine_steps=64, particles=20)


@pytest.fixture(scope="module")
def curves():
    return [few_particles(range(3)), few_steps(range(3))]


def test_slope_of_a_power_law_is_its_exponent():
    x = np.asarray([1.0, 2.0, 4.0])
    squared = np.asarray([[3.0 * x**-1.5]] * 2)
    assert ErrorCurve("N", x, squared, root=False, expected=-1.5).slope() == pytest.approx(-1.5)
    assert ErrorCurve("dt", x, squared, root=True, expected=-0.75).slope() == pytest.approx(-0.75)


def test_error_is_the_largest_over_time_of_the_mean_over_seeds():
    squared = np.asarray([[[1.0], [2.0]], [[5.0], [3.0]]])  # means 3 and 2.5
    assert ErrorCurve("N", np.ones(1), squared, root=False, expected=-1.0).error() == [3.0]


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    x, rng = np.asarray([1.0, 2.0, 4.0, 8.0]), np.random.default_rng(0)
    covered = []
    for _ in range(200):
        squared = (x**-1.0 * rng.lognormal(sigma=0.5, size=(20, 4)))[:, None]
        curve = ErrorCurve("N", x, squared, root=False, expected=-1.0)
        low, high = curve.interval(curve.slope, n_samples=200)
        covered.append(low <= -1.0 <= high)
    assert 0.87 <= np.mean(covered) <= 0.99


def test_a_single_seed_has_no_interval():
    curve = few_particles([0])
    assert np.isnan(curve.interval(curve.slope, n_samples=5)).all()


def test_as_many_particles_as_the_large_system_make_no_error():
    curve = particle_error([0], particles=[20, 100], large=100, copies=1, steps=5)
    assert (curve.squared[..., 0] > 1e-6).all()
    np.testing.assert_allclose(curve.squared[..., 1], 0, atol=1e-20)


def test_as_many_steps_as_the_reference_make_no_error():
    curve = step_error([0, 1], steps=[4, 16], fine_steps=16, particles=20)
    assert (curve.squared[..., 0] > 1e-6).all()
    np.testing.assert_array_equal(curve.squared[..., 1], 0)


@pytest.mark.parametrize("measure", [few_particles, few_steps])
def test_a_seed_gives_the_same_errors_alone_and_among_others(measure):
    np.testing.assert_allclose(measure([7]).squared[0], measure([3, 7]).squared[1], rtol=1e-9)


@pytest.mark.parametrize("measure", [few_particles, few_steps])
def test_advance_is_called_once_for_each_seed(measure):
    calls = []
    measure(range(3), advance=lambda: calls.append(1))
    assert len(calls) == 3


def test_table_shows_the_slopes_beside_those_of_the_paper(curves):
    text = table_theory(curves)
    for curve, paper in zip(curves, ("-1", "0.5"), strict=True):
        assert f"{curve.slope():.3f} [" in text
        assert f"the paper's {paper}" in text


def test_figure_is_written(curves, tmp_path):
    pytest.importorskip("matplotlib")
    figure_theory(curves, tmp_path / "new" / "theory.png")
    assert (tmp_path / "new" / "theory.png").read_bytes()[:4] == b"\x89PNG"


def test_command_prints_the_table_and_saves_the_figure(monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(theory, "particle_error", few_particles)
    monkeypatch.setattr(theory, "step_error", few_steps)
    assert main(["reproduce", "theory", "--seeds", "2", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "slope" in printed.out
    assert str(tmp_path / "theory.png") in printed.out
    assert printed.err == ""
    assert (tmp_path / "theory.png").exists()


@pytest.mark.slow
def test_measured_slopes_agree_with_the_paper(capsys, tmp_path):
    assert main(["reproduce", "theory", "--seeds", "8", "--output", str(tmp_path)]) == 0
    found = re.findall(r"slope +(\S+) \[(\S+), (\S+)\]; the paper's (\S+)", capsys.readouterr().out)
    assert len(found) == 2
    for _, low, high, paper in found:
        assert float(low) <= float(paper) <= float(high)
        assert float(high) - float(low) < 0.12
