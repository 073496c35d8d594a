"""Losses of linear predictors and of the outputs of networks, with their first and second derivatives.

A linear predictor `eta` has shape (..., n_outputs, n_samples) and the targets `y` (n_outputs, n_samples). Methods
return arrays of the shape of `eta`, except that the value of `Multinomial`, one number a row for all outputs, has
shape (..., 1, n_samples). Losses of classification take y in {-1, 1}; `Multinomial` takes indicators in {0, 1}.
Arrays are those of any library that follows the Python array API standard.
"""

# ruff: noqa: D102 - the methods are described once, in Loss
from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
from scipy import special

from ..particles.backend import Array, count_up, get_namespace

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


def _plus(z: Array, width: float, xp: ModuleType) -> Array:
    """``max(z, 0)``, a parabola that fits smoothly where ``|z| < width``; it is at most ``width / 4`` too large."""
    value = xp.maximum(z, 0.0)
    if width == 0:
        return value
    return xp.where(xp.abs(z) < width, (z + width) ** 2 / (4 * width), value)


def _plus_derivative(z: Array, width: float, xp: ModuleType) -> Array:
    if width == 0:
        return 0.5 * (xp.sign(z) + 1.0)  # the limit of small widths
    return xp.clip((z + width) / (2 * width), 0.0, 1.0)


def _plus_second_derivative(z: Array, width: float, xp: ModuleType) -> Array:
    if width == 0:
        return xp.zeros_like(z)
    return xp.astype(xp.abs(z) < width, z.dtype) / (2 * width)


def expit(z: Array, xp: ModuleType) -> Array:
    """The logistic function ``1 / (1 + exp(-z))``."""
    if xp is np:
        return special.expit(z)
    power = xp.exp(-xp.abs(z))  # no overflow, and no cancellation
    return xp.where(z < 0, power, 1.0) / (1.0 + power)


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

    def value(self, eta: Array, y: Array) -> Array:
        """Loss."""
        raise NotImplementedError

    def derivative(self, eta: Array, y: Array) -> Array:
        """Derivative of the loss by `eta`; at kinks the middle of the subdifferential."""
        raise NotImplementedError

    def second_derivative(self, eta: Array, y: Array) -> Array:
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

    def value(self, eta: Array, y: Array) -> Array:
        return 0.5 * (eta - y) ** 2

    def derivative(self, eta: Array, y: Array) -> Array:
        return eta - y

    def second_derivative(self, eta: Array, y: Array) -> Array:
        return get_namespace(eta).ones_like(eta)


