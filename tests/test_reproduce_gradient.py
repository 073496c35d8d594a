import numpy as np
import pytest

from sklearn_scb2o.__main__ import main
from sklearn_scb2o.problems import periodic_grid
from sklearn_scb2o.reproduce import PAPER_GRADIENT, figure_gradient, run_gradient, table_gradient


@pytest.fixture(scope="module")
def curves():
    return run_gradient(2, steps=20)


def test_curves_cover_the_paper_and_hold_every_iteration_and_seed(curves):
    assert [c.method for c in curves] == list(PAPER_GRADIENT)
    assert all(v.shape == (21, 2) and np.isfinite(v).all() for c in curves for v in (c.upper, c.lower))


def test_a_seed_gives_the_same_curves_alone_and_among_others(curves):
    for one, both in zip(run_gradient(1, first_seed=1, steps=20), curves, strict=True):
        np.testing.assert_array_equal(one.upper[:, 0], both.upper[:, 1])
        np.testing.assert_array_equal(one.lower[:, 0], both.lower[:, 1])


def test_gradient_methods_report_the_best_of_all_starts(curves):
    problem = periodic_grid()
    x = np.random.default_rng(0).normal(0, 50, (1000, 2))
    best = np.argmin(problem.upper(x) + 50 * problem.lower(x))
    for c in curves[1:3]:
        assert (c.upper[0, 0], c.lower[0, 0]) == (problem.upper(x)[best], problem.lower(x)[best])


def test_particles_without_noise_follow_the_equations_of_cb2o(curves):
    problem = periodic_grid()
    x = np.random.default_rng(1).normal(0, 50, (1000, 2))
    for upper, lower in zip(curves[0].upper[:, 1], curves[0].lower[:, 1], strict=True):
        chosen = x[np.argsort(problem.lower(x))[:10]]
        G = problem.upper(chosen)
        weights = np.exp(-40 * (G - G.min()))
        m = weights @ chosen / weights.sum()
        np.testing.assert_allclose((upper, lower), (problem.upper(m), problem.lower(m)), rtol=1e-9)
        x = x - 0.01 * (x - m)


def test_table_shows_our_values_and_those_of_the_paper(curves):
    text = table_gradient(curves)
    assert "21.3581 +- 14.1328" in text
    assert f"{curves[0].upper[-1].mean():.4f} +- {curves[0].upper[-1].std():.4f}" in text
    assert "differs" in text.splitlines()[2]  # after 20 iterations


def test_figure_is_written(curves, tmp_path):
    pytest.importorskip("matplotlib")
    figure_gradient(curves, tmp_path / "new" / "figure.png")
    assert (tmp_path / "new" / "figure.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_figures_of_cb2o_and_vpbgd_are_those_of_the_paper():
    for c in run_gradient()[:2]:
        printed = PAPER_GRADIENT[c.method]
        for values, expected in ((c.upper[-1], printed.upper), (c.lower[-1], printed.lower)):
            np.testing.assert_allclose((values.mean(), values.std()), expected, rtol=0, atol=5.001e-5)


@pytest.mark.slow
def test_reproduce_prints_the_table_and_saves_the_figure(capsys, tmp_path):
    assert main(["reproduce", "gradient", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "differs" not in out
    assert (tmp_path / "gradient.png").exists()
