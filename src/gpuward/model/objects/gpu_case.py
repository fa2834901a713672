"""GPUCase: one incident and the work on it. Its spec is the plan and people's orders, its status the controller's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode, Order
from gpuward.model.happening import What
from gpuward.model.job import JobRef
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.head import Head, read_head, write_object
from gpuward.model.objects.limits import (
    CODE,
    GPU_UUID,
    NODE_NAME,
    OBJECT_NAME,
    PCI,
    SENTENCE,
    TIME,
    UID,
    WORD,
    WORDS,
    Items,
    Name,
    Whole,
)
from gpuward.model.objects.notice import MOST_JOBS, Noticed
from gpuward.model.objects.values import read
from gpuward.model.resource import GPU_CASES

MOST_EFFECTS = 256
MOST_VICTIMS = 512
MOST_ORDERS = 32
EFFECTS = Items(MOST_EFFECTS)
"""Not dropped: effects count from 1 in their case."""
POD = Name(317, pattern="^[a-z0-9][-a-z0-9]*/[a-z0-9][-a-z0-9.]*$")
PEOPLE = "orders"
"""The one field of a case's spec that changes after its creation, and is written by people."""

ORDER_BY = WORDS
ORDER_BECAUSE = SENTENCE


@dataclass(frozen=True, slots=True)
class CaseOrder:
    """A person's word on a case."""

    number: Annotated[int, Whole(1, 100_000), "Counts from 1; the controller hears those above status.heard, in order."]
    what: Annotated[Order, None, "What is wanted."]
    forced: Annotated[bool, None, "Also a reset that was never qualified for this model and driver."] = False
    by: Annotated[str, ORDER_BY, "Who says so; the API server's audit log is the proof."] = ""
    because: Annotated[str, ORDER_BECAUSE, "Why."] = ""


@dataclass(frozen=True, slots=True)
class CaseJob:
    """A job whose pods held the GPU when the fault came."""

    kind: Annotated[str, WORDS, "Its kind, such as JobSet."]
    api_version: Annotated[str, WORDS, "The group and version of its kind."]
    namespace: Annotated[str, WORDS, "Its namespace."]
    name: Annotated[str, WORDS, "Its name."]
    uid: Annotated[str, UID, "Its UID, where it is known."] = ""


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """What the case is about, and what was intended when it was opened; only people's orders are added later."""

    node: Annotated[str, NODE_NAME, "The node."]
    fault: Annotated[
        str, OBJECT_NAME, "The GPUFault that opened it; the loss of a whole node has a name and no object."
    ]
    kind: Annotated[str, WORD, "Which trouble it is, such as xid or node_lost."]
    title: Annotated[str, WORDS, "What it is, in words."]
    level: Annotated[Level, None, "What was to be done when it was opened; status.level may be worse."]
    fault_class: Annotated[FaultClass, None, "Whose fault it is."]
    opened_at: Annotated[float, TIME, "When it was opened."]
    gpu: Annotated[str | None, PCI, "The GPU by its address; absent: the case is the whole node's."] = None
    gpu_uuid: Annotated[str | None, GPU_UUID, "The GPU by its UUID."] = None
    code: Annotated[int | None, CODE, "The Xid or SXid."] = None
    faults: Annotated[tuple[str, ...], Items(128, each=OBJECT_NAME), "Every GPUFault known when it was opened."] = ()
    mode: Annotated[Mode | None, None, "How far it might go when it was opened."] = None
    parks: Annotated[bool, None, "After the repair a person decides: the GPU does not return by itself."] = False
    drill: Annotated[Mode | None, None, "The mode that is rehearsed; absent: it is no drill."] = None
    plan: Annotated[tuple[EffectKind, ...], Items(64), "What is intended on a way that goes well, in order."] = ()
    state: Annotated[CaseState, None, "Where it was when it was written here."] = CaseState.SUSPECT
    effects: Annotated[tuple[Effect, ...], Items(32), "The first effects that were intended."] = ()
    entered_with: Annotated[int, Whole(0, 64), "How many of them there were when it entered that state."] = 0
    because: Annotated[str, SENTENCE, "Why it was there, in a sentence."] = ""
    due: Annotated[str, SENTENCE, "What waited for a person, in a sentence."] = ""
    victims: Annotated[tuple[str, ...], Items(MOST_VICTIMS, drops=True, each=POD), "The pods that had to leave."] = ()
    jobs: Annotated[tuple[CaseJob, ...], Items(16), "Whose pods held the GPU, for a fault of an application."] = ()
    orders: Annotated[tuple[CaseOrder, ...], Items(MOST_ORDERS, key="number"), "What people want."] = ()


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that has to leave, named before the first one is evicted."""

    pod: Annotated[str, POD, "The pod, as namespace/name."]
    uid: Annotated[str, UID, "Its UID, by which it is told from a later one of its name."] = ""
    owner: Annotated[str, WORDS, "Whose it is, as Kind/name: the job at the top of its owners."] = ""
    job: Annotated[str, WORDS, "The UID of that job, where it is known."] = ""
    asked_at: Annotated[float | None, TIME, "When its eviction was first asked for."] = None
    gone_at: Annotated[float | None, TIME, "When it was seen to be gone."] = None
    because: Annotated[str, WORDS, "Why it is still there, in a sentence."] = ""


@dataclass(frozen=True, slots=True)
class Former:
    """A label of the node that was changed for a repair, and its value before; absent: there was none."""

    label: Annotated[str, WORDS, "Its key."]
    value: Annotated[str | None, WORDS, "Its value before."] = None


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened in the case."""

    at: Annotated[float, TIME, "When."]
    what: Annotated[What, None, "What sort of thing."]
    because: Annotated[str, SENTENCE, "What and why, in a sentence."]
    state: Annotated[CaseState | None, None, "The state that the case moved to."] = None


