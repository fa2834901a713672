"""What a case is judged by at one moment: its GPU, its fault, the rest of the node. How it was seen is not here."""

from dataclasses import dataclass

from gpuward.model.case import ON_A_SERVER, EffectKind, Mode
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


NO_GPU = GpuSight(present=None, lost=False, work=(), display=False)
"""What stands for the GPU of a case that is the whole node's."""


@dataclass(frozen=True, slots=True)
class NodeSight:
    """The node as the cluster sees it now; of interest to the case of a whole node."""

    answers: bool = True
    """It is Ready."""
    lost: bool = False
    """It has not been for as long as it takes to be a loss."""
    back: bool = False
    """It has been for a while."""
    off: str = ""
    """By what it is known to be off, in a sentence; empty: it may still run."""
    gone: bool = False
    """The cluster has no such node any more."""
    boot: str = ""
    """Its boot, as its kubelet tells it; empty: it does not."""
    told: str = ""
    """Its boot, as its agent tells it; empty: nobody knows."""


ANSWERS = NodeSight()
"""A node of which nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class RebootSight:
    """Whether the node of a GPU may be rebooted, where a reset does not help."""

    cures: bool = False
    """What stands in the way of a reset is such that a reboot may remove it."""
    why_not: str = "there is no cluster that could"
    """Why it must not be rebooted at all; empty when it may."""
    waits: str = ""
    """Who or what must leave it before; empty when nobody is hit."""


NO_REBOOT = RebootSight()


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
    reach: frozenset[EffectKind] = ON_A_SERVER
    """What can be done here at all; what a row asks for and cannot be done is left out."""
    node: NodeSight = ANSWERS
    reboot: RebootSight = NO_REBOOT
    victims: tuple[str, ...] | None = ()
    """Pods of the node that have to go for this case and are still there; None: nobody could look."""
    returned: tuple[str, ...] = ()
    """Those of them that the case lists, and whose eviction it never asked for: another pod has the name again."""
    keepers: tuple[str, ...] | None = ()
    """Pods that have the GPU of a fault that lets its work end, and may go on with it; None: nobody could look."""
    saving: str = ""
    """Who is still saving its state, in words; empty when nobody is, or their time is over."""
    saved: str = "No job on this server asked to be told."
    """What became of those that were told."""
    standby: str = ""
    """Why no standby node could be released, in a sentence; empty when one could, or none is needed."""
    unapproved: bool = False
    """Nothing is done without a person's word, and it was not given."""
    job_fault: str = ""
    """Why the fault is the job's own that runs there, in words; empty when it is not known to be."""
    spared: str = ""
    """Who would have to go, or be waited for, if this were no drill, in words; in `gpu` they count as gone."""
    overtaken: str = ""
    """A real fault that came on the GPU while this is a drill, in words; empty when there is none."""
