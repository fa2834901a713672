"""What was saved, seen from the API server itself: every version of every case, as lines of the journal's form.

A controller that is killed between a save and its word says nothing; the witness misses nothing. It also knows whether
anything is under way, so that idle time can be skipped.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpuward.model.case import ENDED, Case, CaseState, Outcome
from gpuward.model.happening import Happening, What
from gpuward.model.objects.gpu_case import as_case, read_gpu_case
from gpuward.model.objects.gpu_fault import read_gpu_fault
from gpuward.model.objects.owned import FAULT_TAINT
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, NODES, Resource
from gpuward.ports import Happened, Object
from gpuward.sim.cluster.server import Server

_WAITS = frozenset({CaseState.PARKED, CaseState.PROBATION, CaseState.FENCED})
"""Where a case may wait for long, for a person, the time, or its work."""


@dataclass(slots=True)
class Seen:
    """What a run has shown so far."""

    lines: list[Happening] = field(default_factory=list)
    cases: dict[str, Case] = field(default_factory=dict)
    """Each case in its newest version; those that were deleted too."""
    tainted_at: dict[str, list[float]] = field(default_factory=dict)
    """By node, when our taint came onto it."""
    faults: int = 0


class Witness:
    """Watches the server. `parked` is called with a case that comes to wait for a person."""

    def __init__(self, server: Server, *, now: Callable[[], float], parked: Callable[[Case], None]) -> None:
        self.seen = Seen()
        self.changed_at = 0.0
        """When anything of cases, faults or nodes changed last, on the event loop's time."""
        self._server = server
        self._now = now
        self._parked = parked
        self._restless: set[str] = set()
        self._unjudged: set[str] = set()
        self._worn: set[str] = set()
        for kind, take in ((GPU_CASES, self._case), (GPU_FAULTS, self._fault), (NODES, self._node)):
            self._follow(kind, take)

    @property
    def is_quiet(self) -> bool:
        """Whether no case is under way and no fault waits to be judged."""
        return not (self._restless or self._unjudged)

    def due_at(self, probation_seconds: float) -> float:
        """Return when the next probation ends; infinity when none is going on."""
        ends = (
            case.since + probation_seconds for case in self.seen.cases.values() if case.state is CaseState.PROBATION
        )
        return min(ends, default=float("inf"))

    def open_cases(self) -> list[Case]:
        """Return the cases that have not ended."""
        return [case for case in self.seen.cases.values() if case.state not in ENDED]

    def _follow(self, kind: Resource, take: Callable[[Happened, Object], None]) -> None:
        def ring() -> None:
            loop.call_soon(drain)

        def drain() -> None:
            while watcher.waiting:
                told = watcher.waiting.popleft()
                take(told.happened, told.obj)

        loop = asyncio.get_running_loop()
        watcher = self._server.watch(kind, since=str(self._server.state.version), ring=ring)

    def _case(self, happened: Happened, found: Object) -> None:
        self.changed_at = asyncio.get_running_loop().time()
        name = found["metadata"]["name"]
        if happened is Happened.DELETED:
            self._restless.discard(name)
            return
        case, before = as_case(read_gpu_case(found)), self.seen.cases.get(name)
        self.seen.cases[name] = case
        self.seen.lines += _lines(before, case)
        (self._restless.add if _is_restless(case) else self._restless.discard)(name)
        if case.state is CaseState.PARKED and (before is None or before.state is not CaseState.PARKED):
            self._parked(case)

    def _fault(self, happened: Happened, found: Object) -> None:
        self.changed_at = asyncio.get_running_loop().time()
        name = found["metadata"]["name"]
        self.seen.faults += happened is Happened.ADDED
        due = happened is not Happened.DELETED and read_gpu_fault(found).is_due
        (self._unjudged.add if due else self._unjudged.discard)(name)

    def _node(self, happened: Happened, found: Object) -> None:
        self.changed_at = asyncio.get_running_loop().time()
        name = found["metadata"]["name"]
        wears = happened is not Happened.DELETED and is_tainted(found)
        if wears and name not in self._worn:
            self.seen.tainted_at.setdefault(name, []).append(self._now())
        (self._worn.add if wears else self._worn.discard)(name)


def is_tainted(node: Object) -> bool:
    """Return whether a node wears our taint."""
    return any(one.get("key") == FAULT_TAINT for one in (node.get("spec") or {}).get("taints") or ())


def _is_restless(case: Case) -> bool:
    if case.state in ENDED:
        return False
    held = case.state is CaseState.SUSPECT and not case.effects
    return not held and (case.state not in _WAITS or case.pending() is not None)


def _lines(before: Case | None, case: Case) -> Iterator[Happening]:
    """Yield what happened to a case between two of its versions."""
    known = {} if before is None else {effect.number: effect.outcome for effect in before.effects}
    if before is None:
        yield _line(case, What.VERDICT, at=case.opened_at, because=case.title)
    was = CaseState.SUSPECT if before is None else before.state
    for effect in case.effects:
        if effect.number not in known:
            yield _line(case, What.EFFECT, at=effect.asked_at, effect=str(effect.kind), outcome=str(Outcome.ASKED))
        if effect.outcome is not known.get(effect.number, Outcome.ASKED):
            at = effect.asked_at if effect.ended_at is None else effect.ended_at
            told = {"effect": str(effect.kind), "outcome": str(effect.outcome), "because": effect.why}
            yield _line(case, What.EFFECT, at=at, **told)
    if case.state is not was:
        yield _line(case, What.MOVED, at=case.since, before=str(was), after=str(case.state), because=case.because)


def _line(case: Case, what: What, *, at: float, **told: str) -> Happening:
    return Happening(at=at, what=what, node=case.node, gpu=case.gpu, case=case.id, **told)