@dataclass(frozen=True, slots=True)
class CaseStatus:
    """Where the case is. The controller alone writes it."""

    state: Annotated[CaseState, None, "Where it is."]
    since: Annotated[float, TIME, "Since when."]
    level: Annotated[Level, None, "What is done about it now."]
    effects: Annotated[tuple[Effect, ...], EFFECTS, "What was asked of the world, and what became of it."] = ()
    entered_with: Annotated[int, Whole(0, MOST_EFFECTS), "How many effects there were when it entered its state."] = 0
    heard: Annotated[int, Whole(0, 100_000), "The number of the newest order of a person that was heard."] = 0
    order: Annotated[Order | None, None, "The order that is being followed."] = None
    forced: Annotated[bool, None, "The reset is wanted although it was never qualified."] = False
    approved: Annotated[bool, None, "A person said that it may go ahead."] = False
    off: Annotated[bool, None, "A person said that the node is off."] = False
    boot: Annotated[str, WORDS, "The boot of the node that a reboot is to end."] = ""
    due: Annotated[str, SENTENCE, "What waits for a person, in a sentence; empty unless parked."] = ""
    because: Annotated[str, SENTENCE, "Why it is where it is, in a sentence."] = ""
    victims: Annotated[tuple[Victim, ...], Items(MOST_VICTIMS, drops=True), "The pods that have to leave."] = ()
    standby: Annotated[str, NODE_NAME, "The standby node that was promoted for it."] = ""
    job: Annotated[str, UID, "The UID of the job that the standby is reserved for."] = ""
    owner: Annotated[JobRef | None, None, "What job that is."] = None
    noticed: Annotated[tuple[Noticed, ...], Items(MOST_JOBS), "The jobs that are told to save, and until when."] = ()
    passed_over: Annotated[str, SENTENCE, "Which further jobs asked to be told and were not; empty: none."] = ""
    formers: Annotated[tuple[Former, ...], Items(64), "Labels of the node to be put back."] = ()
    timeline: Annotated[tuple[TimelineEntry, ...], Items(128, drops=True), "What happened, the newest last."] = ()


@dataclass(frozen=True, slots=True)
class GpuCase:
    """A case; its name is the case's id."""

    head: Head
    spec: CaseSpec
    status: CaseStatus | None = None
    case: Case = field(init=False, repr=False, compare=False)
    """What decisions take. One whose status was not written yet stands where its CREATE put it."""

    def __post_init__(self) -> None:
        """Put the case together once: every round looks at it again and again."""
        object.__setattr__(self, "case", _case_of(self))

    @property
    def unheard(self) -> tuple[CaseOrder, ...]:
        """People's orders that were not heard yet, in order."""
        heard = self.status.heard if self.status else 0
        return tuple(sorted((one for one in self.spec.orders if one.number > heard), key=lambda one: one.number))


