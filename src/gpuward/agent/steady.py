"""Whether the time of day goes as the time since boot does: set clocks and sleeping machines are seen by that."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuward.model.fault import Fault
from gpuward.model.signal import Moment
from gpuward.ports import Clock

JUMP_SECONDS = 2.0
"""A clock that is slewed goes off by less within a round; one that is set, or a machine that slept, by more."""
MOST_DATED = 4096
SLEWED = 0.001
"""How fast a clock may be slewed (adjtimex(2) allows half of it), for looks that are far apart."""


class Steady:
    """Compares the two clocks from one look to the next, and dates stamps from before a jump by the clock of now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[float, float] | None = None
        self._dated: dict[float, float] = {}

    def jump_seconds(self) -> float:
        """Return by how much the time of day went ahead (or back, below 0) since the last look; 0 when it is steady."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        last, self._last = self._last, (now, monotonic)
        if last is None:
            return 0.0
        jump = (now - last[0]) - (monotonic - last[1])
        return jump if abs(jump) >= max(JUMP_SECONDS, SLEWED * (monotonic - last[1])) else 0.0

    def follow(self, faults: Iterable[Fault], jump_seconds: float) -> None:
        """Note that all these faults are from before a jump: their stamps are of another clock than what comes."""
        walls = {moment.wall for fault in faults for moment in (fault.first, fault.last) if moment.wall is not None}
        self._dated = {wall: self._dated.get(wall, wall) + jump_seconds for wall in walls}

    def clamp(self, faults: Iterable[Fault], now: float) -> None:
        """Date stamps of the future as of now, when they are first seen: no line tells of what is still to come."""
        for fault in faults:
            for moment in (fault.first, fault.last):
                wall = moment.wall
                if wall is not None and wall > now + JUMP_SECONDS and wall not in self._dated:
                    self._dated[wall] = now
        while len(self._dated) > MOST_DATED:
            del self._dated[next(iter(self._dated))]

    def dated(self, fault: Fault) -> Fault:
        """Return the fault with its stamps as the clock of now would have had them."""
        if not self._dated:
            return fault
        return replace(fault, first=self._date(fault.first), last=self._date(fault.last))

    def pack(self, boot: str | None) -> dict[str, Any]:
        """Return as JSON values what must survive a restart within this boot of the machine."""
        return {"clock": [boot, *(self._last or ())], "dated": [list(pair) for pair in self._dated.items()]}

    def unpack(self, saved: Mapping[str, Any], boot: str | None) -> None:
        """Go on from what was packed: the clock may have been set meanwhile. Raises TypeError or ValueError."""
        self._dated = {float(wall): float(now) for wall, now in saved.get("dated", ())}
        of_boot, *last = saved.get("clock") or (None,)
        if last and boot is not None and of_boot == boot:
            self._last = (float(last[0]), float(last[1]))

    def _date(self, moment: Moment) -> Moment:
        return moment if moment.wall is None else replace(moment, wall=self._dated.get(moment.wall, moment.wall))


def words_of(jump_seconds: float) -> str:
    """Return what a person should know of a jump."""
    if jump_seconds < 0:
        return f"The clock was set back by {-jump_seconds:.0f} s; what is waited for goes on as if it had not been."
    return (
        f"The clock went ahead by {jump_seconds:.0f} s: it was set, or the machine slept. "
        "What is waited for goes on as if it had not been."
    )
