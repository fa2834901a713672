"""The GPU Operator's programs on a node: which they are, which may be kept away, and which are not back."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gpuward.isolation.clients import CLIENTS, GATES, NodeClients, is_client
from gpuward.model.daemon_set import NOT_AGAIN, DaemonSetSight, daemon_set_of
from gpuward.model.objects.owned import FAULT_TAINT, OWNED, PAUSED, Label, Owned, write_owned
from gpuward.model.pod import PodSight, pod_of

DCGM = "nvidia.com/gpu.deploy.dcgm"
TAINT = {"key": FAULT_TAINT, "value": "xid-79", "effect": "NoSchedule"}
BEARS = [{"key": FAULT_TAINT, "operator": "Exists"}]


def daemon_set(name: str = "dcgm", *, gate: str = DCGM, tolerations: Any = BEARS) -> DaemonSetSight:
    pod = {"nodeSelector": {gate: "true"} if gate else {}, "tolerations": tolerations}
    metadata = {"namespace": "gpu-operator", "name": name, "uid": f"uid-{name}"}
    return daemon_set_of({"metadata": metadata, "spec": {"template": {"spec": pod}}})


def pod(name: str, *, of: str = "dcgm", gpus: int = 0, phase: str = "Running", kind: str = "DaemonSet") -> PodSight:
    owner = {"kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
    metadata = {"namespace": "gpu-operator", "name": name, "uid": name, "ownerReferences": [owner]}
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}
    return pod_of({"metadata": metadata, "spec": {"containers": [limits]}, "status": {"phase": phase}})


def a_node(
    said: str | None = "true",
    *,
    noted: Mapping[str, Label] | None = None,
    taints: Sequence[Mapping[str, str]] = (TAINT,),
) -> dict[str, Any]:
    note = {OWNED: write_owned(Owned(labels=noted))} if noted else {}
    labels = {} if said is None else {DCGM: said}
    return {"metadata": {"labels": labels, "annotations": note}, "spec": {"taints": list(taints)}}


def seen(node: Mapping[str, Any], *pods: PodSight, sets: Sequence[DaemonSetSight] | None = None) -> NodeClients:
    return NodeClients(node, (daemon_set(),) if sets is None else tuple(sets), pods)


def test_the_rows_are_the_four_that_hold_gpus() -> None:
    assert {one.gate.rpartition(".")[2] for one in CLIENTS} == {
        *("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")
    }
    assert len(GATES) == len(CLIENTS)


def test_what_puts_a_program_on_the_node_is_to_be_changed_and_its_pod_is_waited_for() -> None:
    clients = seen(a_node(), pod("dcgm-1"), pod("logs-1", of="logs"))
    assert clients.to_pause() == {DCGM: "true"}
    assert clients.still_there() == ("pod gpu-operator/dcgm-1",)
    assert clients.why_not(frozenset({"dcgm-1"})) == ""


@pytest.mark.parametrize("said", [None, "false", "true-ish"])
def test_what_no_label_puts_there_is_left_alone(said: str | None) -> None:
    assert seen(a_node(said)).to_pause() == {}


def test_what_is_paused_by_us_is_not_paused_again() -> None:
    clients = seen(a_node(PAUSED, noted={DCGM: Label(PAUSED, "true")}))
    assert (clients.to_pause(), clients.still_there(), clients.why_not(frozenset())) == ({}, (), "")


def test_a_program_that_would_not_come_back_must_stay() -> None:
    clients = seen(a_node(), sets=[daemon_set(tolerations=[])])
    assert clients.why_not(frozenset()) == (
        f"{NOT_AGAIN} DaemonSet gpu-operator/dcgm has no toleration of {FAULT_TAINT}:NoSchedule; "
        "`gpuward preflight` says where"
    )


def test_a_taint_that_the_cluster_takes_off_again_by_itself_does_not_count() -> None:
    coming = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert seen(a_node(taints=(TAINT, coming))).why_not(frozenset()) == ""


@pytest.mark.parametrize("said", ["paused-for-driver-upgrade", "paused-for-mig-change"])
def test_a_pause_of_others_is_waited_for(said: str) -> None:
    assert f"{DCGM}={said}" in seen(a_node(said)).why_not(frozenset())


def test_a_holder_of_another_daemon_set_is_named() -> None:
    clients = seen(a_node(), pod("mine", of="mps"))
    assert "DaemonSet gpu-operator/mps holds the GPU by its pod mine" in clients.why_not(frozenset({"mine"}))
    assert clients.why_not(frozenset()) == "", "unless it holds another GPU"


def test_work_that_holds_the_gpu_is_no_reason_here() -> None:
    clients = seen(a_node(), pod("job", of="job", kind="Job"), pod("serving", of="serving", gpus=1))
    assert clients.why_not(frozenset({"job", "serving"})) == ""


@pytest.mark.parametrize(
    ("pods", "missing"),
    [
        ((), ("DaemonSet gpu-operator/dcgm",)),
        ((pod("dcgm-2", phase="Pending"),), ("DaemonSet gpu-operator/dcgm",)),
        ((pod("dcgm-2"),), ()),
    ],
)
def test_a_program_is_back_when_its_pod_runs(pods: tuple[PodSight, ...], missing: tuple[str, ...]) -> None:
    clients = seen(a_node(), *pods)
    assert clients.not_back(frozenset({DCGM})) == missing
    assert clients.not_back(frozenset()) == ()


def test_a_program_that_somebody_switched_off_is_not_waited_for() -> None:
    assert seen(a_node("false")).not_back(frozenset({DCGM})) == ()


def test_only_a_daemon_sets_pod_that_asked_for_no_gpu_is_no_work() -> None:
    assert is_client(pod("dcgm-1"))
    assert not is_client(pod("serving-1", gpus=1))
    assert not is_client(pod("job-1", kind="Job"))
    assert not is_client(pod_of({}))
