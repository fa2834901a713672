"""What the controller keeps of the objects it follows: as little as its decisions rest on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuward.isolation.fabric import FABRIC_KEYS, block_of
from gpuward.isolation.labelling import OURS
from gpuward.isolation.node_condition import condition_of
from gpuward.model.fault import Fault
from gpuward.model.level import Level
from gpuward.model.objects.gpu_fault import GpuFault, read_gpu_fault
from gpuward.model.objects.gpu_node import NO_BOOT, NodeGpu, NodeSpec, OrderAnswer, read_gpu_node
from gpuward.model.objects.owned import OWNED
from gpuward.model.objects.standby_pool import Shape
from gpuward.ports import Object

PRODUCT = "nvidia.com/gpu.product"
"""The label of GPU feature discovery that names the product of a node's GPUs."""
CLIQUE = "nvidia.com/gpu.clique"
"""The label of GPU feature discovery that names the NVLink domain of a node, and its clique in that."""
_LABELS = frozenset({PRODUCT, CLIQUE})
_NOTE = frozenset({OWNED})
NOT_TOLD = "its agent has not told of its GPUs yet"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A Node. `kept` is the part of its object that says which marks it wears, as a patch of them must see it."""

    name: str
    version: str
    kept: Mapping[str, Any]
    labels: Mapping[str, str]
    ready: bool
    unschedulable: bool
    uid: str = ""
    condition: Mapping[str, Any] | None = None
    """Our condition on it, as it was read."""
    ready_since: str = ""
    """When its condition Ready came to be what it is, as it is written there: by whose clock, nobody knows."""
    boot: str = ""
    """Its boot, as agents spell it; empty where its kubelet tells none."""


@dataclass(frozen=True, slots=True)
class GpuNodeView:
    """A GPUNode. `boot` is empty as long as no agent has told."""

    name: str
    version: str
    spec: NodeSpec | None
    boot: str
    driver: str
    gpus: tuple[NodeGpu, ...]
    answers: Mapping[str, OrderAnswer]
    unseen: str = ""
    """Why its GPUs cannot be seen now, in a sentence; empty while they can."""

    @property
    def known_boot(self) -> str:
        """The boot by its name; empty where its agent knows none."""
        return _named(self.boot)

    def ordered_on(self, order_id: str) -> str:
        """Return the boot on which an order that stands was given; empty where there is none, or it has no name."""
        orders = () if self.spec is None else self.spec.orders
        return next((_named(order.boot) for order in orders if order.id == order_id), "")


def node_view(found: Object, keys: frozenset[str] = frozenset()) -> NodeView:
    """Return what is kept of a Node; `keys` are those of further labels that matter."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    labels = metadata.get("labels") or {}
    status = found.get("status") or {}
    ready: Mapping[str, Any] = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), {})
    return NodeView(
        name=metadata["name"],
        version=str(metadata.get("resourceVersion", "")),
        kept={
            "metadata": {
                "name": metadata["name"],
                "resourceVersion": metadata.get("resourceVersion"),
                "annotations": _part_of(metadata.get("annotations") or {}, _NOTE),
                "labels": _part_of(labels, OURS),
            },
            "spec": {"taints": list(spec.get("taints") or ())},
        },
        labels={key: str(labels[key]) for key in (_LABELS | keys) & labels.keys()},
        ready=ready.get("status") == "True",
        unschedulable=bool(spec.get("unschedulable")),
        uid=str(metadata.get("uid", "")),
        condition=condition_of(found),
        ready_since=str(ready.get("lastTransitionTime") or ""),
        boot=_boot(status.get("nodeInfo") or {}),
    )


def is_same_node(one: NodeView, other: NodeView) -> bool:
    """Return whether two views of a node differ in nothing but its version: a kubelet's heartbeat is no news."""
    return replace(one, version=other.version, kept=other.kept) == other and _marks(one) == _marks(other)


def _marks(node: NodeView) -> Mapping[str, Any]:
    return {**node.kept, "metadata": {**node.kept["metadata"], "resourceVersion": ""}}


