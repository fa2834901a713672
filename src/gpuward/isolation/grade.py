"""The level of one record by itself, from its row and the profile. What other records change about it is in merge."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuward.isolation.catalogue.advice import advice_of_row, advice_of_words, advise, advise_switch
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.payload import Reading, read_payload
from gpuward.isolation.catalogue.rows import (
    Immediate,
    Investigation,
    LevelWord,
    Need,
    OwnAction,
    Scope,
    SxidRow,
)
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.record import Record, RecordKind

_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user chose: a profile, and levels and classes that go before it.

    The keys are `xid:92`, `sxid:12028`, or a fault kind such as `rm_init_failed`; a code goes before its kind.
    """

    profile: str = "default"
    levels: Mapping[str, Level] = field(default_factory=dict)
    classes: Mapping[str, FaultClass] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grade:
    """What a record is by itself. `because` is one sentence; `rows` names the rows that spoke, such as `xid:79`.

    `details` holds what the decode found, as JSON values, for the fault's details.
    """

    kind: str
    level: Level
    fault_class: FaultClass
    title: str
    action: str
    because: str
    scope: str
    details: Mapping[str, Any]
    rows: tuple[str, ...]


def grade(book: Book, record: Record, policy: Policy) -> Grade | None:
    """Return the grade of a record, or None when it is no fault by itself.

    The second and third line of an SXid are None here: they belong to its first, `grade_part` is for those left alone.
    """
    judge = _JUDGES.get(record.kind)
    return None if judge is None else judge(book, record, policy)


def grade_part(book: Book, record: Record, policy: Policy) -> Grade | None:
    """Return the grade of an SXid line that stands alone and prints no word: by its row (rules.md section 1)."""
    if record.kind is not RecordKind.SXID or record.code is None:
        return grade(book, record, policy)
    return _switch(book, record.code, None, policy=policy)


class _Choice(NamedTuple):
    """The user's say for one code or kind: the profile, and a level or class set in the settings."""

    profile: str
    level: Level | None
    fault_class: FaultClass | None

    def level_of(self, words: Mapping[str, LevelWord], otherwise: Level = Level.P2) -> Level:
        """Return the level that is set, else the profile's, else `otherwise` where the profile leaves it open."""
        if self.level is not None:
            return self.level
        return LEVELS.get(words[self.profile], otherwise)

    def leaves_open(self, words: Mapping[str, LevelWord]) -> bool:
        """Return whether neither the settings nor the profile fix the level."""
        return self.level is None and words[self.profile] not in LEVELS

    def says(self, subject: str, level: Level, reason: str) -> str:
        """Return the sentence why; it stays one, also where a title holds two."""
        by = f"in profile {self.profile}" if self.level is None else "as set in the settings"
        also = "" if self.fault_class is None else f"; the settings set its class to {self.fault_class}"
        return f"{subject} is graded {level} {by}: {reason.replace('. ', '; ')}{also}."


class _Kind(NamedTuple):
    """A fault kind that is no single Xid: its title and its two action words."""

    kind: str
    title: str
    immediate: StrEnum
    investigation: StrEnum


_KINDS = {
    kind.kind: kind
    for kind in (
        _Kind("fallen_off_bus", "GPU has fallen off the bus", Immediate.RESTART_BM, Investigation.CONTACT_SUPPORT),
        _Kind("rm_init_failed", "Driver could not start the GPU", Immediate.RESET_GPU, Need.REBOOT_NODE),
        _Kind("driver_mismatch", "Driver module and library differ", OwnAction.RELOAD_DRIVER, Immediate.IGNORE),
        _Kind("pcie_uncorrectable", "PCIe uncorrectable error", Need.REBOOT_NODE, Immediate.CHECK_MECHANICALS),
        _Kind("pcie_corrected", "PCIe corrected error", Immediate.IGNORE, Immediate.CHECK_MECHANICALS),
        _Kind("xid_malformed", "Xid line that is cut or broken", OwnAction.READ_LINE, Immediate.IGNORE),
        _Kind("xid_unknown", "Xid that is not in the book", OwnAction.LOOK_UP_CODE, Immediate.IGNORE),
    )
}
SEEN_KINDS = frozenset(_KINDS) | {"sxid_fatal", "sxid_nonfatal"}
"""The fault kinds without a code of their own that kernel lines lead to; the book also has kinds of other sources."""
_PCIE_KINDS = {"fatal": "pcie_uncorrectable", "non-fatal": "pcie_uncorrectable", "corrected": "pcie_corrected"}
_SWITCH_WORDS = {"fatal": "Fatal", "non-fatal": "Non-fatal", "correctable": "Correctable"}
_WORDLESS_PARTS = frozenset({"severity", "data"})


def _choose(policy: Policy, kind: str, key: str | None = None) -> _Choice:
    levels, classes = policy.levels, policy.classes
    if not levels and not classes:
        return _Choice(policy.profile, None, None)
    return _Choice(
        policy.profile, levels.get(key or kind, levels.get(kind)), classes.get(key or kind, classes.get(kind))
    )


def _xid(book: Book, record: Record, policy: Policy) -> Grade:
    code = record.code
    if code is None:
        return _malformed(book, record, policy)
    if code not in book.policies:
        return _unknown_xid(book, code, _choose(policy, "xid_unknown", f"xid:{code}"))
    choice = _choose(policy, "xid", f"xid:{code}")
    reading = read_payload(book, record)
    return _known_xid(book, code, choice) if reading is None else _read_xid(book, code, choice, reading=reading)


