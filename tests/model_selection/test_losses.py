import numpy as np
import pytest
from mpmath import mp
from sklearn.metrics import d2_pinball_score, hinge_loss, log_loss, mean_poisson_deviance, mean_squared_error

from sklearn_scb2o.model_selection.losses import (
    EpsilonInsensitive,
    HalfPoisson,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Multinomial,
    Perceptron,
    SquaredEpsilonInsensitive,
    SquaredError,
    SquaredHinge,
)

REGRESSION = [SquaredError(), HalfPoisson(), Huber(0.7), EpsilonInsensitive(0.3), SquaredEpsilonInsensitive(0.3)]
MARGIN = [Logistic(), Hinge(), Perceptron(), SquaredHinge(), ModifiedHuber()]
KINKED = [Hinge(), Perceptron(), EpsilonInsensitive(0.3), EpsilonInsensitive(0.0)]
SMOOTHED = [loss.smoothed(0.2) for loss in KINKED]


def ident(loss):
    return repr(loss)


def points(loss, rng):
    eta = rng.uniform(-3, 3, size=(5, 3, 40))
    if isinstance(loss, Multinomial):
        return eta, 1.0 * (rng.integers(3, size=40) == np.arange(3)[:, None])
    if isinstance(loss, (Logistic, Hinge, SquaredHinge, ModifiedHuber)):
        return eta, rng.choice([-1.0, 1.0], size=(3, 40))
    return eta, 1.0 * rng.integers(4, size=(3, 40))


@pytest.mark.parametrize("loss", [*REGRESSION, *MARGIN, *SMOOTHED, Multinomial()], ids=ident)
def test_derivatives_match_finite_differences(loss):
    eta, y = points(loss, np.random.default_rng(0))
    h = 1e-6
    for k in range(3):
        step = np.zeros((3, 1))
        step[k] = h
        difference = loss.value(eta + step, y) - loss.value(eta - step, y)
        difference = difference[:, 0] if isinstance(loss, Multinomial) else difference[:, k]
        np.testing.assert_allclose(difference / (2 * h), loss.derivative(eta, y)[:, k], atol=1e-7)
        difference = loss.derivative(eta + step, y)[:, k] - loss.derivative(eta - step, y)[:, k]
        np.testing.assert_allclose(difference / (2 * h), loss.second_derivative(eta, y)[:, k], atol=1e-7)


@pytest.mark.parametrize("loss", [*REGRESSION, *MARGIN, *SMOOTHED, Multinomial()], ids=ident)
def test_losses_are_convex_and_not_negative(loss):
    rng = np.random.default_rng(1)
    (a, y), (b, _) = points(loss, rng), points(loss, rng)
    if isinstance(loss, Multinomial):
        b[0] = a[0] + 1.0  # all outputs shifted
    middle, ends = loss.value((a + b) / 2, y), (loss.value(a, y) + loss.value(b, y)) / 2
    assert np.all(middle <= ends + 1e-12)
    assert loss.is_strictly_convex == bool(np.all(middle < ends - 1e-12))
    assert np.all(loss.value(a, y) >= 0)
    assert np.all(loss.second_derivative(a, y) >= 0)


@pytest.mark.parametrize("loss", KINKED, ids=ident)
def test_smoothed_loss_is_near_and_smooth(loss):
    eta, y = points(loss, np.random.default_rng(2))
    for width in (1.0, 1e-3):
        smooth = loss.smoothed(width)
        assert loss.has_kink
        assert not smooth.has_kink
        excess = smooth.value(eta, y) - loss.value(eta, y)
        assert np.all(excess >= -1e-15)
        assert np.all(excess <= width)
    eta = np.linspace(-2, 2, 100_001)[None, None]
    slope = loss.smoothed(0.1).derivative(eta, np.ones((1, 1)))
    assert np.max(np.abs(np.diff(slope))) < 1e-3


@pytest.mark.parametrize("loss", [SquaredError(), Logistic(), SquaredHinge(), Multinomial()], ids=ident)
def test_smooth_losses_are_their_own_smoothed(loss):
    assert loss.smoothed(0.1) is loss


def test_values_match_scikit_learn_metrics():
    rng = np.random.default_rng(3)
    eta, y = rng.normal(size=50), 1.0 * rng.integers(2, size=50)
    sign = 2 * y - 1
    p = 1 / (1 + np.exp(-eta))
    assert SquaredError().value(eta, y).mean() == pytest.approx(0.5 * mean_squared_error(y, eta))
    assert Logistic().value(eta, sign).mean() == pytest.approx(log_loss(y, p))
    assert Hinge().value(eta, sign).mean() == pytest.approx(hinge_loss(y, eta))
    assert HalfPoisson().value(eta, y).mean() == pytest.approx(0.5 * mean_poisson_deviance(y, np.exp(eta)))
    scores, labels = rng.normal(size=(3, 50)), rng.integers(3, size=50)
    probability = np.exp(scores) / np.exp(scores).sum(axis=0)
    value = Multinomial().value(scores, 1.0 * (labels == np.arange(3)[:, None]))
    assert value.shape == (1, 50)
    assert value.mean() == pytest.approx(log_loss(labels, probability.T))
    absolute = EpsilonInsensitive(0.0).value(eta, y).mean() / np.abs(y - np.median(y)).mean()
    assert 1 - absolute == pytest.approx(d2_pinball_score(y, eta))


@pytest.mark.parametrize("margin", [1.0, 40.0, 300.0, -700.0])
def test_small_losses_of_classification_keep_their_digits(margin):
    exact = float(mp.log1p(mp.exp(-mp.mpf(margin))))
    one = np.ones((1, 1))
    assert Logistic().value(margin * one, one)[0, 0] == pytest.approx(exact, rel=1e-14)
    value = Multinomial().value(np.array([[5.0 + margin], [5.0]]), np.array([[1.0], [0.0]]))
    assert value[0, 0] == pytest.approx(exact, rel=1e-14)


def test_huge_outputs_do_not_overflow():
    eta = np.array([[1e300], [-1e300]])
    y = np.array([[0.0], [1.0]])
    assert np.isfinite(Logistic().value(eta, 2 * y - 1)).all()
    assert Multinomial().value(eta, y)[0, 0] == pytest.approx(2e300)
    assert np.all(Multinomial().derivative(eta, y) == [[1.0], [-1.0]])
