"""Which label of a node names its block of the network fabric, as rows: who writes it, and where that is said.

A block is what hangs together on the switches next to the nodes: of the levels that a label family has, the lowest that
holds many nodes. A standby node of the same block is preferred; one of another is taken where there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FabricLabel:
    """A label that names a block, who writes it, and the source of that knowledge."""

    key: str
    of: str
    what: str
    source: str


FABRIC: tuple[FabricLabel, ...] = (
    FabricLabel(
        "fabric.topograph.run/tier-0",
        of="NVIDIA Topograph from 1.0",
        what="the switch closest to the node",
        source="https://docs.nvidia.com/topograph/v1.0.0/reference/node-labels-and-annotations",
    ),
    FabricLabel(
        "network.topology.nvidia.com/leaf",
        of="NVIDIA Topograph before 1.0",
        what="the leaf switch",
        source="https://docs.nvidia.com/topograph/reference/node-labels-and-annotations",
    ),
    FabricLabel(
        "network.topology.nvidia.com/block",
        of="NVIDIA Topograph 0.1",
        what="the switches next to the nodes; later called leaf",
        source="https://github.com/NVIDIA/topograph/blob/v0.1.0/docs/engines/k8s.md",
    ),
    FabricLabel(
        "topology.k8s.aws/network-node-layer-3",
        of="Amazon EKS",
        what="the bottom layer of the network, of most types of instances",
        source="https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology.html",
    ),
    FabricLabel(
        "cloud.google.com/gce-topology-block",
        of="Google GKE",
        what="the block, which has sub-blocks of few hosts",
        source="https://docs.nvidia.com/topograph/reference/node-labels-and-annotations (labels of clouds)",
    ),
    FabricLabel(
        "oci.oraclecloud.com/rdma.local_block_id",
        of="Oracle OKE",
        what="the local block, below network block and island",
        source="https://github.com/oracle-quickstart/oci-hpc-oke/blob/main/docs/"
        "using-rdma-network-locality-when-running-workloads-on-oke.md",
    ),
    FabricLabel(
        "backend.coreweave.cloud/leafgroup",
        of="CoreWeave",
        what="the group of leaf switches of a set of nodes",
        source="https://docs.coreweave.com/products/networking/hpc-interconnect/infiniband-roce-labels",
    ),
    FabricLabel(
        "ib.coreweave.cloud/leafgroup",
        of="CoreWeave, InfiniBand",
        what="the leaf group",
        source="https://docs.coreweave.com/docs/products/networking/reference/infiniband-labels",
    ),
)
"""In the order in which they are tried. Read, not tried on any of these clouds."""
FABRIC_KEYS = tuple(row.key for row in FABRIC)


def block_of(labels: Mapping[str, str], keys: Sequence[str] = FABRIC_KEYS) -> str:
    """Return the block that the first of these labels names which a node wears; empty where none does."""
    return next((labels[key] for key in keys if labels.get(key)), "")
