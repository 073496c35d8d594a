"""Processes that the examples of the gallery start."""

import multiprocessing
from typing import Any


def start_by_spawn(gallery_conf: dict[str, Any], example: str) -> None:
    """Let an example start processes in the usual way: the gallery runs it in a worker of joblib, which has its own."""
    multiprocessing.set_start_method("spawn", force=True)
