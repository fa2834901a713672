"""What a command of the stub nvidia-smi says, how it ends and which GPUs it means. No command is carried out here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuward.sim.machines.state import GpuState, MachineState

OK, INVALID, UNSUPPORTED, FORBIDDEN, NOT_FOUND, NOT_LOADED, LOST, OTHER = 0, 2, 3, 4, 6, 9, 15, 255
"""The return codes of nvidia-smi, from its manual page."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is printed, with its last newline, and the exit code."""

    text: str
    code: int = OK


@dataclass(frozen=True, slots=True)
class Chosen:
    """A GPU as a command sees it: its index among the visible ones, its state, and the pids that have it open."""

    index: int
    gpu: GpuState
    pids: tuple[int, ...] = ()


NONE_FOUND = Answer("No devices were found\n", NOT_FOUND)
NO_DRIVER = Answer(
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n",
    NOT_LOADED,
)


def choose(
    machine: MachineState, ids: str | None, holders: Mapping[int, Sequence[int]], *, hidden_too: bool = False
) -> tuple[Chosen, ...]:
    """Return the GPUs that a list of indices, UUIDs, serials or PCI addresses names; empty where one is unknown."""
    seen = machine.gpus if hidden_too else machine.visible
    every = tuple(Chosen(index, gpu, tuple(holders.get(gpu.minor, ()))) for index, gpu in enumerate(seen))
    if ids is None:
        return every
    named = tuple(_one(every, each.strip()) for each in ids.split(","))
    return tuple(one for one in named if one) if all(named) else ()


def by_address(machine: MachineState, word: str) -> GpuState | None:
    """Return the GPU at a PCI address, drained or not; an index is no address."""
    return next((gpu for gpu in machine.gpus if _is_address(gpu, word)), None)


def lost(gpu: GpuState) -> str:
    """Return the line that stands where a lost GPU should."""
    return (
        f"Unable to determine the device handle for GPU{gpu.address[4:]}: GPU is lost.  "
        "Reboot the system to recover this GPU\n"
    )


def _one(every: Sequence[Chosen], word: str) -> Chosen | None:
    for one in every:
        if word in (str(one.index), one.gpu.uuid, one.gpu.serial) or _is_address(one.gpu, word):
            return one
    return None


def _is_address(gpu: GpuState, word: str) -> bool:
    """Return whether the word is the GPU's address with a domain of four or eight digits, or with none."""
    full = gpu.address
    return word.upper() in (full, full[4:], full[9:])
