"""Model selection by bi-level optimization: among models that train equally well, the one that is best otherwise."""

from . import linear_spaces, mlp_space  # noqa: F401 - register the weight spaces of scikit-learn's estimators
from .weight_spaces import WeightSpace, has_weight_space, make_weight_space, register_weight_space

__all__ = ["WeightSpace", "has_weight_space", "make_weight_space", "register_weight_space"]
