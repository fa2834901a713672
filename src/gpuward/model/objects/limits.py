"""How large and of what form a field of an object may be: no object may fill the cluster's store.

A field of a dataclass is `Annotated[type, limit, "what it is"]`. Fields of types that are used elsewhere too have their
limits as rows here, so that those types know nothing of clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gpuward.model.case import Effect
from gpuward.model.fault import Evidence, Verdict
from gpuward.model.found import LABEL, LONGEST_NAME, NAME
from gpuward.model.gpu import Mig
from gpuward.model.job import JobRef
from gpuward.model.node import EccCounts
from gpuward.model.scene import GpuSight
from gpuward.model.signal import Moment

MOST_COUNTED = 2**53
"""Larger whole numbers are not the same number to every program that reads JSON."""


@dataclass(frozen=True, slots=True)
class Text:
    """Words for people: what is longer than `most` characters is cut when it is written, never refused."""

    most: int


@dataclass(frozen=True, slots=True)
class Name:
    """What other things are known by: it is never cut, and what does not fit is refused."""

    most: int
    pattern: str = ""
    least: int = 1


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    least: int = 0
    most: int = MOST_COUNTED


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds since 1970 UTC, spelled as a date and time to the microsecond."""


@dataclass(frozen=True, slots=True)
class Json:
    """Values of any form, kept as JSON text; what comes last is left out when it is longer than `most` characters."""

    most: int


@dataclass(frozen=True, slots=True)
class OneOf:
    """Only these members of an enumeration."""

    members: tuple[Enum, ...]
    words: Mapping[str, Enum] = field(init=False, repr=False, compare=False)
    """The members by their spelling."""

    def __post_init__(self) -> None:
        """Spell them once."""
        object.__setattr__(self, "words", {str(member): member for member in self.members})


@dataclass(frozen=True, slots=True)
class Items:
    """At most so many. Of more the newest, which are last, are kept (`drops`), or they are refused.

    `each` is the limit of one item, and `key` the field that tells items apart.
    """

    most: int
    drops: bool = False
    each: Any = None
    key: str = ""


TIME = Time()
NODE_NAME = Name(LONGEST_NAME, pattern=f"^{NAME}$")
"""As the API server has it for the name of an object (RFC 1123)."""
OBJECT_NAME = NODE_NAME
POD_NAME = NODE_NAME
NAMESPACE = Name(63, pattern=f"^{LABEL}$")
PART_OF_NAME = Name(36, pattern=f"^{LABEL}$")
"""A part of a name that is joined by dots: without a dot itself, so that the joined name is read in one way only."""
UID = Name(128, pattern="^[-A-Za-z0-9._:]+$")
PCI = Name(16, pattern="^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}$")
"""The canonical address of model.gpu.PciAddress."""
GPU_UUID = Name(64, pattern="^[A-Za-z0-9-]+$")
WORD = Name(64, pattern="^[A-Za-z0-9]([A-Za-z0-9_.+-]*[A-Za-z0-9])?$")
ORDER_ID = Name(300, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
CODE = Whole(0, 99_999)
"""The largest that the settings take for an Xid or SXid."""
SENTENCE = Text(1024)
WORDS = Text(256)

REUSED: Mapping[type, Mapping[str, Any]] = {
    Effect: {"number": Whole(1, 100_000), "asked_at": TIME, "ended_at": TIME, "why": Text(512), "boot": PART_OF_NAME},
    Evidence: {"line": Whole(), "text": SENTENCE},
    Verdict: {"action": WORDS, "because": SENTENCE, "rules": Items(32, each=WORDS), "explained_by": WORDS},
    Mig: {"gi": Whole(0, 1024), "ci": Whole(0, 1024)},
    Moment: {"wall": TIME},
    EccCounts: {"volatile": Whole(), "aggregate": Whole()},
    JobRef: {"kind": WORD, "api_version": WORDS, "namespace": NAMESPACE, "name": OBJECT_NAME, "uid": UID},
    GpuSight: {"work": Items(16, drops=True, each=Text(128))},
}
"""Limits of the fields of types that the standalone agent has too."""
