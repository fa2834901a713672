"""A stream of kernel lines made into records, following boot, clock and addresses. No levels are judged here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from gpuward.isolation.kernel import nvrm, sxid, xid
from gpuward.isolation.kernel.aer import read_aer
from gpuward.isolation.kernel.finding import Finding
from gpuward.isolation.kernel.frame import Frame
from gpuward.isolation.kernel.frames import split_frame
from gpuward.isolation.kernel.multiline import Multiline
from gpuward.isolation.kernel.text import clean_body, clean_line, shown
from gpuward.model.gpu import PciAddress
from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import NEVER, Moment, Signal

NEEDLES: tuple[bytes, ...] = (
    b"NVRM: ",
    b": SXid (",
    b"PCIe Bus Error: ",
    b"AER: ",
    b"Linux version ",
    b'"MESSAGE":[',  # a journal message with bytes that are no text comes as numbers, so nothing of it can be sought
)
"""A line of a file without any of these is nothing of ours. Each costs a pass over the file, so there are few."""

_FIRST_BOOT = 1
_MACHINES_KEPT = 1024
"""Machines of a central log whose boots are followed at a time."""
_BACK_SECONDS = 1.0
"""Records of different processors may come this much out of order; a larger step back is a reboot."""
_PSTORE = "pstore"
_KERNEL = frozenset({None, "kernel"})
_TRUSTED = frozenset({None, "kern"})
_BOOT_OPENING = "Linux version "
_QUOTED = re.compile(r"NVRM: Xid\b|nvidia-nvswitch\d*: SXid\b", re.ASCII)
_SHORT_ADDRESS = 5
_GPU_KINDS = frozenset(
    {
        RecordKind.XID,
        RecordKind.GPU_UUID,
        RecordKind.BOARD_SERIAL,
        RecordKind.FALLEN_OFF_BUS,
        RecordKind.MULTILINE_START,
        RecordKind.RMINIT_FAILED,
    }
)
"""The lines whose address is a GPU's."""


@dataclass(frozen=True, slots=True)
class Context:
    """What is known about the lines from outside.

    `timezone` is for stamps without one, `now` (seconds since 1970 UTC) bounds stamps without a year. `boot_time` is
    when the boot of the lines began. `boot` names it where a live reader knows it: then all lines but journal entries,
    which name their own, are of that boot. `gpus` are the canonical addresses of the GPUs known to be in the machine.
    """

    source: str
    timezone: tzinfo
    now: float
    boot_time: float | None = None
    boot: str | None = None
    node: str | None = None
    gpus: frozenset[str] = frozenset()


