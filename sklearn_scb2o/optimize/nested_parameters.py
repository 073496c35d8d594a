"""Parameters of the two levels of NestedOptimizer: their sizes, and what its options may set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..particles import sigma_from_rate
from .optimizer import SCB2OOptimizer
from .parameters import check_count

#: Logarithmic contraction per iteration of the outer particles, and of the inner ones from a cold and a warm start.
OUTER_RATE, COLD_RATE, WARM_RATE = 0.2, 0.2, 0.4
#: Quantile level of the outer particles, of which there are few: their temperature is that of a third of them.
OUTER_BETA = 0.3

_LEAST_INNER = 7  # the box, the archive and the prediction give one each, neighbours the others
_WHY_OUTER = ": two particles and their consensus point"
_WHY_ITER = ": the last one evaluates the consensus point of those before"
_NOT_OPTIONS = frozenset(
    ("bounds", "n_particles", "n_runs", "batch_size", "random_state", "max_iter", "max_evals", "max_time", "tol",
     "stagnation", "xp", "device", "dtype")
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """How many points and iterations each level has."""

    n_outer: int  #: R, outer points
    n_inner: int  #: N, inner particles of each
    first_iter: int  #: inner iterations from a cold start
    inner_iter: int  #: inner iterations from a warm start

    @classmethod
    def checked(cls, d: int, n_outer: Any, n_inner: Any, first_iter: Any, inner_iter: Any) -> Sizes:
        """The sizes for an inner dimension d, with "auto" where they depend on it."""
        return cls(
            check_count("n_outer", n_outer, least=3, why=_WHY_OUTER),
            _size("n_inner", n_inner, 8 + 2 * d, _LEAST_INNER),
            _size("first_iter", first_iter, 10 + 2 * d, 2, _WHY_ITER),
            _size("inner_iter", inner_iter, 3 + d // 2, 2, _WHY_ITER),
        )


def _size(name: str, value: Any, auto: int, least: int, why: str = "") -> int:
    if isinstance(value, str):
        if value == "auto":
            return auto
        raise ValueError(f"{name}={value!r} must be 'auto' or an integer of at least {least}{why}")
    return check_count(name, value, least=least, why=why)


@dataclass(frozen=True)
class Contraction:
    """A schedule of sigma: the noise that contracts particles at a rate per iteration, in the logarithm."""

    rate: float

    def __call__(self, optimizer: SCB2OOptimizer) -> float:
        """Sigma in the dimension of the optimizer."""
        return sigma_from_rate(self.rate, optimizer.bounds.lb.size, 1.0, 0.8, "scaled")


def contracting(rate: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an optimizer that contracts at a rate, unless they say themselves how it moves."""
    if not options.keys().isdisjoint(("lam", "sigma", "dt", "noise")):
        return dict(options)
    return {"lam": 1.0, "dt": 0.8, "noise": "scaled", "sigma": Contraction(rate), **options}


def checked_options(name: str, options: Mapping[str, Any] | None, fixed: frozenset[str]) -> dict[str, Any]:
    """Options of a level as a dictionary; a ValueError names those that are not for the caller to set."""
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"{name}={options!r:.80} must be a dictionary of parameters of SCB2OOptimizer, or None")
    options = {} if options is None else dict(options)
    wrong = sorted(options.keys() & (_NOT_OPTIONS | fixed))
    if wrong:
        raise ValueError(
            f"{name} has {', '.join(map(repr, wrong))}, which NestedOptimizer sets itself; give it to NestedOptimizer "
            "where that has such a parameter, and leave it out of the options"
        )
    return options
