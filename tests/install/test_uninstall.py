"""`gpuward uninstall` on a real control plane: all of ours goes, all of others stays, and a broken run is finished."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from gpuward.cli.manifests import manifests
from gpuward.cli.manifests.installation import AGENT, CONTROLLER, LABELS, Installation
from gpuward.cli.manifests.places import PLACES
from gpuward.cli.taking_away import Taken, take_away
from gpuward.cli.wiring.cluster import cluster_of
from gpuward.model.objects.gpu_case import CaseSpec, CaseStatus
from gpuward.model.objects.owned import (
    CHECKPOINT,
    CONDITION,
    FAULT_TAINT,
    GPUS,
    NOTICE,
    OWNED,
    STANDBY,
    Label,
    Owned,
    Taint,
    write_owned,
)
from gpuward.model.objects.shapes import shape_of
from gpuward.model.resource import GPU_CASES, GPU_NODES
from gpuward.ports import Cluster, Refused, Unreachable
from tests.install.commands import ask
from tests.install.site import Site, apply, gpu_node, installed, node_status, path_of, put_status
from tests.kit import objects as kit
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.controlplane.parts import Part
from tests.kit.controlplane.plane import ControlPlane
from tests.kit.controlplane.rest import JSON_PATCH, STRATEGIC_PATCH, Api
from tests.kit.ward import until

pytestmark = [pytest.mark.real, pytest.mark.long]
OURS = {"key": FAULT_TAINT, "value": "xid-79", "effect": "NoSchedule"}
THEIRS = {"key": "maintenance", "effect": "NoSchedule"}
STRANGE = {"key": STANDBY, "effect": "NoSchedule"}
DCGM = "nvidia.com/gpu.deploy.dcgm"
NOTE = Owned(
    taints=frozenset({Taint(FAULT_TAINT, "NoSchedule")}),
    labels={DCGM: Label(value="paused", former="true"), GPUS: Label(value="present", former=None)},
)
SICK = {"type": CONDITION, "status": "True", "reason": "Xid79", "message": "GPU 5 fell off the bus"}


@pytest.fixture
def own(control_plane: ControlPlane) -> Iterator[Site]:
    """Give an installation of one test's own."""
    with installed(control_plane) as site:
        yield site


def marked(api: Api, name: str, **labels: str) -> str:
    """Make a node that carries marks of ours and of others; return its name."""
    metadata = {
        "name": name,
        "labels": {DCGM: "paused", GPUS: "present", "theirs": "1", **labels},
        "annotations": {OWNED: write_owned(NOTE), "theirs": "1"},
    }
    api.post("/api/v1/nodes", {"metadata": metadata, "spec": {"taints": [OURS, THEIRS, STRANGE]}}).ok()
    status = {"status": {"conditions": [SICK, {"type": "Theirs", "status": "True"}]}}
    api.patch(f"/api/v1/nodes/{name}/status", status, content=STRATEGIC_PATCH).ok()
    return name


def is_unmarked(api: Api, name: str) -> bool:
    node = api.get(f"/api/v1/nodes/{name}").ok()
    taints = [{key: one[key] for key in ("key", "effect")} for one in node["spec"]["taints"]]
    labels = node["metadata"]["labels"]
    return (
        THEIRS in taints
        and STRANGE in taints
        and FAULT_TAINT not in {one["key"] for one in taints}
        and (labels[DCGM], labels.get(GPUS), labels["theirs"]) == ("true", None, "1")
        and OWNED not in node["metadata"]["annotations"]
        and node["metadata"]["annotations"]["theirs"] == "1"
        and CONDITION not in {one["type"] for one in node["status"]["conditions"]}
        and "Theirs" in {one["type"] for one in node["status"]["conditions"]}
    )


def noticed(api: Api, name: str) -> str:
    """Make a pod that opted in and carries a notice; return its path."""
    pods = "/api/v1/namespaces/default/pods"
    metadata = {"name": name, "labels": {CHECKPOINT: "yes"}, "annotations": {NOTICE: "{}", "theirs": "1"}}
    containers = [{"name": "main", "image": "example.com/train:1"}]
    api.post(pods, {"metadata": metadata, "spec": {"containers": containers, "schedulerName": "nobody"}}).ok()
    return f"{pods}/{name}"


def left_of_ours(api: Api) -> list[str]:
    """Return what is still there of an installation."""
    (label,) = (f"{key}={value}" for key, value in LABELS.items())
    return [
        f"{place.kind} {one['metadata']['name']}"
        for place in PLACES
        for one in api.get(f"{path_of(place)}?labelSelector={label.replace('/', '%2F')}").ok()["items"]
    ]


def open_case(api: Api, name: str, state: str = "fenced") -> str:
    made = {"apiVersion": GPU_CASES.api_version, "kind": "GPUCase", "metadata": {"name": name}}
    spec = {key: value for key, value in kit.full(shape_of(CaseSpec)).items() if key != "drill"}
    api.post(path_of(GPU_CASES), {**made, "spec": spec}).ok()
    path = path_of(GPU_CASES, name)
    put_status(api, path, {**kit.full(shape_of(CaseStatus)), "state": state}).ok()
    return path


