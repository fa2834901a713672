"""A line once it is read: what it says, not what it means. Levels are judged later, by catalogue and rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuward.model.gpu import Mig
from gpuward.model.signal import Moment


class RecordKind(StrEnum):
    """What sort of line it is. These are kinds of lines; the kinds of faults are rows of the catalogue."""

    XID = "xid"
    SXID = "sxid"
    XID_MALFORMED = "xid_malformed"
    SXID_MALFORMED = "sxid_malformed"
    XID_QUOTED = "xid_quoted"
    FALLEN_OFF_BUS = "nvrm_fallen_off_bus"
    MULTILINE_START = "nvrm_multiline_start"
    CONTINUATION = "continuation"
    RMINIT_FAILED = "nvrm_rminit_failed"
    GPU_UUID = "nvrm_gpu_uuid"
    BOARD_SERIAL = "nvrm_board_serial"
    DRIVER_LOADED = "nvrm_driver_loaded"
    VERSION_MISMATCH = "nvrm_version_mismatch"
    AER = "aer"
    NVRM_OTHER = "nvrm_other"
    NVSWITCH_OTHER = "nvswitch_other"
    BOOT = "boot"


@dataclass(frozen=True, slots=True)
class Record:
    """One recognised line. `pci` is canonical (`dddd:bb:dd`), the function apart; two-part addresses are not `certain`.

    `facility` is the syslog facility word (`kern`, `user`, ...) or None when the frame carries none. `severity` is the
    word printed in the line in one spelling: `fatal`, `non-fatal`, `correctable`. `details` holds JSON values only.
    """

    source: str
    line: int
    cursor: str
    moment: Moment
    boot: str
    node: str | None
    facility: str | None
    frame: str
    kind: RecordKind
    code: int | None
    pci: str | None
    function: int | None
    certain: bool
    pid: int | None
    process: str | None
    mig: Mig | None
    severity: str | None
    link: int | None
    part: str | None
    details: Mapping[str, Any]
    text: str
