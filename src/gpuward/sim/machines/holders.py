"""Who has the device files of a pretend machine open or mapped, from the real /proc. Nobody is stopped here."""

import os
from collections.abc import Iterator

_PREFIX = "nvidia"


def of(devices: str) -> dict[int, tuple[int, ...]]:
    """Return the pids by minor number of the device file they hold in that folder, ours left out."""
    root = os.path.realpath(devices)
    found: dict[int, list[int]] = {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):  # noqa: PTH208  no pathlib: start-up
        if pid != os.getpid():
            for minor in _held(pid, root):
                found.setdefault(minor, []).append(pid)
    return {minor: tuple(pids) for minor, pids in found.items()}


def _held(pid: int, root: str) -> set[int]:
    """Return the minors that a process holds; one that goes while it is looked at holds none."""
    try:
        return {minor for path in _paths(pid) if (minor := _minor(path, root)) is not None}
    except OSError:
        return set()


def _paths(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208  no pathlib: start-up
        try:
            yield os.readlink(f"{folder}/{name}")  # noqa: PTH115  no pathlib: start-up
        except OSError:
            continue
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123  no pathlib: start-up
        for line in maps:
            path = line.partition("/")
            yield (path[1] + path[2]).rstrip("\n")


def _minor(path: str, root: str) -> int | None:
    folder, _, name = path.rpartition("/")
    number = name.removeprefix(_PREFIX)
    return int(number) if folder == root and name.startswith(_PREFIX) and number.isdecimal() else None
