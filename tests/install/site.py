"""gpuward installed on the real control plane, and who may ask it there."""

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import AGENT, CONTROLLER, Installation
from gpuward.cli.manifests.places import name_of, namespace_of, place_of
from gpuward.model.resource import GPU_FAULTS, GPU_NODES, LEASES, OURS, Resource
from tests.kit.controlplane.plane import ControlPlane, User
from tests.kit.controlplane.rest import JSON_PATCH, Api, Reply
from tests.kit.controlplane.sweep import seen, sweep
from tests.kit.ward import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def path_of(resource: Resource, name: str = "", *, namespace: str | None = None) -> str:
    """Return the path of an object, or of all of its kind."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{resource.plural}" + (f"/{name}" if name else "")


def apply(api: Api, objects: Iterable[Mapping[str, Any]]) -> None:
    """Create the objects one after the other, as the server checks them strictly: an unknown field is an error."""
    for one in objects:
        path = path_of(place_of(one), namespace=namespace_of(one))
        reply = api.post(f"{path}?fieldValidation=Strict", one)
        assert reply.good, f"{one['kind']} {name_of(one)}: {reply.code} {reply.text}"


@contextlib.contextmanager
def installed(plane: ControlPlane, installation: Installation | None = None) -> Iterator["Site"]:
    """Install gpuward while the body runs, and take away all that came since."""
    api = plane.admin.api
    before = seen(api)
    try:
        site = Site(plane, installation or Installation())
        apply(api, manifests(site.installation))
        site.await_served()
        yield site
    finally:
        sweep(api, before)


@dataclass(frozen=True, slots=True)
class Site:
    """An installation on a control plane."""

    plane: ControlPlane
    installation: Installation

    @property
    def api(self) -> Api:
        """The server as its administrator sees it."""
        return self.plane.admin.api

    def await_served(self) -> None:
        """Wait until objects of our kinds can be kept, and the policies forbid what they should."""
        until(lambda: all(self.api.get(path_of(one)).good for one in OURS), "our kinds are served")
        agent = self.account(AGENT)
        with self.wide(agent.name):
            until(lambda: self._forbids(agent), "the policies forbid a token that names no node")

    def _forbids(self, agent: User) -> bool:
        namespace = self.installation.namespace
        asked = (
            agent.api.post(f"{path_of(GPU_NODES)}?dryRun=All", gpu_node("nowhere")),
            agent.api.post(f"{path_of(LEASES, namespace=namespace)}?dryRun=All", {"metadata": {"name": "nobodys"}}),
        )
        return all(reply.code == 403 and "bound to a node" in reply.text for reply in asked)

    def node(self, word: str = "gpu") -> str:
        """Make a node and return its name."""
        name = f"{word}-{secrets.token_hex(3)}"
        self.api.post("/api/v1/nodes", {"metadata": {"name": name}}).ok()
        return name

    def account(self, account: str) -> User:
        """Return a service account with a token that is bound to nothing."""
        return self.plane.service_account(self.installation.namespace, account)

    def agent(self, node: str) -> Api:
        """Return the server as the agent of a node sees it: its token is bound to the node."""
        uid = self.api.get(f"/api/v1/nodes/{node}").ok()["metadata"]["uid"]
        bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        return self.plane.service_account(self.installation.namespace, AGENT, bound_to=bound).api

    def controller(self) -> Api:
        """Return the server as the controller sees it."""
        return self.account(CONTROLLER).api

    @contextlib.contextmanager
    def wide(self, user: str) -> Iterator[None]:
        """Let a user do all that RBAC can allow, while the body runs, so that only the policy stands in the way."""
        name = f"wide-{secrets.token_hex(3)}"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        }
        self.api.post(f"{RBAC}/clusterrolebindings", binding).ok()
        try:
            until(lambda: self._may_all(user), f"{user} may do everything")
            yield
        finally:
            self.api.delete(f"{RBAC}/clusterrolebindings/{name}").ok()
            until(lambda: not self._may_all(user), f"{user} may no longer do everything")

    def _may_all(self, user: str) -> bool:
        everything = {"verb": "*", "group": "*", "resource": "*"}
        review = {"spec": {"user": user, "resourceAttributes": everything}}
        reply = self.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(reply.ok()["status"]["allowed"])


def grant(site: Site, role: str, user: str) -> None:
    """Let a user do what a role allows, everywhere."""
    binding = {
        "metadata": {"generateName": "granted-"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    site.api.post(f"{RBAC}/clusterrolebindings", binding).ok()


def gpu_node(name: str, **more: Any) -> dict[str, Any]:
    """Return the smallest GPUNode."""
    return {"apiVersion": GPU_NODES.api_version, "kind": "GPUNode", "metadata": {"name": name}, **more}


def node_status(**more: Any) -> dict[str, Any]:
    """Return the smallest status of a GPUNode."""
    return {"agentVersion": "0.1", "boot": "1a2b3c4d", "mode": "observe", **more}


def gpu_fault(node: str, cursor: str = "k1", *, name: str | None = None, **spec: Any) -> dict[str, Any]:
    """Return a GPUFault of a node, by default under the name that it must have."""
    verdict = {
        "level": "P0",
        "class": "hardware",
        "action": "RESTART_BM",
        "because": "It fell off the bus.",
        "rules": [],
        "waits": False,
        "parks": False,
    }
    whole = {
        "nodeName": node,
        "boot": "1a2b3c4d",
        "cursor": cursor,
        "kind": "xid",
        "code": 79,
        "title": "GPU has fallen off the bus",
        "level": "P0",
        "class": "hardware",
        "verdict": verdict,
        "first": {},
        "last": {},
        "count": 1,
        "gpu": "0000:3b:00",
        **spec,
    }
    metadata = {"name": f"{node}.{whole['boot']}.{whole['cursor']}" if name is None else name}
    return {"apiVersion": GPU_FAULTS.api_version, "kind": "GPUFault", "metadata": metadata, "spec": whole}


def put_status(api: Api, path: str, status: Mapping[str, Any]) -> Reply:
    """Write a status by JSON patch, as agents and controllers do."""
    return api.patch(f"{path}/status", [{"op": "add", "path": "/status", "value": status}], content=JSON_PATCH)
