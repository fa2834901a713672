"""Pretend ports: a scripted kernel log, a clock that moves when it is waited on, processes, GPUs and a store in memory.

Nothing is judged here, and no test stands here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuward.model.gpu import Gpu
from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Holder, Origin, Refused

START = 1_790_000_000.0
"""What the pretend clock shows at first, in seconds since 1970 UTC."""


class PretendClock:
    """Implements Clock: it goes on only when someone waits, and `step` sets the time of day like an administrator."""

    def __init__(self, now: float = START, monotonic: float = 1000.0) -> None:
        self._now = now
        self._monotonic = monotonic

    def now(self) -> float:
        """Return seconds since 1970 UTC."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds since the pretend boot."""
        return self._monotonic

    def wait(self, seconds: float) -> None:
        """Let time go on."""
        self._now += seconds
        self._monotonic += seconds

    def sleep(self, seconds: float) -> None:
        """Let time go on, as the port has it."""
        self.wait(seconds)

    def step(self, seconds: float) -> None:
        """Set the time of day forward or back."""
        self._now += seconds


Event = str | Gap | EdgeError | Callable[[], None]
"""What happens in a log: a line, lost lines, trouble, or anything else in the world."""


@dataclass(frozen=True, slots=True)
class At:
    """An event of a script, so many seconds after the script began."""

    seconds: float
    event: Event


@dataclass(slots=True)
class Script:
    """What a log says and when; several readers may read it, and more may be added."""

    events: list[At] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Add a line that can be read at once."""
        self.events.append(At(0, text))


class PretendLog:
    """Implements KernelLog with a script. A read waits by moving the pretend clock; `oldest` is the first line held."""

    def __init__(self, script: Script, clock: PretendClock, *, origin: Origin, oldest: int = 0) -> None:
        self._script = script
        self._clock = clock
        self._origin = origin
        self._oldest = oldest
        self._next = oldest
        self._began = clock.monotonic()
        self.closed = False

    def origin(self) -> Origin:
        """Return what was given; a boot time follows the clock, as the kernel's does."""
        if self._origin.boot_time is None:
            return self._origin
        return replace(self._origin, boot_time=self._clock.now() - self._clock.monotonic())

    def seek(self, cursor: str) -> bool:
        """Go on after `cursor`, `p` and the place in the script."""
        self._next = self._oldest
        place = cursor.removeprefix("p")
        if place == cursor or not place.isdecimal() or not self._oldest <= int(place) < len(self._script.events):
            return False
        self._next = int(place) + 1
        return True

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return what is due, after moving the clock to the next event if that is within the timeout."""
        end = self._clock.monotonic() + timeout_seconds
        while not self._is_due() and self._clock.monotonic() < end:
            self._clock.wait(max(1e-6, min(end, self._next_time()) - self._clock.monotonic()))
        came: list[Signal | Gap] = []
        while self._is_due():
            event = self._script.events[self._next].event
            if isinstance(event, EdgeError):
                if came:
                    return came
                raise event
            self._next += 1
            if isinstance(event, Gap):
                came.append(event)
            elif isinstance(event, str):
                came.append(self._signal(event))
            else:
                event()
        return came

    def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def _is_due(self) -> bool:
        return self._clock.monotonic() >= self._next_time()

    def _next_time(self) -> float:
        events = self._script.events
        return self._began + events[self._next].seconds if self._next < len(events) else float("inf")

    def _signal(self, text: str) -> Signal:
        return Signal(source=self._origin.source, line=self._next, cursor=f"p{self._next - 1}", text=text)


class PretendProcesses:
    """Implements Processes; `asked` are the pids that were looked up."""

    def __init__(self, *holders: Holder) -> None:
        self._holders = {holder.pid: holder for holder in holders}
        self.asked: list[int] = []

    def holder(self, pid: int) -> Holder | None:
        """Return who was given for `pid`."""
        self.asked.append(pid)
        return self._holders.get(pid)


class PretendInventory:
    """Implements Inventory; `listed` may be changed, or be the trouble that asking for it ends in."""

    def __init__(self, *gpus: Gpu) -> None:
        self.listed: tuple[Gpu, ...] | EdgeError = gpus

    def gpus(self) -> tuple[Gpu, ...]:
        """Return them in the order given."""
        if isinstance(self.listed, EdgeError):
            raise self.listed
        return self.listed

    def driver_version(self) -> str | None:
        """Return nothing: no watch asks."""
        return None


class PretendStore:
    """Implements Store in memory; what is kept has been JSON, as in a file. `broken` makes both ways fail."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.broken = False
        self.saves = 0

    def load(self) -> Mapping[str, Any] | None:
        """Return what was saved last."""
        self._check()
        if self.text is None:
            return None
        saved = json.loads(self.text)
        if not isinstance(saved, dict):
            raise Refused("the pretend store is broken; delete it")
        return saved

    def save(self, saved: Mapping[str, Any]) -> None:
        """Replace what is saved."""
        self._check()
        self.saves += 1
        self.text = json.dumps(dict(saved))

    def _check(self) -> None:
        if self.broken:
            raise Refused("the pretend store is full; make room")
