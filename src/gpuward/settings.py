"""The settings document, checked whole: every mistake is named with its place. Where it lies is not here."""

import contextlib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuward.isolation.catalogue.book import Book
from gpuward.isolation.catalogue.rules import LAW, OPTIONS, PROFILES, RuleBook
from gpuward.isolation.grade import SEEN_KINDS, Grade, Policy, grade, grade_part
from gpuward.isolation.terms import Terms
from gpuward.model.level import LEVELS, FaultClass, Level
from gpuward.model.record import Record, RecordKind

USER_OPTIONS = OPTIONS - {"accept_user_records"}
"""Options that a document may turn on; accepting user records is a word on the command line, for tests and drills."""
_CODE = re.compile(r"(?:xid|sxid):(?:0|[1-9][0-9]{0,4})", re.ASCII)
"""As faults are named, so without leading zeros: another spelling would be taken and never fit."""


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
    except (
        ValueError,
        RecursionError,
    ) as error:  # not only TOMLDecodeError: a number or a nesting may be beyond Python
        raise SettingsError(f"{name}: not TOML: {error}") from error
    reading = _Reading(name=name, text=text, kinds=SEEN_KINDS & frozenset(book.others), mistakes=[])
    known = {"profile", "options", "levels", "classes", "rules"}
    for word in table.keys() - known:
        reading.wrong((word,), f"no such setting; allowed are {', '.join(sorted(known))}")
    settings = Settings(
        profile=reading.one_of(table.get("profile", "default"), PROFILES, ("profile",)),
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
class _Column:
    """A column of a rule that may be set: which values fit, and the words for that."""

    fits: Callable[[Any], bool]
    allowed: str


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


_SECONDS = _Column(_is_number, "must be a number of seconds, 0 or more")
_ENABLED = _Column(lambda value: isinstance(value, bool), "must be true or false")
_COUNT = _Column(
    lambda value: _is_number(value) and isinstance(value, int) and value > 0, "must be a whole number, 1 or more"
)
_OF_RULES = {"before_seconds": _SECONDS, "after_seconds": _SECONDS, "count": _COUNT, "enabled": _ENABLED}
_OF_IDENTITIES = {"gap_seconds": _SECONDS}


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads values and collects every mistake, so that a person sees all of them at once."""

    name: str
    text: str
    kinds: frozenset[str]
    mistakes: list[str]

    def wrong(self, where: tuple[str, ...], what: str) -> None:
        line = _line_of(self.text, where)
        place = f"{self.name}, line {line}" if line else self.name
        self.mistakes.append(f"{place}, {'.'.join(where)}: {what}")

    def one_of(self, word: Any, allowed: Iterable[str], where: tuple[str, ...]) -> str:
        allowed = sorted(allowed)
        if word not in allowed:
            self.wrong(where, f"{word!r} is unknown; allowed are {', '.join(allowed)}")
            return allowed[0]
        return str(word)

    def options(self, words: Any) -> frozenset[str]:
        if not isinstance(words, list):
            self.wrong(("options",), "must be a list of words")
            return frozenset()
        return frozenset(self.one_of(word, USER_OPTIONS, ("options",)) for word in words)

    def by_fault(self, rows: Any, table: str, allowed: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(rows, dict):
            self.wrong((table,), "must be a table")
            return {}
        for key in rows:
            if not _CODE.fullmatch(key) and key not in self.kinds:
                kinds = ", ".join(sorted(self.kinds))
                self.wrong((table, key), f"names no fault; allowed are xid:CODE, sxid:CODE, {kinds}")
        return {key: allowed[self.one_of(word, allowed, (table, key))] for key, word in rows.items()}

    def rules(self, rows: Any, book: RuleBook) -> dict[str, Mapping[str, Any]]:
        if not isinstance(rows, dict):
            self.wrong(("rules",), 'must be tables such as [rules."R31-same-gpu"]')
            return {}
        identities = {row.id for row in book.identities}
        for rule_id, row in rows.items():
            where = ("rules", rule_id)
            if not isinstance(row, dict):
                self.wrong(where, f'must be a table: [rules."{rule_id}"]')
            elif rule_id in identities:
                self._columns(row, _OF_IDENTITIES, where)
            elif (rule := book.rule(rule_id)) is not None:
                if rule.law:
                    self.wrong(where, LAW)
                else:
                    self._columns(row, _OF_RULES, where)
            else:
                self.wrong(where, "there is no such rule; `gpuward explain --list` names them")
        return rows

    def _columns(self, row: Mapping[str, Any], allowed: Mapping[str, _Column], where: tuple[str, ...]) -> None:
        for name, value in row.items():
            column = allowed.get(name)
            if column is None:
                self.wrong((*where, name), f"cannot be set here; allowed are {', '.join(sorted(allowed))}")
            elif not column.fits(value):
                self.wrong((*where, name), column.allowed)


def _line_of(text: str, where: tuple[str, ...]) -> int | None:
    """Return the line on which the value at `where` begins, or the nearest table around it."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        paths = _paths(line.removesuffix("\r"))
        if line.lstrip().startswith("["):
            table = max(paths, key=len, default=table)
            paths = [table[:depth] for depth in range(1, len(table) + 1)]
        else:
            paths = [table + path for path in paths]
        for path in paths:
            lines.setdefault(path, number)
    around = (where[:depth] for depth in range(len(where), 0, -1))
    return next((lines[path] for path in around if path in lines), None)


def _paths(line: str) -> list[tuple[str, ...]]:
    """Return the keys that a line of the document spells; a value that goes on below is not needed for that."""
    for complete in (line, f"{line.partition('=')[0]} = 0"):
        with contextlib.suppress(ValueError, RecursionError):
            return list(_paths_of(tomllib.loads(complete)))
    return []


def _paths_of(table: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *path) for path in _paths_of(value))
