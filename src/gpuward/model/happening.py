"""One thing that happened, as the journal keeps it: the same value for agent, controller and simulator."""

from dataclasses import dataclass
from enum import StrEnum


class What(StrEnum):
    """What sort of thing happened."""

    OBSERVED = "observed"
    VERDICT = "verdict"
    MOVED = "moved"
    EFFECT = "effect"
    LAW = "law"
    """A law of the machine was broken; the case was parked."""
    SAID = "said"


@dataclass(frozen=True, slots=True)
class Happening:
    """A line of the journal. `before` and `after` are case states, written `from` and `to`; empty ones are left out."""

    at: float
    what: What
    node: str
    gpu: str = ""
    case: str = ""
    before: str = ""
    after: str = ""
    effect: str = ""
    target: str = ""
    outcome: str = ""
    rule: str = ""
    because: str = ""
