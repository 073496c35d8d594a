import pytest

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _one_style():
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        matplotlib.use("agg")
        plt.style.use("default")
        yield
    plt.close("all")
