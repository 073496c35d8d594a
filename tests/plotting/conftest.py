import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _one_style():
    mpl.use("agg")
    with plt.style.context("default"):
        yield
    plt.close("all")
