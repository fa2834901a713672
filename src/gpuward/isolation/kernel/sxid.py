"""`nvidia-nvswitchN: SXid (…): …` taken apart, all three lines of an event. What a code means is not here."""

import re
from typing import Any

from gpuward.isolation.kernel.finding import Finding
from gpuward.model.gpu import read_pci
from gpuward.model.record import RecordKind

OPENING = "nvidia-nvswitch"

_DEVICE = re.compile(r"nvidia-nvswitch(?P<nvswitch>\d{1,4})?:[ \t]+(?P<sxid>SXid\b)?", re.ASCII)
_SXID = re.compile(
    r"nvidia-nvswitch\d*:[ \t]+SXid[ \t]*\((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{5,20})\):"
    r"[ \t]*(?P<code>\d{1,6})(?!\w)[ \t]*,?[ \t]*(?P<rest>.*)",
    re.ASCII | re.DOTALL,
)
_DATA = re.compile(r"Data\b", re.ASCII)
_WORD = re.compile(r"(?P<zero>0x) *(?P<digits>[0-9a-fA-F]{1,16})", re.ASCII)
_SEVERITY = re.compile(
    r"Severity (?P<severity_number>\d{1,4})(?: Engine instance (?P<engine>\d{1,6}))?"
    r"(?: Sub-engine instance (?P<subengine>\d{1,6}))?",
    re.ASCII,
)
_MESSAGE = re.compile(
    r"(?:(?P<severity>(?i:Fatal|Non-?fatal|Correctable|Corrected))\b)?[ ,]*(?:Link (?P<link>-?\d{1,4})\b)?", re.ASCII
)
_SEVERITIES = {
    "fatal": "fatal",
    "nonfatal": "non-fatal",
    "non-fatal": "non-fatal",
    "correctable": "correctable",
    "corrected": "correctable",
}


def read_nvswitch(body: str) -> Finding | None:
    """Return what an NVSwitch driver line says, SXid or not; None when it is no such line."""
    device = _DEVICE.match(body)
    if device is None:
        return None
    number = None if device["nvswitch"] is None else int(device["nvswitch"])
    if device["sxid"] is None:
        return Finding(RecordKind.NVSWITCH_OTHER, details={"nvswitch": number})
    match = _SXID.match(body)
    pci = None if match is None else read_pci(match["pci"])
    if match is None or pci is None:
        return Finding(RecordKind.SXID_MALFORMED, details={"nvswitch": number})
    part, severity, link, details = _read_rest(match["rest"])
    return Finding(
        RecordKind.SXID,
        code=int(match["code"]),
        pci=pci,
        severity=severity,
        link=link,
        part=part,
        details={"nvswitch": number, **details},
    )


def _read_rest(rest: str) -> tuple[str, str | None, int | None, dict[str, Any]]:
    """Return part, severity, link and details of what follows the code."""
    if _DATA.match(rest):
        return "data", None, None, {"words": [found["zero"] + found["digits"] for found in _WORD.finditer(rest)]}
    engine = _SEVERITY.match(rest)
    if engine is not None:
        return "severity", None, None, {key: int(value) for key, value in engine.groupdict().items() if value}
    details: dict[str, Any] = {"message": rest.strip()}
    if "(First)" in rest:
        details["first"] = True
    found = _MESSAGE.match(rest)
    if found is None:
        return "message", None, None, details
    severity = None if found["severity"] is None else _SEVERITIES[found["severity"].lower()]
    return "message", severity, None if found["link"] is None else int(found["link"]), details
