"""Constrained problems g13 to g24 of the CEC 2006 competition; g20 has no feasible point that is known.

See `cec2006_first`. g22 is left out: its 19 equalities between numbers up to 1e7 are out of reach of all solvers.
"""

from __future__ import annotations

import numpy as np

from .cec2006_first import Parts, columns
from .problem import Floats, at_most, equal, mixed

POTENTIALS = np.asarray(
    [-6.089, -17.164, -34.054, -5.914, -24.721, -14.986, -24.1, -10.708, -26.662, -22.179]
)  # fmt: skip

# g19: the data of Colville's second problem
_A = np.asarray([
    [-16, 2, 0, 1, 0], [0, -2, 0, 0.4, 2], [-3.5, 0, 2, 0, 0], [0, -2, 0, -4, -1], [0, -9, -2, 1, -2.8],
    [2, 0, -4, 0, 0], [-1, -1, -1, -1, -1], [-1, -2, -3, -2, -1], [1, 2, 3, 4, 5], [1, 1, 1, 1, 1],
])  # fmt: skip
_B = np.asarray([-40, -2, -0.25, -4, -4, -1, -40, -60, 5, 1])
_C = np.asarray([
    [30, -20, -10, 32, -10], [-20, 39, -6, -31, 32], [-10, -6, 10, -6, -10], [32, -31, -6, 39, -20],
    [-10, 32, -10, -20, 30],
])  # fmt: skip
_D = np.asarray([4, 8, 10, 6, 2])
_E = np.asarray([-15, -27, -36, -18, -12])

# g16: ranges of the quantities y1 to y17 of the process
_LOW16 = np.asarray([
    213.1, 17.505, 11.275, 214.228, 7.458, 0.961, 1.612, 0.146, 107.99, 922.693, 926.832, 18.766, 1072.163,
    8961.448, 0.063, 71084.33, 2802713,
])  # fmt: skip
_HIGH16 = np.asarray([
    405.23, 1053.6667, 35.03, 665.585, 584.463, 265.916, 7.046, 0.222, 273.366, 1286.105, 1444.046, 537.141, 3247.039,
    26844.086, 0.386, 140000, 12146108,
])  # fmt: skip


def g13(x: Floats) -> Parts:
    a, b, c, d, e = columns(x)
    return np.exp(a * b * c * d * e), equal(np.sum(x**2, axis=-1) - 10, b * c - 5 * d * e, a**3 + b**3 + 1)


def g14(x: Floats) -> Parts:
    c = columns(x)
    safe = np.maximum(x, 1e-12)  # the box begins at 0
    share = safe / np.sum(safe, axis=-1, keepdims=True)
    return np.sum(x * (POTENTIALS + np.log(share)), axis=-1), equal(
        c[0] + 2 * c[1] + 2 * c[2] + c[5] + c[9] - 2,
        c[3] + 2 * c[4] + c[5] + c[6] - 1,
        c[2] + c[6] + c[7] + 2 * c[8] + c[9] - 1,
    )


def g15(x: Floats) -> Parts:
    a, b, c = columns(x)
    G = 1000 - a**2 - 2 * b**2 - c**2 - a * b - a * c
    return G, equal(np.sum(x**2, axis=-1) - 25, 8 * a + 14 * b + 7 * c - 56)


def g16(x: Floats) -> Parts:
    """The constraints are divided by the ranges of their quantities."""
    a, b, c, d, e = columns(x)
    y1 = b + c + 41.6
    y2 = 12.5 / (0.024 * d - 4.62) + 12
    y3 = (0.0003535 * a**2 + 0.5311 * a + 0.08705 * y2 * a) / (0.052 * a + 78 + 0.002377 * y2 * a)
    y4 = 19 * y3
    c4 = 0.04782 * (a - y3) + 0.1956 * (a - y3) ** 2 / b + 0.6376 * y4 + 1.594 * y3
    y5 = (a - y3 - y4) * (0.95 - c4 / (100 * b))
    y6 = a - y5 - y4 - y3
    c8 = (y5 + y4) * 0.995
    y7, y8 = c8 / y1, c8 / 3798
    y9 = 96.82 / (y7 - 0.0663 * y7 / y8 - 0.3153) + 0.321 * y1
    y10 = 1.29 * y5 + 1.258 * y4 + 2.29 * y3 + 1.71 * y6
    y11 = 1.71 * a - 0.452 * y4 + 0.58 * y3
    c12 = 0.995 * y10 + 1998
    y12 = 12.3 / 752.3 * a + 1.75 * y2 * 0.995 * a / c12
    y13 = c12 - 1.75 * y2
    y14 = 3623 + 64.4 * b + 58.4 * c + 146312 / (y9 + e)
    y15 = y13 / (0.995 * y10 + 60.8 * b + 48 * d - 0.1121 * y14 - 5095)
    y16 = 148000 - 331000 * y15 + 40 * y13 - 61 * y15 * y13
    y17 = 14130000 - 1328 * y10 - 531 * y11 + (2324 * y10 - 28740000 * y2) / c12
    c15, c16 = y13 / y15 - y13 / 0.52, 1.104 - 0.72 * y15
    G = (
        0.000117 * y14 + 0.1365 + 0.00002358 * y13 + 0.000001502 * y16 + 0.0321 * y12 + 0.004324 * y5
        + 0.0001 * c15 / c16 + 37.48 * y2 / c12 - 0.0000005843 * y17
    )  # fmt: skip
    y = np.stack([y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17], axis=-1)
    ranges = _HIGH16 - _LOW16
    other = [
        (0.28 / 0.72 * y5 - y4) / 100, (c - 1.5 * b) / 100, (3496 * y2 / c12 - 21) / 10,
        (110.6 + y1 - 62212 / (y9 + e)) / 100,
    ]  # fmt: skip
    g = np.concatenate([np.stack(other, axis=-1), (_LOW16 - y) / ranges, (y - _HIGH16) / ranges], axis=-1)
    return G, (np.empty((*g.shape[:-1], 0)), g)


