"""The network of the MNIST experiment: many of them, with weights of their own, in one pass over the same images.

torch is imported when something is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KERNEL = 5
SIDE = 28
_WIDE = (SIDE - KERNEL) // 2 + 1  # 12: side of what the first convolution gives
_NARROW = _WIDE - KERNEL + 1  # 8: of what the second gives, before pooling
_CLASSES = 10


@dataclass(frozen=True)
class Network:
    """A convolution of 5 x 5 with stride 2, another with max pooling by 2, both with ReLU, and a dense layer; biases.

    What enters the dense layer are the latent features, 16 for each channel of the second convolution.

    Parameters
    ----------
    channels : pair of int
        Channels of both convolutions.

    Examples
    --------
    >>> Network((4, 12)).n_weights
    3246
    """

    channels: tuple[int, int] = (4, 12)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of weights and biases of the three layers, as torch's modules have them."""
        first, second = self.channels
        n_latent = second * (_NARROW // 2) ** 2
        kernels = [(first, 1, KERNEL, KERNEL), (second, first, KERNEL, KERNEL), (_CLASSES, n_latent)]
        return [shape for kernel in kernels for shape in (kernel, kernel[:1])]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each of the `shapes` has."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def n_weights(self) -> int:
        """Number of weights and biases."""
        return sum(self.sizes)

    @property
    def scales(self) -> NDArray[np.float64]:
        """``1 / sqrt(inputs of the layer)`` for each weight and bias, (n_weights,)."""
        inputs = [math.prod(kernel[1:]) for kernel in self.shapes[::2]]
        return np.repeat(1.0 / np.sqrt(np.repeat(inputs, 2)), self.sizes)

    def __call__(self, weights: Any, patches: Any) -> tuple[Any, Any]:
        """Logits and latent features of all images under all weights.

        Parameters
        ----------
        weights : tensor of shape (n, n_weights)
            Of n networks.
        patches : tensor of shape (25, 12, 12, b)
            From `image_patches`, of b images.

        Returns
        -------
        logits : tensor of shape (n, 10, b)
        latent : tensor of shape (n, n_latent, b)
        """
        import torch

        n, b = weights.shape[0], patches.shape[-1]
        first, second = self.channels
        parts = weights.split(self.sizes, dim=1)
        w1, b1, w2, b2, w3, b3 = (w.reshape(n, *shape) for w, shape in zip(parts, self.shapes, strict=True))
        # images come last, so that windows are runs of memory; all first convolutions are one matrix product
        h = (w1.reshape(n * first, -1) @ patches.reshape(KERNEL**2, -1)).reshape(n, first, *patches.shape[1:])
        h = torch.relu(h + b1[:, :, None, None, None])
        # rows of windows are copied, columns are views: a kernel is five products, one for each of its rows
        rows = torch.stack([h[:, :, :, j : j + _NARROW] for j in range(KERNEL)], 2)
        rows = rows.reshape(n, first * KERNEL, _WIDE * _NARROW * b)
        w2 = w2.permute(0, 3, 1, 2, 4).reshape(n, KERNEL, second, first * KERNEL)
        run = _NARROW * b
        h = torch.bmm(w2[:, 0], rows[:, :, : _NARROW * run])
        for i in range(1, KERNEL):
            h = torch.baddbmm(h, w2[:, i], rows[:, :, i * run : (i + _NARROW) * run])
        h = h.reshape(n, second, _NARROW // 2, 2, _NARROW // 2, 2 * b)
        h = torch.maximum(h[:, :, :, 0], h[:, :, :, 1])
        h = torch.maximum(h[..., :b], h[..., b:])
        latent = torch.relu(h + b2[:, :, None, None, None]).reshape(n, -1, b)
        return torch.baddbmm(b3[:, :, None], w3, latent), latent


def image_patches(images: Any) -> Any:
    """The 5 x 5 windows of images that the first convolution sees.

    Parameters
    ----------
    images : tensor of shape (b, 28, 28)

    Returns
    -------
    tensor of shape (25, 12, 12, b)
        Pixel of the window, row and column of the window, image.
    """
    windows = images.unfold(1, KERNEL, 2).unfold(2, KERNEL, 2)
    return windows.permute(3, 4, 1, 2, 0).reshape(KERNEL**2, _WIDE, _WIDE, len(images))


def cross_entropy(logits: Any, y: Any) -> Any:
    """The lower objective: mean cross entropy of each network.

    Parameters
    ----------
    logits : tensor of shape (n, 10, b)
    y : tensor of shape (b,)
        Classes, 0 to 9.

    Returns
    -------
    tensor of shape (n,)
    """
    of_class = logits.gather(1, y.expand(logits.shape[0], 1, -1))[:, 0]
    return (logits.logsumexp(1) - of_class).mean(1)


def latent_norm(latent: Any, p: float = 0.5) -> Any:
    """The upper objective: mean of ``|h|^p`` over latent features and images, for each network.

    It is the p-th power of the l_p norm, divided by the number of features.

    Parameters
    ----------
    latent : tensor of shape (n, n_latent, b)
    p : float

    Returns
    -------
    tensor of shape (n,)
    """
    return latent.abs().pow(p).mean((1, 2))


@dataclass(frozen=True)
class Images:
    """Images of 28 x 28 pixels and their classes, tensors on a device: those to train on, and those to test on."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


def load_mnist(path: Path | None = None, device: str = "cpu") -> Images:
    """10,000 images of MNIST, shuffled: four fifths to train on, the rest to test on.

    Pixels are shifted and scaled to the mean 0 and standard deviation 1 of the training images.

    Parameters
    ----------
    path : Path, optional
        An npz file with ``X``, uint8 of shape (n, 784), and ``y``, integers of shape (n,). Without it the first
        10,000 images of OpenML's copy are fetched.
    device : str
        Device of torch.

    Returns
    -------
    Images

    Raises
    ------
    ValueError
        If the file holds something else, or torch cannot use the device.
    """
    import torch

    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:  # by what torch was built with
        raise ValueError(f"device={device!r} cannot be used: {error}") from None
    if path is None:
        from sklearn.datasets import fetch_openml

        X, y = fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
        X, y = X[:10_000], y[:10_000]
    else:
        with np.load(path) as file:
            if not {"X", "y"} <= set(file.files):
                raise ValueError(f"{path} has the arrays {file.files}, expected X (n, 784) and y (n,)")
            X, y = file["X"], file["y"]
    if X.ndim != 2 or X.shape[1] != SIDE**2 or y.shape != X.shape[:1]:
        raise ValueError(f"X has shape {X.shape} and y {y.shape}, expected (n, {SIDE**2}) and (n,)")
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float32).reshape(-1, SIDE, SIDE), y[order].astype(np.int64)
    n_train = len(X) * 4 // 5
    X = (X - X[:n_train].mean()) / X[:n_train].std()
    x, classes = (torch.asarray(v, device=device) for v in (X, y))
    return Images(x[:n_train], classes[:n_train], x[n_train:], classes[n_train:])
