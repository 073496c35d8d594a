import signal

import array_api_strict
import numpy as np
import pytest
from hypothesis import settings

# a shell has programs that it starts in the background ignore Ctrl-C; tests send it to themselves
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", deadline=None, derandomize=True, database=None, max_examples=60)
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
        return x if isinstance(x, np.ndarray) else np.from_dlpack(x)

    def __getattr__(self, name):
        return getattr(self.module, name)


@pytest.fixture(scope="session", params=[np, array_api_strict], ids=["numpy", "strict"])
def xp(request):
    return Namespace(request.param)
