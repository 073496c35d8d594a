"""What the objective becomes when groups of weights enter or leave a fit, from a quadratic model around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import blas

# An entering weight of which the free ones can imitate all but this part gains nothing.
IMITATED = 1e-7
# Added to a singular curvature, relative to the mean of its diagonal
RIDGE = 1e-8


class Changes(NamedTuple):
    """Predicted changes of the objective, each by group of weights.

    Attributes
    ----------
    drop : ndarray of shape (n_in,)
        Increase when a group leaves and the others are fitted anew.
    add : ndarray of shape (n_out,)
        Change, at most 0, when a group enters.
    swap : ndarray of shape (n_in, n_out)
        Change when one leaves and one enters.
    """

    drop: np.ndarray
    add: np.ndarray
    swap: np.ndarray


class Step(NamedTuple):
    """A support, the value that the model predicts for it, and the weights of the prediction."""

    support: np.ndarray
    predicted: float
    weights: np.ndarray


class QuadraticModel:
    """The smallest value of ``L(w + v) = value + gradient.v + v.H v / 2`` on a support, for a support that moves.

    Everything is in one symmetric matrix M with the rows F of the free weights, O of the others, and one for
    ``b = H w - gradient``:

        M_FF = -A,  M_FO = A H_FO,  M_OO = H_OO - H_OF A H_FO,  M_Fb = A b_F,  M_Ob = b_O - H_OF A b_F

    with A the inverse of H_FF. M_Fb are the weights of the minimum and M_Ob minus the gradient there. A weight
    enters or leaves by a sweep, which is an update of rank one. Exact for a quadratic objective.

    Parameters
    ----------
    value : float
        The objective at `weights`.
    weights, gradient : ndarray of shape (m,)
        Where the model is made.
    hessian : ndarray of shape (m, m)
        Curvature there.
    membership : sparse array of shape (n_groups, m)
        Which of the weights a group has. A weight is free when all groups that have it are in.
    support : ndarray of bool, shape (n_groups,)
        The groups that are in.
    may_enter : ndarray of bool, shape (n_groups,), optional
        Groups whose weights are all among the m; the others stay as they are.
    held : ndarray of bool, shape (m,), optional
        Weights that stay zero even when they are free.
    place, n_weights : ndarray of int, shape (m,), and int, optional
        Where the m weights are in a vector of n_weights, which `weights` is then.
    """

    def __init__(
        self,
        value: float,
        weights: np.ndarray,
        gradient: np.ndarray,
        hessian: np.ndarray,
        membership: Any,
        support: np.ndarray,
        *,
        may_enter: np.ndarray | None = None,
        held: np.ndarray | None = None,
        place: np.ndarray | None = None,
        n_weights: int | None = None,
    ) -> None:
        m = len(weights)
        self._place = np.arange(m) if place is None else place
        self._n_weights = n_weights or m
        self._membership = sparse.csr_array(membership)
        self._by_weight = sparse.csr_array(self._membership.T)
        sizes = np.diff(self._membership.indptr)
        self._padded = np.full((len(sizes), max(1, sizes.max(initial=0))), m)  # m stands for no weight
        self._padded[np.arange(self._padded.shape[1]) < sizes[:, None]] = self._membership.indices
        self._is_single = bool(np.all(sizes <= 1))
        self._may_enter = np.ones(len(sizes), dtype=bool) if may_enter is None else may_enter
        self._held = np.zeros(m, dtype=bool) if held is None else held
        self._hessian = hessian
        self._right = hessian @ weights - gradient
        self._constant = value - gradient @ weights + weights @ (hessian @ weights) / 2.0
        self._floor = IMITATED * np.diag(hessian)
        self.move_to(support)

    def move_to(self, support: np.ndarray) -> None:
        """Make M for another support."""
        m = len(self._right)
        self.support = support.copy()
        self._missing = self._by_weight @ (~support).astype(float)
        self._free = (self._missing == 0.0) & ~self._held
        free, outside = np.flatnonzero(self._free), np.flatnonzero(~self._free)
        full = np.zeros((m + 1, m + 1))
        full[:m, :m] = self._hessian
        full[:m, m] = full[m, :m] = self._right
        rest = np.append(outside, m)
        inverse = _inverse(self._hessian[np.ix_(free, free)])
        onto = inverse @ full[np.ix_(free, rest)]
        full[np.ix_(rest, rest)] -= full[np.ix_(rest, free)] @ onto
        full[np.ix_(free, free)] = -inverse
        full[np.ix_(free, rest)] = onto
        full[np.ix_(rest, free)] = onto.T
        self._matrix = full

    def estimate(self, support: np.ndarray) -> float:
        """Smallest value of the model on another support, without a move."""
        free = np.flatnonzero((self._by_weight @ (~support).astype(float) == 0.0) & ~self._held)
        right = self._right[free]
        return float(self._constant - right @ solve_curvature(self._hessian[np.ix_(free, free)], right) / 2.0)

    @property
    def value(self) -> float:
        """Smallest value of the model on the support."""
        return float(self._constant + self._matrix[-1, -1] / 2.0)

    @property
    def weights(self) -> np.ndarray:
        """Where that is, (n_weights,)."""
        weights = np.zeros(self._n_weights)
        weights[self._place[self._free]] = self._matrix[:-1, -1][self._free]
        return weights

    def changes(self) -> Changes:
        """Predictions for all single moves."""
        return Changes(self.drops(), self.adds(), self.swaps())

    @property
    def leaving(self) -> np.ndarray:
        """Groups that are in."""
        return np.flatnonzero(self.support)

    @property
    def entering(self) -> np.ndarray:
        """Groups that are out and may enter."""
        return np.flatnonzero(~self.support & self._may_enter)

    def drops(self) -> np.ndarray:
        """Increase of the value when each of `leaving` leaves, (n_in,)."""
        matrix = self._matrix
        index, mask = self._members(self.leaving, self._free)
        if self._is_single:
            j = index[:, 0]
            return np.where(mask[:, 0], -(matrix[j, -1] ** 2) / np.where(mask[:, 0], matrix[j, j], -1.0) / 2.0, 0.0)
        inverse, weights = -_blocks(matrix, index), matrix[index, -1]
        return _quadratic_forms(inverse, weights, mask) / 2.0

    def adds(self) -> np.ndarray:
        """Change of the value, at most 0, when each of `entering` enters, (n_out,)."""
        index, mask = self._opened()
        return -_quadratic_forms(_blocks(self._matrix, index), self._matrix[index, -1], mask) / 2.0

    def swaps(self) -> np.ndarray:
        """Change of the value when one of `leaving` leaves and one of `entering` enters, (n_in, n_out)."""
        matrix, drops = self._matrix, self.drops()
        j, j_mask = self._members(self.leaving, self._free)
        # what the free weights imitate may be needed when one of them leaves
        k, k_mask = self._members(self.entering, (self._missing == 1.0) & ~self._held)
        floor = np.append(self._floor, 0.0)[k]
        if self._is_single:
            j, k, k_mask, floor = j[:, 0], k[:, 0], k_mask[:, 0], floor[:, 0]
            closes = j_mask[:, 0]  # an empty group leaves without a trace
            variance = np.where(closes, -matrix[j, j], 1.0)[:, None]
            onto = matrix[np.ix_(j, k)] * closes[:, None]
            slope = matrix[k, -1] + onto * (matrix[j, -1][:, None] / variance)
            curvature = matrix[k, k] + onto**2 / variance
            curvature = np.where(k_mask & (curvature > floor), curvature, np.inf)
            return drops[:, None] - slope**2 / curvature / 2.0
        swaps = np.zeros((len(j), len(k)))
        curvatures, slopes = _blocks(matrix, k), matrix[k, -1]
        for i, group in enumerate(self.leaving):
            closed = j[i, j_mask[i]]
            onto = matrix[closed[:, None, None], k]  # (closed, n_out, size)
            force = solve_curvature(
                -matrix[np.ix_(closed, closed)],
                np.column_stack([matrix[closed, -1], onto.reshape(len(closed), k.size)]),
            )
            slope = slopes + np.tensordot(force[:, 0], onto, axes=1)
            curvature = curvatures + np.einsum("cka,ckb->kab", onto, force[:, 1:].reshape(onto.shape))
            shared = np.zeros(len(matrix), dtype=bool)  # a weight that the leaving group has too stays zero
            shared[self._padded[group]] = True
            moves = k_mask & ~shared[k] & (curvature.diagonal(axis1=1, axis2=2) > floor)
            swaps[i] = drops[i] - _quadratic_forms(curvature, slope, moves) / 2.0
        return swaps

    def leave(self, group: int) -> None:
        """Take a group out."""
        members = self._members_of(group)
        self.support[group] = False
        self._missing[members] += 1.0
        for weight in members[self._free[members]]:
            self._sweep(weight)

    def enter(self, group: int) -> None:
        """Take a group in."""
        members = self._members_of(group)
        self.support[group] = True
        self._missing[members] -= 1.0
        for weight in members[self._missing[members] == 0.0]:
            if not self._held[weight] and self._matrix[weight, weight] > self._floor[weight]:
                self._sweep(weight)

    def step(self) -> Step:
        """Where the model is now."""
        return Step(self.support.copy(), self.value, self.weights)

    def _members_of(self, group: int) -> np.ndarray:
        return self._membership.indices[self._membership.indptr[group] : self._membership.indptr[group + 1]]

    def _members(self, groups: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of each group, (n, size), and which of them are `among` some, the same shape."""
        index = self._padded[groups]
        return index, np.append(among, False)[index]

    def _opened(self) -> tuple[np.ndarray, np.ndarray]:
        """The same of `entering`: weights that become free when the group enters."""
        opens = (self._missing == 1.0) & ~self._held & (np.diag(self._matrix)[:-1] > self._floor)
        return self._members(self.entering, opens)

    def _sweep(self, weight: int) -> None:
        """Turn a weight from one that is not free into one that is, or back."""
        matrix = self._matrix
        column, pivot = matrix[:, weight].copy(), matrix[weight, weight]
        blas.dger(-1.0 / pivot, column, column, a=matrix.T, overwrite_a=1)  # the transpose has BLAS's order
        matrix[:, weight] = matrix[weight, :] = column * ((-1.0 if self._free[weight] else 1.0) / pivot)
        matrix[weight, weight] = -1.0 / pivot
        self._free[weight] = not self._free[weight]


