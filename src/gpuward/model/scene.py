"""What a case is judged by at one moment: its GPU, its fault, the rest of the node. How it was seen is not here."""

from dataclasses import dataclass

from gpuward.model.case import Mode
from gpuward.model.level import Level


@dataclass(frozen=True, slots=True)
class GpuSight:
    """One GPU as seen now. None is unknown, and unknown is not healthy: nothing is done on the strength of it."""

    present: bool | None
    """The driver, or for a GPU that we drained the PCI bus, still has it."""
    lost: bool
    """It no longer answers."""
    work: tuple[str, ...] | None
    """Processes that hold it and are neither known services nor ourselves, in words."""
    display: bool
    """It drives a display."""


@dataclass(frozen=True, slots=True)
class FaultSight:
    """The fault that opened the case as it stands now."""

    level: Level
    parks: bool
    cleared: bool
    """A line took it back, or its verdict fell to ignore before anything was done."""
    over: bool
    """Its lines have stopped for longer than its identity lasts."""
    idle_reason: str
    """Why it must not act, in a sentence: not the kernel's own record, or older than this agent and not confirmed."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the table looks at for one case."""

    now: float
    mode: Mode
    gpu: GpuSight
    fault: FaultSight
    brake: str
    """Why the brake holds new isolation; empty when it does not."""
    budget: str
    """Why the budget holds it; empty when it does not."""
    obstacle: str
    """Why this GPU cannot or must not be reset, in a sentence that says what is due; empty when it can."""
    relapse: str
    """A fault at P0 or P1 that came on this GPU since the repair began, in words; empty when there is none."""
    probation_seconds: float
