"""The waist: what is, in one value, to what shall be, in one value. Everything that acts calls this and nothing else.

A new fault at P0 or P1 opens a case for its GPU; every case is moved by the table as far as it goes; every step is held
against the laws. A broken law parks its case and is told, the others go on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuward.isolation import laws
from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.drill import Drill
from gpuward.isolation.fleet import ALONE, Fleet, fault_name
from gpuward.isolation.lost import obstacle_in_a_drill
from gpuward.isolation.machine import Step, advance
from gpuward.isolation.rebooting import Rebooting, reboot_sight
from gpuward.model.case import ENDED, ON_A_SERVER, TO_A_NODE, Case, CaseState, EffectKind, Mode
from gpuward.model.fault import Fault
from gpuward.model.happening import Happening, What
from gpuward.model.level import Level
from gpuward.model.scene import ANSWERS, NO_GPU, FaultSight, GpuSight, NodeSight, Scene

UNSEEN = GpuSight(present=None, lost=False, work=None, display=False)
MOST_STRANGERS = 8
"""Open cases of addresses at which the server has no GPU: a lost one may be gone from every list, a flood is a lie."""
MOST_OPEN = 64
"""Open cases of one server: none has more GPUs. Where nobody knows which it has, a flood of addresses is a lie, too."""
REPAIRED = frozenset({CaseState.VERIFYING, CaseState.PROBATION})
WAITS_FOR_WORK = frozenset({CaseState.SUSPECT, CaseState.FENCED, CaseState.SAVING, CaseState.EVACUATING})
UNSEEN_SECONDS = 60.0
"""So long a drill waits to hear what holds its GPU; the agent looks when the first order comes."""
NODE_LOST = "node_lost"
"""The kind of a node that has stopped answering: the one trouble of a whole node that opens a case."""
NEVER = Rebooting()
NOBODY_TOLD = "No job on this server asked to be told."


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
    known: frozenset[str] = frozenset()
    """The addresses at which the server has GPUs, in whatever state; empty: nobody knows. Lines may name others."""
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """Why a GPU cannot be reset, by its address."""
    brake: Brake = field(default_factory=Brake)
    budget: Budget = field(default_factory=Budget)
    paused: str = ""
    """Why a person lets nothing new be isolated, in a sentence; empty when nobody does. Open cases go on."""
    fleet: Fleet = ALONE
    drills: tuple[Drill, ...] = ()
    """Made-up faults that a person asked for since the last decision."""
    probation_seconds: float = 1800.0
    reach: frozenset[EffectKind] = ON_A_SERVER
    """What can be done here at all."""
    victims: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """By case, the pods that have to go and are still there; None, or absent on a cluster: nobody has looked."""
    returned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By case, those of them that it lists, and whose eviction it never asked for."""
    keepers: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """By case that lets its work end, the pods that have its GPU and may go on with it; None: nobody has looked."""
    saving: Mapping[str, str] = field(default_factory=dict)
    """By case, who is still saving its state, in words."""
    saved: Mapping[str, str] = field(default_factory=dict)
    """By case, what became of those that were told, in a sentence."""
    standby: str = ""
    """Why no standby node could be released for this node, in a sentence; empty when one could, or none is needed."""
    approval: bool = False
    """Nothing is done without a person's word."""
    whole: NodeSight = ANSWERS
    """The node itself, where there is a cluster that sees it."""
    rebooting: Rebooting = NEVER
    """What is settled and seen of reboots of the node."""
    doubt: str = ""
    """Why nodes that do not answer are not taken for lost, in a sentence."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The cases as they shall be saved, with the effects they ask for, and what to write down."""

    cases: tuple[Case, ...]
    happenings: tuple[Happening, ...]


