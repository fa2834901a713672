"""The state of a pretend machine in its folder: read whole, and changed under a lock. What a change means is not here.

`state.json` is the truth; `state.txt` tells the NVML stub the same.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuward.sim.machines.state import MachineState, from_json, to_json, to_lines


def read(folder: Path) -> MachineState:
    """Return the state as it is; never half of a change."""
    return from_json((folder / "state.json").read_text("utf-8"))


def change(folder: Path, to: Callable[[MachineState], MachineState]) -> MachineState:
    """Replace the state by what `to` makes of it, with no other change in between; nothing changes when `to` raises."""
    with _locked(folder):
        changed = to(read(folder))
        write(folder, changed)
        return changed


def write(folder: Path, state: MachineState) -> None:
    """Write the state; only for a new machine, or under the lock."""
    _replace(folder / "state.json", to_json(state))
    _replace(folder / "state.txt", to_lines(state))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(f"{path.suffix}.new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)  # noqa: PTH105  Path.replace is the same call; this one says that it is atomic
