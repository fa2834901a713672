"""The state of a pretend machine in its folder: read whole, and changed under a lock. What a change means is not here.

`state.json` is the truth; `state.txt` tells the NVML stub the same. Paths are words and not pathlib's, for pathlib
would be a fifth of the time in which the stub nvidia-smi starts.
"""

import fcntl
import os
from collections.abc import Callable

from gpuward.sim.machines.state import MachineState, from_json, to_json, to_lines


def read(folder: str) -> MachineState:
    """Return the state as it is; never half of a change."""
    with open(f"{folder}/state.json", encoding="utf-8") as file:  # noqa: PTH123  see above
        return from_json(file.read())


def change(folder: str, to: Callable[[MachineState], MachineState]) -> MachineState:
    """Replace the state by what `to` makes of it, with no other change in between; nothing changes when `to` raises."""
    with open(f"{folder}/lock", "a", encoding="utf-8") as lock:  # noqa: PTH123  see above
        fcntl.flock(lock, fcntl.LOCK_EX)
        now = read(folder)
        then = to(now)
        if then != now:
            write(folder, then)
        return then


def write(folder: str, state: MachineState) -> None:
    """Write the state; only for a new machine, or under the lock."""
    _replace(f"{folder}/state.json", to_json(state))
    _replace(f"{folder}/state.txt", to_lines(state))


def _replace(path: str, text: str) -> None:
    with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123  see above
        file.write(text)
    os.replace(f"{path}.new", path)  # noqa: PTH105  see above
