"""The real kernel log for measurements: whether it may be written to here, and how. What is written is not here."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DEVICE = "/dev/kmsg"
_LIMIT = Path("/proc/sys/kernel/printk_devkmsg")


def why_no_kmsg() -> str | None:
    """Return why nothing may be written to the kernel log here, None where it may."""
    if os.geteuid() != 0:
        return "only root may write to /dev/kmsg"
    if Path("/proc/driver/nvidia").exists():
        return "an NVIDIA driver is loaded here, and other agents would act on the lines"
    if not os.access(DEVICE, os.R_OK | os.W_OK) or not os.access(_LIMIT, os.W_OK):
        return "/dev/kmsg or its limit on writers is not open to us"
    return None


@contextmanager
def kmsg_writer() -> Iterator[Callable[[str], None]]:
    """Give a function that writes one record to the kernel log; the limit on writers is lifted meanwhile."""
    handle = os.open(DEVICE, os.O_WRONLY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX)  # the tests take it too: two of us would put back each other's limit
    before = _LIMIT.read_text(encoding="ascii").strip()
    _LIMIT.write_text("on\n", encoding="ascii")
    try:
        yield lambda text: _write(handle, text)
    finally:
        _LIMIT.write_text(f"{before}\n", encoding="ascii")
        os.close(handle)


def _write(handle: int, text: str) -> None:
    os.write(handle, f"<3>{text}\n".encode())
