"""Bi-level test problems with known solutions.

Each function returns a `Problem`: two objectives over points of shape (..., d), bounds, and the solution; or a
`NestedProblem`, whose lower level has a parameter.
"""

from .nested import NestedProblem, mirrlees, mitsos_barton, nested_circle, smd1, smd6
from .problem import Problem
from .sphere import sphere
from .two_dimensional import circle, periodic_grid, star

__all__ = [
    "NestedProblem",
    "Problem",
    "circle",
    "mirrlees",
    "mitsos_barton",
    "nested_circle",
    "periodic_grid",
    "smd1",
    "smd6",
    "sphere",
    "star",
]
