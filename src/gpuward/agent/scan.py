"""One pass over finished logs: lines in, records or closed faults out, in bounded memory; the scan command's loop."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuward.isolation.kernel.reader import KernelReader
from gpuward.isolation.merge import Merger
from gpuward.model.counted import many
from gpuward.model.fault import Change, ChangeKind, Fault
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import Gap
from gpuward.ports import EdgeError, LogFile

CHATTER = frozenset({RecordKind.NVRM_OTHER, RecordKind.NVSWITCH_OTHER})
"""The driver's other lines: read, and nothing to report."""
BROKEN = frozenset({RecordKind.XID_MALFORMED, RecordKind.SXID_MALFORMED})
_FUTURE_SECONDS = 300.0
_HEAD_LINES = 200
NOTES_MOST = 20
"""Notes told one by one; a file of lines that are too long would make thousands, and each would be kept."""

Open = Callable[[LogFile], KernelReader]


@dataclass(slots=True)
class Pass:
    """What a pass over logs saw so far. `failures` are inputs that could not be read to their end.

    `notes` are the first of what was passed over or looks wrong, `unsaid` counts the others. `uptime_only` are the
    lines whose only time is the uptime, the first of them in the log `uptime_only_in`. `by_line` is set by who shows
    every line anyway.
    """

    now: float
    lines: int = 0
    recognised: int = 0
    unparsed: int = 0
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unsaid: int = 0
    uptime_only: int = 0
    uptime_only_in: str = ""
    by_line: bool = False

    def note(self, sentence: str) -> None:
        """Keep a note for the person who reads the result."""
        if len(self.notes) < NOTES_MOST:
            self.notes.append(sentence)
        else:
            self.unsaid += 1


def records(seen: Pass, logs: Iterable[LogFile], reader_of: Open) -> Iterator[Record]:
    """Yield every record of the logs, in order; trouble with one log is noted and the others are read."""
    for log in logs:
        yield from _of_log(seen, log, reader_of(log))


def faults(seen: Pass, logs: Iterable[LogFile], reader_of: Open, *, merger: Merger) -> Iterator[Fault]:
    """Yield every fault of the logs once nothing can change it any more; all are out when the logs have ended."""
    step = merger.step
    for record in records(seen, logs, reader_of):
        changes = step(record)
        if changes:
            yield from _closed(changes)
    yield from _closed(merger.finish())


def in_time_order(logs: Sequence[LogFile], reader_of: Open) -> list[LogFile]:
    """Return the logs oldest first by the first time each carries, as rotated logs come in any order.

    Those that carry none, or cannot be read twice, come after them in the order given.
    """
    if len(logs) < 2:  # noqa: PLR2004  one log has one order
        return list(logs)
    starts = [_first_time(log, reader_of(log)) for log in logs]
    return [log for _, log in sorted(zip(starts, logs, strict=True), key=lambda pair: _timeless_last(pair[0]))]


def _timeless_last(start: float | None) -> float:
    return math.inf if start is None else start


def _first_time(log: LogFile, reader: KernelReader) -> float | None:
    for signal in log.head(_HEAD_LINES):
        reader.read(signal)
        if reader.moment().wall is not None:
            return reader.moment().wall
    return None


def _closed(changes: Iterable[Change]) -> Iterator[Fault]:
    return (change.fault for change in changes if change.kind is ChangeKind.CLOSED)


def _of_log(seen: Pass, log: LogFile, reader: KernelReader) -> Iterator[Record]:
    before = (seen.lines, seen.unparsed)
    future = _Future(seen.now + _FUTURE_SECONDS)
    quoted = 0
    try:
        for signal in log.signals():
            if isinstance(signal, Gap):
                seen.note(f"{signal.source}: {signal.why}")
                continue
            record = reader.read(signal)
            if record is None:
                continue
            kind = record.kind
            if kind in BROKEN:
                seen.unparsed += 1
            elif kind not in CHATTER:
                seen.recognised += 1
                quoted += kind is RecordKind.XID_QUOTED
            wall = record.moment.wall
            if wall is None:
                _count_uptime(seen, log, record)
            else:
                future.note(wall)
            yield record
    except EdgeError as error:
        seen.failures.append(str(error))
    finally:
        tally = log.tally()
        seen.lines = before[0] + tally.lines
        seen.unparsed += tally.skipped
        if quoted:
            seen.note(_of_quoted(log.name, quoted, by_line=seen.by_line))
        if future.count:
            seen.note(
                f"{log.name}: {many(future.count, 'line lies', 'lines lie')} in the future, "
                f"by up to {future.by_seconds(seen.now)} s: check the clock of that machine, --timezone and --boot-time"
            )


def _count_uptime(seen: Pass, log: LogFile, record: Record) -> None:
    if record.moment.uptime is not None and record.kind not in CHATTER:
        seen.uptime_only += 1
        seen.uptime_only_in = seen.uptime_only_in or log.name


def _of_quoted(name: str, lines: int, *, by_line: bool) -> str:
    """Return what a person should know of lines that look like faults and are none."""
    named = "1 line names an Xid but was" if lines == 1 else f"{lines} lines name an Xid but were"
    counted = "it is not counted as a fault" if lines == 1 else "they are not counted as faults"
    see = "" if by_line else ". See them with --lines"
    return f"{name}: {named} not written by the kernel (another program quoted it); {counted}{see}"


@dataclass(slots=True)
class _Future:
    """Lines dated later than now: a clock or a time zone is wrong."""

    limit: float
    count: int = 0
    latest: float = 0.0

    def note(self, wall: float) -> None:
        if wall > self.limit:
            self.count += 1
            self.latest = max(self.latest, wall)

    def by_seconds(self, now: float) -> int:
        return round(self.latest - now)
