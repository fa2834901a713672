"""What people are told of a case on the objects they look at: which step, on what, in which words. It sends nothing.

All of it is told from the saved case alone, so that a controller that restarts finds the same, and tells none twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuward.isolation import conditions as when
from gpuward.isolation.saying import WHOSE, clock_of, gpu_of, listed, trouble_of
from gpuward.isolation.table import MOVES
from gpuward.model.case import Case, CaseState, EffectKind, Outcome
from gpuward.model.objects.gpu_case import GpuCase, Victim, as_case
from gpuward.model.objects.gpu_fault import GpuFault

MOST_STEPS = 32
"""So many things of one case are told on its node; the newest ones."""
MOST_PODS = 128
MOST_OWNERS = 32
NAMED = 5
"""So many pods are named; the others are counted."""
MOST_BYTES = 1024
"""So long a note of an Event may be (events.k8s.io/v1)."""
DRILL = "Drill: "
MARK_STAYS = "Its node came back after the case had ended, and not all could be undone:"
"""How it begins what a case says of a mark that stays."""


class Step(StrEnum):
    """What is told."""

    OPENED = "opened"
    HELD = "held"
    FENCED = "fenced"
    PROMOTED = "promoted"
    NO_STANDBY = "no_standby"
    EVICTING = "evicting"
    PARKED = "parked"
    RETURNED = "returned"
    CLOSED = "closed"
    """In any other way: a person released it, or a drill is over."""
    WITHDRAWN = "withdrawn"
    STAYS = "stays"
    """A mark of a case that has ended, on a node that had left the cluster and came back."""
    POD = "pod"
    """On each pod that has to go."""
    OWNER = "owner"
    """On whose pods they are."""
    JOB_FAULT = "job_fault"
    """On the job whose own fault it is."""


@dataclass(frozen=True, slots=True)
class Words:
    """How one step is told: `reason` and `action` for programs, the sentence for people; some of them are warnings."""

    step: Step
    reason: str
    action: str
    warns: bool
    say: str


TOLD: tuple[Words, ...] = (
    Words(Step.OPENED, "GPUFault", "Judge", warns=True, say="{trouble}. {why}"),
    Words(Step.HELD, "GPUCaseHeld", "Hold", warns=True, say="{trouble}. Nothing is done yet. {because}"),
    Words(Step.FENCED, "GPUFenced", "Fence", warns=True, say="{trouble}. The node takes no new work. {because}"),
    Words(Step.PROMOTED, "GPUStandbyPromoted", "Promote", warns=False, say="{trouble}. {standby}"),
    Words(
        Step.NO_STANDBY, "GPUStandbyMissing", "Promote", warns=True, say="{trouble}. No node takes its place: {standby}"
    ),
    Words(
        Step.EVICTING, "GPUPodsEvicted", "Evict", warns=True, say="{trouble}. Its pods are evicted: {pods}. {untold}"
    ),
    Words(Step.PARKED, "GPUCaseParked", "Park", warns=True, say="{trouble}. A person is needed: {due} {because}"),
    Words(Step.RETURNED, "GPUReturned", "Return", warns=False, say="{gpu} of {node} is back in service. {because}"),
    Words(Step.CLOSED, "GPUCaseClosed", "Close", warns=False, say="{gpu} of {node}: {because}"),
    Words(Step.WITHDRAWN, "GPUCaseWithdrawn", "Withdraw", warns=False, say="{trouble}. {because}"),
    Words(Step.STAYS, "GPUMarkStays", "Undo", warns=True, say="{gpu} of {node}: {because}"),
    Words(
        Step.POD, "GPUFaultEvicted", "Evict", warns=True, say="{trouble}. This pod is evicted: its work goes elsewhere."
    ),
    Words(Step.OWNER, "GPUFaultMoved", "Evict", warns=True, say="{trouble}. Your job is moved, away go: {pods}."),
    Words(Step.JOB_FAULT, "GPUFaultOfJob", "Hold", warns=True, say="{trouble}. {because}"),
)
WORDS: Mapping[Step, Words] = {row.step: row for row in TOLD}
_HOLDS = {
    "observe": when.observing,
    "job": when.of_its_job,
    "brake": when.braked,
    "budget": when.over_budget,
    "approval": when.unapproved,
    "standby": when.without_standby,
}
HELD_BY: Mapping[str, str] = {
    word: row.say.partition("{")[0]
    for word, condition in _HOLDS.items()
    for row in MOVES
    if row.state is CaseState.SUSPECT and row.condition is condition
}
"""By what holds a case, how its sentence begins then; as the table says it."""
PROVEN = tuple(row.say for row in MOVES if row.condition is when.proven)
"""What a case says whose GPU is back."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that something is told on."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = ""
    """Empty: as its kind is known."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """One thing to tell. `subject` None: on the node. `count`: how often it came; `key` tells it from others.

    Of many cases that say what is `shared`, it is told once.
    """

    words: Words
    subject: Subject | None
    note: str
    at: float
    count: int = 1
    key: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class _Came:
    """A step came at a time, with its sentence."""

    at: float
    because: str


def announcements(
    found: GpuCase, fault: GpuFault | None, indexes: Mapping[str, int | None]
) -> tuple[Announcement, ...]:
    """Return all that there is to tell of a case as it is saved; `indexes`: the places of the node's GPUs."""
    case = as_case(found)
    fill = _filled(case, fault, indexes)
    steps = list(_on_node(found, case, fill))[-MOST_STEPS:]
    return (*steps, *_on_pods(found, fill), *_on_jobs(found, fill))


