"""What the DaemonSet controller does, with the scheduler and kubelet for its pods: one on each node that shall have it.

A pod whose node no longer has the labels goes; one under a NoSchedule taint that it does not tolerate stays, and is not
made again once it is gone. Held against the real controllers by the tests of `gpuward preflight`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuward.model.daemon_set import DaemonSetSight, daemon_set_of
from gpuward.model.objects.owned import Taint
from gpuward.model.resource import DAEMON_SETS, NODES, PODS
from gpuward.sim.cluster.server import Server

_STATUS = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def place_daemons(server: Server) -> None:
    """Make and delete the pods of all DaemonSets as is due now; a pod that is made runs at once."""
    nodes = server.list(NODES).items
    pods = server.list(PODS).items
    for found in server.list(DAEMON_SETS).items:
        wanted, there = daemon_set_of(found), _pods_by_node(pods, found["metadata"]["uid"])
        for node in nodes:
            name = node["metadata"]["name"]
            if name not in there and _should_run(wanted, node):
                _make(server, found, name)
            elif name in there and not _may_stay(wanted, node):
                server.delete(PODS, there[name], namespace=wanted.namespace)


def _pods_by_node(pods: Any, uid: str) -> dict[str, str]:
    """Return the pods of a DaemonSet by node; one that is ending still is one, as the controller counts."""
    return {
        pod["spec"].get("nodeName", ""): pod["metadata"]["name"]
        for pod in pods
        if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ()))
    }


def _should_run(wanted: DaemonSetSight, node: Mapping[str, Any]) -> bool:
    return _is_chosen(wanted, node) and all(wanted.bears(taint, value) for taint, value in _taints(node))


def _may_stay(wanted: DaemonSetSight, node: Mapping[str, Any]) -> bool:
    ends = ((taint, value) for taint, value in _taints(node) if taint.effect == "NoExecute")
    return _is_chosen(wanted, node) and all(wanted.bears(taint, value) for taint, value in ends)


def _is_chosen(wanted: DaemonSetSight, node: Mapping[str, Any]) -> bool:
    labels = node["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in wanted.chosen.items())


def _taints(node: Mapping[str, Any]) -> Iterator[tuple[Taint, str]]:
    for one in node["spec"].get("taints", ()):
        yield Taint(one["key"], one["effect"]), one.get("value", "")


def _make(server: Server, found: Mapping[str, Any], node: str) -> None:
    metadata, template = found["metadata"], found["spec"]["template"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": metadata["name"], "uid": metadata["uid"]}
    labels = (template.get("metadata") or {}).get("labels", {})
    made = {"generateName": f"{metadata['name']}-", "labels": dict(labels), "ownerReferences": [owner | _CONTROLS]}
    body = {"metadata": made, "spec": {**template["spec"], "nodeName": node}}
    pod = server.create(PODS, body, namespace=metadata["namespace"])
    status = [{"op": "add", "path": "/status", "value": _STATUS}]
    server.patch(PODS, pod["metadata"]["name"], status, namespace=metadata["namespace"], subresource="status")


_CONTROLS = {"controller": True, "blockOwnerDeletion": True}
