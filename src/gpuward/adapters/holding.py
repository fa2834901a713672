"""Who holds a GPU, from /proc: open and mapped device files. Whether a holder may be ended is judged elsewhere.

No driver is asked, so a GPU that is drained, lost or hung is seen as well.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from gpuward.adapters.procfs import ProcFs, Stat, read_stat
from gpuward.model.node import GpuHolder, HolderKind
from gpuward.ports import Refused, Unreachable

_COMM_LENGTH = 15
"""The kernel cuts a process's name to this (TASK_COMM_LEN)."""
_DELETED = " (deleted)"
_DEVICE = re.compile(r"nvidia[0-9]+", re.ASCII)
_GONE = "X"
_DEAD = frozenset({"Z", _GONE})
_ASLEEP_IN_KERNEL = "D"
_MAPS_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class KnownService:
    """A program that holds GPUs without working on them, and the units it runs in.

    `stoppable`: it may be stopped for the repair of one GPU and started again after it.
    """

    process: str
    units: frozenset[str]
    stoppable: bool
    source: str


def _row(process: str, *units: str, stoppable: bool, source: str) -> KnownService:
    return KnownService(process=process, units=frozenset(units), stoppable=stoppable, source=source)


KNOWN_SERVICES = (
    _row(
        "nvidia-persistenced",
        "nvidia-persistenced.service",
        stoppable=True,
        source="nvidia-smi manual, GPU reset: no process may hold the device, nvidia-persistenced included",
    ),
    _row(
        "nv-hostengine",
        "nvidia-dcgm.service",
        "dcgm.service",
        stoppable=True,
        source="DCGM user guide: the unit is nvidia-dcgm, dcgm before DCGM 2; the manual names monitoring as a holder",
    ),
    _row(
        "dcgm-exporter",
        "dcgm-exporter.service",
        "nvidia-dcgm-exporter.service",
        stoppable=True,
        source="dcgm-exporter with an embedded host engine holds all GPUs",
    ),
    _row(
        "nvidia_gpu_exporter",
        "nvidia_gpu_exporter.service",
        "nvidia-gpu-exporter.service",
        stoppable=True,
        source="nvidia_gpu_exporter, its unit file; asks by nvidia-smi",
    ),
    _row(
        "nvidia-smi",
        "nvidia_gpu_exporter.service",
        "nvidia-gpu-exporter.service",
        "telegraf.service",
        "netdata.service",
        stoppable=True,
        source="exporters and node agents that run nvidia-smi again and again",
    ),
    _row("gpud", "gpud.service", stoppable=True, source="gpud holds NVML open"),
    _row(
        "nv-fabricmanager",
        "nvidia-fabricmanager.service",
        stoppable=False,
        source="nvidia-smi manual: on Ampere NVSwitch systems a GPU is reset alone only while it runs",
    ),
    _row("Xorg", "display-manager.service", "gdm.service", stoppable=False, source="a display is work"),
    _row("gnome-shell", "gdm.service", stoppable=False, source="a display is work"),
)
"""A process is taken for a known service only under its name and in its unit: anyone can take the name. In a container
it runs in no unit, and only whoever started the container can stop it."""
_STOPPABLE = {(row.process[:_COMM_LENGTH], unit) for row in KNOWN_SERVICES if row.stoppable for unit in row.units}


