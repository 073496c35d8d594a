"""Pictures of results, in the manner of scikit-learn's displays; matplotlib is imported when one is drawn."""

from .convergence import ConvergenceDisplay
from .parallel_coordinates import ParallelCoordinatesDisplay
from .particles import ParticlesDisplay
from .selection_path import SelectionPathDisplay

__all__ = ["ConvergenceDisplay", "ParallelCoordinatesDisplay", "ParticlesDisplay", "SelectionPathDisplay"]