def decide(snapshot: Snapshot) -> Decision:
    """Return what follows from what is. The same snapshot always gives the same decision."""
    happenings: list[Happening] = []
    cases = [*snapshot.cases, *_opened(snapshot, happenings)]
    cases += _opened_to_drill(snapshot.drills, cases, snapshot, happenings)
    for number, case in enumerate(cases):
        if case.state not in ENDED:
            cases[number] = _moved(case, _scene(case, cases, snapshot), happenings)
    return Decision(cases=tuple(cases), happenings=tuple(happenings))


def _opened(snapshot: Snapshot, happenings: list[Happening]) -> Iterator[Case]:
    """Open a case for each GPU that has a fault to act on and no case yet, the worst fault first."""
    real = tuple(case for case in snapshot.cases if case.drill is None)
    busy = {case.gpu for case in real if case.state not in ENDED}
    strangers = sum(bool(gpu) and not _is_there(gpu, snapshot) for gpu in busy)
    for fault in sorted(snapshot.faults, key=_urgency):
        gpu = "" if fault.kind == NODE_LOST else fault.pci
        if gpu is None or gpu in busy or not acts(fault) or _is_dealt_with(fault, real):
            continue
        if gpu and not _is_there(gpu, snapshot):
            if strangers >= MOST_STRANGERS:
                continue
            strangers += 1
        if len(busy) >= MOST_OPEN:
            return
        before = sum(case.fault == fault.id for case in real)
        if before and fault.id in snapshot.idle_reasons:
            continue
        busy.add(gpu)
        case = _new(fault, gpu, snapshot, number=before + 1)
        happenings.append(_verdict(fault, case))
        yield case


def _opened_to_drill(
    drills: tuple[Drill, ...], cases: list[Case], snapshot: Snapshot, happenings: list[Happening]
) -> list[Case]:
    """Open a case for each drill on a GPU that has none: a drill never stands in the way of a real fault."""
    busy = {case.gpu for case in cases if case.state not in ENDED}
    opened: list[Case] = []
    for drill in drills:
        gpu = drill.fault.pci
        if gpu is not None and gpu not in busy and acts(drill.fault):
            busy.add(gpu)
            opened.append(drill_case(drill, snapshot))
            happenings.append(_verdict(drill.fault, opened[-1]))
    return opened


def drill_case(drill: Drill, snapshot: Snapshot) -> Case:
    """Return the case of a drill as it is opened: like that of a real fault, and marked."""
    return replace(_new(drill.fault, drill.fault.pci or "", snapshot), drill=drill.mode)


