"""Pure functions on arrays: selection, consensus, dynamics, adaptation.

Everything here takes arrays of any library that follows the Python array API standard, with positions of shape
(..., N, d) and values of shape (..., N), leading axes being independent runs. Nothing here keeps state, draws random
numbers or writes to its inputs.
"""

from .adaptation import alpha_from_rank, contraction_rate, sigma_from_rate, tau_from_spread
from .consensus import consensus_point, effective_sample_size, gibbs_weights
from .dynamics import BOUNDARIES, NOISES, apply_boundary, coordinate_noise, diffusion, euler_maruyama_step
from .selection import (
    OrderStatistics,
    Selection,
    hard_quantile,
    hard_selection,
    order_statistics,
    soft_quantile,
    soft_selection,
)
from .selectors import SELECTORS, Selector, check_selector

__all__ = [
    "BOUNDARIES",
    "NOISES",
    "SELECTORS",
    "OrderStatistics",
    "Selection",
    "Selector",
    "alpha_from_rank",
    "apply_boundary",
    "check_selector",
    "consensus_point",
    "contraction_rate",
    "coordinate_noise",
    "diffusion",
    "effective_sample_size",
    "euler_maruyama_step",
    "gibbs_weights",
    "hard_quantile",
    "hard_selection",
    "order_statistics",
    "sigma_from_rate",
    "soft_quantile",
    "soft_selection",
    "tau_from_spread",
]