@lru_cache(maxsize=4096)
def _known_xid(book: Book, code: int, choice: _Choice) -> Grade:
    row = book.xids[code]
    published = row.immediate_action is not Immediate.NOT_LISTED
    bucket = f", NVIDIA's action is {row.immediate_action}" if published else ""
    return _xid_grade(
        book,
        code,
        choice,
        reading=Reading(Level.P2, bucket, advice_of_row(book, row), details=_NO_DETAILS, rows=()),
    )


def _read_xid(book: Book, code: int, choice: _Choice, *, reading: Reading) -> Grade:
    return _xid_grade(book, code, choice, reading=replace(reading, because=f"; {reading.because}"))


def _xid_grade(book: Book, code: int, choice: _Choice, *, reading: Reading) -> Grade:
    row, policy_row = book.xids[code], book.policies[code]
    level = choice.level_of(policy_row.levels, otherwise=reading.level)
    deciding = reading.deciding if choice.leaves_open(policy_row.levels) else ""
    return Grade(
        kind="xid",
        level=level,
        fault_class=choice.fault_class or policy_row.fault_class,
        title=row.title,
        action=advise(reading.advice, level, Scope.GPU),
        because=choice.says(f"Xid {code}", level, row.title + reading.because + deciding),
        scope=Scope.GPU.value,
        details=reading.details,
        rows=(f"xid:{code}", *reading.rows),
    )


@lru_cache(maxsize=4096)
def _unknown_xid(book: Book, code: int, choice: _Choice) -> Grade:
    known = _known_kind(book, "xid_unknown", choice)
    because = choice.says(f"Xid {code}", known.level, "the book does not have this code")
    return replace(known, title=f"Xid {code}, not in the book", because=because)


@lru_cache(maxsize=1024)
def _known_kind(book: Book, kind: str, choice: _Choice) -> Grade:
    row, known = book.others[kind], _KINDS[kind]
    level = choice.level_of(row.levels)
    return Grade(
        kind=kind,
        level=level,
        fault_class=choice.fault_class or row.fault_class,
        title=known.title,
        action=advise(advice_of_words(book, known.immediate, known.investigation), level, row.scope),
        because=choice.says(f"Fault {kind}", level, row.reason),
        scope=row.scope.value,
        details=_NO_DETAILS,
        rows=(f"other:{kind}",),
    )


def _of_kind(kind: str) -> Callable[[Book, Record, Policy], Grade]:
    def judge(book: Book, _: Record, policy: Policy) -> Grade:
        return _known_kind(book, kind, _choose(policy, kind))

    return judge


def _pcie(book: Book, record: Record, policy: Policy) -> Grade | None:
    kind = _PCIE_KINDS.get(record.details.get("aer_severity") or "")
    if kind is None or record.details.get("of_gpu") is not True:
        return None
    return _known_kind(book, kind, _choose(policy, kind))


def _sxid(book: Book, record: Record, policy: Policy) -> Grade | None:
    if record.part in _WORDLESS_PARTS:
        return None
    if record.code is None:
        return _malformed(book, record, policy)
    return _switch(book, record.code, record.severity, policy=policy)


def _switch(book: Book, code: int, severity: str | None, *, policy: Policy) -> Grade:
    row = book.sxids.get(code)
    fatal = severity == "fatal" if severity in _SWITCH_WORDS else row is not None and row.fatal
    kind = "sxid_fatal" if fatal else "sxid_nonfatal"
    return _known_sxid(book, code, _choose(policy, kind, f"sxid:{code}"), kind=kind, severity=severity)


@lru_cache(maxsize=4096)
def _known_sxid(book: Book, code: int, choice: _Choice, *, kind: str, severity: str | None) -> Grade:
    row, other = book.sxids.get(code), book.others[kind]
    level = choice.level_of(other.levels)
    title = f"SXid {code}, not in the book" if row is None else row.title
    return Grade(
        kind=kind,
        level=level,
        fault_class=choice.fault_class or other.fault_class,
        title=title,
        action=advise_switch(row, level, fatal=kind == "sxid_fatal"),
        because=choice.says(f"SXid {code}", level, _switch_reason(row, severity)),
        scope=other.scope.value,
        details=_NO_DETAILS if row is None else MappingProxyType({"sxid_scope": row.scope.value}),
        rows=(*(() if row is None else (f"sxid:{code}",)), f"other:{kind}"),
    )


def _switch_reason(row: SxidRow | None, severity: str | None) -> str:
    word = _SWITCH_WORDS.get(severity or "")
    title = "a code that the book does not have" if row is None else row.title
    if word is not None:
        return f"{title}, and its line says {word}"
    if row is None:
        return f"{title}, and its line prints no severity word"
    return f"{title}, whose row says {'fatal' if row.fatal else 'non-fatal'}, as its line prints no severity word"


_malformed = _of_kind("xid_malformed")
_JUDGES: Mapping[RecordKind, Callable[[Book, Record, Policy], Grade | None]] = {
    RecordKind.XID: _xid,
    RecordKind.SXID: _sxid,
    RecordKind.XID_MALFORMED: _malformed,
    RecordKind.SXID_MALFORMED: _malformed,
    RecordKind.FALLEN_OFF_BUS: _of_kind("fallen_off_bus"),
    RecordKind.RMINIT_FAILED: _of_kind("rm_init_failed"),
    RecordKind.VERSION_MISMATCH: _of_kind("driver_mismatch"),
    RecordKind.AER: _pcie,
}
