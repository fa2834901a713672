"""The software of a GPU node that runs in DaemonSets, as rows: how each is told, and where its tolerations are set.

Sources: NVIDIA GPU Operator 25.x, its assets (names, node selectors) and chart; NFD, device plugin and dcgm-exporter
charts. Read, not tried.
"""

from dataclasses import dataclass

from gpuward.model.daemon_set import DaemonSetSight

GATE = "nvidia.com/gpu.deploy."
"""How the label begins by which the GPU Operator puts one of its DaemonSets on a node."""


@dataclass(frozen=True, slots=True)
class StackPart:
    """One part, by what its DaemonSet's name contains; `without` says what a node lacks without it."""

    role: str
    named: tuple[str, ...]
    without: str


STACK: tuple[StackPart, ...] = (
    StackPart("driver", ("nvidia-driver", "nvidia-vgpu-manager"), "no driver is on the node"),
    StackPart("container toolkit", ("container-toolkit",), "no container gets a GPU"),
    StackPart("MPS control daemon", ("mps-control",), "the device plugin waits for it"),
    StackPart("device plugin", ("device-plugin",), "the node offers no GPU"),
    StackPart("DRA driver", ("dra-driver", "dra-kubelet-plugin"), "the node offers no GPU"),
    StackPart("DCGM exporter", ("dcgm-exporter",), "there are no metrics of its GPUs"),
    StackPart("DCGM", ("nvidia-dcgm",), "the exporter has nobody to ask"),
    StackPart("GPU feature discovery", ("gpu-feature-discovery",), "the labels of its GPUs vanish"),
    StackPart(
        "node feature discovery",
        ("node-feature-discovery", "nfd-worker"),
        "the labels vanish by which GPU software, the agent of gpuward too, is put on the node",
    ),
    StackPart("MIG manager", ("mig-manager",), "MIG layouts are not applied"),
    StackPart("validator", ("operator-validator",), "the other parts wait for it"),
    StackPart("node status exporter", ("node-status-exporter",), "the operator's metrics of the node are missing"),
)
"""The first that fits counts."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tolerations of a DaemonSet are set, so that whoever owns it does not set them back."""

    says: str


OPERATOR = Place(
    "spec.daemonsets.tolerations of the ClusterPolicy (Helm value daemonsets.tolerations of the GPU Operator; the list "
    "replaces the chart's own, so keep its nvidia.com/gpu)"
)
DRIVER = Place("spec.tolerations of the NVIDIADriver")
FEATURES = Place("worker.tolerations of its chart (node-feature-discovery.worker.tolerations of the GPU Operator's)")
OWN = Place(
    "spec.template.spec.tolerations of the DaemonSet, by what installs it (mostly the chart's value tolerations)"
)


def part_of(one: DaemonSetSight) -> StackPart | None:
    """Return which part of the GPU stack a DaemonSet is; None for all others."""
    found = next((row for row in STACK if any(name in one.name for name in row.named)), None)
    if found is None and any(key.startswith(GATE) for key in one.chosen):
        return StackPart("operand of the GPU Operator", (), "what it does for the node is not done")
    return found


def place_of(one: DaemonSetSight) -> Place:
    """Return where the tolerations of a DaemonSet are set."""
    if one.labels.get("app.kubernetes.io/component") == "nvidia-driver":
        return DRIVER
    if any(key.startswith(GATE) for key in one.chosen):
        return OPERATOR
    part = part_of(one)
    return FEATURES if part is not None and part.role == "node feature discovery" else OWN
