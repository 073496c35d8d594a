"""The paper's experiments, run again: for each of them its runs, its table and its figure."""

from .gradient import PAPER_GRADIENT, figure_gradient, run_gradient, table_gradient
from .theory import figure_theory, run_theory, table_theory
from .two_dimensional import PAPER_2D, figure_2d, run_2d, table_2d

__all__ = [
    "PAPER_2D",
    "PAPER_GRADIENT",
    "figure_2d",
    "figure_gradient",
    "figure_theory",
    "run_2d",
    "run_gradient",
    "run_theory",
    "table_2d",
    "table_gradient",
    "table_theory",
]
