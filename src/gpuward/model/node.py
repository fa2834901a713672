"""A GPU server as its driver and kernel show it at one moment. None is always unknown, never healthy."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class EccCounts:
    """Uncorrectable memory errors: since the last reset or driver load, and in the life of the card."""

    volatile: int | None
    aggregate: int | None


@dataclass(frozen=True, slots=True)
class Remap:
    """Row remapping: a reset is pending to make a row active; a row could not be remapped."""

    pending: bool | None
    failed: bool | None


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink: whether it is active, and its speed in GB/s where it is told."""

    link: int
    active: bool
    speed_gb_per_second: float | None


@dataclass(frozen=True, slots=True)
class Pcie:
    """The PCIe link as it is now and at most: generation and lanes."""

    generation: int | None
    generation_max: int | None
    width: int | None
    width_max: int | None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU as the driver's tools read it. `lost` is the tools' own word that it no longer answers."""

    index: int | None
    pci: str
    uuid: str | None
    minor: int | None
    model: str | None
    persistence: bool | None
    display_active: bool | None
    mig: bool | None
    ecc: EccCounts
    remap: Remap
    recovery_action: str | None
    """The driver's label: None, Reset, Reboot, Drain P2P, Drain and Reset; Python's None where it is not told."""
    links: tuple[NvLink, ...]
    pcie: Pcie
    lost: bool
    mig_uuids: tuple[str, ...] | None = None
    """The UUIDs of its MIG devices; None where they are not told."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """All GPUs that the driver shows, and the road by which they were read. A drained GPU is not among them."""

    road: str
    """nvml, nvidia-smi or sysfs."""
    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[GpuReading, ...]


class HolderKind(StrEnum):
    """Whose process holds a GPU."""

    WORK = "work"
    SERVICE = "service"
    """One that is known, and may be stopped for a repair."""
    OURS = "ours"


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that has a GPU's device file open or mapped. `service` names the systemd unit of a known service."""

    pid: int
    name: str
    command: str | None
    kind: HolderKind
    service: str | None
    pod_uid: str | None
    container_id: str | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """What tells a process apart also when its pid is another's: where it came from and when, fit to be shown."""

    session: int | None
    started: str | None
    """UTC, or seconds since boot as `+12.34s`."""
    cgroup: str | None
    """The lines of /proc/PID/cgroup, joined by blanks."""
