"""One row of the table of moves: what it is made of. The rows themselves are in table and node_table."""

from dataclasses import dataclass
from enum import StrEnum

from gpuward.isolation.conditions import Condition
from gpuward.model.case import Case, CaseState, EffectKind


class Of(StrEnum):
    """Whose cases a row moves."""

    GPU = "GPU"
    """Those of one GPU."""
    NODE = "node"
    """Those of a whole node."""
    ANY = "any"

    def takes(self, case: Case) -> bool:
        """Return whether a row of this kind moves a case."""
        return self is Of.ANY or case.of_node is (self is Of.NODE)


@dataclass(frozen=True, slots=True)
class Move:
    """One row. `say` is the sentence of the move, with {brake}, {obstacle}, {work}, {why} and the like filled in."""

    state: CaseState
    condition: Condition
    to: CaseState
    effects: tuple[EffectKind, ...] = ()
    say: str = ""
    due: str = ""
    of: Of = Of.GPU

    @property
    def stays(self) -> bool:
        """Whether the case goes on in its state; parked again for another reason is a new beginning."""
        return self.to is self.state and not self.due
