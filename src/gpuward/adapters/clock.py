"""The machine's own clocks. Nothing else in the program reads the time of day; no sleeping here."""

import time

_NANOSECONDS = 1_000_000_000


class SystemClock:
    """Implements Clock with the machine's clocks."""

    def now(self) -> float:
        """Return seconds since 1970 UTC."""
        return time.time_ns() / _NANOSECONDS

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        time.sleep(seconds)
