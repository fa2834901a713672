"""Records and moments for tests, with every field filled in."""

from dataclasses import replace
from typing import Any

from gpuward.model.record import Record, RecordKind
from gpuward.model.signal import Moment

START = 1_790_000_000.0
"""A Monday in September 2026, in seconds since 1970 UTC."""


def at(seconds: float) -> Moment:
    """Return the moment `seconds` after START, two minutes of uptime later."""
    return Moment(wall=START + seconds, uptime=120.0 + seconds)


def a_record(**changes: Any) -> Record:
    """Return an Xid 31 of GPU 0000:3b:00 as the kernel logs it, with `changes` made."""
    record = Record(
        source="kern.log",
        line=1,
        cursor="f0",
        moment=at(0),
        boot="b1",
        node="gpu-1",
        facility="kern",
        frame="syslog",
        kind=RecordKind.XID,
        code=31,
        pci="0000:3b:00",
        function=None,
        certain=True,
        pid=4321,
        process="train",
        mig=None,
        severity=None,
        link=None,
        part=None,
        details={},
        text="NVRM: Xid (PCI:0000:3b:00): 31, pid=4321, name=train, Ch 00000008",
    )
    return replace(record, **changes)
