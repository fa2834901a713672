"""The time of one machine, and its faults that go on or wait in it. What a fault means is in judge."""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuward.isolation.live import LiveFault, elapsed_seconds
from gpuward.model.signal import NEVER, Moment


@dataclass(slots=True)
class Timeline:
    """The clock of one machine as its lines tell it, and what waits for that clock."""

    now: Moment = NEVER
    boot: str | None = None
    heard: bool = False
    """A line told the time since the last `rest`."""
    going: dict[float, OrderedDict[str, LiveFault]] = field(default_factory=dict)
    """Faults that go on, by how long they linger; in each the one that was silent for longest comes first."""
    waiting: dict[tuple[str, float], OrderedDict[str, LiveFault]] = field(default_factory=dict)
    """Faults held for a cause, by boot and by how long; in each the one that waits for longest comes first."""

    def hear(self, moment: Moment, boot: str | None) -> None:
        """Take the time of a line. Within a boot the clock never goes back: a late line does not set it."""
        self.heard = True
        if boot != self.boot or elapsed_seconds(self.now, moment, same_boot=True) >= 0:
            self.now = moment
            self.boot = boot

    def rest(self, seconds: float) -> None:
        """Let a time pass in which the machine wrote nothing; one whose own lines told the time needs none."""
        if not self.heard:
            self.now = Moment(
                wall=None if self.now.wall is None else self.now.wall + seconds,
                uptime=None if self.now.uptime is None else self.now.uptime + seconds,
            )
        self.heard = False

    def now_for(self, live: LiveFault) -> Moment:
        """Return the newest moment on the clocks that this fault shares."""
        return self.now if live.boot == self.boot else Moment(wall=self.now.wall, uptime=None)

    def passed_seconds(self, earlier: Moment, live: LiveFault) -> float:
        """Return how long ago that was; for ever when the machine has started again since and no clock tells."""
        same_boot = live.boot == self.boot
        if not same_boot and (earlier.wall is None or self.now.wall is None):
            return math.inf
        return elapsed_seconds(earlier, self.now, same_boot=same_boot)

    def go_on(self, live: LiveFault) -> None:
        """Take up a fault, or one that a line has just been added to, as the one that was heard of last."""
        going = self.going.setdefault(live.linger_seconds, OrderedDict())
        going[live.id] = live
        going.move_to_end(live.id)

    def wait(self, live: LiveFault, wait_seconds: float) -> None:
        """Hold a fault from its `waits_from` for so long."""
        live.wait_seconds = wait_seconds
        self.waiting.setdefault((live.boot, wait_seconds), OrderedDict())[live.id] = live

    def let_go(self, live: LiveFault) -> None:
        """Forget a fault that is over."""
        going = self.going.get(live.linger_seconds, OrderedDict())
        going.pop(live.id, None)
        if not going:
            self.going.pop(live.linger_seconds, None)
        self.stop_waiting(live)

    def stop_waiting(self, live: LiveFault) -> None:
        """Hold a fault no longer, if it was."""
        held = self.waiting.get((live.boot, live.wait_seconds))
        if held is not None:
            held.pop(live.id, None)
            if not held:
                del self.waiting[live.boot, live.wait_seconds]

    def held(self) -> list[LiveFault]:
        """Return all that wait, those of one boot and length in order."""
        return [live for held in self.waiting.values() for live in held.values()]

    def due(self) -> list[LiveFault]:
        """Return the faults whose wait is over."""
        due: list[LiveFault] = []
        for (_, wait_seconds), held in self.waiting.items():
            for live in held.values():
                if self.passed_seconds(live.waits_from, live) <= wait_seconds:
                    break
                due.append(live)
        return due

    def over(self) -> list[LiveFault]:
        """Return the faults that nothing can change any more."""
        over: list[LiveFault] = []
        for linger_seconds in sorted(self.going):
            for live in self.going[linger_seconds].values():
                if self.passed_seconds(live.heard_at, live) <= linger_seconds:
                    break
                over.append(live)
        return over

    def faults(self) -> Iterator[LiveFault]:
        """Yield all that go on."""
        for going in self.going.values():
            yield from going.values()
