"""Which objects of a kind a list or a watch is about. How selectors are written is in selectors.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpuward.model.resource import PODS, Resource
from gpuward.sim.cluster import answers, selectors
from gpuward.sim.cluster.frozen import NOTHING
from gpuward.sim.cluster.kinds import at, kind_of

NODE_FIELD = "spec.nodeName"
_ALL: Callable[[Mapping[str, Any]], bool] = lambda _: True  # noqa: E731  a constant that is called


@dataclass(frozen=True, slots=True)
class Selection:
    """A namespace (None is all), and what is asked of its objects. `name` and `node` are set where they are fixed."""

    namespace: str | None
    matches: Callable[[Mapping[str, Any]], bool]
    name: str | None = None
    node: str | None = None

    def has(self, obj: Mapping[str, Any] | None) -> bool:
        """Return whether an object is meant; one that is not there is not."""
        if obj is None or (self.namespace is not None and obj["metadata"].get("namespace") != self.namespace):
            return False
        return self.matches(obj)


@lru_cache(maxsize=65536)
def select(resource: Resource, namespace: str | None, labels: str, fields: str) -> Selection:
    """Return what is selected. Raises Refused for a selector that the server does not take."""
    try:
        chosen = selectors.labels(labels) if labels.strip() else None
        terms = selectors.field_terms(fields)
    except selectors.Unreadable as error:
        raise answers.bad(resource, error) from error
    fixed = {term.path: term.value for term in terms if term.equal}
    return Selection(
        namespace=namespace,
        matches=_both(chosen, [_of_field(resource, term) for term in terms]),
        name=fixed.get("metadata.name"),
        node=fixed.get(NODE_FIELD) if resource == PODS else None,
    )


def _both(
    chosen: selectors.Matches | None, terms: list[Callable[[Mapping[str, Any]], bool]]
) -> Callable[[Mapping[str, Any]], bool]:
    rules = list(terms)
    if chosen is not None:
        rules.append(lambda obj: chosen(obj["metadata"].get("labels", NOTHING)))
    match rules:
        case []:
            return _ALL
        case [only]:
            return only
        case _:
            return lambda obj: all(rule(obj) for rule in rules)


def _of_field(resource: Resource, term: selectors.FieldTerm) -> Callable[[Mapping[str, Any]], bool]:
    known = {"metadata.name": ""} | ({"metadata.namespace": ""} if resource.namespaced else {})
    unset = (known | dict(kind_of(resource).fields)).get(term.path)
    if unset is None:
        raise answers.bad(resource, f"field label not supported: {term.path}")
    path, value, equal = tuple(term.path.split(".")), term.value, term.equal
    return lambda obj: (_text(at(obj, path), unset) == value) is equal


def _text(value: Any, unset: str) -> str:
    if value is None:
        return unset
    return str(value).lower() if isinstance(value, bool) else str(value)
