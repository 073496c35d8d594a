"""How particles move: one Euler-Maruyama step of the stochastic dynamics, and what happens at the boundary."""

from __future__ import annotations

import math
from types import ModuleType

from .backend import Array, clamp, get_namespace, overflow_is_infinity, row_dot

#: Kinds of noise; `diffusion` says what each is.
NOISES = ("isotropic", "scaled", "anisotropic")
#: What happens to a particle that a step carries over the boundary; `apply_boundary` says what each does.
BOUNDARIES = ("reflect", "clip", "periodic")


def diffusion(
    z: Array,
    noise: str = "scaled",
    *,
    cap: float | None = None,
    floor: float | None = None,
    xp: ModuleType | None = None,
) -> Array:
    r"""Factor ``D(z)`` of the noise, elementwise, for the difference ``z = x - m`` to the consensus.

    Parameters
    ----------
    z : array of shape (..., d)
        Differences of particles and consensus; their squares must not overflow.
    noise : {"isotropic", "scaled", "anisotropic"}
        "isotropic": ``||z||_2``, as in the paper; "scaled": ``||z||_2 / sqrt(d)``, whose strength does not grow
        with the dimension; "anisotropic": ``|z_j|`` for coordinate j.
    cap : float, optional
        Truncation: ``||z||_2`` (or ``|z_j|``) is replaced by its minimum with `cap`, in units of z, so that far
        particles are not thrown farther still.
    floor : float, optional
        ``||z||_2`` (or ``|z_j|``) is replaced by its maximum with `floor`, in units of z, so that particles go on
        exploring where they have met.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., 1) or (..., d)

    References
    ----------
    SCB2O paper, section "Particle systems and diffusion structure"; truncation: Fornasier, Richtarik, Riedl, Sun,
    "Consensus-based optimisation with truncated noise" (2024).

    Examples
    --------
    >>> import numpy as np
    >>> diffusion(np.asarray([3.0, 4.0]), "isotropic"), diffusion(np.asarray([3.0, 4.0]), "isotropic", cap=1.0)
    (array([5.]), array([1.]))
    """
    xp = get_namespace(z, xp=xp)
    size, unit = diffusion_size(z, noise, cap, floor, xp)
    return size if unit == 1.0 else size * unit


def diffusion_size(z: Array, noise: str, cap: float | None, floor: float | None, xp: ModuleType) -> tuple[Array, float]:
    """`diffusion` as an array and a number to multiply it by, which the caller may join with other numbers."""
    unit = 1.0
    if noise == "scaled":
        size, unit = xp.sqrt(row_dot(z, z, xp)), 1.0 / math.sqrt(z.shape[-1])
    elif noise == "isotropic":
        size = xp.sqrt(row_dot(z, z, xp))
    elif noise == "anisotropic":
        size = xp.abs(z)
    else:
        raise ValueError(f"noise={noise!r} is not one of {NOISES}")
    if cap is not None:
        size = xp.minimum(size, cap)
    return (size if floor is None else xp.maximum(size, floor)), unit


def coordinate_noise(sigma: float, d: int, noise: str) -> tuple[float, int]:
    r"""Noise next to a particle at distance 1 of the consensus: standard deviation per coordinate, and coordinates.

    With these, s and k, the noise ``sigma D(z) B`` of a particle at z is ``s ||z|| B``, B standard normal in R^k, so
    that ``E ||sigma D(z) B||^2 = k s^2 ||z||^2``. Anisotropic noise is that of k = 1 in each coordinate by itself.

    Parameters
    ----------
    sigma : float, non-negative
        Noise strength.
    d : int, positive
        Dimension.
    noise : {"isotropic", "scaled", "anisotropic"}
        See `diffusion`.

    Returns
    -------
    s : float
    k : int

    References
    ----------
    SCB2O paper, equation (D-basic).

    Examples
    --------
    >>> [coordinate_noise(1.0, 4, noise) for noise in ("isotropic", "scaled", "anisotropic")]
    [(1.0, 4), (0.5, 4), (1.0, 1)]
    """
    if noise not in NOISES:
        raise ValueError(f"noise={noise!r} is not one of {NOISES}")
    return (sigma / math.sqrt(d) if noise == "scaled" else sigma), (1 if noise == "anisotropic" else d)


