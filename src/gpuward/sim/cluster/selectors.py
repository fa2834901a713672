"""Label and field selectors as the API server reads them. Which fields a kind can be asked by is in kinds.py.

The grammars are those of apimachinery (pkg/labels, pkg/fields); every refusal was tried on 1.36.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpuward.sim.cluster.words import is_label_key, is_label_value

Matches = Callable[[Mapping[str, Any]], bool]
"""Whether labels, or an object, are chosen."""
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|$)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})
_TERM = re.compile(r"((?:\\.|[^\\,])*)(?:,|$)", re.DOTALL)
_FIELD = re.compile(r"((?:\\.|[^\\=!]|!(?!=))*?)(!=|==|=)(.*)", re.DOTALL)
_VALUE = re.compile(r"(?:\\[\\,=]|[^\\,=])*", re.DOTALL)


class Unreadable(Exception):
    """The selector is none; says what was found instead."""


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector: a path with dots, and the value that it must have, or must not."""

    path: str
    value: str
    equal: bool


@lru_cache(maxsize=4096)
def labels(text: str) -> Matches:
    """Return what a label selector chooses among the labels of objects. Raises Unreadable."""
    rules = tuple(_Parser(text).requirements())
    if len(rules) == 1:
        return rules[0]
    return lambda found: all(rule(found) for rule in rules)


@lru_cache(maxsize=4096)
def field_terms(text: str) -> tuple[FieldTerm, ...]:
    """Return the terms of a field selector. Raises Unreadable."""
    return tuple(_field(term) for term in _split(text) if term)


def of_object(selector: Mapping[str, Any] | None) -> Matches:
    """Return what a LabelSelector of an object chooses: none chooses nothing, an empty one all. Raises Unreadable."""
    if selector is None:
        return lambda _: False
    rules = [_one_of(key, frozenset({value})) for key, value in selector.get("matchLabels", {}).items()]
    rules += [_expression(row) for row in selector.get("matchExpressions", ())]
    return lambda found: all(rule(found) for rule in rules)


def _expression(row: Mapping[str, Any]) -> Matches:
    key, values = row["key"], frozenset(row.get("values", ()))
    match row["operator"]:
        case "In":
            return _one_of(key, values)
        case "NotIn":
            return _none_of(key, values)
        case "Exists":
            return lambda found: key in found
        case "DoesNotExist":
            return lambda found: key not in found
        case other:
            raise Unreadable(f"{other!r} is not a valid label selector operator")


def _one_of(key: str, values: frozenset[str]) -> Matches:
    return lambda found: found.get(key) in values


def _none_of(key: str, values: frozenset[str]) -> Matches:
    return lambda found: found.get(key) not in values


class _Parser:
    """Reads a label selector token by token; an empty token is its end."""

    def __init__(self, text: str) -> None:
        self.tokens = [found[1] for found in _TOKEN.finditer(text)]
        self.place = 0

    def requirements(self) -> Iterator[Matches]:
        if self._peek() == "":
            return
        if self._peek() != "!" and not self._is_word():
            raise Unreadable(f"found {self._peek()!r}, expected: !, identifier, or 'end of string'")
        while True:
            yield self._requirement()
            match self._next():
                case "":
                    return
                case "," if self._peek() == "!" or self._is_word():
                    continue
                case ",":
                    raise Unreadable(f"found {self._peek()!r}, expected: identifier after ','")
                case found:
                    raise Unreadable(f"found {found!r}, expected: ',' or 'end of string'")

    def _requirement(self) -> Matches:
        if self._peek() == "!":
            self._next()
            key = self._key()
            return lambda found: key not in found
        key = self._key()
        if self._peek() in (",", ""):
            return lambda found: key in found
        return self._compared(key, self._next())

    def _compared(self, key: str, operator: str) -> Matches:
        match operator:
            case "=" | "==":
                return _one_of(key, frozenset({self._value()}))
            case "!=":
                return _none_of(key, frozenset({self._value()}))
            case "in":
                return _one_of(key, self._values())
            case "notin":
                return _none_of(key, self._values())
            case "<" | ">":
                return _beside(key, operator, self._value())
            case found:
                raise Unreadable(f"found {found!r}, expected: in, notin, =, ==, !=, gt, lt")

    def _key(self) -> str:
        key = self._next()
        if key in _SYMBOLS or not is_label_key(key):
            raise Unreadable(f"{key!r} is no label key")
        return key

    def _value(self) -> str:
        if self._peek() in (",", ""):
            return ""
        if not self._is_word():
            raise Unreadable(f"found {self._peek()!r}, expected: identifier")
        return self._checked(self._next())

    def _values(self) -> frozenset[str]:
        if (opening := self._next()) != "(":
            raise Unreadable(f"found {opening!r} expected: '('")
        values = set()
        while True:
            values.add(self._checked(self._next()) if self._is_word() else "")
            match self._next():
                case ")":
                    return frozenset(values)
                case ",":
                    continue
                case found:
                    raise Unreadable(f"found {found!r}, expected: ',' or ')'")

    def _checked(self, value: str) -> str:
        if not is_label_value(value):
            raise Unreadable(f"{value!r} is no value of a label")
        return value

    def _is_word(self) -> bool:
        return self._peek() not in _SYMBOLS

    def _peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.place += 1
        return token


def _beside(key: str, operator: str, bound: str) -> Matches:
    limit = _whole(bound)
    if limit is None:
        raise Unreadable(f"{bound!r} is no whole number: for '<' and '>' the value must be one")

    def matches(found: Mapping[str, Any]) -> bool:
        value = _whole(found.get(key, ""))
        return value is not None and (value > limit if operator == ">" else value < limit)

    return matches


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _split(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        found = _TERM.match(text, place)
        if found is None:
            raise Unreadable(f"invalid selector: {text!r} ends with a single backslash")
        yield found[1]
        place = found.end()


def _field(term: str) -> FieldTerm:
    found = _FIELD.fullmatch(term)
    if found is None:
        raise Unreadable(f"invalid selector: {term!r}; can't understand {term!r}")
    if _VALUE.fullmatch(found[3]) is None:
        raise Unreadable(f"invalid field selector: {found[3]!r} has a `,`, `=` or `\\` that is not escaped")
    return FieldTerm(found[1], re.sub(r"\\(.)", r"\1", found[3], flags=re.DOTALL), equal=found[2] != "!=")
