"""Every way out of the program, on one page. Adapters implement these; rooms take them as arguments.

An adapter raises only the errors below, each with the original as its cause.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpuward.model.gpu import Gpu
from gpuward.model.happening import Happening
from gpuward.model.node import GpuHolder, NodeReading
from gpuward.model.signal import Gap, Signal


class EdgeError(Exception):
    """The one root of what an adapter raises: a sentence for a person, naming the thing and the remedy."""


class Unreachable(EdgeError):
    """Not there now, try again later."""


class Refused(EdgeError):
    """Not allowed or not usable as it is; trying again changes nothing."""


class Conflict(EdgeError):
    """It changed under us: read again."""


class Clock(Protocol):
    """The machine's clocks, in seconds. `monotonic` never goes back."""

    def now(self) -> float:
        """Return seconds since 1970 UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a reader knows about all its lines: the boot they come from, when that began, and the machine.

    `boot_time` is in seconds since 1970 UTC, None where the lines carry their own time.
    """

    source: str
    boot: str | None
    boot_time: float | None
    node: str | None


class KernelLog(Protocol):
    """A kernel log that is followed live."""

    def origin(self) -> Origin:
        """Return what is known about the lines; the boot time is read afresh, so that a clock step is followed."""

    def seek(self, cursor: str) -> bool:
        """Go on after `cursor`; False when it is no longer there, and then reading starts at the oldest line held."""

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return what has come, waiting at most `timeout_seconds` for the first line; empty when nothing came.

        Raises Unreachable or Refused when the log cannot be read any more.
        """

    def close(self) -> None:
        """Give back what is held."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What a pass over a file saw: every line, and those skipped unread (too long, not text)."""

    lines: int
    skipped: int


class LogFile(Protocol):
    """A finished log: a file, a compressed one, or standard input, read once from its start in bounded memory."""

    name: str

    def head(self, lines: int) -> Sequence[Signal]:
        """Return up to `lines` first lines, whatever they are; empty when they cannot be read twice or not at all."""

    def signals(self) -> Iterator[Signal | Gap]:
        """Yield the lines that may matter to us, in order, and Gaps for what was skipped.

        Raises Unreachable or Refused, after the good lines before the trouble were yielded.
        """

    def tally(self) -> Tally:
        """Return the counts so far."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process behind a pid at one moment. Any field but `pid` may be unknown."""

    pid: int
    command: str | None
    session: int | None
    container_id: str | None
    pod_uid: str | None


class Processes(Protocol):
    """The processes of this machine."""

    def holder(self, pid: int) -> Holder | None:
        """Return who `pid` is now, None when it is gone."""


class Inventory(Protocol):
    """The GPUs of this machine as the driver lists them."""

    def gpus(self) -> tuple[Gpu, ...]:
        """Return them in PCI order; empty when the driver is not loaded."""

    def driver_version(self) -> str | None:
        """Return the version of the loaded kernel module, such as `575.51.02`."""


class Store(Protocol):
    """Where a watch keeps its place between runs."""

    def load(self) -> Mapping[str, Any] | None:
        """Return what was saved last, None when nothing was.

        Raises Refused when it is there and cannot be used.
        """

    def save(self, saved: Mapping[str, Any]) -> None:
        """Replace what is saved, whole or not at all.

        Raises Refused when it cannot be written.
        """


class Driver(Protocol):
    """What the driver's own tools can read of a GPU and do to it, by canonical PCI address.

    Every call has a deadline and ends by it: a tool that hangs is killed, and Unreachable is raised. Refused has the
    tool's own words. Success is looked at, not taken from an exit code.
    """

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return all GPUs that the driver shows."""

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Return everything that the tool tells of one GPU, as it prints it; kept as evidence."""

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Turn persistence mode on or off, and see that it is so; with `look` off only where it is refused."""

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Keep new work off a GPU, or let it on again; what is so already is success."""

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether the GPU is drained."""

    def reset(self, pci: str, deadline_seconds: float) -> None:
        """Reset a GPU that nothing holds and that is not drained."""


class Holders(Protocol):
    """Who holds a GPU, from the kernel's own tables: no driver is asked, and a drained GPU is seen too."""

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return the processes that have /dev/nvidia<minor> open or mapped, in order of pid."""


class Services(Protocol):
    """The known services of this machine that hold GPUs."""

    def is_running(self, unit: str) -> bool:
        """Return whether the unit runs."""

    def stop(self, unit: str, deadline_seconds: float) -> None:
        """Stop it; success is that it no longer runs."""

    def start(self, unit: str, deadline_seconds: float) -> None:
        """Start it; success is that it runs."""


class Chronicle(Protocol):
    """The journal of happenings."""

    def write(self, happening: Happening) -> None:
        """Add one happening. Raises Refused when it cannot be kept; nothing else is lost by that."""


class EvidenceRoom(Protocol):
    """Where evidence is kept, by case."""

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Keep content under a name and return its SHA-256. Raises Refused when it cannot be kept whole."""
