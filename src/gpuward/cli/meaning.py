"""What a fault or a line means, put together from the rows of the book for `explain`. How it is asked is not here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuward.cli.objects import line_object
from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.decode import in_words
from gpuward.isolation.catalogue.load import load, load_rules
from gpuward.isolation.catalogue.rules import Rule
from gpuward.isolation.grade import SEEN_KINDS, Grade, Policy
from gpuward.isolation.judge import span
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER
from gpuward.settings import Settings, grading

_NO_FAULT = {
    RecordKind.XID_QUOTED: "Another program quotes an Xid here. It is never a fault: only the kernel's own lines are.",
    RecordKind.GPU_UUID: "The driver names the UUID of a GPU, before its first fault line of this boot.",
    RecordKind.BOARD_SERIAL: "The driver names the serial number of a GPU board.",
    RecordKind.DRIVER_LOADED: "The driver was loaded; its version decides how NVLink errors are decoded.",
    RecordKind.BOOT: "The machine started.",
    RecordKind.MULTILINE_START: "The first of three lines that say a GPU fell off the bus; the third is the fault.",
    RecordKind.CONTINUATION: "The rest of the line before it.",
    RecordKind.AER: "A PCIe error report; a fault only when the device is known to be a GPU.",
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """All that the rows say of one fault; `fault` names it as settings do. A field that no row fills is empty."""

    fault: str
    known: bool
    title: str
    level: str
    fault_class: str
    action: str
    because: str
    profiles: Mapping[str, str]
    facts: Mapping[str, Any]
    rules: Sequence[Rule]
    decoded: Sequence[str] = ()
    line: Mapping[str, Any] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "fault": self.fault,
            "known": self.known,
            "title": self.title,
            "level": self.level,
            "class": self.fault_class,
            "action": self.action,
            "because": self.because,
            "profiles": dict(self.profiles),
            "facts": dict(self.facts),
            "decoded": list(self.decoded),
            "details": dict(self.details),
            "rules": [
                {"id": rule.id, "effect": effect(rule), "say": sentence_of(rule), "source": rule.source}
                for rule in self.rules
            ],
            "line": self.line,
        }

    def as_text(self) -> list[str]:
        """Return the lines for a person."""
        lines = [f"{self.fault}: {self.title}"]
        if self.level:
            lines += [
                "",
                f"  level   {self.level}   ({', '.join(f'{name} {word}' for name, word in self.profiles.items())})",
                f"  class   {self.fault_class}",
                f"  do      {self.action}",
                f"  why     {self.because}",
            ]
        if self.line is not None:
            lines += ["", "  the line says"]
            lines += [f"    {name:<12} {_plain(value)}" for name, value in self.line.items() if _is_told(name, value)]
        if self.decoded:
            lines += ["", "  decoded"] + [f"    {sentence}" for sentence in self.decoded]
        if self.facts:
            lines += ["", "  the book says"]
            lines += [f"    {name.replace('_', ' '):<22} {_plain(value)}" for name, value in self.facts.items()]
        if self.rules:
            lines += ["", "  rules that could change the grade"]
            for rule in self.rules:
                lines += [f"    {rule.id}: {effect(rule)}.", f"      {sentence_of(rule)}  [{rule.source}]"]
        return lines


def meaning_of_code(family: str, code: int, settings: Settings) -> Meaning:
    """Return the meaning of `xid` or `sxid` code."""
    book = load()
    if family == "sxid":
        row = book.sxid(code)
        record = _bare(RecordKind.SXID, code)
        facts = {} if row is None else _facts(row, leave_out={"code", "title"})
        return _meaning(f"sxid:{code}", record, settings, known=row is not None, facts=facts)
    xid = book.xid(code)
    policy = book.policy(code)
    facts = {} if xid is None else _facts(xid, leave_out={"code", "title"})
    if policy is not None:
        facts |= {"policy": policy.reason, "policy_source": policy.source}
    if book.nvlink(code):
        facts["decode_rows"] = len(book.nvlink(code))
    return _meaning(f"xid:{code}", _bare(RecordKind.XID, code), settings, known=xid is not None, facts=facts)


def meaning_of_kind(kind: str, settings: Settings) -> Meaning:
    """Return the meaning of a fault kind that is no single code."""
    row = load().others[kind]
    level = settings.levels.get(kind)
    words = {name: str(word) for name, word in row.levels.items()}
    return Meaning(
        fault=kind,
        known=True,
        title=row.reason,
        level=words[settings.profile] if level is None else str(level),
        fault_class=str(settings.classes.get(kind, row.fault_class)),
        action=f"{row.acts[:1].upper()}{row.acts[1:]}." if row.acts else "By its code.",
        because=f"{kind} in profile {settings.profile}: {row.reason}",
        profiles=words,
        facts={
            "scope": str(row.scope),
            "seen_today": kind in SEEN_KINDS,
            "taint_value": row.taint_value or None,
            "source": row.source,
        },
        rules=_rules(settings, kind, None),
    )


def meaning_of_line(record: Record, settings: Settings) -> Meaning:
    """Return the meaning of a log line: the code's, decoded with what this line carries."""
    book = load()
    graded = _grades(book, record, settings)[settings.profile]
    line = line_object(record)
    if graded is None:
        return Meaning(
            fault=str(record.kind),
            known=True,
            title=_NO_FAULT.get(record.kind, "A line of the driver that reports no fault."),
            level="",
            fault_class="",
            action="",
            because="",
            profiles={},
            facts={},
            rules=(),
            line=line,
        )
    if record.code is None:
        facts: Mapping[str, Any] = {}
        name = graded.kind
    else:
        family = "sxid" if record.kind is RecordKind.SXID else "xid"
        name = f"{family}:{record.code}"
        facts = meaning_of_code(family, record.code, settings).facts
    known = graded.kind != "xid_unknown" and not (
        record.kind is RecordKind.SXID and book.sxid(record.code or 0) is None
    )
    return _meaning(name, record, settings, known=known, facts=facts)


