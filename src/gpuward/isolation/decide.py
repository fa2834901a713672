"""The waist: what is, in one value, to what shall be, in one value. Everything that acts calls this and nothing else.

A new fault at P0 or P1 opens a case for its GPU; every case is moved by the table as far as it goes; every step is held
against the laws. A broken law parks its case and is told, the others go on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuward.isolation import laws
from gpuward.isolation.brake import Brake
from gpuward.isolation.machine import Step, advance
from gpuward.model.case import ENDED, Case, CaseState, EffectKind, Mode
from gpuward.model.fault import Fault
from gpuward.model.happening import Happening, What
from gpuward.model.level import Level
from gpuward.model.scene import FaultSight, GpuSight, Scene

UNSEEN = GpuSight(present=None, lost=False, work=None, display=False)
REPAIRED = frozenset({CaseState.VERIFYING, CaseState.PROBATION})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a decision rests on, at one moment."""

    now: float
    mode: Mode
    node: str
    cases: tuple[Case, ...]
    faults: tuple[Fault, ...]
    """The faults that matter now, going on or opened a case; each in its newest state."""
    over: frozenset[str] = frozenset()
    """Ids of the faults whose lines have stopped."""
    idle_reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a fault must not act, by its id."""
    gpus: Mapping[str, GpuSight] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """Why a GPU cannot be reset, by its address."""
    brake: Brake = field(default_factory=Brake)
    probation_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The cases as they shall be saved, with the effects they ask for, and what to write down."""

    cases: tuple[Case, ...]
    happenings: tuple[Happening, ...]


def decide(snapshot: Snapshot) -> Decision:
    """Return what follows from what is. The same snapshot always gives the same decision."""
    happenings: list[Happening] = []
    cases = [*snapshot.cases, *_opened(snapshot, happenings)]
    for number, case in enumerate(cases):
        if case.state not in ENDED:
            cases[number] = _moved(case, _scene(case, cases, snapshot), happenings)
    return Decision(cases=tuple(cases), happenings=tuple(happenings))


def _opened(snapshot: Snapshot, happenings: list[Happening]) -> Iterator[Case]:
    """Open a case for each GPU that has a fault to act on and no case yet, the worst fault first."""
    busy = {case.gpu for case in snapshot.cases if case.state not in ENDED}
    for fault in sorted(snapshot.faults, key=_urgency):
        gpu = fault.pci
        if gpu is None or gpu in busy or not _acts(fault) or _is_dealt_with(fault, snapshot.cases):
            continue
        before = sum(case.fault == fault.id for case in snapshot.cases)
        if before and fault.id in snapshot.idle_reasons:
            continue
        busy.add(gpu)
        case = Case(
            id=f"c-{fault.id}-{before + 1}" if before else f"c-{fault.id}",
            node=snapshot.node,
            gpu=gpu,
            gpu_uuid=fault.gpu_uuid,
            fault=fault.id,
            code=fault.code,
            kind=fault.kind,
            title=fault.title,
            level=fault.verdict.level,
            fault_class=fault.verdict.fault_class,
            parks=fault.verdict.parks,
            opened_at=snapshot.now,
            since=snapshot.now,
            because=fault.verdict.because,
        )
        happenings.append(
            Happening(
                at=snapshot.now,
                what=What.VERDICT,
                node=snapshot.node,
                gpu=gpu,
                case=case.id,
                rule=" ".join(fault.verdict.rules),
                because=fault.verdict.because,
            )
        )
        yield case


def _urgency(fault: Fault) -> tuple[int, bool, float, str]:
    """Order faults: the worst first, then what nothing explains, then the oldest."""
    wall = fault.first.wall
    return (-fault.verdict.level, fault.verdict.explained_by is not None, wall or 0.0, fault.id)


def _is_dealt_with(fault: Fault, cases: tuple[Case, ...]) -> bool:
    """Return whether a case on its GPU goes on, or ended after its last line; what comes later is dealt with anew."""
    last = fault.last.wall
    return any(
        case.state not in ENDED or last is None or last <= case.since
        for case in cases
        if case.fault == fault.id or (case.state is CaseState.CLOSED and case.gpu == fault.pci)
    )


def _acts(fault: Fault) -> bool:
    """Return whether a fault calls for a case: P0 or P1, of one GPU, its verdict not waiting."""
    return fault.verdict.level >= Level.P1 and not fault.verdict.waits and not fault.kind.startswith("sxid")


