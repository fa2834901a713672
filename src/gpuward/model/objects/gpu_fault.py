"""GPUFault: one trouble of one GPU or node, as its agent first saw it. What became of it since is its status."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from gpuward.model.fault import Evidence, Fault, Verdict
from gpuward.model.gpu import Mig
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.head import Head, read_head, write_object
from gpuward.model.objects.limits import (
    CODE,
    GPU_UUID,
    NAMESPACE,
    OBJECT_NAME,
    PART_OF_NAME,
    PCI,
    POD_NAME,
    SENTENCE,
    TIME,
    UID,
    WORD,
    WORDS,
    Items,
    Json,
    Name,
    Text,
    Whole,
)
from gpuward.model.objects.values import read
from gpuward.model.resource import GPU_FAULTS
from gpuward.model.signal import Moment

CURSOR = Name(64, pattern=PART_OF_NAME.pattern)
FAULT_NODE = Name(140, pattern=OBJECT_NAME.pattern)
"""Shorter than a node's name may be: a case is named by its fault, and a name holds 253 characters."""
EVIDENCE_LINES = Items(8)
NAME_RULE = "self.metadata.name == self.spec.nodeName + '.' + self.spec.boot + '.' + self.spec.cursor"
"""In CEL, compared as a whole: a name that merely begins like another node's is not that node's."""
_UNSAFE = re.compile("[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod by its name, or its UID, which tells it from a later one of its name, or both: what was known of it."""

    namespace: Annotated[str, NAMESPACE, "Its namespace."] = ""
    name: Annotated[str, POD_NAME, "Its name."] = ""
    uid: Annotated[str, UID, "Its UID."] = ""


@dataclass(frozen=True, slots=True)
class FaultPod:
    """A pod that the kubelet had given the GPU, or a part of it."""

    namespace: Annotated[str, NAMESPACE, "Its namespace."]
    name: Annotated[str, POD_NAME, "Its name."]
    uid: Annotated[str, UID, "Its UID; absent where the node does not tell it."] = ""
    containers: Annotated[
        tuple[str, ...], Items(8, drops=True, each=Text(63)), "Those of its containers that have it."
    ] = ()
    devices: Annotated[
        tuple[str, ...], Items(8, drops=True, each=Text(96)), "Its parts by the device plugin's ids."
    ] = ()


@dataclass(frozen=True, slots=True)
class FaultPods:
    """Whom the kubelet had given the GPU of the fault to, asked after it. The agent writes it, once."""

    at: Annotated[float, TIME, "When the kubelet was asked last."]
    pods: Annotated[tuple[FaultPod, ...], Items(128, drops=True), "The pods."] = ()
    trouble: Annotated[str, SENTENCE, "Why that is not known, or not of every pod; empty when it is."] = ""


@dataclass(frozen=True, slots=True)
class FaultHolder:
    """A process that held the GPU at the moment of the fault, and whose it was. Its arguments are nobody's business."""

    pid: Annotated[int, Whole(), "Its process id on the node."]
    name: Annotated[str, WORDS, "Its name."] = ""
    container: Annotated[str, WORDS, "The name of its container."] = ""
    container_id: Annotated[str, WORDS, "The id of its container."] = ""
    pod: Annotated[PodRef | None, None, "Its pod, where it has one."] = None


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """A fault as its agent first told it; it never changes."""

    node_name: Annotated[str, FAULT_NODE, "The node that it came on."]
    boot: Annotated[str, PART_OF_NAME, "The node's boot."]
    cursor: Annotated[str, CURSOR, "Where it was read: k<number>, j<hash>, p<number>."]
    kind: Annotated[str, WORD, "Which trouble it is, such as xid or ecc_uncorrectable."]
    title: Annotated[str, WORDS, "What it is, in words."]
    level: Annotated[Level, None, "What is done about it."]
    fault_class: Annotated[FaultClass, None, "Whose fault it is."]
    verdict: Annotated[Verdict, None, "The agent's verdict, by the rules that stay on one node."]
    first: Annotated[Moment, None, "When its first line was written, on the node's own clocks."]
    last: Annotated[Moment, None, "When its last line was written."]
    count: Annotated[int, Whole(1), "How many times it had come when it was told."]
    code: Annotated[int | None, CODE, "The Xid or SXid."] = None
    gpu: Annotated[str | None, PCI, "The GPU by its address; absent: the node."] = None
    gpu_uuid: Annotated[str | None, GPU_UUID, "The GPU by its UUID."] = None
    mig: Annotated[Mig | None, None, "The MIG instance that its lines name."] = None
    pid: Annotated[int | None, Whole(), "The process that its lines name."] = None
    process: Annotated[str | None, WORDS, "That process's name, as the lines have it."] = None
    evidence: Annotated[tuple[Evidence, ...], EVIDENCE_LINES, "The lines that it rests on."] = ()
    holders: Annotated[tuple[FaultHolder, ...], Items(64), "Who held the GPU at that moment."] = ()
    pods_follow: Annotated[bool, None, "The agent asks whose GPU it was, and will tell it in status.pods."] = False
    details: Annotated[Mapping[str, Any] | None, Json(4096), "What its lines decode to, as JSON."] = None


@dataclass(frozen=True, slots=True)
class FaultEvidence:
    """How the fault stands now, where it has changed since it was first told. The agent writes it."""

    at: Annotated[float, TIME, "When that was."]
    level: Annotated[Level, None, "What is done about it."]
    fault_class: Annotated[FaultClass, None, "Whose fault it is."]
    verdict: Annotated[Verdict, None, "The agent's verdict now."]
    last: Annotated[Moment, None, "When its last line was written."]
    count: Annotated[int, Whole(1), "How many times it has come."]
    evidence: Annotated[tuple[Evidence, ...], EVIDENCE_LINES, "The lines that it rests on now."] = ()
    gpu_uuid: Annotated[str | None, GPU_UUID, "The GPU's UUID, where it was learned later."] = None
    over: Annotated[bool, None, "Its lines have stopped: a later one is another fault."] = False
    cleared: Annotated[bool, None, "A line took it back."] = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What the controller made of the fault, and by which rule. The controller writes it."""

    at: Annotated[float, TIME, "When that was."]
    level: Annotated[Level, None, "What is done about it, by the rules of the whole fleet."]
    fault_class: Annotated[FaultClass, None, "Whose fault it is."]
    seen_level: Annotated[Level, None, "The agent's level that this rests on."]
    seen_class: Annotated[FaultClass, None, "The agent's class that this rests on."]
    rules: Annotated[tuple[str, ...], Items(32, each=WORDS), "The rules that had a say, in order."] = ()
    because: Annotated[str, SENTENCE, "Why, in a sentence."] = ""
    case: Annotated[str, OBJECT_NAME, "The GPUCase that works on it; absent: none is due."] = ""


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """What became of a fault."""

    evidence: Annotated[FaultEvidence | None, None, "How it stands now; the agent's."] = None
    pods: Annotated[FaultPods | None, None, "Whose GPU it was; the agent's, some moments after the fault."] = None
    judged: Annotated[Judged | None, None, "What was made of it; the controller's."] = None


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A fault; its name is `node.boot.cursor`, so that a replay creates nothing twice."""

    head: Head
    spec: FaultSpec
    status: FaultStatus | None = None

    @property
    def newest(self) -> FaultEvidence | None:
        """What the agent told of it since; None when nothing."""
        return None if self.status is None else self.status.evidence

    @property
    def pods(self) -> tuple[PodRef, ...]:
        """The pods that have its GPU: whom the kubelet gave it to, and whose processes held it at that moment."""
        told = None if self.status is None else self.status.pods
        given = () if told is None else tuple(PodRef(one.namespace, one.name, one.uid) for one in told.pods)
        return (*given, *(one.pod for one in self.spec.holders if one.pod is not None))

    @property
    def level(self) -> Level:
        """The level by the agent's newest evidence."""
        return self.spec.level if self.newest is None else self.newest.level

    @property
    def verdict(self) -> Verdict:
        """The agent's newest verdict."""
        return self.spec.verdict if self.newest is None else self.newest.verdict

    @property
    def is_due(self) -> bool:
        """Whether the controller must judge it: it never did, or its level rose or its class changed since."""
        judged = None if self.status is None else self.status.judged
        if judged is None:
            return True
        return self.newest is not None and _is_news(self.newest, judged)


def _is_news(newest: FaultEvidence, judged: Judged) -> bool:
    # Held against what the agent said then, not against what was made of it: that may be milder on purpose.
    return newest.level > judged.seen_level or newest.fault_class is not judged.seen_class


def read_gpu_fault(found: Mapping[str, Any]) -> GpuFault:
    """Return the GPUFault that an object spells. Raises ObjectError naming the field that is wrong."""
    return GpuFault(
        head=read_head(found, GPU_FAULTS),
        spec=read(FaultSpec, found.get("spec"), "spec"),
        status=read(FaultStatus, found["status"], "status") if "status" in found else None,
    )


def write_gpu_fault(fault: GpuFault) -> dict[str, Any]:
    """Return the object of a GPUFault. Raises ObjectError when a name or number does not fit its limit."""
    return write_object(fault.head, GPU_FAULTS, spec=fault.spec, status=fault.status)


def fault_name(node: str, boot: str, cursor: str) -> str:
    """Return the name of a fault's object, of parts that are safe (`safe_part`)."""
    return f"{node}.{boot}.{cursor}"


def name_of_fault(fault: Fault, node: str) -> str:
    """Return the name of the object by which the agent of `node` tells of a fault."""
    return fault_name(node, *_place_of(fault))


def _place_of(fault: Fault) -> tuple[str, str]:
    """Return the boot and the cursor of a fault, safe for a name."""
    return safe_part(fault.boot, PART_OF_NAME), safe_part(fault.id.rpartition(".")[2], CURSOR)


def safe_part(part: str, limit: Name) -> str:
    """Return a boot or cursor as the name of an object carries it; the same one always in the same spelling."""
    safe = _UNSAFE.sub("-", part.lower().replace("+", "-again")).strip("-") or "none"
    if len(safe) <= limit.most:
        return safe
    from hashlib import blake2b  # noqa: PLC0415  it loads a large library, and only a followed file may need it

    digest = blake2b(part.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{safe[: limit.most - len(digest) - 1]}-{digest}"


def gpu_fault(fault: Fault, node: str, *, holders: tuple[FaultHolder, ...] = (), pods_follow: bool = False) -> GpuFault:
    """Return the object that tells of a fault, as the agent of `node` creates it."""
    boot, cursor = _place_of(fault)
    return GpuFault(
        head=Head(fault_name(node, boot, cursor)),
        spec=FaultSpec(
            node_name=node,
            boot=boot,
            cursor=cursor,
            kind=fault.kind,
            title=fault.title,
            level=fault.verdict.level,
            fault_class=fault.verdict.fault_class,
            verdict=fault.verdict,
            first=fault.first,
            last=fault.last,
            count=fault.count,
            code=fault.code,
            gpu=fault.pci,
            gpu_uuid=fault.gpu_uuid,
            mig=fault.mig,
            pid=fault.pid,
            process=fault.process,
            evidence=fault.evidence,
            holders=holders,
            pods_follow=pods_follow,
            details=fault.details,
        ),
    )
