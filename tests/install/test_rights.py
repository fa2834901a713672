"""What the accounts of an installation may do on a real API server: the controller what it must, the agents little."""

from typing import Any

import pytest

from gpuward.cli.manifests.installation import CONTROLLER
from gpuward.cli.manifests.rights import ON_CALL
from gpuward.model.objects.gpu_case import CaseSpec, CaseStatus
from gpuward.model.objects.pause import PAUSE, Pause, read_pause, write_pause
from gpuward.model.objects.shapes import shape_of
from gpuward.model.resource import CONFIG_MAPS, GPU_CASES, GPU_FAULTS, GPU_NODES
from tests.install.site import Site, gpu_fault, gpu_node, grant, path_of, put_status
from tests.kit import objects as kit
from tests.kit.controlplane.rest import JSON_PATCH, MERGE_PATCH
from tests.kit.ward import until

pytestmark = [pytest.mark.real, pytest.mark.long]
TAINT = {"key": "gpu.infra.status/hardware-fault", "value": "xid-79", "effect": "NoSchedule"}
_POD = {"metadata": {"name": "work"}, "spec": {"containers": [{"name": "main", "image": "example.com/train:1"}]}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/api/v1/nodes/{node}", {"spec": {"taints": [TAINT]}}),
        ("PATCH", "/api/v1/nodes/{node}/status", {"status": {}}),
        ("POST", "/api/v1/namespaces/default/pods/any/eviction", {"apiVersion": "policy/v1", "kind": "Eviction"}),
        ("DELETE", "/api/v1/namespaces/default/pods/any", None),
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/namespaces/{namespace}/secrets/any", None),
        ("GET", "/api/v1/namespaces/{namespace}/configmaps", None),
        ("GET", "/api/v1/pods", None),
        ("GET", "/api/v1/nodes/{node}", None),
        ("GET", "/apis/gpuward.io/v1alpha1/gpucases", None),
        ("POST", "/api/v1/namespaces/{namespace}/pods", _POD),
        ("DELETE", "/apis/gpuward.io/v1alpha1/gpunodes/{node}", None),
    ],
)
def test_an_agent_neither_taints_nor_evicts_nor_reads_secrets(site: Site, method: str, path: str, body: Any) -> None:
    node = site.node()
    place = path.format(node=node, namespace=site.installation.namespace)
    content = MERGE_PATCH if method == "PATCH" else "application/json"
    assert site.agent(node).request(method, place, body=body, content=content).code == 403


def test_the_controller_does_all_of_its_work(site: Site) -> None:
    controller, node = site.controller(), site.node()
    taint = [{"op": "add", "path": "/spec/taints", "value": [TAINT]}]
    controller.patch(f"/api/v1/nodes/{node}", taint, content=JSON_PATCH).ok()
    controller.patch(f"/api/v1/nodes/{node}/status", {"status": {"phase": "Running"}}).ok()
    pods = "/api/v1/namespaces/default/pods"
    site.api.post(pods, {**_POD, "metadata": {"name": node}}).ok()
    controller.patch(f"{pods}/{node}", {"metadata": {"annotations": {"gpuward.io/notice": "{}"}}}).ok()
    tolerated = {"key": "gpuward.io/reserved-for", "operator": "Exists"}
    tolerate = [{"op": "add", "path": "/spec/tolerations/-", "value": tolerated}]
    controller.patch(f"{pods}/{node}", tolerate, content=JSON_PATCH).ok()
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": node}}
    controller.post(f"{pods}/{node}/eviction", evict).ok()
    for path in (
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/apps/v1/daemonsets",
        "/apis/gpuward.io/v1alpha1/standbypools",
        f"/apis/coordination.k8s.io/v1/namespaces/{site.installation.namespace}/leases",
    ):
        assert controller.get(path).good, path
    assert controller.get("/apis/batch/v1/namespaces/default/jobs/none").code == 404, "one job is read by its name"
    assert controller.get("/apis/batch/v1/jobs").code == 403, "and no more of them"