def _scene(case: Case, cases: list[Case], snapshot: Snapshot) -> Scene:
    fault = next((one for one in snapshot.faults if one.id == case.fault), None)
    level = case.level if fault is None else max(fault.verdict.level, Level.P1)
    return Scene(
        now=_not_before(case, snapshot.now),
        mode=snapshot.mode,
        gpu=snapshot.gpus.get(case.gpu, UNSEEN),
        fault=FaultSight(
            level=level,
            parks=fault is not None and fault.verdict.parks,
            cleared=fault is not None and fault.verdict.level < Level.P1,
            over=fault is None or case.fault in snapshot.over,
            idle_reason=snapshot.idle_reasons.get(case.fault, ""),
        ),
        brake=_brake(case, cases, snapshot),
        budget="",
        obstacle=snapshot.obstacles.get(case.gpu, ""),
        relapse=_relapse(case, snapshot),
        probation_seconds=snapshot.probation_seconds,
    )


def _not_before(case: Case, now: float) -> float:
    """Return `now`, or the newest moment that the case knows: the clock may have been set back."""
    return max(now, case.since, *(effect.asked_at for effect in case.effects))


def _brake(case: Case, cases: list[Case], snapshot: Snapshot) -> str:
    if case.state is not CaseState.SUSPECT:
        return ""
    isolated = {other.gpu: _isolated_at(other) for other in cases if other.gpu != case.gpu}
    return snapshot.brake.holds(
        gpus=len(snapshot.gpus), isolated_at=[at for at in isolated.values() if at is not None], now=snapshot.now
    )


def _isolated_at(case: Case) -> float | None:
    return next((effect.asked_at for effect in case.effects if effect.kind is EffectKind.DRAIN), None)


def _relapse(case: Case, snapshot: Snapshot) -> str:
    """Return the fault at P0 or P1 that came on the case's GPU since its reset was done."""
    if case.state not in REPAIRED:
        return ""
    reset = next((one for one in reversed(case.effects) if one.kind is EffectKind.RESET), None)
    since = case.since if reset is None or reset.ended_at is None else reset.ended_at
    for fault in snapshot.faults:
        # Lines of the same trouble are one fault, before and after a reset; its newest tells whether it came back.
        wall = fault.last.wall if fault.id == case.fault else fault.first.wall
        if fault.pci == case.gpu and _acts(fault) and wall is not None and wall > since:
            return f"{fault.title} ({fault.id})"
    return ""


def _moved(case: Case, scene: Scene, happenings: list[Happening]) -> Case:
    """Return the case after all its steps of this moment; a broken law parks it where it stood."""
    for step in advance(case, scene):
        broken = laws.broken_by(step, scene)
        if broken:
            happenings.append(
                _told(step.before, scene, what=What.LAW, rule=" ".join(broken), because=step.after.because)
            )
            return _parked_by_law(step.before, scene, broken)
        happenings.extend(_happenings(step, scene))
        case = step.after
    return case


def _happenings(step: Step, scene: Scene) -> Iterator[Happening]:
    before, after = step.before, step.after
    if before.state is not after.state:
        moved = _told(after, scene, what=What.MOVED, because=after.because)
        yield replace(moved, before=str(before.state), after=str(after.state))
    elif before.because != after.because:
        yield _told(after, scene, what=What.SAID, because=after.because)
    for effect in after.effects[len(before.effects) :]:
        asked = _told(after, scene, what=What.EFFECT)
        yield replace(asked, effect=str(effect.kind), target=after.gpu, outcome=str(effect.outcome))


def _told(case: Case, scene: Scene, *, what: What, rule: str = "", because: str = "") -> Happening:
    return Happening(at=scene.now, what=what, node=case.node, gpu=case.gpu, case=case.id, rule=rule, because=because)


def _parked_by_law(case: Case, scene: Scene, broken: list[str]) -> Case:
    names = ", ".join(name.replace("_", " ") for name in broken)
    return replace(
        case,
        state=CaseState.PARKED,
        since=scene.now,
        entered_with=len(case.effects),
        order=None,
        because=f"A law would have been broken: {names}.",
        due="This is a fault of gpuward: report it, look at the GPU by hand, then release.",
    )
