"""One thing that happened, as the journal keeps it: the same value for agent, controller and simulator."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class What(StrEnum):
    """What sort of thing happened."""

    OBSERVED = "observed"
    VERDICT = "verdict"
    MOVED = "moved"
    EFFECT = "effect"
    LAW = "law"
    """A law of the machine was broken; the case was parked."""
    SAID = "said"
    TRUTH = "truth"
    """What really happened, in a simulation: `outcome` is the ailment, nothing of it is known to the product."""


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


_NAMES = {"before": "from", "after": "to"}
"""The words of the journal where Python's own would clash."""
_FIELDS = {word: name for name, word in _NAMES.items()}


def as_object(happening: Happening) -> dict[str, Any]:
    """Return a happening as the journal spells it: fields that are not used left out."""
    fields = asdict(happening)
    return {_NAMES.get(name, name): value for name, value in fields.items() if value != ""}


def from_object(value: Mapping[str, Any]) -> Happening:
    """Return the happening that was spelled so. Raises TypeError or ValueError when it is none."""
    fields = {_FIELDS.get(name, name): text for name, text in value.items()}
    return Happening(**{**fields, "what": What(fields.get("what", ""))})
