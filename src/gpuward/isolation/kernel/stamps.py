"""Every printed time stamp made into seconds since 1970 UTC. Which frame carries which stamp is not here (frames)."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

Stamp = Callable[[str, tzinfo, float], float | None]
"""(stamp as printed, the zone of stamps without one, now) -> seconds since 1970 UTC, None when it cannot be read."""

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_CTIME = re.compile(r"\S+ (\S+) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})", re.ASCII)
_YEARLESS = re.compile(r"(\S+) +(\d{1,2}) (\d\d):(\d\d):(\d\d)", re.ASCII)
_FRACTION = re.compile(r"\d{1,9}", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?|[A-Z]{2,5})?", re.ASCII
)
_UNIX = re.compile(r"\d{1,11}(?:\.\d{1,9})?", re.ASCII)
_LATEST_AHEAD_SECONDS = 86_400.0
"""How far in the future a stamp without a year may lie: a log of the easternmost zone read in the westernmost."""
_YEARS_BACK = 8
"""Two leap days are at most eight years apart."""
_LEAP_SECOND = 60


def iso(text: str, zone: tzinfo, _now: float) -> float | None:
    """Read `2026-11-30T03:12:07,123456+00:00` and its kin: comma or dot, `Z`, `+0000`, or no zone, then `zone`.

    A zone printed as letters other than UTC and GMT means nothing certain, so `zone` is taken.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    whole, fraction, offset = match.groups()
    return _plus(_iso_second(whole, offset, zone), fraction)


def ctime(text: str, zone: tzinfo, _now: float) -> float | None:
    """Read `Mon Nov 30 03:12:07 2026` (dmesg -T), in `zone`; the week day is not looked at."""
    return _ctime_second(text, zone)


def yearless(text: str, zone: tzinfo, now: float) -> float | None:
    """Read `Nov 30 03:12:07` (RFC 3164), with or without a fraction, in `zone`.

    The year is the latest one that does not put it more than a day after `now`; February 29 falls in leap years only.
    """
    whole, _, fraction = text.partition(".")
    if fraction and _FRACTION.fullmatch(fraction) is None:
        return None
    return _plus(_yearless_second(whole, zone, now), fraction)


def unix(text: str, _zone: tzinfo, _now: float) -> float | None:
    """Read `1796008327.123456` (journalctl -o short-unix)."""
    return float(text) if _UNIX.fullmatch(text) else None


def _plus(whole: float | None, fraction: str | None) -> float | None:
    if whole is None or not fraction:
        return whole
    return whole + float(f"0.{fraction}")


@lru_cache(maxsize=1024)
def _iso_second(whole: str, offset: str | None, zone: tzinfo) -> float | None:
    year, month, day = int(whole[:4]), int(whole[5:7]), int(whole[8:10])
    clock = (int(whole[11:13]), int(whole[14:16]), int(whole[17:19]))
    return _seconds((year, month, day), clock, _offset(offset) or zone)


def _offset(printed: str | None) -> tzinfo | None:
    if printed in {"Z", "UTC", "GMT"}:
        return UTC
    if printed is None or printed[0] not in "+-":
        return None
    digits = printed[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or "0")
    if minutes >= 24 * 60:
        return None
    return timezone(timedelta(minutes=-minutes if printed[0] == "-" else minutes))


@lru_cache(maxsize=1024)
def _ctime_second(text: str, zone: tzinfo) -> float | None:
    match = _CTIME.fullmatch(text)
    if match is None or match[1] not in _MONTHS:
        return None
    clock = (int(match[3]), int(match[4]), int(match[5]))
    return _seconds((int(match[6]), _MONTHS[match[1]], int(match[2])), clock, zone)


@lru_cache(maxsize=1024)
def _yearless_second(text: str, zone: tzinfo, now: float) -> float | None:
    match = _YEARLESS.fullmatch(text)
    if match is None or match[1] not in _MONTHS:
        return None
    month, day = _MONTHS[match[1]], int(match[2])
    clock = (int(match[3]), int(match[4]), int(match[5]))
    latest = now + _LATEST_AHEAD_SECONDS
    try:
        newest = datetime.fromtimestamp(latest, zone).year
    except (ValueError, OverflowError, OSError):
        return None
    for year in range(newest, newest - _YEARS_BACK - 1, -1):
        seconds = _seconds((year, month, day), clock, zone)
        if seconds is not None and seconds <= latest:
            return seconds
    return None


def _seconds(date: tuple[int, int, int], clock: tuple[int, int, int], zone: tzinfo) -> float | None:
    """Return the moment, None when no such day or hour exists; of an hour that comes twice, its first time is taken."""
    hour, minute, second = clock
    leap = 1.0 if second == _LEAP_SECOND else 0.0
    try:
        moment = datetime(*date, hour, minute, second - int(leap), tzinfo=zone)
        return moment.timestamp() + leap
    except (ValueError, OverflowError):
        return None