@dataclass(frozen=True)
class Logistic(Loss):
    """``log(1 + exp(-y eta))``."""

    @property
    def is_strictly_convex(self) -> bool:
        return True

    def value(self, eta: Array, y: Array) -> Array:
        xp, margin = get_namespace(eta), y * eta
        # precise for large margins too, and faster than logaddexp
        return xp.log1p(xp.exp(-xp.abs(margin))) + xp.maximum(-margin, 0.0)

    def derivative(self, eta: Array, y: Array) -> Array:
        return -y * expit(-y * eta, get_namespace(eta))

    def second_derivative(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        return expit(eta, xp) * expit(-eta, xp)


@dataclass(frozen=True)
class Multinomial(Loss):
    """``log sum_k exp(eta_k) - sum_k y_k eta_k``, with y the indicator of the class.

    Not strictly convex: adding one number to all outputs changes nothing. `second_derivative` is the diagonal of the
    second derivative ``diag(p) - p p^T``, with `p` the `probabilities`.
    """

    def value(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        # relative to the output of the true class, and with the largest one outside of the sum: no cancellation
        eta = eta - xp.sum(eta * y, axis=-2, keepdims=True)
        largest = xp.max(eta, axis=-2, keepdims=True)
        powers = xp.exp(eta - largest)
        first = xp.argmax(eta, axis=-2, keepdims=True)
        powers = xp.where(count_up(eta.shape[-2], first, xp)[:, None] == first, 0.0, powers)
        return largest + xp.log1p(xp.sum(powers, axis=-2, keepdims=True))

    def probabilities(self, eta: Array) -> Array:
        """Softmax of the outputs."""
        xp = get_namespace(eta)
        powers = xp.exp(eta - xp.max(eta, axis=-2, keepdims=True))
        return powers / xp.sum(powers, axis=-2, keepdims=True)

    def derivative(self, eta: Array, y: Array) -> Array:
        return self.probabilities(eta) - y

    def second_derivative(self, eta: Array, y: Array) -> Array:
        p = self.probabilities(eta)
        return p * (1.0 - p)


@dataclass(frozen=True)
class HalfPoisson(Loss):
    """Half the deviance of a Poisson count with mean ``exp(eta)``: ``y log(y / exp(eta)) - y + exp(eta)``."""

    @property
    def is_strictly_convex(self) -> bool:
        return True

    def value(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        return xp.exp(eta) - y * eta + (xp.where(y > 0, y * xp.log(xp.where(y > 0, y, 1.0)), 0.0) - y)

    def derivative(self, eta: Array, y: Array) -> Array:
        return get_namespace(eta).exp(eta) - y

    def second_derivative(self, eta: Array, y: Array) -> Array:
        return get_namespace(eta).exp(eta)


@dataclass(frozen=True)
class Hinge(Loss):
    """``max(0, threshold - y eta)``, its kink rounded over `width`."""

    threshold: float = 1.0
    width: float = 0.0

    @property
    def has_kink(self) -> bool:
        return self.width == 0

    def value(self, eta: Array, y: Array) -> Array:
        return _plus(self.threshold - y * eta, self.width, get_namespace(eta))

    def derivative(self, eta: Array, y: Array) -> Array:
        return -y * _plus_derivative(self.threshold - y * eta, self.width, get_namespace(eta))

    def second_derivative(self, eta: Array, y: Array) -> Array:
        return _plus_second_derivative(self.threshold - y * eta, self.width, get_namespace(eta))

    def smoothed(self, width: float) -> Loss:
        return replace(self, width=width)


@dataclass(frozen=True)
class Perceptron(Hinge):
    """``max(0, -y eta)``: the hinge at zero."""

    threshold: float = 0.0


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - y eta)^2``."""

    def value(self, eta: Array, y: Array) -> Array:
        return get_namespace(eta).maximum(1.0 - y * eta, 0.0) ** 2

    def derivative(self, eta: Array, y: Array) -> Array:
        return -2.0 * y * get_namespace(eta).maximum(1.0 - y * eta, 0.0)

    def second_derivative(self, eta: Array, y: Array) -> Array:
        return 2.0 * get_namespace(eta).astype(y * eta < 1.0, eta.dtype)


@dataclass(frozen=True)
class ModifiedHuber(Loss):
    """``max(0, 1 - y eta)^2`` where ``y eta >= -1``, its tangent ``-4 y eta`` beyond."""

    def value(self, eta: Array, y: Array) -> Array:
        xp, margin = get_namespace(eta), y * eta
        return xp.where(margin >= -1.0, xp.maximum(1.0 - margin, 0.0) ** 2, -4.0 * margin)

    def derivative(self, eta: Array, y: Array) -> Array:
        return -2.0 * y * get_namespace(eta).clip(1.0 - y * eta, 0.0, 2.0)

    def second_derivative(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        return 2.0 * xp.astype(xp.abs(eta) < 1.0, eta.dtype)  # |y eta| = |eta|


@dataclass(frozen=True)
class Huber(Loss):
    """``r^2 / 2`` of the residual ``r = eta - y`` where ``|r| <= epsilon``, ``epsilon |r| - epsilon^2 / 2`` beyond."""

    epsilon: float = 0.1

    def value(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        size = xp.abs(eta - y)
        return xp.where(size <= self.epsilon, 0.5 * size**2, self.epsilon * (size - 0.5 * self.epsilon))

    def derivative(self, eta: Array, y: Array) -> Array:
        return get_namespace(eta).clip(eta - y, -self.epsilon, self.epsilon)

    def second_derivative(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        return xp.astype(xp.abs(eta - y) <= self.epsilon, eta.dtype)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """``max(0, |eta - y| - epsilon)``, its two kinks rounded over `width`."""

    epsilon: float = 0.1
    width: float = 0.0

    @property
    def has_kink(self) -> bool:
        return self.width == 0

    def value(self, eta: Array, y: Array) -> Array:
        xp, r = get_namespace(eta), eta - y
        return _plus(r - self.epsilon, self.width, xp) + _plus(-r - self.epsilon, self.width, xp)

    def derivative(self, eta: Array, y: Array) -> Array:
        xp, r = get_namespace(eta), eta - y
        return _plus_derivative(r - self.epsilon, self.width, xp) - _plus_derivative(-r - self.epsilon, self.width, xp)

    def second_derivative(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        upper, lower = (_plus_second_derivative(s * (eta - y) - self.epsilon, self.width, xp) for s in (1.0, -1.0))
        return upper + lower

    def smoothed(self, width: float) -> Loss:
        return replace(self, width=width)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """``max(0, |eta - y| - epsilon)^2``."""

    epsilon: float = 0.1

    def value(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        return xp.maximum(xp.abs(eta - y) - self.epsilon, 0.0) ** 2

    def derivative(self, eta: Array, y: Array) -> Array:
        xp, r = get_namespace(eta), eta - y
        return 2.0 * xp.sign(r) * xp.maximum(xp.abs(r) - self.epsilon, 0.0)

    def second_derivative(self, eta: Array, y: Array) -> Array:
        xp = get_namespace(eta)
        return 2.0 * xp.astype(xp.abs(eta - y) > self.epsilon, eta.dtype)
