"""Which operations take off a node or pod what gpuward put there, and nothing of anybody else. Nothing is sent here."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuward.isolation.node_condition import condition_of, condition_operations
from gpuward.model.objects.owned import FAULT_TAINT, NOTICE, OWNED, RESERVED, STANDBY, Owned, Taint

Operation = Mapping[str, Any]
OUR_KEYS = frozenset({FAULT_TAINT, STANDBY, RESERVED})


def taints_of(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the taints of a node."""
    return (node.get("spec") or {}).get("taints") or []


def annotations_of(found: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of an object."""
    return (found.get("metadata") or {}).get("annotations") or {}


def is_marked(node: Mapping[str, Any]) -> bool:
    """Return whether a node carries anything that may be ours."""
    return (
        OWNED in annotations_of(node)
        or condition_of(node) is not None
        or any(taint.get("key") in OUR_KEYS for taint in taints_of(node))
    )


def unmark(node: Mapping[str, Any], owned: Owned) -> list[Operation]:
    """Return the operations that take our marks off a node: each first tests that what it takes is still as it is."""
    return [*_untaint(node, owned), *_unlabel(node, owned), *_unannotate(node, {*owned.annotations, OWNED})]


def unnotice(pod: Mapping[str, Any]) -> list[Operation]:
    """Return the operations that take our notice off a pod; none where there is none."""
    return list(_unannotate(pod, {NOTICE}))


def uncondition(node: Mapping[str, Any]) -> list[Operation]:
    """Return the operations, on the status, that take our condition off a node; none where there is none."""
    return list(condition_operations(node, None, at=0.0))


def strangers(node: Mapping[str, Any], owned: Owned) -> list[Taint]:
    """Return the taints under our keys that are not ours by our note: a person put them there, and they stay."""
    found = [_taint(one) for one in taints_of(node) if one.get("key") in OUR_KEYS]
    return [one for one in found if one not in owned.taints]


def _untaint(node: Mapping[str, Any], owned: Owned) -> Iterator[Operation]:
    # From the end, so that those before keep their places.
    for place, taint in reversed(list(enumerate(taints_of(node)))):
        if _taint(taint) in owned.taints:
            yield from _removed(f"/spec/taints/{place}", taint)


def _unlabel(node: Mapping[str, Any], owned: Owned) -> Iterator[Operation]:
    labels = (node.get("metadata") or {}).get("labels") or {}
    for key, label in owned.labels.items():
        if labels.get(key) != label.value:
            continue
        path = f"/metadata/labels/{_pointed(key)}"
        if label.former is None:
            yield from _removed(path, label.value)
        else:
            yield {"op": "test", "path": path, "value": label.value}
            yield {"op": "replace", "path": path, "value": label.former}


def _unannotate(found: Mapping[str, Any], ours: set[str]) -> Iterator[Operation]:
    for key, value in annotations_of(found).items():
        if key in ours:
            yield from _removed(f"/metadata/annotations/{_pointed(key)}", value)


def _removed(path: str, value: Any) -> Iterator[Operation]:
    yield {"op": "test", "path": path, "value": value}
    yield {"op": "remove", "path": path}


def _taint(taint: Mapping[str, Any]) -> Taint:
    return Taint(str(taint.get("key", "")), str(taint.get("effect", "")))


def _pointed(key: str) -> str:
    """Return a key as a JSON pointer has it (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