def test_the_controller_works_on_every_kind_of_ours(site: Site) -> None:
    controller, node = site.controller(), site.node()
    controller.post(path_of(GPU_NODES), gpu_node(node)).ok()
    order = [{"op": "add", "path": "/spec", "value": {"mode": "isolate"}}]
    controller.patch(path_of(GPU_NODES, node), order, content=JSON_PATCH).ok()
    site.agent(node).post(path_of(GPU_FAULTS), gpu_fault(node)).ok()
    spec = kit.full(shape_of(CaseSpec))
    controller.post(path_of(GPU_CASES), {**gpu_node("c-1"), "kind": "GPUCase", "spec": spec}).ok()
    put_status(controller, path_of(GPU_CASES, "c-1"), kit.full(shape_of(CaseStatus))).ok()
    for path in (path_of(GPU_CASES, "c-1"), path_of(GPU_FAULTS, f"{node}.1a2b3c4d.k1"), path_of(GPU_NODES, node)):
        controller.delete(path).ok()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/secrets", None),
        ("DELETE", "/api/v1/nodes/any", None),
        ("POST", "/api/v1/namespaces/default/pods", _POD),
        ("POST", "/apis/batch/v1/namespaces/{namespace}/jobs", {}),
        ("PATCH", "/apis/gpuward.io/v1alpha1/gpucases/any", {}),
        ("PATCH", "/apis/gpuward.io/v1alpha1/gpufaults/any", {}),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/gpuward-controller", {}),
        ("POST", "/api/v1/namespaces/{namespace}/serviceaccounts/gpuward-agent/token", {}),
    ],
)
def test_the_controller_can_do_no_more_than_that(site: Site, method: str, path: str, body: Any) -> None:
    place = path.format(namespace=site.installation.namespace)
    content = MERGE_PATCH if method == "PATCH" else "application/json"
    assert site.account(CONTROLLER).api.request(method, place, body=body, content=content).code == 403


def test_people_who_may_view_a_cluster_see_ours_and_people_on_call_give_orders(site: Site) -> None:
    viewer, on_call = site.plane.user("viewer"), site.plane.user("on-call")
    grant(site, "view", viewer.name)  # aggregated by the cluster's own controllers, which do not run here
    grant(site, "gpuward-view", viewer.name)
    grant(site, ON_CALL, on_call.name)
    spec = kit.full(shape_of(CaseSpec))
    site.api.post(path_of(GPU_CASES), {**gpu_node("c-2"), "kind": "GPUCase", "spec": spec}).ok()
    path = path_of(GPU_CASES, "c-2")
    until(lambda: viewer.api.get(path).good and on_call.api.get(path).good, "both may look")
    for person in (viewer, on_call):
        person.api.get("/api/v1/nodes").ok()  # which have GPUs and no agent
        assert person.api.patch("/api/v1/nodes/any", {}).code == 403
    assert on_call.api.get("/api/v1/pods").code == 403
    order = {"spec": {"orders": [{"number": 2, "what": "release"}]}}
    assert viewer.api.patch(path, order).code == 403
    on_call.api.patch(path, order).ok()
    assert on_call.api.patch(f"{path}/status", {"status": {"state": "closed"}}).code == 403
    assert on_call.api.delete(path).code == 403
    site.api.delete(path).ok()


def test_people_on_call_pause_the_fleet_and_can_change_no_other_configuration(site: Site) -> None:
    on_call, where = site.plane.user("pausing"), site.installation.namespace
    grant(site, ON_CALL, on_call.name)
    maps = path_of(CONFIG_MAPS, namespace=where)
    paused = [{"op": "add", "path": "/data", "value": write_pause(Pause(on=True, by="alice", at=0.0))}]
    until(lambda: on_call.api.get(f"{maps}/{PAUSE}").good, "it is there from the beginning")
    on_call.api.patch(f"{maps}/{PAUSE}", paused, content=JSON_PATCH).ok()
    assert on_call.api.patch(f"{maps}/gpuward-settings", paused, content=JSON_PATCH).code == 403
    assert on_call.api.post(maps, {"metadata": {"name": "another"}}).code == 403
    assert on_call.api.get(maps).code == 403
    controller = site.controller()
    chosen = f"fieldSelector=metadata.name%3D{PAUSE}"
    (seen,) = controller.get(f"{maps}?{chosen}").ok()["items"]
    assert read_pause(seen).by == "alice"
    assert controller.get(maps).code == 403
    assert controller.patch(f"{maps}/{PAUSE}", paused, content=JSON_PATCH).code == 403
    on_call.api.patch(f"{maps}/{PAUSE}", [{"op": "remove", "path": "/data"}], content=JSON_PATCH).ok()
