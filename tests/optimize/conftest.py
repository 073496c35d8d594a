import array_api_compat
import numpy as np
import pytest
from optimize_cases import BOX

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.particles.backend import to_numpy


@pytest.fixture
def make():
    """Small optimizers on the box [-3, 3]^2."""

    def factory(bounds=BOX, **options):
        return SCB2OOptimizer(bounds, **{"n_particles": 20, "random_state": 0, **options})

    return factory


class SeenFromNumpy:
    """An optimizer on another array library, whose arrays come as those of NumPy."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def __getattr__(self, name):
        value = getattr(self._optimizer, name)
        return (lambda *args, **options: seen(value(*args, **options))) if callable(value) else seen(value)


def seen(value):
    return np.array(to_numpy(value)) if array_api_compat.is_array_api_obj(value) else value


@pytest.fixture
def make_each(make, xp):
    """`make`, on each array library in turn."""
    if xp.module is np:
        return make
    return lambda *args, **options: SeenFromNumpy(make(*args, xp=xp.module, **options))


@pytest.fixture
def rng():
    return np.random.default_rng(12345)
