"""A line of a printed journal made into a frame. Following the journal is not here (an adapter does that)."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gpuward.isolation.kernel import facilities
from gpuward.isolation.kernel.frame import Frame

ENTRY = "journal-json"
PART = "journal-part"
"""The frame of a piece of an entry: a cut one, or one that journalctl spread over several lines."""

_LINE = re.compile(
    r"(?:data:|[\s\x1e\[,]){0,16}"
    r"(?:(?P<entry>\{)(?=\s{0,16}\")|(?:MESSAGE=|\"MESSAGE\"\s{0,4}:\s{0,4}\")(?=NVRM:|nvidia-nvswitch))",
    re.ASCII,
)
"""What json, json-seq (RFC 7464), json-sse, an array, export, verbose and json-pretty put before it."""
_BEHIND = " \t\r\n,]"
_BOOT_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_LARGEST_BYTE = 255
_KERNEL = "kernel"


def read_line(text: str) -> Frame | None:
    """Return the frame of an entry or of the piece that is a driver's message, None when `text` is neither."""
    match = _LINE.match(text)
    if match is None:
        return None
    if match["entry"] is None:
        return _part(text[match.end() :])
    return _read_entry(text[match.start("entry") :].rstrip(_BEHIND))


def _part(body: str) -> Frame:
    # Who wrote it stands on another line, so it must not pass as the kernel's.
    return Frame(PART, body, program=PART)


def _read_entry(text: str) -> Frame | None:
    """Return the frame of one entry, None when it is another program's JSON.

    The record's own clocks (`_SOURCE_…`) go before the times at which the journal received it, because early kernel
    messages are received late. systemd.journal-fields(7) names the fields.
    """
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return _part(text)
    if not isinstance(entry, dict) or "MESSAGE" not in entry:
        return None
    received, ticked = _seconds(entry, "__REALTIME_TIMESTAMP"), _seconds(entry, "__MONOTONIC_TIMESTAMP")
    boot_time = None if received is None or ticked is None else received - ticked
    own = _seconds(entry, "_SOURCE_MONOTONIC_TIMESTAMP")
    boot, transport = _BOOT_ID.match(_word(entry, "_BOOT_ID") or ""), _word(entry, "_TRANSPORT")
    program, opening = _sender(entry, transport)
    return Frame(
        ENTRY,
        opening + _message(entry["MESSAGE"]),
        wall=_wall(_seconds(entry, "_SOURCE_REALTIME_TIMESTAMP"), boot_time, own, received),
        uptime=ticked if own is None else own,
        boot_time=boot_time,
        boot=None if boot is None else boot[0],
        facility=_facility(entry, transport),
        program=program,
        node=_word(entry, "_HOSTNAME"),
    )


def _wall(source: float | None, boot_time: float | None, own: float | None, received: float | None) -> float | None:
    if source is not None:
        return source
    if boot_time is not None and own is not None:
        return boot_time + own
    return received


def _facility(entry: Mapping[str, Any], transport: str | None) -> str | None:
    """Return `kern` only for the kernel's own transport: any program can claim facility 0, none can claim that."""
    number = _number(entry, "SYSLOG_FACILITY")
    if number is None:
        return None if transport in {None, _KERNEL} else facilities.USER
    if number == 0 and transport != _KERNEL:
        return facilities.USER
    return facilities.facility_word(number)


def _message(value: Any) -> str:
    """Return the text of MESSAGE: a string, a list of byte numbers (not UTF-8), or the first of several such values."""
    if isinstance(value, list) and value and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(byte) is int and 0 <= byte <= _LARGEST_BYTE for byte in value):
        return bytes(value).decode("utf-8", "replace")
    return ""


def _sender(entry: Mapping[str, Any], transport: str | None) -> tuple[str | None, str]:
    """Return the program and what to put back before its message.

    journald takes `NVRM` for the program's name when a user wrote `NVRM: …` into /dev/kmsg; it was part of the text.
    """
    identifier = _word(entry, "SYSLOG_IDENTIFIER")
    if transport == _KERNEL and identifier not in {None, _KERNEL}:
        return _KERNEL, f"{identifier}: "
    return identifier or transport, ""


def _word(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) and value else None


def _number(entry: Mapping[str, Any], key: str) -> int | None:
    printed = entry.get(key)
    if type(printed) is int:
        printed = str(printed)
    return int(printed) if isinstance(printed, str) and _NUMBER.fullmatch(printed) else None


def _seconds(entry: Mapping[str, Any], key: str) -> float | None:
    microseconds = _number(entry, key)
    return None if microseconds is None else microseconds / 1e6
