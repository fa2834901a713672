"""What stands before a message, once it is taken off. How it is recognised is not here (frames, journal)."""

from typing import NamedTuple

from gpuward.isolation.kernel.stamps import Stamp


class Frame(NamedTuple):
    """A line taken apart: the name of its frame, what that carried, and the body.

    `stamp` is the time as printed, to be read by `stamp_reader`; `wall` and `boot_time` are seconds since 1970 UTC of
    frames that carry numbers. `boot` is the boot that the frame itself names. `program` is None where none is printed.
    A tuple, not a dataclass: one is built for every line, and a frozen dataclass takes four times as long.
    """

    name: str
    body: str
    stamp: str = ""
    stamp_reader: Stamp | None = None
    wall: float | None = None
    uptime: float | None = None
    boot_time: float | None = None
    boot: str | None = None
    facility: str | None = None
    program: str | None = None
    node: str | None = None
