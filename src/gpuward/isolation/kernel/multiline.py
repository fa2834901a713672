"""Driver messages that come in several lines, joined. Each line alone is read elsewhere (nvrm, xid)."""

import re
from dataclasses import dataclass, replace

from gpuward.isolation.kernel.finding import Finding
from gpuward.isolation.kernel.nvrm import PCI, read_nvrm
from gpuward.model.gpu import PciAddress, read_pci
from gpuward.model.record import RecordKind

MOST_LINES = 8
"""A message has at most this many lines, so a later one is another message."""
END = "multiline-end"


@dataclass(frozen=True, slots=True)
class Row:
    """A message of several lines: how its first line looks, how a later one begins, and what it is when complete."""

    kind: RecordKind
    first: re.Pattern[str]
    later: re.Pattern[str]


_ROWS = (
    Row(
        RecordKind.FALLEN_OFF_BUS,
        re.compile(rf"The NVIDIA GPU {PCI}(?: \(PCI ID: [^)]*\))? *(?:installed in this system has)?\s*$", re.ASCII),
        re.compile(r"\(PCI ID:|installed in this system|has fallen|fallen off the bus", re.ASCII),
    ),
    Row(
        RecordKind.VERSION_MISMATCH,
        re.compile(r"API mismatch:", re.ASCII),
        re.compile(
            r"(?:has )?the version |has the|(?:this )?kernel module|make sure|module and|(?:driver )?components"
            r"|have the same|NVIDIA driver|the client",
            re.ASCII,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class _Open:
    row: Row
    line: int
    pci: PciAddress | None
    text: str
    complete: bool


class Multiline:
    """The message that is still open, if one is."""

    def __init__(self) -> None:
        self._open: _Open | None = None

    def forget(self) -> None:
        """Take no later line for a part of what came before (a new boot)."""
        self._open = None

    def take(self, line: int, message: str) -> Finding:
        """Return what the driver message on `line` is: a start, a continuation, an end, or a message of its own."""
        opened = self._open
        if opened is not None and line - opened.line < MOST_LINES and opened.row.later.match(message):
            return self._go_on(opened, message)
        return self._begin(line, message)

    def _begin(self, line: int, message: str) -> Finding:
        found = read_nvrm(message)
        for row in _ROWS:
            match = row.first.match(message)
            if match is not None:
                pci = read_pci(match["pci"]) if "pci" in row.first.groupindex else None
                if pci is None and "pci" in row.first.groupindex:
                    return found
                complete = found.kind is row.kind
                self._open = _Open(row, line, pci, message, complete)
                return found if complete else Finding(RecordKind.MULTILINE_START, pci=pci)
        return found

    def _go_on(self, opened: _Open, message: str) -> Finding:
        text = f"{opened.text.rstrip()} {message}"
        of = {"of": opened.line}
        found = read_nvrm(text)
        if opened.complete or found.kind is not opened.row.kind:
            self._open = replace(opened, text=text)
            return Finding(RecordKind.CONTINUATION, details=of)
        self._open = replace(opened, text=text, complete=True)
        return Finding(opened.row.kind, pci=opened.pci, part=END, details={**found.details, **of})
