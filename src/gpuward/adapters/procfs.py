"""What /proc says of processes and of the NVIDIA driver. Nothing is asked of the driver itself, which may hang."""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuward.model.gpu import Gpu, read_pci
from gpuward.ports import EdgeError, Holder, Refused, Unreachable

_LONGEST_COMMAND = 256
_AFTER_NAME = 4
"""Fields 3 to 6 of /proc/PID/stat are state, parent, group, session; 2, the name, may hold blanks and brackets."""
_STARTED = 19
"""Where field 22, the start, is after the name."""
_ASLEEP_IN_KERNEL = "D"
"""Such a process may hold the lock of its memory, and its command line would be waited for as long as it sleeps."""

_CONTAINER = re.compile(r"(?!\S*conmon)(?:[a-z0-9_.-]+-)?([0-9a-f]{64})(?:\.scope|\.service)?", re.ASCII)
"""`<id>`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope` and so on; not their monitor."""

_POD = re.compile(
    r"(?:kubepods\S*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?", re.ASCII
)
"""`pod<uid>` (cgroupfs driver) and `kubepods-burstable-pod<uid with _>.slice` (systemd); 32 digits for a static pod."""

_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", re.ASCII)
_CONTROL = {**dict.fromkeys(range(0x20), " "), **dict.fromkeys(range(0x7F, 0xA0), " ")}
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENOTDIR)


@dataclass(frozen=True, slots=True)
class Stat:
    """The head of /proc/PID/stat. `state` is a letter: D sleeps in the kernel, Z has ended and was not reaped.

    `started_ticks` is the start in ticks of the kernel's clock since boot: with the pid it names a process for a boot.
    """

    name: str
    state: str
    parent: int
    session: int
    started_ticks: int | None = None


_EXCLUDED = ("GPU Excluded", "Blacklisted")
"""What the driver says of a GPU that NVreg_ExcludedGpus names; the older word before it (NVIDIA driver README)."""


class ProcFs:
    """Implements Processes and Inventory with the tree at `root`."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = Path(root)

    def holder(self, pid: int) -> Holder | None:
        """Return who `pid` is now, None when it is gone or goes while it is looked at; what may not be read is None."""
        folder = self._root / str(pid)
        try:
            stat = read_stat(_text(folder / "stat") or "")
            container, pod = _container_and_pod(_text(folder / "cgroup") or "")
            asleep = stat is not None and stat.state == _ASLEEP_IN_KERNEL
            cmdline = "" if asleep else _text(folder / "cmdline") or ""
            return Holder(
                pid=pid,
                command=_command(cmdline, comm=_text(folder / "comm") or ""),
                session=stat.session if stat else None,
                container_id=container,
                pod_uid=pod,
            )
        except FileNotFoundError:
            return None

    def stat(self, pid: int) -> Stat | None:
        """Return the name, state and parent of `pid`, None when it is gone."""
        try:
            return read_stat(_text(self._root / str(pid) / "stat") or "")
        except FileNotFoundError:
            return None

    def unit(self, pid: int) -> str | None:
        """Return the system's systemd unit that `pid` runs in, such as `nvidia-dcgm.service`; None when in none.

        Units of a user's own manager do not count: their names are the user's choice.
        """
        try:
            return _unit(_text(self._root / str(pid) / "cgroup") or "")
        except FileNotFoundError:
            return None

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs in PCI order, as nvidia-smi counts them; empty when the driver is not loaded.

        One that the driver was told to leave alone is listed by it, and is none of ours to miss.
        """
        folder = self._root / "driver/nvidia/gpus"
        try:
            names = [entry.name for entry in folder.iterdir()]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _trouble(folder, error) from error
        found = sorted((place, pci, name) for name in names if (pci := _pci(name)) and (place := _place(pci)))
        told = ((pci, self._told(folder / name)) for _, pci, name in found)
        in_use = [(pci, said) for pci, said in told if not any(said.get(key) == "Yes" for key in _EXCLUDED)]
        return tuple(_gpu(index, pci, said) for index, (pci, said) in enumerate(in_use))

    def driver_version(self) -> str | None:
        """Return the version of the loaded kernel module, None when there is none."""
        file = self._root / "driver/nvidia/version"
        try:
            text = file.read_text("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _trouble(file, error) from error
        match = _VERSION.search(text)
        return match[1] if match else None

    def _told(self, folder: Path) -> dict[str, str]:
        """Return what the driver tells of one card; of one that is lost it says little or nothing."""
        try:
            text = _text(folder / "information") or ""
        except FileNotFoundError:
            text = ""
        return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def _gpu(index: int, pci: str, said: Mapping[str, str]) -> Gpu:
    uuid = said.get("GPU UUID", "")
    minor = said.get("Device Minor", "")
    return Gpu(
        index=index,
        pci=pci,
        uuid=uuid if uuid and "?" not in uuid else None,
        model=said.get("Model") or None,
        minor=int(minor) if minor.isdecimal() else None,
    )


def _text(file: Path) -> str | None:
    """Return what `file` holds, None when it may not be read; FileNotFoundError when its process is gone."""
    try:
        return file.read_text("utf-8", "replace")
    except OSError as error:
        if error.errno in _GONE:
            raise FileNotFoundError(error.errno, error.strerror, str(file)) from error
        return None


def _command(cmdline: str, *, comm: str) -> str | None:
    words = cmdline.rstrip("\0").replace("\0", " ") or comm
    return words.translate(_CONTROL).strip()[:_LONGEST_COMMAND] or None


def read_stat(text: str) -> Stat | None:
    """Return the head of a /proc/PID/stat text, None when it is not one."""
    head, bracket, tail = text.rpartition(")")
    fields = tail.split()
    if not bracket or len(fields) < _AFTER_NAME:
        return None
    state, parent, _, session = fields[:_AFTER_NAME]
    return Stat(
        name=head.partition("(")[2],
        state=state,
        parent=int(parent),
        session=int(session),
        started_ticks=int(fields[_STARTED]) if len(fields) > _STARTED else None,
    )


def _unit(cgroup: str) -> str | None:
    """Return the unit under system.slice, of the unified hierarchy or of systemd's own in version 1.

    Seen from inside a cgroup namespace the path starts with `/..`.
    """
    for line in cgroup.splitlines():
        _, _, rest = line.partition(":")
        hierarchy, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part not in {"", ".."}]
        if hierarchy in {"", "name=systemd"} and parts and parts[0] == "system.slice":
            return next((part for part in parts if part.endswith(".service")), None)
    return None


def _container_and_pod(cgroup: str) -> tuple[str | None, str | None]:
    """Return container id and pod uid of the first hierarchy that names one.

    Within a pod the first container counts: what it starts inside itself is still its own. What stands before the pod
    is the container of a node that is itself one.
    """
    for line in cgroup.splitlines():
        parts = re.split("[/:]", line.split(":", 2)[-1])
        pod, after = next(((m[1], at) for at, part in enumerate(parts) if (m := _POD.fullmatch(part))), (None, 0))
        container = next((m[1] for part in parts[after:] if (m := _CONTAINER.fullmatch(part))), None)
        if pod or container:
            return container, pod.replace("_", "-") if pod else None
    return None, None


def _pci(name: str) -> str | None:
    address = read_pci(name)
    return address.pci if address else None


def _place(pci: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in pci.split(":"))


def _trouble(place: Path, error: OSError) -> EdgeError:
    if isinstance(error, PermissionError):
        return Refused(f"{place} may not be read by this user; run as root")
    return Unreachable(f"{place} cannot be read ({error.strerror}); try again when the driver answers")
