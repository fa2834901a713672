"""Where a GPU is: one canonical PCI address for every spelling, and the MIG instance. No inventory is read here."""

import re
from dataclasses import dataclass
from functools import lru_cache

_PRINTED = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,4}):(?P<device>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE | re.ASCII,
)
_LARGEST_BUS = 0xFF
_LARGEST_DEVICE = 0x1F


@dataclass(frozen=True, slots=True)
class PciAddress:
    """A PCI address as some program printed it, made canonical.

    `pci` is `dddd:bb:dd` in lower case (longer domains keep their digits), the function apart. `certain` is False for
    an address of two parts, `bus:device`, whose domain was not printed and is taken as 0000.
    """

    pci: str
    function: int | None
    certain: bool


@lru_cache(maxsize=4096)
def read_pci(printed: str) -> PciAddress | None:
    """Return the address that `printed` spells, or None when it is not one.

    Accepted: 4 to 8 digit domains in either case, with or without function; `bbbb:dd` and `bb:dd.f` of old drivers.
    """
    match = _PRINTED.fullmatch(printed)
    if match is None:
        return None
    bus = int(match["bus"], 16)
    device = int(match["device"], 16)
    if bus > _LARGEST_BUS or device > _LARGEST_DEVICE:
        return None
    domain = match["domain"]
    function = match["function"]
    return PciAddress(
        pci=f"{int(domain or '0', 16):04x}:{bus:02x}:{device:02x}",
        function=None if function is None else int(function),
        certain=domain is not None,
    )


@dataclass(frozen=True, slots=True)
class Mig:
    """The MIG instance that a line names: GPU instance and compute instance, either may be unknown."""

    gi: int | None
    ci: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine as its driver lists it; `index` is its place in PCI order, as nvidia-smi counts."""

    index: int
    pci: str
    uuid: str | None
    model: str | None
    minor: int | None
