"""Bi-level test problems with known solutions.

Each function returns a `Problem`: two objectives over points of shape (..., d), bounds, and the solution.
"""

from .problem import Problem
from .sphere import sphere
from .two_dimensional import circle, periodic_grid, star

__all__ = ["Problem", "circle", "periodic_grid", "sphere", "star"]
