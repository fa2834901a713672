"""Orders of a cluster's controller to one node: which are taken, which refused, and what became of each. Pure.

An order becomes an effect of a case that the node keeps for itself, so that the bench does it as on a server alone.
Doing it is not here, nor keeping it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuward.agent.bench import Remembered
from gpuward.isolation.laws import DAY_SECONDS
from gpuward.isolation.machine import settle
from gpuward.model.case import ENDED, ON_A_SERVER, Case, CaseState, Effect, EffectKind, Mode, Outcome
from gpuward.model.fault import Fault
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_node import NO_BOOT, GpuOrder, OrderAnswer

PAST_KEPT = 512
"""Ids of orders that are over and still known: an old version of the node's object may show one again."""
LONE = "lone."
"""How the id of what the agent did alone begins; no name of a case begins so with a node behind it."""
_DRILL = ".drill"
_CUT_SHORT = "the node was booted anew before it was known to be done"
LONE_TOLD_SECONDS = 3600.0
"""How long at least is told what the agent tried alone."""
_ALWAYS = frozenset({EffectKind.EVIDENCE, EffectKind.UNDRAIN, EffectKind.RESTORE})
UNDONE_BY_BOOT: Mapping[EffectKind, str] = {
    EffectKind.UNDRAIN: "the node was booted since: no drain outlives a boot",
    EffectKind.RESTORE: "the node was booted since, which starts services and leaves no mode of ours",
}
"""What undoes a mark, and why nothing is left to be done of it on a later boot. See Case.marks, which says the same."""
ALLOWED: Mapping[Mode, frozenset[EffectKind]] = {
    Mode.OBSERVE: _ALWAYS,
    Mode.ISOLATE: ON_A_SERVER - {EffectKind.PAUSE, EffectKind.RESET},
    Mode.REPAIR: ON_A_SERVER,
}
"""What each mode lets the controller order; what undoes a mark is always let."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An order that was stored, and what became of it; number 0: it was refused, and no effect was made of it."""

    id: str
    case: str
    number: int
    outcome: Outcome
    at: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that a node remembers of its orders: its own cases by their id, the orders by theirs, ids that are over."""

    cases: Mapping[str, Case] = field(default_factory=dict)
    taken: Mapping[str, Taken] = field(default_factory=dict)
    past: tuple[str, ...] = ()

    def knows(self, order_id: str) -> bool:
        """Return whether an order was taken before, or is over: then it is never done again."""
        return order_id in self.taken or order_id in self.past


@dataclass(frozen=True, slots=True)
class Grounds:
    """What an order is judged by. `boot` is spelled as objects spell it; obstacles and faults are by address."""

    now: float
    node: str
    boot: str
    mode: Mode
    gpus: Mapping[str, Remembered]
    obstacles: Mapping[str, str]
    faults: Mapping[str, Fault]
    """The worst fault that goes on, of each GPU that has one."""


def refusal_of(order: GpuOrder, ledger: Ledger, grounds: Grounds) -> str:
    """Return why an order must not be done, in a sentence; empty when it may. Holders are looked at when it is done."""
    return next((words(order, ledger, grounds) for stands, words in _REFUSALS if stands(order, ledger, grounds)), "")


def with_order(ledger: Ledger, order: GpuOrder, grounds: Grounds) -> Ledger:
    """Return the ledger with an order taken, refused or asked for; the same one when its id is known."""
    if ledger.knows(order.id):
        return ledger
    if _is_undone_by_the_boot(order, grounds):
        return _answered(ledger, order, Outcome.DONE, why=UNDONE_BY_BOOT[order.what], at=grounds.now)
    refusal = refusal_of(order, ledger, grounds)
    if refusal:
        return _answered(ledger, order, Outcome.REFUSED, why=refusal, at=grounds.now)
    case = ledger.cases.get(local_case(order)) or _opened(order, grounds)
    return _asked(ledger, case, order.what, order_id=order.id, forced=order.forced, at=grounds.now)


def with_lone_drain(ledger: Ledger, fault: Fault, name: str, grounds: Grounds) -> Ledger:
    """Return the ledger with evidence and drain of the GPU of a fault, which nobody ordered; `name` is its object's."""
    case = case_about(f"{LONE}{name}", fault.pci or "", fault.gpu_uuid, grounds=grounds)
    for what in (EffectKind.EVIDENCE, EffectKind.DRAIN):
        ledger = _asked(ledger, case, what, order_id=f"{case.id}.{what}", forced=False, at=grounds.now)
        case = ledger.cases[case.id]
    return ledger


def with_outcome(ledger: Ledger, case_id: str, number: int, *, outcome: Outcome, at: float, why: str) -> Ledger:
    """Return the ledger with what became of an effect; an undone drain ends what the agent had drained alone."""
    case = settle(ledger.cases[case_id], number, outcome, at=at, why=why)
    effect = case.effects[number - 1]
    cases = {**ledger.cases, case_id: _moved(case, effect)}
    if effect.kind is EffectKind.UNDRAIN and outcome is Outcome.DONE and case.drill is None:
        cases |= {
            other.id: replace(other, state=CaseState.CLOSED, effects=_undone(other, at))
            for other in cases.values()
            if other.gpu == case.gpu and is_lone(other) and other.marks.drained
        }
    taken = {
        one.id: replace(one, outcome=outcome, at=at, why=why)
        for one in ledger.taken.values()
        if one.case == case_id and one.number == number
    }
    return replace(ledger, cases=cases, taken={**ledger.taken, **taken})


