"""What drain, persistence mode and reset do to a pretend machine, and why they refuse. No argument is parsed here.

Each function returns the machine as it is then, and the answer; a refusal leaves the machine as it was.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuward.sim.machines import answer
from gpuward.sim.machines.answer import Answer, Chosen
from gpuward.sim.machines.state import RECOVERIES, GpuState, MachineState

_DRAIN_WORDS = {True: "draining", False: "not draining"}
_MODE_WORDS = {True: "Enabled", False: "Disabled"}
_REBOOT = RECOVERIES.index("Reboot")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A belief under which a command is refused: when it applies to a GPU, what is said, and the exit code."""

    belief: str
    applies: Callable[[MachineState, Chosen, Sequence[Chosen]], bool]
    words: Callable[[Sequence[GpuState]], str]
    code: int


def is_root(machine: MachineState) -> bool:
    """Return whether the caller counts as root on this machine."""
    return os.geteuid() == 0 if machine.root is None else machine.root


def _each(before: str, after: str) -> Callable[[Sequence[GpuState]], str]:
    return lambda gpus: "".join(f"{before}{gpu.address}{after}\n" for gpu in gpus)


def _in_use(gpus: Sequence[GpuState]) -> str:
    listed = "".join(f"  GPU {gpu.address}: In use by another client\n" for gpu in gpus)
    count = "1 device is" if len(gpus) == 1 else f"{len(gpus)} devices are"
    return (
        f"The following GPUs could not be reset:\n{listed}\n"
        f"{count} currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, "
        "graphics application such as an X server, or a monitoring application such as another instance of "
        "nvidia-smi). Please first kill all processes using "
        f"{'this device' if len(gpus) == 1 else 'these devices'} and all compute applications running in the system.\n"
    )


def _lacks_peers(machine: MachineState, _: Chosen, chosen: Sequence[Chosen]) -> bool:
    alone = machine.model["single_reset"] == "yes" or machine.model["switched"] != "yes" or machine.fabric_manager
    return not alone and len(chosen) < len(machine.gpus)


_DRAIN_REFUSALS = (
    Refusal(
        "drain-root",
        lambda machine, _one, _all: not is_root(machine),
        _each("Failed to set drain state of GPU ", ": Insufficient Permissions"),
        answer.FORBIDDEN,
    ),
    Refusal(
        "drain-again",
        lambda _, one, _all: one.gpu.drained,
        _each("Failed to set drain state of GPU ", ": In use by another client"),
        answer.OTHER,
    ),
    Refusal(
        "drain-persistence",
        lambda _, one, _all: one.gpu.persistence,
        _each("Failed to set drain state of GPU ", ": In use by another client"),
        answer.OTHER,
    ),
)
_PERSISTENCE_REFUSALS = (
    Refusal(
        "persistence-root",
        lambda machine, _one, _all: not is_root(machine),
        lambda gpus: (
            _each("Unable to set persistence mode for GPU ", ": Insufficient Permissions")(gpus[:1])
            + "Terminating early due to previous errors.\n"
        ),
        answer.FORBIDDEN,
    ),
    Refusal(
        "lost-no-handle", lambda _, one, _all: one.gpu.lost, lambda gpus: "".join(map(answer.lost, gpus)), answer.LOST
    ),
)
_RESET_REFUSALS = (
    Refusal(
        "reset-root",
        lambda machine, _one, _all: not is_root(machine),
        _each("Unable to reset GPU ", ": Insufficient Permissions"),
        answer.FORBIDDEN,
    ),
    Refusal("reset-lost", lambda _, one, _all: one.gpu.lost, lambda gpus: "".join(map(answer.lost, gpus)), answer.LOST),
    Refusal(
        "reset-display",
        lambda _, one, _all: one.gpu.display,
        _each("GPU Reset couldn't run because GPU ", " is the primary GPU."),
        answer.UNSUPPORTED,
    ),
    Refusal(
        "reset-guest-mig",
        lambda machine, one, _all: machine.guest and one.gpu.mig,
        _each("Resetting GPU ", " is not supported."),
        answer.UNSUPPORTED,
    ),
    Refusal(
        "reset-peers",
        _lacks_peers,
        _each("GPU ", " cannot be reset without the other GPUs that it has NVLinks to."),
        answer.OTHER,
    ),
    Refusal("reset-persistence", lambda _, one, _all: one.gpu.persistence, _in_use, answer.OTHER),
    Refusal("reset-holders", lambda _, one, _all: bool(one.pids), _in_use, answer.OTHER),
)


