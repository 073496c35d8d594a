import numpy as np
import pytest
from optimize_cases import BOX

from sklearn_scb2o import SCB2OOptimizer


@pytest.fixture
def make():
    """Small optimizers on the box [-3, 3]^2."""

    def factory(bounds=BOX, **options):
        return SCB2OOptimizer(bounds, **{"n_particles": 20, "random_state": 0, **options})

    return factory


@pytest.fixture
def rng():
    return np.random.default_rng(12345)
