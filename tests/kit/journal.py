"""Journal files made from invented kernel lines by systemd's own systemd-journal-remote. Nothing is read back here."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BOOT = "5f1d0c9ab3e84d16a7720c44e9d81f3a"
_FIRST_REALTIME_US = 1_760_000_000_000_000
_PROGRAMS = ("/usr/lib/systemd/systemd-journal-remote", "/lib/systemd/systemd-journal-remote")


@dataclass(frozen=True, slots=True)
class Entry:
    """One journal entry of the kernel; `message` may be bytes that are not text."""

    message: str | bytes
    seconds: float
    boot: str = BOOT
    hostname: str = "gpu-node-a"
    transport: str = "kernel"
    facility: int = 0


def need_journal() -> str:
    """Return the path of systemd-journal-remote; skip the test where there is none, and fail it in CI."""
    found = next((program for program in _PROGRAMS if Path(program).exists()), None)
    if found is not None and shutil.which("journalctl") is not None:
        return found
    why = "systemd-journal-remote or journalctl is not installed (apt-get install systemd-journal-remote)"
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def export_text(entries: list[Entry]) -> bytes:
    """Return `entries` in the journal's export format."""
    return b"".join(_exported(entry) for entry in entries)


def make_journal(file: Path, entries: list[Entry]) -> Path:
    """Write a journal file, whose name must end with `.journal`, or add to the one that is there."""
    program = need_journal()
    text = file.with_suffix(".export")
    text.write_bytes(export_text(entries))
    subprocess.run([program, f"--output={file}", str(text)], check=True, capture_output=True, timeout=60)
    return file


def _exported(entry: Entry) -> bytes:
    microseconds = round(entry.seconds * 1e6)
    fields = {
        "__REALTIME_TIMESTAMP": str(_FIRST_REALTIME_US + microseconds),
        "__MONOTONIC_TIMESTAMP": str(microseconds),
        "_BOOT_ID": entry.boot,
        "_TRANSPORT": entry.transport,
        "_HOSTNAME": entry.hostname,
        "SYSLOG_FACILITY": str(entry.facility),
        "SYSLOG_IDENTIFIER": "kernel",
        "PRIORITY": "3",
    }
    lines = "".join(f"{name}={value}\n" for name, value in fields.items()).encode()
    return lines + _message(entry.message) + b"\n"


def _message(message: str | bytes) -> bytes:
    if isinstance(message, str) and "\n" not in message:
        return f"MESSAGE={message}\n".encode()
    content = message.encode() if isinstance(message, str) else message
    return b"MESSAGE\n" + len(content).to_bytes(8, "little") + content + b"\n"
