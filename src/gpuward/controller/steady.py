"""The time of day as waits need it: a clock that is set makes none of them shorter or longer. No waiting here.

When a case was fenced, or a standby reserved, stands in objects as a time of day, for the next controller has no other.
"""

from collections.abc import Callable, Iterable

from gpuward.controller.gather import Picture
from gpuward.controller.outcomes import is_open
from gpuward.model.objects.gpu_case import as_case
from gpuward.ports import Clock

CATCH_UP = 0.02
"""How much of the time that passes is spent on coming back to a clock that was set; so far off may a wait be."""
MOST_SECONDS = 86_400.0
"""What is farther in the future than this no clock of a controller has written, and it is not followed."""


class SteadyClock:
    """Implements Clock on another: goes on as the time since boot does, and comes back to the time of day slowly.

    `since_boot` tells that time where it is not the clock's own.
    """

    def __init__(self, clock: Clock, *, since_boot: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._since_boot = since_boot or clock.monotonic
        self._last = (self._since_boot(), clock.now())

    def now(self) -> float:
        """Return seconds since 1970 UTC; it never goes back, and never jumps."""
        monotonic, (before, last) = self._since_boot(), self._last
        passed = monotonic - before
        expected, most = last + passed, passed * CATCH_UP
        self._last = (monotonic, expected + max(-most, min(most, self._clock.now() - expected)))
        return self._last[1]

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._clock.sleep(seconds)

    def reach(self, stamps: Iterable[float]) -> None:
        """Go on from the newest of these times, written by who led before: nothing was begun in the future."""
        now = self.now()
        newest = max((at for at in stamps if at - now <= MOST_SECONDS), default=now)
        self._last = (self._last[0], max(now, newest))


def stamps_of(picture: Picture) -> list[float]:
    """Return the times that controllers have written of what is still waited for."""
    cases = [case for case in map(as_case, picture.cases.objects.values()) if is_open(case)]
    pools = [pool.status for pool in picture.pools.objects.values() if pool.status is not None]
    return [
        *(at for case in cases for at in (case.opened_at, case.since, *(one.asked_at for one in case.effects))),
        *(one.at for status in pools for one in status.promoted if one.freed_at is None),
    ]
