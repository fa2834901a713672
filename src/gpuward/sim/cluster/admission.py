"""What the API server fills in and refuses, kind by kind, before an object is kept. Schemas are in schema.py."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuward.model.resource import DISRUPTION_BUDGETS, EVENTS, LEASES, NAMESPACES, NODES, PODS, Resource
from gpuward.sim.cluster import pods
from gpuward.sim.cluster.frozen import NOTHING
from gpuward.sim.cluster.kinds import at, kind_of
from gpuward.sim.cluster.words import is_dns_label, is_label_key, is_label_value, is_subdomain

DUPLICATE = "Duplicate value"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_MOST_ANNOTATION_BYTES = 262_144
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(?:Z|[-+]\d\d:\d\d)")
_PERCENT = re.compile(r"[0-9]+%")
_WHOLE = 100
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_EVENT_LENGTHS = {"reason": 128, "action": 128, "reportingInstance": 128, "note": 1024}

Complaints = Iterator[str]


def fill_in(resource: Resource, draft: dict[str, Any]) -> None:
    """Add to a new object what the server adds to it."""
    if resource == NODES:
        spec = dict(draft.get("spec") or {})
        taints = list(spec.get("taints") or ())
        if not any(NOT_READY.items() <= one.items() for one in taints):
            taints.append(NOT_READY)
        draft["spec"] = {**spec, "taints": taints}
    elif resource == PODS:
        draft["spec"] = pods.filled_in(draft.get("spec") or {})
    elif resource == NAMESPACES:
        name = draft["metadata"]["name"]
        draft["metadata"]["labels"] = {**draft["metadata"].get("labels", {}), "kubernetes.io/metadata.name": name}
        draft["spec"] = {"finalizers": ["kubernetes"]}


def name_complaint(resource: Resource, name: str) -> str | None:
    """Return what is wrong with a name, None when nothing is."""
    if not name:
        return "metadata.name: Required value: name or generateName is required"
    good = is_subdomain(name) if kind_of(resource).dotted else is_dns_label(name)
    return None if good else f"metadata.name: Invalid value: {name!r}: must be a lowercase RFC 1123 name"


def metadata_complaints(new: Mapping[str, Any], old: Mapping[str, Any]) -> Complaints:
    """Yield what is wrong with the labels, annotations and finalizers of an object, so far as they changed."""
    labels, annotations = new.get("labels", NOTHING), new.get("annotations", NOTHING)
    if labels is not old.get("labels"):
        yield from _label_complaints(labels)
    if annotations is not old.get("annotations"):
        yield from _annotation_complaints(annotations)
    finalizers, kept = new.get("finalizers", ()), old.get("finalizers", ())
    for one in finalizers:
        if not isinstance(one, str) or not (one in _STANDARD_FINALIZERS or ("/" in one and is_label_key(one))):
            yield f"metadata.finalizers: Invalid value: {one!r}: must be a qualified name"
    if old.get("deletionTimestamp") is not None and not set(finalizers) <= set(kept):
        yield "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"


def complaints(resource: Resource, new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Complaints:
    """Yield what is wrong with an object of a native kind; `old` is what it was, None when it is new."""
    if old is not None:
        for path in kind_of(resource).immutable:
            if at(old, path) is not None and at(new, path) != at(old, path):
                yield f"{'.'.join(path)}: Invalid value: field is immutable"
    rule = _RULES.get(resource)
    if rule is not None:
        yield from rule(new, old)


def _label_complaints(labels: Mapping[str, Any]) -> Complaints:
    for key, value in labels.items():
        if not is_label_key(key):
            yield f"metadata.labels: Invalid value: {key!r}: must be a qualified name"
        if not isinstance(value, str) or not is_label_value(value):
            yield f"metadata.labels: Invalid value: {value!r}: must be a valid label"


def _annotation_complaints(annotations: Mapping[str, Any]) -> Complaints:
    size = 0
    for key, value in annotations.items():
        if not is_label_key(key.lower()):
            yield f"metadata.annotations: Invalid value: {key!r}: must be a qualified name"
        if not isinstance(value, str):
            yield f"metadata.annotations: Invalid value: {value!r}: must be a string"
            continue
        size += len(key.encode()) + len(value.encode())
    if size > _MOST_ANNOTATION_BYTES:
        yield f"metadata.annotations: Too long: may not be more than {_MOST_ANNOTATION_BYTES} bytes"


def _node_complaints(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Complaints:
    taints = new.get("spec", NOTHING).get("taints", ())
    if old is not None and taints is old.get("spec", NOTHING).get("taints"):
        return
    seen = set()
    for place, taint in enumerate(taints):
        where = f"metadata.taints[{place}]"
        pair = (taint.get("key", ""), taint.get("effect", ""))
        if not is_label_key(pair[0]):
            yield f"{where}.key: Invalid value: {pair[0]!r}: must be a qualified name"
        if pair[1] not in _EFFECTS:
            yield f"{where}.effect: Unsupported value: {pair[1]!r}"
        if not is_label_value(taint.get("value", "")):
            yield f"{where}.value: Invalid value: {taint['value']!r}: must be a valid label"
        if pair in seen:
            yield f"{where}: {DUPLICATE}: taints must be unique by key and effect pair"
        seen.add(pair)


def _pod_complaints(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Complaints:
    spec = new.get("spec", NOTHING)
    if old is None:
        found = pods.new_complaint(spec)
    elif spec is old.get("spec"):
        return
    else:
        found = pods.change_complaint(old.get("spec", NOTHING), spec)
    if found is not None:
        yield found


def _lease_complaints(new: Mapping[str, Any], _: Mapping[str, Any] | None) -> Complaints:
    spec = new.get("spec", NOTHING)
    for field, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = spec.get(field)
        if value is not None and (type(value) is not int or value < least):
            yield f"spec.{field}: Invalid value: {value!r}: must be greater than or equal to {least}"
    for field in ("renewTime", "acquireTime"):
        yield from _time_complaints(f"spec.{field}", spec.get(field))


def _event_complaints(new: Mapping[str, Any], _: Mapping[str, Any] | None) -> Complaints:
    for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
        if not new.get(field):
            yield f"{field}: Required value"
    if new.get("type") not in ("Normal", "Warning"):
        yield f"type: Invalid value: has invalid value: {new.get('type')!r}"
    if not is_label_key(new.get("reportingController", "")):
        yield "reportingController: Invalid value: must be a qualified name"
    for field, most in _EVENT_LENGTHS.items():
        if len(new.get(field, "").encode()) > most:
            yield f"{field}: Invalid value: can have at most {most} characters"
    yield from _time_complaints("eventTime", new.get("eventTime"))
    series = new.get("series")
    if series is not None and series.get("count", 0) < 2:  # noqa: PLR2004  one event is no series
        yield "series.count: Invalid value: should be at least 2"


def _time_complaints(path: str, value: Any) -> Complaints:
    """Yield the complaint about a MicroTime that has not exactly six digits after the point."""
    if value is not None and not (isinstance(value, str) and _MICRO_TIME.fullmatch(value)):
        yield f"{path}: Invalid value: {value!r}: must be a time with microseconds"


def _budget_complaints(new: Mapping[str, Any], _: Mapping[str, Any] | None) -> Complaints:
    spec = new.get("spec", NOTHING)
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield "spec: Invalid value: minAvailable and maxUnavailable cannot be both set"
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field)
        if isinstance(value, str):
            if not _PERCENT.fullmatch(value) or int(value[:-1]) > _WHOLE:
                yield f"spec.{field}: Invalid value: {value!r}: must be a percentage up to 100%"
        elif value is not None and (type(value) is not int or value < 0):
            yield f"spec.{field}: Invalid value: {value!r}: must be greater than or equal to 0"


_RULES: Mapping[Resource, Callable[[Mapping[str, Any], Mapping[str, Any] | None], Complaints]] = {
    NODES: _node_complaints,
    PODS: _pod_complaints,
    LEASES: _lease_complaints,
    EVENTS: _event_complaints,
    DISRUPTION_BUDGETS: _budget_complaints,
}
