"""What a look over a cluster finds: each row by a cluster in which it is so, and by one in which it is not."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.audit.facts import (
    ClusterFacts,
    DisruptionBudget,
    Finding,
    GpuServer,
    Installed,
    OurTaint,
    PoolFact,
    Program,
)
from gpuward.audit.preflight import ROWS, findings_of
from gpuward.model.daemon_set import NOT_AGAIN, DaemonSetSight, daemon_set_of
from gpuward.model.objects.owned import FAULT_TAINT, RESERVED, STANDBY, Taint
from gpuward.model.pod import PodSight, pod_of

FAULT = Taint(FAULT_TAINT, "NoSchedule")
TAINTS = tuple(OurTaint(Taint(key, "NoSchedule")) for key in (FAULT_TAINT, STANDBY, RESERVED))
ALL = [{"operator": "Exists"}]
OPERATORS = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
IN_ORDER = ClusterFacts(
    version="1",
    taints=TAINTS,
    servers=(GpuServer("gpu-1", agent="1", silent_seconds=5.0),),
    installed=Installed(there=("Namespace gpuward-system",)),
    leader="controller-a",
)


def daemon_set(name: str, *, gate: str = "", tolerations: Any = OPERATORS, **labels: str) -> DaemonSetSight:
    chosen = {f"nvidia.com/gpu.deploy.{gate}": "true"} if gate else {}
    pod = {"nodeSelector": chosen, "tolerations": tolerations, "containers": [{"image": f"example.com/{name}:1"}]}
    metadata = {"namespace": "gpu-operator", "name": name, "uid": f"uid-{name}", "labels": labels}
    return daemon_set_of({"metadata": metadata, "spec": {"template": {"spec": pod}}})


def pod(name: str, *, daemon: DaemonSetSight | None = None, space: str = "work", **labels: str) -> PodSight:
    owners = [] if daemon is None else [{"kind": "DaemonSet", "name": daemon.name, "uid": daemon.uid}]
    owned = [{**one, "controller": True} for one in owners]
    metadata = {"namespace": space, "name": name, "uid": name, "labels": labels, "ownerReferences": owned}
    return pod_of({"metadata": metadata, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}})


def budget(name: str, **spec: Any) -> DisruptionBudget:
    return DisruptionBudget("work", name, {"matchLabels": {"app": "train"}}, **spec)


def found(**facts: Any) -> list[Finding]:
    return list(findings_of(replace(IN_ORDER, **facts)))


def the_one(**facts: Any) -> Finding:
    (finding,) = found(**facts)
    return finding


def test_in_a_cluster_that_is_in_order_nothing_is_found() -> None:
    assert found(daemon_sets=(daemon_set("nvidia-dcgm", gate="dcgm", tolerations=ALL),)) == []


def test_every_finding_has_an_id_of_its_own_and_whole_sentences() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.what[-1] in ".}"
        assert row.why.endswith((".", "}."))


def test_the_operators_parts_are_named_together_with_the_exact_tolerations_and_their_place() -> None:
    finding = the_one(
        daemon_sets=(
            daemon_set("nvidia-dcgm", gate="dcgm"),
            daemon_set("nvidia-device-plugin-daemonset", gate="device-plugin"),
        )
    )
    assert finding.id == "P-stack-taint"
    assert finding.blocks
    assert finding.subject == (
        "DaemonSet gpu-operator/nvidia-dcgm, DaemonSet gpu-operator/nvidia-device-plugin-daemonset"
    )
    assert finding.why == f"{NOT_AGAIN} Then the exporter has nobody to ask; the node offers no GPU."
    assert "spec.daemonsets.tolerations of the ClusterPolicy" in finding.remedy
    assert "Helm value daemonsets.tolerations" in finding.remedy
    assert [dict(one) for one in finding.values] == [
        {"key": FAULT_TAINT, "operator": "Exists", "effect": "NoSchedule"},
        {"key": STANDBY, "operator": "Exists", "effect": "NoSchedule"},
        {"key": RESERVED, "operator": "Exists", "effect": "NoSchedule"},
    ]


@pytest.mark.parametrize(
    ("one", "place"),
    [
        (daemon_set("nvidia-driver-daemonset", **{"app.kubernetes.io/component": "nvidia-driver"}), "NVIDIADriver"),
        (daemon_set("gpu-operator-node-feature-discovery-worker"), "worker.tolerations"),
        (daemon_set("nvidia-device-plugin"), "spec.template.spec.tolerations of the DaemonSet"),
        (daemon_set("something-new", gate="something-new"), "ClusterPolicy"),
    ],
)
def test_tolerations_are_to_be_set_where_their_owner_does_not_set_them_back(one: DaemonSetSight, place: str) -> None:
    assert place in the_one(daemon_sets=(one,)).remedy


@pytest.mark.parametrize(
    "tolerations",
    [
        ALL,
        [{"operator": "Exists", "effect": "NoSchedule"}],
        [{"key": taint.taint.key, "operator": "Exists"} for taint in TAINTS],
    ],
)
def test_what_tolerates_our_taints_whatever_their_value_is_in_order(tolerations: Any) -> None:
    assert found(daemon_sets=(daemon_set("nvidia-dcgm", tolerations=tolerations),)) == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": FAULT_TAINT, "operator": "Equal", "value": "xid-79", "effect": "NoSchedule"},
        {"key": FAULT_TAINT, "operator": "Exists", "effect": "NoExecute"},
        {"key": FAULT_TAINT},
    ],
)
def test_a_toleration_of_one_value_or_of_another_effect_does_not_count(toleration: Any) -> None:
    finding = the_one(daemon_sets=(daemon_set("nvidia-dcgm", tolerations=[toleration]),))
    assert FAULT_TAINT in [one["key"] for one in finding.values]


def test_another_daemon_set_is_told_only_where_its_pods_run_on_gpu_nodes_and_does_not_block() -> None:
    logs, away = daemon_set("logs", tolerations=[]), daemon_set("away", tolerations=[])
    finding = the_one(daemon_sets=(logs, away), pods=(pod("logs-1", daemon=logs),))
    assert (finding.id, finding.subject, finding.blocks) == ("P-daemon-taint", "DaemonSet gpu-operator/logs", False)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"most": 0}, "maxUnavailable is 0"),
        ({"most": "0%"}, "maxUnavailable is 0%"),
        ({"least": "100%"}, "minAvailable is 100%"),
        ({"least": 3, "expected": 3}, "minAvailable is 3, and it counts on 3 pods"),
    ],
)
def test_a_budget_that_can_never_be_met_is_named_with_its_pods(spec: dict[str, Any], says: str) -> None:
    finding = the_one(budgets=(budget("strict", **spec),), pods=(pod("train-0", app="train"),))
    assert (finding.id, finding.blocks) == ("P-budget-never", True)
    assert says in finding.what
    assert "work/train-0" in finding.what


@pytest.mark.parametrize("spec", [{"most": 1}, {"least": "50%"}, {"least": 1, "expected": 2}, {"least": 3}])
def test_a_budget_that_can_be_met_is_in_order(spec: dict[str, Any]) -> None:
    assert found(budgets=(budget("fair", **spec),), pods=(pod("train-0", app="train"),)) == []


def test_a_strict_budget_of_pods_that_are_never_evicted_is_nobodys_trouble() -> None:
    pods = (
        pod("other", app="other"),
        pod("daemon", daemon=daemon_set("d"), app="train"),
        pod("elsewhere", space="x", app="train"),
    )
    assert found(budgets=(budget("strict", most=0),), pods=pods) == []


def test_a_pod_under_two_budgets_is_named_with_both() -> None:
    finding = the_one(budgets=(budget("a", most=1), budget("b", most=1)), pods=(pod("train-0", app="train"),))
    assert (finding.id, finding.subject) == ("P-budget-two", "pod work/train-0")
    assert "work/a and work/b" in finding.what


def test_before_the_installation_only_that_is_said_and_nothing_blocks() -> None:
    fresh = replace(IN_ORDER, installed=Installed(missing=("Namespace x",)), leader="", servers=(GpuServer("gpu-1"),))
    (finding,) = findings_of(fresh)
    assert (finding.id, finding.blocks) == ("P-not-installed", False)


def test_what_is_missing_or_of_another_version_is_named() -> None:
    installed = Installed(there=("Namespace x",), missing=("FlowSchema f",), differing=("ClusterRole r",))
    missing, other = found(installed=installed)
    assert (missing.id, missing.subject) == ("P-missing", "FlowSchema f")
    assert (other.id, other.subject) == ("P-other-version", "ClusterRole r")


@pytest.mark.parametrize(
    ("facts", "row"),
    [
        ({"servers": (GpuServer("gpu-1"),)}, "P-no-agent"),
        ({"servers": (GpuServer("gpu-1", agent="1"),)}, "P-silent-agent"),
        ({"servers": (GpuServer("gpu-1", agent="1", silent_seconds=600.0),)}, "P-silent-agent"),
        ({"servers": (GpuServer("gpu-1", agent="0", silent_seconds=1.0),)}, "P-agent-version"),
        ({"leader": ""}, "P-no-leader"),
        ({"pools": (PoolFact("h100", size=2, short=1),)}, "P-pool-short"),
        ({"pools": (PoolFact("h100-2", size=2, short=0, first="h100", wholly=True),)}, "P-pool-claimed"),
        ({"serves_policies": False}, "P-policy"),
        ({"unseen": ("cannot list the nodes: the API server answers 403",)}, "P-unseen"),
    ],
)
def test_what_is_not_in_order_is_found(facts: dict[str, Any], row: str) -> None:
    assert the_one(**facts).id == row


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"programs": (Program("Deployment", "kube-system", "cluster-autoscaler"),)}, "Cluster Autoscaler"),
        ({"programs": (Program("Deployment", "x", "y", ("example.com/planetlabs/draino:1",)),)}, "draino"),
        ({"definitions": frozenset({"rebootnodes.janitor.dgxc.nvidia.com"})}, "NVSentinel"),
        ({"definitions": frozenset({"machinehealthchecks.cluster.x-k8s.io"})}, "MachineHealthCheck"),
    ],
)
def test_others_that_act_on_nodes_are_told_as_facts(facts: dict[str, Any], name: str) -> None:
    finding = the_one(**facts)
    assert (finding.id, finding.subject, finding.blocks) == ("P-rival", name, False)


def test_what_only_sounds_like_another_is_none() -> None:
    programs = (Program("Deployment", "kured-x", "web", ("registry.example.com/draino/web:1",)),)
    assert found(programs=programs, definitions=frozenset({"machines.cluster.x-k8s.io"})) == []


@pytest.mark.parametrize(("wholly", "nodes"), [(True, "every node of its shape"), (False, "a node of both shapes")])
def test_a_pool_that_overlaps_another_is_told_with_the_one_that_counts(wholly: bool, nodes: str) -> None:  # noqa: FBT001
    finding = the_one(pools=(PoolFact("h100-2", size=2, short=0, first="h100", wholly=wholly),))
    assert finding.what == (
        f"StandbyPool h100-2 overlaps StandbyPool h100: {nodes} is of StandbyPool h100, the first by name."
    )


def test_what_blocks_comes_first() -> None:
    findings = found(leader="", pools=(PoolFact("h100", size=1, short=1),), unseen=("no",))
    assert [one.blocks for one in findings] == [True, True, False]


def test_many_nodes_are_counted_and_some_are_named() -> None:
    finding = the_one(servers=tuple(GpuServer(f"gpu-{number:02}") for number in range(20)))
    assert finding.what.startswith("No agent is on 20 nodes with GPUs: node gpu-00, ")
    assert finding.what.endswith(" and 12 more.")
