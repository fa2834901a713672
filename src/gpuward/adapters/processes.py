"""All processes of this machine as one piece of text, for evidence, and what tells one of them apart for ever."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gpuward.adapters.procfs import Stat, read_stat
from gpuward.model.counted import many
from gpuward.model.node import Lineage
from gpuward.ports import Unreachable

MOST_BYTES = 4 * 1024 * 1024
LONGEST_CELL = 1024
_LONGEST_READ = 4 * LONGEST_CELL
_COLUMNS = ("pid", "ppid", "uid", "state", "started", "name", "cgroup", "command")
_ASLEEP_IN_KERNEL = "D"
_NOT_READ = "-"
_BYTE_OF = 0xDC00
"""Where Python puts the bytes that are not UTF-8 (PEP 383)."""


class ProcessTable:
    """The processes of the tree at `root`. What may not be read of one, or is not there, is `-`."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = Path(root)

    def text(self) -> bytes:
        r"""Return a line of tab-separated columns for each process, in order of pid, under their names; at most 4 MiB.

        Start is UTC. The cgroup is /proc/PID/cgroup with its lines joined by blanks: one of version 2, several of
        version 1. Each cell is cut at 1024 characters. Backslashes and all that is not printable are escaped as in
        Python, bytes that are not UTF-8 as `\xNN`. A process that goes meanwhile is left out. Raises Unreachable.
        """
        try:
            pids = sorted(int(name) for name in os.listdir(self._root) if name.isascii() and name.isdecimal())  # noqa: PTH208  names alone
        except OSError as error:
            raise Unreachable(f"{self._root} cannot be read ({error.strerror}); see that it is mounted") from error
        rows, room = ["\t".join(_COLUMNS)], MOST_BYTES - _LONGEST_READ
        boot_seconds = self._boot_seconds()
        for place, pid in enumerate(pids):
            row = self._row(pid, boot_seconds)
            if row is None:
                continue
            room -= len(row.encode()) + 1
            if room < 0:
                rows.append(f"# cut here: {many(len(pids) - place, 'more process', 'more processes')}")
                break
            rows.append(row)
        return ("\n".join(rows) + "\n").encode()

    def lineage(self, pid: int) -> Lineage | None:
        """Return what tells this process apart, fit to be shown; None when it is gone."""
        folder = self._root / str(pid)
        stat = _stat(folder)
        if stat is None:
            return None
        return Lineage(
            session=stat.session, started=_started(stat, self._boot_seconds()), cgroup=_lines(_read(folder / "cgroup"))
        )

    def _row(self, pid: int, boot_seconds: int | None) -> str | None:
        folder = self._root / str(pid)
        stat = _stat(folder)
        if stat is None:
            return None
        # The memory of one that is asleep in the kernel may be locked, and its command line would be waited for.
        command = None if stat.state == _ASLEEP_IN_KERNEL else _read(folder / "cmdline")
        cells = (
            str(pid),
            str(stat.parent),
            _user(_read(folder / "status")),
            shown(stat.state.encode("utf-8", "surrogateescape")),
            _started(stat, boot_seconds) or _NOT_READ,
            shown(_first_line(_read(folder / "comm")) or stat.name.encode("utf-8", "surrogateescape")),
            _lines(_read(folder / "cgroup")) or _NOT_READ,
            shown((command or b"").rstrip(b"\0").replace(b"\0", b" ")) or _NOT_READ,
        )
        return "\t".join(cells)

    def _boot_seconds(self) -> int | None:
        for line in _whole_lines(self._root / "stat"):
            word, _, value = line.partition(b" ")
            if word == b"btime" and value.strip().isdigit():
                return int(value)
        return None


def shown(raw: bytes) -> str:
    """Return text of anybody's making as one safe cell: at most 1024 characters, without tabs, line ends or escapes."""
    text = "".join(map(_safe, raw.decode("utf-8", "surrogateescape")[:LONGEST_CELL]))
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def _safe(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code - _BYTE_OF:02x}" if _BYTE_OF <= code < _BYTE_OF + 256 else char.encode("unicode_escape").decode()


def _read(file: Path) -> bytes | None:
    """Return the first 4 KiB of a file, None when it is gone or may not be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_LONGEST_READ)
    except OSError:
        return None


def _whole_lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as opened:
            yield from opened
    except OSError:
        return


def _stat(folder: Path) -> Stat | None:
    return read_stat((_read(folder / "stat") or b"").decode("utf-8", "surrogateescape"))


def _first_line(raw: bytes | None) -> bytes:
    """Return the name of /proc/PID/comm: its last line end is the kernel's, others are the process's own."""
    return (raw or b"").removesuffix(b"\n")


def _user(status: bytes | None) -> str:
    """Return the real user id of a /proc/PID/status text."""
    for line in (status or b"").splitlines():
        words = line.split()
        if words[:1] == [b"Uid:"] and len(words) > 1:
            return shown(words[1])
    return _NOT_READ


def _lines(raw: bytes | None) -> str | None:
    """Return the lines of a file as one cell, None when there is nothing."""
    return shown(b" ".join((raw or b"").split(b"\n")).strip()) or None


def _started(stat: Stat, boot_seconds: int | None) -> str | None:
    """Return the start as UTC, or since boot where the time of the boot is not told."""
    if stat.started_ticks is None:
        return None
    seconds = stat.started_ticks / os.sysconf("SC_CLK_TCK")
    if boot_seconds is None:
        return f"+{seconds:.2f}s"
    try:
        return datetime.fromtimestamp(boot_seconds + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"+{seconds:.2f}s"
