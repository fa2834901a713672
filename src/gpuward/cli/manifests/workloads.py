"""The programs: an agent on every GPU server, and the controller away from them. What they do is not here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.cli.manifests.installation import (
    AGENT,
    CONTROLLER,
    LABELS,
    NAME,
    SETTINGS,
    SETTINGS_DIR,
    SETTINGS_FILE,
    Installation,
    named,
)
from gpuward.model.gpu_server import GPU_NODE, GPU_SERVER

REPLICAS = 2
END_SECONDS = 180
"""How long an agent may take to end: a reset that is under way is waited for."""
METRICS_PORT = 9464
_SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": str(METRICS_PORT), "prometheus.io/path": "/metrics"}
"""By these annotations a Prometheus that looks at all pods finds the numbers."""
_PRIORITY = 1_000_000_000
"""The highest that is not the system's own."""


@dataclass(frozen=True, slots=True)
class HostPath:
    """A folder of the host that the agent sees at the same place; one that has to be there, unless it is `made`."""

    name: str
    path: str
    made: bool = False
    read_only: bool = False
    follows: bool = False
    """Also sees what the host mounts there later."""


HOST_PATHS = (
    HostPath("dev", "/dev"),
    HostPath("sys", "/sys"),
    HostPath("nvidia", "/run/nvidia", made=True, follows=True),
    HostPath("state", "/var/lib/gpuward", made=True),
    HostPath("pod-resources", "/var/lib/kubelet/pod-resources", made=True, read_only=True),
    HostPath("pod-logs", "/var/log/pods", made=True, read_only=True),
)
"""The driver of a container is under /run/nvidia/driver, which comes and goes with it, so its parent is what is seen.
The kubelet tells a pod by its name at the socket in its folder, and the names of the folders of logs tell its UID.
/proc needs none: with the host's processes the pod's own is the host's, and a second one over it is not allowed."""


def workloads(installation: Installation) -> tuple[dict[str, Any], ...]:
    """Return the programs, and what keeps them running."""
    return (_priority(), _agents(installation), _controllers(installation), _budget(installation))


def _priority() -> dict[str, Any]:
    says = "gpuward: a node's work may go, what isolates its GPUs may not"
    return named("scheduling.k8s.io/v1", "PriorityClass", "gpuward", value=_PRIORITY, description=says)


def _agents(installation: Installation) -> dict[str, Any]:
    spec = {
        "selector": {"matchLabels": {NAME: AGENT}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": _template(AGENT, _agent_pod(installation)),
    }
    return named("apps/v1", "DaemonSet", AGENT, namespace=installation.namespace, spec=spec)


def _where(installation: Installation) -> tuple[str, str]:
    """Return the words that say where the Leases and the pause are: in the namespace of the installation."""
    return "--namespace", installation.namespace


def _agent_pod(installation: Installation) -> dict[str, Any]:
    container = {
        "name": "agent",
        "image": installation.image,
        "args": ["agent", "--node", "$(NODE_NAME)", *_where(installation)],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {"privileged": True, "runAsUser": 0, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [*map(_mount, HOST_PATHS), *_COMMON_MOUNTS],
    }
    return {
        "serviceAccountName": AGENT,
        "priorityClassName": "gpuward",
        "hostPID": True,
        "terminationGracePeriodSeconds": END_SECONDS,
        # Whatever taint a node wears: a pool has a key of its own, a site has others, and who is put off sees no fault.
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": _required([[_asked(key, "Exists")] for key in GPU_NODE])},
        "containers": [container],
        "volumes": [*map(_volume, HOST_PATHS), *_COMMON_VOLUMES],
    }


def _controllers(installation: Installation) -> dict[str, Any]:
    spec = {
        "replicas": REPLICAS,
        # None in excess: on two nodes a third one, which must be apart from both, would be waited for for ever.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "selector": {"matchLabels": {NAME: CONTROLLER}},
        "template": _template(CONTROLLER, _controller_pod(installation), annotations=_SCRAPED),
    }
    return named("apps/v1", "Deployment", CONTROLLER, namespace=installation.namespace, spec=spec)


def _controller_pod(installation: Installation) -> dict[str, Any]:
    unprivileged = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    container = {
        "name": "controller",
        "image": installation.image,
        "args": [
            *("controller", "--config", f"{SETTINGS_DIR}/{SETTINGS_FILE}"),
            *("--metrics-port", str(METRICS_PORT), *_where(installation)),
        ],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "timeoutSeconds": 5},
        "securityContext": unprivileged,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": list(_COMMON_MOUNTS),
    }
    apart = {"labelSelector": {"matchLabels": {NAME: CONTROLLER}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "serviceAccountName": CONTROLLER,
        "priorityClassName": "gpuward",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # On a small cluster the nodes without GPUs are those of the control plane.
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": _required([[_asked(key, "DoesNotExist") for key in GPU_SERVER]]),
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
        },
        "containers": [container],
        "volumes": list(_COMMON_VOLUMES),
    }


def _budget(installation: Installation) -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {NAME: CONTROLLER}}}
    return named("policy/v1", "PodDisruptionBudget", CONTROLLER, namespace=installation.namespace, spec=spec)


def _template(name: str, pod: dict[str, Any], *, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    noted = {"annotations": dict(annotations)} if annotations else {}
    return {"metadata": {"labels": {**LABELS, NAME: name}, **noted}, "spec": pod}


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}}


def _mount(place: HostPath) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": place.name, "mountPath": place.path}
    if place.read_only:
        mount["readOnly"] = True
    if place.follows:
        mount["mountPropagation"] = "HostToContainer"
    return mount


def _volume(place: HostPath) -> dict[str, Any]:
    form = "DirectoryOrCreate" if place.made else "Directory"
    return {"name": place.name, "hostPath": {"path": place.path, "type": form}}


_COMMON_MOUNTS = (
    {"name": "settings", "mountPath": SETTINGS_DIR, "readOnly": True},
    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  a volume of the pod's own
)
_COMMON_VOLUMES = (
    {"name": "settings", "configMap": {"name": SETTINGS}},
    {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
)


def _required(terms: list[list[dict[str, str]]]) -> dict[str, Any]:
    """Return that a node must fulfil all of one of these terms."""
    either = [{"matchExpressions": term} for term in terms]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": either}}


def _asked(key: str, operator: str) -> dict[str, str]:
    return {"key": key, "operator": operator}
