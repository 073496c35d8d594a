"""Gradient methods for bi-level problems, to compare with: VPBGD and SBGD."""

from .sbgd import sbgd
from .vpbgd import vpbgd

__all__ = ["sbgd", "vpbgd"]
