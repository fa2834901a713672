"""A whole life on the real API server: a GPU falls ill where two jobs run, and a node stands by.

The agents are real processes; kubelet and scheduler are played. What is left is told without names, ids and times.
"""

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuward.model.objects.owned import CHECKPOINT, RESERVED, STANDBY
from gpuward.model.resource import (
    EVENTS,
    GPU_FAULTS,
    GPU_NODES,
    JOBS,
    NODES,
    PODS,
    STANDBY_POOLS,
    Resource,
)
from gpuward.sim.machines import machine as machines
from tests.install.site import Site, path_of, put_status
from tests.kit.brakes import OPEN_BRAKES
from tests.kit.controlplane.rest import JSON_PATCH
from tests.kit.ward import until
from tests.together.test_node_and_controller import Node

GPUS = 2
SICK = 1
"""The place of the GPU that falls ill."""
POOL = "h100"
ENDING_SECONDS = 3.0
"""How long a pod takes to end: longer than the next leader takes to lead, which finds it ending."""
SETTINGS = f"""
[controller]
probation_seconds = 1
[eviction]
save_seconds = 1
[brake]
share = 1.0
{OPEN_BRAKES}"""
_SPACE = "default"
_IMAGE = "registry.example.com/train:1"


@dataclass
class Life:
    """A node that falls ill and the one that stands by, with their jobs."""

    site: Site
    sick: Node
    spare: Node
    told: dict[str, Any]
    """The job that wants to be told, as its pods name it; one of them waits for a node."""
    other: dict[str, Any]

    def is_over(self) -> bool:
        """Let the waiting pod run where it may, and return whether nothing is left to do."""
        asked = self._get(GPU_NODES, self.sick.name).get("spec", {}).get("orders", ())
        runs = self.bind()
        given = self._get(STANDBY_POOLS, POOL).get("status", {}).get("promoted", ())
        is_settled = bool(given) and all("freedAt" in one and "refilledAt" in one for one in given)
        is_closed = self.sick.state() == "closed" and not asked and not taints(self.spare)
        return runs and is_settled and is_closed

    def bind(self) -> bool:
        """Put the waiting pod on the standby as soon as it tolerates what is there; return whether it is there."""
        name = f"waits-{self.told['name']}"
        spec = self._get(PODS, name)["spec"]
        if "nodeName" not in spec and any(one.get("key") == RESERVED for one in spec.get("tolerations", ())):
            target = {"apiVersion": "v1", "kind": "Node", "name": self.spare.name}
            place = f"{path_of(PODS, name, namespace=_SPACE)}/binding"
            self.site.api.post(place, {"metadata": {"name": name}, "target": target}).ok()
        return "nodeName" in spec

    def left(self) -> dict[str, Any]:
        """Return what there is of it now, with its own names, ids and times taken out."""
        nodes = {one.name: self._node(one) for one in (self.sick, self.spare)}
        uids = (self.told["uid"], self.other["uid"])
        found = {
            "nodes": nodes,
            "case": self._case(),
            "pods": [
                _pod(one) for one in self._all(PODS, _SPACE) if one["metadata"]["ownerReferences"][0]["uid"] in uids
            ],
            "pool": _pool(self._get(STANDBY_POOLS, POOL)["status"]),
            "jobs": [one["metadata"]["name"] for one in self._all(JOBS, self.site.installation.namespace)],
            "gpus": [asdict(gpu) for gpu in self.sick.machine.state().gpus],
        }
        left: dict[str, Any] = self.anonymous(found)
        return left

    def events(self) -> Counter[str]:
        """Return what people were told of it, each with how often."""
        told: Counter[str] = Counter()
        for one in self._all(EVENTS, _SPACE):
            about, case = one["regarding"], one.get("related", {}).get("name", "")
            if case == self.sick.case()["metadata"]["name"]:
                told[f"{one['reason']} {about['kind']} {about['name']}"] += one.get("series", {}).get("count", 1)
        return Counter(self.anonymous(dict(told)))

    def anonymous(self, found: dict[str, Any]) -> Any:
        """Return the same without the names of this life."""
        words = {
            self.sick.name: "SICK",
            self.spare.name: "SPARE",
            self.told["name"]: "TOLD",
            self.other["name"]: "OTHER",
        }
        text = json.dumps(found, sort_keys=True)
        for name, word in words.items():
            text = text.replace(name, word)
        return json.loads(text)

    def _node(self, node: Node) -> dict[str, Any]:
        found, ours = self._get(NODES, node.name), self._get(GPU_NODES, node.name)
        return {
            "taints": taints(node),
            "labels": found["metadata"].get("labels", {}),
            "annotations": found["metadata"].get("annotations", {}),
            "cordoned": found["spec"].get("unschedulable", False),
            "conditions": _conditions(found),
            "spec": ours["spec"],
            "answers": [one.get("outcome") for one in ours["status"].get("orders", ())],
        }

    def _case(self) -> dict[str, Any]:
        found = self.sick.case()
        status = found["status"]
        fault = self._get(GPU_FAULTS, found["spec"]["fault"])["status"]["judged"]
        return {
            "plan": found["spec"]["plan"],
            "state": status["state"],
            "effects": [(one["kind"], one["outcome"]) for one in status["effects"]],
            "victims": [(one["pod"], one["owner"], "goneAt" in one) for one in status["victims"]],
            "standby": status["standby"],
            "noticed": [(one["generation"], one.get("pods", 0)) for one in status.get("noticed", ())],
            "moves": [one["state"] for one in status["timeline"] if one["what"] == "moved"],
            "judged": (fault["level"], fault["class"], fault["case"] == found["metadata"]["name"]),
        }

    def _get(self, resource: Resource, name: str) -> Any:
        space = _SPACE if resource is PODS else None
        return self.site.api.get(path_of(resource, name, namespace=space)).ok()

    def _all(self, resource: Resource, namespace: str) -> list[Any]:
        items: list[Any] = self.site.api.get(path_of(resource, namespace=namespace)).ok()["items"]
        return items


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    tolerated = [one["key"] for one in pod["spec"].get("tolerations", ())]
    notice = json.loads(pod["metadata"].get("annotations", {}).get("gpuward.io/notice", "{}"))
    return {
        "name": pod["metadata"]["name"],
        "node": pod["spec"].get("nodeName"),
        "ends": "deletionTimestamp" in pod["metadata"],
        "tolerated": sorted(tolerated),
        "notice": (notice.get("verb"), notice.get("generation")),
    }


