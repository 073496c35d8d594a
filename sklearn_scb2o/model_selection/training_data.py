"""What an objective of all weights is made of: arrays of one library, and a population in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import sklearn
from scipy import sparse

from ..particles.backend import Array, get_namespace, move

# The largest block of (n_samples, n_particles, n_outputs) numbers made at once; a smaller `working_memory` of
# scikit-learn's configuration is honoured. Larger blocks leave the cache and are no faster.
BLOCK_MIB = 64


class TrainingData(NamedTuple):
    """The arrays of an objective, all of one library and floating type."""

    X: Any  #: (n_samples, n_features)
    targets: Array  #: (n_outputs, n_samples)
    row_weight: Array
    l2: Array  #: (n_weights,)
    l1: Array | None

    def on(self, like: Array) -> TrainingData:
        """The same arrays in the library, on the device and of the floating type of `like`."""
        if sparse.issparse(self.X):
            if not isinstance(like, np.ndarray):
                raise ValueError(
                    f"X is sparse, which works with NumPy only, and xp is {get_namespace(like).__name__}: leave xp out "
                    "of optimizer_params, or give a dense X"
                )
            X = self.X.astype(like.dtype)
        else:
            X = move(np.asarray(self.X, dtype=float), like)
        others = (None if v is None else move(np.asarray(v, dtype=float), like) for v in self[1:])
        return TrainingData(X, *others)

    def weights(self, weights: Any) -> tuple[Array, ModuleType]:
        """Weights as an array of the same library, and that library."""
        if isinstance(self.l2, np.ndarray):
            return np.asarray(weights, dtype=self.l2.dtype), np
        return weights, get_namespace(weights)


def add_blocks(values: Array, blocks: list[Array], xp: ModuleType) -> Array:
    """Values of a population plus those of its blocks, which are none where there are no particles."""
    if not blocks:
        return values
    return values + (blocks[0] if len(blocks) == 1 else xp.concat(blocks))


def blocks_of_particles(n_particles: int, numbers_per_particle: int) -> Iterator[slice]:
    """Slices of a population such that a block holds at most BLOCK_MIB of float64 numbers."""
    mib = min(BLOCK_MIB, sklearn.get_config()["working_memory"])
    size = max(1, int(mib * 2**20 / 8) // max(1, numbers_per_particle))
    for start in range(0, n_particles, size):
        yield slice(start, min(start + size, n_particles))