class KernelReader:
    """Reads the lines of one source in order.

    Boots: without `Context.boot` the first is `b1`, and the number goes up at a `Linux version` line and when the
    uptime steps back by more than a second (not in pstore, whose parts come newest first). Journal entries carry their
    boot. A new boot forgets the driver version, the addresses and UUIDs, and the open message.

    Times: a line with wall time and uptime teaches when its boot began; lines with only an uptime use that. Before
    any such line `Context.boot_time` is used, for the first boot alone, because a later one began at another time.

    A log of many machines is followed machine by machine, as far as its lines name them.

    Text of a user (a facility other than kern) becomes a record, but teaches nothing.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._zone = context.timezone
        self._now = context.now
        self._fixed = context.boot is not None
        self._moment = NEVER
        self._machine: str | None = None
        self._at = _Boot(name=context.boot or f"b{_FIRST_BOOT}", boot_time=context.boot_time, gpus=context.gpus)
        self._machines: dict[str | None, _Boot] = {None: self._at}

    @property
    def boot(self) -> str:
        """The boot of the newest line."""
        return self._at.name

    @property
    def gpu_uuids(self) -> dict[str, str]:
        """UUID by canonical address, as printed in this boot."""
        return self._at.gpu_uuids

    def read(self, signal: Signal) -> Record | None:
        """Return the record of a line, None when it is nothing of ours. No text raises."""
        line = clean_line(signal.text)
        frame = split_frame(line)
        if frame.node != self._machine:
            self._turn_to(frame.node)
        moment = self._follow(frame)
        found = self._recognise(signal.line, frame)
        if found is None:
            return None
        self._at.seen = True
        return self._record(signal, frame, moment, found, line)

    def moment(self) -> Moment:
        """Return the time of the newest line that carried one, ours or not; NEVER before the first."""
        return self._moment

    def pack(self) -> dict[str, Any]:
        """Return what the lines taught so far as JSON values; `unpack` goes on from there."""
        return {
            "machine": self._machine,
            "moment": [self._moment.wall, self._moment.uptime],
            "boots": [[machine, boot.pack()] for machine, boot in self._machines.items()],
        }

    def unpack(self, packed: Mapping[str, Any]) -> None:
        """Take over what `pack` returned. For a new reader only.

        Raises ValueError when it is of another shape.
        """
        try:
            machines = {machine: _Boot.unpack(boot) for machine, boot in packed["boots"]}
            self._moment = Moment(*packed["moment"])
            self._at = machines[packed["machine"]]
            self._machine = packed["machine"]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"what was saved of the reader cannot be read: {error!r}") from error
        self._machines = machines

    def renew(self, *, now: float, boot_time: float | None) -> None:
        """Take a fresh reading of the clocks: time went on, and the wall clock may have been stepped."""
        self._now = now
        if boot_time is not None:
            self._at.boot_time = boot_time

    def _turn_to(self, machine: str | None) -> None:
        """Take up the boot of the machine that the next line is from: a central log holds those of many."""
        self._machine = machine
        known = self._machines.get(machine)
        if known is None:
            if len(self._machines) >= _MACHINES_KEPT:
                self._machines.clear()
            # The first machine that is named is the one that lines without a name were about, too.
            known = self._at if len(self._machines) == 1 else self._first_boot()
            self._machines[machine] = known
        self._at = known

    def _first_boot(self) -> "_Boot":
        context = self._context
        return _Boot(name=context.boot or f"b{_FIRST_BOOT}", boot_time=context.boot_time, gpus=context.gpus)

    def _follow(self, frame: Frame) -> Moment:
        """Return the line's time, after following what the frame tells of boot and clock."""
        uptime = frame.uptime
        self._follow_boot(frame, uptime)
        wall = frame.wall
        if frame.stamp_reader is not None:
            wall = frame.stamp_reader(frame.stamp, self._zone, self._now)
        if uptime is not None:
            at = self._at
            if wall is not None:
                at.boot_time = wall - uptime if frame.boot_time is None else frame.boot_time
            elif at.boot_time is not None:
                wall = at.boot_time + uptime
        elif wall is None:
            return NEVER
        moment = Moment(wall, uptime)
        self._moment = moment
        return moment

    def _follow_boot(self, frame: Frame, uptime: float | None) -> None:
        at = self._at
        if frame.boot is not None:
            if frame.boot != at.name:
                self._begin_boot(frame.boot)
            return
        if self._fixed:
            return
        newest = at.newest_uptime
        if uptime is not None:
            if newest is not None and uptime < newest - _BACK_SECONDS and frame.name != _PSTORE:
                at = self._next_boot()
                newest = None
            if newest is None or uptime > newest:
                at.newest_uptime = uptime
        if frame.body.startswith(_BOOT_OPENING) and at.seen and frame.facility in _TRUSTED:
            self._next_boot().newest_uptime = uptime

    def _next_boot(self) -> "_Boot":
        number = self._at.number + 1
        at = self._begin_boot(f"b{number}")
        at.number = number
        return at

    def _begin_boot(self, boot: str) -> "_Boot":
        """Begin a boot of the same machine: what the one before taught is forgotten."""
        at = _Boot(name=boot, boot_time=None, gpus=self._context.gpus)
        at.number = self._at.number
        for machine, known in self._machines.items():
            if known is self._at:
                self._machines[machine] = at
        self._at = at
        return at

    def _recognise(self, line: int, frame: Frame) -> Finding | None:
        cut, self._at.cut = self._at.cut, None
        body = frame.body
        found = self._read_kernel(line, frame) if frame.program in _KERNEL else None
        if found is not None:
            return found
        if "Xid" in body and _QUOTED.search(body):
            return Finding(RecordKind.XID_QUOTED)
        if cut is not None and cut[0] == line - 1 and frame.name == "none" and body:
            return Finding(RecordKind.CONTINUATION, details={"of": cut[0], "rest": shown(body.strip())})
        return None

    def _read_kernel(self, line: int, frame: Frame) -> Finding | None:
        body = frame.body
        if body.startswith(nvrm.OPENING):
            return self._read_driver(line, clean_body(frame))
        if body.startswith(sxid.OPENING):
            return sxid.read_nvswitch(clean_body(frame)) or read_aer(body)
        if body.startswith(_BOOT_OPENING):
            return Finding(RecordKind.BOOT)
        return read_aer(body)

    def _read_driver(self, line: int, body: str) -> Finding:
        if not body.startswith(xid.OPENING):
            return self._at.multiline.take(line, body[len(nvrm.OPENING) :].lstrip())
        found = xid.read_xid(body)
        if found.kind is RecordKind.XID and xid.is_cut(body):
            self._at.cut = (line, found.details["message"])
        return found

    def _record(self, signal: Signal, frame: Frame, moment: Moment, found: Finding, line: str) -> Record:
        pci = None if found.pci is None else self._at.known.complete(found.pci)
        details = self._learn(frame, found, pci)
        return Record(
            source=signal.source,
            line=signal.line,
            cursor=signal.cursor,
            moment=moment,
            boot=self._at.name,
            node=self._context.node if frame.node is None else shown(frame.node),
            facility=frame.facility,
            frame=frame.name,
            kind=found.kind,
            code=found.code,
            pci=None if pci is None else pci.pci,
            function=None if pci is None else pci.function,
            certain=pci is not None and pci.certain,
            pid=found.pid,
            process=found.process,
            mig=found.mig,
            severity=found.severity,
            link=found.link,
            part=found.part,
            details=details,
            text=shown(line),
        )

    def _learn(self, frame: Frame, found: Finding, pci: PciAddress | None) -> Mapping[str, Any]:
        """Return the details with what earlier lines of this boot add, and keep what this line teaches."""
        details = found.details or {}
        kind = found.kind
        if pci is not None and frame.facility in _TRUSTED:
            if not self._at.known.holds(pci.pci) and kind in _GPU_KINDS:
                self._at.known.add(pci)
            if kind is RecordKind.GPU_UUID and "uuid" in details:
                self._at.gpu_uuids[pci.pci] = details["uuid"]
        if kind is RecordKind.DRIVER_LOADED and frame.facility in _TRUSTED:
            self._at.driver_version = details["driver_version"]
        elif kind is RecordKind.AER and pci is not None and not details["of_gpu"]:
            return {**details, "of_gpu": self._at.known.holds(pci.pci) or self._at.known.holds(details["target"])}
        elif "nvlink" in details and self._at.driver_version is not None:
            return {**details, "driver_version": self._at.driver_version}
        return details


