"""CMA-ES of `cma`, for those that are told the constraints and those that are not."""

from __future__ import annotations

import numpy as np

from ..problems.problem import Floats
from ..recorder import Recorder
from .local import FAILED, Columns, Differences, quietly


def doubled(growth: int) -> int:
    """Factor of the population of the next restart."""
    return 2 * growth if growth < 16 else 1


def generations(recorder: Recorder) -> int:
    """Of differential evolution with 15 d individuals; where they all are equal it would go on for ever."""
    return 1 + recorder.left // (15 * recorder.d)


def _strategy(start: Floats, sigma: float, rng: np.random.Generator, growth: int) -> object:
    import cma

    d = len(start)
    options = {
        "bounds": [0.0, 1.0], "seed": int(rng.integers(1, 2**31)), "verbose": -9, "tolfun": 1e-12, "tolx": 1e-9,
        "popsize": growth * (4 + int(3 * np.log(d))),
    }  # fmt: skip
    return cma.CMAEvolutionStrategy(start, sigma, options)


def cma_free(
    recorder: Recorder, start: Floats, sigma: float, columns: Columns, rng: np.random.Generator, growth: int, stop: int
) -> None:
    """Minimise the only column, until `stop` evaluations are left."""
    es = quietly(_strategy, start, sigma, rng, growth)

    def run() -> None:
        while not es.stop() and recorder.left > stop:
            z = es.ask()
            values = np.nan_to_num(columns(recorder(np.asarray(z)))[0], nan=FAILED)
            es.tell(z, values.tolist())

    quietly(run)


def cma_augmented(
    recorder: Recorder, start: Floats, sigma: float, columns: Columns, rng: np.random.Generator, growth: int,
    stop: int = 0,
) -> None:  # fmt: skip
    """Minimise the first column, the others being at most 0, by the augmented Lagrangian."""
    import cma

    f = Differences(recorder, columns, 0.0)

    def run() -> None:
        es = _strategy(start, sigma, rng, growth)
        fun = cma.ConstrainedFitnessAL(
            lambda z: float(f.value(np.asarray(z))[0]),
            lambda z: f.value(np.asarray(z))[1:].tolist(),
            archives=False,
            logging=0,
        )
        while not es.stop() and recorder.left > stop:
            z = es.ask()
            es.tell(z, [fun(point) for point in z])
            fun.update(es)

    quietly(run)
