"""Derivative-free bi-level optimization: minimise an upper objective over the minimisers of a lower one."""

from . import particles, problems
from .exceptions import SCB2OWarning
from .optimize import SCB2OOptimizer, minimize

__version__ = "0.1.0"

__all__ = ["SCB2OOptimizer", "SCB2OWarning", "minimize", "particles", "problems"]
