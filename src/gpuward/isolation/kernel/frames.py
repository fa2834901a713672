"""What programs put before a kernel message: a table of rows, and how to take it off. The messages are not here.

Order matters: the first row of a line's first character that matches wins. A new frame is a new row.
"""

import re
from dataclasses import dataclass

from gpuward.isolation.kernel import facilities, journal, stamps
from gpuward.isolation.kernel.frame import Frame
from gpuward.isolation.kernel.stamps import Stamp

_ANCHOR = r"NVRM:|nvidia-nvswitch\d*:"
_HOST = r"(?P<node>(?!\S+ [0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:)[\w.:-]*[\w.-])"
"""A host name is no driver name before a PCI address: a frame without host may precede an AER line."""
_PROGRAM = rf"(?P<program>(?!{_ANCHOR})[^\s:\[]+)(?:\[[^\]\s]*\])?:(?= |$) *"
_UPTIME = r"\[ *(?P<uptime>\d{1,10}\.\d{1,9})(?: *<[^>]{1,20}>)?\] ?"
_THREAD = r"(?:\[ *[TC]\d{1,10}\] ?)?"
_SECOND_UPTIME = rf"(?:{_UPTIME}{_THREAD})?"
_FACILITY = rf"(?P<facility>{'|'.join(sorted(facilities.WORDS, key=len, reverse=True))})"
_PRI = r"<(?P<pri>\d{1,5})>"
_ISO = r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_CTIME = r"\[(?P<ctime>[^\]]{3,30} \d\d:\d\d:\d\d \d{4})\] ?"
_SHORT = r"(?P<short>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d)"
_PRECISE = r"(?P<short>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d\.\d{1,9})"
_FULL = r"[A-Z][a-z]{2} (?P<full>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [\w+:-]{1,6})"
_SENDER = rf"(?:{_HOST} (?=\S))?(?:{_FACILITY}\.\w+ )?(?:{_PROGRAM})?{_SECOND_UPTIME}"
_KERNEL = rf"(?:{_HOST} (?=kernel:))?(?P<program>kernel): ?"
_STRUCTURED = r'(?:-|(?:\[(?:[^\]"\\]|"(?:[^"\\]|\\.)*")*\])+)'

_STAMPS: dict[str, Stamp] = {
    "iso": stamps.iso,
    "ctime": stamps.ctime,
    "short": stamps.yearless,
    "full": stamps.iso,
    "unix": stamps.unix,
}
_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HEX = "abcdefABCDEF"


@dataclass(frozen=True, slots=True)
class Row:
    """A frame: its name, the characters it may begin with, and its shape. Named groups say what each part is."""

    name: str
    first: str
    shape: re.Pattern[str]
    stamps: tuple[tuple[str, Stamp], ...]


def _row(name: str, first: str, shape: str) -> Row:
    pattern = re.compile(shape, re.ASCII)
    return Row(name, first, pattern, tuple((key, _STAMPS[key]) for key in pattern.groupindex if key in _STAMPS))


