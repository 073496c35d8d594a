"""Derivative-free bi-level optimization: minimise an upper objective over the minimisers of a lower one.

- `minimize`: of Python functions; `SCB2OOptimizer`: the same with the loop in the caller's hands.
- `minimize_nested`, `NestedOptimizer`: problems whose lower level has a parameter.
- `BilevelSearchCV`: among the scikit-learn models that train equally well, the one that is best in another respect.
- `plotting`: pictures of results. `problems`, `baselines`, `theory`, `particles`: for those who study the method.
"""

import importlib
import typing

from . import baselines, particles, plotting, problems, theory
from .exceptions import CheckpointError, SCB2OWarning
from .optimize import NestedOptimizer, SCB2OOptimizer, minimize, minimize_nested

if typing.TYPE_CHECKING:
    from . import model_selection
    from .model_selection import BilevelSearchCV

__version__ = "0.1.0"

__all__ = [
    "BilevelSearchCV",
    "CheckpointError",
    "NestedOptimizer",
    "SCB2OOptimizer",
    "SCB2OWarning",
    "baselines",
    "minimize",
    "minimize_nested",
    "model_selection",
    "particles",
    "plotting",
    "problems",
    "theory",
]


def __getattr__(name: str) -> typing.Any:
    # worker processes start in a third of the time without scikit-learn
    if name in {"BilevelSearchCV", "model_selection"}:
        module = importlib.import_module(".model_selection", __name__)
        globals()["BilevelSearchCV"] = module.BilevelSearchCV
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
