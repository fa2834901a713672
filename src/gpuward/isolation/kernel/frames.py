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
_GAP = r"[ \t]"
_PROGRAM = rf"(?P<program>(?!{_ANCHOR})[^\s:\[]+(?:\[[^\]\s]*\])?):(?={_GAP}|$){_GAP}*"
"""With its pid, for the kernel prints none: `kernel[7]` is another program."""
_SECONDS = r"\d{1,10}\.\d{1,9}"
_UPTIME = rf"\[ *(?P<uptime>{_SECONDS})(?: *<[^>]{{1,20}}>)?\]{_GAP}*"
_THREAD = rf"(?:\[ *[TC]\d{{1,10}}\]{_GAP}*)?"
_INNER_UPTIME = rf"(?:\[ *(?P<inner_uptime>{_SECONDS})(?: *<[^>]{{1,20}}>)?\]{_GAP}*{_THREAD})?"
"""An uptime behind the sender is part of the message: the kernel's own only when the message is."""
_FACILITY = rf"(?P<facility>{'|'.join(sorted(facilities.WORDS, key=len, reverse=True))})"
_PRI = r"<(?P<pri>\d{1,5})>"
_ISO = r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
_CTIME = rf"\[(?P<ctime>[^\]]{{3,30}} \d\d:\d\d:\d\d \d{{4}})\]{_GAP}*"
_SHORT = r"(?P<short>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d)"
_PRECISE = r"(?P<short>[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d\.\d{1,9})"
_FULL = r"[A-Z][a-z]{2} (?P<full>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [\w+:-]{1,6})"
_SENDER = rf"(?:{_HOST} (?=\S))?(?:{_FACILITY}\.\w+ )?(?:{_PROGRAM})?{_INNER_UPTIME}"
_KERNEL = rf"(?:{_HOST} (?=kernel:))?(?P<program>kernel):{_GAP}*"
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
TALOS = "talos"
_NONE = "none"
_KERNEL_FACILITIES = frozenset({None, facilities.KERN})
_NAMES_NO_PROGRAM = frozenset({TALOS, journal.ENTRY})
"""Frames that tell the kernel's lines by other means than a program's name."""


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
    _row(_NONE, "[", r"\[(?:\.\.\.|…|\d\d:\d\d(?::\d\d)?(?:\.\d+)?| *\+\d+\.\d+|[A-Z][a-z]{2}\d\d \d\d:\d\d)\][ \t]*"),
    _row("kmsg", _DIGITS, r"(?P<pri>\d{1,5}),\d{1,20},(?P<usec>\d{1,18}),[^;]*;"),
    _row("journal-short-iso", _DIGITS, rf"{_ISO} {_HOST} {_PROGRAM}{_INNER_UPTIME}"),
    _row("dmesg-iso", _DIGITS, rf"{_ISO}{_GAP}+(?:{_HOST} (?={_ANCHOR}))?{_THREAD}"),
    _row("journal-short-unix", _DIGITS, rf"(?P<unix>\d{{9,11}}\.\d{{1,9}}) {_HOST} {_PROGRAM}"),
    _row(
        "syslog5424",
        "<",
        rf"{_PRI}\d{{1,2}} (?:{_ISO}|-) (?P<node>\S+) (?P<program>\S+) (?P<process>\S+) \S+ {_STRUCTURED}"
        rf"{_GAP}*\ufeff?{_INNER_UPTIME}",
    ),
    _row("syslog", "<", rf"{_PRI}{_SHORT}(?:\.\d+)?{_GAP}+{_SENDER}"),
    _row("journal-short-iso", "<", rf"{_PRI}{_ISO} {_HOST} {_PROGRAM}{_INNER_UPTIME}"),
    _row("pstore", "<", rf"{_PRI}(?:{_UPTIME}{_THREAD})?"),
    _row("syslog", _LETTERS, rf"{_SHORT}{_GAP}+{_SENDER}"),
    _row("journal-short-precise", _LETTERS, rf"{_PRECISE}{_GAP}+{_SENDER}"),
    _row("dmesg-decode", _LETTERS, rf"{_FACILITY} *:\w+ *: (?:{_ISO}{_GAP}+|{_UPTIME}|{_CTIME})?{_THREAD}"),
    _row(
        TALOS,
        _DIGITS + _LETTERS + ":",
        rf"(?P<node>[\w.:-]{{1,255}}): +{_FACILITY}: +\w+: +\[{_ISO}\]:{_GAP}*",
    ),
    _row("kernel-colon", _LETTERS + _DIGITS, rf"{_KERNEL}{_INNER_UPTIME}"),
    _row(
        "journal-short-full",
        _LETTERS,
        rf"{_FULL} {_HOST} {_PROGRAM}",
    ),
)
_FOREIGN = re.compile(rf"\S{{1,12}} {{1,2}}\d{{1,2}} \d\d:\d\d:\d\d(?:\.\d+)? {_SENDER}", re.ASCII)
"""RFC 3164 with a month that is not English (`11月 30`, `nov. 30`, `30`): whole, but its time is not known."""

