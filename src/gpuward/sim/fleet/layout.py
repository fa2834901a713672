"""What a pretend fleet consists of. What happens to it is elsewhere."""

from dataclasses import dataclass

from gpuward.sim.fleet.workloads import Workload

FEW = 3
"""A fleet that is smaller has no node to stand by."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes, of which the last ones stand by; their GPUs; the work; how many controllers; how wrong clocks are."""

    nodes: int
    gpus: int = 8
    standbys: int = 0
    workloads: tuple[Workload, ...] = ()
    replicas: int = 2
    skew_seconds: float = 30.0
    visit_seconds: tuple[float, float] = (1800.0, 14400.0)
    """How long until a person comes to a case that waits for one."""
    lease_seconds: int = 3600
    """How long the Lease of an agent lasts: as in life where people may read it, and else not worth the writes."""

    def names(self) -> list[str]:
        """Return the names of the nodes."""
        width = max(2, len(str(self.nodes)))
        return [f"node-{number:0{width}d}" for number in range(1, self.nodes + 1)]


def usual(nodes: int, *, gpus: int = 8) -> Layout:
    """Return a fleet of so many nodes: two training jobs on whole nodes, one serving, one in eight standing by."""
    standbys = 0 if nodes < FEW else max(1, nodes // 8)
    working = nodes - standbys
    train = max(1, (working * 2) // 5)
    workloads = [Workload("train-a", train, gpus, grace_seconds=60, asks=True)]
    left = working - train
    if left > 1:
        second = max(1, left // 2)
        workloads.append(Workload("train-b", second, gpus, grace_seconds=60))
        left -= second
    if left > 0:
        workloads.append(Workload("serve", left * 2, max(1, gpus // 4), serves=True))
    return Layout(nodes=nodes, gpus=gpus, standbys=standbys, workloads=tuple(workloads))
