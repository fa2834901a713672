"""What gpuward puts on the objects of others: its keys, and the note on a node of which marks are ours.

A node is many owners'. What stands in our note we put there and may take off; all else is somebody else's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuward.model.objects.values import ObjectError

FAULT_TAINT = "gpu.infra.status/hardware-fault"
"""The key that the settings may change."""
STANDBY = "gpuward.io/standby"
RESERVED = "gpuward.io/reserved-for"
OWNED = "gpuward.io/owned"
"""The annotation of a node that holds our note."""
NOTICE = "gpuward.io/notice"
"""The annotation of a pod that holds the notice."""
CHECKPOINT = "gpuward.io/checkpoint"
"""The label by which a job opts in to notices; its owner writes it."""
MODE = "gpuward.io/mode"
"""A label that people put on a node: with the value `observe` nothing is done there, only said."""
GPUS = "gpuward.io/gpus"
"""A label that keeps the agent on a node whose GPUs have vanished, and with them the labels of other software."""
GPUS_PRESENT = "present"
PAUSED = "paused-by-gpuward"
"""What a label of the GPU Operator says that puts one of its DaemonSets on a node, as long as we keep that away."""
CONDITION = "GPUFault"
"""The type of the node condition that tells people."""
OURS = "gpuward.io/"
"""How our keys begin."""
OF_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""How the keys of taints begin that Kubernetes itself puts on nodes, and takes off: it keeps no other's there."""
LEADER_LEASE = "gpuward-controller"
"""The Lease of the leading controller, in gpuward's own namespace."""
_LEASE_PREFIX = "agent."


def agent_lease(node: str) -> str:
    """Return the name of the Lease by which the agent of a node says that it lives, in gpuward's own namespace."""
    return f"{_LEASE_PREFIX}{node}"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint by what a node holds one of: its key and effect. The value is not part of whose it is."""

    key: str
    effect: str

    def __str__(self) -> str:
        """Return it as kubectl spells a taint without its value."""
        return f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Label:
    """What we set a label to, and its value before; None: there was none. Another value now is somebody else's."""

    value: str
    former: str | None


@dataclass(frozen=True, slots=True)
class Owned:
    """Our note on a node: the taints, labels and annotations (but the note itself) that we put there."""

    taints: frozenset[Taint] = frozenset()
    labels: Mapping[str, Label] = field(default_factory=dict)
    annotations: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether anything of ours is there."""
        return bool(self.taints or self.labels or self.annotations)


def write_owned(owned: Owned) -> str:
    """Return the note as the annotation holds it; the same note always in the same spelling."""
    note = {
        "taints": sorted(map(str, owned.taints)),
        "labels": {key: [label.value, label.former] for key, label in owned.labels.items()},
        "annotations": sorted(owned.annotations),
    }
    return json.dumps({name: value for name, value in note.items() if value}, sort_keys=True, separators=(",", ":"))


def has_note(node: Mapping[str, Any]) -> bool:
    """Return whether our note is on a node's object."""
    return OWNED in ((node.get("metadata") or {}).get("annotations") or {})


def read_owned(node: Mapping[str, Any]) -> Owned:
    """Return our note on a node's object; an empty one where there is none.

    Raises ObjectError when somebody has broken it: nothing of that node may be taken for ours then.
    """
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(OWNED)
    if text is None:
        return Owned()
    try:
        note = json.loads(text)
        return Owned(
            taints=frozenset(_taint(one) for one in note.get("taints", [])),
            labels={key: _label(pair) for key, pair in note.get("labels", {}).items()},
            annotations=frozenset(_text(one) for one in note.get("annotations", [])),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ObjectError(f"the annotation {OWNED} is broken: {error}") from error


def _label(pair: Any) -> Label:
    value, former = pair
    return Label(_text(value), None if former is None else _text(former))


def _taint(text: Any) -> Taint:
    key, colon, effect = _text(text).rpartition(":")
    if not (key and colon and effect):
        raise ValueError(f"{text!r} is no taint")
    return Taint(key, effect)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
