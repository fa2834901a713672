"""Which GPUs somebody else has drained, from one reading to the next. How it is asked is not here."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpuward.isolation.findings import MISSING_READINGS


@dataclass(frozen=True, slots=True)
class Absence:
    """What a reading says of GPUs that should be there, by address."""

    shown: AbstractSet[str]
    ours: AbstractSet[str]
    """Those that a case of ours has drained, works on, or worked on when the reading was begun."""
    drained: Mapping[str, bool | None]
    """Of those not shown: whether one is drained; one that is not in it, or None, is unknown."""
    counts: Mapping[str, int]
    """How many readings in a row have not shown one."""


class OtherDrains:
    """The GPUs that are drained and not by gpuward: an administrator's own business, and no loss."""

    def __init__(self) -> None:
        self.gpus: frozenset[str] = frozenset()

    def note(self, absence: Absence) -> list[tuple[str, str]]:
        """Take in a reading; return address and sentence of each drain that began or ended."""
        said = [(pci, why) for pci in sorted(self.gpus) if (why := _why_ended(pci, absence))]
        drained = {pci for pci, is_so in absence.drained.items() if is_so and pci not in absence.ours | absence.shown}
        begun = sorted(drained - self.gpus)
        self.gpus = (self.gpus - {pci for pci, _ in said}) | drained
        return said + [(pci, _BEGAN.format(pci=pci, undo=_undo(pci))) for pci in begun]


_BEGAN = "GPU {pci} is drained, and not by gpuward: somebody took it out of service, so it is not missing. Undo: {undo}"
_LIFTED = "The drain of GPU {pci} that somebody set is lifted."
_TAKEN_OVER = "GPU {pci}, which somebody had drained, is in a case of gpuward now: a release lifts the drain."
_UNKNOWN = "Nobody can tell any more whether GPU {pci} is drained: it counts as missing."


def _why_ended(pci: str, absence: Absence) -> str:
    """Return why a drain of somebody else stands no more, as a sentence; empty while it stands.

    One answer that fails ends nothing; a GPU that stays absent and unknown is missing, like any other.
    """
    if pci in absence.ours:
        return _TAKEN_OVER.format(pci=pci)
    is_so = absence.drained.get(pci)
    if pci in absence.shown or is_so is False:
        return _LIFTED.format(pci=pci)
    if is_so is None and absence.counts.get(pci, 0) >= MISSING_READINGS:
        return _UNKNOWN.format(pci=pci)
    return ""


def _undo(pci: str) -> str:
    """Return the command that lets new work on the GPU again, the address as nvidia-smi takes it everywhere."""
    return f"nvidia-smi drain -p {pci.upper()}.0 -m 0"
