"""A fault that is made up: judged by the same rows as a real one, and known as a drill for as long as it is told of."""

from dataclasses import dataclass
from datetime import UTC

from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.isolation.merge import Merger
from gpuward.model.case import Mode
from gpuward.model.fault import Fault
from gpuward.model.signal import Signal

BOOT = "drill"
"""Stands where a real fault has its boot, so that its id and its case's tell what it is."""


@dataclass(frozen=True, slots=True)
class Drill:
    """A made-up fault, and the mode that is rehearsed on it."""

    fault: Fault
    mode: Mode


def drilled(code: int, pci: str, merger: Merger, *, node: str, at: float) -> Fault | None:
    """Return the fault that the driver's line of an Xid on this GPU would be, None when no row takes it for one.

    `merger` must be new: what is made up must neither explain nor repeat what is real. A verdict that would wait for
    other lines is given as if none came.
    """
    context = Context(source="drill", timezone=UTC, now=at, boot_time=at, boot=BOOT, node=node, gpus=frozenset({pci}))
    text = f"NVRM: Xid (PCI:{pci}): {code}, gpuward drill"
    cursor = f"xid-{code}-{pci.replace(':', '-')}-{int(at * 1000)}"
    record = KernelReader(context).read(Signal(source="drill", line=1, cursor=cursor, text=text))
    if record is None:
        return None
    changes = [*merger.step(record), *merger.finish()]
    return changes[-1].fault if changes else None