def held_by(case: Case) -> str:
    """Return in a word what holds a case from being worked on; empty when nothing does."""
    if case.state is not CaseState.SUSPECT:
        return ""
    return next((word for word, prefix in HELD_BY.items() if case.because.startswith(prefix)), "")


_UNSAID = {"because": "", "pods": "", "standby": "", "untold": ""}
Fill = Callable[[Step, Mapping[str, str]], str]


def _filled(case: Case, fault: GpuFault | None, indexes: Mapping[str, int | None]) -> Fill:
    wall = None if fault is None else fault.spec.first.wall
    gpu = gpu_of(case.gpu, indexes)
    where = f"Node {case.node}" if not case.gpu else f"{gpu} of {case.node}"
    whose = WHOSE[case.fault_class]
    at = clock_of(case.opened_at if wall is None else wall)
    known = {
        "trouble": f"{where}: {trouble_of(case)}, at {at}: {whose}, {case.level}",
        "gpu": gpu[:1].upper() + gpu[1:],
        "node": case.node,
        "due": case.due,
        "why": case.because if fault is None else fault.spec.verdict.because,
    }

    def fill(step: Step, more: Mapping[str, str]) -> str:
        said = WORDS[step].say.format_map({**known, **_UNSAID, **more}).strip()
        return _cut(said if case.drill is None else f"{DRILL}{said}")

    return fill


def _on_node(found: GpuCase, case: Case, fill: Fill) -> Iterator[Announcement]:
    """Yield what is told on the node, in order of time."""
    told = [_told(Step.OPENED, [_Came(case.opened_at, case.because)], fill)]
    said = _said(found)
    told += [
        _told(Step.HELD, [one for one in said if one.because.startswith(prefix)], fill, key=prefix)
        for prefix in HELD_BY.values()
    ]
    told.append(_told(Step.FENCED, _entered(found, CaseState.FENCED)[:1], fill))
    told += [_promoting(case, fill), _evicting(found, case, fill)]
    for because, came in _by_sentence(_entered(found, CaseState.PARKED)).items():
        told.append(_told(Step.PARKED, came, fill, key=because, because=because))
    closed = _entered(found, CaseState.CLOSED)
    is_back = any(one.because in PROVEN for one in closed)
    told.append(_told(Step.RETURNED if is_back else Step.CLOSED, closed, fill))
    told.append(_told(Step.WITHDRAWN, _entered(found, CaseState.WITHDRAWN), fill))
    told.append(_told(Step.STAYS, [one for one in said if one.because.startswith(MARK_STAYS)], fill))
    yield from sorted((one for one in told if one is not None), key=lambda one: one.at)


def _told(
    step: Step, came: Sequence[_Came], fill: Fill, *, key: str = "", because: str | None = None
) -> Announcement | None:
    if not came:
        return None
    note = fill(step, {"because": came[-1].because if because is None else because})
    return Announcement(WORDS[step], None, note, at=came[-1].at, count=len(came), key=key)


def _promoting(case: Case, fill: Fill) -> Announcement | None:
    """Return whether a standby node takes the place of the node; nothing where nobody keeps any of its shape."""
    steps = {Outcome.DONE: Step.PROMOTED, Outcome.FAILED: Step.NO_STANDBY}
    promoted = [one for one in case.effects if one.kind is EffectKind.PROMOTE and one.outcome in steps]
    if not promoted or case.drill is not None:
        return None
    newest = promoted[-1]
    step, why = steps[newest.outcome], newest.why[:1].upper() + newest.why[1:]
    at = newest.asked_at if newest.ended_at is None else newest.ended_at
    return Announcement(WORDS[step], None, fill(step, {"standby": f"{why}."}), at=at, key=str(newest.number))


