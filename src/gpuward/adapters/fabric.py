"""NVSwitches and Fabric Manager on this server, from /sys and /proc. Nothing is asked of the driver."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_NVIDIA = "0x10de"
_BRIDGE = "0x0680"
"""Other bridge, which an NVSwitch says that it is (PCI code and ID assignment, class 06h)."""
_MANAGER = "nv-fabricmanage"
"""nv-fabricmanager, as the kernel cuts a process's name (TASK_COMM_LEN)."""


class Fabric:
    """Looks for the fabric between GPUs. `sys` and `proc` are where /sys and /proc are mounted."""

    def __init__(self, sys: str = "/sys", proc: str = "/proc") -> None:
        self._sys = Path(sys)
        self._proc = Path(proc)

    def has_switches(self) -> bool | None:
        """Return whether NVSwitches are on the PCI bus or known to their driver; None when neither can be looked at."""
        known = self._proc / "driver/nvidia-nvswitch/devices"
        if any(_entries(known)):
            return True
        bus = self._sys / "bus/pci/devices"
        try:
            devices = list(bus.iterdir())
        except OSError:
            return None
        return any(_is_switch(device) for device in devices)

    def has_manager(self) -> bool | None:
        """Return whether Fabric Manager runs: a process of root's under its name; None when /proc cannot be read.

        Not asked of systemd: in a driver container it runs in no unit, and its process is seen all the same. Root is
        asked for since anyone can take the name; root of a user namespace is another number here.
        """
        try:
            processes = [entry for entry in self._proc.iterdir() if entry.name.isdecimal()]
        except OSError:
            return None
        return any(_line(one / "comm") == _MANAGER and _is_roots(one) for one in processes)


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from folder.iterdir()


def _is_switch(device: Path) -> bool:
    return _line(device / "vendor") == _NVIDIA and _line(device / "class").startswith(_BRIDGE)


def _is_roots(process: Path) -> bool:
    owners = [line.split()[1:] for line in _line(process / "status").splitlines() if line.startswith("Uid:")]
    return bool(owners) and owners[0][:2] == ["0", "0"]


def _line(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
