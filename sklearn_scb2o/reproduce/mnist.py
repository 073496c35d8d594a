"""The paper's MNIST experiment: a small convolutional network trained without derivatives, table and figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..optimize import SCB2OOptimizer
from .mnist_network import Images, Network, cross_entropy, image_patches, latent_norm, load_mnist

Floats = NDArray[np.float64]

N_PARTICLES, BATCH, P = 50, 60, 0.5
BETAS = (0.04, 0.06, 0.08, 0.10)
#: CB2O and SCB2O as in the paper; "no G" is CB2O with a constant upper objective.
METHODS = ("xi=1", "xi=5", "xi=10", "xi=100", "xi=1000", "CB2O", "no G")
REDUCED_BETAS, REDUCED_METHODS = BETAS[:1], ("xi=1", "xi=10", "xi=100", "xi=1000", "CB2O", "no G")
EPOCHS, REDUCED_EPOCHS, DRIFT_EPOCHS = 100, 20, 5
NETWORK = Network((4, 12))
#: Standard deviation of the first weights, and `noise_floor` in the first and after the last iteration, all in units of
#: `Network.scales`; with gradients the noise need not explore.
START, FLOORS, DRIFT_FLOORS = 1.5, (0.8, 0.05), (0.05, 0.005)
#: The velocity of a particle is this times the negative gradient of its training loss.
DRIFT = 2.0
_AT_ONCE, _IMAGES_AT_ONCE = 10, 1000  # networks on a CPU, whose caches hold no more; images when a consensus is judged


@dataclass(frozen=True)
class Learning:
    """The consensus of a method after each epoch, for each seed: (epochs, n_seeds)."""

    beta: float
    method: str
    loss: Floats  #: mean cross entropy on the training images
    accuracy: Floats  #: on the test images
    norm: Floats  #: latent norm, on the test images


def plan_mnist(
    *, reduced: bool = False, drift: bool = False, epochs: int | None = None, methods: Sequence[str] | None = None
) -> tuple[list[tuple[float, str]], int]:
    """What `run_mnist` runs: pairs of beta and method, and the number of epochs.

    Parameters
    ----------
    reduced, drift, epochs, methods
        As in `run_mnist`.

    Returns
    -------
    list of (beta, method), int

    Examples
    --------
    >>> plan_mnist(reduced=True, methods=["CB2O"], epochs=3)
    ([(0.04, 'CB2O')], 3)
    """
    betas, usual = (REDUCED_BETAS, REDUCED_METHODS) if reduced else (BETAS, METHODS)
    usual_epochs = DRIFT_EPOCHS if drift else REDUCED_EPOCHS if reduced else EPOCHS
    chosen = [(beta, method) for beta in betas for method in methods or usual]
    return chosen, usual_epochs if epochs is None else epochs


def run_mnist(
    n_seeds: int | None = None,
    *,
    data: Path | Images | None = None,
    device: str = "cpu",
    reduced: bool = False,
    drift: bool = False,
    epochs: int | None = None,
    methods: Sequence[str] | None = None,
    first_seed: int = 0,
    network: Network = NETWORK,
    advance: Callable[[], object] = lambda: None,
) -> list[Learning]:
    r"""Train a `Network` on 8,000 images of MNIST with CB2O and SCB2O, with the paper's settings.

    The lower objective is the cross entropy on a mini-batch of 60 images, the same for all particles; the upper one is
    `latent_norm` on it with p = 0.5. N = 50, alpha = 50, lam = 1, sigma = sqrt(0.4), dt = 0.1, anisotropic noise.

    With these alone the swarm contracts by ``exp(-0.12)`` per iteration and has collapsed before the first epoch ends.
    Two things are added, in units of ``1 / sqrt(inputs of the layer)`` for each weight: the first weights are normal
    with standard deviation 1.5, and `noise_floor` falls from 0.8 to 0.05 geometrically. The architecture is not the
    paper's, which does not tell its own.

    Parameters
    ----------
    n_seeds : int, optional
        Seeds ``first_seed, ..., first_seed + n_seeds - 1``; 5, or 2 of a reduced run. They see the same mini-batches.
    data : Path or Images, optional
        As `load_mnist` takes it, or what it returned.
    device : str
        Device of torch.
    reduced : bool
        Only beta = 0.04, without xi = 5, and 20 epochs.
    drift : bool
        Particles also follow the gradient of their training loss, ``-2 grad L``; 5 epochs, and a smaller noise floor.
    epochs : int, optional
        Passes through the training images; 100 by default.
    methods : sequence of str, optional
        Some of `METHODS`.
    first_seed : int
    network : Network
    advance : callable
        Called after each epoch.

    Returns
    -------
    list of Learning

    Raises
    ------
    ImportError
        If torch is not installed.

    References
    ----------
    SCB2O paper, section "MNIST neural-network problem"; restarted noise: Carrillo, Jin, Li, Zhu, "A consensus-based
    global optimization method for high dimensional machine learning problems" (2021).
    """
    if find_spec("torch") is None:
        raise ImportError("the MNIST experiment needs torch: pip install 'sklearn-scb2o[torch]'")
    images = data if isinstance(data, Images) else load_mnist(data, device)
    if n_seeds is None:
        n_seeds = default_seeds(reduced)
    seeds = range(first_seed, first_seed + n_seeds)
    chosen, n_epochs = plan_mnist(reduced=reduced, drift=drift, epochs=epochs, methods=methods)
    return [_learn(network, images, beta, method, seeds, n_epochs, drift, advance) for beta, method in chosen]


def default_seeds(reduced: bool = False) -> int:
    """The number of seeds where none is given: 5, or 2 of a reduced run."""
    return 2 if reduced else 5


def _learn(
    network: Network,
    images: Images,
    beta: float,
    method: str,
    seeds: range,
    epochs: int,
    drift: bool,
    advance: Callable[[], object],
) -> Learning:
    """One row of the table."""
    import torch

    n_batches = max(1, len(images.x) // BATCH)
    first, last = DRIFT_FLOORS if drift else FLOORS

    def floor(optimizer: SCB2OOptimizer) -> float:
        return first * (last / first) ** (optimizer.n_iter / (epochs * n_batches))

    kind: dict[str, Any] = {"xi": float(method[3:])} if method.startswith("xi=") else {"selection": "hard"}
    start = np.stack([np.random.default_rng([s, 5]).normal(size=(N_PARTICLES, network.n_weights)) for s in seeds])
    optimizer = SCB2OOptimizer(
        x0=(START * network.scales * start).astype(np.float32), n_particles=N_PARTICLES, n_runs=len(seeds),
        alpha=50.0, beta=beta, lam=1.0, sigma=math.sqrt(0.4), dt=0.1, noise="anisotropic", noise_floor=floor,
        x_scale=network.scales, tol=0.0, xp=torch, device=images.x.device, random_state=list(seeds), **kind,
    )  # fmt: skip
    rows = []
    for epoch in range(epochs):
        order = torch.as_tensor(np.random.default_rng([epoch, 6]).permutation(len(images.x)))
        for chosen in order.to(images.x.device)[: n_batches * BATCH].split(BATCH):
            X = optimizer.ask()
            found = _objectives(network, X.reshape(-1, network.n_weights), images.x[chosen], images.y[chosen], drift)
            L, G = (values.reshape(X.shape[:-1]) for values in found[:2])
            velocities = -DRIFT * found[2].reshape(X.shape) if drift else None
            optimizer.tell(L, torch.zeros_like(G) if method == "no G" else G, drift=velocities)
        consensus: Any = optimizer.consensus
        rows.append(_judge(network, consensus.reshape(-1, network.n_weights), images))
        advance()
    return Learning(beta, method, *np.moveaxis(np.array(rows), 0, 1))


def _objectives(network: Network, weights: Any, x: Any, y: Any, gradients: bool) -> list[Any]:
    """L and G of networks, and the gradients of L where they are asked for."""
    import torch

    patches = image_patches(x)
    parts = []
    for some in weights.split(_AT_ONCE if weights.device.type == "cpu" else len(weights)):
        some = some.detach().requires_grad_(gradients)
        with torch.set_grad_enabled(gradients):
            logits, latent = network(some, patches)
            L = cross_entropy(logits, y)
        slopes = torch.autograd.grad(L.sum(), some) if gradients else ()
        parts.append((L.detach(), latent_norm(latent.detach(), P), *slopes))
    return [torch.cat(part) for part in zip(*parts, strict=True)]


def _judge(network: Network, weights: Any, images: Images) -> list[list[float]]:
    """Training loss, test accuracy and latent norm of each network."""
    import torch

    def mean(values: Callable[[Any, Any, Any], Any], x: Any, y: Any) -> list[float]:
        total = 0.0
        for some, classes in zip(x.split(_IMAGES_AT_ONCE), y.split(_IMAGES_AT_ONCE), strict=True):
            total = total + len(some) * values(*network(weights, image_patches(some)), classes)
        return (total / len(x)).tolist()  # type: ignore[attr-defined]

    with torch.no_grad():
        return [
            mean(lambda logits, latent, y: cross_entropy(logits, y), images.x, images.y),
            mean(lambda logits, latent, y: (logits.argmax(1) == y).float().mean(1), images.x_test, images.y_test),
            mean(lambda logits, latent, y: latent_norm(latent, P), images.x_test, images.y_test),
        ]