@pytest.mark.usefixtures("every_part")
def test_programs_run_where_they_should_and_uninstall_leaves_nothing(
    cluster: Kit, capsys: pytest.CaptureFixture[str]
) -> None:
    api = cluster.plane.admin.api
    with cluster.plane.running(Part.SCHEDULER, Part.CONTROLLERS, Part.KWOK):
        seen = marked(api, cluster.name("seen"), **{"feature.node.kubernetes.io/pci-10de.present": "true"})
        kept = marked(api, cluster.name("kept"))  # its GPUs have vanished, and the labels of other software with them
        plain = {cluster.name("cpu-1"), cluster.name("cpu-2")}
        for name in plain:
            api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}).ok()
        pod = noticed(api, cluster.name("train"))
        apply(api, manifests(Installation()))
        until(lambda: placed(api, AGENT) == {seen, kept}, "an agent runs on each GPU server, and on no other")
        until(lambda: placed(api, CONTROLLER) == plain, "the controllers run apart, and on no GPU server")
        until(lambda: "gpuward.io" in json.dumps(api.get(VIEW).ok()["rules"]), "who may view a cluster sees ours")
        words = ("uninstall", "--yes", "--json", "--kubeconfig", str(cluster.plane.admin.kubeconfig))
        answer = ask(capsys, *words)
        until(lambda: not left_of_ours(api), "nothing of ours is left")
        assert (is_unmarked(api, seen), is_unmarked(api, kept)) == (True, True)
        assert api.get(pod).ok()["metadata"]["annotations"] == {"theirs": "1"}
        told = answer.object()
        assert answer.code == 1, "a person's standby taints stay, and are named"
        assert {one.split()[1] for one in told["left"]} == {seen, kept}
        assert all(f"kubectl taint node {one.split()[1]} {STANDBY}:NoSchedule-" in one for one in told["left"])
        again = ask(capsys, *words).object()
        assert (again["gone"], again["left"]) == ([], told["left"])


VIEW = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"


def placed(api: Api, account: str) -> set[str]:
    """Return the nodes on which pods of an account run."""
    namespace = Installation().namespace
    pods = api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io%2Fname%3D{account}")
    return {one["spec"].get("nodeName", "") for one in pods.ok()["items"] if one["status"]["phase"] == "Running"}


def test_while_a_case_is_open_nothing_is_taken_away(own: Site, capsys: pytest.CaptureFixture[str]) -> None:
    node = marked(own.api, "gpu-open")
    path = open_case(own.api, "c-open")
    words = ("uninstall", "--yes", "--kubeconfig", str(own.plane.admin.kubeconfig))
    with pytest.raises(Refused, match=r"the case c-open is open.*gpuward release CASE"):
        ask(capsys, *words)
    assert not is_unmarked(own.api, node)
    assert own.api.get(path).good
    put_status(own.api, path, {**kit.full(shape_of(CaseStatus)), "state": "closed"}).ok()
    answer = ask(capsys, *words)
    assert "gone: Deployment gpuward-controller\n" in answer.out
    assert is_unmarked(own.api, node)
    assert own.api.get(path).code == 404


def test_with_force_each_gpu_that_stays_drained_is_named(own: Site, capsys: pytest.CaptureFixture[str]) -> None:
    open_case(own.api, "c-forced")
    own.api.post(path_of(GPU_NODES), gpu_node("gpu-7")).ok()
    sight = {"lost": False, "display": False}
    gpu = {"pci": "0000:3b:00", "state": "draining", "health": "faulty", "sight": sight}
    active = {"pci": "0000:5e:00", "state": "active", "health": "healthy", "sight": sight}
    put_status(own.api, path_of(GPU_NODES, "gpu-7"), node_status(gpus=[gpu, active])).ok()
    words = ("uninstall", "--yes", "--force", "--json", "--kubeconfig", str(own.plane.admin.kubeconfig))
    answer = ask(capsys, *words)
    assert answer.code == 1
    (left,) = answer.object()["left"]
    assert left.startswith("GPU 0000:3b:00 of gpu-7 is out of service")
    assert "`nvidia-smi drain -p 0000:3b:00.0 -m 0`" in left


class Mortal:
    """A cluster that is gone after some writes."""

    def __init__(self, cluster: Cluster, writes: int) -> None:
        self._cluster = cluster
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        """Return a call of the cluster; each that writes counts."""
        call = getattr(self._cluster, name)
        if name in {"patch", "delete"}:
            self._writes -= 1
            if self._writes < 0:
                raise Unreachable("the connection broke; try again")
        return call


def test_a_run_that_is_cut_short_anywhere_is_finished_by_the_next(own: Site) -> None:
    node = marked(own.api, "gpu-cut")
    broken = own.node()
    own.api.patch(f"/api/v1/nodes/{broken}", {"metadata": {"annotations": {OWNED: "broken"}}}).ok()

    async def runs() -> tuple[int, Taken]:
        async with cluster_of(str(own.plane.admin.kubeconfig)) as cluster:
            for cut in range(100):
                try:
                    return cut, await take_away(cast("Cluster", Mortal(cluster, cut)), own.installation)
                except Unreachable:
                    continue
        raise AssertionError("it never came to its end")

    cut, taken = asyncio.run(runs())
    assert cut > 5
    assert is_unmarked(own.api, node)
    assert [one for one in left_of_ours(own.api) if not one.startswith("Namespace")] == []
    assert any(broken in one and "broken" in one for one in taken.left), "what nobody can read is not guessed at"
    assert own.api.patch(f"/api/v1/nodes/{broken}", [], content=JSON_PATCH).good
