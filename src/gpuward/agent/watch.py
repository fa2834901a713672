"""Follow a kernel log: each line read, merged and told as it comes. It changes nothing on the machine."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.isolation.merge import Merger
from gpuward.isolation.saved import SavedError
from gpuward.model.fault import Change
from gpuward.model.gpu import Gpu
from gpuward.model.record import Record
from gpuward.model.signal import Gap, Moment, Signal
from gpuward.ports import Clock, EdgeError, Inventory, KernelLog, Origin, Processes, Refused, Store, Unreachable

READ_SECONDS = 1.0
"""How long one read waits: how late a stop, a waiting verdict or a clock step may be noticed."""
SAVE_SECONDS = 5.0
"""How old the saved place may be when nothing of ours came; after a change it is saved at once."""
MOST_FAILURES = 30
"""How often in a row a log that was read before may be out of reach before the watch gives up."""
_FRESH_SECONDS = 60.0
"""How old a line may be for its pid to still mean the same process."""
_CATCH_UP_SECONDS = 5.0
"""How long at least a watch that goes on reads what was written meanwhile before it lets that time pass for what waits:
the lines may hold the cause, and the log's own program may need a moment to start."""
_STAMP_SECONDS = 1.0
"""How far a live line's stamp may lie behind: many are of whole seconds, and the kernel's clock runs a little off."""


_STAMPED_IN_THE_PAST = (
    "A line came now whose stamp is from before this watch began: it is taken for history, which acts only when a "
    "reading confirms it. Look whether the log's clock and --timezone are right."
)


@dataclass(frozen=True, slots=True)
class Told:
    """A change of a fault as it is told: `history` is True for what happened before the watch began."""

    change: Change
    gpu: Gpu | None
    history: bool
    at: float


@dataclass(frozen=True, slots=True)
class Place:
    """How far a watch has read, and what it could not read since it began. Times are Unix seconds, None not known."""

    source: str
    cursor: str | None
    newest_at: float | None
    """The time of the newest line that carries one."""
    gaps: int
    lines_lost: int
    """Lines known to be missing in those gaps; a gap of unknown size counts none."""
    newest_gap: str
    """What is known of the newest gap, in words; empty when there was none."""
    hosts: tuple[str, ...] = ()
    """The machines that its lines name."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The ports that a watch uses."""

    log: KernelLog
    processes: Processes
    inventory: Inventory
    clock: Clock
    store: Store | None


