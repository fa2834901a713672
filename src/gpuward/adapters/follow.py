"""A text log that grows and is rotated, followed line by line. What a line means is not known here."""

import os
import re
import time
from collections.abc import Iterator, Sequence

from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Origin, Refused, Unreachable

_READ_BYTES = 128 * 1024
_LONGEST_LINE_BYTES = 64 * 1024
_POLL_SECONDS = 0.05
_FINGERPRINT_BYTES = 64
_CURSOR = re.compile(r"f(\d+)-(\d+)-(\d+)", re.ASCII)


class FollowedFile:
    """Implements KernelLog for the file called `path`, from its start, through every way of rotating it.

    A file that is not there yet is waited for. When the name gets another file, the old one is read to its end first,
    and while the new one is empty the old one is still followed, because a writer keeps the old one open for a moment.
    A file that got shorter, or whose text before our place is another, is read from its start. Only whole lines are
    handed out. `line` counts within the file; the cursor is `f<device>-<inode>-<offset after the line>`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle: int | None = None
        self._identity = (0, 0)
        self._offset = 0
        self._line = 0
        self._rest = b""
        self._dropping = False
        self._fingerprint = b""

    def origin(self) -> Origin:
        """Return the name only: the lines carry what else is known."""
        return Origin(source=self._path, boot=None, boot_time=None, node=None)

    def seek(self, cursor: str) -> bool:
        """Go on after `cursor`; False when the name now means another file, or one that is shorter."""
        self.close()
        match = _CURSOR.fullmatch(cursor)
        if match is None or not self._open():
            return False
        device, inode, offset = (int(part) for part in match.groups())
        if self._identity != (device, inode) or not self._follows_a_line(offset):
            return False
        self._line = self._lines_before(offset)
        self._offset = offset
        return True

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
        self._fingerprint = b""

    def _step(self) -> Iterator[Signal | Gap]:
        """Read on, or find out why there is nothing: truncated, replaced, or nothing new."""
        if self._handle is None and not self._open():
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
            self.close()

    def _open(self) -> bool:
        if self._handle is None:
            try:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise _trouble(self._path, error) from error
            self._begin()
            status = os.fstat(self._handle)
            self._identity = (status.st_dev, status.st_ino)
        return True

    def _chunk(self) -> bytes:
        chunk = b"" if self._handle is None else os.pread(self._handle, _READ_BYTES, self._offset)
        self._offset += len(chunk)
        self._fingerprint = (self._fingerprint + chunk)[-_FINGERPRINT_BYTES:]
        return chunk

    def _is_other_text(self) -> bool:
        """Compare the last bytes that were read: they differ when the file was cut, even if it has grown again."""
        count = len(self._fingerprint)
        return self._handle is not None and self._fingerprint != os.pread(self._handle, count, self._offset - count)

    def _is_replaced(self) -> bool:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - as os.open above: descriptors and numbers, no path algebra
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) != self._identity and status.st_size > 0

    def _signals(self, chunk: bytes) -> Iterator[Signal | Gap]:
        at = self._offset - len(chunk) - len(self._rest)
        *whole, rest = (self._rest + chunk).split(b"\n")
        for raw in whole:
            at += len(raw) + 1
            yield from self._whole(raw, at)
        # A hole of NULs that a writer left after the file was cut belongs to no line.
        self._rest = rest.lstrip(b"\0")
        if self._dropping or len(self._rest) > _LONGEST_LINE_BYTES:
            self._dropping = True
            self._rest = b""

    def _whole(self, raw: bytes, end: int) -> Iterator[Signal | Gap]:
        self._line += 1
        text = raw.replace(b"\0", b"").rstrip(b"\r")
        if self._dropping or len(text) > _LONGEST_LINE_BYTES:
            self._dropping = False
            yield Gap(self._path, missed=1, why=f"line {self._line} is longer than 64 KiB and was passed over")
            return
        device, inode = self._identity
        cursor = f"f{device}-{inode}-{end}"
        yield Signal(source=self._path, line=self._line, cursor=cursor, text=text.decode("utf-8", "replace"))

    def _follows_a_line(self, offset: int) -> bool:
        if self._handle is None:
            return False
        return offset == 0 or os.pread(self._handle, 1, offset - 1) == b"\n"

    def _lines_before(self, offset: int) -> int:
        """Count the lines before `offset`, so that evidence keeps its true line numbers; leaves us at `offset`."""
        lines = 0
        while self._offset < offset and (chunk := self._chunk()):
            over = max(0, self._offset - offset)
            lines += chunk.count(b"\n", 0, len(chunk) - over)
            if over:
                self._fingerprint = chunk[: len(chunk) - over][-_FINGERPRINT_BYTES:]
        return lines


def _trouble(path: str, error: OSError) -> EdgeError:
    if isinstance(error, PermissionError):
        return Refused(f"{path} may not be read by this user; run as root or a member of its group")
    if isinstance(error, IsADirectoryError):
        return Refused(f"{path} is a folder; name the log file in it")
    return Unreachable(f"reading {path} failed ({error.strerror}); it is tried again")