def euler_maruyama_step(
    x: Array,
    m: Array,
    normals: Array,
    *,
    lam: Array | float = 1.0,
    sigma: Array | float = 1.0,
    dt: Array | float = 0.1,
    noise: str = "scaled",
    cap: float | None = None,
    floor: float | None = None,
    xp: ModuleType | None = None,
) -> Array:
    r"""One Euler-Maruyama step of the particle system towards the consensus.

    .. math:: x_i \leftarrow x_i - \lambda\,dt\,(x_i - m) + \sigma \sqrt{dt}\, D(x_i - m) B_i

    Parameters
    ----------
    x : array of shape (..., N, d)
        Positions.
    m : array of shape (..., 1, d) or (d,)
        Consensus point.
    normals : array of shape (..., N, d)
        Independent standard normals B.
    lam, sigma, dt : float, or array broadcastable to (..., N, d)
        Drift, noise strength and step size.
    noise, cap, floor
        The diffusion D, see `diffusion`.
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., N, d)
        The new positions; no input is written to.

    References
    ----------
    SCB2O paper, equation (interacting SDE) and its time discretisation.

    Examples
    --------
    >>> import numpy as np
    >>> euler_maruyama_step(np.ones((1, 2)), np.zeros(2), np.zeros((1, 2)), lam=1.0, dt=0.25)
    array([[0.75, 0.75]])
    """
    xp = get_namespace(x, normals, xp=xp)
    z = x - m
    size, unit = diffusion_size(z, noise, cap, floor, xp)
    z *= 1.0 - lam * dt
    z += normals * (size * (unit * sigma * dt**0.5))
    z += m
    return z


@overflow_is_infinity
def apply_boundary(
    x: Array, low: Array, high: Array, boundary: str = "reflect", *, xp: ModuleType | None = None
) -> Array:
    """Bring positions back into the box ``low <= x <= high``, to the last bit.

    Parameters
    ----------
    x : array of shape (..., d)
        Positions, finite.
    low, high : array of shape (d,)
        Bounds; -inf and +inf mean none. ``low == high`` fixes a coordinate.
    boundary : {"reflect", "clip", "periodic"}
        "reflect" mirrors at the bound (a step over more than the whole box ends at a bound), "clip" moves to the
        nearest point of the box, "periodic" wraps around (coordinates without two finite bounds are clipped).
    xp : module, optional
        Array namespace; inferred by default.

    Returns
    -------
    array of shape (..., d)

    Examples
    --------
    >>> import numpy as np
    >>> x, low, high = np.asarray([[1.25], [-0.5]]), np.zeros(1), np.ones(1)
    >>> apply_boundary(x, low, high)[:, 0], apply_boundary(x, low, high, "periodic")[:, 0]
    (array([0.75, 0.5 ]), array([0.25, 0.5 ]))
    """
    xp = get_namespace(x, xp=xp)
    if boundary not in BOUNDARIES:
        raise ValueError(f"boundary={boundary!r} is not one of {BOUNDARIES}")
    if boundary == "reflect":
        # mirrored at the bound that was crossed; inside the box x - clipped is 0
        clipped = clamp(x, low, high, xp)
        x = clipped - (x - clipped)
    elif boundary == "periodic":
        width = high - low
        periodic = (width > 0) & (width < math.inf)
        period, origin = xp.where(periodic, width, 1.0), xp.where(periodic, low, 0.0)
        outside = ((x < low) | (x > high)) & periodic
        x = xp.where(outside, origin + xp.remainder(x - origin, period), x)
    return clamp(x, low, high, xp)
