"""The GPUs as the kernel's PCI bus lists them, for when the driver's tools give no answer. No driver is asked."""

import re
from pathlib import Path

from gpuward.model.gpu import read_pci
from gpuward.model.node import EccCounts, GpuReading, NodeReading, Pcie, Remap
from gpuward.ports import Refused, Unreachable

ROAD = "sysfs"
_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA controller, and 3D controller as data centre cards are (PCI code and ID assignment, class 03h)."""
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s", re.ASCII)
_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_LANES = frozenset({1, 2, 4, 8, 12, 16, 32})
"""What PCIe links can have; a card that is gone reads 0 or 63."""
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)+", re.ASCII)


class Sysfs:
    """Reads all NVIDIA GPUs on the bus. Unlike the driver's tools it shows drained ones too, and no uuid or minor."""

    def __init__(self, root: str = "/sys") -> None:
        self._root = Path(root)

    def read(self, deadline_seconds: float = 0.0) -> NodeReading:
        """Return them in PCI order; the kernel answers from memory, so no deadline is kept.

        A card whose configuration space reads all ones is lost, which is what lspci shows as `rev ff`.
        """
        del deadline_seconds
        folder = self._root / "bus/pci/devices"
        try:
            devices = sorted((pci, entry) for entry in folder.iterdir() if (pci := _pci(entry.name)))
        except FileNotFoundError as error:
            raise Refused(f"{folder} is not there; see that /sys is mounted") from error
        except OSError as error:
            raise Unreachable(f"{folder} cannot be read ({error.strerror}); try again") from error
        version = _VERSION.match(_line(self._root / "module/nvidia/version"))
        return NodeReading(
            road=ROAD,
            driver_version=version[0] if version else None,
            cuda_version=None,
            gpus=tuple(_gpu(pci, device) for pci, device in devices if _is_gpu(device)),
        )


def _pci(name: str) -> str | None:
    address = read_pci(name)
    return address.pci if address else None


def _is_gpu(device: Path) -> bool:
    return _line(device / "vendor") == _NVIDIA and _line(device / "class").startswith(_DISPLAY_CLASSES)


def _gpu(pci: str, device: Path) -> GpuReading:
    return GpuReading(
        index=None,
        pci=pci,
        uuid=None,
        minor=None,
        model=None,
        persistence=None,
        display_active=None,
        mig=None,
        ecc=EccCounts(volatile=None, aggregate=None),
        remap=Remap(pending=None, failed=None),
        recovery_action=None,
        links=(),
        pcie=Pcie(
            generation=_generation(device / "current_link_speed"),
            generation_max=_generation(device / "max_link_speed"),
            width=_width(device / "current_link_width"),
            width_max=_width(device / "max_link_width"),
        ),
        lost=_is_gone(device / "config"),
    )


def _generation(file: Path) -> int | None:
    speed = _SPEED.match(_line(file))
    return _GENERATION.get(float(speed[1])) if speed else None


def _width(file: Path) -> int | None:
    text = _line(file)
    lanes = int(text) if text.isascii() and text.isdecimal() else 0
    return lanes if lanes in _LANES else None


def _is_gone(file: Path) -> bool:
    try:
        with file.open("rb") as config:
            return config.read(4) == b"\xff\xff\xff\xff"
    except OSError:
        return False


def _line(file: Path) -> str:
    """Return the one line of an attribute, empty when it is not there or cannot be read."""
    try:
        return file.read_text("ascii", "replace").strip()
    except OSError:
        return ""
