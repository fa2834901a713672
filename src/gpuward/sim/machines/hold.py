"""A real process that holds a device file of a pretend machine. Whether it may hold it is decided elsewhere."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PROGRAM = """
import ctypes, os, sys
path, name, mapped_only = sys.argv[1:]
with open("/proc/self/comm", "w") as comm:
    comm.write(name)
device = os.open(path, os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mmap(None, 4096, 3, 1, device, 0)
if mapped_only == "yes":
    os.close(device)
print("held", flush=True)
sys.stdin.read()
"""
"""It maps by the C call, for the mmap of Python keeps the file open; it ends with us, when our pipe to it closes."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A process that holds a GPU until it is stopped."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """Return its pid."""
        return self.process.pid

    def stop(self) -> None:
        """End it, and return when it is gone; one that is gone is left alone."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(device: Path, *, name: str, mapped_only: bool) -> Hold:
    """Start a process of that name which has the file open and mapped, or only mapped, and return when it has."""
    arguments = [sys.executable, "-S", "-c", _PROGRAM, str(device), name, "yes" if mapped_only else "no"]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  our own words
    said = process.stdout
    if said:
        said.readline()
        said.close()
    return Hold(process)
