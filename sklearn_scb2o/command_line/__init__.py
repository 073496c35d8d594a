"""Commands of ``scb2o``: minimising with a program that is not Python, reports of such runs, and a demonstration."""

from .external import ExternalProgram, ProgramError
from .problem_file import read_problem

__all__ = ["ExternalProgram", "ProgramError", "read_problem"]
