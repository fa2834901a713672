"""How a trouble is said in a few words to people who look at a node, a pod or a job. Nothing is sent here."""

from collections.abc import Mapping
from datetime import UTC, datetime

from gpuward.model.case import Case
from gpuward.model.level import FaultClass

WHOSE: Mapping[FaultClass, str] = {
    FaultClass.HARDWARE: "hardware",
    FaultClass.DRIVER: "driver",
    FaultClass.APPLICATION: "application",
    FaultClass.UNKNOWN: "not known whose fault",
}
"""Whose fault it was, as it stands after a colon."""
_FAMILIES = {"sxid": "SXid", "xid": "Xid"}
"""The longer word first: the one ends with the other."""


def gpu_of(pci: str, indexes: Mapping[str, int | None]) -> str:
    """Return a GPU by its place and its address; the address alone where nobody knows the place."""
    index = indexes.get(pci)
    if not pci:
        return "the node"
    return f"GPU at {pci}" if index is None else f"GPU {index} ({pci})"


def trouble_of(case: Case) -> str:
    """Return what a case is about, with the code that people know it by."""
    family = next((said for kind, said in _FAMILIES.items() if case.kind.startswith(kind)), None)
    return case.title if family is None or case.code is None else f"{family} {case.code}, {case.title}"


def clock_of(moment: float) -> str:
    """Return a time of day in UTC, and that it is that."""
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S} UTC"


def listed(words: list[str], most: int) -> str:
    """Return the first so many words, and how many more there are."""
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
