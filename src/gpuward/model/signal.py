"""What an edge hands in: one raw line with its place, or the news that lines were lost. Nothing is recognised yet."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """When, on the record's own clocks: `wall` in seconds since 1970 UTC, `uptime` since boot; None is unknown."""

    wall: float | None
    uptime: float | None


NEVER = Moment(wall=None, uptime=None)


@dataclass(frozen=True, slots=True)
class Signal:
    """One line as it came, framed (kmsg, syslog, journal json, ...) and not yet read.

    `line` counts from 1 within `source` (for /dev/kmsg it is the sequence number). `cursor` names the record so that a
    replay is known as one: `k<seq>`, `j<journal cursor>`, `f<byte offset>`; of a followed file
    `f<dev>-<inode>-<offset>-<fingerprint>`.
    """

    source: str
    line: int
    cursor: str
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Lines were lost or passed over, and reading goes on. `missed` is their number where it is known."""

    source: str
    missed: int | None
    why: str
