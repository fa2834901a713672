"""Which values fit the columns of the settings document, and the words for that."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuward.model.case import Mode
from gpuward.model.level import FaultClass


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a rule that may be set: which values fit, and the words for that."""

    fits: Callable[[Any], bool]
    allowed: str


MOST = 1_000_000_000
"""Seconds of thirty years, and more GPUs than there are: beyond it is a slip, and no other program takes it."""


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, 0 or more, and of a size that still means something."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST


SECONDS = Column(is_number, f"must be a number of seconds, 0 or more, at most {MOST}")
_LEAST_PACE_SECONDS = 0.1
PACE = Column(
    lambda value: is_number(value) and value >= _LEAST_PACE_SECONDS,
    f"must be a number of seconds, {_LEAST_PACE_SECONDS:g} or more, at most {MOST}",
)
ENABLED = Column(lambda value: isinstance(value, bool), "must be true or false")
COUNT = Column(
    lambda value: is_number(value) and isinstance(value, int) and value > 0,
    f"must be a whole number, 1 or more, at most {MOST}",
)
OF_RULES = {"before_seconds": SECONDS, "after_seconds": SECONDS, "count": COUNT, "enabled": ENABLED}
OF_IDENTITIES = {"gap_seconds": SECONDS}
SHARE = Column(lambda value: is_number(value) and 0 < value <= 1, "must be a number above 0, at most 1")
MODE = Column(lambda value: value in list(Mode), f"must be one of {', '.join(Mode)}")
COMMAND = Column(lambda value: isinstance(value, str) and bool(words_of(value)), "must be a command in one string")
URL = Column(
    lambda value: isinstance(value, str) and value.startswith(("http://", "https://")),
    "must be an address such as http://localhost:9400/metrics",
)
OF_AGENT = {
    "mode": MODE,
    "poll_seconds": PACE,
    "read_seconds": PACE,
    "probation_seconds": SECONDS,
    "check_command": COMMAND,
    "check_seconds": SECONDS,
    "dcgm_url": URL,
    "reset_unqualified": ENABLED,
    "work_on_displays": ENABLED,
}
OF_BRAKE = {"share": SHARE, "window_seconds": SECONDS}
OF_BUDGET = {"gpus": COUNT, **dict.fromkeys(map(str, FaultClass), COUNT)}


def words_of(command: str) -> tuple[str, ...]:
    """Return the words of a command, none when a quote is left open."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()
