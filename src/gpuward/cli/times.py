"""Times that people type and read: points in time, spans, zones. The clock is an argument."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)(?:\s+ago)?", re.ASCII)
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})", re.ASCII)
_EPOCH = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)
_NO_TIME = "no time"
_MOST_REPEATED = 60


class TimeError(ValueError):
    """What was typed is not a time; the text says what is."""


def shortened(text: str) -> str:
    """Return what a person typed as a sentence about it repeats it."""
    return text if len(text) <= _MOST_REPEATED else f"{text[:_MOST_REPEATED]}..."


def read_time(text: str, *, zone: tzinfo, now: float) -> float:
    """Return seconds since 1970 UTC for what a person typed.

    Allowed: an ISO date or date and time (in `zone` where it carries none), seconds since 1970, `now`, or a span before
    now such as 90s, 15min, 2h, 7d. Raises TimeError, also for a time of no year from 1 to 9999.
    """
    found = _read(text, zone=zone, now=now)
    if as_json(found) is None or as_shown(found, zone) == _NO_TIME:
        raise TimeError(f"{shortened(text)!r} leads to no year from 1 to 9999; give a time or a span that does")
    return found


def _read(text: str, *, zone: tzinfo, now: float) -> float:
    typed = text.strip()
    span = _SPAN.fullmatch(typed)
    if span is not None:
        return now - float(span[1]) * _UNIT_SECONDS[span[2]]
    if typed == "now":
        return now
    if _EPOCH.fullmatch(typed):
        return float(typed)
    try:
        moment = datetime.fromisoformat(typed)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError) as error:
        raise TimeError(
            f"{shortened(text)!r} is not a time; give 2026-11-30, '2026-11-30 03:12:07', 2026-11-30T03:12:07Z, or 2h"
        ) from error


def read_offset(text: str) -> tzinfo | None:
    """Return the zone of a plain offset such as +08:00, None when it is not one."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    if minutes >= 24 * 60:
        return None
    return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))


def as_json(wall: float | None) -> str | None:
    """Return the time in UTC as JSON output carries it, to the microsecond; None stays None."""
    if wall is None:
        return None
    try:
        return datetime.fromtimestamp(wall, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return None


def as_shown(wall: float | None, zone: tzinfo) -> str:
    """Return the time as a person reads it, in `zone`; `no time` where there is none."""
    if wall is None:
        return _NO_TIME
    try:
        return datetime.fromtimestamp(wall, zone).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return _NO_TIME


def with_zone(wall: float | None, zone: tzinfo) -> str:
    """Return the time as a person reads it, with the zone said; `no time` where there is none."""
    shown = as_shown(wall, zone)
    if wall is None or shown == _NO_TIME:
        return shown
    moment = datetime.fromtimestamp(wall, zone)
    return f"{shown} {moment.tzname() or moment.strftime('%z')}"


def age(seconds: float) -> str:
    """Return how long ago that is, in plain words and the largest unit that fits; what is to come is now."""
    for word, length in _AGES:
        if seconds >= 2 * length or (length == 1 and seconds >= 1):
            count = int(seconds // length)
            return f"{count} {word}{'' if count == 1 else 's'}"
    return "a moment"


_AGES = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