def _conditions(node: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in node["status"]["conditions"]}


def _pool(status: Mapping[str, Any]) -> dict[str, Any]:
    promoted = [(one["node"], "freedAt" in one, "refilledAt" in one) for one in status["promoted"]]
    return {"ready": status.get("ready"), "short": status.get("short"), "promoted": promoted}


def taints(node: Node) -> dict[str, str]:
    """Return the taints of a node by key."""
    found = node.api.get(path_of(NODES, node.name)).ok()["spec"].get("taints", [])
    return {one["key"]: one.get("value", "") for one in found}


@contextmanager
def life(site: Site, folder: Path) -> Iterator[Life]:
    """Give all of it, well and with agents at work, while the body runs."""
    folder.mkdir()
    sick, spare = _node(site, folder / "sick"), _node(site, folder / "spare")
    _taint(spare, [{"key": STANDBY, "effect": "NoSchedule"}])
    told, other = _job(site, "llm"), _job(site, "prepare")
    pod_of(site, f"runs-{told['name']}", told, sick.name, gpus=1)
    pod_of(site, f"waits-{told['name']}", told, None, gpus=1)
    pod_of(site, f"runs-{other['name']}", other, sick.name, gpus=0)
    kind = {"apiVersion": STANDBY_POOLS.api_version, "kind": STANDBY_POOLS.kind}
    shape = {"product": "NVIDIA-H100-80GB-HBM3", "count": GPUS}
    pool = {**kind, "metadata": {"name": POOL}, "spec": {"shape": shape, "size": 1}}
    site.api.post(path_of(STANDBY_POOLS), pool).ok()
    with ExitStack() as stack:
        stack.callback(_taken_away, site, (sick.name, spare.name))
        for one in (sick, spare):
            stack.enter_context(one.agent())
        stack.enter_context(sick.kubelet())
        until(lambda: all(_has_told(one) for one in (sick, spare)), "both agents have told of their nodes")
        yield Life(site, sick, spare, told, other)


def _taken_away(site: Site, nodes: Sequence[str]) -> None:
    """Take away what the next life would take for its own."""
    site.api.delete(path_of(STANDBY_POOLS, POOL)).ok()
    for name in nodes:
        site.api.delete(path_of(NODES, name)).ok()
        site.api.delete(path_of(GPU_NODES, name))


def _node(site: Site, folder: Path) -> Node:
    """Make a node that is a pretend machine, with nothing on it."""
    folder.mkdir()
    machine = machines.build(folder / "machine", count=GPUS)
    machine.nvml()
    node = Node(site, machine, folder, site.node(), ending_seconds=ENDING_SECONDS)
    room = {"cpu": "8", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": str(GPUS)}
    ready = {"type": "Ready", "status": "True", "reason": "Played", "message": "played"}
    put_status(site.api, path_of(NODES, node.name), {"capacity": room, "allocatable": room, "conditions": [ready]}).ok()
    _taint(node, [])  # what is new is tainted as not ready
    return node


def _taint(node: Node, worn: list[dict[str, str]]) -> None:
    """Have these taints on a node, and no others."""
    operation = {"op": "add", "path": "/spec/taints", "value": worn}
    node.api.patch(path_of(NODES, node.name), [operation], content=JSON_PATCH).ok()


def _job(site: Site, word: str) -> dict[str, Any]:
    """Make a job whose controller is not there; return the reference to it."""
    name = f"{word}-{secrets.token_hex(3)}"
    template = {"spec": {"containers": [{"name": "c", "image": _IMAGE}], "restartPolicy": "Never"}}
    body = {"metadata": {"name": name}, "spec": {"template": template}}
    uid = site.api.post(path_of(JOBS, namespace=_SPACE), body).ok()["metadata"]["uid"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}


def pod_of(site: Site, name: str, owner: Mapping[str, Any], node: str | None, *, gpus: int) -> None:
    """Make a pod of a job, on a node or waiting for one; one with GPUs wants to be told."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    spec = {"containers": [{"name": "c", "image": _IMAGE, **limits}], "serviceAccountName": "default"}
    labels = {"batch.kubernetes.io/job-name": owner["name"]} | ({CHECKPOINT: "true"} if gpus else {})
    body = {
        "metadata": {"name": name, "ownerReferences": [owner], "labels": labels},
        "spec": {**spec, **({"nodeName": node} if node else {})},
    }
    site.api.post(path_of(PODS, namespace=_SPACE), body).ok()


def _has_told(node: Node) -> bool:
    """Return whether the agent of a node has told of its GPUs."""
    reply = node.api.get(path_of(GPU_NODES, node.name))
    return reply.good and len(reply.body().get("status", {}).get("gpus", ())) == GPUS