def read_gpu_case(found: Mapping[str, Any]) -> GpuCase:
    """Return the GPUCase that an object spells. Raises ObjectError naming the field that is wrong."""
    return GpuCase(
        head=read_head(found, GPU_CASES),
        spec=read(CaseSpec, found.get("spec"), "spec"),
        status=read(CaseStatus, found["status"], "status") if "status" in found else None,
    )


def write_gpu_case(case: GpuCase) -> dict[str, Any]:
    """Return the object of a GPUCase. Raises ObjectError when a name or number does not fit its limit."""
    return write_object(case.head, GPU_CASES, spec=case.spec, status=case.status)


def spec_of(
    case: Case, *, mode: Mode | None = None, plan: tuple[EffectKind, ...] = (), jobs: Iterable[JobRef] = ()
) -> CaseSpec:
    """Return what a case that is opened now carries in its one CREATE: its effects are the first intended ones."""
    return CaseSpec(
        node=case.node,
        fault=case.fault,
        kind=case.kind,
        title=case.title,
        level=case.level,
        fault_class=case.fault_class,
        opened_at=case.opened_at,
        gpu=case.gpu or None,
        gpu_uuid=case.gpu_uuid,
        code=case.code,
        faults=(case.fault,),
        mode=mode,
        parks=case.parks,
        drill=case.drill,
        plan=plan,
        state=case.state,
        effects=case.effects,
        entered_with=case.entered_with,
        because=case.because,
        due=case.due,
        victims=case.victims,
        jobs=tuple(CaseJob(one.kind, one.api_version, one.namespace, one.name, one.uid) for one in jobs),
    )


def status_of(case: Case, before: CaseStatus | None = None) -> CaseStatus:
    """Return the status of a case as it stands; what a `Case` does not tell stays as it was before."""
    told: dict[str, Any] = {
        "state": case.state,
        "since": case.since,
        "level": case.level,
        "effects": case.effects,
        "entered_with": case.entered_with,
        "order": case.order,
        "forced": case.forced,
        "approved": case.approved,
        "off": case.off,
        "boot": case.boot,
        "due": case.due,
        "because": case.because,
        "victims": _victims(case.victims, before),
    }
    return CaseStatus(**told) if before is None else replace(before, **told)


def as_case(found: GpuCase) -> Case:
    """Return the case of an object."""
    return found.case


def _case_of(found: GpuCase) -> Case:
    spec, status = found.spec, found.status or _first_status(found.spec)
    return Case(
        id=found.head.name,
        node=spec.node,
        gpu=spec.gpu or "",
        gpu_uuid=spec.gpu_uuid,
        fault=spec.fault,
        code=spec.code,
        kind=spec.kind,
        title=spec.title,
        level=status.level,
        fault_class=spec.fault_class,
        parks=spec.parks,
        opened_at=spec.opened_at,
        state=status.state,
        since=status.since,
        effects=status.effects,
        entered_with=status.entered_with,
        order=status.order,
        because=status.because,
        due=status.due,
        forced=status.forced,
        approved=status.approved,
        off=status.off,
        boot=status.boot,
        victims=tuple(victim.pod for victim in status.victims),
        drill=spec.drill,
    )


def _first_status(spec: CaseSpec) -> CaseStatus:
    """Return the status of a case between its CREATE and the first write of its status."""
    return CaseStatus(
        state=spec.state,
        since=spec.opened_at,
        level=spec.level,
        effects=spec.effects,
        entered_with=spec.entered_with,
        because=spec.because,
        due=spec.due,
        victims=_victims(spec.victims, None),
    )


def _victims(pods: tuple[str, ...], before: CaseStatus | None) -> tuple[Victim, ...]:
    """Return the pods that have to leave, each with what was known of it before."""
    known = {} if before is None else {victim.pod: victim for victim in before.victims}
    return tuple(known.get(pod) or Victim(pod=pod) for pod in pods)
