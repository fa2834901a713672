"""The one taint of ours on a node: its value from the open cases, and the change that makes it so. It patches nothing.

A node holds one taint per key and effect, so the taint is the node's, not the case's; taints of others are never
touched, and ours is known by our note on the node. Every change is tied to the version of the node that was read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpuward.model.case import ENDED, Case
from gpuward.model.found import part
from gpuward.model.objects.owned import FAULT_TAINT, OWNED, Owned, Taint, read_owned, write_owned

OURS = Taint(FAULT_TAINT, "NoSchedule")
"""The mission's key and effect; others may be chosen."""
Operations = Sequence[Mapping[str, Any]]


def value_of(cases: Iterable[Case], kinds: Mapping[str, str]) -> str | None:
    """Return the value of a node's taint: the worst of its cases that taint it, of these the oldest; None for none.

    `kinds`: the word of each kind of fault that is not an Xid or SXid (policy_other.csv).
    """
    tainting = [case for case in cases if case.state not in ENDED and case.drill is None and case.marks.tainted]
    if not tainting:
        return None
    return _word(min(tainting, key=lambda case: (-case.level, case.opened_at, case.id)), kinds)


def _word(case: Case, kinds: Mapping[str, str]) -> str:
    family = next((name for name in ("sxid", "xid") if case.kind.startswith(name)), None)
    if family is not None and case.code is not None:
        return f"{family}-{case.code}"
    return kinds.get(case.kind, case.kind.replace("_", "-"))


def is_tainted(node: Mapping[str, Any], taint: Taint = OURS) -> bool:
    """Return whether the node wears a taint of this key and effect, whoever put it there."""
    return _place(node, taint) is not None


def taint_operations(node: Mapping[str, Any], value: str | None, *, at: float, taint: Taint = OURS) -> Operations:
    """Return the JSON patch that gives the node our taint with this value, or takes it away for None; empty: it is so.

    A taint of that key and effect that is not ours is left as it is. The patch fails as a whole when the node has
    changed since it was read. Raises ObjectError when our note on the node is broken.
    """
    owned = read_owned(node)
    place = _place(node, taint)
    if value is None:
        change = _removal(node, place, owned, taint=taint)
    else:
        change = _addition(node, place, owned, taint=taint, value=value, at=at)
    if not change:
        return ()
    version = part(node, "metadata").get("resourceVersion")
    return ({"op": "test", "path": "/metadata/resourceVersion", "value": version}, *change)


def _addition(
    node: Mapping[str, Any], place: int | None, owned: Owned, *, taint: Taint, value: str, at: float
) -> Operations:
    if place is not None:
        is_right = _taints(node)[place].get("value") == value
        path = f"/spec/taints/{place}/value"
        return () if is_right or taint not in owned.taints else ({"op": "add", "path": path, "value": value},)
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ours = {"key": taint.key, "value": value, "effect": taint.effect, "timeAdded": stamp}
    whole: list[Any] = [ours]
    add: dict[str, Any] = {"op": "add", "path": "/spec/taints", "value": whole}
    if _taints(node):
        add = {"op": "add", "path": "/spec/taints/-", "value": ours}
    return (add, *noted(node, replace(owned, taints=owned.taints | {taint})))


def _removal(node: Mapping[str, Any], place: int | None, owned: Owned, *, taint: Taint) -> Operations:
    if taint not in owned.taints:
        return ()
    forget = noted(node, replace(owned, taints=owned.taints - {taint}))
    return forget if place is None else ({"op": "remove", "path": f"/spec/taints/{place}"}, *forget)


def noted(node: Mapping[str, Any], owned: Owned) -> Operations:
    """Return the change that leaves this note on the node, none when nothing of ours is there any more."""
    path = f"/metadata/annotations/{escaped(OWNED)}"
    if not owned:
        return ({"op": "remove", "path": path},)
    note = write_owned(owned)
    if part(part(node, "metadata"), "annotations"):
        return ({"op": "add", "path": path, "value": note},)
    return ({"op": "add", "path": "/metadata/annotations", "value": {OWNED: note}},)


def _taints(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    taints = part(node, "spec").get("taints")
    return taints if isinstance(taints, (list, tuple)) else ()


def _place(node: Mapping[str, Any], taint: Taint) -> int | None:
    keys = [(one.get("key"), one.get("effect")) for one in _taints(node)]
    return keys.index((taint.key, taint.effect)) if (taint.key, taint.effect) in keys else None


def escaped(word: str) -> str:
    """Return a word as a JSON pointer carries it (RFC 6901)."""
    return word.replace("~", "~0").replace("/", "~1")
