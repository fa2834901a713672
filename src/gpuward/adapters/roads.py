"""The roads to a GPU's state in one Driver: NVML, else nvidia-smi, else the PCI bus. How each one reads is its own."""

from typing import Protocol

from gpuward.adapters.child import Hung
from gpuward.model.node import NodeReading
from gpuward.ports import Clock, Driver, EdgeError

_RETRY_SECONDS = 60.0
"""A road that hung is not tried again before: a reading must not wait for it every time."""
_SHARES = (0.5, 0.9, 1.0)
"""What part of the time that is left each road may take, so that there is some for the next."""


class Road(Protocol):
    """One way to read all GPUs of this machine."""

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return all GPUs that it shows."""


class ClosableRoad(Road, Protocol):
    """A road that keeps something between readings."""

    def close(self) -> None:
        """Give it back."""


class Roads:
    """Implements Driver: reads by the first road that answers, and the reading says which; acts by nvidia-smi alone."""

    def __init__(self, nvml: ClosableRoad, smi: Driver, sysfs: Road, *, clock: Clock) -> None:
        self._nvml = nvml
        self._smi = smi
        self._sysfs = sysfs
        self._clock = clock
        self._hung_at: dict[int, float] = {}

    def read(self, deadline_seconds: float) -> NodeReading:
        """Return the reading of the first road that gives one; raises what the last one said when none does."""
        end = self._clock.monotonic() + deadline_seconds
        roads: tuple[Road, ...] = (self._nvml, self._smi, self._sysfs)
        trouble: EdgeError | None = None
        for place, (road, share) in enumerate(zip(roads, _SHARES, strict=True)):
            if road is not self._sysfs and self._hung_lately(place):
                continue
            rest = max(0.0, end - self._clock.monotonic())
            try:
                return road.read(rest * share)
            except Hung as error:
                self._hung_at[place] = self._clock.monotonic()
                trouble = error
            except EdgeError as error:
                trouble = error
        raise trouble or AssertionError("the last road is always tried")

    def describe(self, pci: str, deadline_seconds: float) -> str:
        """Return what nvidia-smi tells of one GPU."""
        return self._smi.describe(pci, deadline_seconds)

    def set_persistence(self, pci: str, *, on: bool, deadline_seconds: float, look: bool = True) -> None:
        """Turn persistence mode on or off by nvidia-smi."""
        self._smi.set_persistence(pci, on=on, deadline_seconds=deadline_seconds, look=look)

    def set_drained(self, pci: str, *, on: bool, deadline_seconds: float) -> None:
        """Drain or undrain by nvidia-smi."""
        self._smi.set_drained(pci, on=on, deadline_seconds=deadline_seconds)

    def is_drained(self, pci: str, deadline_seconds: float) -> bool:
        """Return whether nvidia-smi says that the GPU is drained."""
        return self._smi.is_drained(pci, deadline_seconds)

    def reset(self, pci: str, deadline_seconds: float, *, key: str) -> None:
        """Reset by nvidia-smi, with our own child off the GPU: what holds it prevents a reset."""
        self._nvml.close()
        self._smi.reset(pci, deadline_seconds, key=key)

    def has_reset(self, pci: str, *, key: str) -> bool:
        """Return whether nvidia-smi did this reset already, or is at it."""
        return self._smi.has_reset(pci, key=key)

    def _hung_lately(self, place: int) -> bool:
        hung = self._hung_at.get(place)
        return hung is not None and self._clock.monotonic() - hung < _RETRY_SECONDS
