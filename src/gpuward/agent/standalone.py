"""The loop of one GPU server: follow the kernel log, decide, have it done on the bench, look again. Rules are not here.

What is decided is saved before it is done, and what was done comes back as an outcome in the next round. A round never
waits for the bench: effects of different GPUs run side by side, those of one case one after the other.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from queue import Empty, SimpleQueue

from gpuward.agent.bench import Job, Remembered, Result, Tools, perform
from gpuward.agent.board import Board
from gpuward.agent.pauses import Pauses
from gpuward.agent.sight import Seen, drained_gpus, is_lost, obstacle_of, resets_today, sight_of
from gpuward.agent.telemetry import Pace, Telemetry
from gpuward.agent.watch import READ_SECONDS, Outside, Told, Watch
from gpuward.isolation.brake import Brake
from gpuward.isolation.decide import Decision, Snapshot, decide
from gpuward.isolation.machine import ask, forgo, settle
from gpuward.isolation.merge import Merger
from gpuward.isolation.packed import pack_case, unpack_case
from gpuward.isolation.saved import SavedError
from gpuward.model.case import ENDED, Case, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.happening import Happening, What
from gpuward.ports import Chronicle, EdgeError, Refused, Store

BUSY_SECONDS = 0.05
"""How long a round waits for lines while the bench works, so that its outcomes are seen soon."""
ENDED_KEPT = 200
"""Cases that have ended and are still remembered, for people and for counting resets."""
_SHOWN_DIFFERENTLY = {EffectKind.DRAIN, EffectKind.UNDRAIN, EffectKind.RESET}
"""After these the GPUs are read again at once: what was read before is no longer so."""
CASES_REMEDY = (
    "marks of ours may stand: look which GPUs are drained (`nvidia-smi drain`), undo that, then remove the file"
)
_NO_WITNESS = "The line is older than this agent, and nothing that can be read now confirms it."


@dataclass(frozen=True, slots=True)
class Plan:
    """How far and how fast the agent goes."""

    mode: Mode = Mode.OBSERVE
    brake: Brake = field(default_factory=Brake)
    probation_seconds: float = 1800.0
    poll_seconds: float = 30.0
    read_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the agent keeps what must survive it."""

    cases: Store
    pauses: Store
    chronicle: Chronicle


@dataclass(frozen=True, slots=True)
class Ended:
    """An effect that was done or not, and when, on the way from the bench to the loop."""

    case: str
    number: int
    at: float
    result: Result


