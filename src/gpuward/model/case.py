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


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing asked of the world, and its outcome. `number` counts from 1 in its case; times are Unix seconds."""

    number: int
    kind: EffectKind
    asked_at: float
    outcome: Outcome = Outcome.ASKED
    ended_at: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of ours on the machine: the drain; services stopped or persistence mode off."""

    drained: bool
    altered: bool

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return self.drained or self.altered


@dataclass(frozen=True, slots=True)
class Case:
    """A case as it is saved. `gpu` is the canonical PCI address, by which a drained GPU is still known."""

    id: str
    node: str
    gpu: str
    gpu_uuid: str | None
    fault: str
    """Id of the fault that opened it."""
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

    def pending(self) -> Effect | None:
        """Return the first effect whose outcome is not known yet."""
        return next((effect for effect in self.effects if effect.outcome is Outcome.ASKED), None)

    @property
    def marks(self) -> "Marks":
        """What of ours may stand on the machine. An undo counts when it is done, a mark as soon as it is asked for."""
        drained = altered = False
        for effect in self.effects:
            undone = effect.outcome is Outcome.DONE
            if effect.kind in {EffectKind.DRAIN, EffectKind.PAUSE} and effect.outcome is not Outcome.REFUSED:
                altered = True
                drained = drained or effect.kind is EffectKind.DRAIN
            elif effect.kind is EffectKind.UNDRAIN and undone:
                drained = False
            elif effect.kind is EffectKind.RESTORE and undone:
                # Persistence mode stays off as long as the GPU is drained.
                altered = drained
        return Marks(drained=drained, altered=altered)

    def newest(self, *kinds: EffectKind) -> Effect | None:
        """Return the newest effect of these kinds that was asked for since the case entered its state."""
        return next((effect for effect in reversed(self.effects[self.entered_with :]) if effect.kind in kinds), None)

    def resets_since(self, moment: float) -> int:
        """Return how many resets were asked for at `moment` or later."""
        return sum(effect.kind is EffectKind.RESET and effect.asked_at >= moment for effect in self.effects)
