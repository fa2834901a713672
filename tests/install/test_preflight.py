"""`gpuward preflight` on a real control plane: what it says of DaemonSets is what the real controller-manager does."""

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import CONTROLLER
from gpuward.cli.manifests.places import name_of, place_of
from gpuward.model.daemon_set import NOT_AGAIN
from gpuward.model.objects.owned import FAULT_TAINT, GPUS, LEADER_LEASE
from gpuward.model.resource import DISRUPTION_BUDGETS, LEASES, PODS, STANDBY_POOLS
from tests.install.commands import ask
from tests.install.site import Site, apply, path_of
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.controlplane.parts import Part
from tests.kit.controlplane.rest import JSON_PATCH, Api
from tests.kit.ward import until

pytestmark = [pytest.mark.real, pytest.mark.long]
OURS = {"key": FAULT_TAINT, "value": "xid-79", "effect": "NoSchedule"}


def daemon_set(api: Api, space: str, name: str, tolerations: list[dict[str, str]]) -> None:
    """Make a DaemonSet for the nodes that wear the name of its namespace."""
    labels = {"app": name}
    spec = {
        "nodeSelector": {"example.com/of": space},
        "tolerations": tolerations,
        "containers": [{"name": "main", "image": "registry.example.com/it:1"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    api.post(f"/apis/apps/v1/namespaces/{space}/daemonsets", body).ok()


def pods_of(api: Api, space: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"/api/v1/namespaces/{space}/pods?labelSelector=app%3D{name}").ok()["items"]
    return [one for one in found if one["status"]["phase"] == "Running"]


def wanted(api: Api, space: str, name: str) -> int | None:
    """Return on how many nodes the controllers want a pod of a DaemonSet; None while they have not looked at it."""
    status = api.get(f"/apis/apps/v1/namespaces/{space}/daemonsets/{name}").ok()["status"]
    return int(status["desiredNumberScheduled"]) if "observedGeneration" in status else None


def is_unwanted(api: Api, space: str, name: str) -> bool:
    """Make a DaemonSet that tolerates nothing, and return whether the controllers want no pod of it anywhere."""
    daemon_set(api, space, name, [])
    until(lambda: wanted(api, space, name) is not None, f"the controllers have looked at {name}")
    return wanted(api, space, name) == 0


def findings(capsys: pytest.CaptureFixture[str], api_of: Kit | Site) -> dict[str, list[dict[str, Any]]]:
    """Return what preflight finds, by row."""
    answer = ask(capsys, "preflight", "--json", "--kubeconfig", str(api_of.plane.admin.kubeconfig))
    told = answer.object()
    assert answer.code == (1 if told["blocked"] else 0)
    assert told["blocked"] is any(one["blocks"] for one in told["findings"])
    by_row: dict[str, list[dict[str, Any]]] = {}
    for one in told["findings"]:
        by_row.setdefault(one["id"], []).append(one)
    return by_row


@pytest.mark.usefixtures("every_part")
def test_a_daemon_set_pod_deleted_under_our_taint_comes_back_only_where_preflight_says_so(
    cluster: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    api, space, node = cluster.plane.admin.api, cluster.namespace(), cluster.name("gpu")
    with cluster.plane.running(Part.SCHEDULER, Part.CONTROLLERS, Part.KWOK):
        api.post("/api/v1/nodes", {"metadata": {"name": node, "labels": {"example.com/of": space}}}).ok()
        daemon_set(api, space, "nvidia-dcgm", [])
        daemon_set(api, space, "nvidia-device-plugin", [{"key": FAULT_TAINT, "operator": "Exists"}])
        for name in ("nvidia-dcgm", "nvidia-device-plugin"):
            until(lambda name=name: pods_of(api, space, name), f"a pod of {name} runs")  # type: ignore[misc]  # bound
        (lacking,) = [one for one in findings(capsys, cluster)["P-stack-taint"] if "nvidia-dcgm" in one["subject"]]
        assert lacking["why"].startswith(NOT_AGAIN)
        assert lacking["values"][0] == {"key": FAULT_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        first = {name: pods_of(api, space, name)[0] for name in ("nvidia-dcgm", "nvidia-device-plugin")}
        patch = [{"op": "add", "path": "/spec/taints", "value": [OURS]}]
        api.patch(f"/api/v1/nodes/{node}", patch, content=JSON_PATCH).ok()
        probes = itertools.count()
        until(lambda: is_unwanted(api, space, f"probe-{next(probes)}"), "the controllers have seen the taint")
        for one in first.values():
            api.delete(f"/api/v1/namespaces/{space}/pods/{one['metadata']['name']}").ok()
        until(
            lambda: [
                one
                for one in pods_of(api, space, "nvidia-device-plugin")
                if one["metadata"]["uid"] != first["nvidia-device-plugin"]["metadata"]["uid"]
            ],
            "the pod that tolerates our taint comes back",
        )
        until(lambda: not pods_of(api, space, "nvidia-dcgm"), "the other one ends")
        until(lambda: wanted(api, space, "nvidia-dcgm") == 0, "and nobody wants it back")
        assert pods_of(api, space, "nvidia-dcgm") == []
        # What preflight says to add is what brings it back.
        path = f"/apis/apps/v1/namespaces/{space}/daemonsets/nvidia-dcgm"
        mended = [{"op": "add", "path": "/spec/template/spec/tolerations", "value": lacking["values"]}]
        api.patch(path, mended, content=JSON_PATCH).ok()
        until(lambda: pods_of(api, space, "nvidia-dcgm"), "with the tolerations it comes back")
        assert not [
            one for one in findings(capsys, cluster).get("P-stack-taint", ()) if "nvidia-dcgm" in one["subject"]
        ]


def test_a_fresh_installation_is_as_this_version_brings_it_and_nobody_leads_yet(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(capsys, site)
    assert "P-missing" not in found
    assert "P-other-version" not in found
    assert "P-no-leader" in found


def test_what_was_changed_or_taken_away_since_is_named(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{CONTROLLER}"
    rules = site.api.get(role).ok()["rules"]
    lane = next(one for one in manifests(site.installation) if one["kind"] == "FlowSchema")
    site.api.patch(role, [{"op": "remove", "path": "/rules/0"}], content=JSON_PATCH).ok()
    site.api.delete(f"{path_of(place_of(lane))}/{name_of(lane)}").ok()
    try:
        found = findings(capsys, site)
        assert [one["subject"] for one in found["P-missing"]] == [f"FlowSchema {name_of(lane)}"]
        assert [one["subject"] for one in found["P-other-version"]] == [f"ClusterRole {CONTROLLER}"]
    finally:
        site.api.patch(role, [{"op": "replace", "path": "/rules", "value": rules}], content=JSON_PATCH).ok()
        apply(site.api, [lane])
    assert not {"P-missing", "P-other-version"} & findings(capsys, site).keys()


def test_a_node_with_gpus_and_no_agent_is_named(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    node = site.node()
    site.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {GPUS: "present"}}}).ok()
    (agentless,) = findings(capsys, site)["P-no-agent"]
    assert node in agentless["subject"]


def test_what_stands_in_the_cluster_is_read_as_it_is(
    site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    api, node = site.api, site.node()
    labels = {"app": "train"}
    now = datetime.fromtimestamp(SystemClock().now(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {"holderIdentity": "c-1", "leaseDurationSeconds": 60, "renewTime": now}
    leases = path_of(LEASES, namespace=site.installation.namespace)
    made = [
        (path_of(STANDBY_POOLS), a_pool("h100")),
        (leases, {"metadata": {"name": LEADER_LEASE}, "spec": lease}),
        (path_of(DISRUPTION_BUDGETS, namespace="default"), a_budget("strict", labels)),
        (path_of(PODS, namespace="default"), a_pod("train-0", node, labels)),
        ("/apis/apps/v1/namespaces/default/deployments", a_deployment("cluster-autoscaler")),
    ]
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {GPUS: "present"}}}).ok()
    daemon_set(api, "default", "nvidia-dcgm", [])
    for path, body in made:
        api.post(path, body).ok()
    try:
        found = findings(capsys, site)
        assert "P-no-leader" not in found
        assert [one["subject"] for one in found["P-pool-short"]] == ["StandbyPool h100"]
        assert [one["subject"] for one in found["P-budget-never"]] == ["PodDisruptionBudget default/strict"]
        assert "default/train-0" in found["P-budget-never"][0]["what"]
        assert [one["subject"] for one in found["P-rival"]] == ["Cluster Autoscaler"]
        said = ask(capsys, "preflight", "--kubeconfig", str(site.plane.admin.kubeconfig))
        assert said.code == 1
        assert "BLOCKS  P-budget-never: PodDisruptionBudget default/strict allows no eviction" in said.out
        assert "        known by: seen\n" in said.out
        assert f"          - key: {FAULT_TAINT}\n            operator: Exists\n" in said.out
        settings = tmp_path / "gpuward.toml"
        settings.write_text('[controller]\ntaint_key = "example.com/sick"\n', "utf-8")
        said = ask(capsys, "preflight", "--config", str(settings), "--kubeconfig", str(site.plane.admin.kubeconfig))
        assert "          - key: example.com/sick\n" in said.out, "the taint as it is configured"
    finally:
        api.delete("/apis/apps/v1/namespaces/default/daemonsets/nvidia-dcgm").ok()
        for path, body in made:
            api.delete(f"{path}/{body['metadata']['name']}?gracePeriodSeconds=0").ok()


def test_what_may_not_be_looked_at_is_said_and_blocks(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = site.plane.user("nobody")
    answer = ask(capsys, "preflight", "--json", "--kubeconfig", str(nobody.kubeconfig))
    assert answer.code == 1
    unseen = [one["what"] for one in answer.object()["findings"] if one["id"] == "P-unseen"]
    assert any("the nodes" in one and "403" in one for one in unseen)


def a_pool(name: str) -> dict[str, Any]:
    kind = {"apiVersion": STANDBY_POOLS.api_version, "kind": STANDBY_POOLS.kind}
    return {**kind, "metadata": {"name": name}, "spec": {"shape": {"product": "P", "count": 8}, "size": 2}}


def a_budget(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}}}


def a_pod(name: str, node: str, labels: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.example.com/it:1"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node, "containers": containers}}


def a_deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "registry.example.com/it:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