ROWS = (
    _row("uptime", "[", rf"{_UPTIME}{_THREAD}(?:{_KERNEL})?"),
    _row("dmesg-T", "[", rf"{_CTIME}{_THREAD}(?:{_KERNEL})?"),
    # Stamps that somebody left out, dmesg -e (`[  +0.000012]`, `[Nov30 03:12]`) and bare clock times tell no time.
    _row("none", "[", r"\[(?:\.\.\.|…|\d\d:\d\d(?::\d\d)?(?:\.\d+)?| *\+\d+\.\d+|[A-Z][a-z]{2}\d\d \d\d:\d\d)\] ?"),
    _row("kmsg", _DIGITS, r"(?P<pri>\d{1,5}),\d{1,20},(?P<usec>\d{1,18}),[^;]*;"),
    _row("journal-short-iso", _DIGITS, rf"{_ISO} {_HOST} {_PROGRAM}{_SECOND_UPTIME}"),
    _row("dmesg-iso", _DIGITS, rf"{_ISO} (?:{_HOST} (?={_ANCHOR}))?{_THREAD}"),
    _row("journal-short-unix", _DIGITS, rf"(?P<unix>\d{{9,11}}\.\d{{1,9}}) {_HOST} {_PROGRAM}"),
    _row(
        "syslog5424",
        "<",
        rf"{_PRI}\d{{1,2}} (?:{_ISO}|-) (?P<node>\S+) (?P<program>\S+) \S+ \S+ {_STRUCTURED} ?\ufeff?{_SECOND_UPTIME}",
    ),
    _row("syslog", "<", rf"{_PRI}{_SHORT}(?:\.\d+)? {_SENDER}"),
    _row("journal-short-iso", "<", rf"{_PRI}{_ISO} {_HOST} {_PROGRAM}{_SECOND_UPTIME}"),
    _row("pstore", "<", rf"{_PRI}{_SECOND_UPTIME}"),
    _row("syslog", _LETTERS, rf"{_SHORT} {_SENDER}"),
    _row("journal-short-precise", _LETTERS, rf"{_PRECISE} {_SENDER}"),
    _row("dmesg-decode", _LETTERS, rf"{_FACILITY} *:\w+ *: (?:{_ISO} |{_UPTIME}|{_CTIME})?{_THREAD}"),
    _row("talos", _DIGITS + _HEX + ":", rf"(?P<node>[0-9a-fA-F.:]+): {_FACILITY}: \w+: \[{_ISO}\]: ?"),
    _row("kernel-colon", _LETTERS + _DIGITS, rf"{_KERNEL}{_SECOND_UPTIME}"),
    _row(
        "journal-short-full",
        _LETTERS,
        rf"{_FULL} {_HOST} {_PROGRAM}",
    ),
)
_FOREIGN = re.compile(rf"\S{{1,12}} {{1,2}}\d{{1,2}} \d\d:\d\d:\d\d(?:\.\d+)? {_SENDER}", re.ASCII)
"""RFC 3164 with a month that is not English (`11月 30`, `nov. 30`, `30`): whole, but its time is not known."""

_BY_FIRST = {
    first: tuple(row for row in ROWS if first in row.first) for first in {char for row in ROWS for char in row.first}
}


def split_frame(text: str) -> Frame:
    """Return the frame of `text` and the body behind it; a line without any known frame is all body, named `none`."""
    first = text[:1]
    if first == "{":
        frame = journal.read_entry(text)
        if frame is not None:
            return frame
    for row in _BY_FIRST.get(first, ()):
        match = row.shape.match(text)
        if match is not None:
            return _framed(row, match)
    match = _FOREIGN.match(text)
    if match is not None:
        return Frame("none", text[match.end() :], node=match["node"], program=match["program"])
    return Frame("none", text.lstrip())


def _framed(row: Row, match: re.Match[str]) -> Frame:
    if row.name == "uptime":  # the frame of nearly every line of a big log, so the short way
        return Frame(
            "uptime",
            match.string[match.end() :],
            uptime=float(match["uptime"]),
            program=match["program"],
            node=match["node"],
        )
    parts = match.groupdict()
    stamp, reader = _stamp(row, parts) if row.stamps else ("", None)
    facility = parts.get("facility")
    if facility is None and (priority := parts.get("pri")) is not None:
        facility = facilities.facility_of_priority(int(priority))
    return Frame(
        row.name,
        match.string[match.end() :],
        stamp=stamp,
        stamp_reader=reader,
        uptime=_uptime(parts),
        facility=facility,
        program=parts.get("program"),
        node=parts.get("node"),
    )


def _stamp(row: Row, parts: dict[str, str | None]) -> tuple[str, Stamp | None]:
    for key, reader in row.stamps:
        printed = parts[key]
        if printed is not None:
            return printed, reader
    return "", None


def _uptime(parts: dict[str, str | None]) -> float | None:
    uptime = parts.get("uptime")
    if uptime is not None:
        return float(uptime)
    usec = parts.get("usec")
    return None if usec is None else int(usec) / 1e6
