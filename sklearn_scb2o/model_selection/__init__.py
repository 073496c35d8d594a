"""Model selection by bi-level optimization: among models that train equally well, the one that is best otherwise."""

from . import linear_factories, mlp_space  # noqa: F401 - register the weight spaces of scikit-learn's estimators
from .bilevel_search import BilevelSearchCV
from .fair_criteria import DemographicParityGap, EqualizedOddsGap, ExpectedCalibrationError, WorstGroupLoss
from .metrics import demographic_parity_gap, equalized_odds_gap, expected_calibration_error, worst_group_loss
from .space_registry import has_weight_space, make_weight_space, register_weight_space
from .weight_spaces import WeightSpace

__all__ = [
    "BilevelSearchCV",
    "DemographicParityGap",
    "EqualizedOddsGap",
    "ExpectedCalibrationError",
    "WeightSpace",
    "WorstGroupLoss",
    "demographic_parity_gap",
    "equalized_odds_gap",
    "expected_calibration_error",
    "has_weight_space",
    "make_weight_space",
    "register_weight_space",
    "worst_group_loss",
]