def _new(fault: Fault, gpu: str, snapshot: Snapshot, *, number: int = 1) -> Case:
    """Return the case of a fault; a fault that comes back after its case has ended gets another, with a number."""
    return Case(
        id=f"c-{fault.id}-{number}" if number > 1 else f"c-{fault.id}",
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


def _verdict(fault: Fault, case: Case) -> Happening:
    return Happening(
        at=case.opened_at,
        what=What.VERDICT,
        node=case.node,
        gpu=case.gpu,
        case=case.id,
        rule=" ".join(fault.verdict.rules),
        because=_marked(case, fault.verdict.because),
    )


def _marked(case: Case, sentence: str) -> str:
    """Return the sentence; one of a drill says so, whoever reads it alone."""
    return f"Drill: {sentence}" if sentence and case.drill is not None else sentence


def _urgency(fault: Fault) -> tuple[int, bool, float, str]:
    """Order faults: the worst first, then what nothing explains, then the oldest."""
    wall = fault.first.wall
    return (-fault.verdict.level, fault.verdict.explained_by is not None, wall or 0.0, fault.id)


def _is_dealt_with(fault: Fault, cases: tuple[Case, ...]) -> bool:
    """Return whether a case on its GPU goes on, or ended after its last line; what comes later is dealt with anew."""
    if fault.kind == NODE_LOST:
        # One loss has one name for as long as it lasts, and clocks of several machines tell when it began.
        return any(case.fault == fault.id for case in cases)
    last = fault.last.wall
    return any(
        case.state not in ENDED or last is None or last <= _seen_to_at(case)
        for case in cases
        if case.fault == fault.id or (case.state is CaseState.CLOSED and case.gpu == fault.pci)
    )


def _seen_to_at(case: Case) -> float:
    """Return when a case that has ended dealt with its GPU last, by the clock of the GPU's machine where that told."""
    told = [one.ended_at for one in case.effects if one.kind in ON_A_SERVER and one.ended_at is not None]
    return max(told, default=case.since)


def acts(fault: Fault) -> bool:
    """Return whether a fault calls for a case: P0 or P1, of one GPU, its verdict not waiting."""
    return calls_for_a_case(fault.kind, fault.verdict.level, waits=fault.verdict.waits)


def calls_for_a_case(kind: str, level: Level, *, waits: bool) -> bool:
    """Return whether a fault of this kind and verdict calls for one."""
    return level >= Level.P1 and not waits and not kind.startswith("sxid")


def _scene(case: Case, cases: list[Case], snapshot: Snapshot) -> Scene:
    fault = next((one for one in snapshot.faults if one.id == case.fault), None)
    level = case.level if fault is None else max(fault.verdict.level, Level.P1)
    whole, now = snapshot.whole, _not_before(case, snapshot.now)
    gpu = NO_GPU if case.of_node else snapshot.gpus.get(case.gpu, UNSEEN)
    spares = _spares(case, gpu, snapshot, now=now)
    return Scene(
        now=now,
        mode=case.drill or snapshot.mode,
        gpu=replace(gpu, work=()) if spares else gpu,
        node=whole,
        reboot=reboot_sight(case, cases, now=snapshot.now, node=whole, gpus=snapshot.gpus, settled=snapshot.rebooting),
        fault=FaultSight(
            level=level,
            parks=fault is not None and fault.verdict.parks,
            cleared=whole.answers if case.of_node else fault is not None and fault.verdict.level < Level.P1,
            over=whole.answers if case.of_node else fault is None or case.fault in snapshot.over,
            idle_reason=snapshot.idle_reasons.get(case.fault, ""),
        ),
        brake=_brake(case, cases, snapshot),
        budget=_budget(case, cases, snapshot),
        obstacle=obstacle_in_a_drill(case) or snapshot.obstacles.get(case.gpu, ""),
        relapse=_relapse(case, snapshot),
        probation_seconds=0.0 if case.drill else snapshot.probation_seconds,
        overtaken=_overtaken(case, cases),
        job_fault=snapshot.fleet.jobs.get(case.fault, "") if case.drill is None else "",
        reach=snapshot.reach & TO_A_NODE if case.of_node else snapshot.reach,
        victims=() if case.drill else _victims(case, snapshot),
        keepers=snapshot.keepers.get(case.id, ()),
        returned=snapshot.returned.get(case.id, ()),
        saving=snapshot.saving.get(case.id, ""),
        saved=snapshot.saved.get(case.id, NOBODY_TOLD),
        standby=snapshot.standby,
        spared=_spared(gpu) if spares else "",
        unapproved=snapshot.approval and not case.approved,
    )


def _spares(case: Case, gpu: GpuSight, snapshot: Snapshot, *, now: float) -> bool:
    """Return whether the work on the GPU of a drill counts as gone: it evicts nobody, and must end by itself.

    On a server alone nothing is ever evicted, and a drill shows the wait. What nobody has seen is waited for a while.
    """
    if case.drill is None or EffectKind.EVICT not in snapshot.reach or gpu.work == ():
        return False
    return gpu.work is not None or case.state not in WAITS_FOR_WORK or now - case.since >= UNSEEN_SECONDS


def _spared(gpu: GpuSight) -> str:
    return "not known" if gpu.work is None else ", ".join(gpu.work)


def _victims(case: Case, snapshot: Snapshot) -> tuple[str, ...] | None:
    return snapshot.victims.get(case.id, None if EffectKind.EVICT in snapshot.reach else ())


def _not_before(case: Case, now: float) -> float:
    """Return `now`, or the newest moment that the case knows: the clock may have been set back."""
    return max(now, case.since, *(effect.asked_at for effect in case.effects))


def _brake(case: Case, cases: list[Case], snapshot: Snapshot) -> str:
    if case.state is not CaseState.SUSPECT:
        return ""
    doubt = snapshot.doubt if case.of_node else ""
    held = snapshot.paused or doubt or snapshot.fleet.holds(fault_name(case.kind, case.code))
    if held or case.of_node:
        return held
    isolated = {
        other.gpu: _isolated_at(other)
        for other in cases
        if other.gpu not in {case.gpu, ""} and other.drill is None and _is_there(other.gpu, snapshot)
    }
    return snapshot.brake.holds(
        gpus=len(snapshot.known or snapshot.gpus),
        isolated_at=[at for at in isolated.values() if at is not None],
        now=snapshot.now,
    )


def _budget(case: Case, cases: list[Case], snapshot: Snapshot) -> str:
    if case.state is not CaseState.SUSPECT:
        return ""
    others = (other for other in cases if other.state not in ENDED and other.gpu != case.gpu and other.drill is None)
    here = (other.fault_class for other in others if is_out(other))
    return snapshot.budget.holds(case.fault_class, (*here, *snapshot.fleet.out))


def is_out(case: Case) -> bool:
    """Return whether the GPU of a case is out of service: fenced, or its drain asked for."""
    return case.state is not CaseState.SUSPECT and (bool(case.marks) or case.state is CaseState.FENCED)


def _overtaken(case: Case, cases: list[Case]) -> str:
    """Return the real trouble that a drill must give way to; empty when there is none."""
    if case.drill is None:
        return ""
    real = (other for other in cases if other.gpu == case.gpu and other.drill is None and other.state not in ENDED)
    return next((f"{other.title} ({other.id})" for other in real), "")


def _is_there(gpu: str, snapshot: Snapshot) -> bool:
    """Return whether the server has a GPU at this address, or nobody knows which it has."""
    return not snapshot.known or gpu in snapshot.known


def _isolated_at(case: Case) -> float | None:
    return next((effect.asked_at for effect in case.effects if effect.kind is EffectKind.DRAIN), None)


def _relapse(case: Case, snapshot: Snapshot) -> str:
    """Return the fault at P0 or P1 that came on the case's GPU since its reset was done; of a node, that it is lost."""
    if case.state not in REPAIRED or case.drill is not None:
        return ""
    if case.of_node:
        return "the node stopped answering again" if snapshot.whole.lost else ""
    kinds = (EffectKind.RESET, EffectKind.REBOOT)
    reset = next((one for one in reversed(case.effects) if one.kind in kinds), None)
    since = case.since if reset is None or reset.ended_at is None else reset.ended_at
    for fault in snapshot.faults:
        # Lines of the same trouble are one fault, before and after a reset; its newest tells whether it came back.
        wall = fault.last.wall if fault.id == case.fault else fault.first.wall
        if fault.pci == case.gpu and acts(fault) and wall is not None and wall > since:
            return f"{fault.title} ({fault.id})"
    return ""


def _moved(case: Case, scene: Scene, happenings: list[Happening]) -> Case:
    """Return the case after all its steps of this moment; a broken law parks it where it stood."""
    # Whoever answers is not off, and what was said of it before counts no more.
    case = replace(case, off=case.off and not scene.node.answers)
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
        yield replace(asked, effect=str(effect.kind), target=after.gpu or after.node, outcome=str(effect.outcome))


def _told(case: Case, scene: Scene, *, what: What, rule: str = "", because: str = "") -> Happening:
    return Happening(
        at=scene.now, what=what, node=case.node, gpu=case.gpu, case=case.id, rule=rule, because=_marked(case, because)
    )


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
