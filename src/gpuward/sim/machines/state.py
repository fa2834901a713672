"""What a pretend machine is at one moment, and how that is written down.

Nothing here decides what a command does to it, and no file is opened.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

RECOVERIES = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")
"""How nvidia-smi names the recovery actions; the place is the number that NVML field 230 gives."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One pretend GPU. `pci` is canonical, such as 0000:19:00; `recovery` is the number of NVML field 230."""

    pci: str
    uuid: str
    serial: str
    minor: int
    persistence: bool = True
    drained: bool = False
    lost: bool = False
    display: bool = False
    mig: bool = False
    mig_instances: int = 0
    ecc_volatile: int = 0
    ecc_aggregate: int = 0
    remapped: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    recovery: int = 0
    gsp_timeouts: int = 0
    links_down: tuple[int, ...] = ()
    pcie_generation: int = 0
    pcie_width: int = 16
    resets: int = 0
    """How often it was reset: the driver tells nobody, so a test looks here."""

    @property
    def address(self) -> str:
        """Return the PCI address as the tool prints it, such as 00000000:19:00.0."""
        return f"0000{self.pci}.0".upper()


@dataclass(frozen=True, slots=True)
class MachineState:
    """A pretend machine. `root` is whether callers count as root: None asks the system.

    `doubted` names the beliefs that do not hold here, `hanging` the commands that never answer.
    """

    model: Mapping[str, str]
    driver: str
    cuda: str
    gpus: tuple[GpuState, ...]
    loaded: bool = True
    fabric_manager: bool = True
    guest: bool = False
    root: bool | None = None
    doubted: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()

    def holds(self, belief: str) -> bool:
        """Return whether this machine behaves as we believe real ones do."""
        return belief not in self.doubted

    @property
    def visible(self) -> tuple[GpuState, ...]:
        """Return the GPUs that a process started now sees, in the order of their indices."""
        return tuple(gpu for gpu in self.gpus if not (gpu.drained and self.holds("drain-hides")))

    def with_gpu(self, changed: GpuState) -> "MachineState":
        """Return the machine with the GPU of that address replaced."""
        return replace(self, gpus=tuple(changed if gpu.pci == changed.pci else gpu for gpu in self.gpus))


def to_json(state: MachineState) -> str:
    """Return the whole state as text."""
    return json.dumps(asdict(state), indent=1)


def from_json(text: str) -> MachineState:
    """Return the state that `to_json` wrote."""
    read: dict[str, Any] = json.loads(text)
    gpus = tuple(GpuState(**{**gpu, "links_down": tuple(gpu["links_down"])}) for gpu in read.pop("gpus"))
    words: dict[str, Any] = {name: tuple(read.pop(name)) for name in ("doubted", "hanging")}
    return MachineState(gpus=gpus, **words, **read)


def to_lines(state: MachineState) -> str:
    """Return what the NVML stub needs as lines of `key value`, which C reads with no parser: first the machine."""
    model = state.model
    major, minor = state.cuda.split(".")
    head = {
        "driver": state.driver,
        "cuda": int(major) * 1000 + int(minor) * 10,
        "loaded": int(state.loaded),
        "hang": int("nvml" in state.hanging),
        "handles": int(not state.holds("lost-no-handle")),
        "name": model["product_name"],
        "device": int(model["device_id"], 16),
        "subsystem": int(model["subsystem_id"], 16),
        "links": int(model["links"]),
        "speed": round(float(model["link_speed"]) * 1000),
        "gen_max": model["gen"],
        "mig_able": int(model["mig"] == "yes"),
        "remapper": int(model["remap_max"] != "0"),
    }
    lines = [f"{key} {value}" for key, value in head.items()]
    for gpu in state.gpus:
        lines += [f"{key} {value}" for key, value in _gpu_lines(gpu, hidden=gpu not in state.visible).items()]
    return "\n".join(lines) + "\n"


def _gpu_lines(gpu: GpuState, *, hidden: bool) -> dict[str, int | str]:
    return {
        "gpu": gpu.uuid,
        "pci": gpu.address,
        "serial": gpu.serial,
        "minor": gpu.minor,
        "hidden": int(hidden),
        "drained": int(gpu.drained),
        "persistence": int(gpu.persistence),
        "lost": int(gpu.lost),
        "display": int(gpu.display),
        "mig": int(gpu.mig),
        "ecc_volatile": gpu.ecc_volatile,
        "ecc_aggregate": gpu.ecc_aggregate,
        "remapped": gpu.remapped,
        "pending": int(gpu.remap_pending),
        "failed": int(gpu.remap_failed),
        "recovery": gpu.recovery,
        "down": sum(1 << link for link in gpu.links_down),
        "gen": gpu.pcie_generation,
        "width": gpu.pcie_width,
    }
