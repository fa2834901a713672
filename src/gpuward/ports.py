"""Every way out of the program, on one page. Adapters implement these; rooms take them as arguments.

An adapter raises only the errors below, each with the original as its cause.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from gpuward.isolation.dcgm import Readings
from gpuward.model.gpu import Gpu
from gpuward.model.grant import Grant
from gpuward.model.happening import Happening
from gpuward.model.node import GpuHolder, NodeReading
from gpuward.model.resource import Resource
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

    def reset(self, pci: str, deadline_seconds: float, *, key: str) -> None:
        """Reset a GPU that nothing holds and that is not drained, once for each key.

        With the same key a reset that was done is not done again, also by another process after a crash: its outcome
        is returned or raised as it was. One that is still under way is waited for. One that was cut short together
        with who asked, so that nothing tells its outcome, is done anew.
        """

    def has_reset(self, pci: str, *, key: str) -> bool:
        """Return whether a reset with this key was done or is under way, so that `reset` will do none.

        What holds the GPU may have come after it, or be the reset itself. Raises Refused when that cannot be told.
        """


class Exporter(Protocol):
    """A dcgm-exporter of this machine: a second opinion, as old as its own last poll of the GPUs."""

    def read(self, deadline_seconds: float) -> Readings:
        """Return its values by DCGM's field number; Unreachable by the deadline, Refused for what is no scrape."""


class Holders(Protocol):
    """Who holds a GPU, from the kernel's own tables: no driver is asked, and a drained GPU is seen too."""

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return the processes that have /dev/nvidia<minor> open or mapped, in order of pid."""


class PodDevices(Protocol):
    """The kubelet of this machine, by whom pods have their devices."""

    def given(self, deadline_seconds: float) -> tuple[Grant, ...]:
        """Return which GPUs, or parts of one, pods have, asked anew. Raises Unreachable or Refused by the deadline."""

    def named(self, uids: Collection[str]) -> Mapping[str, tuple[str, str]]:
        """Return namespace and name of the pods with these UIDs, where the node tells; nobody is waited for."""


class Fabric(Protocol):
    """What joins the GPUs of this machine."""

    def has_switches(self) -> bool | None:
        """Return whether NVSwitches are there; None when nobody can look."""

    def has_manager(self) -> bool | None:
        """Return whether Fabric Manager runs; None when nobody can look."""


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

    def newest(self, most: int) -> Sequence[Mapping[str, Any]]:
        """Return the newest happenings as the journal spells them, oldest first. Raises Refused."""


class EvidenceRoom(Protocol):
    """Where evidence is kept, by case."""

    def keep(self, case: str, name: str, content: bytes) -> str:
        """Keep content under a name and return its SHA-256. Raises Refused when it cannot be kept whole."""


Object = Mapping[str, Any]
"""An object of the cluster as its JSON has it."""
Project = Callable[[Object], Any]
"""Returns of an object what is kept of it; called for each as it comes, so that what is not needed is never held."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list found, each object projected, and the version of the cluster that it shows."""

    items: tuple[Any, ...]
    version: str


class Happened(StrEnum):
    """What a watch tells of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing: only the version is news."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One thing that a watch tells. `item` is projected, None for a bookmark; the next watch may begin at `version`."""

    happened: Happened
    item: Any
    version: str


class Evicted(StrEnum):
    """What became of an eviction that was asked for."""

    ASKED = "asked"
    """The pod is ending."""
    HELD = "held"
    """A PodDisruptionBudget does not allow it now; asking later may."""
    TANGLED = "tangled"
    """More than one PodDisruptionBudget covers the pod: it can never be evicted until a person unties that."""
    GONE = "gone"
    """There is no such pod any more, or another one of its name."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The answer to an eviction, with the server's words."""

    outcome: Evicted
    why: str = ""


class Cluster(Protocol):
    """A Kubernetes API server. Every call ends by its deadline, with Unreachable.

    Raises Unreachable when no answer came, or one that is no API server's although it says that all went well, or the
    server cannot answer now (also 429 and 5xx, after a few tries with back-off and jitter); Refused when it does not
    allow or accept what is asked (400, 401, 403, 422); Conflict when what is asked rests on what is no longer so (409,
    410, a missing object, a JSON patch whose test failed).
    """

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        deadline_seconds: float = 30.0,
    ) -> Listed:
        """Return all objects of a kind, or of a namespace, by label and field selector; read page by page."""

    def watch(  # noqa: PLR0913  what may be asked for
        self,
        resource: Resource,
        *,
        since: str,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        project: Project = dict,
        timeout_seconds: float = 300.0,
    ) -> AsyncIterator[Watched]:
        """Yield what happens after `since` until the server or the timeout ends it; go on from the last version then.

        Raises Conflict when `since` is too old: list again. Raises Unreachable when the connection breaks, also when
        it is silent for long and a new watch is not answered; silence alone is none, nothing may have happened.
        """

    async def get(
        self, resource: Resource, name: str, *, namespace: str | None = None, deadline_seconds: float = 10.0
    ) -> Object | None:
        """Return an object, None when there is none."""

    async def create(
        self, resource: Resource, body: Object, *, namespace: str | None = None, deadline_seconds: float = 10.0
    ) -> Object:
        """Create an object and return it. Raises Conflict when one of its name is there."""

    async def patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        subresource: str = "",
        deadline_seconds: float = 10.0,
    ) -> Object:
        """Change an object by a JSON patch (RFC 6902) and return it; all operations are done or none.

        Raises Conflict when an operation `test` does not hold, or the object is gone.
        """

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        grace_seconds: int | None = None,
        deadline_seconds: float = 10.0,
    ) -> bool:
        """Delete an object, only the one with this uid when one is given; False when there was none any more."""

    async def evict(
        self, pod: str, *, namespace: str, uid: str, grace_seconds: int | None = None, deadline_seconds: float = 10.0
    ) -> Eviction:
        """Ask for the eviction of the pod with this uid; `grace_seconds` None is the pod's own."""

    async def close(self) -> None:
        """Give back what is held."""


class Meter(Protocol):
    """Numbers for a monitoring system, by the names of `model.metric`; labels in the order of the row's."""

    def add(self, metric: str, *labels: str, by: float = 1.0) -> None:
        """Let a counter go up."""

    def observe(self, metric: str, value: float) -> None:
        """Take a value into a histogram."""
