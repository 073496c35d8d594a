"""Constrained problems g01 to g12 of the CEC 2006 competition.

Liang, Runarsson, Mezura-Montes, Clerc, Suganthan, Coello Coello, Deb, "Problem definitions and evaluation criteria for
the CEC 2006 special session on constrained real-parameter optimization" (2006), whose solutions are given here.

Each function maps points of shape (n, d) to G, equalities and inequalities. Where these are large numbers they are
divided by a power of ten (``scale``), so that a violation of 1e-3 means about the same in all problems.
"""

from __future__ import annotations

import numpy as np

from .problem import Floats, at_most, equal, mixed

Parts = tuple[Floats, tuple[Floats, Floats]]


def columns(x: Floats) -> list[Floats]:
    return list(np.moveaxis(x, -1, 0))


def g01(x: Floats) -> Parts:
    c = columns(x)
    G = 5 * np.sum(x[..., :4] - x[..., :4] ** 2, axis=-1) - np.sum(x[..., 4:], axis=-1)
    pairs = [2 * c[i] + 2 * c[j] + c[9 + i] + c[9 + j] - 10 for i, j in ((0, 1), (0, 2), (1, 2))]
    caps = [c[9 + i] - 8 * c[i] for i in range(3)]
    sums = [c[9 + i] - 2 * c[3 + 2 * i] - c[4 + 2 * i] for i in range(3)]
    return G, at_most(*pairs, *caps, *sums)


def g02(x: Floats) -> Parts:
    cosines = np.cos(x) ** 2
    numerator = np.sum(cosines**2, axis=-1) - 2 * np.prod(cosines, axis=-1)
    norm = np.sqrt(np.sum(np.arange(1, x.shape[-1] + 1) * x**2, axis=-1))
    G = -np.abs(numerator) / np.maximum(norm, 1e-12)
    return G, at_most(0.75 - np.prod(x, axis=-1), np.sum(x, axis=-1) - 7.5 * x.shape[-1])


def g03(x: Floats) -> Parts:
    d = x.shape[-1]
    return -np.prod(np.sqrt(d) * x, axis=-1), equal(np.sum(x**2, axis=-1) - 1)


def g04(x: Floats) -> Parts:
    a, b, c, d, e = columns(x)
    G = 5.3578547 * c**2 + 0.8356891 * a * e + 37.293239 * a - 40792.141
    u = 85.334407 + 0.0056858 * b * e + 0.0006262 * a * d - 0.0022053 * c * e
    v = 80.51249 + 0.0071317 * b * e + 0.0029955 * a * b + 0.0021813 * c**2
    w = 9.300961 + 0.0047026 * c * e + 0.0012547 * a * c + 0.0019085 * c * d
    return G, at_most(u - 92, -u, v - 110, 90 - v, w - 25, 20 - w)


def g05(x: Floats, scale: float = 1000.0) -> Parts:
    a, b, c, d = columns(x)
    G = 3 * a + 1e-6 * a**3 + 2 * b + 2e-6 / 3 * b**3
    h = [
        1000 * (np.sin(-c - 0.25) + np.sin(-d - 0.25)) + 894.8 - a,
        1000 * (np.sin(c - 0.25) + np.sin(c - d - 0.25)) + 894.8 - b,
        1000 * (np.sin(d - 0.25) + np.sin(d - c - 0.25)) + 1294.8,
    ]
    return G, mixed([v / scale for v in h], [c - d - 0.55, d - c - 0.55])


def g06(x: Floats) -> Parts:
    a, b = columns(x)
    return (a - 10) ** 3 + (b - 20) ** 3, at_most(
        100 - (a - 5) ** 2 - (b - 5) ** 2, (a - 6) ** 2 + (b - 5) ** 2 - 82.81
    )


def g07(x: Floats) -> Parts:
    a, b, c, d, e, f, g, h, i, j = columns(x)
    G = (
        a**2 + b**2 + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2 + (e - 3) ** 2 + 2 * (f - 1) ** 2
        + 5 * g**2 + 7 * (h - 11) ** 2 + 2 * (i - 10) ** 2 + (j - 7) ** 2 + 45
    )  # fmt: skip
    return G, at_most(
        4 * a + 5 * b - 3 * g + 9 * h - 105,
        10 * a - 8 * b - 17 * g + 2 * h,
        -8 * a + 2 * b + 5 * i - 2 * j - 12,
        3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c**2 - 7 * d - 120,
        5 * a**2 + 8 * b + (c - 6) ** 2 - 2 * d - 40,
        a**2 + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
        0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e**2 - f - 30,
        -3 * a + 6 * b + 12 * (i - 8) ** 2 - 7 * j,
    )


def g08(x: Floats) -> Parts:
    a, b = columns(x)
    # the box begins at 0, where the quotient does not exist
    denominator = np.maximum(a**3 * (a + b), 1e-12)
    G = -(np.sin(2 * np.pi * a) ** 3) * np.sin(2 * np.pi * b) / denominator
    return G, at_most(a**2 - b + 1, 1 - a + (b - 4) ** 2)


def g09(x: Floats) -> Parts:
    a, b, c, d, e, f, g = columns(x)
    G = (
        (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6 + 7 * f**2 + g**4 - 4 * f * g
        - 10 * f - 8 * g
    )  # fmt: skip
    return G, at_most(
        2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e - 127,
        7 * a + 3 * b + 10 * c**2 + d - e - 282,
        23 * a + b**2 + 6 * f**2 - 8 * g - 196,
        4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * f - 11 * g,
    )


def g10(x: Floats, scale: float = 1e5) -> Parts:
    a, b, c, d, e, f, g, h = columns(x)
    return a + b + c, at_most(
        0.0025 * (d + f) - 1,
        0.0025 * (e + g - d) - 1,
        0.01 * (h - e) - 1,
        (100 * a - a * f + 833.33252 * d - 83333.333) / scale,
        (b * d - b * g - 1250 * d + 1250 * e) / scale,
        (c * e - c * h - 2500 * e + 1250000) / scale,
    )


def g11(x: Floats) -> Parts:
    a, b = columns(x)
    return a**2 + (b - 1) ** 2, equal(b - a**2)


def g12(x: Floats) -> Parts:
    # the nearest of the 9^3 centers has the rounded coordinates
    nearest = np.clip(np.round(x), 1, 9)
    return -1 + 0.01 * np.sum((x - 5) ** 2, axis=-1), at_most(np.sum((x - nearest) ** 2, axis=-1) - 0.0625)
