"""Writes kernel lines in every frame and Xid shape, the opposite of reading them. It never asks the code under test."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Written:
    """A rendered line and what a reader must get back; None is what the frame does not carry."""

    text: str
    frame: str
    wall: float | None = None
    uptime: float | None = None
    node: str | None = None
    facility: str | None = None


@dataclass(frozen=True, slots=True)
class XidShape:
    """The parts of an Xid line."""

    domain: int
    bus: int
    device: int
    code: int
    pid: int | None
    name: str | None
    message: str
    gi: int | None = None
    ci: int | None = None

    def pci(self) -> str:
        """Return the canonical address."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}"

    def body(self) -> str:
        """Return the line as the driver writes it."""
        where = f"PCI:{self.pci()}"
        where += "" if self.gi is None else f" GPU-I:{self.gi:02d}"
        where += "" if self.ci is None else f" GPU-CI:{self.ci:02d}"
        parts = [str(self.code)]
        parts += [] if self.pid is None else [f"pid={self.pid}"]
        parts += [] if self.name is None else [f"name={self.name}"]
        parts += [self.message] if self.message else []
        return f"NVRM: Xid ({where}): " + ", ".join(parts)


def _utc(wall: float) -> datetime:
    return datetime.fromtimestamp(wall, UTC)


def _month_day(wall: float) -> str:
    when = _utc(wall)
    return f"{MONTHS[when.month - 1]} {when.day:2d} {when:%H:%M:%S}"


def uptime(body: str, *, microseconds: int, thread: bool = False) -> Written:
    """Plain dmesg."""
    stamp = f"[{microseconds // 10**6:5d}.{microseconds % 10**6:06d}]"
    return Written(f"{stamp} {'[   T42] ' if thread else ''}{body}", "uptime", uptime=microseconds / 1e6)


def dmesg_t(body: str, *, second: int) -> Written:
    """Dmesg -T, local time taken as UTC."""
    when = _utc(second)
    stamp = f"{DAYS[when.weekday()]} {_month_day(second)} {when.year}"
    return Written(f"[{stamp}] {body}", "dmesg-T", wall=float(second))


def dmesg_iso(body: str, *, microseconds: int) -> Written:
    """Dmesg --time-format iso."""
    when = _utc(microseconds // 10**6)
    text = f"{when:%Y-%m-%dT%H:%M:%S},{microseconds % 10**6:06d}+00:00 {body}"
    return Written(text, "dmesg-iso", wall=microseconds / 1e6)


def dmesg_decode(body: str, *, facility: str, microseconds: int) -> Written:
    """Dmesg -x with plain stamps."""
    inner = uptime(body, microseconds=microseconds)
    return Written(f"{facility:6}:warn  : {inner.text}", "dmesg-decode", uptime=inner.uptime, facility=facility)


def kmsg(body: str, *, priority: int, facility: str, microseconds: int) -> Written:
    """One record of /dev/kmsg, which escapes what is not printable ASCII."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02x}" for byte in body.encode()
    )
    return Written(
        f"{priority},77,{microseconds},-,caller=T42;{escaped}", "kmsg", uptime=microseconds / 1e6, facility=facility
    )


def pstore(body: str, *, priority: int, facility: str, microseconds: int) -> Written:
    """Pstore, or dmesg -r."""
    inner = uptime(body, microseconds=microseconds)
    return Written(f"<{priority}>{inner.text}", "pstore", uptime=inner.uptime, facility=facility)


def syslog(body: str, *, node: str, second: int, microseconds: int | None = None) -> Written:
    """RFC 3164 in a file; with `microseconds`, the kernel's own stamp as well."""
    inner = None if microseconds is None else uptime(body, microseconds=microseconds)
    text = f"{_month_day(second)} {node} kernel: {body if inner is None else inner.text}"
    return Written(text, "syslog", wall=float(second), uptime=None if inner is None else inner.uptime, node=node)


def syslog5424(body: str, *, node: str, priority: int, facility: str, microseconds: int) -> Written:
    """RFC 5424 with a structured element."""
    when = _utc(microseconds // 10**6)
    stamp = f"{when:%Y-%m-%dT%H:%M:%S}.{microseconds % 10**6:06d}Z"
    text = f'<{priority}>1 {stamp} {node} kernel - - [meta sequenceId="7" note="a \\] b"] {body}'
    return Written(text, "syslog5424", wall=microseconds / 1e6, node=node, facility=facility)


def short_iso(body: str, *, node: str, second: int) -> Written:
    """Journalctl -o short-iso."""
    text = f"{_utc(second):%Y-%m-%dT%H:%M:%S}+0000 {node} kernel: {body}"
    return Written(text, "journal-short-iso", wall=float(second), node=node)


def short_precise(body: str, *, node: str, microseconds: int) -> Written:
    """Journalctl -o short-precise."""
    text = f"{_month_day(microseconds // 10**6)}.{microseconds % 10**6:06d} {node} kernel: {body}"
    return Written(text, "journal-short-precise", wall=microseconds / 1e6, node=node)


def talos(body: str, *, node: str, facility: str, severity: str, microseconds: int) -> Written:
    """Talosctl dmesg, which pads the severity to seven characters."""
    when = _utc(microseconds // 10**6)
    stamp = f"{when:%Y-%m-%dT%H:%M:%S}.{microseconds % 10**6:06d}000Z"
    text = f"{node}: {facility}: {severity:>7}: [{stamp}]: {body}"
    return Written(text, "talos", wall=microseconds / 1e6, node=node, facility=facility)


def journal_json(body: str, *, node: str, microseconds: int, as_bytes: bool = False) -> Written:
    """One entry of journalctl -o json, received one second late; the kernel wrote it 500 s after boot."""
    entry = {
        "__CURSOR": "s=1;i=2;b=3",
        "__REALTIME_TIMESTAMP": str(microseconds + 1_000_000),
        "__MONOTONIC_TIMESTAMP": "501000000",
        "_SOURCE_MONOTONIC_TIMESTAMP": "500000000",
        "_BOOT_ID": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "_HOSTNAME": node,
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": list(body.encode()) if as_bytes else body,
    }
    return Written(json.dumps(entry), "journal-json", wall=microseconds / 1e6, uptime=500.0, node=node, facility="kern")
