"""One poll of a server, made beside the loop: the reading, whether what it lacks is drained, what the exporter tells.

Nothing is remembered or judged here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuward.isolation.dcgm import Readings
from gpuward.model.node import NodeReading
from gpuward.ports import Clock, Driver, EdgeError, Exporter

WHOLE_ROADS = frozenset({"nvml", "nvidia-smi"})
"""Roads that show every GPU that is not drained, by the driver's own word."""


class Sources(NamedTuple):
    """Whom a poll asks. `exporter` None: there is none."""

    driver: Driver
    clock: Clock
    exporter: Exporter | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll came to."""

    reading: NodeReading
    drained: Mapping[str, bool | None]
    """Of the GPUs that the reading should have shown and did not: whether one is drained; None: nobody could tell."""
    exported: Readings | EdgeError | None
    """What the exporter tells, or why it does not; None: there is none."""


def poll(sources: Sources, expected: frozenset[str], *, read_seconds: float, exporter_seconds: float) -> Polled:
    """Read all GPUs, and look at those of `expected` that are not shown, together within `read_seconds`.

    Raises EdgeError when the GPUs cannot be read. The exporter has a time of its own, and is not asked then: it is no
    stand-in for tools that do not answer.
    """
    end = sources.clock.monotonic() + read_seconds
    reading = sources.driver.read(read_seconds)
    missing = sorted(expected - {gpu.pci for gpu in reading.gpus}) if reading.road in WHOLE_ROADS else []
    drained = {}
    for number, pci in enumerate(missing):
        # An equal share of what is left: one that hangs must not take the others' time.
        share = (end - sources.clock.monotonic()) / (len(missing) - number)
        drained[pci] = _is_drained(sources.driver, pci, share)
    return Polled(reading=reading, drained=drained, exported=_exported(sources.exporter, exporter_seconds))


def _is_drained(driver: Driver, pci: str, seconds: float) -> bool | None:
    if seconds <= 0:
        return None
    try:
        return driver.is_drained(pci, seconds)
    except EdgeError:
        return None


def _exported(exporter: Exporter | None, seconds: float) -> Readings | EdgeError | None:
    if exporter is None:
        return None
    try:
        return exporter.read(seconds)
    except EdgeError as error:
        return error
