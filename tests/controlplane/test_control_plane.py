"""The real control plane: what it answers, who may ask it, what runs on it, and that it never outlives the tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.controlplane import sweep
from tests.kit.controlplane.fixtures import Cluster
from tests.kit.controlplane.folder import sweep_folders
from tests.kit.controlplane.parts import KUBERNETES, Part
from tests.kit.controlplane.plane import ControlPlane, NotReady
from tests.kit.controlplane.rest import JSON_PATCH, Api
from tests.kit.ward import until

pytestmark = [pytest.mark.real, pytest.mark.long]
NODE_NAME = "authentication.kubernetes.io/node-name"


def definition(plural: str) -> dict[str, Any]:
    """Return a custom resource definition with a status of its own."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"gpu": {"type": "integer", "maximum": 15}}},
            "status": {"type": "object", "properties": {"state": {"type": "string"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kit.example.com"},
        "spec": {
            "group": "kit.example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def define(api: Api, plural: str) -> str:
    """Make a custom resource and return the path of its objects, once they are served."""
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(plural)).ok()
    path = f"/apis/kit.example.com/v1/{plural}"
    until(lambda: api.get(path).good, f"{path} is served")
    return path


def thing(plural: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "kit.example.com/v1", "kind": plural.capitalize(), "metadata": {"name": name}, **fields}


def make_node(cluster: Cluster, word: str = "node", **labels: str) -> str:
    name = cluster.name(word)
    cluster.plane.admin.api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}}).ok()
    return name


def make_account(cluster: Cluster, namespace: str, name: str = "agent") -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.plane.admin.api.post(path, {"metadata": {"name": name}}).ok()
    return name


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.example.com/train:1"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def who_am_i(api: Api) -> Any:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review).ok()["status"]["userInfo"]