class _Boot:
    """What the lines of one boot of one machine taught so far."""

    __slots__ = (
        "boot_time",
        "cut",
        "driver_version",
        "gpu_uuids",
        "known",
        "multiline",
        "name",
        "newest_uptime",
        "number",
        "seen",
    )

    def __init__(self, name: str, boot_time: float | None, *, gpus: frozenset[str]) -> None:
        self.name = name
        self.number = _FIRST_BOOT
        self.boot_time = boot_time
        self.newest_uptime: float | None = None
        self.seen = False
        self.driver_version: str | None = None
        self.multiline = Multiline()
        self.cut: tuple[int, str] | None = None
        self.known = _Addresses(gpus)
        self.gpu_uuids: dict[str, str] = {}

    def pack(self) -> dict[str, Any]:
        """Return it as JSON values, but for a message whose rest is still to come."""
        return {
            "name": self.name,
            "number": self.number,
            "boot_time": self.boot_time,
            "newest_uptime": self.newest_uptime,
            "seen": self.seen,
            "driver_version": self.driver_version,
            "gpus": self.known.all(),
            "gpu_uuids": self.gpu_uuids,
        }

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> "_Boot":
        """Return what was packed."""
        boot = cls(packed["name"], packed["boot_time"], gpus=frozenset(packed["gpus"]))
        boot.number = int(packed["number"])
        boot.newest_uptime = packed["newest_uptime"]
        boot.seen = bool(packed["seen"])
        boot.driver_version = packed["driver_version"]
        boot.gpu_uuids = dict(packed["gpu_uuids"])
        return boot


class _Addresses:
    """The full addresses of GPUs known in this boot, to complete those printed without a domain."""

    def __init__(self, gpus: frozenset[str]) -> None:
        self._full: set[str] = set()
        self._by_short: dict[str, list[str]] = {}
        for pci in gpus:
            self._put(pci)

    def add(self, pci: PciAddress) -> None:
        if pci.certain:
            self._put(pci.pci)

    def all(self) -> list[str]:
        return sorted(self._full)

    def holds(self, pci: str | None) -> bool:
        return pci in self._full

    def complete(self, pci: PciAddress) -> PciAddress:
        """Return the one known address that a two-part address can mean; itself when none or several can."""
        if pci.certain:
            return pci
        known = self._by_short.get(pci.pci[-_SHORT_ADDRESS:], [])
        return PciAddress(known[0], pci.function, certain=True) if len(known) == 1 else pci

    def _put(self, pci: str) -> None:
        self._full.add(pci)
        self._by_short.setdefault(pci[-_SHORT_ADDRESS:], []).append(pci)
