"""GPUNode: one GPU server. Its spec is the controller's orders, its status what the agent saw and did of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from gpuward.model.case import ON_A_SERVER, EffectKind, Mode, Outcome
from gpuward.model.node import EccCounts, Remap
from gpuward.model.objects.head import Head, read_head, write_object
from gpuward.model.objects.limits import (
    GPU_UUID,
    OBJECT_NAME,
    ORDER_ID,
    PART_OF_NAME,
    PCI,
    SENTENCE,
    TIME,
    UID,
    WORDS,
    Items,
    OneOf,
    Text,
    Whole,
)
from gpuward.model.objects.values import read
from gpuward.model.resource import GPU_NODES
from gpuward.model.scene import GpuSight

ORDERED = tuple(kind for kind in EffectKind if kind in ON_A_SERVER)
"""What the agent of a node does; all else the controller does itself."""
NO_BOOT = "none"
"""How an agent spells the boot that its kernel log does not tell."""
MOST_GPUS = 64
MOST_ORDERS = 256


class GpuState(StrEnum):
    """What a GPU is doing, as its agent sees it. Whose case it has is the controller's to say."""

    ACTIVE = "active"
    DRAINING = "draining"
    """Old processes go on, new ones are refused."""
    IDLE = "idle"
    """Drained, and nothing holds it."""
    RESETTING = "resetting"
    LOST = "lost"
    """It no longer answers."""
    DRAINED = "drained"
    """Somebody else drained it."""
    UNKNOWN = "unknown"


class Health(StrEnum):
    """Whether a GPU has a fault. Unknown is not healthy."""

    HEALTHY = "healthy"
    FAULTY = "faulty"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuOrder:
    """One thing that the agent is to do to a GPU, once. It is refused on another boot, or without the GPU's UUID."""

    id: Annotated[str, ORDER_ID, "Told apart by it: an order whose id the agent has stored is not done again."]
    case: Annotated[str, OBJECT_NAME, "The GPUCase that it is for."]
    boot: Annotated[str, PART_OF_NAME, "The boot of the node that it is meant for."]
    pci: Annotated[str, PCI, "The GPU by its address."]
    what: Annotated[EffectKind, OneOf(ORDERED), "What is to be done."]
    asked_at: Annotated[float, TIME, "When it was given."]
    uuid: Annotated[str | None, GPU_UUID, "The GPU by its UUID; absent where nobody knew it."] = None
    forced: Annotated[bool, None, "A person wants the reset although this model was never qualified."] = False
    drill: Annotated[bool, None, "Rehearsed only: nothing is done to the machine."] = False


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What the controller wants of a node."""

    mode: Annotated[Mode | None, None, "How far the agent may go; absent: observe."] = None
    orders: Annotated[tuple[GpuOrder, ...], Items(MOST_ORDERS, key="id"), "What is to be done to its GPUs."] = ()
    held: Annotated[str, SENTENCE, "Why no GPU may be taken out now, also by an agent alone; empty: one may."] = ""


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """What became of an order."""

    id: Annotated[str, ORDER_ID, "The order's."]
    outcome: Annotated[Outcome, None, "Asked: it was stored, and is under way."]
    at: Annotated[float, TIME, "When that was known."]
    why: Annotated[str, SENTENCE, "Why it was not done, in a sentence."] = ""


@dataclass(frozen=True, slots=True)
class PodHold:
    """A process of a pod that holds a GPU."""

    words: Annotated[str, Text(128), "The process, as it stands in sight.work."]
    uid: Annotated[str, UID, "The UID of its pod."]


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """One GPU as its agent sees it. What is absent is unknown, never healthy."""

    pci: Annotated[str, PCI, "Its address, by which a drained GPU is still known."]
    state: Annotated[GpuState, None, "What it is doing."]
    health: Annotated[Health, None, "Whether it has a fault that goes on."]
    sight: Annotated[GpuSight, None, "What a decision about it rests on."]
    index: Annotated[int | None, Whole(0, 255), "Its place in PCI order, as nvidia-smi counts."] = None
    uuid: Annotated[str | None, GPU_UUID, "Its UUID."] = None
    model: Annotated[str | None, WORDS, "Its name, as the driver gives it."] = None
    minor: Annotated[int | None, Whole(0, 1023), "The number of its device file."] = None
    memory_mib: Annotated[int | None, Whole(), "Its memory."] = None
    mig: Annotated[bool | None, None, "Whether MIG is on."] = None
    mig_layout: Annotated[str, WORDS, "Its MIG instances by profile, such as 1g.10gb*7."] = ""
    persistence: Annotated[bool | None, None, "Whether persistence mode is on."] = None
    ecc: Annotated[EccCounts | None, None, "Memory errors that could not be corrected."] = None
    remap: Annotated[Remap | None, None, "Row remapping."] = None
    recovery_action: Annotated[str | None, WORDS, "What the driver asks for, in its own words."] = None
    holds: Annotated[tuple[PodHold, ...], Items(16, drops=True), "Which of sight.work runs in pods."] = ()
    obstacle: Annotated[str, SENTENCE, "Why it cannot or must not be reset; empty when it can."] = ""
    reboot_cures: Annotated[bool, None, "A reboot of the node may remove that obstacle."] = False
    because: Annotated[str, SENTENCE, "Why its state or health is what it is, in a sentence."] = ""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What the agent of a node saw and did; written only when something changed. Whether it lives, its Lease tells."""

    agent_version: Annotated[str, WORDS, "The version of gpuward that wrote this."]
    boot: Annotated[str, PART_OF_NAME, "The node's boot."]
    mode: Annotated[Mode, None, "The mode that the agent works in: the one it last saw in spec.mode."]
    driver_version: Annotated[str | None, WORDS, "The NVIDIA driver's."] = None
    summary: Annotated[str, WORDS, "All its GPUs in a few words."] = ""
    trouble: Annotated[str, SENTENCE, "Why the GPUs cannot be seen now; empty while they can."] = ""
    gpus: Annotated[tuple[NodeGpu, ...], Items(MOST_GPUS), "Its GPUs, the drained and the lost ones too."] = ()
    orders: Annotated[tuple[OrderAnswer, ...], Items(MOST_ORDERS, drops=True), "What became of orders."] = ()


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A GPU server; its name is the node's. The agent creates it without a spec."""

    head: Head
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


def read_gpu_node(found: Mapping[str, Any]) -> GpuNode:
    """Return the GPUNode that an object spells. Raises ObjectError naming the field that is wrong."""
    return GpuNode(
        head=read_head(found, GPU_NODES),
        spec=read(NodeSpec, found["spec"], "spec") if "spec" in found else None,
        status=read(NodeStatus, found["status"], "status") if "status" in found else None,
    )


def write_gpu_node(node: GpuNode) -> dict[str, Any]:
    """Return the object of a GPUNode. Raises ObjectError when a name or number does not fit its limit."""
    return write_object(node.head, GPU_NODES, spec=node.spec, status=node.status)


def summary_of(gpus: tuple[NodeGpu, ...]) -> str:
    """Return what people see first of a node: how many GPUs it has, and how many are in which state but active."""
    others = [state for state in GpuState if state is not GpuState.ACTIVE]
    counted = [(sum(gpu.state is state for gpu in gpus), state) for state in others]
    said = "".join(f", {count} {state}" for count, state in counted if count)
    return f"{sum(gpu.state is GpuState.ACTIVE for gpu in gpus)} of {len(gpus)} active{said}" if gpus else "none seen"
