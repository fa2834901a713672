"""One pretend GPU server: its cards with the truth about them, its boots, its kernel log, its disk, its processes.

It implements the ports that an agent has to its machine. What is a card ill with stands in ailments.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuward.isolation.kernel.text import shown
from gpuward.model.gpu import Gpu
from gpuward.model.happening import Happening, as_object
from gpuward.model.node import EccCounts, GpuHolder, GpuReading, HolderKind, NodeReading, Pcie, Remap
from gpuward.model.signal import Gap, Signal
from gpuward.ports import Holder, Origin, Refused, Unreachable
from gpuward.sim.fleet.ailments import Ailment, Cure
from gpuward.sim.fleet.time import Skewed

MODEL = "NVIDIA H100 80GB HBM3"
DRIVER = "575.51.02"
_BUSES = ("0a", "18", "3b", "44", "87", "ab", "b8", "c4", "d1", "d8", "e1", "e8", "f1", "f4", "f8", "fb")
MOST_GPUS = len(_BUSES)
_BY_THE_KERNEL = 3
_LINES_KEPT = 4000
_HAPPENINGS_KEPT = 200


@dataclass(slots=True)
class Card:
    """The truth about one GPU."""

    index: int
    pci: str
    uuid: str
    ailment: Ailment | None = None
    was_reset: bool = False
    """It was reset since it fell ill, and that did not cure it."""
    persistence: bool = True
    drained: bool = False
    resets: int = 0
    receipts: dict[str, str] = field(default_factory=dict)
    """What each reset came to by its key; empty: it was done."""

    @property
    def is_lost(self) -> bool:
        """Whether it no longer answers."""
        return self.ailment is not None and self.ailment.is_lost

    def reading(self) -> GpuReading:
        """Return what the tools show of it."""
        well = GpuReading(
            index=self.index,
            pci=self.pci,
            uuid=self.uuid,
            minor=self.index,
            model=MODEL,
            persistence=self.persistence,
            display_active=False,
            mig=False,
            ecc=EccCounts(volatile=0, aggregate=0),
            remap=Remap(pending=False, failed=False),
            recovery_action="None",
            links=(),
            pcie=Pcie(generation=5, generation_max=5, width=16, width_max=16),
            lost=False,
        )
        return well if self.ailment is None else self.ailment.reading(well, was_reset=self.was_reset)


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a pod on a card. `hangs`: it ends only when it is killed."""

    pid: int
    name: str
    pod: str
    hangs: bool = False


class Machine:
    """Implements Driver, Holders, Processes, Inventory and EvidenceRoom of one server."""

    def __init__(self, name: str, *, gpus: int, clock: Skewed, dice: random.Random) -> None:
        self.name = name
        self.clock = clock
        self.boot = ""
        self.lines: list[tuple[int, str]] = []
        self.first = 0
        """The number of the oldest line that is kept."""
        self.processes: dict[int, list[Process]] = {index: [] for index in range(gpus)}
        self.is_on = True
        self.is_reachable = True
        self.on_reset: Callable[[Machine, Card], None] = lambda _machine, _card: None
        """Called after each reset that was done."""
        self.evidence = 0
        self._booted_at = 0.0
        self._boots = 0
        self._dice = dice
        self.cards = {card.pci: card for card in (self._new_card(index) for index in range(gpus))}
        self.boots()

    # --- what happens to it -----------------------------------------------------------------------------------------

    def boots(self) -> None:
        """Boot: what a boot cures is cured, no drain is left, and no process."""
        self._boots += 1
        self.boot = f"{self._dice.getrandbits(32):08x}"
        self._booted_at = self.clock.monotonic()
        self.lines, self.first = [], 0
        for card in self.cards.values():
            card.drained, card.persistence = False, True
            if card.ailment is not None and card.ailment.cure is not Cure.HANDS:
                card.ailment = None
        for held in self.processes.values():
            held.clear()

    def uptime(self) -> float:
        """Return the seconds since it booted."""
        return self.clock.monotonic() - self._booted_at

    def replace_card(self, pci: str) -> None:
        """Put another card in the place of one."""
        self.cards[pci] = self._new_card(self.cards[pci].index)

    def writes(self, text: str, *, priority: int = _BY_THE_KERNEL) -> None:
        """Write a line into the kernel log."""
        usec = round(self.uptime() * 1e6)
        number = self.first + len(self.lines)
        self.lines.append((number, f"{priority},{number},{usec},-;{text}"))
        if len(self.lines) > _LINES_KEPT:
            del self.lines[0]
            self.first += 1

    def tells(self, ailment: Ailment, pci: str) -> None:
        """Write the lines of an ailment, about the process that holds the card."""
        held = self.processes[self.cards[pci].index]
        process = held[0] if held else Process(pid=0, name="", pod="")
        pid, name = (process.pid, process.name) if held else ("'<unknown>'", "<unknown>")
        for line in ailment.lines:
            self.writes(line.format(pci=pci, pid=pid, name=name))

    def _new_card(self, index: int) -> Card:
        bits = self._dice.getrandbits(128)
        text = f"{bits:032x}"
        uuid = f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
        return Card(index=index, pci=f"0000:{_BUSES[index]}:00", uuid=uuid)

    # --- Driver -----------------------------------------------------------------------------------------------------

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return the GPUs that are not drained."""
        del deadline_seconds
        shown_ones = tuple(card.reading() for card in self.cards.values() if not card.drained)
        return NodeReading(road="nvml", driver_version=DRIVER, cuda_version="12.9", gpus=shown_ones)

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Return some words about a GPU."""
        del deadline_seconds
        card = self._answering(pci)
        return f"GPU {pci}\n    Product Name : {MODEL}\n    GPU UUID : {card.uuid}\n"

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Turn persistence mode on or off."""
        del deadline_seconds, look
        self._answering(pci).persistence = on

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Drain or undrain; a drain needs persistence mode off, but of a lost GPU nobody can tell."""
        del deadline_seconds
        card = self._card(pci)
        if on and card.persistence and not card.is_lost:
            raise Refused(f"GPU {pci}: in use by another client")
        card.drained = on

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether the GPU is drained."""
        del deadline_seconds
        return self._card(pci).drained

    def reset(self, pci: str, deadline_seconds: float, *, key: str) -> None:
        """Reset a GPU that is free and shown, once for each key."""
        del deadline_seconds
        card = self._card(pci)
        if key not in card.receipts:
            card.receipts[key] = self._reset(card)
        if card.receipts[key]:
            raise Refused(card.receipts[key])

    def has_reset(self, pci: str, *, key: str) -> bool:
        """Return whether a reset with this key was done."""
        return key in self._card(pci).receipts

    def _reset(self, card: Card) -> str:
        if card.drained or card.is_lost:
            return f"GPU {card.pci}: no such GPU"
        if self.processes[card.index]:
            return f"GPU {card.pci}: in use by another client"
        card.resets += 1
        card.persistence = False
        if card.ailment is not None and card.ailment.cure in {Cure.RESET, Cure.NOTHING}:
            card.ailment = None
        card.was_reset = card.ailment is not None
        self.on_reset(self, card)
        return ""

    def _card(self, pci: str) -> Card:
        card = self.cards.get(pci)
        if card is None:
            raise Refused(f"there is no GPU {pci}")
        return card

    def _answering(self, pci: str) -> Card:
        card = self._card(pci)
        if card.is_lost:
            raise Unreachable(f"GPU {pci} does not answer")
        return card

    # --- Holders, Processes, Inventory, EvidenceRoom ------------------------------------------------------------------

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return the processes that hold a GPU."""
        return tuple(
            GpuHolder(
                pid=one.pid,
                name=one.name,
                command=one.name,
                kind=HolderKind.WORK,
                service=None,
                pod_uid=one.pod,
                container_id=None,
            )
            for one in self.processes.get(minor, ())
        )

    def holder(self, pid: int) -> Holder | None:
        """Return who a pid is now."""
        for held in self.processes.values():
            for one in held:
                if one.pid == pid:
                    return Holder(pid=pid, command=one.name, session=None, container_id=None, pod_uid=one.pod)
        return None

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs as the driver lists them."""
        return tuple(
            Gpu(index=card.index, pci=card.pci, uuid=card.uuid, model=MODEL, minor=card.index)
            for card in self.cards.values()
        )

    def driver_version(self) -> str:
        """Return the version of the driver."""
        return DRIVER

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Count evidence."""
        del case, name
        self.evidence += 1
        return f"{len(content):064x}"

    def log(self) -> bytes:
        """Return the kernel log as evidence keeps it."""
        return "".join(f"{shown(text)}\n" for _, text in self.lines[-50:]).encode()


