"""The faults of a node in a cluster, as they are heard and read: which go on, which are history, which to tell.

What is history acts, and is told, once a live reading confirms it (facts/rules.md R-history); until then only the
journal has it. What is done about a fault is not here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.agent.outbox import Outbox
from gpuward.agent.telemetry import Telemetry
from gpuward.agent.watch import Told
from gpuward.isolation.merge import Merger
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.level import Level
from gpuward.model.node import GpuHolder
from gpuward.model.signal import Moment
from gpuward.ports import Clock, EdgeError, Holders

AGAIN_SECONDS = 30.0
"""How often at most is told that the lines of a fault go on: that they came after a repair must be known."""


@dataclass(frozen=True, slots=True)
class Ears:
    """What hearing needs: who holds a GPU, whether a fault is this machine's, and where to warn."""

    holders: Holders
    is_ours: Callable[[Fault], bool]
    warn: Callable[[str], None]


class Hearing:
    """What was heard. It shares the outbox and the telemetry with the loop that owns it, in one thread."""

    def __init__(self, outbox: Outbox, telemetry: Telemetry, clock: Clock, *, ears: Ears) -> None:
        self._outbox = outbox
        self._telemetry = telemetry
        self._clock = clock
        self._ears = ears
        self._polled: dict[str, Fault] = {}
        self._live: dict[str, tuple[Moment, float]] = {}
        """By fault, its newest line as it was told, and when that was, on the monotonic clock."""
        self._history: set[str] = set()
        self._has_changed = False
        self.shown: set[tuple[str, int]] = set()
        """The (address, code) of each Xid that the log has shown."""
        self.newest: float | None = None
        """When, on the monotonic clock, a fault on which work is due was first put down; None: none in this life."""

    @property
    def history(self) -> frozenset[str]:
        """Return the ids of the faults that are older than this agent and that nothing confirms."""
        return frozenset(self._history)

    def hear(self, told: Told) -> bool:
        """Take a change of a fault; False when it is another machine's."""
        fault = told.change.fault
        if not self._ears.is_ours(fault):
            return False
        if fault.pci is not None and fault.code is not None:
            self.shown.add((fault.pci, fault.code))
        if told.history and told.change.kind is ChangeKind.BEGAN:
            self._history.add(fault.id)
            self._has_changed = True
        over = told.change.kind is ChangeKind.CLOSED
        if fault.id not in self._history:
            self._put(fault, at=told.at, over=over)
        elif over:
            self._history.discard(fault.id)
            self._has_changed = True
        return True

    def read(self) -> tuple[Fault, ...]:
        """Put down what the readings show now, and what they show no more; return the former."""
        now = {fault.id: fault for fault in self._telemetry.faults()}
        at = self._clock.now()
        for fault in now.values():
            self._put(fault, at=at)
        for fault_id in self._polled.keys() - now.keys():
            self._put(self._polled[fault_id], at=at, over=True)
        self._polled = now
        return tuple(now.values())

    def live(self, merger: Merger) -> tuple[Fault, ...]:
        """Return the faults of this machine's log that go on, oldest first; history that is confirmed now is one.

        One that an earlier life heard of, and did not live to put down, is put down now; so is one whose lines go on.
        """
        ours = [fault for fault in merger.faults() if self._ears.is_ours(fault)]
        for fault in ours:
            if fault.id in self._history and self._telemetry.confirms(fault):
                self._history.discard(fault.id)
                self._has_changed = True
        live = tuple(fault for fault in ours if fault.id not in self._history)
        now = self._clock.monotonic()
        self._live = {fault.id: self._tended(fault, now) for fault in live}
        return live

    def _tended(self, fault: Fault, now: float) -> tuple[Moment, float]:
        """Put down a fault that was not yet, and now and then that its lines go on; return what was told, and when."""
        told = self._live.get(fault.id)
        goes_on = told is not None and told[0] != fault.last and fault.verdict.level >= Level.P1
        if told is not None and not (goes_on and now - told[1] >= AGAIN_SECONDS):
            return told
        self._put(fault, at=self._clock.now())
        return fault.last, now

    def has_changed(self) -> bool:
        """Return whether what must survive a restart has changed since this was asked last."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def pack(self) -> dict[str, Any]:
        """Return what must survive a restart, as JSON values."""
        return {"history": sorted(self._history)}

    def unpack(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was packed, after the telemetry has. Raises KeyError or TypeError."""
        self._history = set(saved["history"])
        self._polled = {fault.id: fault for fault in self._telemetry.faults()}

    def _put(self, fault: Fault, *, at: float, over: bool = False) -> None:
        new = self._outbox.put(fault, at=at, over=over, holders=self._holders_of)
        if new and fault.verdict.level >= Level.P1:
            self.newest = self._clock.monotonic()

    def _holders_of(self, fault: Fault) -> tuple[GpuHolder, ...]:
        """Return who holds the GPU of a fault at this moment; nobody where none can look."""
        was = self._telemetry.memory.get(fault.pci or "")
        if was is None or was.minor is None:
            return ()
        try:
            return self._ears.holders.of(was.minor)
        except EdgeError as error:
            self._ears.warn(f"who held GPU {was.pci} is not known: {error}")
            return ()
