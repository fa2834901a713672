r"""The live kernel log /dev/kmsg, one record a time. What a record means is not known here.

The format is the kernel's Documentation/ABI/testing/dev-kmsg: `priority,sequence,microseconds,flags;message`, then
lines that begin with a blank, which are dropped; bytes that are not printable come as `\xNN`.
"""

import os
import re
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Origin, Refused, Unreachable

KMSG_DEVICE = os.makedev(1, 11)
RECORD_BYTES = 64 * 1024
"""More than the kernel ever hands out for one record; a smaller read fails with EINVAL."""

_MOST_RECORDS = 2000
_FRAME = re.compile(r"\d+,(\d+),(\d+)")
_CURSOR = re.compile(r"k(\d+)", re.ASCII)
_CLOCK_TRIES = 3
_LIVE_READS = 8
"""Of how many reads that gave something new the time is compared. The least delayed record counts."""


def first_line(record: bytes) -> bytes:
    r"""Return the frame and message of a raw record. Its `\xNN` escapes stay: the recogniser knows this frame's."""
    return record.partition(b"\n")[0]


class Kmsg:
    """Implements KernelLog with /dev/kmsg. `line` is the record's sequence number and the cursor is `k` and it.

    Records are stamped by the clock of their processor, which nobody corrects: it drifts from the monotonic clock by
    seconds a day. How far it is away is measured on the records that come after the end of the log was reached.
    """

    def __init__(self, path: str = "/dev/kmsg", *, proc: str = "/proc") -> None:
        self._path = path
        self._proc = proc
        self._handle: int | None = None
        self._expected: int | None = None
        self._overrun = False
        self._is_live = False
        self._lags: deque[float] = deque(maxlen=_LIVE_READS)

    def origin(self) -> Origin:
        """Return this boot and when the clock of its records began, by the wall clock as it stands now."""
        try:
            boot = (Path(self._proc) / "sys/kernel/random/boot_id").read_text("ascii").replace("-", "")[:8]
        except OSError as error:
            raise Unreachable(f"the boot id under {self._proc} cannot be read; mount proc there") from error
        node = socket.gethostname().partition(".")[0]
        began = _boot_time() + min(self._lags, default=0.0)
        return Origin(source=self._path, boot=boot, boot_time=began, node=node or None)

    def seek(self, cursor: str) -> bool:
        """Go on after `cursor`; False when the ring (of this boot) does not hold the place, then from the oldest."""
        match = _CURSOR.fullmatch(cursor)
        self._rewind()
        if match is None:
            return False
        wanted = int(match[1])
        for sequence in self._sequences():
            if sequence == wanted:
                self._expected = wanted + 1
                return True
            if sequence > wanted:
                self._rewind()
                # The record itself may be overwritten; nothing is lost as long as the one after it is held.
                self._expected = wanted + 1 if sequence == wanted + 1 else None
                return self._expected is not None
        self._rewind()
        return False

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return the records that came, waiting at most `timeout_seconds` for the first."""
        handle = self._opened()
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        if not waiting.poll(max(0, timeout_seconds) * 1000):
            self._is_live = True
            return ()
        came: list[Signal | Gap] = []
        lags = []
        while len(came) < _MOST_RECORDS and (signal := self._next()) is not None:
            if (gap := self._gap(signal.line)) is not None:
                came.append(gap)
            if self._is_live:
                lags.append(time.monotonic() - _stamp_seconds(signal.text))
            self._expected = signal.line + 1
            came.append(signal)
        if lags:
            self._lags.append(min(lags))
        self._is_live = self._is_live or len(came) < _MOST_RECORDS
        return came

    def close(self) -> None:
        """Close the device; a later read opens it again, at the oldest record."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None
        self._expected = None
        self._is_live = False

    def _sequences(self) -> Iterator[int]:
        while (signal := self._next()) is not None:
            yield signal.line

    def _rewind(self) -> None:
        self._expected = None
        self._overrun = False
        self._is_live = False
        os.lseek(self._opened(), 0, os.SEEK_SET)

    def _gap(self, sequence: int) -> Gap | None:
        """Say what was lost before record `sequence`, if anything was."""
        missed = None if self._expected is None else sequence - self._expected
        lost = self._overrun if missed is None else missed > 0
        self._overrun = False
        why = "the kernel wrote faster than we read, and its ring was overwritten"
        return Gap(source=self._path, missed=missed, why=why) if lost else None

    def _next(self) -> Signal | None:
        """Return the next record, None when there is none now."""
        while True:
            try:
                record = os.read(self._opened(), RECORD_BYTES)
            except BlockingIOError:
                return None
            except BrokenPipeError:
                self._overrun = True
                continue
            except OSError as error:
                raise Unreachable(f"reading {self._path} failed ({error.strerror}); it is tried again") from error
            text = first_line(record).decode("utf-8", "replace")
            if (match := _FRAME.match(text)) is not None:
                sequence = int(match[1])
                return Signal(source=self._path, line=sequence, cursor=f"k{sequence}", text=text)

    def _opened(self) -> int:
        if self._handle is None:
            try:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise _no_entry(self._path, error) from error
            if os.fstat(self._handle).st_rdev != KMSG_DEVICE:
                # Containers often have the console or /dev/null in its place.
                self.close()
                raise Refused(f"{self._path} is not the kernel's log; in a container, mount /dev/kmsg from the host")
        return self._handle


def _stamp_seconds(text: str) -> float:
    """Return the time of a record that is framed, by its own clock."""
    match = _FRAME.match(text)
    return int(match[2]) / 1e6 if match else 0.0


def _no_entry(path: str, error: OSError) -> EdgeError:
    if isinstance(error, PermissionError):
        return Refused(f"{path} may not be read by this user; run as root or with the capability CAP_SYSLOG")
    return Unreachable(f"{path} cannot be opened ({error.strerror}); in a container, mount it from the host")


def _boot_time() -> float:
    """Return when the monotonic clock was zero: of three tries the one with the least time between its readings."""
    tries = []
    for _ in range(_CLOCK_TRIES):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        wall = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1] / 1e9