def effect(rule: Rule) -> str:
    """Return what a rule does to the grade, in words."""
    parts = []
    if rule.raise_to is not None:
        parts.append(f"raises to {'the level of its companion' if isinstance(rule.raise_to, str) else rule.raise_to}")
    if rule.cap_at is not None:
        parts.append(f"holds at {rule.cap_at} or below")
    if rule.set_to is not None:
        parts.append(f"sets to {rule.set_to}")
    if rule.fault_class is not None:
        parts.append(f"class {rule.fault_class if isinstance(rule.fault_class, FaultClass) else 'of its companion'}")
    if rule.waits:
        parts.append(f"waits {rule.after_seconds:g} s for it")
    if rule.explains:
        parts.append("names the cause")
    if rule.parks:
        parts.append("asks for diagnostics before the GPU returns")
    if rule.clears:
        parts.append("clears the fault")
    if rule.option is not None:
        parts.append(f"only with option {rule.option}")
    return ", ".join(parts) or "adds to what to do"


def sentence_of(rule: Rule) -> str:
    """Return what a rule says when it speaks, in general words."""
    words = _General(
        companion="the other fault",
        count=rule.count if rule.count > 1 else "several",
        code="of this code",
        within=span(rule.before_seconds),
        after=span(rule.after_seconds),
        facility="user or another",
    )
    said = rule.say.format_map(words)
    return said[:1].upper() + said[1:]


class _General(dict[str, Any]):
    """Words for a sentence without a fault: what only a fault can fill is `...`."""

    def __missing__(self, word: str) -> str:
        return "..."


def _meaning(fault: str, record: Record, settings: Settings, *, known: bool, facts: Mapping[str, Any]) -> Meaning:
    """Return the meaning of a record; one with a text is a line of a log, one without stands for its code."""
    line = line_object(record) if record.text else None
    grades = _grades(load(), record, settings)
    graded = grades[settings.profile]
    assert graded is not None, fault  # noqa: S101  codes and faults are graded in every profile; no-fault lines never come here
    by_line = line is None and graded.kind == "xid" and _depends(fault, settings)
    return Meaning(
        fault=fault,
        known=known,
        title=graded.title,
        level=_depends(fault, settings) if by_line else str(graded.level),
        fault_class=str(graded.fault_class),
        action=graded.action if not by_line else "Depends on what the line carries; explain the whole line.",
        because=graded.because if not by_line else "The level is decoded from each line; see the rows below.",
        profiles=_profiles(fault, grades),
        facts=facts,
        rules=_rules(settings, graded.kind, record.code),
        decoded=in_words(load(), record) if record.text else (),
        line=line,
        details=graded.details,
    )


def _rules(settings: Settings, kind: str, code: int | None) -> tuple[Rule, ...]:
    """Return the rules about such a fault, with the windows and counts of the settings, without those turned off."""
    return load_rules().tuned(settings.rules).about(kind, code)


def _depends(fault: str, settings: Settings) -> str:
    """Return `by_decode` or `by_payload` where only a line can tell the level, else nothing."""
    family, _, code = fault.partition(":")
    policy = load().policy(int(code)) if family == "xid" and code else None
    if policy is None or fault in settings.levels:
        return ""
    word = str(policy.levels[settings.profile])
    return "" if word in LEVELS else word


def _profiles(fault: str, grades: Mapping[str, Grade | None]) -> dict[str, str]:
    family, _, code = fault.partition(":")
    policy = load().policy(int(code)) if family == "xid" and code else None
    if policy is not None:
        return {name: str(word) for name, word in policy.levels.items()}
    return {name: str(Level.IGNORE if graded is None else graded.level) for name, graded in grades.items()}


def _grades(book: Book, record: Record, settings: Settings) -> dict[str, Grade | None]:
    grades = {name: grading(book, Policy(profile=name))(record) for name in ("default", "nvidia", "intent")}
    chosen = Policy(profile=settings.profile, levels=settings.levels, classes=settings.classes)
    return {**grades, settings.profile: grading(book, chosen)(record)}


def _facts(row: Any, *, leave_out: set[str]) -> dict[str, Any]:
    names = [name for name in row.__slots__ if name not in leave_out]
    return {name: _value(getattr(row, name)) for name in names}


def _value(value: Any) -> Any:
    if isinstance(value, (bool, int)) or value is None:
        return value
    return str(value)


def _bare(kind: RecordKind, code: int) -> Record:
    """Return a record that says the code and nothing else."""
    return Record(
        source="",
        line=1,
        cursor="",
        moment=NEVER,
        boot="",
        node=None,
        facility=None,
        frame="none",
        kind=kind,
        code=code,
        pci=None,
        function=None,
        certain=True,
        pid=None,
        process=None,
        mig=None,
        severity=None,
        link=None,
        part="message" if kind is RecordKind.SXID else None,
        details={},
        text="",
    )


def _is_told(name: str, value: Any) -> bool:
    return value not in (None, {}, "") and name not in {"line", "text"}


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_plain, value))
    return str(value)
