"""How long to wait before asking again: exponential back-off with full jitter. What is worth it is not judged here."""

from collections.abc import Callable
from dataclasses import dataclass

Chance = Callable[[], float]
"""Returns a number from 0 up to 1."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a request is sent at most, and the longest pause before the second time and before any."""

    tries: int = 4
    first_seconds: float = 0.25
    longest_seconds: float = 4.0

    def pause_seconds(self, tried: int, asked_seconds: float, *, chance: Chance) -> float:
        """Return the pause after so many tries; what the server asked for is waited for, and jitter comes on top."""
        window = min(self.longest_seconds, self.first_seconds * 2.0 ** (tried - 1))
        return asked_seconds + chance() * window
