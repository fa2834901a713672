"""The periodic reading of the GPUs: taken beside the loop, remembered, and held against the table of findings.

What a finding is stands in isolation; what is done about it is decided elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpuward.agent.bench import Remembered
from gpuward.agent.sight import drained_gpus, new_memory
from gpuward.isolation.findings import Look
from gpuward.isolation.saved import SavedError
from gpuward.isolation.telemetry import (
    Round,
    Standing,
    fault_of,
    faults_of,
    pack_standing,
    stand,
    unpack_standing,
)
from gpuward.model.case import ENDED, Case
from gpuward.model.fault import Fault
from gpuward.model.happening import Happening, What
from gpuward.model.level import Level
from gpuward.model.node import GpuReading, NodeReading
from gpuward.ports import Clock, Driver, EdgeError

SILENT_READINGS = 3
"""As often in a row must the driver's tools fail before it is said (policy_other.csv, driver_hung)."""
SILENT = "The driver's tools did not answer three times in a row: the GPUs are unknown; give the node no new work."
_ANSWERS = "The driver's tools answer again."
_WHOLE_ROADS = frozenset({"nvml", "nvidia-smi"})
"""Roads that show every GPU that is not drained, by the driver's own word."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the GPUs are read, and how long one reading may take."""

    poll_seconds: float
    read_seconds: float


@dataclass(slots=True)
class _Learned:
    """What earlier readings taught: the last of each GPU by each road, and how often in a row it was not shown."""

    last: dict[tuple[str, str], GpuReading] = field(default_factory=dict)
    absent: dict[str, int] = field(default_factory=dict)
    speeds: dict[str, dict[int, float]] = field(default_factory=dict)


