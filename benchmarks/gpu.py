"""The optimizer on a GPU: checked against NumPy, and timed against it and against copying the population.

Run: python benchmarks/gpu.py [--cpu]

CuPy and torch are used where they find a GPU; with --cpu torch on the CPU, at small sizes. It takes under 5 minutes.
Objectives are not counted: the values told are drawn beforehand. Medians with quartiles of several iterations, each
waited for. "/ 2 passes" is relative to the time in which the library copies the population twice, measured here.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from scipy import stats

from sklearn_scb2o import SCB2OOptimizer
from sklearn_scb2o.optimize.parameters import beta_auto
from sklearn_scb2o.optimize.ranking import Settings
from sklearn_scb2o.optimize.update import update_consensus
from sklearn_scb2o.particles import SELECTORS
from sklearn_scb2o.particles.backend import get_namespace, to_numpy

BOX = [(-3.0, 3.0)]
SIZES = [(1, 1_000_000, 100), (1000, 100, 2), (1, 100, 2)]
SMALL_SIZES = [(1, 10_000, 10), (100, 100, 2)]


@dataclass
class Library:
    """An array library on a device."""

    name: str
    xp: ModuleType
    device: Any
    wait: Callable[[], Any]
    peak_memory: Callable[[], int]
    forget_peak: Callable[[], Any]

    def optimizer(self, size: tuple[int, int, int], dtype: str) -> SCB2OOptimizer:
        n_runs, n, d = size
        return SCB2OOptimizer(
            BOX * d, n_particles=n, n_runs=n_runs, dtype=dtype, xp=self.xp, device=self.device, random_state=0
        )

    def array(self, values: Any) -> Any:
        return self.xp.asarray(values, device=self.device)

    def times(self, f: Callable[[], Any], repeats: int) -> np.ndarray:
        """Seconds of each call, after two that are not counted."""
        out = []
        for i in range(repeats + 2):
            self.wait()
            start = time.perf_counter()
            f()
            self.wait()
            if i > 1:
                out.append(time.perf_counter() - start)
        return np.asarray(out)


def nothing() -> None:
    """Of libraries that compute at once there is nothing to wait for."""


def largest_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


NUMPY = Library("numpy", np, None, nothing, largest_resident, nothing)


def torch_library(device: str) -> Library | None:
    try:
        import torch
    except ImportError:
        return None
    xp = get_namespace(torch.zeros(1))
    if device == "cpu":
        return Library("torch cpu", xp, device, nothing, largest_resident, nothing)
    if not torch.cuda.is_available():
        return None
    cuda = torch.cuda
    return Library("torch cuda", xp, device, cuda.synchronize, cuda.max_memory_allocated, cuda.reset_peak_memory_stats)


def cupy_library() -> Library | None:
    try:
        import cupy
    except ImportError:
        return None
    if not cupy.is_available():
        return None
    pool, wait = cupy.get_default_memory_pool(), cupy.cuda.runtime.deviceSynchronize
    # the pool gives nothing back by itself: what it holds is the peak
    return Library("cupy", get_namespace(cupy.zeros(1)), None, wait, pool.total_bytes, pool.free_all_blocks)


def circle(x: Any, xp: ModuleType) -> tuple[Any, Any]:
    away = x - 1.0
    return (xp.sum(x * x, axis=-1) - 1.0) ** 2, xp.sum(away * away, axis=-1) - xp.sum(x, axis=-1)


def difference_of_an_iteration(library: Library, dtype: str) -> float:
    """Largest difference of the consensus to that of NumPy, from the same population and values."""
    here, there = NUMPY.optimizer((4, 200, 5), dtype), library.optimizer((4, 200, 5), dtype)
    worst = 0.0
    for _ in range(5):
        here.ask()
        there.load_state_dict(here.state_dict())
        L, G = circle(here.ask(), np)
        there.ask()
        here.tell(L, G)
        there.tell(library.array(L), library.array(G))
        worst = max(worst, float(np.abs(here.consensus - to_numpy(there.consensus)).max()))
    return worst


def difference_of_a_step(dtype: str) -> float:
    """Largest difference of the kernels for CuPy to the array functions, given the same normals."""
    import cupy

    from sklearn_scb2o.particles import apply_boundary, euler_maruyama_step, fused

    worst = 0.0
    for d in (2, 100, 5000):
        rng = np.random.default_rng(d)
        x, normals = (rng.uniform(-1, 1, (2, 50, d)).astype(dtype) for _ in range(2))
        m, low, high = x.mean(axis=1), -np.ones(d, dtype), np.ones(d, dtype)
        settings = {"lam": 1.0, "sigma": 1.0, "dt": 0.5, "noise": "scaled", "cap": None, "floor": None}
        expected = apply_boundary(euler_maruyama_step(x, m[:, None], normals, **settings), low, high)
        arrays = [cupy.asarray(v) for v in (x, m, low, high)]
        moved = fused.move_particles(
            *arrays, normals=cupy.asarray(normals), boundary="reflect", horizon=1e15, **settings
        )
        worst = max(worst, float(np.abs(moved.get() - expected).max()))
    return worst


def smallest_p_value(library: Library, dtype: str) -> float:
    """Kolmogorov-Smirnov over 1000 runs: whether the consensus is distributed as on NumPy."""
    consensus = []
    for other in (NUMPY, library):
        optimizer = other.optimizer((1000, 50, 2), dtype)
        for _ in range(10):
            optimizer.tell(*circle(optimizer.ask(), other.xp))
        consensus.append(to_numpy(optimizer.consensus))
    return min(stats.ks_2samp(a, b).pvalue for a, b in zip(*(c.T for c in consensus), strict=True))


def iteration(library: Library, size: tuple[int, int, int], dtype: str, repeats: int) -> tuple[np.ndarray, int]:
    """Times of ask and tell, and the memory at most in use."""
    n_runs, n, _ = size
    shape = (n,) if n_runs == 1 else (n_runs, n)
    rng = np.random.default_rng(1)
    told = [library.array(rng.exponential(size=shape).astype(dtype)) for _ in range(2)]
    library.forget_peak()
    optimizer = library.optimizer(size, dtype)

    def step() -> None:
        optimizer.ask()
        optimizer.tell(*told)

    return library.times(step, repeats), library.peak_memory()


def selection(library: Library, n: int, dtype: str, repeats: int) -> np.ndarray:
    """Times of `update_consensus` of one run in one dimension."""
    rng = np.random.default_rng(1)
    L, G = (library.array(rng.exponential(size=(1, n)).astype(dtype)) for _ in range(2))
    y, best = L[:, :, None], L[:, :1]
    settings = Settings("soft", SELECTORS["logistic"], None, beta_auto(100), None, None, 0.0, None, None)
    return library.times(lambda: update_consensus(y, L, G, settings, best, library.xp), repeats)


def copies(library: Library, size: tuple[int, int, int], dtype: str, repeats: int) -> np.ndarray:
    """Times of two copies of a population."""
    y = library.array(np.zeros(size, dtype))
    return 2.0 * library.times(lambda: library.xp.asarray(y, copy=True), repeats)


def cell(times: np.ndarray) -> str:
    low, median, high = np.quantile(times, [0.25, 0.5, 0.75]) * 1e3
    return f"{median:10.3f} [{low:.3f}-{high:.3f}]"


def row(what: str, library: str, dtype: str, times: np.ndarray, base: float, passes: float | None, memory: str) -> None:
    relative = "" if passes is None else f"{np.median(times) / passes:.2f}"
    cells = f"{what:>22} {library:>10} {dtype:>8} {cell(times):>32} {base / np.median(times):8.1f}"
    print(f"{cells} {relative:>10} {memory:>9}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="torch on the CPU, at small sizes")
    cpu = parser.parse_args().cpu
    candidates = [torch_library("cpu")] if cpu else [cupy_library(), torch_library("cuda")]
    libraries = [library for library in candidates if library is not None]
    if not libraries:
        raise SystemExit("neither CuPy nor torch finds a GPU: try --cpu" if not cpu else "torch is not installed")

    for library in libraries:
        for dtype in ("float32", "float64"):
            step = f"kernels {difference_of_a_step(dtype):.1e}, " if library.name == "cupy" else ""
            print(
                f"{library.name}, {dtype}: differs from NumPy by {step}consensus "
                f"{difference_of_an_iteration(library, dtype):.1e}; Kolmogorov-Smirnov over 1000 runs: "
                f"p = {smallest_p_value(library, dtype):.2f}",
                flush=True,
            )

    print(
        f"\n{'(R, N, d)':>22} {'library':>10} {'dtype':>8} {'ask + tell, ms':>32} {'x NumPy':>8} {'/ 2 passes':>10} "
        f"{'memory':>9}"
    )
    for size in SMALL_SIZES if cpu else SIZES:
        large = np.prod(size) > 10_000_000
        for dtype in ("float32", "float64")[: 1 if large else 2]:
            times, _ = iteration(NUMPY, size, dtype, 3 if large else 30)
            base = float(np.median(times))
            row(str(size), "numpy", dtype, times, base, None, "")
            for library in libraries:
                population = int(np.prod(size)) * np.dtype(dtype).itemsize
                times, peak = iteration(library, size, dtype, 20 if large else 100)
                passes = float(np.median(copies(library, size, dtype, 20)))
                memory = "" if cpu else f"{peak / population:.1f} x"
                row(str(size), library.name, dtype, times, base, passes, memory)
    n = SMALL_SIZES[0][1] if cpu else SIZES[0][1]
    for dtype in ("float32", "float64"):
        times = selection(NUMPY, n, dtype, 10)
        base = float(np.median(times))
        row(f"selection, N = {n}", "numpy", dtype, times, base, None, "")
        for library in libraries:
            row(f"selection, N = {n}", library.name, dtype, selection(library, n, dtype, 50), base, None, "")
    print("\nmemory: most in use, relative to the population. float64 of large populations is left out for time.")


if __name__ == "__main__":
    main()
