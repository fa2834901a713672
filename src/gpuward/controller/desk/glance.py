"""What a desk keeps of each object: as little as people are told. A broken field is an empty one, never an error."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuward.model.case import ENDED
from gpuward.model.gpu_server import is_gpu_server
from gpuward.model.objects.gpu_fault import PodRef
from gpuward.model.objects.owned import agent_lease
from gpuward.ports import Object

_MOST = 1024
_ENDED = frozenset(map(str, ENDED))
UNKNOWN = "unknown"
ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class GpuGlance:
    """A GPU as its agent told of it last. `index` is its place in PCI order: a drained one has none with nvidia-smi."""

    index: int
    pci: str
    uuid: str
    model: str
    state: str
    health: str
    because: str


@dataclass(frozen=True, slots=True)
class NodeGlance:
    """A GPUNode. `wanted` is the mode that the controller gave it, `mode` the one that its agent works in."""

    name: str
    wanted: str
    held: str
    """Why no GPU of it may be taken out now; empty when one may."""
    mode: str
    agent: str
    driver: str
    summary: str
    trouble: str
    told: bool
    """Its agent has told of it at least once."""
    gpus: tuple[GpuGlance, ...]

    def gpu_named(self, name: str, *, pci: str = "") -> GpuGlance | None:
        """Return the GPU that a person named by number, address (`pci` is its canonical form) or UUID."""
        for gpu in self.gpus:
            named = name and name.lower() in {str(gpu.index), gpu.uuid.lower(), gpu.pci}
            if named or (pci and gpu.pci == pci):
                return gpu
        return None


@dataclass(frozen=True, slots=True)
class CaseGlance:
    """A GPUCase, without what only its whole story tells."""

    name: str
    node: str
    gpu: str
    gpu_uuid: str
    kind: str
    code: int | None
    title: str
    level: str
    fault_class: str
    fault: str
    mode: str
    drill: str
    parks: bool
    state: str
    opened_at: float | None
    since: float | None
    because: str
    first_because: str
    due: str
    order: str
    approved: bool
    effects: tuple[str, ...]
    """The kinds of all effects that were asked for."""
    pending: tuple[str, ...]
    """The effects that were asked for and are not known to be done."""
    pods: tuple[str, ...]
    """The pods that had to leave for it."""
    pods_left: tuple[str, ...]
    standby: str
    passed_over: str
    """Which jobs asked to be told to save and were not, in a sentence; empty: none."""
    unheard: int
    """How many orders of people the controller has not heard yet."""
    said: tuple[str, ...]
    """The sentences of its timeline."""

    @property
    def is_open(self) -> bool:
        """Whether the work on it goes on."""
        return self.state not in _ENDED


@dataclass(frozen=True, slots=True)
class LeaseGlance:
    """A Lease: who holds it, since when, and for how long after its newest renewal it counts."""

    name: str
    holder: str
    since: float | None
    renewed: float | None
    seconds: float

    def is_silent(self, now: float) -> bool:
        """Return whether its holder has let it run out; clocks that tell whole seconds only are borne."""
        return self.renewed is None or now - self.renewed > self.seconds + SLACK_SECONDS


@dataclass(frozen=True, slots=True)
class FaultGlance:
    """A GPUFault, without its lines. `judged`: the controller has looked at it."""

    name: str
    node: str
    gpu: str
    kind: str
    code: int | None
    title: str
    level: str
    fault_class: str
    at: float | None
    judged: bool
    case: str
    because: str
    pods: tuple[str, ...]
    """The pods that had its GPU: whom the kubelet gave it to, and whose processes held it; by UID if that is all."""


SLACK_SECONDS = 5.0
_LEASE_SECONDS = 60.0


def node_glance(found: Object) -> NodeGlance:
    """Return what is kept of a GPUNode; its GPUs are numbered in PCI order, the drained and the lost ones too."""
    spec, status = _part(found, "spec"), _part(found, "status")
    gpus = sorted(_items(status, "gpus"), key=lambda gpu: _text(gpu.get("pci")))
    return NodeGlance(
        name=_name(found),
        wanted=_text(spec.get("mode")),
        held=_text(spec.get("held")),
        mode=_text(status.get("mode")),
        agent=_text(status.get("agentVersion")),
        driver=_text(status.get("driverVersion")),
        summary=_text(status.get("summary")),
        trouble=_text(status.get("trouble")),
        told=bool(status),
        gpus=tuple(_gpu(one, number) for number, one in enumerate(gpus)),
    )


def gpu_server(found: Object) -> str:
    """Return the name of a Node with GPUs, empty for all others."""
    return _name(found) if is_gpu_server(found) else ""


def case_glance(found: Object) -> CaseGlance:
    """Return what is kept of a GPUCase; one without a status stands where its creation put it."""
    spec, status = _part(found, "spec"), _part(found, "status")
    heard, newest = _whole(status.get("heard")) or 0, status or spec
    return CaseGlance(
        name=_name(found),
        node=_text(spec.get("node")),
        gpu=_text(spec.get("gpu")),
        gpu_uuid=_text(spec.get("gpuUUID")),
        kind=_text(spec.get("kind")),
        code=_whole(spec.get("code")),
        title=_text(spec.get("title")),
        level=_text(newest.get("level")),
        fault_class=_text(spec.get("class")),
        fault=_text(spec.get("fault")),
        mode=_text(spec.get("mode")),
        drill=_text(spec.get("drill")),
        parks=spec.get("parks") is True,
        state=_text(newest.get("state")) or "suspect",
        opened_at=moment(spec.get("openedAt")),
        since=moment(status.get("since") if status else spec.get("openedAt")),
        because=_text(newest.get("because")),
        first_because=_text(spec.get("because")),
        due=_text(newest.get("due")),
        order=_text(status.get("order")),
        approved=status.get("approved") is True,
        effects=tuple(_text(one.get("kind")) for one in _items(newest, "effects")),
        pending=tuple(
            _text(one.get("kind")) for one in _items(newest, "effects") if one.get("outcome", "asked") == "asked"
        ),
        pods=tuple(_text(one.get("pod")) for one in _items(status, "victims")),
        pods_left=tuple(_text(one.get("pod")) for one in _items(status, "victims") if one.get("goneAt") is None),
        standby=_text(status.get("standby")),
        passed_over=_text(status.get("passedOver")),
        unheard=sum((_whole(one.get("number")) or 0) > heard for one in _items(spec, "orders")),
        said=tuple(_text(one.get("because")) for one in _items(status, "timeline")),
    )


def lease_glance(found: Object) -> LeaseGlance:
    """Return what is kept of a Lease."""
    spec = _part(found, "spec")
    seconds = _whole(spec.get("leaseDurationSeconds"))
    return LeaseGlance(
        name=_name(found),
        holder=_text(spec.get("holderIdentity")),
        since=moment(spec.get("acquireTime")),
        renewed=moment(spec.get("renewTime")),
        seconds=float(seconds) if seconds else _LEASE_SECONDS,
    )


def fault_glance(found: Object) -> FaultGlance:
    """Return what is kept of a GPUFault."""
    spec, status = _part(found, "spec"), _part(found, "status")
    judged, newest = _part(status, "judged"), _part(status, "evidence")
    told = (*_items(_part(status, "pods"), "pods"), *(_part(one, "pod") for one in _items(spec, "holders")))
    return FaultGlance(
        name=_name(found),
        node=_text(spec.get("nodeName")),
        gpu=_text(spec.get("gpu")),
        kind=_text(spec.get("kind")),
        code=_whole(spec.get("code")),
        title=_text(spec.get("title")),
        level=_text((judged or newest or spec).get("level")),
        fault_class=_text((judged or newest or spec).get("class")),
        at=moment(_part(spec, "first").get("wall")) or moment(_part(found, "metadata").get("creationTimestamp")),
        judged=bool(judged),
        case=_text(judged.get("case")),
        because=_text(judged.get("because")),
        pods=names_of(
            PodRef(_text(one.get("namespace")), _text(one.get("name")), _text(one.get("uid"))) for one in told
        ),
    )


def names_of(pods: Iterable[PodRef]) -> tuple[str, ...]:
    """Return the names of pods, each once; of one whose name nobody told its UID."""
    given = tuple(pods)
    named = {f"{pod.namespace}/{pod.name}" for pod in given if pod.name}
    known = {pod.uid for pod in given if pod.name}
    unnamed = {pod.uid for pod in given if not pod.name} - known - {""}
    return (*sorted(named), *sorted(f"UID {uid}" for uid in unnamed))


def agent_of(lease: str) -> str:
    """Return the node whose agent keeps a Lease; empty for one of another's."""
    prefix = agent_lease("")
    return lease.removeprefix(prefix) if lease.startswith(prefix) else ""


def moment(value: Any) -> float | None:
    """Return the time that an object tells, None for what is none."""
    try:
        at = datetime.fromisoformat(value)
        return at.timestamp() if at.tzinfo else None
    except (ValueError, TypeError, OverflowError):
        return None


def _gpu(found: Mapping[str, Any], number: int) -> GpuGlance:
    return GpuGlance(
        index=number,
        pci=_text(found.get("pci")),
        uuid=_text(found.get("uuid")),
        model=_text(found.get("model")),
        state=_text(found.get("state")) or UNKNOWN,
        health=_text(found.get("health")) or UNKNOWN,
        because=_text(found.get("because")),
    )


def _name(found: Object) -> str:
    return _text(_part(found, "metadata").get("name"))


def _part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = found.get(name)
    return part if isinstance(part, Mapping) else {}


def _items(found: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    items = found.get(name)
    yield from (one for one in items if isinstance(one, Mapping)) if isinstance(items, list) else ()


def _text(value: Any) -> str:
    return value[:_MOST] if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
