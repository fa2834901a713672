"""The kinds of objects of a cluster that gpuward reads or writes, as rows. What is done with them is not here."""

from dataclasses import dataclass

GROUP = "gpuward.io"
VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, as the API server names it; `group` is empty for the core."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """What stands in an object's `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
JOBS = Resource("batch", "v1", "jobs", "Job", namespaced=True)
SELF_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
"""Never kept: the server answers who asks."""
GPU_NODES = Resource(GROUP, VERSION, "gpunodes", "GPUNode", namespaced=False)
GPU_FAULTS = Resource(GROUP, VERSION, "gpufaults", "GPUFault", namespaced=False)
GPU_CASES = Resource(GROUP, VERSION, "gpucases", "GPUCase", namespaced=False)
STANDBY_POOLS = Resource(GROUP, VERSION, "standbypools", "StandbyPool", namespaced=False)

RESOURCES = (
    NODES,
    PODS,
    NAMESPACES,
    EVENTS,
    LEASES,
    DISRUPTION_BUDGETS,
    DAEMON_SETS,
    CONFIG_MAPS,
    JOBS,
    GPU_NODES,
    GPU_FAULTS,
    GPU_CASES,
    STANDBY_POOLS,
)
OWN_NAMESPACE = "gpuward-system"
"""Where gpuward itself is, unless told otherwise."""
OURS = tuple(row for row in RESOURCES if row.group == GROUP)
"""The kinds that gpuward brings: it installs their definitions."""
