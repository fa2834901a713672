"""A GPU that no longer answers, as its fault tells: no reset can reach it."""

from gpuward.model.case import Case

DUE = "The GPU does not answer: reboot the node, power cycle it if the GPU does not come back."
_CODE = 79
_KINDS = frozenset({"fallen_off_bus", "gpu_missing"})


def is_lost(code: int | None, kind: str) -> bool:
    """Return whether a fault says that the GPU no longer answers."""
    return code == _CODE or kind in _KINDS


def obstacle_in_a_drill(case: Case) -> str:
    """Return why the GPU of a drill could not be reset if its fault were real; empty when it could.

    Empty for a real case too: its GPU is looked at.
    """
    return DUE if case.drill is not None and is_lost(case.code, case.kind) else ""
