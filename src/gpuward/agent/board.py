"""What people may see of an agent: each GPU with its state, why, what comes next, and how to undo it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuward.agent.bench import work_of
from gpuward.agent.sight import Seen
from gpuward.agent.watch import Place
from gpuward.model.case import ENDED, Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.fault import Fault
from gpuward.model.gpu import read_pci
from gpuward.model.level import Level

_NEXT = {
    CaseState.SUSPECT: "it is taken out of service when nothing holds that back",
    CaseState.FENCED: "waits for its work to end",
    CaseState.SAVING: "the work is told",
    CaseState.EVACUATING: "waits for its work to end",
    CaseState.VACATED: "repair, where the mode allows it",
    CaseState.REPAIRING: "reset, then proof",
    CaseState.VERIFYING: "probation, when the proof holds",
    CaseState.PROBATION: "return to service, when no new fault comes",
    CaseState.PARKED: "a person",
}


@dataclass(frozen=True, slots=True)
class Board:
    """One look at an agent."""

    mode: Mode
    node: str
    now: float
    road: str | None
    driver_version: str | None
    gpus: tuple[Seen, ...]
    cases: tuple[Case, ...]
    driver_trouble: str = ""
    """That the driver's tools do not answer, in a sentence; empty while they do."""
    place: Place | None = None
    """How far the kernel log was read; None before it is."""
    findings: tuple[Fault, ...] = ()
    """What the readings show, while it stands."""
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """Why a GPU with an open case cannot be reset, by its address."""

    def case_of(self, name: str) -> Case | None:
        """Return the newest case with this id, or of the GPU with this address, UUID or number."""
        pci = self.gpu_named(name)
        found = [case for case in self.cases if name == case.id or (pci is not None and case.gpu == pci)]
        return found[-1] if found else None

    def gpu_named(self, name: str) -> str | None:
        """Return the address of the GPU that a person named by address, UUID or number in PCI order."""
        address = read_pci(name)
        for index, seen in enumerate(self.gpus):
            if name.lower() in {str(index), seen.was.pci, (seen.was.uuid or "").lower()}:
                return seen.was.pci
            if address is not None and address.pci == seen.was.pci:
                return seen.was.pci
        return None

    def findings_of(self, pci: str) -> tuple[Fault, ...]:
        """Return what the readings show of a GPU, the worst first."""
        found = [fault for fault in self.findings if fault.pci == pci and fault.verdict.level > Level.IGNORE]
        return tuple(sorted(found, key=lambda fault: -fault.verdict.level))


def board_object(board: Board) -> dict[str, Any]:
    """Return the board as JSON values, every key always there."""
    return {
        "mode": str(board.mode),
        "node": board.node,
        "road": board.road,
        "driver_version": board.driver_version,
        "driver_trouble": board.driver_trouble or None,
        "gpus": [gpu_object(board, index, seen) for index, seen in enumerate(board.gpus)],
        "cases_open": sum(case.state not in ENDED and case.drill is None for case in board.cases),
        "log": None if board.place is None else asdict(board.place),
    }


def gpu_object(board: Board, index: int, seen: Seen) -> dict[str, Any]:
    """Return one GPU of the board."""
    open_cases = [one for one in reversed(board.cases) if one.gpu == seen.was.pci and one.state not in ENDED]
    case = next((one for one in open_cases if one.drill is None), None)
    drill = next((one for one in open_cases if one.drill is not None), None)
    return {
        "gpu": index,
        "pci": seen.was.pci,
        "uuid": seen.was.uuid,
        "state": state_of(case, seen, board.findings_of(seen.was.pci)),
        "level": None if case is None else str(case.level),
        "class": None if case is None else str(case.fault_class),
        "case": None if case is None else case.id,
        "case_state": None if case is None else str(case.state),
        "since": None if case is None else case.since,
        "holders": None if seen.holders is None else list(work_of(seen.holders)),
        "because": None if case is None else case.because,
        "next": None if case is None else _next_of(case, board.mode),
        "undo": None if case is None else f"gpuward release {seen.was.pci}",
        "findings": [
            {"kind": one.kind, "level": str(one.verdict.level), "because": one.verdict.because}
            for one in board.findings_of(seen.was.pci)
        ],
        "drill": None if drill is None else drill.id,
    }


def state_of(case: Case | None, seen: Seen, findings: tuple[Fault, ...] = ()) -> str:
    """Return the state of a GPU in one word: the first of `_STATES` that holds, else active."""
    word = next((word for word, holds in _STATES if holds(case, seen)), "active")
    ill = any(one.verdict.level >= Level.P1 for one in findings)
    return FAULTY if word == "active" and ill else word


def _next_of(case: Case, mode: Mode) -> str:
    if case.order is Order.RELEASE:
        return "every mark is being undone"
    if case.state is CaseState.SUSPECT and mode is Mode.OBSERVE:
        return "nothing: the mode is observe"
    return case.due or _NEXT[case.state]


def _is_drained(case: Case | None, seen: Seen) -> bool:
    """Return whether our drain stands for certain: it was done, or what became of it is not known and it is hidden."""
    effect = None if case is None else _newest(case, EffectKind.DRAIN, EffectKind.UNDRAIN)
    if effect is None or effect.kind is EffectKind.UNDRAIN:
        return effect is not None and effect.outcome is not Outcome.DONE and seen.reading is None
    return effect.outcome is Outcome.DONE or (effect.outcome is Outcome.FAILED and seen.read and seen.reading is None)


def _newest(case: Case, *kinds: EffectKind) -> Effect | None:
    return next((effect for effect in reversed(case.effects) if effect.kind in kinds), None)


def _waits_for_work(case: Case | None, _seen: Seen) -> bool:
    return case is not None and case.state is CaseState.FENCED and not case.marks.drained


def _is_repaired(case: Case | None, _seen: Seen) -> bool:
    return case is not None and case.state in {CaseState.REPAIRING, CaseState.VERIFYING}


def _is_idle(case: Case | None, seen: Seen) -> bool:
    return _is_drained(case, seen) and seen.holders is not None and not work_of(seen.holders)


def _in(state: CaseState) -> Callable[[Case | None, Seen], bool]:
    return lambda case, _seen: case is not None and case.state is state


def _is_resetting(case: Case) -> bool:
    pending = case.pending()
    return pending is not None and pending.kind is EffectKind.RESET


_STATES: tuple[tuple[str, Callable[[Case | None, Seen], bool]], ...] = (
    ("parked", _in(CaseState.PARKED)),
    ("lost", lambda _case, seen: seen.lost),
    ("verified", _in(CaseState.PROBATION)),
    ("resetting", lambda case, _seen: case is not None and _is_resetting(case)),
    ("suspect", _in(CaseState.SUSPECT)),
    ("waiting", _waits_for_work),
    ("repairing", _is_repaired),
    ("idle", _is_idle),
    ("draining", _is_drained),
    ("undrained", lambda case, _seen: case is not None),
    ("drained", lambda _case, seen: seen.drained_by_others),
    # The bus alone knows no UUID: the driver did not answer for the GPU.
    ("unknown", lambda _case, seen: seen.reading is None or seen.reading.uuid is None),
)
"""The words for a GPU's state, the first that holds counts; a GPU of none of them is active."""
FAULTY = "faulty"
"""Of a GPU in service although a reading shows a fault: no case is open, as after a release or with `--once`."""
STATES = (*(word for word, _ in _STATES), FAULTY)
