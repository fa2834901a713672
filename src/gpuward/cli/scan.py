"""`gpuward scan`: finished logs in, a table or JSON out. Reading and judging are in agent.scan."""

import argparse
import sys
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from types import MappingProxyType

from gpuward.agent.scan import CHATTER, Pass, faults, in_time_order, records
from gpuward.cli import wiring
from gpuward.cli.objects import dumps, fault_object, line_object
from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.isolation.kernel.text import shown
from gpuward.isolation.merge import Merger
from gpuward.model.counted import many, verb
from gpuward.model.fault import Fault
from gpuward.model.level import LEVELS, Level
from gpuward.model.record import Record
from gpuward.model.signal import Moment
from gpuward.ports import LogFile

EXIT_QUIET = 0
EXIT_FOUND = 1
EXIT_UNREAD = 3
LISTED_MOST = 200_000
"""Faults listed; a log with more is a flood, whose mildest are left out. A fault at P0 or P1 never is."""
_MILD = (Level.IGNORE, Level.P2)
"""The levels that may be left out, the mildest first."""
_SPOOLED_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asked to see."""

    since: float | None
    until: float | None
    level: Level
    every: bool

    def spans(self, first: Moment, last: Moment) -> bool:
        """Return whether something that went on from first to last is in the time asked for; what has no time is."""
        ended_before = self.since is not None and last.wall is not None and last.wall < self.since
        began_after = self.until is not None and first.wall is not None and first.wall > self.until
        return not ended_before and not began_after


def scan(asked: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    now = wiring.clock().now()
    zone = wiring.zone(asked.timezone)
    wanted = Wanted(
        since=wiring.moment("--since", asked.since, timezone=zone, now=now),
        until=wiring.moment("--until", asked.until, timezone=zone, now=now),
        level=LEVELS[asked.level] if asked.level else Level.P2,
        every=asked.all,
    )
    boot_time = wiring.boot_time(asked.boot_time, timezone=zone, now=now)
    seen = Pass(now=now)
    logs = wiring.finished_logs(asked.files, _progress() if sys.stderr.isatty() else None)

    def reader_of(log: LogFile) -> KernelReader:
        began, node = boot_time, asked.node
        live = wiring.live_origin(log.name)
        if live is not None:
            began, node = began or live.boot_time, node or live.node
        return KernelReader(Context(source=log.name, timezone=zone, now=now, boot_time=began, node=node))

    logs = in_time_order(logs, reader_of)
    if asked.lines:
        seen.by_line = True
        _lines(records(seen, logs, reader_of), wanted, asked.json, zone)
        _say_dates(seen, boot_time_given=boot_time is not None)
        return _end(seen, worst=Level.IGNORE)
    _, terms = wiring.judgement(asked.config, asked.profile)
    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES) as spool:
        listing = _Listing(wanted, spool, explicit_level=asked.level is not None)
        listing.take(faults(seen, logs, reader_of, merger=Merger(terms)))
        _show(listing, asked.json, zone, whole=not seen.failures)
    _say_dates(seen, boot_time_given=boot_time is not None)
    return _end(seen, worst=listing.worst, hidden=listing.hidden, left_out=listing.left_out)


def _show(listing: "_Listing", as_json: bool, zone: tzinfo, *, whole: bool) -> None:  # noqa: FBT001  from --json
    """Show the faults; that there is none is said only where every log was read: unread is not healthy."""
    if as_json:
        sys.stdout.writelines(listing.by_time())
    elif listing.count:
        from gpuward.cli.table import print_faults  # noqa: PLC0415  drawn last, so that a big log does not pay for it

        print_faults(listing.by_gpu(), zone)
        sys.stdout.write(f"{_summary(listing.found)}\n")
    elif whole:
        sys.stdout.write("No fault to show.\n")


def _lines(found: Iterable[Record], wanted: Wanted, as_json: bool, zone: tzinfo) -> None:  # noqa: FBT001  from --json
    from gpuward.cli.table import line_text  # noqa: PLC0415  as for the table of faults

    for record in found:
        if (record.kind in CHATTER and not wanted.every) or not wanted.spans(record.moment, record.moment):
            continue
        sys.stdout.write((dumps(line_object(record)) if as_json else line_text(record, zone)) + "\n")


def _summary(found: Mapping[Level, int]) -> str:
    """Return how many faults there are of each level, worst first."""
    total = sum(found.values())
    return f"{total} {'fault' if total == 1 else 'faults'}: {_by_level(found)}"


def _by_level(counts: Mapping[Level, int]) -> str:
    return ", ".join(f"{counts[level]} {level}" for level in sorted(counts, reverse=True) if counts[level])


def _say_dates(seen: Pass, *, boot_time_given: bool) -> None:
    """Note once, for all logs, that times are missing and how to get them."""
    if not seen.uptime_only:
        return
    count = f"{seen.uptime_only} line{'' if seen.uptime_only == 1 else 's'}"
    remedy = (
        "they are of a later boot than the one --boot-time is about; scan each boot by itself"
        if boot_time_given
        else "give --boot-time TIME (auto: this machine's) to get the wall clock"
    )
    seen.notes.append(f"{seen.uptime_only_in}: times are seconds since boot ({count}); {remedy}")


def _end(seen: Pass, *, worst: Level, hidden: int = 0, left_out: Mapping[Level, int] = MappingProxyType({})) -> int:
    """Tell on standard error what was read, and return the exit code."""
    _clear_progress()
    sys.stdout.flush()
    for note in seen.notes:
        sys.stderr.write(f"gpuward: note: {shown(note)}\n")
    if seen.unsaid:
        sys.stderr.write(f"gpuward: note: {seen.unsaid} further notes are not shown\n")
    for failure in seen.failures:
        sys.stderr.write(f"gpuward: {shown(failure)}\n")
    further = sum(left_out.values())
    if further:
        sys.stderr.write(
            f"gpuward: {many(further, 'further fault is', 'further faults are')} not listed ({_by_level(left_out)}; "
            "every P0 and P1 is); narrow the time or the level\n"
        )
    if hidden:
        sys.stderr.write(
            f"gpuward: {many(hidden, 'fault')} graded ignore {verb(hidden, 'is', 'are')} not shown; --all shows them\n"
        )
    sys.stderr.write(
        f"gpuward: {many(seen.lines, 'line')} read, {seen.recognised} recognised, {seen.unparsed} unparsed\n"
    )
    if seen.failures:
        return EXIT_UNREAD
    return EXIT_FOUND if worst >= Level.P1 else EXIT_QUIET


@dataclass(slots=True)
class _Listing:
    """The faults to show, kept as JSON lines in a file once they are many, so that memory stays bounded.

    Of more than `LISTED_MOST` the mildest are left out, and of these the ones that ended last. A fault at P0 or P1 is
    always kept: it costs 24 bytes here, and its line in the file.
    """

    wanted: Wanted
    spool: "tempfile.SpooledTemporaryFile[bytes]"
    explicit_level: bool
    count: int = 0
    hidden: int = 0
    listed: int = 0
    worst: Level = Level.IGNORE
    found: Counter[Level] = field(default_factory=Counter)
    left_out: Counter[Level] = field(default_factory=Counter)
    _times: "array[float]" = field(default_factory=lambda: array("d"))
    _offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    _groups: dict[tuple[str, str], "array[int]"] = field(default_factory=dict)
    _mild: dict[Level, "array[int]"] = field(default_factory=lambda: {level: array("Q") for level in _MILD})
    _kept: bytearray = field(default_factory=bytearray)

    def take(self, found: Iterable[Fault]) -> None:
        """Keep the faults that were asked for."""
        offset = 0
        for fault in found:
            if not self._shows(fault):
                continue
            level = fault.verdict.level
            self.worst = max(self.worst, level)
            self.found[level] += 1
            if self.listed >= LISTED_MOST and not self._makes_room(level):
                self.left_out[level] += 1
                continue
            line = dumps(fault_object(fault)).encode("utf-8", "backslashreplace") + b"\n"
            self.spool.write(line)
            self._times.append(float("-inf") if fault.first.wall is None else fault.first.wall)
            self._offsets.append(offset)
            offset += len(line)
            self._groups.setdefault((fault.node or "", fault.pci or ""), array("Q")).append(self.count)
            if level in self._mild:
                self._mild[level].append(self.count)
            self._kept.append(True)
            self.count += 1
            self.listed += 1

    def _makes_room(self, level: Level) -> bool:
        """Leave out a milder fault for one of this level; return whether this one is to be listed."""
        milder = next((mild for mild in _MILD if mild < level and self._mild[mild]), None)
        if milder is not None:
            self._kept[self._mild[milder].pop()] = False
            self.listed -= 1
            self.left_out[milder] += 1
        return milder is not None or level not in _MILD

    def _shows(self, fault: Fault) -> bool:
        if not self.wanted.spans(fault.first, fault.last):
            return False
        level = fault.verdict.level
        if self.wanted.every and not self.explicit_level:
            return True
        if level is Level.IGNORE and self.wanted.level > Level.IGNORE:
            self.hidden += not self.explicit_level
            return False
        return level >= self.wanted.level

    def by_time(self) -> Iterator[str]:
        """Yield the JSON lines, oldest first."""
        return self._in_order(range(len(self._offsets)))

    def by_gpu(self) -> Iterator[Iterator[str]]:
        """Yield for every GPU (or node) its JSON lines, oldest first."""
        for place in sorted(self._groups):
            yield self._in_order(self._groups[place])

    def _in_order(self, numbers: Iterable[int]) -> Iterator[str]:
        kept = (number for number in numbers if self._kept[number])
        return (self._line(number) for number in sorted(kept, key=self._times.__getitem__))

    def _line(self, number: int) -> str:
        self.spool.seek(self._offsets[number])
        return self.spool.readline().decode("utf-8")


def _progress() -> Callable[[str, int, int | None], None]:
    def draw(name: str, done: int, size: int | None) -> None:
        share = f"{100 * done // size} %" if size else f"{done >> 20} MiB"
        sys.stderr.write(f"\r\x1b[Kgpuward: {shown(name)}: {share}")
        sys.stderr.flush()

    return draw


def _clear_progress() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
