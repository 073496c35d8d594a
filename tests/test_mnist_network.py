"""The network of the MNIST experiment; names hold "torch", by which these tests are chosen where it is installed."""

import numpy as np
import pytest

from sklearn_scb2o.reproduce.mnist_network import Network, cross_entropy, image_patches, latent_norm, load_mnist

torch = pytest.importorskip("torch")


def images(b, seed=0):
    return torch.randn(b, 28, 28, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_weights(network, n=3):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, network.n_weights, generator=generator, dtype=torch.float64)


def as_modules(network, weights):
    """The layers up to the latent features, and the last one, as torch's own modules."""
    first, second = network.channels
    last = torch.nn.Linear(second * 16, 10, dtype=torch.float64)
    pool, relu = torch.nn.MaxPool2d(2), torch.nn.ReLU()
    layers = [
        torch.nn.Conv2d(1, first, 5, stride=2, dtype=torch.float64),
        torch.nn.Conv2d(first, second, 5, dtype=torch.float64),
    ]
    features = torch.nn.Sequential(layers[0], relu, layers[1], pool, relu, torch.nn.Flatten())
    torch.nn.utils.vector_to_parameters(weights, [*features.parameters(), *last.parameters()])
    return features, last


def test_torch_networks_in_one_pass_are_torch_modules_one_by_one():
    network, x = Network((4, 3)), images(7)
    weights = some_weights(network)
    logits, latent = network(weights, image_patches(x))
    for i in range(3):
        features, last = as_modules(network, weights[i])
        expected = features(x[:, None])
        torch.testing.assert_close(latent[i].T, expected)
        torch.testing.assert_close(logits[i].T, last(expected))


def test_torch_gradients_in_one_pass_are_those_of_torch_modules():
    network, x, y = Network((2, 3)), images(5), torch.arange(5)
    weights = some_weights(network).requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(network(weights, image_patches(x))[0], y).sum(), weights)
    for i in range(3):
        features, last = as_modules(network, weights[i].detach())
        loss = torch.nn.functional.cross_entropy(last(features(x[:, None])), y)
        parts = torch.autograd.grad(loss, [*features.parameters(), *last.parameters()])
        torch.testing.assert_close(gradient[i], torch.cat([part.reshape(-1) for part in parts]))


def test_torch_cross_entropy_is_that_of_torch():
    logits, y = torch.randn(3, 10, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 9, 3, 3, 1, 5])
    expected = torch.stack([torch.nn.functional.cross_entropy(row.T, y) for row in logits])
    torch.testing.assert_close(cross_entropy(logits, y), expected)


def test_torch_latent_norm_is_the_mean_of_powers():
    latent = torch.tensor([[[0.0, 4.0], [1.0, 9.0]]])
    assert latent_norm(latent).tolist() == [pytest.approx((0 + 2 + 1 + 3) / 4)]
    assert latent_norm(latent, 1.0).tolist() == [pytest.approx(14 / 4)]


def test_torch_scales_are_the_roots_of_the_inputs():
    network = Network((4, 3))
    parts = np.split(network.scales, np.cumsum(network.sizes)[:-1])
    for part, inputs in zip(parts, (25, 25, 100, 100, 48, 48), strict=True):
        np.testing.assert_allclose(part, inputs**-0.5)


def test_torch_images_are_shared_out_and_scaled(tmp_path):
    X = np.random.default_rng(0).integers(0, 256, (50, 784)).astype(np.uint8)
    np.savez(tmp_path / "data.npz", X=X, y=X[:, 0] % 10)
    data = load_mnist(tmp_path / "data.npz")
    assert [len(v) for v in (data.x, data.y, data.x_test, data.y_test)] == [40, 40, 10, 10]
    assert abs(data.x.mean().item()) < 1e-5
    assert data.x.std(correction=0).item() == pytest.approx(1)
    # each image keeps its class
    pixels, classes = torch.cat([data.x, data.x_test])[:, 0, 0], torch.cat([data.y, data.y_test])
    at = {round(v, 6): int(c) for v, c in zip(pixels.tolist(), classes.tolist(), strict=True)}
    assert len(at) == len(set(X[:, 0]))
    assert [at[v] for v in sorted(at)] == [int(v) % 10 for v in np.unique(X[:, 0])]


def test_torch_a_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="cuda:99"):
        load_mnist(device="cuda:99")


@pytest.mark.parametrize("arrays", [{"X": np.zeros((5, 784))}, {"X": np.zeros((5, 3)), "y": np.zeros(5)}])
def test_torch_another_file_is_refused(arrays, tmp_path):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match="expected"):
        load_mnist(tmp_path / "data.npz")
