"""The rules that look at more than one line, as typed rows read from text. What a rule does to a fault is in merge.

The meaning of every column stands at the top of data/rules.toml.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from gpuward.model.level import LEVELS, FaultClass, Level

COMPANION = "companion"
KEYS = frozenset({"gpu", "other_gpu", "node", "code", "sm", "link", "job"})
SPREADS = frozenset({"gpu", "job"})
PROFILES = frozenset({"default", "nvidia", "intent"})
OPTIONS = frozenset({"lower_48", "accept_user_records"})
TUNABLE = frozenset({"before_seconds", "after_seconds", "count", "gap_seconds", "enabled"})
LAW = "is a law: settings can neither tune it nor turn it off; take it out of the settings"
_SELECTOR = frozenset({"kinds", "codes", "not_codes", "details", "lacks", "certain", "user_record", "solo"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


class RuleError(ValueError):
    """The rule table is wrong; the text has one line for each mistake."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which faults a rule speaks about; an empty field says nothing. `details` maps a dotted path to allowed values."""

    kinds: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()
    not_codes: frozenset[int] = frozenset()
    details: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()
    certain: bool | None = None
    user_record: bool | None = None
    solo: bool | None = None

    def could_be(self, kind: str, code: int | None) -> bool:
        """Return whether a fault of this kind and code may match, before anything else of it is known."""
        if code in self.not_codes:
            return False
        if self.codes and self.kinds:
            return self._either(kind, code)
        if self.codes:
            return code in self.codes and kind.startswith("xid")
        return not self.kinds or kind in self.kinds

    def _either(self, kind: str, code: int | None) -> bool:
        """Codes and kinds together: a coded kind needs the code, a kind without a code only the kind."""
        return kind in self.kinds and (code is None or code in self.codes)


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rule table; see data/rules.toml for every column."""

    id: str
    source: str
    say: str
    subject: Selector
    companion: Selector | None = None
    key: tuple[str, ...] = ()
    before_seconds: float = 0
    after_seconds: float = 0
    count: int = 1
    spread: Mapping[str, int] = field(default_factory=dict)
    waits: bool = False
    otherwise: str | None = None
    raise_to: Level | str | None = None
    cap_at: Level | None = None
    set_to: Level | None = None
    fault_class: FaultClass | str | None = None
    action: str | None = None
    adds: str | None = None
    explains: bool = False
    clears: bool = False
    parks: bool = False
    profiles: frozenset[str] = frozenset()
    option: str | None = None
    unless_option: str | None = None
    requires: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()
    law: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """How far apart the lines of one fault may lie, and which line withdraws it; the first row that fits is taken."""

    id: str
    source: str
    gap_seconds: float
    codes: frozenset[int] = frozenset()
    cleared_by: Selector | None = None


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules and identities, in the order of the table: later rules see what earlier ones decided."""

    identities: tuple[Identity, ...]
    rules: tuple[Rule, ...]

    @property
    def longest_seconds(self) -> float:
        """How far apart at most two lines may lie that have to do with each other."""
        windows = (rule.before_seconds + rule.after_seconds for rule in self.rules)
        return max((*windows, *(row.gap_seconds for row in self.identities)), default=0.0)

    def rule(self, rule_id: str) -> Rule | None:
        """Return the row of this id, None when there is none."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def about(self, kind: str, code: int | None) -> tuple[Rule, ...]:
        """Return the rules that could change the grade of such a fault."""
        return tuple(rule for rule in self.rules if rule.subject.could_be(kind, code))

    def tuned(self, settings: Mapping[str, Mapping[str, Any]]) -> "RuleBook":
        """Return a book with windows and counts from the settings, and without rules that they turn off.

        Raises RuleError for an unknown rule or column.
        """
        mistakes = [m for name, row in settings.items() for m in self._tuning_mistakes(name, row)]
        if mistakes:
            raise RuleError("\n".join(mistakes))
        return RuleBook(
            identities=tuple(_tune(row, settings.get(row.id, {})) for row in self.identities),
            rules=tuple(
                _tune(row, settings.get(row.id, {}))
                for row in self.rules
                if settings.get(row.id, {}).get("enabled", True)
            ),
        )

    def _tuning_mistakes(self, name: str, row: Mapping[str, Any]) -> list[str]:
        known = {rule.id for rule in self.rules} | {identity.id for identity in self.identities}
        if name not in known:
            return [f"rules.{name}: there is no such rule; `gpuward explain --list` names them"]
        rule = self.rule(name)
        if rule is not None and rule.law:
            return [f"rules.{name}: {LAW}"]
        return [
            f"rules.{name}.{column}: cannot be set; allowed are {', '.join(sorted(TUNABLE))}"
            for column in row
            if column not in TUNABLE
        ]


_Row = TypeVar("_Row", Rule, Identity)


def _tune(row: _Row, columns: Mapping[str, Any]) -> _Row:
    own = {spec.name for spec in fields(row)}
    return replace(row, **{name: value for name, value in columns.items() if name in own})


def read_rules(text: str, *, name: str = "rules.toml") -> RuleBook:
    """Return the rule book that `text` (TOML) spells.

    Raises RuleError naming table, row and column of every mistake: an unknown column, key, level, class, profile or
    option, a missing source or sentence, a duplicate id, a rule in requires or unless that does not come before.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{name}: not TOML: {error}") from error
    reading = _Reading(name=name, mistakes=[])
    for word in table.keys() - {"identity", "rule"}:
        reading.wrong(word, "no such table; allowed are identity and rule")
    identities = tuple(reading.identity(row, at) for at, row in enumerate(table.get("identity", []), 1))
    rules = tuple(reading.rule(row, at) for at, row in enumerate(table.get("rule", []), 1))
    reading.check_names(rules)
    if not identities or identities[-1].codes:
        reading.wrong("identity", "the last row must fit every code")
    if reading.mistakes:
        raise RuleError("\n".join(reading.mistakes))
    return RuleBook(identities=identities, rules=rules)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads rows and collects every mistake, so that a person sees all of them at once."""

    name: str
    mistakes: list[str]

    def wrong(self, where: str, what: str) -> None:
        self.mistakes.append(f"{self.name}, {where}: {what}")

    def identity(self, row: Mapping[str, Any], at: int) -> Identity:
        where = f"identity {row.get('id', at)}"
        self._columns(row, {"id", "codes", "gap_seconds", "cleared_by", "source"}, where)
        cleared_by = row.get("cleared_by")
        return Identity(
            id=self._words(row, "id", where),
            source=self._words(row, "source", where),
            gap_seconds=self._number(row, "gap_seconds", where),
            codes=frozenset(row.get("codes", ())),
            cleared_by=None if cleared_by is None else self._selector(cleared_by, f"{where}, cleared_by"),
        )

    def rule(self, row: Mapping[str, Any], at: int) -> Rule:
        where = f"rule {row.get('id', at)}"
        columns = {spec.name for spec in fields(Rule)} - {"fault_class"} | {"class"}
        self._columns(row, columns, where)
        companion = row.get("companion")
        read = Rule(
            id=self._words(row, "id", where),
            source=self._words(row, "source", where),
            say=self._words(row, "say", where),
            subject=self._selector(row.get("subject", {}), f"{where}, subject"),
            companion=None if companion is None else self._selector(companion, f"{where}, companion"),
            key=tuple(self._known(row.get("key", ()), KEYS, f"{where}, key")),
            before_seconds=self._number(row, "before_seconds", where),
            after_seconds=self._number(row, "after_seconds", where),
            count=int(self._number(row, "count", where, default=1)),
            spread={word: int(row["spread"][word]) for word in self._known(row.get("spread", {}), SPREADS, where)},
            waits=row.get("waits", False) is True,
            otherwise=row.get("otherwise"),
            raise_to=COMPANION if row.get("raise_to") == COMPANION else self._level(row, "raise_to", where),
            cap_at=self._level(row, "cap_at", where),
            set_to=self._level(row, "set_to", where),
            fault_class=self._fault_class(row, where),
            action=row.get("action"),
            adds=row.get("adds"),
            explains=row.get("explains", False) is True,
            clears=row.get("clears", False) is True,
            parks=row.get("parks", False) is True,
            profiles=frozenset(self._known(row.get("profiles", ()), PROFILES, f"{where}, profiles")),
            option=self._option(row, "option", where),
            unless_option=self._option(row, "unless_option", where),
            requires=frozenset(row.get("requires", ())),
            unless=frozenset(row.get("unless", ())),
            law=row.get("law", False) is True,
        )
        if read.companion is not None and not read.key:
            self.wrong(where, "a companion needs a key")
        if read.waits and not read.after_seconds:
            self.wrong(where, "waits needs after_seconds")
        if read.action is None and (read.raise_to, read.cap_at, read.set_to) != (None, None, None):
            self.wrong(where, "a rule that changes the level must say the action")
        return read

    def check_names(self, rules: tuple[Rule, ...]) -> None:
        seen: set[str] = set()
        for rule in rules:
            if rule.id in seen:
                self.wrong(f"rule {rule.id}", "the id stands twice")
            self.mistakes.extend(
                f"{self.name}, rule {rule.id}: {other} does not come before it"
                for other in sorted((rule.requires | rule.unless) - seen)
            )
            seen.add(rule.id)

    def _columns(self, row: Mapping[str, Any], allowed: set[str], where: str) -> None:
        for column in row.keys() - allowed:
            self.wrong(where, f"no such column {column!r}; allowed are {', '.join(sorted(allowed))}")

    def _selector(self, row: Mapping[str, Any], where: str) -> Selector:
        self._columns(row, set(_SELECTOR), where)
        return Selector(
            kinds=frozenset(row.get("kinds", ())),
            codes=frozenset(row.get("codes", ())),
            not_codes=frozenset(row.get("not_codes", ())),
            details={path: tuple(values) for path, values in row.get("details", {}).items()},
            lacks=frozenset(row.get("lacks", ())),
            certain=row.get("certain"),
            user_record=row.get("user_record"),
            solo=row.get("solo"),
        )

    def _words(self, row: Mapping[str, Any], column: str, where: str) -> str:
        value = row.get(column)
        if not isinstance(value, str) or not value.strip():
            self.wrong(where, f"{column} is missing")
            return ""
        if column == "id" and not _NAME.fullmatch(value):
            self.wrong(where, "an id has letters, digits and hyphens only")
        return value

    def _number(self, row: Mapping[str, Any], column: str, where: str, *, default: float = 0) -> float:
        value = row.get(column, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
            self.wrong(where, f"{column} must be a number of 0 or more, not {value!r}")
            return default
        return value

    def _known(self, words: Any, allowed: frozenset[str], where: str) -> list[str]:
        for word in words:
            if word not in allowed:
                self.wrong(where, f"{word!r} is unknown; allowed are {', '.join(sorted(allowed))}")
        return [word for word in words if word in allowed]

    def _level(self, row: Mapping[str, Any], column: str, where: str) -> Level | None:
        word = row.get(column)
        if word is None:
            return None
        if word not in LEVELS:
            self.wrong(where, f"{column} {word!r} is unknown; allowed are {', '.join(LEVELS)}")
        return LEVELS.get(word)

    def _fault_class(self, row: Mapping[str, Any], where: str) -> FaultClass | str | None:
        word = row.get("class")
        if word is None or word == COMPANION:
            return word
        if word not in set(FaultClass):
            self.wrong(where, f"class {word!r} is unknown; allowed are companion, {', '.join(FaultClass)}")
            return None
        return FaultClass(word)

    def _option(self, row: Mapping[str, Any], column: str, where: str) -> str | None:
        word = row.get(column)
        if word is not None and word not in OPTIONS:
            self.wrong(where, f"{column} {word!r} is unknown; allowed are {', '.join(sorted(OPTIONS))}")
        return word
