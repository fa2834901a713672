"""What can happen to a GPU, as rows: the lines that its driver writes, what the tools show, and what makes it well.

These are the truth of a run. What the product makes of the lines is its own business.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpuward.model.level import Level
from gpuward.model.node import EccCounts, GpuReading, Remap


class Cure(StrEnum):
    """What makes a GPU well again."""

    NOTHING = "nothing"
    """It is well: a program was at fault."""
    RESET = "reset"
    REBOOT = "reboot"
    """A reset cannot reach it, or does not help."""
    HANDS = "hands"
    """Another card; a reset may seem to help for a while."""


class Work(StrEnum):
    """What becomes of the work that holds the GPU."""

    GOES_ON = "goes on"
    DIES = "dies"
    HANGS = "hangs"
    """It stands still, and ends only when it is killed."""


@dataclass(frozen=True, slots=True)
class Ailment:
    """One row. `lines` may name {pci}, {pid} and {name}; `weight` is how often it comes among all."""

    name: str
    words: str
    lines: tuple[str, ...]
    cure: Cure
    work: Work
    weight: int
    level: Level
    """What must be done about it, by the mission."""
    shows: Mapping[str, object] = field(default_factory=dict)
    """Fields of the reading while it is ill."""
    after_reset: Mapping[str, object] = field(default_factory=dict)
    """Fields of the reading after a reset that did not cure it."""
    relapses_seconds: float = 0.0
    """A reset that did not cure it seems to: so long after it the lines come again. 0: it does not even seem so."""

    @property
    def is_lost(self) -> bool:
        """Whether the GPU no longer answers."""
        return bool(self.shows.get("lost"))

    def reading(self, well: GpuReading, *, was_reset: bool) -> GpuReading:
        """Return what the tools show of a GPU that has it."""
        return replace(well, **(self.after_reset if was_reset else self.shows))  # type: ignore[arg-type]  # rows name fields


def _xid(code: int, text: str) -> str:
    return f"NVRM: Xid (PCI:{{pci}}): {code}, pid={{pid}}, name={{name}}, {text}"


_DOUBLE_BIT = _xid(48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer.")
_ERRORS = {"ecc": EccCounts(volatile=1, aggregate=1), "recovery_action": "Reset"}

AILMENTS: tuple[Ailment, ...] = (
    Ailment(
        name="off-the-bus",
        words="fell off the bus; only a reboot brings it back",
        lines=(_xid(79, "GPU has fallen off the bus."), "NVRM: GPU {pci}.0: GPU has fallen off the bus."),
        cure=Cure.REBOOT,
        work=Work.HANGS,
        weight=3,
        level=Level.P0,
        shows={"lost": True},
        after_reset={"lost": True},
    ),
    Ailment(
        name="double-bit",
        words="has a bad row of memory, which a reset remaps",
        lines=(
            _DOUBLE_BIT,
            "NVRM: Xid (PCI:{pci}): 63, Row Remapper: New row (0x0000000012345678) marked for remapping",
        ),
        cure=Cure.RESET,
        work=Work.DIES,
        weight=6,
        level=Level.P0,
        shows={**_ERRORS, "remap": Remap(pending=True, failed=False)},
    ),
    Ailment(
        name="worn-memory",
        words="has no rows left to remap; the card has to go",
        lines=(_DOUBLE_BIT, "NVRM: Xid (PCI:{pci}): 64, Row Remapper Error: Failed to remap row"),
        cure=Cure.HANDS,
        work=Work.DIES,
        weight=2,
        level=Level.P0,
        shows={**_ERRORS, "remap": Remap(pending=False, failed=True)},
        after_reset={"remap": Remap(pending=False, failed=True)},
    ),
    Ailment(
        name="halted",
        words="has a controller that halted, which a reset starts again",
        lines=(_xid(62, "2050(2d4c) 00000000 00000000"),),
        cure=Cure.RESET,
        work=Work.HANGS,
        weight=3,
        level=Level.P0,
        shows={"recovery_action": "Reset"},
    ),
    Ailment(
        name="relapsing",
        words="has a controller that halts again after each reset; the card has to go",
        lines=(_xid(62, "2050(2d4c) 00000000 00000000"),),
        cure=Cure.HANDS,
        work=Work.HANGS,
        weight=1,
        level=Level.P0,
        shows={"recovery_action": "Reset"},
        relapses_seconds=20.0,
    ),
    Ailment(
        name="bad-address",
        words="is well: its program read where it may not, and died",
        lines=(
            _xid(
                31,
                "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_3 faulted @ "
                "0x7f12_34560000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
            ),
            _xid(45, "Ch 00000010"),
        ),
        cure=Cure.NOTHING,
        work=Work.DIES,
        weight=6,
        level=Level.P1,
    ),
    Ailment(
        name="bad-program",
        words="is well: its program broke a rule, and died",
        lines=(_xid(13, "Graphics SM Warp Exception on (GPC 2, TPC 0, SM 1): Out Of Range Address"),),
        cure=Cure.NOTHING,
        work=Work.DIES,
        weight=6,
        level=Level.P2,
    ),
)
"""In a fixed order: the same seed must give the same run."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A line that looks like a fault and is none: who wrote it is no kernel, or it is about something else."""

    name: str
    words: str
    priority: int
    """Of the record in /dev/kmsg: facility times eight, and severity."""
    line: str


_BY_A_USER = 12

ALARMS: tuple[Alarm, ...] = (
    Alarm(
        "written-by-a-user",
        "somebody wrote a line about an Xid 79 into the log",
        _BY_A_USER,
        "NVRM: Xid (PCI:{pci}): 79, pid=1, name=x, GPU has fallen off the bus.",
    ),
    Alarm(
        "quoted",
        "a health check quoted an old line",
        _BY_A_USER,
        "node-check[2211]: found in the log: NVRM: Xid (PCI:{pci}): 48, pid=1, name=x, DBE",
    ),
    Alarm("network-card", "a network card told its own XID", 4, "r8169 0000:05:00.0 eth0: RTL8168, XID 641, IRQ 44"),
)
"""What a person or another device writes; nothing may follow from any of it."""
