"""One incident of one GPU and our work on it: its state, what was done, what people ordered. Moves are in the table."""

from dataclasses import dataclass
from enum import StrEnum

from gpuward.model.level import FaultClass, Level


class Mode(StrEnum):
    """How far gpuward may go by itself."""

    OBSERVE = "observe"
    """Says what it would do."""
    ISOLATE = "isolate"
    """Takes GPUs out of service."""
    REPAIR = "repair"
    """Also resets them and returns them when they are proven healthy."""


class CaseState(StrEnum):
    """Where a case is. The order is the way of a case that goes well."""

    SUSPECT = "suspect"
    FENCED = "fenced"
    SAVING = "saving"
    EVACUATING = "evacuating"
    VACATED = "vacated"
    REPAIRING = "repairing"
    VERIFYING = "verifying"
    PROBATION = "probation"
    CLOSED = "closed"
    PARKED = "parked"
    """A person is needed; what is due is said."""
    WITHDRAWN = "withdrawn"
    """It was nothing, and leaves no mark."""


ENDED = frozenset({CaseState.CLOSED, CaseState.WITHDRAWN})


class EffectKind(StrEnum):
    """What a case can have done to the world."""

    EVIDENCE = "evidence"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    PAUSE = "pause"
    """Known services that hold the GPU are stopped."""
    RESTORE = "restore"
    """What was paused is started again, and persistence mode is as it was."""
    RESET = "reset"
    VERIFY = "verify"
    TAINT = "taint"
    """The node of the GPU takes no new work; a node has one taint of ours, whatever the number of its cases."""
    UNTAINT = "untaint"
    """This case needs the taint no more; the last of a node takes it away."""
    PROMOTE = "promote"
    """A standby node of the same shape is released for work."""
    NOTICE = "notice"
    """The jobs that asked for it are told to save their state."""
    EVICT = "evict"
    """The pods that the case lists are asked to end."""
    CLEAR = "clear"
    """The pods of a node that is known to be off are deleted, for no kubelet is there to end them."""
    REBOOT = "reboot"
    """The node of the GPU is rebooted."""


ON_A_SERVER = frozenset(
    {
        *(EffectKind.EVIDENCE, EffectKind.DRAIN, EffectKind.UNDRAIN, EffectKind.PAUSE, EffectKind.RESTORE),
        *(EffectKind.RESET, EffectKind.VERIFY),
    }
)
"""What can be done on a server alone."""
ON_A_CLUSTER = frozenset(EffectKind)
"""What can be done where there is a cluster around the server."""
TO_A_NODE = (ON_A_CLUSTER - ON_A_SERVER - {EffectKind.REBOOT}) | {EffectKind.VERIFY}
"""What can be done for a case of the whole node: the agent that would do the rest does not answer."""


class Outcome(StrEnum):
    """What became of an effect; all but ASKED are final."""

    ASKED = "asked"
    DONE = "done"
    REFUSED = "refused"
    """The other side said no; asking again changes nothing."""
    FAILED = "failed"


class Order(StrEnum):
    """A person's word on a case."""

    RELEASE = "release"
    """Undo every mark and close the case."""
    RETRY = "retry"
    """Try the repair again."""
    APPROVE = "approve"
    """Go ahead, where nothing is done without a person's word."""
    OFF = "off"
    """The node is off: nothing runs there any more, and its pods may be deleted."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing asked of the world, and its outcome. `number` counts from 1 in its case; times are Unix seconds."""

    number: int
    kind: EffectKind
    asked_at: float
    outcome: Outcome = Outcome.ASKED
    ended_at: float | None = None
    why: str = ""
    boot: str = ""
    """The boot on which its node was ordered to do it; empty where nobody ordered it, or knows."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of ours: the drain; services stopped or persistence mode off; the taint."""

    drained: bool
    altered: bool
    tainted: bool = False
    """The node is tainted for this case."""

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return self.drained or self.altered or self.tainted


