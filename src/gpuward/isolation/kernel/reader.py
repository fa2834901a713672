"""A stream of kernel lines made into records, following boot, clock and addresses. No levels are judged here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from gpuward.isolation.kernel import journal, nvrm, sxid, xid
from gpuward.isolation.kernel.aer import read_aer
from gpuward.isolation.kernel.boot import FIRST_BOOT, Boot
from gpuward.isolation.kernel.finding import Finding
from gpuward.isolation.kernel.frame import Frame
from gpuward.isolation.kernel.frames import is_kernels, split_frame
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

_MACHINES_KEPT = 1024
"""Machines of a central log whose boots are followed at a time."""
_BACK_SECONDS = 1.0
"""Records of different processors may come this much out of order; a larger step back is a reboot."""
_PSTORE = "pstore"
_TRUSTED = frozenset({None, "kern"})
_BOOT_OPENING = "Linux version "
_QUOTED = re.compile(r"NVRM:[ \t]+Xid\b|nvidia-nvswitch\d*:[ \t]+(?P<sxid>SXid\b)", re.ASCII)
_REPEATED_OPENING = "message repeated "
_REPEATED = re.compile(r"message repeated (?P<times>\d{1,9}) times: \[\s*(?:\[ *\d{1,10}\.\d{1,9}\]\s*)?", re.ASCII)
"""How rsyslog writes what came several times."""
_AS_JSON = {"hint": "use journalctl -o json"}
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
        self._at = Boot(name=context.boot or f"b{FIRST_BOOT}", boot_time=context.boot_time, gpus=context.gpus)
        self._machines: dict[str | None, Boot] = {None: self._at}

    @property
    def boot(self) -> str:
        """The boot of the newest line."""
        return self._at.name

    @property
    def node(self) -> str | None:
        """The machine of the newest line, as records name it."""
        return self._context.node if self._machine is None else shown(self._machine)

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

    def machines(self) -> tuple[str, ...]:
        """Return the names of the machines whose lines were read, in the order in which they came."""
        return tuple(machine for machine in self._machines if machine is not None)

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
            machines = {machine: Boot.unpack(boot) for machine, boot in packed["boots"]}
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

    def _first_boot(self) -> Boot:
        context = self._context
        return Boot(name=context.boot or f"b{FIRST_BOOT}", boot_time=context.boot_time, gpus=context.gpus)

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
        if frame.body.startswith(_BOOT_OPENING) and at.seen and frame.facility in _TRUSTED and is_kernels(frame):
            self._next_boot().newest_uptime = uptime

    def _next_boot(self) -> Boot:
        number = self._at.number + 1
        at = self._begin_boot(f"b{number}")
        at.number = number
        return at

    def _begin_boot(self, boot: str) -> Boot:
        """Begin a boot of the same machine: what the one before taught is forgotten."""
        at = Boot(name=boot, boot_time=None, gpus=self._context.gpus)
        at.number = self._at.number
        for machine, known in self._machines.items():
            if known is self._at:
                self._machines[machine] = at
        self._at = at
        return at

    def _recognise(self, line: int, frame: Frame) -> Finding | None:
        cut, self._at.cut = self._at.cut, None
        body = frame.body
        found = self._read_kernel(line, frame) if is_kernels(frame) else None
        if found is not None:
            return found
        if "Xid" in body and (quoted := _QUOTED.search(body)):
            return _malformed(quoted) if frame.name == journal.PART else Finding(RecordKind.XID_QUOTED)
        if cut is not None and cut[0] == line - 1 and frame.name == "none" and body:
            return Finding(RecordKind.CONTINUATION, details={"of": cut[0], "rest": shown(body.strip())})
        return None

    def _read_kernel(self, line: int, frame: Frame) -> Finding | None:
        body = frame.body
        if body.startswith(nvrm.OPENING):
            return self._read_driver(line, frame)
        if body.startswith(sxid.OPENING):
            return sxid.read_nvswitch(clean_body(frame)) or read_aer(body)
        if body.startswith(_BOOT_OPENING):
            return Finding(RecordKind.BOOT)
        if body.startswith(_REPEATED_OPENING):
            return self._read_repeated(line, frame)
        return read_aer(body)

    def _read_repeated(self, line: int, frame: Frame) -> Finding | None:
        match = _REPEATED.match(frame.body)
        if match is None or frame.body.startswith(_REPEATED_OPENING, match.end()):
            return None
        inner = frame.body[match.end() :].rstrip().removesuffix("]")
        found = self._read_kernel(line, frame._replace(body=inner))
        return None if found is None else found._replace(details={**found.details, "repeated": int(match["times"])})

    def _read_driver(self, line: int, frame: Frame) -> Finding:
        body = clean_body(frame)
        if not body.startswith(xid.OPENING):
            message = body[len(nvrm.OPENING) :].lstrip()
            if not message.startswith(xid.WORD):
                return self._multiline(frame).take(line, message)
            body = f"{nvrm.OPENING} {message}"
        found = xid.read_xid(body)
        if found.kind is RecordKind.XID and frame.facility in _TRUSTED and xid.is_cut(body):
            self._at.cut = (line, found.details["message"])
        return found

    def _multiline(self, frame: Frame) -> Multiline:
        """Return the message that the line may be a part of: a user's text never joins the kernel's."""
        return self._at.multiline if frame.facility in _TRUSTED else Multiline()

    def _record(self, signal: Signal, frame: Frame, moment: Moment, found: Finding, line: str) -> Record:
        pci = None if found.pci is None else self._at.known.complete(found.pci)
        details = self._learn(frame, found, pci)
        if found.sender is not None and "bridge" in details:
            pci = found.sender
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
        elif found.kind is RecordKind.AER and pci is not None:
            return self._of_gpu(found, pci)
        elif "nvlink" in details and self._at.driver_version is not None:
            return {**details, "driver_version": self._at.driver_version}
        return details

    def _of_gpu(self, found: Finding, pci: PciAddress) -> Mapping[str, Any]:
        """Return the details of a PCIe error: whether it is a GPU's, and the port if that speaks of a GPU behind it."""
        known = self._at.known
        if found.details["of_gpu"] or known.holds(pci.pci):
            return {**found.details, "of_gpu": True}
        if found.sender is None or not known.holds(found.sender.pci):
            return found.details
        return {**found.details, "of_gpu": True, "bridge": pci.pci}


def _malformed(quoted: re.Match[str]) -> Finding:
    kind = RecordKind.XID_MALFORMED if quoted["sxid"] is None else RecordKind.SXID_MALFORMED
    return Finding(kind, details=dict(_AS_JSON))
