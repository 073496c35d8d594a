"""What follows the swarms of `minimize`: local searches and a polish, unless an earlier call has made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from scipy.optimize import Bounds, OptimizeResult

from .archive import Archive, Floats, Seen
from .checkpoint import Checkpoint
from .evaluation import Evaluator
from .hybrid import Hybrid, SpentError
from .polish import polish_result
from .runs import Runs

SEARCHED = 8, "the local searches find nothing better"
IMPROVED = ("x", "fun", "lower_fun")  # fields of the result that change


class Improved(NamedTuple):
    """What an earlier call has made of the result of the swarms."""

    fields: dict[str, Any]  #: `IMPROVED`; empty where there was none
    is_final: bool  #: whether nothing has changed since


def as_improved(result: OptimizeResult, budget: int | None) -> dict[str, Any]:
    """What a checkpoint keeps of a result, for `improved_before`."""
    return {name: result[name] for name in IMPROVED} | {"budget": budget}


def improved_before(evaluator: Evaluator, budget: int | None, store: Checkpoint | None) -> Improved:
    """What a checkpoint says of the call before."""
    contents = (store and store.contents) or {}
    improved = contents.get("improved")
    if not improved:
        return Improved({}, False)
    is_final = improved["budget"] == budget and contents["evaluator"]["nfev"][0] == evaluator.nfev_lower
    return Improved({name: improved[name] for name in IMPROVED}, is_final)


def local_searches(
    result: OptimizeResult, seen: Seen, evaluator: Evaluator, runs: Runs, budget: int | None,
    store: Checkpoint | None, *, refine: bool,
) -> Iterator[None]:  # fmt: skip
    """Improve the result by local searches and further swarms, and a refinement if wanted, a search at a time."""
    optimizer = runs.optimizer
    before = improved_before(evaluator, budget, store)
    result.update(before.fields)
    if before.is_final:
        return

    def evaluate(x: Floats) -> tuple[Floats, Floats]:
        if "max_time" in optimizer.stop():
            raise SpentError
        return evaluator.both(x)

    def take_answer() -> None:
        if hybrid.answer is not None:
            result.lower_fun, result.fun, result.x = hybrid.answer
            result.consensus = OptimizeResult(x=result.x, lower=result.lower_fun, upper=result.fun)

    hybrid = Hybrid(
        evaluate, Archive(optimizer.bounds, *seen.arrays()), (result.lower_fun, result.fun, result.x),
        None if budget is None else budget - evaluator.nfev_lower, optimizer.parameters.lower_tol,
        seed=runs.other_seed(), refine=refine,
    )  # fmt: skip
    try:
        for _ in hybrid:
            take_answer()
            yield
    finally:  # what was found by a search that has not ended, too
        take_answer()
    if not hybrid.spent:
        result.success, (result.status, result.message) = True, SEARCHED


def polished(
    result: OptimizeResult, evaluator: Evaluator, bounds: Bounds, budget: int | None, store: Checkpoint | None
) -> OptimizeResult:
    """The result of a search by COBYQA from there."""
    before = improved_before(evaluator, budget, store)
    if not before.is_final:
        return polish_result(result, evaluator, bounds, budget)
    result.update(before.fields)
    return result