class Telemetry:
    """The readings of one server, and what stands after them. `warn` gets what a person should know."""

    def __init__(self, driver: Driver, clock: Clock, *, hands: Executor, pace: Pace, node: str) -> None:
        self._driver = driver
        self._clock = clock
        self._hands = hands
        self._pace = pace
        self._node = node
        self._poll: Future[NodeReading] | None = None
        self._begun = 0.0
        self._next = 0.0
        self._learned = _Learned()
        self._standing: tuple[Standing, ...] = ()
        self._told: set[tuple[str, Level]] = set()
        self._changed = False
        self._silent = 0
        self._answered = False
        self.reading: NodeReading | None = None
        """The newest; None when it failed."""
        self.memory: dict[str, Remembered] = {}
        """What is remembered of every GPU, by address."""

    @property
    def trouble(self) -> str:
        """Return that the driver's tools do not answer, as a sentence; empty while they do."""
        return SILENT if self._silent >= SILENT_READINGS else ""

    def look(self, cases: Iterable[Case], warn: Callable[[str], None]) -> list[Happening]:
        """Read the GPUs now and wait for it; return what is to be written down."""
        self._begun = self._clock.now()
        poll: Future[NodeReading] = Future()
        try:
            poll.set_result(self._driver.read(self._pace.read_seconds))
        except EdgeError as error:
            poll.set_exception(error)
        self._next = self._clock.monotonic() + self._pace.poll_seconds
        return self._take(poll, tuple(cases), warn)

    def turn(self, cases: Iterable[Case], warn: Callable[[str], None]) -> list[Happening]:
        """Take a reading that is done, or begin one that is due; return what is to be written down."""
        if self._poll is not None:
            if not self._poll.done():
                return []
            poll, self._poll = self._poll, None
            return self._take(poll, tuple(cases), warn)
        if self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + self._pace.poll_seconds
            self._begun = self._clock.now()
            self._poll = self._hands.submit(self._driver.read, self._pace.read_seconds)
        return []

    def hurry(self) -> None:
        """Let the next reading be due at once: what was read before is no longer so."""
        self._next = self._clock.monotonic()

    def of(self, pci: str) -> GpuReading | None:
        """Return a GPU as the newest reading shows it."""
        gpus = () if self.reading is None else self.reading.gpus
        return next((gpu for gpu in gpus if gpu.pci == pci), None)

    def faults(self) -> tuple[Fault, ...]:
        """Return what the readings show, as faults, while it stands."""
        return tuple(faults_of(self._standing, self._node))

    def has_changed(self) -> bool:
        """Return whether other findings stand than when this was asked last, so that they must be saved."""
        changed, self._changed = self._changed, False
        return changed

    def pack(self) -> dict[str, Any]:
        """Return what must survive a restart as JSON values. Counts do not: a first reading shows no growth."""
        return {
            "memory": [asdict(one) for one in self.memory.values()],
            "findings": [pack_standing(one) for one in self._standing],
            "speeds": {
                pci: {str(link): speed for link, speed in speeds.items()}
                for pci, speeds in self._learned.speeds.items()
            },
        }

    def unpack(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was packed, also by a version without findings. Raises SavedError, KeyError or TypeError."""
        self.memory = {one["pci"]: Remembered(**one) for one in saved["memory"]}
        self._standing = tuple(unpack_standing(one) for one in saved.get("findings", ()))
        self._told = {_worth(one) for one in self._standing if not one.quiet}
        try:
            self._learned.speeds = {
                pci: {int(link): float(speed) for link, speed in speeds.items()}
                for pci, speeds in saved.get("speeds", {}).items()
            }
        except (AttributeError, ValueError) as error:
            raise SavedError(f"the saved speeds of links cannot be read: {error!r}") from error

    # --- one reading ------------------------------------------------------------------------------------------------

    def _take(self, poll: Future[NodeReading], cases: tuple[Case, ...], warn: Callable[[str], None]) -> list[Happening]:
        try:
            reading = poll.result()
        except EdgeError as error:
            self.reading = None
            warn(f"the GPUs cannot be read: {error}")
            return self._fell_silent(warn)
        self.reading = reading
        self._remember(reading, cases)
        if not self._is_whole(reading, cases):
            return self._fell_silent(warn) if self._has_answered() else []
        return [*self._answers(), *self._find(reading, cases)]

    def _remember(self, reading: NodeReading, cases: tuple[Case, ...]) -> None:
        """Remember what the reading shows, except of GPUs under work: what they were before it counts."""
        touched = {case.gpu for case in cases if case.state not in ENDED and case.effects}
        fresh = new_memory(self.memory, reading)
        self.memory = {pci: self.memory.get(pci, now) if pci in touched else now for pci, now in fresh.items()}

    def _is_whole(self, reading: NodeReading, cases: tuple[Case, ...]) -> bool:
        """Return whether the driver answered for the server: when all GPUs are gone at once, it is the driver."""
        if reading.road not in _WHOLE_ROADS:
            return False
        return bool(reading.gpus) or self._expected() <= drained_gpus(cases)

    def _expected(self) -> set[str]:
        """Return the GPUs that the driver's tools have shown: only they tell a UUID."""
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

    def _find(self, reading: NodeReading, cases: tuple[Case, ...]) -> list[Happening]:
        at = Round(begun=self._begun, node=self._node, cases=cases)
        shown = {gpu.pci: gpu for gpu in reading.gpus}
        looks = {
            pci: look
            for pci in sorted(self._expected() | shown.keys())
            if (look := self._look(pci, shown, reading.road, at=at))
        }
        before, self._standing = self._standing, stand(self._standing, looks, at)
        self._changed = self._changed or self._standing != before
        for gpu in reading.gpus:
            self._learn(gpu, reading.road, at)
        new = [one for one in self._standing if not one.quiet and not one.over and _worth(one) not in self._told]
        self._told = {_worth(one) for one in self._standing if not one.quiet}
        return [self._observed(one) for one in new]

    def _look(self, pci: str, shown: Mapping[str, GpuReading], road: str, *, at: Round) -> Look | None:
        """Return the look at a GPU; None for one that we hide from the driver, or did when the reading was begun."""
        now = shown.get(pci)
        if now is None and at.is_quiet(pci):
            self._learned.absent.pop(pci, None)
            return None
        absent = self._learned.absent[pci] = 0 if now is not None else self._learned.absent.get(pci, 0) + 1
        was = self.memory.get(pci)
        return Look(
            before=self._learned.last.get((road, pci)),
            now=now,
            absent=absent,
            links_learned=0 if was is None else was.links_active,
            speeds=self._learned.speeds.get(pci, {}),
            fabric_at_rest=self._is_fabric_at_rest(pci, shown, at),
        )

    def _is_fabric_at_rest(self, pci: str, shown: Mapping[str, GpuReading], at: Round) -> bool:
        in_cases = any(case.gpu != pci and case.state not in ENDED for case in at.cases)
        gone = any(other not in shown or shown[other].lost for other in self._expected())
        return not in_cases and not gone

    def _learn(self, gpu: GpuReading, road: str, at: Round) -> None:
        """Note the reading for the next one. A count that is not told keeps the last; after a repair all begin anew."""
        last = self._learned.last
        if at.is_quiet(gpu.pci):
            for key in [key for key in last if key[1] == gpu.pci]:
                del last[key]
        old = last.get((road, gpu.pci))
        if old is not None and gpu.ecc.volatile is None:
            gpu = replace(gpu, ecc=replace(gpu.ecc, volatile=old.ecc.volatile))
        last[road, gpu.pci] = gpu
        best = self._learned.speeds.setdefault(gpu.pci, {})
        for link in gpu.links:
            if link.active and link.speed_gb_per_second is not None:
                best[link.link] = max(best.get(link.link, 0.0), link.speed_gb_per_second)

    def _observed(self, one: Standing) -> Happening:
        fault = fault_of(one, self._node)
        happening = self._happening(What.OBSERVED, rule=" ".join(fault.verdict.rules), because=one.because)
        return replace(happening, gpu=one.pci, outcome=str(fault.verdict.level))

    def _happening(self, what: What, *, rule: str, because: str) -> Happening:
        return Happening(at=self._clock.now(), what=what, node=self._node, rule=rule, because=because)


def _worth(one: Standing) -> tuple[str, Level]:
    """Return what makes a finding worth a line: that it is there, and how bad it is."""
    return one.id, one.row.level
