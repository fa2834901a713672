"""The periodic reading of the GPUs: taken beside the loop, remembered, and held against the table of findings.

What a finding is stands in isolation; what is done about it is decided elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpuward.agent.bench import Remembered
from gpuward.agent.drains import Absence, OtherDrains
from gpuward.agent.exported import Exported, LogShowed
from gpuward.agent.polling import WHOLE_ROADS, Polled, Sources, poll
from gpuward.agent.sight import drained_gpus, is_lost, new_memory, remembered
from gpuward.isolation.dcgm import EXPORTER_LAG_SECONDS, filled
from gpuward.isolation.findings import Grading, Look, by_row
from gpuward.isolation.saved import SavedError
from gpuward.isolation.telemetry import (
    Round,
    Standing,
    Worth,
    fault_of,
    faults_of,
    pack_standing,
    stand,
    unpack_standing,
)
from gpuward.model.case import ENDED, Case
from gpuward.model.fault import Fault
from gpuward.model.gpu import Gpu
from gpuward.model.happening import Happening, What
from gpuward.model.node import GpuReading, NodeReading
from gpuward.ports import Clock, Driver, EdgeError, Exporter

SILENT_READINGS = 3
"""As often in a row must the driver's tools fail before it is said (policy_other.csv, driver_hung)."""
SILENT = "The driver's tools did not answer three times in a row: the GPUs are unknown; give the node no new work."
_ANSWERS = "The driver's tools answer again."
_EXPORTER = "dcgm-exporter"
"""As a road: a count that it told is held against its own last one only."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the GPUs are read, and how long one reading, and the exporter after it, may take."""

    poll_seconds: float
    read_seconds: float
    exporter_seconds: float = 5.0


@dataclass(slots=True)
class _Learned:
    """What earlier readings taught: the last of each GPU by each road, and how often in a row it was not shown."""

    last: dict[tuple[str, str], GpuReading] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """The last count of uncorrectable errors of each GPU by each road that told one."""
    absent: dict[str, int] = field(default_factory=dict)
    speeds: dict[str, dict[int, float]] = field(default_factory=dict)


