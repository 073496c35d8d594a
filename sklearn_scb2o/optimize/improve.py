"""What follows the swarms of `minimize`: local searches and a polish, unless an earlier call has made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from scipy.optimize import OptimizeResult

from .archive import Archive, Floats, Seen
from .checkpoint import Checkpoint
from .evaluation import Evaluator
from .hybrid import Hybrid, SpentError
from .polish import Polish
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
    store: Checkpoint | None, *, polish: bool, only_polish: bool,
) -> Iterator[None]:  # fmt: skip
    """Improve the result by local searches and further swarms, and a polish, or by that alone; a search at a time."""
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
            if not only_polish:
                result.consensus = OptimizeResult(x=result.x, lower=result.lower_fun, upper=result.fun)

    arguments = (
        evaluate, Archive(optimizer.bounds, *seen.arrays()), (result.lower_fun, result.fun, result.x),
        None if budget is None else budget - evaluator.nfev_lower, optimizer.parameters.lower_tol, runs.other_seed(),
    )  # fmt: skip
    hybrid = Polish(*arguments) if only_polish else Hybrid(*arguments, refine=polish)
    try:
        for _ in hybrid:
            take_answer()
            yield
    finally:  # what was found by a search that has not ended, too
        take_answer()
    if not hybrid.spent and not only_polish:
        result.success, (result.status, result.message) = True, SEARCHED
