"""Bi-level test problems with known solutions.

Each function returns a `Problem`: two objectives over points of shape (..., d), bounds, and the solution.
"""

from .problem import Problem
from .two_dimensional import circle, periodic_grid, star
from .sphere import sphere

__all__ = ["Problem", "circle", "periodic_grid", "sphere", "star"]