class Telemetry:
    """The readings of one server, and what stands after them. `warn` gets what a person should know.

    `grading` gives findings their level under the settings, `exporter` fills in what the driver's tools do not tell,
    and `log_showed` returns the (address, code) of each Xid that the kernel log has shown.
    """

    def __init__(  # noqa: PLR0913  two ports and hands that it needs, three more that a server may have
        self,
        driver: Driver,
        clock: Clock,
        *,
        hands: Executor,
        pace: Pace,
        node: str,
        grading: Grading = by_row,
        exporter: Exporter | None = None,
        log_showed: LogShowed | None = None,
    ) -> None:
        self._sources = Sources(driver, clock, exporter)
        self._clock = clock
        self._hands = hands
        self._pace = pace
        self._node = node
        self._grading = grading
        self._exported = Exported(log_showed)
        self._drains = OtherDrains()
        self._poll: Future[Polled] | None = None
        self._begun = 0.0
        self._next = 0.0
        self._learned = _Learned()
        self._standing: tuple[Standing, ...] = ()
        self._told: set[Worth] = set()
        self._changed = False
        self._silent = 0
        self._answered = False
        self.reading: NodeReading | None = None
        """The newest, with what the exporter filled in; None when it failed."""
        self.memory: dict[str, Remembered] = {}
        """What is remembered of every GPU, by address."""

    @property
    def trouble(self) -> str:
        """Return that the driver's tools do not answer, as a sentence; empty while they do."""
        return SILENT if self._silent >= SILENT_READINGS else ""

    @property
    def drained_by_others(self) -> frozenset[str]:
        """Return the addresses of GPUs that are drained, and by no case of ours: they are out of service, not lost."""
        return self._drains.gpus

    def expect(self, listed: Iterable[Gpu]) -> None:
        """Remember GPUs that the driver lists and that no reading has shown yet: somebody may have drained them.

        Only for that are they looked at: a program that may see a part of the GPUs does not miss the others.
        """
        for gpu in listed:
            if gpu.uuid is not None and gpu.pci not in self.memory:
                self.memory[gpu.pci] = Remembered(
                    pci=gpu.pci,
                    uuid=gpu.uuid,
                    minor=gpu.minor,
                    persistence=None,
                    links_active=0,
                    pcie_width=None,
                    model=gpu.model,
                    shown=False,
                )

    def look(self, cases: Iterable[Case], warn: Callable[[str], None]) -> list[Happening]:
        """Read the GPUs now and wait for it; return what is to be written down."""
        cases = tuple(cases)
        self._begin()
        taken: Future[Polled] = Future()
        try:
            taken.set_result(self._ask(self._to_ask(cases)))
        except EdgeError as error:
            taken.set_exception(error)
        return self._take(taken, cases, warn)

    def turn(self, cases: Iterable[Case], warn: Callable[[str], None]) -> list[Happening]:
        """Take a reading that is done, or begin one that is due; return what is to be written down."""
        if self._poll is not None:
            if not self._poll.done():
                return []
            taken, self._poll = self._poll, None
            return self._take(taken, tuple(cases), warn)
        if self._clock.monotonic() >= self._next:
            self._begin()
            self._poll = self._hands.submit(self._ask, self._to_ask(tuple(cases)))
        return []

    def hurry(self) -> None:
        """Let the next reading be due at once: what was read before is no longer so."""
        self._next = self._clock.monotonic()

    def of(self, pci: str) -> GpuReading | None:
        """Return a GPU as the newest reading shows it."""
        gpus = () if self.reading is None else self.reading.gpus
        return next((gpu for gpu in gpus if gpu.pci == pci), None)

    def confirms(self, fault: Fault) -> bool:
        """Return whether the newest reading confirms what an old line says of a GPU (facts/rules.md R-history).

        Of a node's own fault no reading tells.
        """
        if fault.pci is None:
            return False
        now = self.of(fault.pci)
        if now is None:
            hidden = fault.pci in self.drained_by_others
            return not hidden and self.reading is not None and is_lost(fault.code, fault.kind, None)
        asked = now.recovery_action not in {None, "None"}
        return bool(now.lost or asked or now.remap.pending or now.remap.failed)

    def faults(self) -> tuple[Fault, ...]:
        """Return what the readings show, as faults, while it stands."""
        return tuple(faults_of(self._standing, self._node, grading=self._grading))

    def has_changed(self) -> bool:
        """Return whether what must survive a restart has changed since this was asked last, so that it is saved."""
        changed, self._changed = self._changed, False
        return changed

    def pack(self) -> dict[str, Any]:
        """Return what must survive a restart as JSON values. Counts do not: a first reading shows no growth.

        Nor do levels: a finding is graded anew, by the settings of the day.
        """
        return {
            "memory": [asdict(one) for one in self.memory.values()],
            "findings": [pack_standing(one) for one in self._standing],
            "speeds": {
                pci: {str(link): speed for link, speed in speeds.items()}
                for pci, speeds in self._learned.speeds.items()
            },
            "drained_by_others": sorted(self._drains.gpus),
            "xids_settled": self._exported.pack(),
        }

    def unpack(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was packed, also by a version without findings. Raises SavedError, KeyError or TypeError."""
        self.memory = {one["pci"]: remembered(one) for one in saved["memory"]}
        self._standing = tuple(unpack_standing(one) for one in saved.get("findings", ()))
        self._told = {one.worth for one in self._standing if not one.quiet}
        self._drains.gpus = frozenset(saved.get("drained_by_others", ()))
        self._exported.unpack(saved.get("xids_settled", ()))
        try:
            self._learned.speeds = {
                pci: {int(link): float(speed) for link, speed in speeds.items()}
                for pci, speeds in saved.get("speeds", {}).items()
            }
        except (AttributeError, ValueError) as error:
            raise SavedError(f"the saved speeds of links cannot be read: {error!r}") from error

    # --- one reading ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._next = self._clock.monotonic() + self._pace.poll_seconds
        self._begun = self._clock.now()

    def _to_ask(self, cases: tuple[Case, ...]) -> frozenset[str]:
        """Return the GPUs that nobody of us hides: one that is not shown may be drained by somebody else."""
        return frozenset(self._listed() - drained_gpus(cases))

    def _ask(self, expected: frozenset[str]) -> Polled:
        """Poll. Runs beside the loop, and touches nothing of what is remembered."""
        return poll(
            self._sources,
            expected,
            read_seconds=self._pace.read_seconds,
            exporter_seconds=self._pace.exporter_seconds,
        )

    def _take(self, taken: Future[Polled], cases: tuple[Case, ...], warn: Callable[[str], None]) -> list[Happening]:
        try:
            polled = taken.result()
        except EdgeError as error:
            self.reading = None
            warn(f"the GPUs cannot be read: {error}")
            return self._fell_silent(warn)
        at = Round(begun=self._begun, node=self._node, cases=cases, grading=self._grading)
        reading, said = self._completed(polled, at, warn)
        self.reading = reading
        self._remember(reading, cases)
        if not self._is_whole(polled, at):
            return said + (self._fell_silent(warn) if self._has_answered() else [])
        return [*said, *self._answers(), *self._find(reading, polled, at)]

    def _completed(self, polled: Polled, at: Round, warn: Callable[[str], None]) -> tuple[NodeReading, list[Happening]]:
        """Return the reading with what the exporter adds, and what is to be said of the exporter's Xids.

        It adds nothing to what the bus alone shows: then the tools do not answer, and it is no stand-in for them.
        """
        reading = polled.reading
        told = self._exported.answer(polled.exported, warn)
        if not told or reading.road not in WHOLE_ROADS:
            return reading, []
        stale = {gpu.pci for gpu in reading.gpus if at.is_quiet(gpu.pci, lag_seconds=EXPORTER_LAG_SECONDS)}
        places = {pci: one.uuid for pci, one in self.memory.items()}
        places |= {gpu.pci: gpu.uuid for gpu in reading.gpus if gpu.uuid is not None}
        before = self._exported.pack()
        unseen = self._exported.unseen_xids(told, places)
        self._changed = self._changed or self._exported.pack() != before
        return filled(reading, told, apart=stale), [self._said(pci, because) for pci, because in unseen]

    def _remember(self, reading: NodeReading, cases: tuple[Case, ...]) -> None:
        """Remember what the reading shows, except of GPUs under work: what they were before it counts."""
        touched = {case.gpu for case in cases if case.state not in ENDED and case.effects}
        fresh = new_memory(self.memory, reading)
        before = self._expected(), _mig_devices(self.memory)
        self.memory = {pci: self.memory.get(pci, now) if pci in touched else now for pci, now in fresh.items()}
        # A GPU that does not come back from a restart must be missed, also where nothing else was ever saved.
        self._changed = self._changed or (self._expected(), _mig_devices(self.memory)) != before

    def _is_whole(self, polled: Polled, at: Round) -> bool:
        """Return whether the driver answered for the server: when all GPUs are gone at once, it is the driver."""
        if polled.reading.road not in WHOLE_ROADS:
            return False
        drained = {pci for pci, is_so in polled.drained.items() if is_so}
        return bool(polled.reading.gpus) or self._expected() <= drained_gpus(at.cases) | drained

    def _expected(self) -> set[str]:
        """Return the GPUs that the driver's tools have shown: only they tell a UUID."""
        return {pci for pci in self._listed() if self.memory[pci].shown}

    def _listed(self) -> set[str]:
        """Return the GPUs that are known by their UUID, also those that only the driver's list has named."""
        return {pci for pci, one in self.memory.items() if one.uuid is not None}

    def _has_answered(self) -> bool:
        """Return whether the tools ever answered here: where there are none, nothing hangs."""
        return self._answered or bool(self._expected())

    def _fell_silent(self, warn: Callable[[str], None]) -> list[Happening]:
        self._silent += 1
        if self._silent != SILENT_READINGS:
            return []
        warn(SILENT)
        return [self._happening(What.SAID, rule="other:driver_hung", because=SILENT)]

    def _answers(self) -> list[Happening]:
        was_silent, self._silent, self._answered = bool(self.trouble), 0, True
        return [self._happening(What.SAID, rule="other:driver_hung", because=_ANSWERS)] if was_silent else []

    def _find(self, reading: NodeReading, polled: Polled, at: Round) -> list[Happening]:
        shown = {gpu.pci: gpu for gpu in reading.gpus}
        roads = {gpu.pci: reading.road if gpu.ecc.volatile is not None else _EXPORTER for gpu in polled.reading.gpus}
        said = self._note_drains(polled, shown, at)
        looks = {
            pci: self._look(pci, shown, reading.road, counted=roads.get(pci, reading.road), at=at)
            for pci in sorted(self._expected() | shown.keys())
            # What we hide from the driver, or did when the reading was begun, is not looked at.
            if pci in shown or not at.is_quiet(pci)
        }
        before, self._standing = self._standing, stand(self._standing, looks, at)
        self._changed = self._changed or self._standing != before
        for gpu in reading.gpus:
            self._learn(gpu, reading.road, counted=roads[gpu.pci], at=at)
        new = [one for one in self._standing if not one.quiet and not one.over and one.worth not in self._told]
        self._told = {one.worth for one in self._standing if not one.quiet}
        return [*said, *(self._observed(one) for one in new)]

    def _note_drains(self, polled: Polled, shown: Mapping[str, GpuReading], at: Round) -> list[Happening]:
        """Count who is not shown, and note who was drained by somebody else; return what is to be said of that."""
        expected = self._listed()
        ours = {pci for pci in expected if at.is_quiet(pci)} | drained_gpus(at.cases)
        away = expected - shown.keys() - ours - {pci for pci, is_so in polled.drained.items() if is_so}
        self._learned.absent = {pci: self._learned.absent.get(pci, 0) + 1 for pci in away}
        before = self._drains.gpus
        said = self._drains.note(
            Absence(shown=shown.keys(), ours=ours, drained=polled.drained, counts=self._learned.absent)
        )
        self._changed = self._changed or self._drains.gpus != before
        return [self._said(pci, because) for pci, because in said]

    def _look(self, pci: str, shown: Mapping[str, GpuReading], road: str, *, counted: str, at: Round) -> Look:
        """Return the look at a GPU; `counted` is the road of its count of errors."""
        before = self._learned.last.get((road, pci))
        if before is not None:
            count = self._learned.counts.get((counted, pci))
            before = replace(before, ecc=replace(before.ecc, volatile=count))
        was = self.memory.get(pci)
        return Look(
            before=before,
            now=shown.get(pci),
            absent=self._learned.absent.get(pci, 0),
            drained=pci in self._drains.gpus,
            links_learned=0 if was is None else was.links_active,
            speeds=self._learned.speeds.get(pci, {}),
            fabric_at_rest=self._is_fabric_at_rest(pci, shown, at),
        )

    def _is_fabric_at_rest(self, pci: str, shown: Mapping[str, GpuReading], at: Round) -> bool:
        in_cases = any(case.gpu != pci and case.state not in ENDED for case in at.cases)
        gone = any(other not in shown or shown[other].lost for other in self._expected())
        return not in_cases and not gone

    def _learn(self, gpu: GpuReading, road: str, *, counted: str, at: Round) -> None:
        """Note the reading for the next one. A count that is not told keeps the last; after a repair all begin anew."""
        if at.is_quiet(gpu.pci):
            self._forget(gpu.pci)
        self._learned.last[road, gpu.pci] = gpu
        if gpu.ecc.volatile is not None:
            self._learned.counts[counted, gpu.pci] = gpu.ecc.volatile
        best = self._learned.speeds.setdefault(gpu.pci, {})
        for link in gpu.links:
            if link.active and link.speed_gb_per_second is not None:
                best[link.link] = max(best.get(link.link, 0.0), link.speed_gb_per_second)

    def _forget(self, pci: str) -> None:
        learned = self._learned
        learned.last = {key: last for key, last in learned.last.items() if key[1] != pci}
        learned.counts = {key: count for key, count in learned.counts.items() if key[1] != pci}

    def _observed(self, one: Standing) -> Happening:
        fault = fault_of(one, self._node, grading=self._grading)
        happening = self._happening(What.OBSERVED, rule=" ".join(fault.verdict.rules), because=fault.verdict.because)
        return replace(happening, gpu=one.pci, outcome=str(fault.verdict.level))

    def _said(self, pci: str, because: str) -> Happening:
        return replace(self._happening(What.SAID, rule="", because=because), gpu=pci)

    def _happening(self, what: What, *, rule: str, because: str) -> Happening:
        return Happening(at=self._clock.now(), what=what, node=self._node, rule=rule, because=because)


def _mig_devices(memory: Mapping[str, Remembered]) -> list[tuple[str, ...] | None]:
    return [one.mig_uuids for one in memory.values()]
