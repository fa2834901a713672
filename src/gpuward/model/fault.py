"""One trouble of one GPU (or node), merged from its lines, and the verdict on it. How it was merged is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuward.model.gpu import Mig
from gpuward.model.level import FaultClass, Level
from gpuward.model.signal import Moment


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that a fault rests on; `line` is its number in its source."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """How bad, whose fault, what to do, and why in one sentence; `rules` names the rows that had a say, in order."""

    level: Level
    fault_class: FaultClass
    action: str
    because: str
    rules: tuple[str, ...]
    waits: bool
    """The verdict may still change within a rule's window: for now the fault is held at P2 or below."""
    parks: bool
    """After a repair a person decides: the verdict asks for diagnostics."""
    explained_by: str | None
    """The id of the fault that this one is a consequence of."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as it stands. `id` is `node.boot.cursor` of its first record, so a replay creates nothing twice."""

    id: str
    kind: str
    code: int | None
    title: str
    node: str | None
    boot: str
    pci: str | None
    gpu_uuid: str | None
    first: Moment
    last: Moment
    count: int
    pid: int | None
    process: str | None
    mig: Mig | None
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    details: Mapping[str, Any]


class ChangeKind(StrEnum):
    """What just happened to a fault."""

    BEGAN = "began"
    WORSENED = "worsened"
    EXPLAINED = "explained"
    CHANGED = "changed"
    """Class or action changed, the level did not rise."""
    CLOSED = "closed"
    """Its identity window has passed: a later record of the same kind is a new fault."""


@dataclass(frozen=True, slots=True)
class Change:
    """A fault began, worsened, was explained, changed or closed; `fault` is its new state, `was` its level before."""

    kind: ChangeKind
    fault: Fault
    was: Level | None
