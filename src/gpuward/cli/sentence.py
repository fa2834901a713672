"""A change of a fault as a person on call reads it. What changed is decided elsewhere."""

from datetime import tzinfo

from gpuward.agent.watch import Told
from gpuward.cli.times import as_shown
from gpuward.isolation.catalogue.book import Book
from gpuward.model.fault import ChangeKind, Fault
from gpuward.model.level import FaultClass

_WHOSE = {
    FaultClass.HARDWARE: "hardware, not your code",
    FaultClass.DRIVER: "the driver, not your code",
    FaultClass.APPLICATION: "the application, not the hardware",
    FaultClass.UNKNOWN: "not known whose fault",
}


def sentence_of(told: Told, book: Book, zone: tzinfo) -> list[str]:
    """Return the lines that tell a change: what happened to which GPU under whom and whose fault, what to do, why."""
    fault = told.change.fault
    verdict = fault.verdict
    head = f"{as_shown(fault.last.wall, zone)} {verdict.level!s:<6} {_opening(told)}{_what(told, book, zone)}"
    lines = [head]
    if verdict.action:
        lines.append(f"{'':20}do:    {verdict.action}")
    lines.append(f"{'':20}why:   {verdict.because}")
    return lines


def _opening(told: Told) -> str:
    was = told.change.was
    history = "before this watch: " if told.history else ""
    match told.change.kind:
        case ChangeKind.WORSENED:
            return f"{history}worse, was {was}: "
        case ChangeKind.EXPLAINED:
            return f"{history}explained: "
        case ChangeKind.CHANGED:
            return f"{history}changed: "
        case _:
            return history


def _what(told: Told, book: Book, zone: tzinfo) -> str:
    fault = told.change.fault
    begun = as_shown(fault.first.wall, zone)
    at = f" at {begun[11:]}" if fault.first.wall is not None else ""
    more = f", {fault.count} lines" if fault.count > 1 else ""
    whose = _WHOSE[fault.verdict.fault_class]
    return f"{_place(told)} {_phrase(fault, book)}{at}{_under(fault)}: {whose} ({_code(fault)}{more})"


def _place(told: Told) -> str:
    fault = told.change.fault
    if fault.kind.startswith("sxid"):
        return f"Switch {fault.pci or fault.details.get('nvswitch', '?')}"
    if fault.pci is None:
        return f"Node {fault.node}" if fault.node else "This node"
    return f"GPU {fault.pci}" if told.gpu is None else f"GPU {told.gpu.index} ({fault.pci})"


def _phrase(fault: Fault, book: Book) -> str:
    phrase = (fault.code is not None and book.phrase(f"xid:{fault.code}")) or book.phrase(fault.kind)
    return phrase or f"reported: {fault.title}"


def _under(fault: Fault) -> str:
    """Return the process and the pod that held the GPU, as far as they are known."""
    known = fault.details
    parts = []
    if fault.pid is not None:
        parts.append(f"pid {fault.pid}")
    if known.get("pod_uid"):
        parts.append(f"pod uid {known['pod_uid']}")
    if known.get("container_id"):
        parts.append(f"container {str(known['container_id'])[:12]}")
    if fault.mig is not None:
        parts.append(f"MIG {fault.mig.gi}/{'-' if fault.mig.ci is None else fault.mig.ci}")
    named = fault.process or known.get("command")
    if named is None and not parts:
        return ""
    inside = f" ({', '.join(parts)})" if parts else ""
    return f" under {named or 'a process'}{inside}"


def _code(fault: Fault) -> str:
    if fault.code is None:
        return fault.kind
    return f"SXid {fault.code}" if fault.kind.startswith("sxid") else f"Xid {fault.code}"
