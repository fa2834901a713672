"""The GPU Operator's programs that hold GPUs without working on them: which are on a node, and what keeps one there.

Each is a DaemonSet that a label of the node puts there: while the label says something else, its pod is gone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.model.daemon_set import NOT_AGAIN, DaemonSetSight
from gpuward.model.found import part, parts
from gpuward.model.objects.owned import Label, Taint, read_owned
from gpuward.model.pod import PodSight


@dataclass(frozen=True, slots=True)
class Client:
    """One of them: the label of a node that puts it there, what it is, and where that is from."""

    gate: str
    what: str
    source: str


_OPERATOR = "NVIDIA GPU Operator: the nodeSelector of its DaemonSet; k8s-driver-manager pauses it by the same label"
CLIENTS: tuple[Client, ...] = (
    Client("nvidia.com/gpu.deploy.device-plugin", "device plugin", _OPERATOR),
    Client("nvidia.com/gpu.deploy.gpu-feature-discovery", "GPU feature discovery", _OPERATOR),
    Client("nvidia.com/gpu.deploy.dcgm-exporter", "DCGM exporter", _OPERATOR),
    Client("nvidia.com/gpu.deploy.dcgm", "DCGM", _OPERATOR),
)
"""Those that must be gone for a reset (NVSentinel, design 020). Read, not tried on a GPU."""
GATES = frozenset(one.gate for one in CLIENTS)
_PASSING = "node.kubernetes.io/"
"""How the keys of taints begin that the cluster itself puts on and takes off as a node comes and goes."""
_PAUSED = "paused-"
"""How the values begin by which the GPU Operator's own parts keep another away (driver upgrade, MIG change)."""


def is_client(pod: PodSight) -> bool:
    """Return whether what runs in a pod is no work: it is a DaemonSet's, and asked for no GPU."""
    return pod.owner is not None and pod.owner.kind == "DaemonSet" and not pod.gpus


@dataclass(frozen=True, slots=True)
class NodeClients:
    """One node with the DaemonSets of the cluster and the pods that are on it. `node` is the part that patches need.

    Raises ObjectError where our note on the node is broken.
    """

    node: Mapping[str, Any]
    daemon_sets: tuple[DaemonSetSight, ...]
    pods: tuple[PodSight, ...]

    @property
    def ours(self) -> Mapping[str, Label]:
        """The labels that we have changed."""
        return read_owned(self.node).labels

    def to_pause(self) -> dict[str, str]:
        """Return the labels, each with its value, that put a client on the node and were not changed by us."""
        ours = self.ours
        return {gate: self._said(gate) for _, gate in self._wanted() if gate not in ours}

    def still_there(self) -> tuple[str, ...]:
        """Return the pods of clients that are still on the node, in words."""
        owners = {one.uid for one in self.daemon_sets if GATES & one.chosen.keys()}
        return tuple(f"pod {pod.ref}" for pod in self.pods if _owner(pod) in owners and not pod.ended)

    def not_back(self, gates: frozenset[str]) -> tuple[str, ...]:
        """Return the DaemonSets that these labels put on the node, and that have no running pod there, in words."""
        running = {_owner(pod) for pod in self.pods if pod.phase == "Running" and not pod.ending}
        wanted = (one for one, gate in self._wanted() if gate in gates)
        return tuple(dict.fromkeys(f"DaemonSet {one.ref}" for one in wanted if one.uid not in running))

    def why_not(self, holders: frozenset[str]) -> str:
        """Return why no client must be kept away, in a sentence; empty when all may.

        `holders`: the UIDs of the pods whose processes hold the GPU.
        """
        return next((why for why in (self._others_pause(), self._not_again(), self._ungated(holders)) if why), "")

    def _wanted(self) -> Iterator[tuple[DaemonSetSight, str]]:
        """Yield the clients that the labels of the node put there now, each with its label."""
        for one in self.daemon_sets:
            for gate in sorted(GATES & one.chosen.keys()):
                if one.chosen[gate] == self._said(gate):
                    yield one, gate

    def _said(self, gate: str) -> str:
        return str(part(part(self.node, "metadata"), "labels").get(gate, ""))

    def _others_pause(self) -> str:
        ours = self.ours
        held = next((gate for gate in sorted(GATES - ours.keys()) if self._said(gate).startswith(_PAUSED)), None)
        if held is None:
            return ""
        return f"other software keeps programs off the node by {held}={self._said(held)}: wait until that is over"

    def _not_again(self) -> str:
        """Return which client would not come back under a taint that the node wears."""
        ours = self.ours
        for one in (one for one, gate in self._wanted() if gate not in ours):
            for taint in parts(part(self.node, "spec"), "taints"):
                worn = Taint(str(taint.get("key", "")), str(taint.get("effect", "")))
                if not worn.key.startswith(_PASSING) and not one.bears(worn, str(taint.get("value") or "")):
                    return (
                        f"{NOT_AGAIN} DaemonSet {one.ref} has no toleration of {worn}; `gpuward preflight` says where"
                    )
        return ""

    def _ungated(self, holders: frozenset[str]) -> str:
        """Return which DaemonSet's pod holds the GPU and cannot be kept away by a label."""
        gated = {one.uid for one in self.daemon_sets if GATES & one.chosen.keys()}
        for pod in self.pods:
            if pod.uid in holders and is_client(pod) and _owner(pod) not in gated and pod.owner is not None:
                name = f"DaemonSet {pod.namespace}/{pod.owner.name}"
                return f"{name} holds the GPU by its pod {pod.name}, and no label keeps it off the node: take it off"
        return ""


def _owner(pod: PodSight) -> str:
    return "" if pod.owner is None or pod.owner.kind != "DaemonSet" else pod.owner.uid
