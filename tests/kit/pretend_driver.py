"""A pretend driver, holders and services over one small state, for tests of the loop."""

from dataclasses import dataclass, field, replace

from gpuward.model.node import EccCounts, GpuHolder, GpuReading, HolderKind, NodeReading, Pcie, Remap
from gpuward.ports import EdgeError, Refused, Unreachable
from tests.kit.merging import GPU_A, GPU_B, GPU_C


def a_reading(pci: str, minor: int) -> GpuReading:
    """Return a healthy GPU."""
    return GpuReading(
        index=minor,
        pci=pci,
        uuid=f"GPU-{minor:08d}-1111-2222-3333-444444444444",
        minor=minor,
        model="NVIDIA H100 80GB HBM3",
        persistence=True,
        display_active=False,
        mig=False,
        ecc=EccCounts(volatile=0, aggregate=0),
        remap=Remap(pending=False, failed=False),
        recovery_action="None",
        links=(),
        pcie=Pcie(generation=5, generation_max=5, width=16, width_max=16),
        lost=False,
    )


def a_holder(pid: int = 4321, name: str = "train", *, service: str | None = None) -> GpuHolder:
    """Return a process that holds a GPU: work, or a known service."""
    kind = HolderKind.WORK if service is None else HolderKind.SERVICE
    return GpuHolder(pid=pid, name=name, command=name, kind=kind, service=service, pod_uid=None, container_id=None)


@dataclass
class PretendDriver:
    """Implements Driver, Holders and Services. `calls` lists what was done; `troubles` maps a call to its error."""

    gpus: dict[str, GpuReading] = field(
        default_factory=lambda: {pci: a_reading(pci, minor) for minor, pci in enumerate((GPU_A, GPU_B, GPU_C))}
    )
    drained: set[str] = field(default_factory=set)
    held: dict[int, list[GpuHolder]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    troubles: dict[str, EdgeError] = field(default_factory=dict)
    receipts: dict[tuple[str, str], EdgeError | None] = field(default_factory=dict)
    """What became of each reset, by address and key."""
    done_resets: int = 0

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return the GPUs that are not drained."""
        del deadline_seconds
        self._trouble("read")
        shown = tuple(gpu for pci, gpu in self.gpus.items() if pci not in self.drained)
        return NodeReading(road="nvml", driver_version="575.51.02", cuda_version="12.9", gpus=shown)

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Return some words about a GPU."""
        del deadline_seconds
        self._note("describe")
        return f"GPU {pci}\n"

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Turn persistence mode on or off."""
        del deadline_seconds, look
        self._note(f"persistence {'on' if on else 'off'}")
        self._see(pci)
        self.gpus[pci] = replace(self.gpus[pci], persistence=on)

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Drain or undrain; a drain needs persistence mode off."""
        del deadline_seconds
        self._note("drain" if on else "undrain")
        self._see(pci)
        if on and self.gpus[pci].persistence:
            raise Refused("in use by another client")
        (self.drained.add if on else self.drained.discard)(pci)

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether the GPU is drained."""
        del deadline_seconds
        return pci in self.drained

    def reset(self, pci: str, deadline_seconds: float, *, key: str) -> None:
        """Reset a GPU that is free and shown, unless this key tells what became of it."""
        del deadline_seconds
        if (pci, key) not in self.receipts:
            try:
                self._reset(pci)
            except EdgeError as error:
                self.receipts[pci, key] = error
                raise
            self.receipts[pci, key] = None
        trouble = self.receipts[pci, key]
        if trouble is not None:
            raise trouble
        if pci in self.drained:
            raise Refused("nvidia-smi does not show it")

    def has_reset(self, pci: str, *, key: str) -> bool:
        """Return whether this key tells what became of a reset."""
        return (pci, key) in self.receipts

    def _reset(self, pci: str) -> None:
        self._note("reset")
        if pci in self.drained:
            raise Refused("no such GPU")
        if self.of(self.gpus[pci].minor or 0):
            raise Refused("in use by another client")
        self.gpus[pci] = replace(a_reading(pci, self.gpus[pci].minor or 0), persistence=False)
        self.done_resets += 1

    def of(self, minor: int) -> tuple[GpuHolder, ...]:
        """Return who holds the GPU; a service that does not run holds nothing."""
        return tuple(one for one in self.held.get(minor, []) if one.service is None or one.service in self.running)

    def is_running(self, unit: str) -> bool:
        """Return whether the unit runs."""
        return unit in self.running

    def stop(self, unit: str, deadline_seconds: float) -> None:
        """Stop a unit."""
        del deadline_seconds
        self._note(f"stop {unit}")
        self.running.discard(unit)

    def start(self, unit: str, deadline_seconds: float) -> None:
        """Start a unit."""
        del deadline_seconds
        self._note(f"start {unit}")
        self.running.add(unit)

    def _see(self, pci: str) -> None:
        if pci not in self.gpus:
            raise Refused(f"there is no GPU {pci}")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._trouble(call)

    def _trouble(self, call: str) -> None:
        if call in self.troubles:
            raise self.troubles[call]


def hung() -> Unreachable:
    """Return what a tool that does not answer comes to."""
    return Unreachable("nvidia-smi did not answer within 10 s; look at the driver")
