"""Under which resource the API server keeps each kind of object that an installation has, as rows."""

from collections.abc import Mapping
from typing import Any

from gpuward.model.resource import CONFIG_MAPS, DAEMON_SETS, DISRUPTION_BUDGETS, NAMESPACES, Resource

_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
PLACES = (
    NAMESPACES,
    DEFINITIONS,
    Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
    Resource(
        _ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
    ),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_RBAC, "v1", "roles", "Role", namespaced=True),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding", namespaced=True),
    Resource(_FLOW, "v1", "flowschemas", "FlowSchema", namespaced=False),
    Resource(_FLOW, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False),
    CONFIG_MAPS,
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    DAEMON_SETS,
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    DISRUPTION_BUDGETS,
)
_BY_KIND = {(place.api_version, place.kind): place for place in PLACES}


def place_of(manifest: Mapping[str, Any]) -> Resource:
    """Return the resource that an object of an installation belongs to."""
    return _BY_KIND[manifest["apiVersion"], manifest["kind"]]


def name_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of an object."""
    return str(manifest["metadata"]["name"])


def namespace_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the namespace of an object, None where it is in none."""
    namespace: str | None = manifest["metadata"].get("namespace")
    return namespace


def deletion_of(manifest: Mapping[str, Any]) -> str:
    """Return the kubectl command that deletes an object."""
    place, namespace = place_of(manifest), namespace_of(manifest)
    kind = f"{place.plural}.{place.group}" if place.group else place.plural
    where = f" --namespace {namespace}" if namespace else ""
    return f"kubectl delete --ignore-not-found {kind} {name_of(manifest)}{where}"