def without_removed(ledger: Ledger, wanted: Iterable[str], *, now: float) -> Ledger:
    """Return the ledger less the answers whose order the controller took away, and the cases that nothing needs.

    What the agent did alone nobody took away: it is told for an hour, and as long as the GPU is drained by it.
    """
    wanted = frozenset(wanted)
    over = [one.id for one in ledger.taken.values() if one.id not in wanted and _is_over(one, ledger, now)]
    taken = {order_id: one for order_id, one in ledger.taken.items() if order_id not in over}
    told = {one.case for one in taken.values()}
    cases: dict[str, Case] = {}
    for case in ledger.cases.values():
        if case.id in told or case.marks or case.pending():
            cases[case.id] = case
        elif case.resets_since(now - DAY_SECONDS):
            cases[case.id] = replace(case, state=CaseState.CLOSED)
    if not over and cases == ledger.cases:
        return ledger
    return Ledger(cases=cases, taken=taken, past=(*ledger.past, *over)[-PAST_KEPT:])


def after_boot(ledger: Ledger, *, at: float) -> Ledger:
    """Return the ledger as a new boot of the machine finds it: no drain is left, and nothing is under way.

    An undo that was under way is done by the boot.
    """
    taken = {
        one.id: _ended_by_boot(one, ledger, at) if one.outcome is Outcome.ASKED else one
        for one in ledger.taken.values()
    }
    cases = {
        case.id: replace(
            case, state=CaseState.CLOSED, effects=tuple(_effect_after_boot(one, at) for one in case.effects)
        )
        for case in ledger.cases.values()
    }
    return replace(ledger, cases=cases, taken=taken)


def _ended_by_boot(one: Taken, ledger: Ledger, at: float) -> Taken:
    undone = UNDONE_BY_BOOT.get(ledger.cases[one.case].effects[one.number - 1].kind, "")
    return replace(one, outcome=Outcome.DONE if undone else Outcome.FAILED, at=at, why=undone or _CUT_SHORT)


def _effect_after_boot(effect: Effect, at: float) -> Effect:
    """Return an effect as a new boot leaves it; of a drain or a stopped service there is no mark any more."""
    if effect.outcome is Outcome.ASKED and effect.kind in UNDONE_BY_BOOT:
        return replace(effect, outcome=Outcome.DONE, ended_at=at, why=UNDONE_BY_BOOT[effect.kind])
    if effect.outcome is Outcome.ASKED or effect.kind in {EffectKind.DRAIN, EffectKind.PAUSE}:
        return replace(effect, outcome=Outcome.REFUSED, ended_at=at, why=_CUT_SHORT)
    return effect


def answers_of(ledger: Ledger) -> tuple[OrderAnswer, ...]:
    """Return what became of the orders, in the order in which they were taken."""
    return tuple(OrderAnswer(one.id, one.outcome, at=one.at, why=one.why) for one in ledger.taken.values())


def local_case(order: GpuOrder) -> str:
    """Return the id of the node's own case for an order: a case of the controller may be about several GPUs."""
    gpu = order.pci.replace(":", "-")
    return f"{order.case}.{gpu}{_DRILL}" if order.drill else f"{order.case}.{gpu}"


def is_ordered_drill(case: Case) -> bool:
    """Return whether a case of the node's own rehearses what a controller orders; a server alone drills for itself."""
    return case.drill is not None and case.id.endswith(_DRILL)


def case_about(case_id: str, pci: str, uuid: str | None, *, grounds: Grounds) -> Case:
    """Return a case of the node's own about a GPU, by the worst fault that goes on there."""
    fault = grounds.faults.get(pci)
    return Case(
        id=case_id,
        node=grounds.node,
        gpu=pci,
        gpu_uuid=uuid,
        fault="" if fault is None else fault.id,
        code=None if fault is None else fault.code,
        kind="ordered" if fault is None else fault.kind,
        title="ordered by the controller" if fault is None else fault.title,
        level=Level.P2 if fault is None else fault.verdict.level,
        fault_class=FaultClass.UNKNOWN if fault is None else fault.verdict.fault_class,
        parks=False,
        opened_at=grounds.now,
        since=grounds.now,
    )


def is_lone(case: Case) -> bool:
    """Return whether the agent did this alone."""
    return case.id.startswith(LONE)


def is_at_work(ledger: Ledger, pci: str) -> bool:
    """Return whether something that is no drill is under way on a GPU."""
    return any(case.gpu == pci and case.drill is None and case.pending() for case in ledger.cases.values())


def _answered(ledger: Ledger, order: GpuOrder, outcome: Outcome, *, why: str, at: float) -> Ledger:
    """Return the ledger with an order of which no effect is made."""
    taken = Taken(order.id, local_case(order), number=0, outcome=outcome, at=at, why=why)
    return replace(ledger, taken={**ledger.taken, order.id: taken})


