"""What the lines of one boot of one machine taught. When a boot begins is not here (reader)."""

from collections.abc import Mapping
from typing import Any

from gpuward.isolation.kernel.multiline import Multiline
from gpuward.model.gpu import PciAddress

FIRST_BOOT = 1
_SHORT_ADDRESS = 5


class Boot:
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
        self.number = FIRST_BOOT
        self.boot_time = boot_time
        self.newest_uptime: float | None = None
        self.seen = False
        self.driver_version: str | None = None
        self.multiline = Multiline()
        self.cut: tuple[int, str] | None = None
        self.known = Addresses(gpus)
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
    def unpack(cls, packed: Mapping[str, Any]) -> "Boot":
        """Return what was packed."""
        boot = cls(packed["name"], packed["boot_time"], gpus=frozenset(packed["gpus"]))
        boot.number = int(packed["number"])
        boot.newest_uptime = packed["newest_uptime"]
        boot.seen = bool(packed["seen"])
        boot.driver_version = packed["driver_version"]
        boot.gpu_uuids = dict(packed["gpu_uuids"])
        return boot


class Addresses:
    """The full addresses of GPUs known in this boot, to complete those printed without a domain."""

    def __init__(self, gpus: frozenset[str]) -> None:
        self._full: set[str] = set()
        self._by_short: dict[str, list[str]] = {}
        for pci in gpus:
            self._put(pci)

    def add(self, pci: PciAddress) -> None:
        """Take up a full address; one of two parts names no GPU for certain."""
        if pci.certain:
            self._put(pci.pci)

    def all(self) -> list[str]:
        """Return them in order."""
        return sorted(self._full)

    def holds(self, pci: str) -> bool:
        """Return whether a canonical address is one of them."""
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
