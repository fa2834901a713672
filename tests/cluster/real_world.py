"""A world on the real API server of the kit."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from gpuward.adapters.kubernetes import Access, KubernetesCluster
from gpuward.adapters.kubernetes.access import TrustFiles
from gpuward.adapters.kubernetes.watching import Quiet
from gpuward.model.resource import GPU_CASES, Resource
from tests.cluster.world import PAGE, SILENCE_SECONDS
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.controlplane.plane import ControlPlane, User
from tests.kit.ward import until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def access_of(plane: ControlPlane, user: User) -> Access:
    """Return the way of a user of the kit."""

    async def authorization(_: str | None) -> str:
        return f"Bearer {user.token}"

    return Access(plane.url, TrustFiles(plane.ca_file).context, authorization)


@contextlib.contextmanager
def defined(plane: ControlPlane, resource: Resource = GPU_CASES) -> Iterator[None]:
    """Serve a kind of ours while the body runs. A first object may take 2 s: the server waits for its other copies."""
    api, name = plane.admin.api, f"{resource.plural}.{resource.group}"
    api.post(_DEFINITIONS, _definition(resource)).ok()
    try:
        until(lambda: api.get(f"/apis/{resource.api_version}/{resource.plural}").good, f"{name} is served")
        yield
    finally:
        api.delete(f"{_DEFINITIONS}/{name}").ok()
        until(lambda: api.get(f"{_DEFINITIONS}/{name}").code == 404, f"{name} is gone")


class RealWorld:
    """Implements World with the kit; GPUCase must be defined before."""

    def __init__(self, kit: Kit, cluster: KubernetesCluster, forbidden: KubernetesCluster) -> None:
        self.kit = kit
        self.cluster = cluster
        self.forbidden = forbidden

    def name(self, word: str) -> str:
        """Return a name that no other test uses."""
        return self.kit.name(word)

    def namespace(self, word: str = "work") -> str:
        """Make a namespace and return its name."""
        return self.kit.namespace(word)

    def define(self, resource: Resource) -> None:
        """See that it is the one kind that is defined for all tests of a file."""
        assert resource is GPU_CASES

    def pod(self, namespace: str, word: str, *, labels: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        """Make a pod that runs on a node; no kubelet is there to end it."""
        api, name = self.kit.plane.admin.api, self.kit.name(word)
        api.post("/api/v1/nodes", {"metadata": {"name": self.kit.name("node")}})  # it may be there
        spec = {
            "nodeName": self.kit.name("node"),
            "containers": [{"name": "main", "image": "registry.example.com/it:1"}],
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        api.post(path, {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}).ok()
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pod: Mapping[str, Any] = api.patch(f"{path}/{name}/status", {"status": status}).ok()
        return pod

    def budget(self, namespace: str, word: str, *, labels: Mapping[str, str], allowed: int) -> str:
        """Make a PodDisruptionBudget with the status that a controller would give it."""
        api, name = self.kit.plane.admin.api, self.kit.name(word)
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        spec = {"minAvailable": 1, "selector": {"matchLabels": dict(labels)}}
        made = api.post(path, {"metadata": {"name": name}, "spec": spec}).ok()
        status = {
            "observedGeneration": made["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": allowed + 1,
            "desiredHealthy": 1,
            "expectedPods": allowed + 1,
        }
        api.patch(f"{path}/{name}/status", {"status": status}).ok()
        return name

    def forgotten(self, resource: Resource) -> str:
        """Return a version before the kind was defined: the server watches it only since then."""
        assert resource is GPU_CASES
        return "1"

    def frozen(self) -> AbstractContextManager[None]:
        """Stop the API server where it stands."""
        return self.kit.plane.frozen()

    def away(self) -> AbstractContextManager[None]:
        """Kill the API server and start it again."""
        return self.kit.plane.away()


@contextlib.asynccontextmanager
async def open_world(kit: Kit) -> AsyncIterator[RealWorld]:
    """Give the world of one test."""
    nobody = kit.plane.user(kit.name("nobody"))
    clusters = [
        KubernetesCluster(access_of(kit.plane, user), page=PAGE, quiet=Quiet(SILENCE_SECONDS, 1.0))
        for user in (kit.plane.admin, nobody)
    ]
    try:
        yield RealWorld(kit, *clusters)
    finally:
        for one in clusters:
            await one.close()


def _definition(resource: Resource) -> dict[str, Any]:
    gpu = {"type": "integer", "minimum": 0, "maximum": 15}
    free: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {**free, "properties": {"gpu": gpu}}, "status": free}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [version],
        },
    }
