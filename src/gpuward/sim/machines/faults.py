"""Faults as the driver writes and suffers them: the lines of a code, and what the GPU is then. No file is written here.

The shapes follow the open driver 595.45.04; every value in a line is made up.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import resources

from gpuward.sim.machines.state import RECOVERIES, GpuState, MachineState

NOBODY = "pid='<unknown>', name=<unknown>"
_RESET = RECOVERIES.index("Reset")
_LABELS = ("None", "GPU Reset Required", "Node Reboot Required", "Drain P2P", "Drain and Reset")
"""How the kernel log names the recovery actions; nvidia-smi's words are others."""

_FAILING_LINK = 3
_GSP_LIMIT = 3


def codes() -> tuple[int, ...]:
    """Return the codes that can be injected."""
    return tuple(dict.fromkeys(int(row["code"]) for row in _rows()))


def suffer(machine: MachineState, gpu: GpuState, code: int, *, recovery: int | None = None) -> GpuState:
    """Return a GPU as the fault leaves it; `recovery` is the action that 154 changes to."""
    if recovery is not None:
        return replace(gpu, recovery=recovery)
    return _EFFECTS[code](machine, gpu)


def lines(machine: MachineState, before: GpuState, after: GpuState, *, code: int, who: str) -> Iterator[str]:
    """Yield what the driver logs for the fault, and of a recovery action that changed with it."""
    for row in _rows():
        if int(row["code"]) == code and row["line"]:
            yield f"NVRM: {row['line'].format(pci=before.pci, minor=before.minor, who=who)}"
    if after.recovery != before.recovery and machine.holds("recovery-is-logged"):
        old, new = (f"0x{each:x} ({_LABELS[each]})" for each in (before.recovery, after.recovery))
        yield f"NVRM: Xid (PCI:{before.pci}): 154, GPU recovery action changed from {old} to {new}"


def _rows() -> Sequence[dict[str, str]]:
    text = resources.files("gpuward.sim.machines").joinpath("faults.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _no_effect(_: MachineState, gpu: GpuState) -> GpuState:
    return gpu


def _lose(_: MachineState, gpu: GpuState) -> GpuState:
    return replace(gpu, lost=True, recovery=_RESET)


def _hit_memory(machine: MachineState, gpu: GpuState) -> GpuState:
    remaps = machine.model["remap_max"] != "0"
    return replace(
        gpu,
        ecc_volatile=gpu.ecc_volatile + 1,
        ecc_aggregate=gpu.ecc_aggregate + 1,
        remap_pending=remaps or gpu.remap_pending,
        recovery=_RESET,
    )


def _need_reset(_: MachineState, gpu: GpuState) -> GpuState:
    return replace(gpu, recovery=_RESET)


def _lose_link(machine: MachineState, gpu: GpuState) -> GpuState:
    if machine.model["links"] == "0":
        return gpu
    return replace(gpu, links_down=tuple(sorted({*gpu.links_down, _FAILING_LINK})), recovery=_RESET)


def _silence_gsp(machine: MachineState, gpu: GpuState) -> GpuState:
    count = gpu.gsp_timeouts + 1
    marked = count >= _GSP_LIMIT or not machine.holds("gsp-third")
    return replace(gpu, gsp_timeouts=count, recovery=_RESET if marked else gpu.recovery)


_EFFECTS: dict[int, Callable[[MachineState, GpuState], GpuState]] = {
    79: _lose,
    48: _hit_memory,
    62: _need_reset,
    31: _no_effect,
    45: _no_effect,
    74: _lose_link,
    119: _silence_gsp,
    154: _need_reset,
}
