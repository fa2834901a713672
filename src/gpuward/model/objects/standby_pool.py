"""StandbyPool: healthy nodes of one shape that are kept free, to take the place of one that falls ill."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from gpuward.model.job import JobRef
from gpuward.model.objects.head import Head, read_head, write_object
from gpuward.model.objects.limits import NODE_NAME, OBJECT_NAME, SENTENCE, TIME, UID, WORDS, Items, Name, Whole
from gpuward.model.objects.owned import FAULT_TAINT, OF_KUBERNETES, RESERVED, STANDBY
from gpuward.model.objects.values import read
from gpuward.model.resource import STANDBY_POOLS

KEY = Name(317, pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
VALUE = Name(63, pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", least=0)

_TAKEN = (
    *(f"self.taint.key.startsWith('{one}')" for one in OF_KUBERNETES),
    *(f"self.taint.key == '{one}'" for one in (FAULT_TAINT, RESERVED)),
)
OWN_TAINT_RULE = f"!has(self.taint) || !has(self.taint.key) || !({' || '.join(_TAKEN)})"
"""In CEL: a sick node, or one that is not ready, must not look like one that stands by."""


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it, in the words of Kubernetes."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Shape:
    """What makes two nodes stand for each other. The first group must be alike; the second is given up if need be."""

    product: Annotated[str, WORDS, "The GPU's product, as in the label nvidia.com/gpu.product."]
    count: Annotated[int, Whole(1, 64), "How many GPUs a node has."]
    memory_mib: Annotated[int | None, Whole(1), "The memory of each GPU; absent: any."] = None
    mig_layout: Annotated[str, WORDS, "The MIG instances of each GPU by profile; absent: MIG is off."] = ""
    nvlink_domain: Annotated[str, WORDS, "Second group: the NVLink domain; absent: any."] = ""
    fabric_block: Annotated[str, WORDS, "Second group: the block of the network fabric; absent: any."] = ""
    driver: Annotated[str, WORDS, "Second group: the driver's version; absent: any."] = ""


@dataclass(frozen=True, slots=True)
class StandbyTaint:
    """The taint that keeps work off a standby node."""

    key: Annotated[str, KEY, "Its key."] = STANDBY
    value: Annotated[str, VALUE, "Its value."] = ""
    effect: Annotated[TaintEffect, None, "Its effect."] = TaintEffect.NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What people want of the pool."""

    shape: Annotated[Shape, None, "What its nodes are like."]
    size: Annotated[int, Whole(0, 10_000), "How many nodes stand by when nothing is amiss."]
    taint: Annotated[StandbyTaint, None, "The taint that its nodes wear."] = field(default_factory=StandbyTaint)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A standby node that was given away, each once."""

    node: Annotated[str, NODE_NAME, "The node."]
    case: Annotated[str, OBJECT_NAME, "The GPUCase that it was promoted for."]
    at: Annotated[float, TIME, "When."]
    job: Annotated[str, UID, "The UID of the job that it was reserved for."] = ""
    owner: Annotated[JobRef | None, None, "What job that is."] = None
    freed_at: Annotated[float | None, TIME, "When the reservation was taken off."] = None
    refilled_at: Annotated[float | None, TIME, "When the node that it stood in for stood by in its place."] = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """What the controller has of it."""

    ready: Annotated[tuple[str, ...], Items(1024, drops=True, each=NODE_NAME), "Nodes that stand by, healthy."] = ()
    promoted: Annotated[tuple[Promotion, ...], Items(256, drops=True), "Nodes that were given away."] = ()
    short: Annotated[int, Whole(0, 10_000), "How many nodes it lacks."] = 0
    because: Annotated[str, SENTENCE, "What keeps it short, in a sentence."] = ""


@dataclass(frozen=True, slots=True)
class StandbyPool:
    """A pool of standby nodes."""

    head: Head
    spec: PoolSpec
    status: PoolStatus | None = None


def read_standby_pool(found: Mapping[str, Any]) -> StandbyPool:
    """Return the StandbyPool that an object spells. Raises ObjectError naming the field that is wrong."""
    return StandbyPool(
        head=read_head(found, STANDBY_POOLS),
        spec=read(PoolSpec, found.get("spec"), "spec"),
        status=read(PoolStatus, found["status"], "status") if "status" in found else None,
    )


def write_standby_pool(pool: StandbyPool) -> dict[str, Any]:
    """Return the object of a StandbyPool. Raises ObjectError when a name or number does not fit its limit."""
    return write_object(pool.head, STANDBY_POOLS, spec=pool.spec, status=pool.status)
