"""Metadata of a search: who is given what was passed to `fit`."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, TypeGuard

import sklearn
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from .criteria import ModelCriterion, as_criterion


class Routed(NamedTuple):
    """Parameters by who takes them."""

    fit: dict[str, Any]  #: the estimator's `fit`
    split: dict[str, Any]  #: the splitter
    score: dict[str, Any]  #: the scorer
    upper: dict[str, Any]  #: the upper criterion


def router_of(search: Any) -> MetadataRouter:
    """Who requests which metadata: estimator, splitter, scorer and upper criterion of a search."""
    router = MetadataRouter(owner=type(search).__name__)
    router.add(estimator=search.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
    to_score = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
    router.add(scorer=check_scoring(search.estimator, scoring=search.scoring), method_mapping=to_score)
    splitter = check_cv(search.cv, classifier=is_classifier(search.estimator))
    router.add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    criterion = as_criterion(search.upper)
    if _requests_metadata(criterion):
        router.add(upper=criterion.function, method_mapping=MethodMapping().add(caller="fit", callee="score"))
    return router


def route_to_fit(search: Any, sample_weight: Any, params: dict[str, Any]) -> Routed:
    """The parameters of `fit` of a search, by who takes them: by request where metadata routing is enabled."""
    given = {name: value for name, value in params.items() if value is not None}
    criterion = as_criterion(search.upper)
    if sklearn.get_config()["enable_metadata_routing"]:
        if sample_weight is not None:
            given["sample_weight"] = sample_weight
        routed = process_routing(search, "fit", **given)
        # not `in`: without metadata, the result has every key and no end
        upper = routed["upper"].score if _requests_metadata(criterion) else {}
        return Routed(routed.estimator.fit, routed.splitter.split, routed.scorer.score, upper)
    split = {"groups": given.pop("groups")} if "groups" in given else {}
    taken = _named_parameters(criterion.function) if isinstance(criterion, ModelCriterion) else set()
    upper = {name: given.pop(name) for name in list(given) if name in taken}
    if sample_weight is not None:
        given[_name_of_weights(search.estimator)] = sample_weight
    return Routed(given, split, {}, upper)


def row_weights_of(estimator: Any, fit_params: dict[str, Any]) -> Any:
    """The row weights among the parameters of `fit`: of a pipeline, those of its last step."""
    return fit_params.get(_name_of_weights(estimator), fit_params.get("sample_weight"))


def _requests_metadata(criterion: Any) -> TypeGuard[ModelCriterion]:
    return isinstance(criterion, ModelCriterion) and hasattr(criterion.function, "get_metadata_routing")


def _named_parameters(function: Any) -> set[str]:
    """Names by which a criterion takes metadata: all its parameters but (estimator, X, y) and the weights of rows."""
    return set(list(inspect.signature(function).parameters)[3:]) - {"sample_weight"}


def _name_of_weights(estimator: Any) -> str:
    return estimator.steps[-1][0] + "__sample_weight" if isinstance(estimator, Pipeline) else "sample_weight"
