"""Pictures compared with those in `baseline`, without text; started as a program, this draws these anew."""

import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.testing.compare import compare_images
from matplotlib.testing.decorators import remove_ticks_and_titles
from plotting_cases import bowl, make_result, ring, spiral

from sklearn_scb2o.plotting import (
    ConvergenceDisplay,
    ParallelCoordinatesDisplay,
    ParticlesDisplay,
    SelectionPathDisplay,
)

BASELINE = Path(__file__).parent / "baseline"
# of the root mean square of differences of pixels, of 255: other versions smooth edges otherwise
TOLERANCE = 1.5


def axes(*shape, size):
    """At places that do not depend on the version, as those of other layouts do."""
    return plt.subplots(*shape, figsize=size, squeeze=False)[1].ravel()


def convergence():
    t = np.arange(1.0, 41.0)[:, None]
    runs = 1.0 + 0.4 * np.sin(t + np.arange(6))
    columns = {"lower": runs * 10 ** (-t / 10), "upper": 2 + runs / t, "spread": runs / t, "ess": 5 + runs}
    one = {name: values[:, :1] for name, values in columns.items()}
    display = ConvergenceDisplay.from_history(columns, 100 * t[:, 0], ax=axes(1, 4, size=(9, 2.5)))
    return ConvergenceDisplay.from_history(one, 100 * t[:, 0], ax=display.axes_)


def particles():
    return ParticlesDisplay.from_result(
        make_result(spiral(40)),
        ring,
        bowl,
        [(-2, 2), (-2, 2)],
        vectorized=True,
        x_opt=[1, 0.5],
        legend=False,
        ax=axes(size=(5, 4)),
    )


def parallel_coordinates():
    x = np.column_stack([np.sin(np.arange(16.0) * k) for k in (1, 2, 3, 4)])
    result = make_result(x, ring(x[:, :2]), bowl(x))
    return ParallelCoordinatesDisplay.from_result(result, lower_tol=0.2, legend=False, ax=axes(size=(5, 3)))


def selection_path():
    folds = np.array([-0.02, 0.0, 0.02])
    return SelectionPathDisplay(
        tolerances=np.array([0.0, 0.01, 0.1, 0.3, 1.0]),
        scores=np.array([0.8, 0.84, 0.83, 0.7, 0.4])[:, None] + folds,
        criteria=np.array([9, 7, 5, 2, 1])[:, None] + [0, 0, 1],
        criterion="n_features",
        scoring="accuracy",
        best=1,
        within_1se=2,
        chosen=2,
    ).plot(axes(2, 1, size=(4, 4)), legend=False)


PICTURES = {f.__name__: f for f in (convergence, particles, parallel_coordinates, selection_path)}


def save(name, path):
    figure = PICTURES[name]().figure_
    remove_ticks_and_titles(figure)
    for ax in figure.axes:
        ax.set(xlabel="", ylabel="")
        for text in ax.texts:
            text.set_visible(False)
    figure.savefig(path, dpi=60)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_look_as_before(name, tmp_path):
    save(name, tmp_path / f"{name}.png")
    assert compare_images(str(BASELINE / f"{name}.png"), str(tmp_path / f"{name}.png"), tol=TOLERANCE) is None


def test_the_package_and_its_displays_are_imported_without_matplotlib():
    code = "import sys, sklearn_scb2o.plotting; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'sklearn-scb2o\[plot\]'"):
        ConvergenceDisplay.from_history({"spread": [2.0, 1.0]})


if __name__ == "__main__":
    import matplotlib as mpl

    mpl.use("agg")
    for name in PICTURES:
        save(name, BASELINE / f"{name}.png")
