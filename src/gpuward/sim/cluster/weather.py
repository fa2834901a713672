"""What happens to a call on its way: nothing in calm weather. What is done about it is in cluster.py."""

import random
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Protocol

from gpuward.sim.cluster.users import Asked


class Trouble(StrEnum):
    """How a call fails."""

    LOST = "lost"
    """It never came to the server."""
    UNANSWERED = "unanswered"
    """It was done, and the answer was lost."""
    LATE = "late"
    """The caller gave up, and then it was done."""
    CONFLICT = "conflict"
    """Someone else was first; a list or a watch is told that its version is too old. A `get` knows no conflict."""
    BROKEN = "broken"
    """The server answers that it cannot answer now (5xx); nothing was done."""


@dataclass(frozen=True, slots=True)
class Spell:
    """The weather of one call. With the delay longer than its deadline a call is lost.

    `behind_seconds` is how old a list looks, and how late a watch tells. A watch breaks after `breaks_after_seconds`,
    and it is silent for so long before.
    """

    trouble: Trouble | None = None
    delay_seconds: float = 0.0
    late_seconds: float = 0.0
    behind_seconds: float = 0.0
    breaks_after_seconds: float = inf
    silent_seconds: float = 0.0


FAIR = Spell()


class Weather(Protocol):
    """Says what happens to each call; asked once for each, in the order in which they begin."""

    def spell(self, user: str, asked: Asked) -> Spell:
        """Return the weather of one call of a user."""


class Calm:
    """Implements Weather: nothing happens to any call."""

    def spell(self, user: str, asked: Asked) -> Spell:  # noqa: ARG002  all are alike
        """Return fair weather."""
        return FAIR


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely each trouble is, from 0 to 1, and how bad the worst of its kind."""

    lost: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0
    conflict: float = 0.0
    slow: float = 0.0
    behind: float = 0.0
    breaks: float = 0.0
    silent: float = 0.0
    broken: float = 0.0
    worst_delay_seconds: float = 5.0
    worst_late_seconds: float = 30.0
    worst_behind_seconds: float = 10.0
    longest_watch_seconds: float = 120.0
    longest_silence_seconds: float = 300.0


class SeededWeather:
    """Implements Weather: the same seed and the same calls give the same weather.

    Each call takes the same number of throws, so that a call more or less does not change the kind of throw of others.
    """

    def __init__(self, seed: int, odds: Odds) -> None:
        self.odds = odds
        self._dice = random.Random(seed)  # noqa: S311  the same seed must give the same weather

    def spell(self, user: str, asked: Asked) -> Spell:  # noqa: ARG002  it is the same for all
        """Throw for one call."""
        odds, throw = self.odds, [self._dice.random() for _ in range(11)]
        breaks = throw[8] * odds.longest_watch_seconds if throw[7] < odds.breaks else inf
        silent = throw[9] < odds.silent
        return Spell(
            trouble=self._trouble(throw[0]),
            delay_seconds=throw[2] * odds.worst_delay_seconds if throw[1] < odds.slow else 0.0,
            late_seconds=throw[3] * odds.worst_late_seconds,
            behind_seconds=throw[5] * odds.worst_behind_seconds if throw[4] < odds.behind else 0.0,
            breaks_after_seconds=throw[8] * odds.longest_silence_seconds if silent else breaks,
            silent_seconds=throw[10] * odds.longest_silence_seconds if silent else 0.0,
        )

    def _trouble(self, throw: float) -> Trouble | None:
        odds = self.odds
        for trouble, share in (
            (Trouble.LOST, odds.lost),
            (Trouble.UNANSWERED, odds.unanswered),
            (Trouble.LATE, odds.late),
            (Trouble.CONFLICT, odds.conflict),
            (Trouble.BROKEN, odds.broken),
        ):
            if throw < share:
                return trouble
            throw -= share
        return None
