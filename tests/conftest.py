import signal

import numpy as np
import pytest
from hypothesis import settings

from sklearn_scb2o.particles.backend import get_namespace, to_numpy

# a shell has programs that it starts in the background ignore Ctrl-C; tests send it to themselves
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", deadline=None, derandomize=True, database=None, max_examples=40)
settings.load_profile("ci")


class Namespace:
    """Arrays of one library, and back to NumPy."""

    def __init__(self, module):
        self.module = module

    def array(self, value, dtype=float):
        source = np.array(value, dtype=dtype)
        source.flags.writeable = False  # a kernel that writes to its input fails
        if self.module is np:
            return source
        return self.module.asarray(np.array(source))

    @staticmethod
    def numpy(x):
        return to_numpy(x)

    def __getattr__(self, name):
        return getattr(self.module, name)


@pytest.fixture(scope="session", params=["numpy", "array_api_strict", "torch", "cupy"])
def xp(request):
    module = pytest.importorskip(request.param)
    if request.param == "cupy" and not module.is_available():
        pytest.skip("no GPU")
    return Namespace(get_namespace(module.zeros(1)))
