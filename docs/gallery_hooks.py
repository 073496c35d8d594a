"""What sphinx-gallery calls: the order of the examples, and how they start processes."""

import multiprocessing
from typing import Any

#: Names of the examples, from simulators to models; others come last.
ORDER = (
    "circle_star", "ask_tell_simulator", "external_program", "dask_cluster", "batched_runs", "gpu", "nested",
    "sparse_logistic", "feature_costs", "mlp_pruning", "fair_selection", "robust_interpolation",
)  # fmt: skip


class Order:
    """Key by which the examples of a folder are sorted."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, example: str) -> int:
        """Place of an example, such as "plot_gpu.py"."""
        name = example.removeprefix("plot_").removesuffix(".py")
        return ORDER.index(name) if name in ORDER else len(ORDER)


def start_by_spawn(gallery_conf: dict[str, Any], example: str) -> None:
    """Let an example start processes in the usual way: the gallery runs it in a worker of joblib, which has its own."""
    multiprocessing.set_start_method("spawn", force=True)