def drain(machine: MachineState, address: str, *, on: bool) -> tuple[MachineState, Answer]:
    """Drain the GPU at a PCI address, or let it on again; letting on one that is not drained is no error."""
    gpu = named(machine, address)
    if gpu is None:
        return machine, answer.NONE_FOUND
    one = Chosen(machine.gpus.index(gpu), gpu)
    if not machine.holds("drain-lost") and gpu.lost:
        return machine, Answer(answer.lost(gpu), answer.LOST)
    refused = _refused(machine, (one,), _DRAIN_REFUSALS if on else _DRAIN_REFUSALS[:1])
    if refused:
        return machine, refused
    taken = machine.holds("drain-takes" if on else "drain-lifts")
    changed = machine.with_gpu(replace(gpu, drained=on)) if taken else machine
    return changed, Answer(f"Successfully set GPU {gpu.address} drain state to: {_DRAIN_WORDS[on]}.\n")


def drained(machine: MachineState, address: str) -> Answer:
    """Return the answer to `drain -q`."""
    gpu = named(machine, address)
    if gpu is None:
        return answer.NONE_FOUND
    return Answer(f"The current drain state of GPU {gpu.address} is: {_DRAIN_WORDS[gpu.drained]}.\n")


def named(machine: MachineState, word: str) -> GpuState | None:
    """Return the GPU that `drain -p` means: by address, and by index only on a machine that falsifies the belief."""
    if not machine.holds("drain-by-address") and word.isdecimal() and int(word) < len(machine.gpus):
        return machine.gpus[int(word)]
    return answer.by_address(machine, word)


def persistence(machine: MachineState, chosen: Sequence[Chosen], *, on: bool) -> tuple[MachineState, Answer]:
    """Turn persistence mode on or off."""
    if not chosen:
        return machine, answer.NONE_FOUND
    refused = _refused(machine, chosen, _PERSISTENCE_REFUSALS)
    if refused:
        return machine, refused
    said = ""
    for one in chosen:
        already = one.gpu.persistence == on
        word = _MODE_WORDS[on]
        said += f"Persistence mode is already {word} for GPU " if already else f"{word} persistence mode for GPU "
        said += f"{one.gpu.address}.\n"
        stuck = on and one.gpu.resets and not machine.holds("persistence-returns")
        if machine.holds("persistence-takes") and not stuck:
            machine = machine.with_gpu(replace(one.gpu, persistence=on))
    return machine, Answer(f"{said}All done.\n")


def reset(machine: MachineState, chosen: Sequence[Chosen]) -> tuple[MachineState, Answer]:
    """Reset GPUs: all of them or none."""
    if not chosen:
        return machine, answer.NONE_FOUND
    refused = _refused(machine, chosen, _RESET_REFUSALS)
    if refused:
        return machine, refused
    if not machine.holds("reset-idle"):
        return machine, Answer(
            "".join(f"Unable to reset GPU {one.gpu.address}: Unknown Error\n" for one in chosen), answer.OTHER
        )
    if machine.holds("reset-takes"):
        for one in chosen:
            machine = machine.with_gpu(after_reset(machine, one.gpu))
    return machine, Answer("".join(f"GPU {one.gpu.address} was successfully reset.\n" for one in chosen))


def after_reset(machine: MachineState, gpu: GpuState) -> GpuState:
    """Return a GPU as a reset leaves it."""
    stays = gpu.recovery == _REBOOT and machine.holds("reset-reboot")
    whole = machine.holds("reset-links")
    return replace(
        gpu,
        lost=False,
        mig_instances=0 if machine.holds("reset-slices") else gpu.mig_instances,
        ecc_volatile=0,
        remapped=gpu.remapped + int(gpu.remap_pending),
        remap_pending=False,
        recovery=gpu.recovery if stays else 0,
        gsp_timeouts=0,
        links_down=() if whole else (0,),
        pcie_width=gpu.pcie_width if whole else 8,
        persistence=gpu.persistence or not machine.holds("reset-persistence-stays"),
        resets=gpu.resets + 1,
    )


def _refused(machine: MachineState, chosen: Sequence[Chosen], refusals: Sequence[Refusal]) -> Answer | None:
    """Return the first refusal that applies to any of the GPUs, None when all may go on."""
    for refusal in refusals:
        hit = [one.gpu for one in chosen if machine.holds(refusal.belief) and refusal.applies(machine, one, chosen)]
        if hit:
            return Answer(refusal.words(hit), refusal.code)
    return None
