"""The MNIST experiment on few images; names hold "torch", by which tests are chosen where it is installed."""

import numpy as np
import pytest

from sklearn_scb2o.__main__ import main
from sklearn_scb2o.reproduce import METHODS, plan_mnist, run_mnist
from sklearn_scb2o.reproduce.mnist_network import Network, cross_entropy, image_patches, latent_norm, load_mnist

torch = pytest.importorskip("torch")
SMALL = Network((2, 2))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of 160 images: two classes, bright above or below."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 100, (160, 28, 28)), rng.integers(0, 2, 160)
    X[y == 0, :14] += 150
    X[y == 1, 14:] += 150
    path = tmp_path_factory.mktemp("mnist") / "data.npz"
    np.savez(path, X=X.reshape(160, 784).astype(np.uint8), y=y)
    return path


@pytest.fixture(scope="module")
def curves(data):
    return run_mnist(2, data=data, reduced=True, epochs=2, methods=["xi=10", "no G"], network=SMALL)


def test_torch_curves_hold_every_epoch_and_seed(curves):
    assert [(c.beta, c.method) for c in curves] == [(0.04, "xi=10"), (0.04, "no G")]
    assert all(v.shape == (2, 2) and np.isfinite(v).all() for c in curves for v in (c.loss, c.accuracy, c.norm))


@pytest.fixture(scope="module")
def learned(data):
    """CB2O, and CB2O without an upper objective."""
    return run_mnist(1, data=data, reduced=True, epochs=20, methods=["CB2O", "no G"], network=SMALL)


def test_torch_networks_learn(learned):
    for curve in learned:
        assert curve.loss[-1] < 0.7 * curve.loss[0]
        assert curve.accuracy[-1] > 0.8


def test_torch_gradients_learn_faster(data, learned):
    (ours,) = run_mnist(1, data=data, reduced=True, epochs=10, methods=["CB2O"], drift=True, network=SMALL)
    assert ours.loss[-1] < 0.5 * learned[0].loss[-1]


def test_torch_the_same_seeds_give_the_same_curves(data, curves):
    (again,) = run_mnist(2, data=data, reduced=True, epochs=2, methods=["xi=10"], network=SMALL)
    np.testing.assert_array_equal(again.loss, curves[0].loss)


def test_torch_an_upper_objective_lowers_the_latent_norm(learned):
    assert learned[0].norm[-1] < learned[1].norm[-1]


def test_torch_a_consensus_is_judged_on_all_images(data):
    from sklearn_scb2o.reproduce.mnist import _judge

    images = load_mnist(data)
    weights = torch.randn(3, SMALL.n_weights, generator=torch.Generator().manual_seed(0))
    logits, _ = SMALL(weights, image_patches(images.x))
    logits_test, latent = SMALL(weights, image_patches(images.x_test))
    loss, accuracy, norm = _judge(SMALL, weights, images)
    assert loss == pytest.approx(cross_entropy(logits, images.y).tolist(), rel=1e-5)
    assert accuracy == pytest.approx([(row.argmax(0) == images.y_test).float().mean().item() for row in logits_test])
    assert norm == pytest.approx(latent_norm(latent).tolist(), rel=1e-5)


def test_torch_plan_of_the_paper_has_every_beta_and_method():
    rows, epochs = plan_mnist()
    assert rows == [(beta, method) for beta in (0.04, 0.06, 0.08, 0.10) for method in METHODS]
    assert epochs == 100


def test_torch_reproduce_prints_the_table_and_saves_the_figure(data, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    options = ["--reduced", "--epochs", "2", "--seeds", "1", "--methods", "xi=1", "CB2O"]
    assert main(["reproduce", "mnist", "--data", str(data), *options, "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "after 2 epochs" in out
    assert "0.04 xi=1" in out
    assert (tmp_path / "mnist.png").read_bytes()[:4] == b"\x89PNG"


def test_torch_reproduce_names_a_file_that_is_missing(capsys, tmp_path):
    assert main(["reproduce", "mnist", "--data", str(tmp_path / "none.npz")]) == 1
    assert "none.npz" in capsys.readouterr().err