def is_ready(node: Any) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def runs(pid: int) -> bool:
    """Say whether a process still does anything; one that is dead and not yet fetched by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_is_ready_and_of_the_version_that_was_built(control_plane: ControlPlane) -> None:
    assert control_plane.admin.api.get("/readyz").text == "ok"
    version = control_plane.admin.api.get("/version").ok()["gitVersion"]
    assert control_plane.binaries is not None
    assert version == f"v{KUBERNETES}" or control_plane.binaries.ready, "ready binaries are of whatever version"


def test_an_object_of_a_custom_resource_is_read_back_as_a_real_server_keeps_it(cluster: Cluster) -> None:
    api = cluster.plane.admin.api
    path = define(api, "things")
    made = api.post(path, thing("things", "one", spec={"gpu": 5}, status={"state": "drained"}))
    assert made.code == 201
    kept = api.get(f"{path}/one").ok()
    assert kept["spec"] == {"gpu": 5}
    assert "status" not in kept, "a CREATE drops the status"
    api.patch(f"{path}/one/status", {"status": {"state": "idle"}}).ok()
    assert api.get(f"{path}/one").ok()["status"] == {"state": "idle"}
    assert api.post(path, thing("things", "two", spec={"gpu": 16})).code == 422
    assert api.post(path, thing("things", "one")).code == 409
    wrong = [{"op": "test", "path": "/spec/gpu", "value": 4}, {"op": "replace", "path": "/spec/gpu", "value": 6}]
    assert api.patch(f"{path}/one", wrong, content=JSON_PATCH).code == 422


def test_only_a_known_token_gets_in(control_plane: ControlPlane) -> None:
    path = "/api/v1/nodes"
    assert control_plane.admin.api.get(path).code == 200
    assert Api(control_plane.url, control_plane.ca_file, "not-a-token").get(path).code == 401
    assert control_plane.anonymous.get(path).code == 403


def test_the_kubeconfig_says_all_that_is_needed(control_plane: ControlPlane) -> None:
    config = json.loads(control_plane.admin.kubeconfig.read_text("utf-8"))
    server = config["clusters"][0]["cluster"]
    api = Api(server["server"], Path(server["certificate-authority"]), config["users"][0]["user"]["token"])
    assert who_am_i(api)["username"] == "admin"
    assert control_plane.admin.kubeconfig.stat().st_mode & 0o077 == 0


def test_a_user_made_while_it_runs_may_do_what_rbac_grants_and_no_more(cluster: Cluster) -> None:
    admin = cluster.plane.admin.api
    user = cluster.plane.user("ann", ["on-call"], extra={"example.com/shift": ["night"]})
    told = who_am_i(user.api)
    assert told["username"] == "ann"
    assert "on-call" in told["groups"]
    assert told["extra"]["example.com/shift"] == ["night"]
    assert user.api.get("/api/v1/nodes").code == 403
    rbac, name = "/apis/rbac.authorization.k8s.io/v1", cluster.name("reader")
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    admin.post(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules}).ok()
    grant = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "Group", "name": "on-call", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    admin.post(f"{rbac}/clusterrolebindings", grant).ok()
    until(lambda: user.api.get("/api/v1/nodes").good, "the grant is seen")
    assert user.api.post("/api/v1/nodes", {"metadata": {"name": cluster.name("no")}}).code == 403


def test_a_service_account_token_bound_to_a_node_names_it(cluster: Cluster) -> None:
    namespace, node = cluster.namespace(), make_node(cluster)
    account = make_account(cluster, namespace)
    plain = cluster.plane.service_account(namespace, account)
    assert who_am_i(plain.api)["username"] == plain.name == f"system:serviceaccount:{namespace}:{account}"
    assert NODE_NAME not in who_am_i(plain.api)["extra"]
    bound = cluster.plane.service_account(
        namespace, account, bound_to={"apiVersion": "v1", "kind": "Node", "name": node}
    )
    assert who_am_i(bound.api)["extra"][NODE_NAME] == [node]


def test_a_service_account_token_bound_to_a_pod_names_the_node_of_the_pod(cluster: Cluster) -> None:
    admin, namespace, node = cluster.plane.admin.api, cluster.namespace(), make_node(cluster)
    account = make_account(cluster, namespace)
    path = f"/api/v1/namespaces/{namespace}/pods"
    admin.post(path, pod("agent", nodeName=node, serviceAccountName=account)).ok()
    bound = cluster.plane.service_account(
        namespace, account, bound_to={"apiVersion": "v1", "kind": "Pod", "name": "agent"}
    )
    assert who_am_i(bound.api)["extra"][NODE_NAME] == [node]


@pytest.mark.usefixtures("every_part")
def test_a_node_stays_ready_and_a_scheduled_pod_runs_on_it(cluster: Cluster) -> None:
    admin = cluster.plane.admin.api
    namespace = cluster.namespace()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with cluster.plane.running(Part.SCHEDULER, Part.CONTROLLERS, Part.KWOK):
        tainted, free = make_node(cluster, "tainted"), make_node(cluster, "free")
        nodes = [f"/api/v1/nodes/{tainted}", f"/api/v1/nodes/{free}"]
        until(lambda: all(is_ready(admin.get(node).ok()) for node in nodes), "they are ready")
        # A fresh node is tainted not-ready by the server itself, until the controllers see it ready.
        until(lambda: not any("taints" in admin.get(node).ok()["spec"] for node in nodes), "no taint is left")
        taint = {"key": "example.com/sick", "value": "yes", "effect": "NoSchedule"}
        admin.patch(nodes[0], {"spec": {"taints": [taint]}}).ok()
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{free}"
        until(lambda: admin.get(lease).good, "the node keeps a Lease")
        for word in ("a", "b"):
            admin.post(pods, pod(word)).ok()
        until(lambda: all(one["status"].get("phase") == "Running" for one in admin.get(pods).ok()["items"]), "they run")
        assert {one["spec"]["nodeName"] for one in admin.get(pods).ok()["items"]} == {free}
        admin.delete(f"{pods}/a").ok()
        until(lambda: admin.get(f"{pods}/a").code == 404, "a pod that is deleted ends")


@pytest.mark.usefixtures("every_part")
def test_the_controllers_run_a_job_to_its_end(cluster: Cluster) -> None:
    admin, namespace = cluster.plane.admin.api, cluster.namespace()
    template = {"spec": {**pod("")["spec"], "restartPolicy": "Never"}}
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    with cluster.plane.running(Part.SCHEDULER, Part.CONTROLLERS, Part.KWOK):
        make_node(cluster)
        admin.post(jobs, {"metadata": {"name": "train"}, "spec": {"completions": 2, "template": template}}).ok()
        until(lambda: admin.get(f"{jobs}/train").ok()["status"].get("succeeded") == 2, "the job succeeds")


@pytest.mark.usefixtures("every_part")
def test_kwok_can_be_told_which_nodes_to_keep(cluster: Cluster) -> None:
    admin = cluster.plane.admin.api
    with cluster.plane.running(Part.KWOK, flags={Part.KWOK: ["--manage-nodes-with-label-selector=kept=yes"]}):
        kept, left = make_node(cluster, "kept", kept="yes"), make_node(cluster, "left")
        until(lambda: is_ready(admin.get(f"/api/v1/nodes/{kept}").ok()), "the chosen node is ready")
        assert not is_ready(admin.get(f"/api/v1/nodes/{left}").ok())


def test_what_a_test_leaves_behind_is_taken_away_and_what_was_there_stays(cluster: Cluster) -> None:
    api = cluster.plane.admin.api
    kept = define(api, "kepts")
    api.post(kept, thing("kepts", "old")).ok()
    before = sweep.seen(api)
    left = define(api, "lefts")
    stuck = thing("lefts", "stuck")
    stuck["metadata"]["finalizers"] = ["example.com/never"]
    api.post(left, stuck).ok()
    api.post(kept, thing("kepts", "new")).ok()
    node, namespace = make_node(cluster), cluster.namespace()
    api.post(f"/api/v1/namespaces/{namespace}/pods", pod("held", nodeName=node, terminationGracePeriodSeconds=600)).ok()
    sweep.sweep(api, before)
    assert api.get(f"/api/v1/nodes/{node}").code == 404
    assert api.get(f"/api/v1/namespaces/{namespace}").code == 404
    assert api.get(left).code == 404
    assert [one["metadata"]["name"] for one in api.get(kept).ok()["items"]] == ["old"]


def test_a_killed_api_server_comes_back_at_the_same_place_with_what_it_held(cluster: Cluster) -> None:
    namespace, url = cluster.namespace(), cluster.plane.url
    with cluster.plane.away(), pytest.raises(OSError, match="refused"):
        cluster.plane.admin.api.get("/version")
    assert cluster.plane.url == url
    assert cluster.plane.admin.api.get(f"/api/v1/namespaces/{namespace}").good


def test_a_frozen_api_server_goes_on_where_it_stood(cluster: Cluster) -> None:
    stat = Path(f"/proc/{cluster.plane.pid(Part.API)}/stat")
    with cluster.plane.frozen():
        until(lambda: ") T " in stat.read_text("utf-8"), "it stands still")
    assert cluster.plane.admin.api.get("/readyz").good


@pytest.mark.usefixtures("every_part")
def test_a_part_that_does_not_start_says_why(control_plane: ControlPlane) -> None:
    with pytest.raises(NotReady, match=r"kube-scheduler ended with code 1 .*(\n.*)*unknown flag: --no-such-flag"):
        control_plane.start(Part.SCHEDULER, "--no-such-flag")
    with control_plane.running(Part.SCHEDULER):
        assert runs(control_plane.pid(Part.SCHEDULER))


def test_two_control_planes_know_nothing_of_each_other(cluster: Cluster) -> None:
    node = make_node(cluster)
    with ControlPlane(cluster.plane.binaries) as other:
        assert other.admin.api.get(f"/api/v1/nodes/{node}").code == 404
        assert other.admin.api.get("/api/v1/nodes").ok()["items"] == []
        assert Api(other.url, other.ca_file, cluster.plane.admin.token).get("/api/v1/nodes").code == 401
        pids, place = [other.pid(part) for part in (Part.ETCD, Part.API)], other.site.folder
    assert not any(runs(pid) for pid in pids)
    assert not place.exists()


KILLED = """
from tests.kit.controlplane.parts import Part
from tests.kit.controlplane.plane import ControlPlane
with ControlPlane() as plane:
    print(plane.pid(Part.ETCD), plane.pid(Part.API), plane.site.folder, flush=True)
    input()
"""


def test_a_killed_test_run_leaves_no_program_and_no_folder(control_plane: ControlPlane) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        etcd, api, place = process.stdout.readline().split()
        assert runs(int(etcd))
        assert runs(int(api))
        process.send_signal(signal.SIGKILL)
        process.wait()
    until(lambda: not runs(int(etcd)) and not runs(int(api)), "they end with the process that started them")
    sweep_folders()
    assert not Path(place).exists()
    assert control_plane.site.folder.exists(), "a folder in use is left alone"
