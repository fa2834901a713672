"""The short listings of the stub nvidia-smi: GPUs, topology, NVLink speeds, versions. Nothing is changed here."""

from collections.abc import Sequence

from gpuward.sim.machines.answer import Chosen
from gpuward.sim.machines.state import GpuState, MachineState

_CORES_PER_SOCKET = 48
_LEGEND = {
    "X  ": "Self",
    "SYS": "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)",
    "NODE": "Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node",
    "PHB": "Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)",
    "PXB": "Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)",
    "PIX": "Connection traversing at most a single PCIe bridge",
    "NV#": "Connection traversing a bonded set of # NVLinks",
}
"""The words of the tool's own legend, without which a reader of the matrix would have another shape to read."""


def version(machine: MachineState) -> str:
    """Return the text of `--version`."""
    short = ".".join(machine.driver.split(".")[:2])
    pairs = {
        "NVIDIA-SMI version": machine.driver,
        "NVML version": short,
        "DRIVER version": machine.driver,
        "CUDA Version": machine.cuda,
    }
    return "".join(f"{name:<20}: {value}\n" for name, value in pairs.items())


def gpus(machine: MachineState, chosen: Sequence[Chosen]) -> str:
    """Return the text of `-L`, with the slices of each GPU."""
    return "".join(_head(machine, one) + _slices(machine, one.gpu) for one in chosen)


def nvlinks(machine: MachineState, chosen: Sequence[Chosen]) -> str:
    """Return the text of `nvlink -s`."""
    return "".join(_head(machine, one) + _speeds(machine, one.gpu) for one in chosen)


def topology(machine: MachineState, chosen: Sequence[Chosen]) -> str:
    """Return the text of `topo -m`; the head is underlined even in a file, and a row has one tab more than it."""
    names = [f"GPU{one.index}" for one in chosen]
    head = "\t".join(["", "\x1b[4m" + names[0], *names[1:], "CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m"])
    rows = [_row(machine, one, chosen) for one in chosen]
    legend = "".join(f"  {word:<4} = {meaning}\n" for word, meaning in _LEGEND.items())
    return "\n".join([head, *rows]) + f"\n\nLegend:\n\n{legend}\n"


def _head(machine: MachineState, one: Chosen) -> str:
    return f"GPU {one.index}: {machine.model['product_name']} (UUID: {one.gpu.uuid})\n"


def _slices(machine: MachineState, gpu: GpuState) -> str:
    kind = f"1g.{round(int(machine.model['memory']) / 8192)}gb"
    return "".join(
        f"  MIG {kind:<11} Device {index:>2}: (UUID: MIG-{index:08x}{gpu.uuid[12:]})\n"
        for index in range(gpu.mig_instances)
    )


def _speeds(machine: MachineState, gpu: GpuState) -> str:
    count = int(machine.model["links"])
    if not count:
        return "Device does not have or support Nvlink\n"
    if gpu.mig:
        return "Nvlink queries are not supported for Devices in MIG mode\n"
    if len(gpu.links_down) == count:
        return "NVML: Unable to retrieve Nvlink information as all links are inActive\n"
    speed = f"{machine.model['link_speed']} GB/s"
    return "".join(f"\t Link {link}: {'<inactive>' if link in gpu.links_down else speed}\n" for link in range(count))


def _row(machine: MachineState, one: Chosen, chosen: Sequence[Chosen]) -> str:
    node = _socket(machine, one.gpu)
    first = node * _CORES_PER_SOCKET
    cells = [" X " if other is one else _between(machine, one.gpu, other.gpu) for other in chosen]
    cores = f"{first}-{first + _CORES_PER_SOCKET - 1}"
    return "\t".join([f"GPU{one.index}", *cells, cores, str(node), "", "N/A"])


def _between(machine: MachineState, one: GpuState, other: GpuState) -> str:
    links = int(machine.model["links"]) - max(len(one.links_down), len(other.links_down))
    if links > 0 and not (one.mig or other.mig):
        return f"NV{links}"
    return "NODE" if _socket(machine, one) == _socket(machine, other) else "SYS"


def _socket(machine: MachineState, gpu: GpuState) -> int:
    return int(machine.gpus.index(gpu) >= (len(machine.gpus) + 1) // 2)