class Watch:
    """One watch of one log. `tell` is called for each change, `warn` with a sentence for what a person should know.

    `new_merger` makes an empty merger: one that took over half of a broken state is thrown away. `each_round` is called
    after the lines of a round, before the place in the log is saved; it returns how long the next read may wait.
    """

    def __init__(  # noqa: PLR0913  what a watch is made of: ports, a merger, two ways to speak, and the machine
        self,
        outside: Outside,
        new_merger: Callable[[], Merger],
        *,
        tell: Callable[[Told], None],
        warn: Callable[[str], None],
        timezone: tzinfo,
        node: str | None = None,
        each_round: Callable[[Merger], float] | None = None,
        opening: str = "watching {source}; nothing on this machine is changed",
    ) -> None:
        self._outside = outside
        self._each_round = each_round
        self._opening = opening
        self._read_seconds = READ_SECONDS
        self._new_merger = new_merger
        self._merger = new_merger()
        self._tell = tell
        self._warn = warn
        self._timezone = timezone
        self._node = node
        self._host: str | None = None
        self._gpus: dict[str, Gpu] = {}
        self._cursor: str | None = None
        self._saved_cursor: str | None = None
        self._resumed = False
        self._began = 0.0
        self._rested = 0.0
        self._caught_up = True
        self._next_save = 0.0
        self._warned: dict[str, str] = {}
        self._heard = False
        self._was_quiet = False
        self._failures = 0
        self._place = Place(source="", cursor=None, newest_at=None, gaps=0, lines_lost=0, newest_gap="")

    def place(self) -> Place:
        """Return how far the watch has read. Called from any thread."""
        return self._place

    def run(self, stopped: Callable[[], bool]) -> None:
        """Watch until `stopped` says so; the place is saved at the end. Raises EdgeError as `rounds` does."""
        go_round(self.rounds(), stopped)

    def rounds(self) -> Generator[None, None, None]:
        """Watch, one round of the log before each further step; the place is saved when it is closed.

        Raises EdgeError when the log cannot be read (any more).
        """
        self._began = self._rested = self._outside.clock.monotonic()
        origin = self._outside.log.origin()
        self._host = origin.node
        self._place = replace(self._place, source=origin.source)
        # Said after the beginning was noted: whoever reads it may take what comes from here on as new.
        self._warn(self._opening.format(source=origin.source))
        saved = self._load()
        self._learn_gpus()
        reader = self._reader(origin, saved)
        try:
            self._resume(origin, saved)
            while True:
                yield
                self._take(reader)
        finally:
            self._save(reader)
            self._outside.log.close()

    # --- one round --------------------------------------------------------------------------------------------------

    def _take(self, reader: KernelReader) -> None:
        signals = self._signals()
        monotonic = self._outside.clock.monotonic()
        if signals:
            self._renew(reader)
        self._was_quiet = self._was_quiet or not signals
        told = False
        for signal in signals:
            if isinstance(signal, Gap):
                self._note_gap(signal)
            else:
                told = self._read(reader, signal) or told
        self._place = replace(self._place, cursor=self._cursor, newest_at=reader.moment().wall, hosts=reader.machines())
        told = self._pass_time(reader, monotonic, quiet=not signals) or told
        if self._each_round is not None:
            # Before the place is saved: what a line leads to must not be lost when we end between the two.
            self._read_seconds = min(READ_SECONDS, self._each_round(self._merger))
        if told or (self._cursor != self._saved_cursor and monotonic >= self._next_save):
            self._save(reader)
            self._next_save = monotonic + SAVE_SECONDS

    def _signals(self) -> Sequence[Signal | Gap]:
        """Return what came. A log that is gone for a moment (its program is restarted) is asked again, a while."""
        try:
            signals = self._outside.log.read(self._read_seconds)
        except Unreachable as error:
            self._failures += 1
            if not self._heard or self._failures > MOST_FAILURES:
                raise
            self._warn_once("log", f"{error}")
            self._outside.clock.sleep(READ_SECONDS)
            return ()
        self._heard = True
        self._failures = 0
        self._warned.pop("log", None)
        return signals

    def _note_gap(self, gap: Gap) -> None:
        words = _of_gap(gap)
        self._warn(words)
        self._place = replace(
            self._place,
            gaps=self._place.gaps + 1,
            lines_lost=self._place.lines_lost + (gap.missed or 0),
            newest_gap=words,
        )

    def _read(self, reader: KernelReader, signal: Signal) -> bool:
        self._cursor = signal.cursor
        record = reader.read(signal)
        if record is None:
            return self._tell_all(self._merger.advance(reader.moment(), boot=reader.boot, node=reader.node))
        return self._tell_all(self._merger.step(self._with_holder(record)))

    def _pass_time(self, reader: KernelReader, monotonic: float, *, quiet: bool) -> bool:
        """Let time go on for what writes nothing: a verdict that waits is due all the same."""
        if not self._caught_up:
            age_seconds = self._age_seconds(reader.moment())
            fresh = quiet or age_seconds is None or age_seconds <= _FRESH_SECONDS
            self._caught_up = fresh and monotonic - self._began >= _CATCH_UP_SECONDS
            if not self._caught_up:
                return False
        seconds = monotonic - self._rested
        self._rested = monotonic
        return self._tell_all(self._merger.rest(seconds))

    def _tell_all(self, changes: list[Change]) -> bool:
        now = self._outside.clock.now()
        if self._was_quiet and any(self._is_history(change.fault.last) for change in changes):
            self._warn_once("stamp", _STAMPED_IN_THE_PAST)
        for change in changes:
            gpu = self._gpus.get(change.fault.pci or "")
            self._tell(Told(change=change, gpu=gpu, history=self._is_history(change.fault.last), at=now))
        return bool(changes)

    def _is_history(self, moment: Moment) -> bool:
        """Compare spans, not times of day: the clock may have been stepped since the watch began."""
        age_seconds = self._age_seconds(moment)
        if self._resumed or age_seconds is None:
            return False
        return age_seconds > self._outside.clock.monotonic() - self._began + _STAMP_SECONDS

    def _age_seconds(self, moment: Moment) -> float | None:
        return None if moment.wall is None else self._outside.clock.now() - moment.wall

    def _with_holder(self, record: Record) -> Record:
        """Return the record with the process that its pid is at this moment: what it runs, its container and pod.

        A pid is given to others in time, and a wrong pod is worse than none: an old line, or one of unknown age, gets
        none.
        """
        age_seconds = self._age_seconds(record.moment)
        if record.pid is None or age_seconds is None or age_seconds > _FRESH_SECONDS or self._is_elsewhere(record):
            return record
        holder = self._outside.processes.holder(record.pid)
        if holder is None:
            return record
        held = {
            "command": holder.command,
            "container_id": holder.container_id,
            "pod_uid": holder.pod_uid,
            "session": holder.session,
        }
        job = holder.pod_uid or (None if holder.session is None else f"session {holder.session}")
        return replace(record, details={**record.details, **held, **({"job": job} if job else {})})

    def _is_elsewhere(self, record: Record) -> bool:
        """Return whether the line is of another machine, as in a central log; domains are left out of names."""
        ours = {name.split(".", 1)[0] for name in (self._node, self._host) if name}
        return record.node is not None and bool(ours) and record.node.split(".", 1)[0] not in ours

    # --- the place in the log ---------------------------------------------------------------------------------------

    def _load(self) -> Mapping[str, Any] | None:
        store = self._outside.store
        try:
            saved = None if store is None else store.load()
            if saved is not None:
                self._merger.unpack(saved["merger"])
                self._count_downtime(float(saved["rested_at"]))
        except (Refused, SavedError, KeyError, TypeError, ValueError, AttributeError) as error:
            self._warn(f"the saved state is not used, the log is read from its start: {error}")
            self._merger = self._new_merger()
            return None
        return saved

    def _count_downtime(self, rested_at: float) -> None:
        """Count the time since the last watch as one of silence; a clock that was set back tells of none."""
        self._rested -= max(0.0, self._outside.clock.now() - rested_at)
        self._caught_up = False

    def _resume(self, origin: Origin, saved: Mapping[str, Any] | None) -> None:
        """Go on where the last watch stopped, unless the log has begun anew since, as the kernel's does at a boot."""
        if saved is None:
            return
        if origin.boot not in (None, saved.get("boot")):
            return
        cursor = saved.get("cursor")
        if not isinstance(cursor, str):
            return
        self._resumed = True
        self._cursor = cursor
        if not self._outside.log.seek(cursor):
            self._warn("the place where the last watch stopped is gone from the log: lines in between may be missing")

    def _save(self, reader: KernelReader) -> None:
        store = self._outside.store
        if store is None:
            return
        clock = self._outside.clock
        rested_at = clock.now() - (clock.monotonic() - self._rested)
        try:
            store.save(
                {
                    "cursor": self._cursor,
                    "boot": reader.boot,
                    "rested_at": rested_at,
                    "reader": reader.pack(),
                    "merger": self._merger.pack(),
                }
            )
        except Refused as error:
            self._warn_once("save", f"the place in the log could not be saved: {error}")
            return
        self._saved_cursor = self._cursor
        self._warned.pop("save", None)

    def _warn_once(self, about: str, sentence: str) -> None:
        """Warn, unless this was the last that was said about it: what stays broken is not said every few seconds."""
        if self._warned.get(about) != sentence:
            self._warned[about] = sentence
            self._warn(sentence)

    # --- what is known of the machine -------------------------------------------------------------------------------

    def _reader(self, origin: Origin, saved: Mapping[str, Any] | None) -> KernelReader:
        context = Context(
            source=origin.source,
            timezone=self._timezone,
            now=self._outside.clock.now(),
            boot_time=origin.boot_time,
            boot=origin.boot,
            node=self._node or origin.node,
            gpus=frozenset(self._gpus),
        )
        reader = KernelReader(context)
        # A live log that names its boot has begun anew when that is another; a file goes on where it was.
        if saved is not None and origin.boot in (None, saved.get("boot")):
            try:
                reader.unpack(saved["reader"])
            except (KeyError, ValueError) as error:
                self._warn(f"what earlier lines taught is not used: {error}")
                return KernelReader(context)
        return reader

    def _learn_gpus(self) -> None:
        """Learn index and UUID of each GPU. The first list counts: one that is lost later leaves a hole, no shift."""
        try:
            gpus = self._outside.inventory.gpus()
        except EdgeError as error:
            self._warn_once("inventory", f"the numbers of the GPUs are not known: {error}")
            return
        for gpu in gpus:
            self._gpus[gpu.pci] = gpu
            if gpu.uuid:
                # Its lines may call this machine by a longer name, or an older one; the log is of this machine.
                self._merger.learn_uuid(gpu.pci, gpu.uuid, node=None)

    def _renew(self, reader: KernelReader) -> None:
        """Follow the machine before lines are read: a clock that went on or was stepped, a driver loaded later."""
        origin = self._outside.log.origin()
        reader.renew(now=self._outside.clock.now(), boot_time=origin.boot_time)
        if not self._gpus:
            self._learn_gpus()


def go_round(rounds: Generator[None, None, None], stopped: Callable[[], bool]) -> None:
    """Go on, round after round, until `stopped` says so."""
    with closing(rounds):
        for _ in rounds:
            if stopped():
                return


def _of_gap(gap: Gap) -> str:
    """Return what a person should know of lost lines."""
    lost = f" ({gap.missed} lines lost)" if gap.missed is not None and gap.missed > 1 else ""
    return f"{gap.source}: {gap.why}{lost}"
