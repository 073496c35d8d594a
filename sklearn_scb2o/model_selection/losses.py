"""Losses of linear predictors and of the outputs of networks, with their first and second derivatives.

A linear predictor `eta` has shape (..., n_outputs, n_samples) and the targets `y` (n_outputs, n_samples). Methods
return arrays of the shape of `eta`, except that the value of `Multinomial`, one number a row for all outputs, has
shape (..., 1, n_samples). Losses of classification take y in {-1, 1}; `Multinomial` takes indicators in {0, 1}.
"""

# ruff: noqa: D102 - the methods are described once, in Loss
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, xlogy

__all__ = [
    "EpsilonInsensitive",
    "HalfPoisson",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "ModifiedHuber",
    "Multinomial",
    "Perceptron",
    "SquaredEpsilonInsensitive",
    "SquaredError",
    "SquaredHinge",
]


def _plus(z: np.ndarray, width: float) -> np.ndarray:
    """``max(z, 0)``, a parabola that fits smoothly where ``|z| < width``; it is at most ``width / 4`` too large."""
    value = np.maximum(z, 0.0)
    if width == 0:
        return value
    return np.where(np.abs(z) < width, (z + width) ** 2 / (4 * width), value)


def _plus_derivative(z: np.ndarray, width: float) -> np.ndarray:
    if width == 0:
        return np.heaviside(z, 0.5)  # the limit of small widths
    return np.clip((z + width) / (2 * width), 0.0, 1.0)


def _plus_second_derivative(z: np.ndarray, width: float) -> np.ndarray:
    if width == 0:
        return np.zeros_like(z)
    return (np.abs(z) < width) / (2 * width)


@dataclass(frozen=True)
class Loss:
    """A convex function of the linear predictor for every target."""

    @property
    def has_kink(self) -> bool:
        """Whether the derivative jumps."""
        return False

    @property
    def is_strictly_convex(self) -> bool:
        """Whether no direction of `eta` is flat, wherever one stands."""
        return False

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss."""
        raise NotImplementedError

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Derivative of the loss by `eta`; at kinks the middle of the subdifferential."""
        raise NotImplementedError

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Second derivative by each entry of `eta`; zero at kinks."""
        raise NotImplementedError

    def smoothed(self, width: float) -> Loss:
        """The loss with its kinks rounded where `eta` is nearer to them than `width`; itself without kinks."""
        return self


@dataclass(frozen=True)
class SquaredError(Loss):
    """``(eta - y)^2 / 2``."""

    @property
    def is_strictly_convex(self) -> bool:
        return True

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * (eta - y) ** 2

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return eta - y

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.ones_like(eta)


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y eta))``."""

    @property
    def is_strictly_convex(self) -> bool:
        return True

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        margin = y * eta
        # precise for large margins too, and faster than logaddexp
        return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * expit(-y * eta)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return expit(eta) * expit(-eta)


@dataclass(frozen=True)
class Multinomial(Loss):
    """``log sum_k exp(eta_k) - sum_k y_k eta_k``, with y the indicator of the class.

    Not strictly convex: adding one number to all outputs changes nothing. `second_derivative` is the diagonal of the
    second derivative ``diag(p) - p p^T``, with `p` the `probabilities`.
    """

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        # relative to the output of the true class, and with the largest one outside of the sum: no cancellation
        eta = eta - np.sum(eta * y, axis=-2, keepdims=True)
        largest = np.max(eta, axis=-2, keepdims=True)
        powers = np.exp(eta - largest)
        np.put_along_axis(powers, np.argmax(eta, axis=-2)[..., None, :], 0.0, axis=-2)
        return largest + np.log1p(np.sum(powers, axis=-2, keepdims=True))

    def probabilities(self, eta: np.ndarray) -> np.ndarray:
        """Softmax of the outputs."""
        powers = np.exp(eta - np.max(eta, axis=-2, keepdims=True))
        return powers / np.sum(powers, axis=-2, keepdims=True)

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.probabilities(eta) - y

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        p = self.probabilities(eta)
        return p * (1.0 - p)


@dataclass(frozen=True)
class HalfPoisson(Loss):
    """Half the deviance of a Poisson count with mean ``exp(eta)``: ``y log(y / exp(eta)) - y + exp(eta)``."""

    @property
    def is_strictly_convex(self) -> bool:
        return True

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(eta) - y * eta + (xlogy(y, y) - y)

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(eta) - y

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(eta)


@dataclass(frozen=True)
class Hinge(Loss):
    """``max(0, threshold - y eta)``, its kink rounded over `width`."""

    threshold: float = 1.0
    width: float = 0.0

    @property
    def has_kink(self) -> bool:
        return self.width == 0

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _plus(self.threshold - y * eta, self.width)

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * _plus_derivative(self.threshold - y * eta, self.width)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _plus_second_derivative(self.threshold - y * eta, self.width)

    def smoothed(self, width: float) -> Loss:
        return replace(self, width=width)


@dataclass(frozen=True)
class Perceptron(Hinge):
    """``max(0, -y eta)``: the hinge at zero."""

    threshold: float = 0.0


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - y eta)^2``."""

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.maximum(1.0 - y * eta, 0.0) ** 2

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -2.0 * y * np.maximum(1.0 - y * eta, 0.0)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 2.0 * (y * eta < 1.0)


@dataclass(frozen=True)
class ModifiedHuber(Loss):
    """``max(0, 1 - y eta)^2`` where ``y eta >= -1``, its tangent ``-4 y eta`` beyond."""

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        margin = y * eta
        return np.where(margin >= -1.0, np.maximum(1.0 - margin, 0.0) ** 2, -4.0 * margin)

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -2.0 * y * np.clip(1.0 - y * eta, 0.0, 2.0)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 2.0 * (np.abs(eta) < 1.0)  # |y eta| = |eta|


@dataclass(frozen=True)
class Huber(Loss):
    """``r^2 / 2`` of the residual ``r = eta - y`` where ``|r| <= epsilon``, ``epsilon |r| - epsilon^2 / 2`` beyond."""

    epsilon: float = 0.1

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        size = np.abs(eta - y)
        return np.where(size <= self.epsilon, 0.5 * size**2, self.epsilon * (size - 0.5 * self.epsilon))

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.clip(eta - y, -self.epsilon, self.epsilon)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 1.0 * (np.abs(eta - y) <= self.epsilon)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """``max(0, |eta - y| - epsilon)``, its two kinks rounded over `width`."""

    epsilon: float = 0.1
    width: float = 0.0

    @property
    def has_kink(self) -> bool:
        return self.width == 0

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        r = eta - y
        return _plus(r - self.epsilon, self.width) + _plus(-r - self.epsilon, self.width)

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        r = eta - y
        return _plus_derivative(r - self.epsilon, self.width) - _plus_derivative(-r - self.epsilon, self.width)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        upper, lower = (_plus_second_derivative(s * (eta - y) - self.epsilon, self.width) for s in (1.0, -1.0))
        return upper + lower

    def smoothed(self, width: float) -> Loss:
        return replace(self, width=width)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """``max(0, |eta - y| - epsilon)^2``."""

    epsilon: float = 0.1

    def value(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.maximum(np.abs(eta - y) - self.epsilon, 0.0) ** 2

    def derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        r = eta - y
        return 2.0 * np.sign(r) * np.maximum(np.abs(r) - self.epsilon, 0.0)

    def second_derivative(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 2.0 * (np.abs(eta - y) > self.epsilon)