def _asked(ledger: Ledger, case: Case, what: EffectKind, *, order_id: str, forced: bool, at: float) -> Ledger:
    effect = Effect(number=len(case.effects) + 1, kind=what, asked_at=at)
    repairs = what in {EffectKind.RESET, EffectKind.VERIFY}
    reopened = CaseState.SUSPECT if case.state in ENDED else case.state
    case = replace(
        case,
        state=CaseState.REPAIRING if repairs else reopened,
        effects=(*case.effects, effect),
        forced=case.forced or forced,
    )
    taken = Taken(order_id, case.id, number=effect.number, outcome=Outcome.ASKED, at=at)
    return replace(ledger, cases={**ledger.cases, case.id: case}, taken={**ledger.taken, order_id: taken})


def _opened(order: GpuOrder, grounds: Grounds) -> Case:
    case = case_about(local_case(order), order.pci, order.uuid, grounds=grounds)
    return replace(case, drill=Mode.REPAIR if order.drill else None)


def _moved(case: Case, effect: Effect) -> Case:
    proven = effect.kind is EffectKind.VERIFY and effect.outcome is Outcome.DONE
    return replace(case, state=CaseState.PROBATION) if proven else case


def _undone(case: Case, at: float) -> tuple[Effect, ...]:
    """Return the effects with the undoing that another case did: the drain, and with it what it had altered."""
    kinds = (EffectKind.UNDRAIN, EffectKind.RESTORE)
    begin = len(case.effects) + 1
    return (
        *case.effects,
        *(
            Effect(number, kind, asked_at=at, outcome=Outcome.DONE, ended_at=at, why="by the controller's order")
            for number, kind in enumerate(kinds, begin)
        ),
    )


def _is_over(one: Taken, ledger: Ledger, now: float) -> bool:
    case = ledger.cases.get(one.case)
    stays = case is not None and is_lone(case) and (case.marks.drained or now - one.at < LONE_TOLD_SECONDS)
    return one.outcome is not Outcome.ASKED and not stays


_Stands = Callable[[GpuOrder, Ledger, Grounds], bool]
_Words = Callable[[GpuOrder, Ledger, Grounds], str]


def _is_undone_by_the_boot(order: GpuOrder, grounds: Grounds) -> bool:
    """Return whether an order undoes what a mark of an earlier boot was. What has no name may be this boot."""
    is_known = not {order.boot, grounds.boot} & {NO_BOOT, ""}
    return order.what in UNDONE_BY_BOOT and is_known and order.boot != grounds.boot


def _is_of_another_boot(order: GpuOrder, _ledger: Ledger, grounds: Grounds) -> bool:
    return order.boot != grounds.boot


def _is_not_allowed(order: GpuOrder, _ledger: Ledger, grounds: Grounds) -> bool:
    return not order.drill and order.what not in ALLOWED[grounds.mode]


def _is_unknown(order: GpuOrder, _ledger: Ledger, grounds: Grounds) -> bool:
    return order.pci not in grounds.gpus and order.pci not in grounds.faults


def _is_another_gpu(order: GpuOrder, _ledger: Ledger, grounds: Grounds) -> bool:
    was = grounds.gpus.get(order.pci)
    if order.what in UNDONE_BY_BOOT:
        return False  # the mark is on the address: a card that came in the place of another is freed of it
    return order.uuid is not None and (was is None or was.uuid != order.uuid)


def _is_taken(order: GpuOrder, ledger: Ledger, _grounds: Grounds) -> bool:
    return _worker(order, ledger) is not None


def _worker(order: GpuOrder, ledger: Ledger) -> Case | None:
    """Return the other case whose order is under way on the GPU; orders of one case are done one after the other."""
    others = (case for case in ledger.cases.values() if case.gpu == order.pci and case.id != local_case(order))
    return next((case for case in others if case.drill is None and case.pending()), None) if not order.drill else None


def _is_obstructed(order: GpuOrder, _ledger: Ledger, grounds: Grounds) -> bool:
    return order.what is EffectKind.RESET and not order.drill and bool(grounds.obstacles.get(order.pci))


_REFUSALS: tuple[tuple[_Stands, _Words], ...] = (
    (
        _is_of_another_boot,
        lambda order, _, grounds: f"it is meant for boot {order.boot}, and this is boot {grounds.boot}",
    ),
    (
        _is_not_allowed,
        lambda order, _, grounds: f"mode {grounds.mode} does not allow {order.what}",
    ),
    (
        _is_unknown,
        lambda order, _, grounds: f"{grounds.node} has no GPU at {order.pci}",
    ),
    (
        _is_another_gpu,
        lambda order, _, grounds: f"the GPU at {order.pci} of {grounds.node} is not {order.uuid}",
    ),
    (
        _is_taken,
        lambda order, ledger, _: f"another order works on this GPU, of {getattr(_worker(order, ledger), 'id', '')}",
    ),
    (
        _is_obstructed,
        lambda order, _, grounds: grounds.obstacles[order.pci],
    ),
)
"""When an order is refused, each with the sentence; the first that stands counts."""
