"""What a dcgm-exporter tells, and what of it may stand in for what the driver's own tools do not tell.

The driver's tools always win: the exporter's values are as old as its last poll. Only single values of a GPU that the
tools show are filled in. When the tools do not answer at all nothing is: values from before the driver hung would make
a hung server look healthy. How a scrape is fetched and spelled is not here.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum

from gpuward.model.node import GpuReading, NodeReading

EXPORTER_LAG_SECONDS = 120.0
"""How old a value of the exporter may be: it polls every 30 s unless told otherwise (dcgm-exporter, collect interval).
So long after work of ours on a GPU its values are from before that work, and are not taken."""


class Unit(StrEnum):
    """What a value counts."""

    ERRORS = "errors"
    ROWS = "rows"
    YES_NO = "0 or 1"
    XID = "Xid code"
    """The last one seen; it is never taken back and hides repeats. The kernel log is the truth."""
    RECOVERY_ACTION = "nvmlDeviceGpuRecoveryAction_t"


@dataclass(frozen=True, slots=True)
class DcgmReading:
    """One value of one GPU, or of one MIG instance of it. `value` None is unknown."""

    field: int
    unit: Unit
    value: int | None
    gpu: int | None
    uuid: str | None
    pci: str | None
    mig_instance: int | None


Readings = Mapping[int, tuple[DcgmReading, ...]]
"""The values of one scrape by DCGM's field number."""

LAST_XID = 230
RECOVERY_WORDS = (
    "None",
    "Reset",
    "Reboot",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
    "Bus Reset",
    "System Reboot",
)
"""nvmlDeviceGpuRecoveryAction_t (nvml.h) from 0, in the words of nvidia-smi."""


def _ecc(gpu: GpuReading, value: int) -> GpuReading:
    return gpu if gpu.ecc.volatile is not None else replace(gpu, ecc=replace(gpu.ecc, volatile=value))


def _failed(gpu: GpuReading, value: int) -> GpuReading:
    return gpu if gpu.remap.failed is not None else replace(gpu, remap=replace(gpu.remap, failed=bool(value)))


def _pending(gpu: GpuReading, value: int) -> GpuReading:
    return gpu if gpu.remap.pending is not None else replace(gpu, remap=replace(gpu.remap, pending=bool(value)))


def _recovery(gpu: GpuReading, value: int) -> GpuReading:
    word = RECOVERY_WORDS[value] if value < len(RECOVERY_WORDS) else f"Unknown ({value})"
    return gpu if gpu.recovery_action is not None else replace(gpu, recovery_action=word)


@dataclass(frozen=True, slots=True)
class Filler:
    """A field that may stand in, in its unit, and where it goes."""

    number: int
    unit: Unit
    fill: Callable[[GpuReading, int], GpuReading]
    source: str


FILLERS = (
    Filler(311, Unit.ERRORS, _ecc, "dcgm_fields.h: volatile double-bit total; entity level GPU"),
    Filler(395, Unit.YES_NO, _failed, "dcgm_fields.h: whether remapping of rows has failed; entity level GPU"),
    Filler(396, Unit.YES_NO, _pending, "dcgm_fields.h: whether remapping of rows is pending; entity level GPU"),
    Filler(1523, Unit.RECOVERY_ACTION, _recovery, "dcgm_fields.h of 4.5: nvmlDeviceGpuRecoveryAction_t; GPU"),
)
"""All are fields of the whole GPU. Where MIG is on, an exporter prints such a field once for each instance, the GPU's
value again or a blank: added up it would count the same errors several times. So lines of instances are passed over,
and what is told for instances only stays unknown."""


def filled(reading: NodeReading, readings: Readings, *, apart: AbstractSet[str]) -> NodeReading:
    """Return the reading with what it does not tell filled in, except of lost GPUs and of those in `apart`."""
    gpus = tuple(gpu if gpu.lost or gpu.pci in apart else _filled(gpu, readings) for gpu in reading.gpus)
    return replace(reading, gpus=gpus)


def _filled(gpu: GpuReading, readings: Readings) -> GpuReading:
    for filler in FILLERS:
        value = _value(filler, gpu, readings)
        if value is not None:
            gpu = filler.fill(gpu, value)
    return gpu


def _value(filler: Filler, gpu: GpuReading, readings: Readings) -> int | None:
    """Return the one value of this GPU. Repeats, as by pod, are one; lines that contradict each other are none."""
    values = {
        one.value
        for one in readings.get(filler.number, ())
        if one.mig_instance is None and one.unit is filler.unit and _is_of(one, gpu.pci, gpu.uuid)
    }
    value = values.pop() if len(values) == 1 else None
    return None if filler.unit is Unit.YES_NO and value not in {0, 1} else value


def _is_of(one: DcgmReading, pci: str, uuid: str | None) -> bool:
    """Match by UUID, and by address where one side knows no UUID: another card may have stood there before."""
    if one.uuid is not None and uuid is not None:
        return one.uuid.lower() == uuid.lower()
    return one.pci is not None and one.pci == pci


def xids_told(readings: Readings, places: Mapping[str, str | None]) -> Iterator[tuple[str, int]]:
    """Yield address and code of each last Xid, for GPUs given as UUIDs by address; 0 is none.

    An Xid of a MIG instance is one of its GPU, by whose address the kernel names it.
    """
    for one in readings.get(LAST_XID, ()):
        if one.value:
            yield from ((pci, one.value) for pci, uuid in places.items() if _is_of(one, pci, uuid))
