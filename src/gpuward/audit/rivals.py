"""Other software that acts on nodes by itself, as rows: how it is told, what it does, and what to settle with it.

That one of them is there is a fact, not a fault: which of two acts on a node is for people to say.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuward.audit.facts import ClusterFacts, Program


@dataclass(frozen=True, slots=True)
class Rival:
    """One of them: by how the names of its kinds end, or by what the name or an image of its programs contains."""

    name: str
    does: str
    remedy: str
    source: str
    groups: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


RIVALS: tuple[Rival, ...] = (
    Rival(
        "NVSentinel",
        "cordons, drains, resets and reboots nodes for GPU faults",
        "let one of the two act: turn its quarantine, drain and remediation off, or keep gpuward in mode observe",
        "NVSentinel, chart and kinds",
        groups=("nvsentinel.nvidia.com", "dgxc.nvidia.com"),
        named=("nvsentinel", "fault-quarantine", "fault-remediation"),
    ),
    Rival(
        "draino",
        "cordons and drains nodes by their conditions, and gpuward sets one",
        "leave the condition GPUFault out of its list",
        "planetlabs/draino, README",
        named=("draino",),
    ),
    Rival(
        "node-problem-detector",
        "sets conditions of nodes from the same kernel log; itself it repairs nothing",
        "see that nothing which acts on its conditions (draino, a cloud's auto-repair) acts on GPU nodes as well",
        "kubernetes/node-problem-detector, README",
        named=("node-problem-detector",),
    ),
    Rival(
        "EKS node monitoring agent",
        "sets conditions from GPU faults, by which node auto-repair reboots or replaces nodes",
        "turn auto-repair off for the GPU node groups, or keep gpuward in mode observe",
        "aws/eks-node-monitoring-agent, README",
        named=("eks-node-monitoring-agent",),
    ),
    Rival(
        "Medik8s",
        "fences, reboots or deletes nodes that look unhealthy",
        "leave GPU nodes out of its NodeHealthChecks, or pause these while gpuward works (pauseRequests)",
        "medik8s/node-healthcheck-operator, README",
        groups=("medik8s.io",),
    ),
    Rival(
        "MachineHealthCheck",
        "deletes the machine of a node that is not ready for long, also while gpuward reboots it",
        "allow longer than a reboot takes, or leave GPU nodes out of its selector",
        "Cluster API book, MachineHealthCheck",
        groups=("machinehealthchecks.cluster.x-k8s.io", "machinehealthchecks.machine.openshift.io"),
    ),
    Rival(
        "Cluster Autoscaler",
        "takes away nodes that are empty, as a node is that gpuward has emptied or that stands by",
        "annotate standby nodes cluster-autoscaler.kubernetes.io/scale-down-disabled=true, and those under repair too",
        "kubernetes/autoscaler, FAQ",
        named=("cluster-autoscaler",),
    ),
    Rival(
        "Karpenter",
        "takes away nodes that are empty or could be fewer, as standby nodes and emptied ones look",
        "leave GPU nodes out of consolidation (annotation karpenter.sh/do-not-disrupt, or a budget of 0)",
        "karpenter.sh, Disruption",
        groups=("karpenter.sh",),
    ),
    Rival(
        "kured",
        "reboots nodes one after the other, and uncordons them afterwards",
        "leave GPU nodes out of it (the node selector of its DaemonSet)",
        "kubereboot/kured, README",
        named=("kured",),
    ),
    Rival(
        "descheduler",
        "evicts pods that do not tolerate a taint, also those of a patient fault that may end their work",
        "exclude our taint from RemovePodsViolatingNodeTaints (excludedTaints), or GPU nodes from it",
        "kubernetes-sigs/descheduler, README",
        named=("descheduler",),
    ),
)


def rivals_of(facts: ClusterFacts) -> Iterator[tuple[Rival, str]]:
    """Yield each that is there, and by what it was told."""
    for row in RIVALS:
        found = [one.words for one in facts.programs if _fits(row, one)]
        found += [f"kind {name}" for name in sorted(facts.definitions) if _is_of(name, row.groups)]
        if found:
            yield row, found[0]


def _fits(row: Rival, one: Program) -> bool:
    names = (one.name, *(image.rpartition("/")[2] for image in one.images))
    return any(word in name for word in row.named for name in names)


def _is_of(definition: str, groups: tuple[str, ...]) -> bool:
    return any(definition == group or definition.endswith(f".{group}") for group in groups)
