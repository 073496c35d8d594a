"""Derivative-free bi-level optimization: minimise an upper objective over the minimisers of a lower one."""

from . import baselines, model_selection, particles, problems
from .exceptions import SCB2OWarning
from .model_selection import BilevelSearchCV
from .optimize import SCB2OOptimizer, minimize

__version__ = "0.1.0"

__all__ = [
    "BilevelSearchCV",
    "SCB2OOptimizer",
    "SCB2OWarning",
    "baselines",
    "minimize",
    "model_selection",
    "particles",
    "problems",
]
