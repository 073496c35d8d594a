"""The optimizer: state above the pure functions of `particles`."""

from .minimize import minimize
from .optimizer import SCB2OOptimizer

__all__ = ["SCB2OOptimizer", "minimize"]
