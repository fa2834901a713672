"""Reads the values of the settings document, and collects every mistake with its place."""

import contextlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from gpuward.isolation.catalogue.rules import LAW, OPTIONS, RuleBook
from gpuward.settings.columns import OF_IDENTITIES, OF_RULES, Column

USER_OPTIONS = OPTIONS - {"accept_user_records"}
"""Options that a document may turn on; accepting user records is a word on the command line, for tests and drills."""
OF_ALL_POOLS = frozenset({"reboot", "controller", "agent", "levels", "classes", "rules"})
"""Tables that no pool has of its own."""
_CODE = re.compile(r"(?:xid|sxid):(?:0|[1-9][0-9]{0,4})", re.ASCII)
"""As faults are named, so without leading zeros: another spelling would be taken and never fit."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads values and collects every mistake, so that a person sees all of them at once."""

    name: str
    text: str
    kinds: frozenset[str]
    _mistakes: dict[str, int] = field(default_factory=dict)
    """Each once, with its line; 0 where that is not known."""

    def wrong(self, where: tuple[str, ...], what: str) -> None:
        """Note a mistake and its place."""
        line = _line_of(self.text, where)
        place = f"{self.name}, line {line}" if line else self.name
        self._mistakes.setdefault(f"{place}, {'.'.join(where)}: {what}", line or 0)

    def mistakes(self) -> list[str]:
        """Return every mistake, in the order of the lines."""
        return sorted(self._mistakes, key=lambda mistake: self._mistakes[mistake])

    def one_of(self, word: Any, allowed: Iterable[str], where: tuple[str, ...]) -> str:
        """Return the word where it is allowed; else note that, and return one that is."""
        allowed = sorted(allowed)
        if word not in allowed:
            self.wrong(where, f"{word!r} is unknown; allowed are {', '.join(allowed)}")
            return allowed[0]
        return str(word)

    def options(self, words: Any) -> frozenset[str]:
        """Return the options that a list of words turns on."""
        if not isinstance(words, list):
            self.wrong(("options",), "must be a list of words")
            return frozenset()
        return frozenset(self.one_of(word, USER_OPTIONS, ("options",)) for word in words)

    def by_fault(self, rows: Any, table: str, allowed: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a table by fault, each as what it means."""
        if not isinstance(rows, dict):
            self.wrong((table,), "must be a table")
            return {}
        for key in rows:
            if not _CODE.fullmatch(key) and key not in self.kinds:
                kinds = ", ".join(sorted(self.kinds))
                self.wrong((table, key), f"names no fault; allowed are xid:CODE, sxid:CODE, {kinds}")
        return {key: allowed[self.one_of(word, allowed, (table, key))] for key, word in rows.items()}

    def columns(
        self,
        table: Mapping[str, Any],
        where: tuple[str, ...],
        allowed: Mapping[str, Column],
        *,
        inner: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return the values of the table at `where` that fit; the others are mistakes, but for the tables in it."""
        row: Any = table
        for depth, name in enumerate(where, 1):
            row = row.get(name, {})
            if not isinstance(row, dict):
                self.wrong(where[:depth], f"must be a table: [{'.'.join(where[:depth])}]")
                return {}
        row = {name: value for name, value in row.items() if name not in inner}
        self._columns(row, allowed, where, inner=inner)
        return {word: value for word, value in row.items() if word in allowed and allowed[word].fits(value)}

    def rules(self, rows: Any, book: RuleBook) -> dict[str, Mapping[str, Any]]:
        """Return what is set of rules, by their id."""
        if not isinstance(rows, dict):
            self.wrong(("rules",), 'must be tables such as [rules."R31-same-gpu"]')
            return {}
        identities = {row.id for row in book.identities}
        for rule_id, row in rows.items():
            where = ("rules", rule_id)
            if not isinstance(row, dict):
                self.wrong(where, f'must be a table: [rules."{rule_id}"]')
            elif rule_id in identities:
                self._columns(row, OF_IDENTITIES, where)
            elif (rule := book.rule(rule_id)) is not None:
                if rule.law:
                    self.wrong(where, LAW)
                else:
                    self._columns(row, OF_RULES, where)
            else:
                self.wrong(where, "there is no such rule; `gpuward explain --list` names them")
        return rows

    def _columns(
        self,
        row: Mapping[str, Any],
        allowed: Mapping[str, Column],
        where: tuple[str, ...],
        *,
        inner: tuple[str, ...] = (),
    ) -> None:
        for name, value in row.items():
            column = allowed.get(name)
            if column is None:
                whole = f"; [{name}] is of the whole cluster" if where[0] == "pools" and name in OF_ALL_POOLS else ""
                words = ", ".join(sorted((*allowed, *inner)))
                self.wrong((*where, name), f"cannot be set here; allowed are {words}{whole}")
            elif not column.fits(value):
                self.wrong((*where, name), column.allowed)


def _line_of(text: str, where: tuple[str, ...]) -> int | None:
    """Return the line on which the value at `where` begins, or the nearest table around it."""
    lines = _lines_of(text)
    around = (where[:depth] for depth in range(len(where), 0, -1))
    return next((lines[path] for path in around if path in lines), None)


@lru_cache(maxsize=1)
def _lines_of(text: str) -> Mapping[tuple[str, ...], int]:
    """Return the line of each key and table; found once, for a document may have a mistake in every line."""
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
    return lines


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
