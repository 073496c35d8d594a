"""Derivative-free bi-level optimization: minimise an upper objective over the minimisers of a lower one."""

from . import model_selection, particles, problems
from .exceptions import SCB2OWarning
from .model_selection import BilevelSearchCV
from .optimize import NestedOptimizer, SCB2OOptimizer, minimize, minimize_nested

__version__ = "0.1.0"

__all__ = [
    "BilevelSearchCV",
    "NestedOptimizer",
    "SCB2OOptimizer",
    "SCB2OWarning",
    "minimize",
    "minimize_nested",
    "model_selection",
    "particles",
    "problems",
]
