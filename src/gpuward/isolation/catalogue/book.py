"""The code book as one value to ask; what it does not know is None. Reading it from files is not here."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpuward.isolation.catalogue.rows import (
    ActionRow,
    NvlinkRow,
    OtherRow,
    PhraseRow,
    PolicyRow,
    RecoveryRow,
    RegisterRow,
    SxidRow,
    XidRow,
)


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """Everything known of fault codes. Books are compared by identity, so that answers can be kept per book."""

    xids: Mapping[int, XidRow]
    sxids: Mapping[int, SxidRow]
    policies: Mapping[int, PolicyRow]
    others: Mapping[str, OtherRow]
    nvlinks: Mapping[int, tuple[NvlinkRow, ...]]
    """The decode rows of each Xid, in the order of the file."""
    registers: Mapping[tuple[int, int], RegisterRow]
    """The known bits of Xid 74, by register and bit."""
    actions: Mapping[str, ActionRow]
    recoveries: tuple[RecoveryRow, ...]
    phrases: Mapping[str, PhraseRow]

    def codes(self) -> tuple[int, ...]:
        """Return every Xid of the book, in order."""
        return tuple(sorted(self.xids))

    def sxid_codes(self) -> tuple[int, ...]:
        """Return every SXid of the book, in order."""
        return tuple(sorted(self.sxids))

    def xid(self, code: int) -> XidRow | None:
        """Return the row of an Xid."""
        return self.xids.get(code)

    def sxid(self, code: int) -> SxidRow | None:
        """Return the row of an SXid."""
        return self.sxids.get(code)

    def policy(self, code: int) -> PolicyRow | None:
        """Return the policy of an Xid."""
        return self.policies.get(code)

    def other(self, kind: str) -> OtherRow | None:
        """Return the policy of a fault kind that is no single Xid."""
        return self.others.get(kind)

    def nvlink(self, code: int) -> tuple[NvlinkRow, ...]:
        """Return the decode rows of an Xid; empty when it has none."""
        return self.nvlinks.get(code, ())

    def register_bit(self, register: int, bit: int) -> RegisterRow | None:
        """Return what a bit of an Xid 74 register means."""
        return self.registers.get((register, bit))

    def action(self, word: str) -> ActionRow | None:
        """Return what a bucket word asks for."""
        return self.actions.get(word)

    def recovery_by_label(self, label: str) -> RecoveryRow | None:
        """Return the driver's recovery action that has this label, in either case."""
        wanted = label.strip().casefold()
        return next((row for row in self.recoveries if wanted in map(str.casefold, row.labels)), None)

    def recovery_by_value(self, value: int) -> RecoveryRow | None:
        """Return the first recovery action with this value. Ask by label first: a value's labels differ by driver."""
        return next((row for row in self.recoveries if row.value == value), None)

    def phrase(self, fault: str) -> str | None:
        """Return what happened, as a sentence about a GPU goes on, for `xid:CODE` or a fault kind."""
        row = self.phrases.get(fault)
        return None if row is None else row.phrase
