"""The NVIDIA driver's one-line messages that are no Xid, as a table of rows. Messages of several lines are not here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.isolation.kernel.details import Value
from gpuward.isolation.kernel.finding import Finding
from gpuward.model.gpu import read_pci
from gpuward.model.record import RecordKind

OPENING = "NVRM:"

PCI = r"(?:PCI:)?(?P<pci>[0-9a-fA-F:.]{4,20})"
_GPU = rf"(?:GPU {PCI}: )?"
_UUID = r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_VERSION = r"\d{1,5}(?:\.\d{1,5}){1,3}"


@dataclass(frozen=True, slots=True)
class Row:
    """A message: its kind, its words behind `NVRM: `, and how a named group other than `pci` becomes a detail."""

    kind: RecordKind
    shape: re.Pattern[str]
    values: Mapping[str, Value]


def _row(kind: RecordKind, shape: str, **values: Value) -> Row:
    return Row(kind, re.compile(shape, re.ASCII), values)


_ROWS = (
    _row(RecordKind.GPU_UUID, rf"GPU at {PCI}: (?:(?P<uuid>{_UUID})(?![\w-])|GPU-)", uuid=str),
    _row(RecordKind.BOARD_SERIAL, r"GPU Board Serial Number: *(?P<serial>\w{1,40})?", serial=str),
    _row(RecordKind.BOARD_SERIAL, rf"GPU {PCI}: GPU serial number is (?P<serial>\w{{1,40}})", serial=str),
    _row(RecordKind.FALLEN_OFF_BUS, rf"GPU {PCI}: GPU has fallen off the bus"),
    _row(RecordKind.FALLEN_OFF_BUS, rf"GPU at {PCI} has fallen off the bus"),
    _row(
        RecordKind.FALLEN_OFF_BUS,
        rf"The NVIDIA GPU {PCI} *(?:\(PCI ID: [^)]*\))? *(?:installed in this system)? *has fallen off the bus",
    ),
    _row(RecordKind.FALLEN_OFF_BUS, r"(?:has )?fallen off the bus and is not responding"),
    _row(RecordKind.RMINIT_FAILED, rf"{_GPU}RmInitAdapter failed!?(?: \((?P<codes>[0-9a-fA-Fx:]+)\))?", codes=str),
    _row(
        RecordKind.RMINIT_FAILED,
        rf"{_GPU}rm_init_adapter(?:\((?P<minor>\d{{1,5}})\))? failed(?!,| for)",
        minor=int,
    ),
    _row(
        RecordKind.RMINIT_FAILED,
        rf"{_GPU}rm_init_adapter failed(?:,| for) device (?:bearing )?minor number (?P<minor>\d{{1,5}})",
        minor=int,
    ),
    _row(RecordKind.RMINIT_FAILED, rf"{_GPU}rm_init_adapter failed"),
    _row(
        RecordKind.DRIVER_LOADED,
        rf"loading NVIDIA .{{0,120}}? (?P<driver_version>{_VERSION})(?= |$)",
        driver_version=str,
    ),
    _row(
        RecordKind.VERSION_MISMATCH,
        rf"API mismatch:.{{0,200}}?has the version (?P<client_version>{_VERSION})[ ,]*but (?:this kernel module has )?"
        rf"the version (?P<kernel_version>{_VERSION})",
        client_version=str,
        kernel_version=str,
    ),
)


def read_nvrm(message: str) -> Finding:
    """Return what a driver message, without `NVRM: `, says; one of no known row is `nvrm_other`."""
    for row in _ROWS:
        match = row.shape.match(message)
        if match is not None:
            return _found(row, match)
    return Finding(RecordKind.NVRM_OTHER)


def _found(row: Row, match: re.Match[str]) -> Finding:
    groups = match.groupdict()
    printed = groups.get("pci")
    pci = None if printed is None else read_pci(printed)
    if printed is not None and pci is None:
        return Finding(RecordKind.NVRM_OTHER)
    details: dict[str, Any] = {
        key: value(groups[key]) for key, value in row.values.items() if groups.get(key) is not None
    }
    return Finding(row.kind, pci=pci, details=details)
