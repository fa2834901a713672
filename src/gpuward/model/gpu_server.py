"""Which nodes of a cluster have GPUs, by their objects alone: nobody has to have run there."""

from collections.abc import Mapping
from typing import Any

from gpuward.model.found import part
from gpuward.model.objects.owned import GPUS

SIGHTS = (
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0680_10de.present",
)
"""Labels of Node Feature Discovery for anything of PCI vendor 10de: by vendor (as the GPU Operator sets it up), or by
class and vendor (its own default): display and 3D controllers, and the NVSwitches, which stay when GPUs fall off."""
GPU_NODE = (*SIGHTS, GPUS)
"""Any of these labels makes a node one of ours. The last is put on by the controller once an agent was there, or by a
person: the agent must not leave with the last GPU that is seen."""
GPU_SERVER = (*GPU_NODE, "nvidia.com/gpu.present")
"""Any of these labels says that a node has GPUs, whether an agent is sent there or not."""
_RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-")


def is_gpu_server(node: Mapping[str, Any]) -> bool:
    """Return whether a Node has GPUs, by its capacity or by its labels."""
    labels = part(part(node, "metadata"), "labels")
    capacity = part(part(node, "status"), "capacity")
    return any(str(name).startswith(_RESOURCES) for name in capacity) or not labels.keys().isdisjoint(GPU_SERVER)
