"""Problems of Hock and Schittkowski in which several equalities meet.

Hock, Schittkowski, "Test examples for nonlinear programming codes" (1981). Each function maps points of shape (n, d) to
G, equalities and inequalities, with the scales of `cec2006_first`. Where the book has no bounds, or bounds far away,
the boxes are smaller; the solutions are the best of SLSQP, told the constraints, from many starts in these boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erfc

from .cec2006_first import Parts, columns
from .cec2006_second import POTENTIALS
from .problem import SMOOTH, Floats, QualityProblem, box, equal, mixed

# hs99: acceleration, length and middle of the stages of a rocket, which ends at time 380
_THRUST = np.asarray([50, 50, 75, 75, 75, 100, 100])
_STAGES = np.asarray([0, 25, 50, 100, 150, 200, 290, 380])
_LASTS, _LEFT = np.diff(_STAGES), 380 - (_STAGES[1:] + _STAGES[:-1]) / 2

# hs107, hs109: sine and cosine of the angle of a power line
_SIN, _COS = np.sin(0.25), np.cos(0.25)

# hs119: pairs of coordinates in G, counted from 1, and the first nine columns of the equalities
_PAIRS = np.asarray([
    (1, 1), (1, 4), (1, 7), (1, 8), (1, 16), (2, 2), (2, 3), (2, 7), (2, 10), (3, 3), (3, 7), (3, 9), (3, 10), (3, 14),
    (4, 4), (4, 7), (4, 11), (4, 15), (5, 5), (5, 6), (5, 10), (5, 12), (5, 16), (6, 6), (6, 8), (6, 15), (7, 7),
    (7, 11), (7, 13), (8, 8), (8, 10), (8, 15), (9, 9), (9, 12), (9, 16), (10, 10), (10, 14), (11, 11), (11, 13),
    (12, 12), (12, 14), (13, 13), (13, 14), (14, 14), (15, 15), (16, 16),
])  # fmt: skip
_B119 = np.asarray([
    [0.22, 0.20, 0.19, 0.25, 0.15, 0.11, 0.12, 0.13, 1], [-1.46, 0, -1.30, 1.82, -1.15, 0, 0.80, 0, 0],
    [1.29, -0.89, 0, 0, -1.16, -0.96, 0, -0.49, 0], [-1.10, -1.06, 0.95, -0.54, 0, -1.78, -0.41, 0, 0],
    [0, 0, 0, -1.43, 1.51, 0.59, -0.33, -0.43, 0], [0, -1.72, -0.33, 0, 1.62, 1.24, 0.21, -0.26, 0],
    [1.12, 0, 0, 0.31, 0, 0, 1.12, 0, -0.36], [0, 0.45, 0.26, -1.10, 0.58, 0, -1.03, 0.10, 0],
])  # fmt: skip
_C119 = np.asarray([2.5, 1.1, -3.1, -3.5, 1.3, 2.1, 2.3, -1.5])


def hs39(x: Floats) -> Parts:
    a, b, c, d = columns(x)
    return -a, equal(b - a**3 - c**2, a**2 - b - d**2)


def hs40(x: Floats) -> Parts:
    a, b, c, d = columns(x)
    return -a * b * c * d, equal(a**3 + b**2 - 1, a**2 * d - c, d**2 - b)


def hs42(x: Floats) -> Parts:
    a, _, c, d = columns(x)
    return np.sum((x - [1, 2, 3, 4]) ** 2, axis=-1), equal(a - 2, c**2 + d**2 - 2)


def hs47(x: Floats) -> Parts:
    a, b, c, d, e = columns(x)
    G = (a - b) ** 2 + (b - c) ** 3 + (c - d) ** 4 + (d - e) ** 4
    return G, equal(a + b**2 + c**3 - 3, 10 * (b - c**2 + d - 1), a * e - 1)


def hs56(x: Floats) -> Parts:
    a, b, c = columns(x[..., :3])
    s = np.moveaxis(np.sin(x[..., 3:]) ** 2, -1, 0)
    h = [a - 4.2 * s[0], b - 4.2 * s[1], c - 4.2 * s[2], a + 2 * b + 2 * c - 7.2 * s[3]]
    return -a * b * c, equal(*h)


def hs60(x: Floats) -> Parts:
    a, b, c = columns(x)
    G = (a - 1) ** 2 + (a - b) ** 2 + (b - c) ** 4
    return G, equal(a * (1 + b**2) + c**4 - 4 - 3 * 2**0.5)


def hs61(x: Floats) -> Parts:
    a, b, c = columns(x)
    G = 4 * a**2 + 2 * b**2 + 2 * c**2 - 33 * a + 16 * b - 24 * c
    return G, equal(3 * a - 2 * b**2 - 7, 4 * a - c**2 - 11)


def _inspection(x: Floats, cost: float, loss: float, n: int, scale: float) -> Parts:
    """Costs of a control chart; errors of the false alarms (the third coordinate) count `scale` times."""
    a, b, c, d = columns(x)
    growth = np.exp(a) - 1
    G = (cost * n - (loss * growth - c) * d / (growth + d)) / a

    def below(z: Floats) -> Floats:
        return 0.5 * erfc(-z / 2**0.5)

    return G, equal(scale * (c - 2 * below(-b)), d - below(-b + n**0.5) - below(-b - n**0.5))


def hs68(x: Floats) -> Parts:
    return _inspection(x, 0.0001, 1, 24, scale=10)


def hs69(x: Floats) -> Parts:
    return _inspection(x, 0.1, 1000, 4, scale=1)


def hs71(x: Floats) -> Parts:
    a, b, c, d = columns(x)
    return a * d * (a + b + c) + c, mixed([np.sum(x**2, axis=-1) - 40], [25 - a * b * c * d])


def hs77(x: Floats) -> Parts:
    a, b, c, d, e = columns(x)
    G = (a - 1) ** 2 + (a - b) ** 2 + (c - 1) ** 2 + (d - 1) ** 4 + (e - 1) ** 6
    return G, equal(a**2 * d + np.sin(d - e) - 2 * 2**0.5, b + c**4 * d**2 - 8 - 2**0.5)


def hs79(x: Floats) -> Parts:
    a, b, c, d, e = columns(x)
    G = (a - 1) ** 2 + (a - b) ** 2 + (b - c) ** 2 + (c - d) ** 4 + (d - e) ** 4
    return G, equal(a + b**2 + c**3 - 2 - 3 * 2**0.5, b - c**2 + d + 2 - 2 * 2**0.5, a * e - 2)


def hs99(x: Floats) -> Parts:
    """The height and the vertical speed at the end, as parts of what they are to be."""
    gains = _LASTS * (_THRUST * np.sin(x) - 32)
    G = -((np.cos(x) @ (_THRUST * _LASTS)) ** 2)
    return G, equal(gains @ _LEFT / 1e5 - 1, np.sum(gains, axis=-1) / 1e3 - 1)


def hs107(x: Floats) -> Parts:
    a, b, c, d, e, f, g, u, v = columns(x)
    G = 3000 * a + 1000 * a**3 + 2000 * b + 666.667 * b**3
    k = 48.4 / 50.176
    S, C = k * _SIN, k * _COS

    def active(t: Floats) -> Floats:
        return C * np.sin(t) + S * np.cos(t)

    def reactive(t: Floats) -> Floats:
        return C * np.cos(t) - S * np.sin(t)

    return G, equal(
        0.4 - a + 2 * S * e**2 - e * f * active(u) - e * g * active(v),
        0.4 - b + 2 * S * f**2 - e * f * active(-u) - f * g * active(v - u),
        0.8 + 2 * S * g**2 - e * g * active(-v) - f * g * active(u - v),
        0.2 - c + 2 * C * e**2 - e * f * reactive(u) - e * g * reactive(v),
        0.2 - d + 2 * C * f**2 - e * f * reactive(-u) - f * g * reactive(v - u),
        -0.337 + 2 * C * g**2 - e * g * reactive(-v) - f * g * reactive(u - v),
    )


def hs109(x: Floats, scale: float = 1000.0) -> Parts:
    a, b, c, d, e, f, g, u, v = columns(x)
    G = 3 * a + 1e-6 * a**3 + 2 * b + 0.522074e-6 * b**3
    k, loss = 50.176, 2 * _COS - 0.7533e-3 * 50.176
    h = [
        (e * f * np.sin(-c - 0.25) + e * g * np.sin(-d - 0.25) + 2 * _SIN * e**2) / k - a + 400,
        (e * f * np.sin(c - 0.25) + f * g * np.sin(c - d - 0.25) + 2 * _SIN * f**2) / k - b + 400,
        (e * g * np.sin(d - 0.25) + f * g * np.sin(d - c - 0.25) + 2 * _SIN * g**2) / k + 881.779,
        (e * f * np.cos(-c - 0.25) + e * g * np.cos(-d - 0.25) - loss * e**2) / k + u - 200,
        (e * f * np.cos(c - 0.25) + f * g * np.cos(c - d - 0.25) - loss * f**2) / k + v - 200,
        (e * g * np.cos(d - 0.25) + f * g * np.cos(d - c - 0.25) - loss * g**2) / k - 22.938,
    ]
    power = [(a**2 + u**2) / 1500**2 - 1, (b**2 + v**2) / 1500**2 - 1]
    return G, mixed([t / scale for t in h], [d - c - 0.55, c - d - 0.55, *power])


def hs111(x: Floats) -> Parts:
    """g14 in the logarithms of its coordinates."""
    amount = np.exp(x)
    c = columns(amount)
    G = np.sum(amount * (POTENTIALS + x - np.log(np.sum(amount, axis=-1, keepdims=True))), axis=-1)
    return G, equal(
        c[0] + 2 * c[1] + 2 * c[2] + c[5] + c[9] - 2,
        c[3] + 2 * c[4] + c[5] + c[6] - 1,
        c[2] + c[6] + c[7] + 2 * c[8] + c[9] - 1,
    )


def hs114(x: Floats) -> Parts:
    """Each constraint is divided by a size of its quantity: barrels count in thousands, other quantities in tens."""
    a, b, c, d, e, f, g, h, i, j = columns(x)
    G = 5.04 * a + 0.035 * b + 10 * c + 3.36 * e - 0.063 * d * g
    first = 35.82 - 0.222 * j
    second = 3 * g - 133
    third = a * (1.12 + 0.13167 * h - 0.00667 * h**2)
    fourth = 57.425 + 1.098 * h - 0.038 * h**2 + 0.325 * f
    bands = [(first, i, 0.9, 1.0), (second, j, 0.99, 10.0), (third, d, 0.99, 1000.0), (fourth, g, 0.99, 10.0)]
    below = [(r * z - y) / scale for y, z, r, scale in bands]
    above = [(y - z / r) / scale for y, z, r, scale in bands]
    balances = [
        (1.22 * d - a - e) / 1000,
        (98000 * c / (d * i + 1000 * c) - f) / 10,
        (b + e) / a - h,
    ]
    return G, mixed(balances, [*below, *above])


def hs119(x: Floats) -> Parts:
    p = x**2 + x + 1
    G = np.sum(p[..., _PAIRS[:, 0] - 1] * p[..., _PAIRS[:, 1] - 1], axis=-1)
    h = x[..., :9] @ _B119.T - _C119
    return G, equal(h[..., 0], *np.moveaxis(h[..., 1:] + x[..., 9:], -1, 0))


def _both(*x: float) -> list[list[float]]:
    """hs40 is symmetric under a change of the signs of its last two coordinates."""
    return [[x[0], x[1], s * x[2], s * x[3]] for s in (1, -1)]


#: The functions, low, high, G at the solution, solutions.
_DATA: dict[str, tuple[Callable[[Floats], Parts], Any, Any, float, Any]] = {
    "hs39": (hs39, -2, [3] * 4, -1.0, [1, 1, 0, 0]),
    "hs40": (hs40, -2, [2] * 4, -0.25, _both(2 ** (-1 / 3), 2**-0.5, 2 ** (-11 / 12), 2**-0.25)),
    "hs42": (hs42, 0, [5] * 4, 28 - 10 * 2**0.5, [2, 2, 0.6 * 2**0.5, 0.8 * 2**0.5]),
    # the point (1, 1, 1, 1, 1) of the book is a saddle
    "hs47": (hs47, -2, [3] * 5, -0.026714182693941, [
        0.6770043948623, 0.7260894726539, 1.215491214237, 1.751329419234, 1.477095285627,
    ]),
    "hs56": (hs56, [0] * 3 + [-0.5] * 4, [4] * 3 + [2] * 4, -3.456,
             [2.4, 1.2, 1.2, *np.arcsin(np.sqrt([4 / 7, 2 / 7, 2 / 7, 1]))]),
    "hs60": (hs60, -10, [10] * 3, 0.03256820025507, [1.104859018988, 1.196674182115, 1.535262260482]),
    "hs61": (hs61, -10, [10] * 3, -143.64614219778, [5.326770135565, -2.118998632219, 3.210464225351]),
    "hs68": (hs68, [0.0001, 0, 0, 0], [10, 10, 2, 2], -0.92042500363975, [
        0.06785857720729, 3.646210852004, 0.0002661356290292, 0.8948550400442,
    ]),
    "hs69": (hs69, [0.0001, 0, 0, 0], [10, 10, 2, 2], -956.71288665026, [
        0.02937141752511, 1.190253444326, 0.2339467930526, 0.7916678130087,
    ]),
    "hs71": (hs71, 1, [5] * 4, 17.014017289061, [1, 4.74299963727, 3.821149984182, 1.379408293163]),
    "hs77": (hs77, -2, [3] * 5, 0.24150512879018, [
        1.166172189623, 1.182111389665, 1.38025704309, 1.506036273665, 0.610920195691,
    ]),
    "hs79": (hs79, -3, [3] * 5, 0.078776820871057, [
        1.191127456319, 1.362603164942, 1.472817931519, 1.635016619209, 1.679081436156,
    ]),
    "hs99": (hs99, 0, [1.58] * 7, -831079891.51011, [
        0.5424678162003, 0.5290214242005, 0.5084491553149, 0.4802688509739, 0.451236349795, 0.4091830824188,
        0.3527878917815,
    ]),
    "hs107": (hs107, [0, 0, -1, -1] + [0.90909] * 3 + [-1] * 2, [2, 2, 1, 1] + [1.0909] * 3 + [1] * 2,
              5055.0118035437, [
        0.6670127623118, 1.022384717055, 0.2282871446683, 0.1848217561297, 1.0909, 1.0909, 1.069036003143,
        0.1066106224088, -0.3387876190689,
    ]),
    "hs109": (hs109, [0, 0, -0.55, -0.55] + [196] * 3 + [-400] * 2, [1500, 1500, 0.55, 0.55] + [252] * 3 + [800] * 2,
              5362.0691811095, [
        675.0253392377, 1134.021089739, 0.1334850509318, -0.3711902626417, 252, 252, 201.4658577336, 426.6190056688,
        368.4881990884,
    ]),
    "hs111": (hs111, -10, [1] * 10, -47.761090859366, [
        -3.202311592128, -1.912366617429, -0.2444267439995, -6.561177206245, -0.7230979623582, -7.274232148363,
        -3.597237462231, -4.020316759737, -3.288376901645, -2.33437173725,
    ]),
    "hs114": (hs114, [1e-5] * 5 + [85, 90, 3, 1.2, 145], [2000, 16000, 120, 5000, 2000, 93, 95, 12, 4, 162],
              -1768.8069637219, [
        1698.094767401, 15818.61520211, 54.10268133026, 3031.225219181, 2000, 90.11542206026, 95, 10.49329845671,
        1.561636363636, 153.5353535354,
    ]),
    "hs119": (hs119, 0, [5] * 16, 244.89969751525, [
        0.03984735161205, 0.7919831559153, 0.2028703297537, 0.8443579164389, 1.269906453425, 0.9347387072311,
        1.68196196944, 0.1553008773107, 1.567870333507, 0, 0, 0, 0.660204065728, 0, 0.6742559263884, 0,
    ]),
}  # fmt: skip

NAMES = tuple(_DATA)


def hock_schittkowski(name: str) -> QualityProblem:
    """A problem by its name, one of `NAMES`."""
    f, low, high, upper_opt, points = _DATA[name]
    d = len(high)
    solutions = np.asarray(points, dtype=float).reshape(-1, d)
    # the amounts of hs111 are judged as those of g14: logarithms of small ones hardly matter
    unit = 10 / 6 / np.exp(solutions[0]) if name == "hs111" else None
    return QualityProblem(
        name,
        SMOOTH,
        bounds=box(low, high, d),
        upper=lambda x: f(x)[0],
        constraints=lambda x: f(x)[1],
        solutions=solutions,
        upper_opt=upper_opt,
        unit=unit,
    )
