"""The loop of one GPU server: follow the kernel log, decide, have it done on the bench, look again. Rules are not here.

What is decided is saved before it is done, and what was done comes back as an outcome in the next round. A round never
waits for the bench: effects of different GPUs run side by side, those of one case one after the other.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from datetime import tzinfo

from gpuward.agent import entries
from gpuward.agent.bench import Tools
from gpuward.agent.board import Board
from gpuward.agent.eyes import SHOWN_DIFFERENTLY, Eyes
from gpuward.agent.outfit import NO_SENSES, Keeping, Ordered, Plan, Senses
from gpuward.agent.pauses import Pauses
from gpuward.agent.shift import Ended, Shift
from gpuward.agent.sight import obstacle_of, sight_of
from gpuward.agent.steady import Steady, words_of
from gpuward.agent.telling import Telling
from gpuward.agent.watch import READ_SECONDS, Outside, Told, go_round
from gpuward.agent.whose import words_of as words_of_others
from gpuward.isolation.decide import Decision, Snapshot, decide
from gpuward.isolation.drill import Drill, drilled
from gpuward.isolation.machine import ask, forgo, settle, shift
from gpuward.isolation.merge import Merger
from gpuward.isolation.packed import pack_case, unpack_case
from gpuward.isolation.saved import SavedError
from gpuward.model.case import ENDED, Case, Mode
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.happening import Happening
from gpuward.model.level import Level
from gpuward.ports import Refused

BUSY_SECONDS = 0.05
"""How long a round waits for lines while the bench works, so that its outcomes are seen soon."""
ENDED_KEPT = 200
"""Cases that have ended and are still remembered, for people and for counting resets."""
CASES_REMEDY = (
    "marks of ours may stand: look which GPUs are drained (`nvidia-smi drain -p ADDRESS -q`), lift that (`-m 0`), turn "
    "persistence mode on again where it was (`nvidia-smi -i ADDRESS -pm 1`), then remove the file"
)
_NO_WITNESS = "The line is older than this agent, and nothing that can be read now confirms it."


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
        senses: Senses = NO_SENSES,
        hands: Executor,
        say: Callable[[Happening], None],
        warn: Callable[[str], None],
        timezone: tzinfo,
        node: str,
    ) -> None:
        self._outside = outside
        self._new_merger = new_merger
        self._keeping = keeping
        self._plan = plan
        self._warn = warn
        self._timezone = timezone
        self._node = node
        self._cases: dict[str, Case] = {}
        self._history: set[str] = set()
        self._boot: str | None = None
        self._pauses = Pauses(keeping.pauses)
        self._eyes = Eyes(
            outside,
            tools,
            plan=plan,
            senses=senses,
            hands=hands,
            node=node,
            warn=warn,
            log_showed=lambda: self._shown,
        )
        self._telemetry = self._eyes.telemetry
        self._shown: set[tuple[str, int]] = set()
        self._shift = Shift(hands, self._eyes.tools, outside.clock, pauses=self._pauses, telemetry=self._telemetry)
        self._steady = Steady(outside.clock)
        self._orders: list[Ordered] = []
        self._drills: list[Drill] = []
        self._unsaved = False
        self._telling = Telling(keeping.chronicle, say=say, warn=warn)
        self._lock = threading.Lock()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Work until `stopped` says so. Raises EdgeError when the log cannot be read, or the state not used."""
        self._load()
        self._pauses.load()
        self._eyes.load_portraits()
        self._telling.add(self._eyes.open(self._real()))
        rounds = self._eyes.rounds(
            self._new_merger,
            tell=self._hear,
            each_round=self.round,
            opening=f"watching {{source}} in mode {self._plan.mode}",
            timezone=self._timezone,
        )
        go_round(rounds, stopped)

    def look(self) -> None:
        """Read the GPUs once, for `board`; nothing is followed and nothing is done. Raises Refused as `run` does."""
        self._load()
        self._eyes.open(self._real())

    def order(self, ordered: Ordered) -> None:
        """Take a person's word on the case of a GPU; it is heard in the next round. Called from any thread."""
        with self._lock:
            self._orders.append(ordered)

    def drill(self, code: int, gpu: str, mode: Mode | None) -> Fault | None:
        """Make up the fault that an Xid on a GPU would be, and let it be dealt with in the next round, in any mode.

        Return it; None when no row takes this code for a fault. Nothing on the machine is changed by it. Called from
        any thread.
        """
        fault = drilled(code, gpu, self._new_merger(), node=self._node, at=self._outside.clock.now())
        if fault is not None:
            with self._lock:
                self._drills.append(Drill(fault, mode or self._plan.mode))
        return fault

    def cases(self) -> tuple[Case, ...]:
        """Return the cases as they are, newest last."""
        return tuple(self._cases.values())

    def board(self) -> Board:
        """Return what people may see. Called from any thread."""
        return self._eyes.board(self._plan.mode, self._cases.values())

    def round(self, merger: Merger) -> float:
        """Do what is due between two looks at the log; return how long the next look may wait."""
        self._follow_clock(merger)
        for ended in self._shift.ended():
            self._settle(ended)
        found = self._eyes.turn(merger, self._real(), portrayed=self._cases.values())
        # What stands is saved with the cases: a finding that a case was closed over must not come back as a new one.
        self._unsaved = self._telemetry.has_changed() or self._unsaved
        self._telling.add(found)
        self._take_orders()
        with self._lock:
            drills, self._drills = tuple(self._drills), []
        decision = decide(self._snapshot(merger, drills))
        self._tell_drills(drills, decision)
        if self._keep(decision):
            self._shift.begin(self._cases.values())
        return BUSY_SECONDS if self._shift.busy else READ_SECONDS

    def _follow_clock(self, merger: Merger) -> None:
        """Let spans of time go on as they were when the clock is set, or the machine has slept."""
        jump = self._steady.jump_seconds()
        if jump:
            self._steady.follow((*merger.faults(), *self._telemetry.faults()), jump)
            self._cases = {case.id: shift(case, jump) for case in self._cases.values()}
            self._telling.add([entries.said(words_of(jump), self._node, gpu="", at=self._outside.clock.now())])

    # --- what is seen ---------------------------------------------------------------------------------------------

    def _hear(self, told: Told) -> None:
        """Note a change of a fault: what is history must be confirmed before it acts."""
        fault = told.change.fault
        if fault.pci is not None and fault.code is not None:
            self._shown.add((fault.pci, fault.code))
        if told.history and told.change.kind is ChangeKind.BEGAN:
            self._history.add(fault.id)
        heard = f"{fault.id} {told.change.kind} {fault.verdict.level} {fault.count}"
        # What is read again after a crash was written down before it.
        if told.change.kind is not ChangeKind.CLOSED and self._telling.is_news(heard):
            self._telling.add([entries.observed(fault, self._node, at=told.at)])

    def _tell_drills(self, drills: Iterable[Drill], decision: Decision) -> None:
        """Write down which drills were asked for, each with its case where it has opened one."""
        now, opened = self._outside.clock.now(), {case.fault: case.id for case in decision.cases}
        for drill in drills:
            seen = entries.observed(drill.fault, self._node, at=now)
            self._telling.add([replace(seen, case=opened.get(drill.fault.id, ""), because=f"Drill: {seen.because}")])

    def _real(self) -> tuple[Case, ...]:
        """Return the cases that are no drills: only they have marks on the machine."""
        return tuple(case for case in self._cases.values() if case.drill is None)

    def _snapshot(self, merger: Merger, drills: tuple[Drill, ...]) -> Snapshot:
        now = self._outside.clock.now()
        live = (*self._ours(merger.faults()), *self._telemetry.faults())
        self._steady.clamp(live, now)
        faults = tuple(map(self._steady.dated, live))
        alive = {fault.id for fault in faults}
        open_cases = [case for case in self._cases.values() if case.state not in ENDED]
        cased = {case.fault for case in open_cases}
        # The others open no case and are in none: a log may hold thousands of them.
        faults = tuple(fault for fault in faults if fault.verdict.level >= Level.P1 or fault.id in cased)
        seen = self._eyes.survey.sights(self._cases.values())
        return Snapshot(
            now=now,
            mode=self._plan.mode,
            node=self._node,
            cases=tuple(self._cases.values()),
            faults=faults,
            over=frozenset(case.fault for case in open_cases if case.fault not in alive),
            idle_reasons={fault.id: _NO_WITNESS for fault in faults if self._is_only_history(fault)},
            gpus={pci: sight_of(one) for pci, one in seen.items()},
            known=frozenset(self._telemetry.memory),
            obstacles={case.gpu: obstacle_of(seen[case.gpu]) for case in open_cases},
            brake=self._plan.brake,
            budget=self._plan.budget,
            drills=drills,
            probation_seconds=self._plan.probation_seconds,
        )

    def _is_only_history(self, fault: Fault) -> bool:
        """Return whether a fault is older than this agent and no live reading confirms it (R-history)."""
        return fault.id in self._history and fault.pci is not None and not self._telemetry.confirms(fault)

    def _ours(self, faults: list[Fault]) -> list[Fault]:
        """Return the faults of this machine: a log may be gathered from many."""
        hosts = self._eyes.hosts()
        others = {fault.node for fault in faults if fault.node is not None and hosts.is_elsewhere(fault.node)}
        if others:
            self._eyes.warn_once(words_of_others(others))
        return [fault for fault in faults if fault.node not in others]

    # --- what is kept ---------------------------------------------------------------------------------------------

    def _keep(self, decision: Decision) -> bool:
        """Save what was decided, then write it down. False when it could not be saved: then nothing may be done.

        What is to be written is saved first, so that it is written once, whenever the agent is killed.
        """
        cases = {case.id: case for case in decision.cases}
        news = decision.happenings or not self._telling.is_empty()
        if self._unsaved or news or cases != self._cases:
            ended = [case.id for case in cases.values() if case.state in ENDED]
            for case_id in ended[: max(0, len(ended) - ENDED_KEPT)]:
                del cases[case_id]
            if not self._save(cases, decision.happenings):
                self._telling.write()
                return False
            self._cases = cases
            self._unsaved = False
        self._telling.add(decision.happenings)
        self._telling.write()
        return True

    def _save(self, cases: Mapping[str, Case], decided: Iterable[Happening]) -> bool:
        saved = {
            "cases": [pack_case(case) for case in cases.values()],
            **self._telemetry.pack(),
            "history": sorted(self._history),
            **self._telling.pack(decided),
            **self._steady.pack(self._boot),
        }
        try:
            self._keeping.cases.save(saved)
        except Refused as error:
            self._eyes.warn_once(f"nothing is done, as what was decided cannot be saved: {error}")
            return False
        return True

    def _load(self) -> None:
        """Go on from what was saved. A state that cannot be used is Refused: marks of ours may stand on the machine."""
        self._boot = self._outside.log.origin().boot
        saved = self._keeping.cases.load()
        if saved is None:
            return
        try:
            known = [unpack_case(one) for one in saved["cases"]]
            self._telemetry.unpack(saved)
            self._history = set(saved["history"])
            self._telling.unpack(saved)
            self._steady.unpack(saved, self._boot)
        except (SavedError, KeyError, TypeError, ValueError) as error:
            raise Refused(f"the saved cases cannot be used ({error}); {CASES_REMEDY}") from error
        for case in known:
            self._cases[case.id] = self._resumed(case)

    def _resumed(self, case: Case) -> Case:
        """Return a case that was saved, and note what of it this mode does not allow any more."""
        after = forgo(case, self._plan.mode, at=self._outside.clock.now())
        changed = [now for was, now in zip(case.effects, after.effects, strict=True) if was != now]
        self._telling.add(entries.done(after, now) for now in changed)
        return after

    # --- what is done ---------------------------------------------------------------------------------------------

    def _take_orders(self) -> None:
        with self._lock:
            orders, self._orders = self._orders, []
        for one in orders:
            for case in [case for case in self._cases.values() if case.gpu == one.gpu and case.state not in ENDED]:
                self._cases[case.id] = ask(case, one.order, forced=one.forced)
                self._unsaved = True

    def _settle(self, ended: Ended) -> None:
        result = ended.result
        case = settle(self._cases[ended.case], ended.number, result.outcome, at=ended.at, why=result.why)
        self._cases[case.id] = case
        self._unsaved = True
        effect = case.effects[ended.number - 1]
        if effect.kind in SHOWN_DIFFERENTLY:
            self._telemetry.hurry()
        self._telling.add([entries.done(case, effect)])
