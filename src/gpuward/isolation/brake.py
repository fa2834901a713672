"""Doubt the sensor before the fleet: how many GPUs may be taken out of service within a while. It only counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor

from gpuward.model.counted import many, verb


@dataclass(frozen=True, slots=True)
class Brake:
    """At most `share` of the GPUs, at least one, may be isolated within `window_seconds`; then it opens by itself."""

    share: float = 0.5
    window_seconds: float = 600.0

    def holds(self, *, gpus: int, isolated_at: Iterable[float], now: float) -> str:
        """Return why one more must wait, empty when it need not. `isolated_at`: when others were taken out."""
        # A moment far ahead is from before the clock was set back: it says nothing.
        recent = [at for at in isolated_at if abs(now - at) < self.window_seconds]
        most = max(1, floor(self.share * gpus))
        if len(recent) < most:
            return ""
        minutes = f"{self.window_seconds / 60:.0f} min"
        return (
            f"{len(recent)} of {many(gpus, 'GPU')} {verb(len(recent), 'was', 'were')} taken out within {minutes}, "
            f"more than looks like hardware; it opens again {minutes} after that"
        )
