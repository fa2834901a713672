"""PCIe Advanced Error Reporting lines of the kernel. Whether the device is a GPU by its address is not known here."""

import re

from gpuward.isolation.kernel.finding import Finding
from gpuward.model.gpu import read_pci
from gpuward.model.record import RecordKind

_AER = re.compile(
    r"(?P<driver>[\w.-]{1,40}) (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): *"
    r"(?P<rest>(?:AER|aer_\w+): .*|PCIe Bus Error: .*|device \[[0-9a-fA-F]{4}:[0-9a-fA-F]{4}\] error status/mask=.*"
    r"|\[ ?\d{1,2} ?\] [A-Z]\w+.*|TLP Header: .*)",
    re.ASCII | re.DOTALL,
)
_SEVERITY = re.compile(
    r"(?P<fatal>\(Fatal\)|severity=Fatal)|(?P<nonfatal>\(Non-?[Ff]atal\)|severity=Non-?[Ff]atal)|(?P<corrected>Correct(?:ed|able))",
    re.ASCII,
)
_WORDS = {
    "fatal": ("fatal", "fatal"),
    "nonfatal": ("non-fatal", "non-fatal"),
    "corrected": ("corrected", "correctable"),
}
"""The kernel's word for `aer_severity`, and the one of records."""
_TARGET = re.compile(
    r"(?:error received: |received from:? |device )(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])",
    re.ASCII,
)
_GPU_DRIVER = "nvidia"


def read_aer(body: str) -> Finding | None:
    """Return what an AER line says, None when it is none.

    `pci` is the device that the line begins with. `target` is the device that a port names as the sender, canonical.
    `of_gpu` is True here when the NVIDIA driver holds the device.
    """
    match = _AER.match(body)
    pci = None if match is None else read_pci(match["pci"])
    if match is None or pci is None:
        return None
    rest = match["rest"]
    found, sender = _SEVERITY.search(rest), _TARGET.search(rest)
    target = None if sender is None else read_pci(sender["pci"])
    printed, severity = (None, None) if found is None else _WORDS[found.lastgroup or ""]
    return Finding(
        RecordKind.AER,
        pci=pci,
        severity=severity,
        details={
            "aer_severity": printed,
            "driver": match["driver"],
            "target": None if target is None else target.pci,
            "of_gpu": match["driver"] == _GPU_DRIVER,
        },
        sender=target,
    )