def labels_of(node: NodeView | None) -> Mapping[str, str]:
    """Return the labels that are kept of a node; none of one that is gone."""
    return {} if node is None else node.labels


def _named(boot: str) -> str:
    return "" if boot == NO_BOOT else boot


def _boot(info: Mapping[str, Any]) -> str:
    """Return the kernel's boot id as agents spell it: its first digits (adapters.kmsg)."""
    return str(info.get("bootID") or "").replace("-", "")[:8]


def _part_of(found: Mapping[str, str], ours: frozenset[str]) -> dict[str, str]:
    """Return what may be ours, and of all others one key: that there are some decides how a patch adds ours."""
    other = next((key for key in found if key not in ours), None)
    kept = {} if other is None else {other: ""}
    return kept | {key: found[key] for key in ours & found.keys()}


def gpu_node_view(found: Object) -> GpuNodeView:
    """Return what is kept of a GPUNode. Raises ObjectError when it cannot be read."""
    node = read_gpu_node(found)
    status = node.status
    return GpuNodeView(
        name=node.head.name,
        version=node.head.version,
        spec=node.spec,
        boot="" if status is None else status.boot,
        driver="" if status is None else status.driver_version or "",
        gpus=() if status is None else status.gpus,
        answers={} if status is None else {answer.id: answer for answer in status.orders},
        unseen=NOT_TOLD if status is None else status.trouble,
    )


def fault_view(found: Object) -> GpuFault:
    """Return a GPUFault without its lines and ids, which stay in the cluster. Raises ObjectError if unreadable."""
    fault = read_gpu_fault(found)
    status = fault.status
    if status is not None and status.evidence is not None:
        status = replace(status, evidence=replace(status.evidence, evidence=()))
    if status is not None and status.pods is not None:
        pods = tuple(replace(pod, containers=(), devices=()) for pod in status.pods.pods)
        status = replace(status, pods=replace(status.pods, pods=pods))
    return replace(fault, spec=replace(fault.spec, evidence=(), details=None), status=status)


def as_fault(found: GpuFault) -> Fault:
    """Return a fault as its agent tells it now; one that was taken back is nothing any more."""
    spec, newest = found.spec, found.newest
    verdict = replace(spec.verdict, level=spec.level, fault_class=spec.fault_class)
    if newest is not None:
        verdict = replace(newest.verdict, level=newest.level, fault_class=newest.fault_class)
    if newest is not None and newest.cleared:
        verdict = replace(verdict, level=Level.IGNORE, waits=False)
    return Fault(
        id=found.head.name,
        kind=spec.kind,
        code=spec.code,
        title=spec.title,
        node=spec.node_name,
        boot=spec.boot,
        pci=spec.gpu,
        gpu_uuid=spec.gpu_uuid or (None if newest is None else newest.gpu_uuid),
        first=spec.first,
        last=spec.last if newest is None else newest.last,
        count=spec.count if newest is None else newest.count,
        pid=spec.pid,
        process=spec.process,
        mig=spec.mig,
        verdict=verdict,
        evidence=spec.evidence,
        details=spec.details or {},
    )


def shape_of_node(node: NodeView | None, gpus: GpuNodeView, fabric: Sequence[str] = FABRIC_KEYS) -> Shape | None:
    """Return the shape of a node as its labels and its agent tell it; None when no GPU of it was ever seen.

    `fabric`: the labels that may name its block of the network fabric.
    """
    if not gpus.gpus:
        return None
    first = gpus.gpus[0]
    labels = {} if node is None else node.labels
    product = labels.get(PRODUCT) or first.model
    if not product:
        return None
    return Shape(
        product=product.replace(" ", "-"),
        count=len(gpus.gpus),
        memory_mib=first.memory_mib,
        mig_layout=first.mig_layout if first.mig else "",
        nvlink_domain=labels.get(CLIQUE, ""),
        fabric_block=block_of(labels, fabric),
        driver=gpus.driver,
    )