def g17(x: Floats, scale: float = 100.0) -> Parts:
    a, b, c, d, e, f = columns(x)
    G = np.where(a < 300, 30, 31) * a + np.where(b < 100, 28, np.where(b < 200, 29, 30)) * b
    product, tilt = c * d / 131.078, 0.90798 / 131.078
    h = [
        300 - a - product * np.cos(1.48477 - f) + tilt * c**2 * np.cos(1.47588),
        -b - product * np.cos(1.48477 + f) + tilt * d**2 * np.cos(1.47588),
        -e - product * np.sin(1.48477 + f) + tilt * d**2 * np.sin(1.47588),
        200 - product * np.sin(1.48477 - f) + tilt * c**2 * np.sin(1.47588),
    ]
    return G, equal(*[v / scale for v in h])


def g18(x: Floats) -> Parts:
    a, b, c, d, e, f, g, h, i = columns(x)
    G = -0.5 * (a * d - b * c + c * i - e * i + e * h - f * g)
    return G, at_most(
        c**2 + d**2 - 1, i**2 - 1, e**2 + f**2 - 1, a**2 + (b - i) ** 2 - 1, (a - e) ** 2 + (b - f) ** 2 - 1,
        (a - g) ** 2 + (b - h) ** 2 - 1, (c - e) ** 2 + (d - f) ** 2 - 1, (c - g) ** 2 + (d - h) ** 2 - 1,
        g**2 + (h - i) ** 2 - 1, b * c - a * d, -c * i, e * i, f * g - e * h,
    )  # fmt: skip


def g19(x: Floats) -> Parts:
    u, v = x[..., :10], x[..., 10:]
    G = 2 * np.sum(_D * v**3, axis=-1) + np.sum((v @ _C) * v, axis=-1) - u @ _B
    g = -2 * (v @ _C) - 3 * _D * v**2 - _E + u @ _A
    return G, (np.empty((*g.shape[:-1], 0)), g)


def g21(x: Floats, scale: float = 100.0) -> Parts:
    a, b, c, d, e, f, g = columns(x)
    h = [
        (-300 * c + 7500 * (e - f) - 25 * d * (e - f) + c * d) / scale,
        (100 * b + 155.365 * d + 2500 * g - b * d - 25 * d * g - 15536.5) / scale,
        np.log(900 - d) - e, np.log(d + 300) - f, np.log(700 - 2 * d) - g,
    ]  # fmt: skip
    return a, mixed(h, [(35 * (b**0.6 + c**0.6) - a) / scale])


def g23(x: Floats, scale: float = 100.0) -> Parts:
    a, b, c, d, e, f, g, h, i = columns(x)
    G = 6 * a + 16 * b - 9 * e + 10 * (f + g) - 15 * h
    flows = [(a + b - c - d) / scale, (c + f - e) / scale, (d + g - h) / scale]
    return G, mixed(
        [*flows, 0.03 * a + 0.01 * b - i * (c + d)], [i * c + 0.02 * f - 0.025 * e, i * d + 0.02 * g - 0.015 * h]
    )


def g24(x: Floats) -> Parts:
    a, b = columns(x)
    return -a - b, at_most(-2 * a**4 + 8 * a**3 - 8 * a**2 + b - 2, -4 * a**4 + 32 * a**3 - 88 * a**2 + 96 * a + b - 36)
