"""The optimizer: state above the pure functions of `particles`."""

from .minimize import minimize
from .minimize_nested import minimize_nested
from .nested import NestedOptimizer
from .optimizer import SCB2OOptimizer

__all__ = ["NestedOptimizer", "SCB2OOptimizer", "minimize", "minimize_nested"]
