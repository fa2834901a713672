"""A finished log, read once for the lines that may matter. Formats are undone elsewhere; nothing is recognised here.

Speed is the point: the needles are sought in whole blocks, and only the lines that hold one are ever cut out.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from gpuward.adapters.logbytes import Progress, log_blocks
from gpuward.adapters.needles import Probe, probes
from gpuward.model.signal import Gap, Signal
from gpuward.ports import EdgeError, Refused, Tally

LONGEST_LINE_BYTES = 64 * 1024
_STEER_BYTES = 4 * 1024 * 1024
_NULS = re.compile(rb"\0*")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b") | {127})
_BINARY_SHARE = 0.08
"""Share of control bytes above which the start of a file is no text; random bytes have 0.11, logs next to none."""


class FinishedLog:
    """Implements LogFile for a path or an open binary stream.

    Yielded are the lines with one of `needles`, and the line right after one of them that ends with a comma, where the
    rest of a wrapped line is. Lines end with LF or CRLF; a lone CR ends none, or a program that writes one into its
    message could forge a line of the kernel. A line over 64 KiB is passed over with a Gap; NULs are dropped. The cursor
    is `f` and the offset of the line's start in the decompressed, decoded stream. `progress` is called about every
    8 MiB.
    """

    def __init__(
        self, name: str, place: str | BinaryIO, *, needles: tuple[bytes, ...], progress: Progress | None = None
    ) -> None:
        self.name = name
        self._place = place
        self._needles = needles
        self._progress = progress
        self._lines = 0
        self._skipped = 0
        self._offset = 0
        self._rest = b""
        self._dropping = False
        self._wrapped = False
        self._found = False
        self._probes: tuple[Probe, ...] = ()
        self._steer_at = 0
        self._sampled_bytes = 0
        self._control_bytes = 0

    def tally(self) -> Tally:
        """Return the counts so far."""
        return Tally(lines=self._lines, skipped=self._skipped)

    def head(self, lines: int) -> Sequence[Signal]:
        """Return up to `lines` first lines, whatever they are; empty when they cannot be read twice or not at all.

        Only a regular file is read twice. Lines that are too long are not among them.
        """
        if not isinstance(self._place, str) or not Path(self._place).is_file():
            return ()
        first: list[Signal] = []
        with contextlib.suppress(EdgeError):  # the same trouble is told when the signals are read
            every = FinishedLog(self.name, self._place, needles=(b"\n",)).signals()
            first.extend(islice((one for one in every if isinstance(one, Signal)), lines))
        return first

    def signals(self) -> Iterator[Signal | Gap]:
        """Yield the lines that may matter, in order, and Gaps for what was passed over.

        Raises Unreachable or Refused after the whole lines before the trouble. A file that looks binary is read all the
        same, because garbage may surround good lines; it is Refused at its end when not one line mattered.
        """
        for piece in log_blocks(self.name, self._place, self._progress):
            if isinstance(piece, Gap):
                yield piece
                continue
            self._sample(piece)
            yield from self._fed(piece)
        if self._dropping or self._rest.strip(b"\0"):
            yield from self._fed(b"\n")
        if not self._found and self._control_bytes > _BINARY_SHARE * self._sampled_bytes:
            raise Refused(
                f"{self.name} is not text; name a log file (a binary journal: journalctl -k -o json --file FILE)"
            )

    def _fed(self, block: bytes) -> Iterator[Signal | Gap]:
        """Take one more block: whole lines are searched, the begun one is kept, one that is too long is passed over."""
        if self._dropping:
            start = block.find(b"\n") + 1
            if not start:
                self._offset += len(block)
                return
            yield self._passed_over()
        else:
            block, start = self._rest + block, 0
        self._dropping = False
        while True:
            stop = _end_of_short_lines(block, start)
            yield from self._searched(block, start, stop)
            if len(block) - stop <= LONGEST_LINE_BYTES:
                break
            # A hole that the rotation by copy and truncate left is no line: go on behind its NULs.
            start = _end_of_nuls(block, stop)
            if start == stop:
                start = block.find(b"\n", stop) + 1
                if not start:
                    self._dropping = True
                    stop = len(block)
                    break
                yield self._passed_over()
        self._rest = block[stop:]
        self._offset += stop

    def _sample(self, block: bytes) -> None:
        """Count what is no text in the first 64 KiB; a hole of NULs at either end of a block does not count."""
        if self._offset < LONGEST_LINE_BYTES:
            sample = block.strip(b"\0")[:LONGEST_LINE_BYTES]
            self._sampled_bytes += len(sample)
            self._control_bytes += len(sample) - len(sample.translate(None, _CONTROL))

    def _passed_over(self) -> Gap:
        self._lines += 1
        self._skipped += 1
        self._wrapped = False
        return Gap(source=self.name, missed=1, why=f"line {self._lines} is longer than 64 KiB and was passed over")

    def _searched(self, block: bytes, start: int, stop: int) -> Iterator[Signal]:
        """Yield what matters of the whole lines in block[start:stop], and count them all."""
        counted = start
        for begin, end in self._matches(block, start, stop):
            self._lines += block.count(b"\n", counted, begin)
            counted = begin
            text = block[begin:end].replace(b"\0", b"").rstrip(b"\r").decode("utf-8", "replace")
            self._found = True
            yield Signal(source=self.name, line=self._lines + 1, cursor=f"f{self._offset + begin}", text=text)
        self._lines += block.count(b"\n", counted, stop)

    def _matches(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        """Return where the lines that matter begin and end, in order."""
        found: dict[int, int] = {}
        for probe in self._steered(block):
            at = start
            while (at := probe.next(block, at, stop)) >= 0:
                end = block.find(b"\n", at, stop)
                found[max(start, block.rfind(b"\n", start, at) + 1)] = end
                at = end + 1
        following = [
            end + 1 for begin, end in found.items() if block[max(begin, end - 4) : end].rstrip().endswith(b",")
        ]
        if self._wrapped and start < stop:
            following.append(start)
        self._wrapped = stop in following or (self._wrapped and start == stop)
        found.update((begin, block.find(b"\n", begin, stop)) for begin in following if begin != stop)
        return sorted(found.items())

    def _steered(self, block: bytes) -> tuple[Probe, ...]:
        if self._offset >= self._steer_at:
            self._probes = probes(self._needles, block)
            self._steer_at = self._offset + _STEER_BYTES
        return self._probes


def _end_of_short_lines(block: bytes, start: int) -> int:
    """Return where the whole lines from `start` end: at a line that is too long, or at the one not yet whole."""
    while (newline := block.rfind(b"\n", start, start + LONGEST_LINE_BYTES + 1)) >= 0:
        start = newline + 1
    return start


def _end_of_nuls(block: bytes, start: int) -> int:
    match = _NULS.match(block, start)
    return match.end() if match else start