_FILE = re.compile(r"([^\s:;=\"'<>]{1,255}):(?=\S)", re.ASCII)
_FILE_NAME = re.compile(
    r"/|\.log|\.txt|\.gz|\A(?:messages|syslog|dmesg|kmsg)(?:[.-](?:\d{1,14}|old|gz|xz|zst|bz2))*\Z", re.ASCII
)
"""What `grep -H` prints before a line. Any other word and a colon is a program that quotes the line."""
_NO_FILE = "<{"
"""How no file name begins."""
_PLAIN = ROWS[0].shape

_BY_FIRST = {
    first: tuple(row for row in ROWS if first in row.first) for first in {char for row in ROWS for char in row.first}
}


def split_frame(text: str) -> Frame:
    """Return the frame of `text` and the body behind it; a line without any known frame is all body, named `none`.

    A file name that grep put before a known frame is taken off.
    """
    first = text[:1]
    if first == "[":
        match = _PLAIN.match(text)
        if match is not None:  # the frame of nearly every line of a big log, so the short way
            return Frame(
                "uptime",
                text[match.end() :],
                uptime=float(match["uptime"]),
                program=match["program"],
                node=match["node"],
            )
    elif first not in _NO_FILE:
        frame = _behind_file_name(text)
        if frame is not None:
            return frame
    return _known(text) or _unknown(text)


def is_kernels(frame: Frame) -> bool:
    """Return whether the frame has the line as the kernel's own: where a host is named, the program is `kernel`."""
    if frame.program is None:
        return frame.node is None or frame.name in _NAMES_NO_PROGRAM
    return frame.program == "kernel"


def _known(text: str) -> Frame | None:
    for row in _BY_FIRST.get(text[:1], ()):
        match = row.shape.match(text)
        if match is not None:
            return _framed(row, match)
    return journal.read_line(text)


def _unknown(text: str) -> Frame:
    match = _FOREIGN.match(text)
    if match is not None:
        return Frame(_NONE, text[match.end() :], node=match["node"], program=match["program"])
    return Frame(_NONE, text.lstrip())


def _behind_file_name(text: str) -> Frame | None:
    match = _FILE.match(text)
    if match is None or _FILE_NAME.search(match[1]) is None:
        return None
    frame = _known(text[match.end() :])
    return None if frame is None or frame.name == _NONE else frame


def _framed(row: Row, match: re.Match[str]) -> Frame:
    parts = match.groupdict()
    stamp, reader = _stamp(row, parts) if row.stamps else ("", None)
    facility = parts.get("facility")
    if facility is None and (priority := parts.get("pri")) is not None:
        facility = facilities.facility_of_priority(int(priority))
    frame = Frame(
        row.name,
        match.string[match.end() :],
        stamp=stamp,
        stamp_reader=reader,
        uptime=_uptime(parts),
        facility=facility,
        program=_program(parts),
        node=parts.get("node"),
    )
    inner = parts.get("inner_uptime")
    if inner is None or facility not in _KERNEL_FACILITIES or not is_kernels(frame):
        return frame
    return frame._replace(uptime=float(inner))


def _program(parts: dict[str, str | None]) -> str | None:
    """Return the program, with the process id where RFC 5424 names one."""
    program, process = parts.get("program"), parts.get("process")
    return program if process in {None, "-"} else f"{program}[{process}]"


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
