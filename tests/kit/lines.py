"""Kernel lines for tests and what a fresh reader makes of them. Rendering of frames is not here (render)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gpuward.isolation.kernel.reader import Context, KernelReader
from gpuward.model.record import Record
from gpuward.model.signal import Signal

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp()
XID = "NVRM: Xid (PCI:0000:3b:00): 31, pid=4321, name=train, Ch 00000008"


def a_reader(**changes: Any) -> KernelReader:
    """Return a reader of a UTC source at NOW, with `changes` in its context."""
    return KernelReader(Context(**{"source": "kern.log", "timezone": UTC, "now": NOW, **changes}))


def a_signal(text: str, line: int = 1) -> Signal:
    """Return `text` as line `line` of the source."""
    return Signal(source="kern.log", line=line, cursor=f"f{line}", text=text)


def read_all(lines: Sequence[str], **changes: Any) -> list[Record | None]:
    """Return what one reader makes of `lines`."""
    reader = a_reader(**changes)
    return [reader.read(a_signal(text, number)) for number, text in enumerate(lines, start=1)]


def read_one(text: str, **changes: Any) -> Record:
    """Return the record of a single line; the test fails when there is none."""
    record = a_reader(**changes).read(a_signal(text))
    assert record is not None, f"no record of {text!r}"
    return record
