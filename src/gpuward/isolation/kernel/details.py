"""Rows that pick named facts out of a message: a cheap needle, a pattern, and how each named group becomes a value.

Which messages there are is not here (xid, sxid, nvrm, aer hold the rows).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Value = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Detail:
    """One row: where `needle` is in the message, the groups of `pattern` become details through `values`.

    A row with `codes` is for these codes only.
    """

    needle: str
    pattern: re.Pattern[str]
    values: Mapping[str, Value]
    codes: frozenset[int] | None = None


def detail(needle: str, pattern: str, values: Mapping[str, Value] | None = None, *codes: int) -> Detail:
    """Build a row; a group without a value function stays the text that was printed."""
    compiled = re.compile(pattern, re.ASCII)
    readers = {group: (values or {}).get(group, str) for group in compiled.groupindex}
    return Detail(needle, compiled, readers, frozenset(codes) or None)


def rows_for(rows: tuple[Detail, ...], code: int) -> tuple[Detail, ...]:
    """Return the rows that speak of `code`."""
    return tuple(row for row in rows if row.codes is None or code in row.codes)


def pick(rows: tuple[Detail, ...], message: str, details: dict[str, Any]) -> None:
    """Add to `details` what `rows` find in `message`."""
    for row in rows:
        if row.needle not in message:
            continue
        match = row.pattern.search(message)
        if match is not None:
            for group, value in row.values.items():
                if match[group] is not None:
                    details[group] = value(match[group])


def hexadecimal(printed: str) -> int:
    """Return the number of hexadecimal digits, with or without 0x."""
    return int(printed, 16)


def yes(printed: str) -> bool:
    """Return True for `Yes`."""
    return printed == "Yes"