class Standalone:
    """One agent on one server. `say` gets each happening as it is written down, `warn` what a person should know."""

    def __init__(  # noqa: PLR0913  what an agent is made of: ports, keeping, a plan, hands, and ways to speak
        self,
        outside: Outside,
        new_merger: Callable[[], Merger],
        *,
        tools: Tools,
        keeping: Keeping,
        plan: Plan,
        hands: Executor,
        say: Callable[[Happening], None],
        warn: Callable[[str], None],
        timezone: tzinfo,
        node: str,
    ) -> None:
        self._outside = outside
        self._new_merger = new_merger
        self._tools = tools
        self._keeping = keeping
        self._plan = plan
        self._hands = hands
        self._say = say
        self._warn = warn
        self._timezone = timezone
        self._node = node
        self._cases: dict[str, Case] = {}
        self._history: set[str] = set()
        self._pauses = Pauses(keeping.pauses)
        self._working: dict[str, Future[None]] = {}
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._telemetry = Telemetry(
            tools.driver,
            outside.clock,
            hands=hands,
            pace=Pace(poll_seconds=plan.poll_seconds, read_seconds=plan.read_seconds),
            node=node,
        )
        self._orders: list[tuple[str, Order]] = []
        self._unsaved = False
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Work until `stopped` says so. Raises EdgeError when the log cannot be read, or the state not used."""
        self._load()
        self._pauses.load()
        self._write_all(self._telemetry.look(self._cases.values(), self._warn))
        watch = Watch(
            self._outside,
            self._new_merger,
            tell=self._hear,
            warn=self._warn,
            timezone=self._timezone,
            node=self._node,
            each_round=self.round,
            opening=f"watching {{source}} in mode {self._plan.mode}",
        )
        watch.run(stopped)

    def look(self) -> None:
        """Read the GPUs once, for `board`; nothing is followed and nothing is done. Raises Refused as `run` does."""
        self._load()
        self._telemetry.look(self._cases.values(), self._warn)

    def order(self, gpu: str, order: Order) -> None:
        """Take a person's word on the case of a GPU; it is heard in the next round. Called from any thread."""
        with self._lock:
            self._orders.append((gpu, order))

    def cases(self) -> tuple[Case, ...]:
        """Return the cases as they are, newest last."""
        return tuple(self._cases.values())

    def board(self) -> Board:
        """Return what people may see. Called from any thread."""
        seen = self._sights()
        reading = self._telemetry.reading
        return Board(
            mode=self._plan.mode,
            node=self._node,
            now=self._outside.clock.now(),
            road=None if reading is None else reading.road,
            driver_version=None if reading is None else reading.driver_version,
            driver_trouble=self._telemetry.trouble,
            gpus=tuple(seen[pci] for pci in sorted(seen)),
            cases=tuple(self._cases.values()),
        )

    def round(self, merger: Merger) -> float:
        """Do what is due between two looks at the log; return how long the next look may wait."""
        self._collect()
        found = self._telemetry.turn(self._cases.values(), self._warn_once)
        # What stands is saved with the cases: a finding that a case was closed over must not come back as a new one.
        self._unsaved = self._telemetry.has_changed() or self._unsaved
        self._write_all(found)
        self._take_orders()
        for one in self._telemetry.memory.values():
            if one.uuid:
                merger.learn_uuid(one.pci, one.uuid, node=None)
        decision = decide(self._snapshot(merger))
        if self._keep(decision):
            self._put_to_work()
        return BUSY_SECONDS if self._working else READ_SECONDS

    # --- what is seen ---------------------------------------------------------------------------------------------

    def _hear(self, told: Told) -> None:
        """Note a change of a fault: what is history must be confirmed before it acts."""
        fault = told.change.fault
        if told.history and told.change.kind is ChangeKind.BEGAN:
            self._history.add(fault.id)
        if told.change.kind is not ChangeKind.CLOSED:
            self._write(
                Happening(
                    at=told.at,
                    what=What.OBSERVED,
                    node=self._node,
                    gpu=fault.pci or "",
                    rule=" ".join(fault.verdict.rules),
                    outcome=str(fault.verdict.level),
                    because=fault.evidence[-1].text if fault.evidence else fault.title,
                )
            )

    def _snapshot(self, merger: Merger) -> Snapshot:
        now = self._outside.clock.now()
        faults = (*merger.faults(), *self._telemetry.faults())
        alive = {fault.id for fault in faults}
        open_cases = [case for case in self._cases.values() if case.state not in ENDED]
        seen = self._sights()
        return Snapshot(
            now=now,
            mode=self._plan.mode,
            node=self._node,
            cases=tuple(self._cases.values()),
            faults=faults,
            over=frozenset(case.fault for case in open_cases if case.fault not in alive),
            idle_reasons={fault.id: _NO_WITNESS for fault in faults if self._is_only_history(fault)},
            gpus={pci: sight_of(one) for pci, one in seen.items()},
            obstacles={case.gpu: obstacle_of(seen[case.gpu]) for case in open_cases},
            brake=self._plan.brake,
            probation_seconds=self._plan.probation_seconds,
        )

    def _sights(self) -> dict[str, Seen]:
        """Return what is known of every GPU, of one with an open case also what holds it."""
        drained = drained_gpus(self._cases.values())
        sights = {pci: self._seen(was, drained=pci in drained) for pci, was in self._telemetry.memory.items()}
        for case in self._cases.values():
            if case.state not in ENDED:
                seen = sights.get(case.gpu) or self._seen(_unknown(case), drained=case.gpu in drained)
                sights[case.gpu] = self._in_case(seen, case)
        return sights

    def _seen(self, was: Remembered, *, drained: bool) -> Seen:
        reading = self._telemetry.of(was.pci)
        return Seen(
            was=was,
            reading=reading,
            read=self._telemetry.reading is not None,
            holders=None,
            drained=drained,
            lost=reading is not None and reading.lost,
            display=reading is not None and reading.display_active is True,
        )

    def _in_case(self, seen: Seen, case: Case) -> Seen:
        """Add what only a GPU in a case is looked at for."""
        holders = None
        if seen.was.minor is not None:
            try:
                holders = self._tools.holders.of(seen.was.minor)
            except EdgeError as error:
                self._warn_once(f"the holders of GPU {case.gpu} cannot be seen: {error}")
        return replace(
            seen,
            holders=holders,
            lost=is_lost(case.code, case.kind, seen.reading),
            resets_today=resets_today(case.gpu, self._cases.values(), now=self._outside.clock.now()),
        )

    def _warn_once(self, sentence: str) -> None:
        """Warn, unless it was said before: what stays so is not said every round."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._warn(sentence)

    def _is_only_history(self, fault: Fault) -> bool:
        """Return whether a fault is older than this agent and no live reading confirms it (R-history)."""
        if fault.id not in self._history or fault.pci is None:
            return False
        reading = self._telemetry.of(fault.pci)
        if reading is None:
            gone = self._telemetry.reading is not None and is_lost(fault.code, fault.kind, None)
            return not gone
        asked = reading.recovery_action not in {None, "None"}
        return not (reading.lost or asked or reading.remap.pending or reading.remap.failed)

    # --- what is kept ---------------------------------------------------------------------------------------------

    def _keep(self, decision: Decision) -> bool:
        """Save what was decided, then write it down. False when it could not be saved: then nothing may be done."""
        cases = {case.id: case for case in decision.cases}
        if self._unsaved or cases != self._cases:
            ended = [case.id for case in cases.values() if case.state in ENDED]
            for case_id in ended[: max(0, len(ended) - ENDED_KEPT)]:
                del cases[case_id]
            if not self._save(cases):
                return False
            self._cases = cases
            self._unsaved = False
        self._write_all(decision.happenings)
        return True

    def _save(self, cases: Mapping[str, Case]) -> bool:
        saved = {
            "cases": [pack_case(case) for case in cases.values()],
            **self._telemetry.pack(),
            "history": sorted(self._history),
        }
        try:
            self._keeping.cases.save(saved)
        except Refused as error:
            self._warn(f"nothing is done, as what was decided cannot be saved: {error}")
            return False
        return True

    def _load(self) -> None:
        """Go on from what was saved. A state that cannot be used is Refused: marks of ours may stand on the machine."""
        saved = self._keeping.cases.load()
        if saved is None:
            return
        try:
            now = self._outside.clock.now()
            cases = [forgo(unpack_case(one), self._plan.mode, at=now) for one in saved["cases"]]
            self._cases = {case.id: case for case in cases}
            self._telemetry.unpack(saved)
            self._history = set(saved["history"])
        except (SavedError, KeyError, TypeError) as error:
            raise Refused(f"the saved cases cannot be used ({error}); {CASES_REMEDY}") from error

    def _write_all(self, happenings: Iterable[Happening]) -> None:
        for happening in happenings:
            self._write(happening)

    def _write(self, happening: Happening) -> None:
        self._say(happening)
        try:
            self._keeping.chronicle.write(happening)
        except Refused as error:
            self._warn(str(error))

    # --- what is done ---------------------------------------------------------------------------------------------

    def _take_orders(self) -> None:
        with self._lock:
            orders, self._orders = self._orders, []
        for gpu, order in orders:
            for case in [case for case in self._cases.values() if case.gpu == gpu and case.state not in ENDED]:
                self._cases[case.id] = ask(case, order)
                self._unsaved = True

    def _put_to_work(self) -> None:
        for case in self._cases.values():
            pending = [effect for effect in case.effects if effect.outcome is Outcome.ASKED]
            if pending and case.id not in self._working:
                self._working[case.id] = self._hands.submit(self._work, case, pending)

    def _work(self, case: Case, pending: list[Effect]) -> None:
        """Do the effects of a case in order; what one leads to is seen by the next. Runs beside the loop."""
        for effect in pending:
            job = Job(
                case=case,
                effect=effect,
                gpu=self._telemetry.memory.get(case.gpu) or _unknown(case),
                paused=self._pauses.of(case.id),
                lost=is_lost(case.code, case.kind, self._telemetry.of(case.gpu)),
            )
            intend, forget = partial(self._pauses.add, case.id), partial(self._pauses.remove, case.id)
            result = perform(job, replace(self._tools, intend=intend, forget=forget))
            ended = Ended(case.id, effect.number, at=self._outside.clock.now(), result=result)
            case = settle(case, effect.number, result.outcome, at=ended.at, why=result.why)
            self._ended.put(ended)

    def _collect(self) -> None:
        """Settle what has ended. A worker that broke is heard of: its effects have no outcome and are done again."""
        done = [case_id for case_id, future in self._working.items() if future.done()]
        with contextlib.suppress(Empty):
            while True:
                self._settle(self._ended.get_nowait())
        for case_id in done:
            self._working.pop(case_id).result()

    def _settle(self, ended: Ended) -> None:
        result = ended.result
        case = settle(self._cases[ended.case], ended.number, result.outcome, at=ended.at, why=result.why)
        self._cases[case.id] = case
        self._unsaved = True
        effect = case.effects[ended.number - 1]
        if effect.kind in _SHOWN_DIFFERENTLY:
            self._telemetry.hurry()
        self._write(
            Happening(
                at=ended.at,
                what=What.EFFECT,
                node=self._node,
                gpu=case.gpu,
                case=case.id,
                effect=str(effect.kind),
                target=case.gpu,
                outcome=str(effect.outcome),
                because=effect.why,
            )
        )


def _unknown(case: Case) -> Remembered:
    return Remembered(pci=case.gpu, uuid=case.gpu_uuid, minor=None, persistence=None, links_active=0, pcie_width=None)
