"""The settings document, checked whole: every mistake is named with its place. Where it lies is not here."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rules import OPTIONS, PROFILES, RuleBook, RuleError
from gpuward.isolation.grade import Grade, Policy, grade, grade_part
from gpuward.isolation.terms import Terms
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.record import Record, RecordKind

USER_OPTIONS = OPTIONS - {"accept_user_records"}
"""Options that a document may turn on; accepting user records is a word on the command line, for tests and drills."""
_CODE = re.compile(r"(?:xid|sxid):[0-9]{1,5}", re.ASCII)


class SettingsError(ValueError):
    """The document is wrong; the text has one line for each mistake."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the people who run the fleet chose. The defaults are the mission's."""

    profile: str = "default"
    """Whose grades: `default` (the mission), `nvidia` (the catalogue), `intent` (default; 92 at P1, 45 at P2)."""
    options: frozenset[str] = frozenset()
    """`lower_48`: an Xid 48 that was contained and remapped is P1, not P0. Off, since a P0 acts on its first line."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Level by `xid:CODE`, `sxid:CODE` or fault kind; goes before the profile."""
    classes: Mapping[str, FaultClass] = field(default_factory=dict)
    """Class by the same names."""
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Windows and counts by rule id, and `enabled = false` to turn a rule off."""


def read_settings(text: str, *, name: str, book: Book, rules: RuleBook) -> Settings:
    """Return the settings that `text` (TOML) spells.

    Raises SettingsError with a line for every mistake: place, what is wrong, what is allowed.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name}: not TOML: {error}") from error
    reading = _Reading(name=name, lines=text.splitlines(), kinds=frozenset(book.others), mistakes=[])
    known = {"profile", "options", "levels", "classes", "rules"}
    for word in table.keys() - known:
        reading.wrong(word, f"no such setting; allowed are {', '.join(sorted(known))}")
    settings = Settings(
        profile=reading.one_of(table.get("profile", "default"), PROFILES, "profile"),
        options=reading.options(table.get("options", [])),
        levels=reading.by_fault(table.get("levels", {}), "levels", LEVELS),
        classes=reading.by_fault(table.get("classes", {}), "classes", {str(word): word for word in FaultClass}),
        rules=reading.rules(table.get("rules", {}), rules),
    )
    if reading.mistakes:
        raise SettingsError("\n".join(reading.mistakes))
    return settings


def terms_of(settings: Settings, book: Book, rules: RuleBook, *, options: Iterable[str] = ()) -> Terms:
    """Return what verdicts depend on, under the settings and further options."""
    policy = Policy(profile=settings.profile, levels=settings.levels, classes=settings.classes)
    return Terms(
        rules=rules.tuned(settings.rules) if settings.rules else rules,
        grade=grading(book, policy),
        profile=settings.profile,
        options=settings.options | frozenset(options),
    )


def grading(book: Book, policy: Policy) -> Callable[[Record], Grade | None]:
    """Return the function that grades records; an SXid's second or third line that came alone is graded by its row."""

    def of_record(record: Record) -> Grade | None:
        found = grade(book, record, policy)
        if found is None and record.kind is RecordKind.SXID:
            return grade_part(book, record, policy)
        return found

    return of_record


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads values and collects every mistake, so that a person sees all of them at once."""

    name: str
    lines: list[str]
    kinds: frozenset[str]
    mistakes: list[str]

    def wrong(self, where: str, what: str) -> None:
        word = where.rsplit(".", 1)[-1]
        line = next((at for at, text in enumerate(self.lines, 1) if word in text), None)
        place = f"{self.name}, line {line}" if line else self.name
        self.mistakes.append(f"{place}, {where}: {what}")

    def one_of(self, word: Any, allowed: Iterable[str], where: str) -> str:
        allowed = sorted(allowed)
        if word not in allowed:
            self.wrong(where, f"{word!r} is unknown; allowed are {', '.join(allowed)}")
            return allowed[0]
        return str(word)

    def options(self, words: Any) -> frozenset[str]:
        if not isinstance(words, list):
            self.wrong("options", "must be a list of words")
            return frozenset()
        return frozenset(self.one_of(word, USER_OPTIONS, "options") for word in words)

    def by_fault(self, rows: Any, table: str, allowed: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(rows, dict):
            self.wrong(table, "must be a table")
            return {}
        for key in rows:
            if not _CODE.fullmatch(key) and key not in self.kinds:
                kinds = ", ".join(sorted(self.kinds))
                self.wrong(f"{table}.{key}", f"names no fault; allowed are xid:CODE, sxid:CODE, {kinds}")
        return {key: allowed[self.one_of(word, allowed, f"{table}.{key}")] for key, word in rows.items()}

    def rules(self, rows: Any, book: RuleBook) -> dict[str, Mapping[str, Any]]:
        if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
            self.wrong("rules", 'must be tables such as [rules."R31-same-gpu"]')
            return {}
        for rule_id, row in rows.items():
            for column, value in row.items():
                number = isinstance(value, (int, float)) and value >= 0
                if (column == "enabled") is not isinstance(value, bool) or not number:
                    self.wrong(f"rules.{rule_id}.{column}", "must be a number of 0 or more (enabled: true or false)")
        try:
            book.tuned(rows)
        except RuleError as error:
            for mistake in str(error).splitlines():
                where, _, what = mistake.partition(": ")
                self.wrong(where, what)
        return rows
