"""The paper's experiments, run again: for each of them its runs, its table and its figure."""

from .gradient import PAPER_GRADIENT, figure_gradient, run_gradient, table_gradient
from .mnist import METHODS, default_seeds, plan_mnist, run_mnist
from .mnist_report import figure_mnist, table_mnist
from .theory import figure_theory, run_theory, table_theory
from .two_dimensional import PAPER_2D, figure_2d, run_2d, table_2d

__all__ = [
    "METHODS",
    "PAPER_2D",
    "PAPER_GRADIENT",
    "default_seeds",
    "figure_2d",
    "figure_gradient",
    "figure_mnist",
    "figure_theory",
    "plan_mnist",
    "run_2d",
    "run_gradient",
    "run_mnist",
    "run_theory",
    "table_2d",
    "table_gradient",
    "table_mnist",
    "table_theory",
]
