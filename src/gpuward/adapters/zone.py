"""Time zones: this machine's, and those of the zone database. Times are not read here."""

import os
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpuward.ports import Refused

_LOCAL = "/etc/localtime"


def local_zone(path: str = _LOCAL) -> tzinfo:
    """Return the zone that this machine shows times in: that of $TZ, else of /etc/localtime, else UTC."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        try:
            return zone_named(named)
        except Refused:
            pass  # A POSIX rule such as CET-1CEST names no zone of the database: the machine's own is the best guess.
    try:
        with open(path, "rb") as rules:  # noqa: PTH123  ZoneInfo reads from an open file
            return ZoneInfo.from_file(rules, key="local")
    except (OSError, ValueError):
        return ZoneInfo("UTC")


def zone_named(name: str) -> tzinfo:
    """Return the zone of that name. Raises Refused when the database does not have it."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Refused(f"there is no time zone {name!r}; give a name such as Europe/Berlin, or +02:00") from error