def _evicting(found: GpuCase, case: Case, fill: Fill) -> Announcement | None:
    asked, victims = _evictions(case), _named(found)
    if not asked or not victims:
        return None
    untold = "" if found.status is None else found.status.passed_over
    note = fill(Step.EVICTING, {"pods": listed([victim.pod for victim in victims], NAMED), "untold": untold})
    return Announcement(WORDS[Step.EVICTING], None, note, at=asked[-1], count=len(asked))


def _on_pods(found: GpuCase, fill: Fill) -> Iterator[Announcement]:
    """Yield what is told on the pods that have to go, once they are asked to, and on whose they are."""
    asked, victims = _evictions(as_case(found)), _named(found)
    if not asked:
        return
    for victim in victims[:MOST_PODS]:
        namespace, _, name = victim.pod.partition("/")
        pod = Subject("Pod", namespace, name, victim.uid)
        yield Announcement(WORDS[Step.POD], pod, fill(Step.POD, {}), at=asked[-1])
    owned: dict[Subject, list[str]] = {}
    for victim in victims:
        namespace, _, name = victim.pod.partition("/")
        kind, _, owner = victim.owner.partition("/")
        if owner and victim.job and victim.job != victim.uid:  # a pod alone is its own job, and was told already
            owned.setdefault(Subject(kind, namespace, owner, victim.job), []).append(name)
    for subject, pods in list(owned.items())[:MOST_OWNERS]:
        note = fill(Step.OWNER, {"pods": listed(pods, NAMED)})
        yield Announcement(WORDS[Step.OWNER], subject, note, at=asked[-1])


def _on_jobs(found: GpuCase, fill: Fill) -> Iterator[Announcement]:
    """Yield what is told on the job whose own fault it is."""
    own = [one for one in _said(found) if one.because.startswith(HELD_BY["job"])]
    for job in found.spec.jobs if own else ():
        subject = Subject(job.kind, job.namespace, job.name, job.uid, job.api_version)
        note = fill(Step.JOB_FAULT, {"because": own[-1].because})
        key = f"{found.spec.kind}:{found.spec.code}"
        yield Announcement(WORDS[Step.JOB_FAULT], subject, note, at=own[0].at, key=key, shared=True)


def _evictions(case: Case) -> list[float]:
    """Return when evictions were asked for; in a drill none were."""
    asked = [
        one.asked_at for one in case.effects if one.kind is EffectKind.EVICT and one.outcome is not Outcome.REFUSED
    ]
    return asked if case.drill is None else []


def _named(found: GpuCase) -> list[Victim]:
    return [] if found.status is None else [victim for victim in found.status.victims if victim.uid]


def _entered(found: GpuCase, state: CaseState) -> list[_Came]:
    """Return when the case came to a state, the newest last; parked anew for another reason is another time."""
    spec, status = found.spec, found.status
    came = [_Came(spec.opened_at, spec.because)] if spec.state is state else []
    if status is None:
        return came
    came += [_Came(one.at, _plain(one.because)) for one in status.timeline if one.state is state]
    if status.state is state and status.order is None and all(one.because != status.because for one in came):
        # What it says while it stays, or while it does what a person ordered, is no new coming; only where their turn
        # comes anew.
        came += [_Came(status.since, status.because)] if state is CaseState.PARKED or not came else []
    return came


def _said(found: GpuCase) -> list[_Came]:
    """Return what was said while the case was suspect."""
    spec, status = found.spec, found.status
    first = [_Came(spec.opened_at, spec.because)] if spec.state is CaseState.SUSPECT else []
    return first + [_Came(one.at, _plain(one.because)) for one in (() if status is None else status.timeline)]


def _plain(sentence: str) -> str:
    """Return a sentence of the timeline; that it is a drill is said once, in front of all."""
    return sentence.removeprefix(DRILL)


def _by_sentence(came: Sequence[_Came]) -> dict[str, list[_Came]]:
    found: dict[str, list[_Came]] = {}
    for one in came:
        found.setdefault(one.because, []).append(one)
    return found


def _cut(text: str) -> str:
    """Return the text within the bytes of a note, whole characters."""
    whole = text.encode()
    return text if len(whole) <= MOST_BYTES else whole[: MOST_BYTES - 3].decode(errors="ignore") + "…"