_NO_MARKS = Marks(drained=False, altered=False)
_ALTERING = frozenset({EffectKind.DRAIN, EffectKind.PAUSE})
_MARKING = _ALTERING | {
    *(EffectKind.UNDRAIN, EffectKind.RESTORE, EffectKind.REBOOT),
    *(EffectKind.TAINT, EffectKind.UNTAINT),
}
"""What puts a mark on the machine or takes one away."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case as it is saved. `gpu` is the canonical PCI address, by which a drained GPU is still known.

    Without one the case is the whole node's.
    """

    id: str
    node: str
    gpu: str
    gpu_uuid: str | None
    fault: str
    """Id of the fault that opened it; the loss of a node has one too, and no object."""
    code: int | None
    kind: str
    title: str
    level: Level
    fault_class: FaultClass
    parks: bool
    """The verdict asks for diagnostics: after the repair a person decides, the GPU does not return by itself."""
    opened_at: float
    state: CaseState = CaseState.SUSPECT
    since: float = 0.0
    effects: tuple[Effect, ...] = ()
    entered_with: int = 0
    """How many effects there were when it entered its state, or a person gave an order."""
    order: Order | None = None
    because: str = ""
    due: str = ""
    """What waits for a person, in a sentence; empty unless parked."""
    forced: bool = False
    """A person wants the reset although this model and driver were never qualified."""
    approved: bool = False
    """A person said that it may go ahead."""
    victims: tuple[str, ...] = ()
    """The pods that are evicted for it, `namespace/name`, listed before the first of them is."""
    off: bool = False
    """A person said that the node is off, and it has not answered since."""
    boot: str = ""
    """The boot of the node that a reboot is to end; empty where none was asked for."""
    drill: Mode | None = None
    """The mode that is rehearsed, when this is a drill: nothing is done to the machine. None for a real case."""

    @property
    def of_node(self) -> bool:
        """Whether the case is the whole node's."""
        return not self.gpu

    @property
    def ended(self) -> bool:
        """Whether the work on it is over."""
        return self.state in ENDED

    def pending(self) -> Effect | None:
        """Return the first effect whose outcome is not known yet."""
        return next((effect for effect in self.effects if effect.outcome is Outcome.ASKED), None)

    @property
    def marks(self) -> "Marks":
        """What of ours may stand on the machine. An undo counts when it is done, a mark as soon as it is asked for."""
        drained = altered = tainted = False
        if not self.effects:
            return _NO_MARKS
        for effect in self.effects:
            if effect.kind not in _MARKING:
                continue
            undone = effect.outcome is Outcome.DONE
            if effect.kind in _ALTERING and effect.outcome is not Outcome.REFUSED:
                altered = True
                drained = drained or effect.kind is EffectKind.DRAIN
            elif effect.kind is EffectKind.UNDRAIN and undone:
                drained = False
            elif effect.kind is EffectKind.RESTORE and undone:
                # Persistence mode stays off as long as the GPU is drained.
                altered = drained
            elif effect.kind is EffectKind.REBOOT and undone:
                # No drain outlives a boot, and services are started by it.
                drained = altered = False
            elif effect.kind is EffectKind.TAINT and effect.outcome is not Outcome.REFUSED:
                tainted = True
            elif effect.kind is EffectKind.UNTAINT and undone:
                tainted = False
        return Marks(drained=drained, altered=altered, tainted=tainted)

    def newest(self, *kinds: EffectKind) -> Effect | None:
        """Return the newest effect of these kinds that was asked for since the case entered its state."""
        return next((effect for effect in reversed(self.effects[self.entered_with :]) if effect.kind in kinds), None)

    def resets_since(self, moment: float) -> int:
        """Return how many resets were asked for at `moment` or later; one that was rehearsed is none."""
        return (
            0
            if self.drill
            else sum(effect.kind is EffectKind.RESET and effect.asked_at >= moment for effect in self.effects)
        )