class DeviceHolders:
    """Implements Holders. `proc` and `dev` are the folders to look in.

    Real device nodes are compared by their number, so that a node under another name in a container is found;
    ordinary files by their path. With `skip_unseen` processes whose files may not be seen are passed over: only for
    a pretend machine, whose devices nobody else knows.
    """

    def __init__(self, proc: str = "/proc", dev: str = "/dev", *, skip_unseen: bool = False) -> None:
        self._proc = Path(proc)
        self._processes = ProcFs(proc)
        self._dev = dev
        self._skip_unseen = skip_unseen

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return the processes that have /dev/nvidia<minor> open or mapped, in order of pid.

        A process that ends meanwhile is left out. Raises Refused when any process's files may not be seen: then it
        is not known whether the GPU is free.
        """
        device = _Device(path=f"{self._dev.rstrip('/')}/nvidia{minor}")
        number = device.number()
        pids = self._pids()
        stats = {pid: found for pid in pids if (found := self._processes.stat(pid)) is not None}
        holding = [pid for pid in sorted(stats) if self._holds(pid, device, number)]
        ours = _with_children(os.getpid(), stats) if holding else frozenset()
        return tuple(
            holder for pid in holding if (holder := self._holder(pid, stats[pid], ours=pid in ours)) is not None
        )

    def _pids(self) -> list[int]:
        try:
            names = [entry.name for entry in self._proc.iterdir()]
        except OSError as error:
            raise Unreachable(f"{self._proc} cannot be read ({error.strerror}); see that it is mounted") from error
        return [int(name) for name in names if name.isascii() and name.isdecimal()]

    def _holds(self, pid: int, device: "_Device", number: int | None) -> bool:
        try:
            return any(_thread_holds(thread, device, number) for thread in _threads(self._proc / str(pid)))
        except PermissionError as error:
            if self._skip_unseen:
                return False
            raise Refused(f"the files of process {pid} may not be seen by this user; run as root") from error

    def _holder(self, pid: int, seen: Stat, *, ours: bool) -> GpuHolder | None:
        process = self._processes.holder(pid)
        if process is None:
            return None
        unit = self._processes.unit(pid)
        service = unit if (seen.name, unit) in _STOPPABLE and not ours else None
        kind = HolderKind.OURS if ours else HolderKind.SERVICE if service else HolderKind.WORK
        return GpuHolder(
            pid=pid,
            name=seen.name,
            command=process.command,
            kind=kind,
            service=service,
            pod_uid=process.pod_uid,
            container_id=process.container_id,
        )


@dataclass(frozen=True, slots=True)
class _Device:
    """The device file of one GPU."""

    path: str

    def number(self) -> int | None:
        """Return its device number, None when it is an ordinary file or not there."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return None
        return status.st_rdev if stat.S_ISCHR(status.st_mode) else None

    def is_behind(self, link: Path, number: int | None) -> bool:
        """Return whether an open file is this device.

        Only what is named like a GPU is looked at more closely than its path: to look at any open file could wait
        for a network file system that does not answer.
        """
        try:
            path = str(link.readlink()).removesuffix(_DELETED)
        except PermissionError:
            raise
        except OSError:
            return False
        if number is not None and _DEVICE.fullmatch(path.rpartition("/")[2]):
            with contextlib.suppress(OSError):
                return link.stat().st_rdev == number
        return path == self.path


def _threads(process: Path) -> Iterator[Path]:
    """Yield the folder that shows what a process has open: its own, unless its first thread has ended.

    A killed process can live on in a thread that sleeps in the driver; its own folder then shows nothing.
    """
    first = _state(process)
    if first not in _DEAD:
        yield process
        return
    try:
        threads = sorted((process / "task").iterdir())
    except OSError:
        return
    yield from (thread for thread in threads if _state(thread) not in _DEAD)


def _state(folder: Path) -> str:
    """Return the state of a process or thread; one that is gone is dead."""
    try:
        seen = read_stat((folder / "stat").read_text("utf-8", "replace"))
    except OSError:
        return _GONE
    return seen.state if seen else _GONE


def _thread_holds(folder: Path, device: _Device, number: int | None) -> bool:
    if any(device.is_behind(link, number) for link in _links(folder / "fd")):
        return True
    # One that is asleep in the kernel may hold the lock of its memory; reading its maps would wait with it.
    return _state(folder) != _ASLEEP_IN_KERNEL and device.path in _mapped(folder / "maps")


def _links(folder: Path) -> Iterator[Path]:
    """Yield the links to a process's open files; none when it is gone."""
    try:
        yield from folder.iterdir()
    except PermissionError:
        raise
    except OSError:
        return


def _mapped(file: Path) -> AbstractSet[str]:
    """Return the paths of the files that a process has mapped; none when it is gone."""
    try:
        text = file.read_text("utf-8", "replace")
    except PermissionError:
        raise
    except OSError:
        return frozenset()
    columns = (line.split(None, _MAPS_COLUMNS) for line in text.splitlines())
    return {parts[_MAPS_COLUMNS].removesuffix(_DELETED) for parts in columns if len(parts) > _MAPS_COLUMNS}


def _with_children(pid: int, stats: dict[int, Stat]) -> frozenset[int]:
    """Return `pid` and all that descend from it."""
    family = {pid}
    grown = True
    while grown:
        children = {child for child, seen in stats.items() if seen.parent in family} - family
        family |= children
        grown = bool(children)
    return frozenset(family)
