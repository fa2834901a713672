"""What the tool can say of a pretend GPU, value by value, in its own words. Where a value is printed is not here."""

import time
from collections.abc import Sequence

from gpuward.sim.machines.state import RECOVERIES, GpuState, MachineState

LOST = "GPU is lost"
NOT_TOLD = "N/A"
_ON = {True: "Enabled", False: "Disabled"}
_YES = {True: "Yes", False: "No"}


def of(machine: MachineState, gpu: GpuState, *, index: int, holders: Sequence[int] = ()) -> dict[str, str]:
    """Return every value of a GPU by its name in the layouts; `holders` are the pids that have it open."""
    return {
        **machine.model,
        **_identity(machine, gpu, index),
        **_use(machine, holders),
        **_memory(machine, gpu),
        **_fabric(machine, gpu),
        "persistence": _ON[gpu.persistence],
        "display_active": _ON[gpu.display],
        "display_attached": _YES[gpu.display],
        "mig": _ON[gpu.mig] if machine.model["mig"] == "yes" else NOT_TOLD,
        "mig_none": "\n\t\t\tNone\n\t\t",
        "virtualization": "Pass-Through" if machine.guest else "None",
        "recovery": RECOVERIES[gpu.recovery],
        "pcie_gen": str(gpu.pcie_generation),
        "pcie_width": str(gpu.pcie_width),
    }


def conditions(machine: MachineState, gpu: GpuState, *, held: bool) -> frozenset[str]:
    """Return the conditions of the layouts that are true for a GPU."""
    remapper = machine.model["remap_max"] != "0"
    remapped = remapper and not gpu.mig and not gpu.lost
    sliced = gpu.mig and gpu.mig_instances > 0
    relative = machine.model["architecture"] not in ("Ampere", "Turing")
    pairs = {
        "remapper": remapper,
        "unmapped": not remapper,
        "remapped": remapped,
        "unremapped": not remapped,
        "sliced": sliced,
        "whole": not sliced,
        "relative": relative,
        "absolute": not relative,
        "held": held,
        "free": not held,
        "live": True,
    }
    return frozenset(name for name, true in pairs.items() if true)


def _identity(machine: MachineState, gpu: GpuState, index: int) -> dict[str, str]:
    domain, bus, device = gpu.pci.upper().split(":")
    return {
        "index": str(index),
        "count": str(len(machine.visible)),
        "driver": machine.driver,
        "serial": gpu.serial,
        "uuid": gpu.uuid,
        "pdi": f"0x{gpu.minor + 1:016x}",
        "minor": str(gpu.minor),
        "module_id": str(gpu.minor + 1),
        "board_id": f"0x{int(bus, 16) * 256:x}",
        "address": gpu.address,
        "domain": domain,
        "bus": bus,
        "device": device,
        "csv_time": time.strftime("%Y/%m/%d %H:%M:%S.000"),
    }


def _use(machine: MachineState, holders: Sequence[int]) -> dict[str, str]:
    total = int(machine.model["memory"])
    reserved = total // 160
    used = 512 * len(holders)
    return {
        "reserved": str(reserved),
        "used": str(used),
        "free": str(total - reserved - used),
        "utilization": "90 %" if holders else "0 %",
        "idle": "Not Active" if holders else "Active",
        "temperature": "61" if holders else "34",
        "draw": machine.model["power"] if holders else machine.model["power_min"],
    }


def _memory(machine: MachineState, gpu: GpuState) -> dict[str, str]:
    banks = int(machine.model["remap_max"])
    told = bool(banks) and not gpu.mig
    return {
        "ecc_volatile": str(gpu.ecc_volatile),
        "ecc_aggregate": str(gpu.ecc_aggregate),
        "remapped": str(gpu.remapped),
        "remap_counted": "0" if told else NOT_TOLD,
        "remap_rows": str(gpu.remapped) if told else NOT_TOLD,
        "remap_free": str(banks - gpu.remapped),
        "remap_pending": _YES[gpu.remap_pending] if told else NOT_TOLD,
        "remap_failed": _YES[gpu.remap_failed] if told else NOT_TOLD,
        "retired_count": NOT_TOLD if banks else "0",
        "retired_list": NOT_TOLD if banks else "\n\t\t\t\t",
        "retired_pending": NOT_TOLD if banks else "No",
    }


def _fabric(machine: MachineState, gpu: GpuState) -> dict[str, str]:
    names = ("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster")
    if machine.model["switched"] != "yes":
        return {**dict.fromkeys(names, NOT_TOLD), "c2c": NOT_TOLD}
    up = machine.fabric_manager and not gpu.links_down
    words = ("Completed", "Success", "0", "00000000-0000-0000-0000-000000000000")
    waiting = ("In Progress", NOT_TOLD, NOT_TOLD, NOT_TOLD)
    return {**dict(zip(names, words if up else waiting, strict=True)), "c2c": "Disabled"}
