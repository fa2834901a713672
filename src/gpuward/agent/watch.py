"""Follow a kernel log: each line read, merged and told as it comes. It changes nothing on the machine."""

import math
from collections.abc import Callable, Mapping
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
from gpuward.ports import Clock, Inventory, KernelLog, Origin, Processes, Refused, Store

READ_SECONDS = 1.0
"""How long one read waits: how late a stop, a waiting verdict or a clock step may be noticed."""
SAVE_SECONDS = 5.0
"""How old the saved place may be when nothing of ours came; after a change it is saved at once."""
_FRESH_SECONDS = 60.0
"""How old a line may be for its pid to still mean the same process."""
_RENEW_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Told:
    """A change of a fault as it is told: `history` is True for what happened before the watch began."""

    change: Change
    gpu: Gpu | None
    history: bool
    at: float


@dataclass(frozen=True, slots=True)
class Outside:
    """The ports that a watch uses."""

    log: KernelLog
    processes: Processes
    inventory: Inventory
    clock: Clock
    store: Store | None


class Watch:
    """One watch of one log. `tell` is called for each change, `warn` with a sentence for what a person should know."""

    def __init__(
        self,
        outside: Outside,
        merger: Merger,
        *,
        tell: Callable[[Told], None],
        warn: Callable[[str], None],
        timezone: tzinfo,
        node: str | None = None,
    ) -> None:
        self._outside = outside
        self._merger = merger
        self._tell = tell
        self._warn = warn
        self._timezone = timezone
        self._node = node
        self._gpus: dict[str, Gpu] = {}
        self._cursor: str | None = None
        self._resumed = False
        self._started = 0.0
        self._last_line = 0.0
        self._next_save = 0.0
        self._next_renewal = 0.0

    def run(self, stopped: Callable[[], bool]) -> None:
        """Watch until `stopped` says so; the place is saved at the end.

        Raises EdgeError when the log cannot be read (any more).
        """
        clock = self._outside.clock
        self._started = clock.now()
        self._last_line = clock.monotonic()
        origin = self._outside.log.origin()
        saved = self._load()
        self._learn_gpus(origin)
        reader = self._reader(origin, saved)
        self._seek(saved)
        try:
            while not stopped():
                self._take(reader)
        finally:
            self._save(reader)
            self._outside.log.close()

    # --- one round --------------------------------------------------------------------------------------------------

    def _take(self, reader: KernelReader) -> None:
        signals = self._outside.log.read(READ_SECONDS)
        told = False
        for signal in signals:
            if isinstance(signal, Gap):
                self._warn(f"{signal.source}: {signal.why}")
                continue
            told = self._read(reader, signal) or told
        monotonic = self._outside.clock.monotonic()
        if signals:
            self._last_line = monotonic
        told = self._pass_time(reader, monotonic - self._last_line) or told
        if told or monotonic >= self._next_save:
            self._save(reader)
            self._next_save = monotonic + SAVE_SECONDS
        if monotonic >= self._next_renewal:
            self._renew(reader)
            self._next_renewal = monotonic + _RENEW_SECONDS

    def _read(self, reader: KernelReader, signal: Signal) -> bool:
        self._cursor = signal.cursor
        record = reader.read(signal)
        if record is None:
            return self._tell_all(self._merger.advance(reader.moment(), boot=reader.boot))
        return self._tell_all(self._merger.step(self._with_holder(record)))

    def _pass_time(self, reader: KernelReader, silent_seconds: float) -> bool:
        """Let the log's own time go on while nothing is written: a verdict that waits is due all the same."""
        moment = reader.moment()
        later = Moment(
            wall=None if moment.wall is None else moment.wall + silent_seconds,
            uptime=None if moment.uptime is None else moment.uptime + silent_seconds,
        )
        return self._tell_all(self._merger.advance(later, boot=reader.boot))

    def _tell_all(self, changes: list[Change]) -> bool:
        now = self._outside.clock.now()
        for change in changes:
            gpu = self._gpus.get(change.fault.pci or "")
            history = not self._resumed and self._age(change.fault.last) > now - self._started
            self._tell(Told(change=change, gpu=gpu, history=history, at=now))
        return bool(changes)

    def _age(self, moment: Moment) -> float:
        return -math.inf if moment.wall is None else self._outside.clock.now() - moment.wall

    def _with_holder(self, record: Record) -> Record:
        """Return the record with the process that its pid is at this moment: what it runs, its container and pod."""
        fresh = self._age(record.moment) <= _FRESH_SECONDS
        if record.pid is None or not fresh:
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

    # --- the place in the log ---------------------------------------------------------------------------------------

    def _load(self) -> Mapping[str, Any] | None:
        store = self._outside.store
        try:
            saved = None if store is None else store.load()
            if saved is not None:
                self._merger.unpack(saved["merger"])
        except (Refused, SavedError, KeyError, TypeError) as error:
            self._warn(f"the saved state is not used, the log is read from its start: {error}")
            return None
        return saved

    def _seek(self, saved: Mapping[str, Any] | None) -> None:
        cursor = None if saved is None else saved.get("cursor")
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
        try:
            store.save({"cursor": self._cursor, "boot": reader.boot, "merger": self._merger.pack()})
        except Refused as error:
            self._warn(f"the place in the log could not be saved: {error}")

    # --- what is known of the machine -------------------------------------------------------------------------------

    def _reader(self, origin: Origin, saved: Mapping[str, Any] | None) -> KernelReader:
        context = Context(
            source=origin.source,
            timezone=self._timezone,
            now=self._started,
            boot_time=origin.boot_time,
            boot=origin.boot,
            node=self._node or origin.node,
            gpus=frozenset(self._gpus),
        )
        reader = KernelReader(context)
        if origin.boot is None and saved is not None and isinstance(saved.get("boot"), str):
            reader.resume(saved["boot"])
        return reader

    def _learn_gpus(self, origin: Origin) -> None:
        for gpu in self._outside.inventory.gpus():
            self._gpus[gpu.pci] = gpu
            if gpu.uuid:
                self._merger.learn_uuid(gpu.pci, gpu.uuid, node=self._node or origin.node)

    def _renew(self, reader: KernelReader) -> None:
        """Follow the machine's clock: stamps without a year, and a wall clock that was stepped."""
        reader.renew(now=self._outside.clock.now(), boot_time=self._outside.log.origin().boot_time)
