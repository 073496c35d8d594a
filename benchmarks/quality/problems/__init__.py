"""Problems of the benchmark, with known solutions, in four classes."""

from .problem import KINDS, QualityProblem, Values, Verdict
from .suites import SUITES, get_problem, problem_names

__all__ = ["KINDS", "SUITES", "QualityProblem", "Values", "Verdict", "get_problem", "problem_names"]