def _blocks(matrix: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Diagonal blocks of groups, (n, size, size)."""
    return matrix[index[:, :, None], index[:, None, :]]


def _quadratic_forms(blocks: np.ndarray, vectors: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """``v.(B^-1) v`` of each block, (n, size, size), and vector, (n, size), among the entries of `mask`."""
    size = mask.shape[1]
    vectors = np.where(mask, vectors, 0.0)
    blocks = np.where(mask[:, :, None] & mask[:, None, :], blocks, 0.0)
    diagonal = blocks.diagonal(axis1=1, axis2=2)
    if size == 1:
        return vectors[:, 0] ** 2 / np.where(mask, diagonal, 1.0)[:, 0]
    blocks = blocks + np.eye(size) * np.where(mask, 1e-12 * diagonal, 1.0)[:, None, :]
    return np.sum(vectors * np.linalg.solve(blocks, vectors[..., None])[..., 0], axis=1)


def _factor(curvature: np.ndarray) -> Any:
    """Cholesky factor of a positive semidefinite matrix, with a ridge where it is singular."""
    scale = float(np.trace(curvature)) / len(curvature)
    if not scale > 0.0:
        return linalg.cho_factor(np.eye(len(curvature)), lower=True)
    for ridge in (0.0, RIDGE, 1e3 * RIDGE):
        damped = curvature + (ridge * scale) * np.eye(len(curvature)) if ridge else curvature
        try:
            factor = linalg.cho_factor(damped, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
        # a pivot at the level of rounding is noise: its direction is not determined
        if np.diag(factor[0]).min() ** 2 > 1e-13 * scale:
            return factor
    values, vectors = np.linalg.eigh(curvature)  # not positive semidefinite: the part that is
    fixed = (vectors * np.maximum(values, 1e3 * RIDGE * scale)) @ vectors.T
    return linalg.cho_factor(fixed, lower=True)


def curvature_solver(curvature: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The function that solves with a positive semidefinite matrix, see `solve_curvature`."""
    factor = _factor(curvature)
    return lambda right: linalg.cho_solve(factor, right, check_finite=False)


def solve_curvature(curvature: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with a positive semidefinite matrix; where it is singular, with a small multiple of the identity added."""
    if len(curvature) == 0:
        return np.zeros_like(right)
    return linalg.cho_solve(_factor(curvature), right, check_finite=False)


def _inverse(curvature: np.ndarray) -> np.ndarray:
    if len(curvature) == 0:
        return np.zeros((0, 0))
    factor, _ = _factor(curvature)
    inverse, _ = linalg.lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return lower + np.tril(lower, -1).T
