"""A DaemonSet as far as it matters beside ours: whose pods it puts where, and which taints they bear."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.found import part, parts, texts
from gpuward.model.objects.owned import Taint

BORNE_BY_ALL = frozenset(
    {
        Taint("node.kubernetes.io/not-ready", "NoExecute"),
        Taint("node.kubernetes.io/unreachable", "NoExecute"),
        Taint("node.kubernetes.io/disk-pressure", "NoSchedule"),
        Taint("node.kubernetes.io/memory-pressure", "NoSchedule"),
        Taint("node.kubernetes.io/pid-pressure", "NoSchedule"),
        Taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        Taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
    }
)
"""What the pods of every DaemonSet tolerate without saying so (Kubernetes, DaemonSet: taints and tolerations); the last
only on the host's network, and it is no concern of ours."""
NOT_AGAIN = "A DaemonSet pod deleted under a NoSchedule taint that it does not tolerate is not created again."
"""Tried with the controllers of Kubernetes 1.36."""
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
"""The effects of taints by which a node gets no new pod that does not tolerate them."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod bears. An empty key or effect fits every one; `value` counts only with the operator Equal."""

    key: str
    operator: str
    value: str
    effect: str

    def bears(self, taint: Taint, value: str | None) -> bool:
        """Return whether it fits a taint with this value; None: whatever its value may come to be."""
        if self.effect not in {"", taint.effect}:
            return False
        if self.operator == "Exists":
            return self.key in {"", taint.key}
        return self.key == taint.key and value is not None and self.value == value


@dataclass(frozen=True, slots=True)
class DaemonSetSight:
    """A DaemonSet; `images` are those of its containers, `chosen` the labels that a node must have (nodeSelector)."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    chosen: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    images: tuple[str, ...]

    @property
    def ref(self) -> str:
        """Its name with its namespace."""
        return f"{self.namespace}/{self.name}"

    def bears(self, taint: Taint, value: str | None = None) -> bool:
        """Return whether a pod of it, once deleted, would come back under a taint; None: whatever its value."""
        if taint.effect not in KEEPS_AWAY or taint in BORNE_BY_ALL:
            return True
        return any(one.bears(taint, value) for one in self.tolerations)


def daemon_set_of(found: Mapping[str, Any]) -> DaemonSetSight:
    """Return what an object of kind DaemonSet tells; what is missing or odd in it is taken for absent."""
    meta = part(found, "metadata")
    pod = part(part(part(found, "spec"), "template"), "spec")
    return DaemonSetSight(
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        labels=texts(part(meta, "labels")),
        chosen=texts(part(pod, "nodeSelector")),
        tolerations=tuple(map(_toleration, parts(pod, "tolerations"))),
        images=tuple(str(one.get("image", "")) for one in parts(pod, "containers")),
    )


def _toleration(found: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=str(found.get("key") or ""),
        operator=str(found.get("operator") or "Equal"),
        value=str(found.get("value") or ""),
        effect=str(found.get("effect") or ""),
    )
