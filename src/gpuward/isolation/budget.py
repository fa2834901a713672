"""How many GPUs may be out of service at once. The brake counts how fast; this counts how many."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuward.model.counted import many
from gpuward.model.level import FaultClass


@dataclass(frozen=True, slots=True)
class Budget:
    """At most `gpus` out of service at once, and of a class of fault at most `by_class`; None and absent: no limit."""

    gpus: int | None = None
    by_class: Mapping[FaultClass, int] = field(default_factory=dict)

    def holds(self, fault_class: FaultClass, out: Iterable[FaultClass]) -> str:
        """Return why one more GPU must wait, empty when it need not. `out`: whose fault took each of the others out."""
        others = list(out)
        if self.gpus is not None and len(others) >= self.gpus:
            return f"{_out(len(others))}, and the budget is {self.gpus}"
        most = self.by_class.get(fault_class)
        alike = others.count(fault_class)
        if most is not None and alike >= most:
            return f"{_out(alike)} for {fault_class} faults, and the budget for these is {most}"
        return ""


def _out(gpus: int) -> str:
    return f"{many(gpus, 'GPU is', 'GPUs are')} out of service"
