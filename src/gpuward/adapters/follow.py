"""A text log that grows and is rotated, followed line by line. What a line means is not known here."""

import contextlib
import heapq
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Origin, Refused, Unreachable

_READ_BYTES = 128 * 1024
_LONGEST_LINE_BYTES = 64 * 1024
_POLL_SECONDS = 0.05
_FINGERPRINT_BYTES = 1024
"""So much before a place tells one text from another: the last line whole, for the kernel writes none that is longer.

Less would miss the time of a line: the same fault at the same place of a file that was cut would be taken for a replay.
"""
_CURSOR = re.compile(r"f\d{1,20}-(\d{1,20})-(\d{1,18})-([0-9a-f]{8})", re.ASCII)
_MOST_ENTRIES = 1000


class FollowedFile:
    """Implements KernelLog for the file called `path`, from its start, through every way of rotating it.

    A file that is not there yet is waited for. When the name gets another file, the old one is read to its end first,
    and while the new one is empty the old one is still followed, because a writer keeps the old one open for a moment.
    A file that got shorter, or whose text before our place is another, is read from its start. Only whole lines are
    handed out. `line` counts within the file. The cursor is `f<device>-<inode>-<offset after the line>-<fingerprint>`,
    and the fingerprint, 8 hexadecimal digits, is that of the text before the offset: a file that was cut and has grown
    again has other cursors at the same offsets.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        self._identity = (0, 0)
        self._offset = 0
        self._line = 0
        self._rest = b""
        self._dropping = False
        self._tail = b""
        self._between: tuple[str, ...] = ()

    def origin(self) -> Origin:
        """Return the name only: the lines carry what else is known."""
        return Origin(source=self._path, boot=None, boot_time=None, node=None)

    def seek(self, cursor: str) -> bool:
        """Go on after `cursor`, also where its file was renamed within the folder; then the new file comes after it.

        False when the file is gone, or its text before the place is another. The device does not count: its number may
        be another after a boot.
        """
        self.close()
        place = _place(cursor)
        if place is None:
            return False
        if self._goes_on(self._path, place):
            return True
        # A renamed file that may not be read is as good as gone.
        with contextlib.suppress(EdgeError):
            for path in _renamed(self._path, place.inode):
                if self._goes_on(path, place):
                    self._between = _newer(self._path, path)
                    return True
        return False

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return the whole lines that came, waiting at most `timeout_seconds` for the first."""
        end = time.monotonic() + timeout_seconds
        came: list[Signal | Gap] = []
        while True:
            before = self._offset
            try:
                came.extend(self._step())
            except OSError as error:
                if not came:
                    raise _trouble(self._path, error) from error
            left = end - time.monotonic()
            if came or left <= 0:
                return came
            if self._offset == before:
                time.sleep(min(_POLL_SECONDS, left))

    def close(self) -> None:
        """Close the file; a later read opens it again, from its start."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._line = 0
        self._rest = b""
        self._dropping = False
        self._tail = b""
        self._between = ()

    def _step(self) -> Iterator[Signal | Gap]:
        """Read on, or find out why there is nothing: truncated, replaced, or nothing new."""
        if self._handle is None and not self._open(self._path):
            return
        if self._is_other_text():
            yield Gap(source=self._path, missed=None, why="the file was cut and is read again from its start")
            self._begin()
        if chunk := self._chunk():
            yield from self._signals(chunk)
        elif self._is_replaced():
            # What was written between the last read and the new file's first byte is still in the old one.
            while chunk := self._chunk():
                yield from self._signals(chunk)
            if self._rest.strip(b"\0") or self._dropping:
                yield Gap(source=self._path, missed=1, why="the file was replaced, and its last line had no end")
            if self._between:
                why = f"{', '.join(self._between)} came between and was not followed; use `gpuward scan` on it"
                yield Gap(source=self._path, missed=None, why=why)
            self.close()

    def _open(self, path: str) -> bool:
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _trouble(path, error) from error
        self._begin()
        status = os.fstat(self._handle)
        self._identity = (status.st_dev, status.st_ino)
        return True

    def _goes_on(self, path: str, place: "_Place") -> bool:
        """Open `path` after `place`; False, and nothing is open, when it is not that file or not that text."""
        try:
            if self._open(path) and self._identity[1] == place.inode and self._is_text_before(place):
                self._line = self._lines_before(place.offset)
                self._offset = place.offset
                return True
        except OSError as error:
            self.close()
            raise _trouble(path, error) from error
        self.close()
        return False

    def _is_text_before(self, place: "_Place") -> bool:
        """Take the text before `place` for what was read last, and return whether it is the one it was."""
        count = min(_FINGERPRINT_BYTES, place.offset)
        self._tail = b"" if self._handle is None else os.pread(self._handle, count, place.offset - count)
        return len(self._tail) == count and _fingerprint(self._tail) == place.fingerprint

    def _chunk(self, most: int = _READ_BYTES) -> bytes:
        chunk = b"" if self._handle is None else os.pread(self._handle, most, self._offset)
        self._offset += len(chunk)
        return chunk

    def _is_other_text(self) -> bool:
        """Compare the last bytes that were read: they differ when the file was cut, even if it has grown again."""
        count = len(self._tail)
        return self._handle is not None and self._tail != os.pread(self._handle, count, self._offset - count)

    def _is_replaced(self) -> bool:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - as os.open above: descriptors and numbers, no path algebra
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) != self._identity and status.st_size > 0

    def _signals(self, chunk: bytes) -> Iterator[Signal | Gap]:
        seen = self._tail + chunk
        self._tail = seen[-_FINGERPRINT_BYTES:]
        before = self._offset - len(seen)
        at = self._offset - len(chunk) - len(self._rest)
        *whole, rest = (self._rest + chunk).split(b"\n")
        for raw in whole:
            at += len(raw) + 1
            yield from self._whole(raw, at, seen[max(0, at - before - _FINGERPRINT_BYTES) : at - before])
        # A hole of NULs that a writer left after the file was cut belongs to no line.
        self._rest = rest.lstrip(b"\0")
        if self._dropping or len(self._rest) > _LONGEST_LINE_BYTES:
            self._dropping = True
            self._rest = b""

    def _whole(self, raw: bytes, end: int, tail: bytes) -> Iterator[Signal | Gap]:
        self._line += 1
        text = raw.replace(b"\0", b"").rstrip(b"\r")
        if self._dropping or len(text) > _LONGEST_LINE_BYTES:
            self._dropping = False
            yield Gap(self._path, missed=1, why=f"line {self._line} is longer than 64 KiB and was passed over")
            return
        device, inode = self._identity
        cursor = f"f{device}-{inode}-{end}-{_fingerprint(tail)}"
        yield Signal(source=self._path, line=self._line, cursor=cursor, text=text.decode("utf-8", "replace"))

    def _lines_before(self, offset: int) -> int:
        """Count the lines before `offset`, so that evidence keeps its true line numbers; leaves us at `offset`."""
        lines = 0
        while chunk := self._chunk(min(_READ_BYTES, offset - self._offset)):
            lines += chunk.count(b"\n")
        return lines


@dataclass(frozen=True, slots=True)
class _Place:
    """A cursor, taken apart."""

    inode: int
    offset: int
    fingerprint: str


def _place(cursor: str) -> _Place | None:
    match = _CURSOR.fullmatch(cursor)
    return None if match is None else _Place(int(match[1]), int(match[2]), fingerprint=match[3])


def _fingerprint(tail: bytes) -> str:
    return blake2b(tail, digest_size=4).hexdigest()


def _neighbours(path: str) -> Iterator[os.DirEntry[str]]:
    """Yield what is in the folder of `path`; a folder in disorder holds nothing.

    Names that start with the file's own come first, for a rotation puts it there; 1000 in all.
    """
    folder, name = os.path.split(os.path.realpath(path))
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from heapq.nsmallest(_MOST_ENTRIES, entries, key=lambda one: not one.name.startswith(name))


def _renamed(path: str, inode: int) -> Iterator[str]:
    """Yield what the regular file with this inode is called in the folder of `path`."""
    for entry in _neighbours(path):
        with contextlib.suppress(OSError):  # gone since
            status = entry.stat(follow_symlinks=False)
            if status.st_ino == inode and stat.S_ISREG(status.st_mode):
                yield entry.path


def _newer(path: str, old: str) -> tuple[str, ...]:
    """Return the files that were rotated away from `path` after `old` was, by the time of their last line."""
    name = os.path.basename(os.path.realpath(path))  # noqa: PTH119 - as above
    newer: list[str] = []
    with contextlib.suppress(OSError):
        last = os.stat(old).st_mtime_ns  # noqa: PTH116 - as above
        for entry in _neighbours(path):
            with contextlib.suppress(OSError):  # gone since
                rotated = entry.name.startswith((f"{name}.", f"{name}-"))
                if rotated and entry.is_file() and entry.path != old and entry.stat().st_mtime_ns > last:
                    newer.append(entry.path)
    return tuple(sorted(newer))


def _trouble(path: str, error: OSError) -> EdgeError:
    if isinstance(error, PermissionError):
        return Refused(f"{path} may not be read by this user; run as root or a member of its group")
    if isinstance(error, IsADirectoryError):
        return Refused(f"{path} is a folder; name the log file in it")
    return Unreachable(f"reading {path} failed ({error.strerror}); it is tried again")
