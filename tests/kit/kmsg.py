"""The real /dev/kmsg, made writable for a test and put back. Only harmless lines are written by it."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_SWITCH = Path("/proc/sys/kernel/printk_devkmsg")
_DEVICE = "/dev/kmsg"


def need_kmsg() -> None:
    """Skip the test unless it may write to the kernel log here: as root, on a machine without an NVIDIA driver."""
    if os.geteuid() != 0 or not os.access(_DEVICE, os.W_OK) or not os.access(_SWITCH, os.W_OK):
        pytest.skip("writing to /dev/kmsg needs root")
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has an NVIDIA driver, its kernel log is left alone")


@contextlib.contextmanager
def kmsg_writer() -> Iterator[Callable[[bytes], None]]:
    """Give a function that writes one record to the kernel log; the limit on writers is lifted meanwhile."""
    need_kmsg()
    handle = os.open(_DEVICE, os.O_WRONLY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_EX)  # tests side by side would put back each other's switch
    before = _SWITCH.read_text("ascii")
    _SWITCH.write_text("on\n", "ascii")  # the kernel wants the newline

    def write(message: bytes) -> None:
        os.write(handle, message + b"\n")

    try:
        yield write
    finally:
        _SWITCH.write_text(before, "ascii")
        os.close(handle)
