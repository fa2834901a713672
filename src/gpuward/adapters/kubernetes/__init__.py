"""A Kubernetes API server as the port Cluster. `in_cluster` and `from_kubeconfig` give the way to it."""

from gpuward.adapters.kubernetes.access import Access, in_cluster
from gpuward.adapters.kubernetes.cluster import KubernetesCluster
from gpuward.adapters.kubernetes.kubeconfig import from_kubeconfig

__all__ = ["Access", "KubernetesCluster", "from_kubeconfig", "in_cluster"]