class NoServices:
    """Implements Services of a machine without any."""

    def is_running(self, unit: str) -> bool:
        """Return that none runs."""
        del unit
        return False

    def stop(self, unit: str, deadline_seconds: float) -> None:
        """Stop nothing."""

    def start(self, unit: str, deadline_seconds: float) -> None:
        """Start nothing."""


class Kmsg:
    """Implements KernelLog over a machine's lines; a read waits for nothing, time passes elsewhere."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._next = machine.first

    def origin(self) -> Origin:
        """Return what is known of the lines."""
        machine = self._machine
        booted_at = machine.clock.now() - machine.uptime()
        return Origin(source="/dev/kmsg", boot=machine.boot, boot_time=booted_at, node=None)

    def seek(self, cursor: str) -> bool:
        """Go on after a line."""
        self._next = int(cursor.removeprefix("k")) + 1
        return self._machine.first <= self._next <= self._machine.first + len(self._machine.lines)

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return what was not read yet."""
        del timeout_seconds
        machine = self._machine
        begin = max(0, self._next - machine.first)
        self._next = machine.first + len(machine.lines)
        return [
            Signal(source="/dev/kmsg", line=number, cursor=f"k{number}", text=text)
            for number, text in machine.lines[begin:]
        ]

    def close(self) -> None:
        """Hold nothing."""


class Disk:
    """Implements Store in memory. What is `unplugged` keeps what it has: a process that was killed saves nothing."""

    def __init__(self) -> None:
        self._saved: Mapping[str, Any] | None = None
        self.unplugged = False

    def load(self) -> Mapping[str, Any] | None:
        """Return what was saved last."""
        return self._saved

    def save(self, saved: Mapping[str, Any]) -> None:
        """Replace what is saved."""
        if not self.unplugged:
            self._saved = saved

    def plugged(self) -> "Disk":
        """Return another way to the same content, for the next life."""
        fresh = Disk()
        fresh._saved = self._saved
        return fresh


@dataclass(slots=True)
class Diary:
    """Implements Chronicle: keeps the newest happenings of a node, and tells each."""

    tell: Callable[[Happening], None]
    kept: list[Happening] = field(default_factory=list)

    def write(self, happening: Happening) -> None:
        """Keep and tell it."""
        self.kept.append(happening)
        del self.kept[:-_HAPPENINGS_KEPT]
        self.tell(happening)

    def newest(self, most: int) -> Sequence[Mapping[str, Any]]:
        """Return the newest as the journal spells them."""
        return [as_object(one) for one in self.kept[-most:]]
