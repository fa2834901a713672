"""A merger over the real code book, and short ways to say which records come when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.catalogue.rules import RuleBook
from gpuward.isolation.merge import Merger
from gpuward.isolation.terms import Terms
from gpuward.model.fault import Change, ChangeKind, Fault
from gpuward.model.record import Record, RecordKind
from gpuward.settings import Settings, terms_of
from tests.kit.records import a_record, at

GPU_A = "0000:3b:00"
GPU_B = "0000:86:00"
GPU_C = "0000:af:00"
HOUR = 3600.0


def terms(*, profile: str = "default", rules: RuleBook | None = None, options: Iterable[str] = ()) -> Terms:
    """Return the terms of the packaged book."""
    return terms_of(Settings(profile=profile), load(), rules or load_rules(), options=options)


_cursors = count(1)


def xid(code: int | None, seconds: float | None = 0.0, *, pci: str | None = GPU_A, **changes: Any) -> Record:
    """Return an Xid record at START + seconds (None: without a time), each with a place of its own in the log."""
    number = next(_cursors)
    fields: dict[str, Any] = {
        "code": code,
        "pci": pci,
        "line": number,
        "cursor": f"f{number}",
        "text": f"NVRM: Xid (PCI:{pci}): {code}, line {number}",
    }
    if seconds is not None:
        fields["moment"] = at(seconds)
    return a_record(**{**fields, **changes})


def sxid(code: int, seconds: float, *, word: str | None, **changes: Any) -> Record:
    """Return an SXid message of a switch."""
    return xid(
        code,
        seconds,
        **{"pci": "0000:c1:00", "kind": RecordKind.SXID, "severity": word, "part": "message", "pid": None, **changes},
    )


def line_of(kind: RecordKind, seconds: float, *, pci: str | None = GPU_A, **changes: Any) -> Record:
    """Return a record without a code."""
    return xid(None, seconds, **{"pci": pci, "kind": kind, "pid": None, "process": None, **changes})


@dataclass
class Told:
    """What a merger told about some records."""

    changes: list[Change] = field(default_factory=list)

    @property
    def faults(self) -> list[Fault]:
        """The faults in their last state, in the order they began."""
        last: dict[str, Fault] = {}
        for change in self.changes:
            last[change.fault.id] = change.fault
        return list(last.values())

    def only(self) -> Fault:
        """Return the one fault there is."""
        (fault,) = self.faults
        return fault

    def of(self, code: int | None, *, pci: str | None = None, kind: str | None = None) -> Fault:
        """Return the one fault of this code (and GPU or kind)."""
        found = [
            fault
            for fault in self.faults
            if fault.code == code and pci in (None, fault.pci) and kind in (None, fault.kind)
        ]
        assert len(found) == 1, [(fault.kind, fault.code, fault.pci) for fault in self.faults]
        return found[0]

    def kinds(self, fault: Fault) -> list[ChangeKind]:
        """Return what happened to a fault, in order."""
        return [change.kind for change in self.changes if change.fault.id == fault.id]


def told(records: Sequence[Record], *, finish: bool = True, merger: Merger | None = None, **of_terms: Any) -> Told:
    """Return what a merger tells about the records; to their end, unless `finish` is False."""
    merger = merger or Merger(terms(**of_terms))
    changes = [change for record in records for change in merger.step(record)]
    if finish:
        changes += merger.finish()
    return Told(changes)
