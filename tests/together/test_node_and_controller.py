"""A controller and the agent of a node as real processes on the real API server, each with its own account only.

The node's GPUs are a pretend machine; its kubelet is played: a pod that is asked to end, ends.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpuward.cli.manifests.installation import AGENT, CONTROLLER
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, PODS
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import Machine
from tests.install.site import Site, path_of
from tests.kit import kubelet
from tests.kit.brakes import OPEN_BRAKES
from tests.kit.controlplane.rest import Api
from tests.kit.ward import until

pytestmark = [pytest.mark.real, pytest.mark.long]
_PROGRAM = ("-m", "gpuward")
_IN_A_POD = """
import os, pathlib, sys
from gpuward.adapters.kubernetes import access
access.in_cluster.__defaults__ = (os.environ, pathlib.Path(sys.argv.pop(1)))
from gpuward.cli.main import run
run()
"""
"""gpuward with the account of its pod in another folder."""
KEY = "gpu.infra.status/hardware-fault"
SETTINGS = f"""
[controller]
probation_seconds = 2
{OPEN_BRAKES}"""
AGENT_BYTES = 50_000_000
"""What the agent of a node may take at most, beside its children."""


@dataclass
class Node:
    """A node of the cluster that is a pretend machine, with one pod that trains on it."""

    site: Site
    machine: Machine
    folder: Path
    name: str
    stopped: threading.Event = field(default_factory=threading.Event)
    ending_seconds: float = 0.0
    """How long a pod takes to end."""

    @property
    def api(self) -> Api:
        """The server as its administrator sees it."""
        return self.site.api

    @property
    def socket(self) -> str:
        """Where its kubelet tells of devices, while it does."""
        return str(self.folder / "kubelet.sock")

    def faults(self) -> list[dict[str, Any]]:
        """Return the faults of the node."""
        items = self.api.get(path_of(GPU_FAULTS)).ok()["items"]
        return [one for one in items if one["spec"]["nodeName"] == self.name]

    def fault(self) -> dict[str, Any]:
        """Return the one fault of the node, an empty one before there is any."""
        return next(iter(self.faults()), {})

    def taint(self) -> str | None:
        """Return the value of our taint, None when the node wears none."""
        taints = self.api.get(path_of(NODES, self.name)).ok()["spec"].get("taints", [])
        return next((one.get("value") for one in taints if one["key"] == KEY), None)

    def case(self) -> dict[str, Any]:
        """Return the one case of the node, an empty one before there is any."""
        items = self.api.get(path_of(GPU_CASES)).ok()["items"]
        mine = [one for one in items if one["spec"]["node"] == self.name]
        assert len(mine) <= 1, "one fault, one case"
        return mine[0] if mine else {}

    def state(self) -> str:
        """Return the state of its case."""
        return str(self.case().get("status", {}).get("state", ""))

    def pods(self) -> list[str]:
        """Return the pods that are still there."""
        items = self.api.get(path_of(PODS, namespace="default")).ok()["items"]
        return [one["metadata"]["name"] for one in items if one["spec"].get("nodeName") == self.name]

    @contextmanager
    def kubelet(self) -> Iterator[None]:
        """End pods that are asked to end, while the body runs."""
        asked: dict[str, float] = {}

        def has_ended(pod: dict[str, Any]) -> bool:
            if pod["spec"].get("nodeName") != self.name or "deletionTimestamp" not in pod["metadata"]:
                return False
            now = time.monotonic()
            return now - asked.setdefault(pod["metadata"]["uid"], now) >= self.ending_seconds

        def work() -> None:
            while not self.stopped.wait(0.2):
                for one in self.api.get(path_of(PODS, namespace="default")).ok()["items"]:
                    if has_ended(one):
                        path = path_of(PODS, one["metadata"]["name"], namespace="default")
                        self.api.delete(f"{path}?gracePeriodSeconds=0")

        playing = threading.Thread(target=work)
        playing.start()
        try:
            yield
        finally:
            self.stopped.set()
            playing.join()

    @contextmanager
    def agent(self, out: str = os.devnull, *, in_a_pod: bool = False) -> Iterator["subprocess.Popen[str]"]:
        """Run the agent of the node, with a token that is bound to it; what it says goes to the file `out`.

        With `in_a_pod` it finds token and server as in a pod, without a kubeconfig and what reads one.
        """
        uid = self.api.get(path_of(NODES, self.name)).ok()["metadata"]["uid"]
        bound = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid}
        user = self.site.plane.service_account(self.site.installation.namespace, AGENT, bound_to=bound)
        words = [
            *("agent", "--node", self.name, "--force"),
            *("--kernel-log", str(self.machine.log), "--state-dir", str(self.folder / "state")),
            *("--proc-root", str(self.machine.proc), "--dev-root", str(self.machine.dev)),
            *("--poll-seconds", "1", "--read-seconds", "5", "--kubelet-socket", self.socket),
        ]
        environment = dict(self.machine.environment())
        if not in_a_pod:
            with _running([*_PROGRAM, *words, "--kubeconfig", str(user.kubeconfig)], environment, out) as process:
                yield process
            return
        account = self.folder / "account"
        account.mkdir()
        (account / "token").write_text(user.token, "utf-8")
        (account / "ca.crt").write_bytes(self.site.plane.ca_file.read_bytes())
        url = urlsplit(self.site.plane.url)
        environment |= {"KUBERNETES_SERVICE_HOST": str(url.hostname), "KUBERNETES_SERVICE_PORT": str(url.port)}
        with _running(["-c", _IN_A_POD, str(account), *words], environment, out) as process:
            yield process

    @contextmanager
    def controller(self, mode: str, out: str = os.devnull) -> Iterator["subprocess.Popen[str]"]:
        """Run a controller, with its own account; what it says goes to the file `out`."""
        user = self.site.account(CONTROLLER)
        settings = self.folder / "gpuward.toml"
        settings.write_text(SETTINGS, "utf-8")
        words = [
            *("controller", "--mode", mode, "--kubeconfig", str(user.kubeconfig), "--lease-seconds", "3"),
            *("--config", str(settings)),
        ]
        with _running([*_PROGRAM, *words], None, out) as process:
            yield process


@contextmanager
def _running(words: list[str], environment: dict[str, str] | None, out: str) -> Iterator["subprocess.Popen[str]"]:
    with (
        Path(out).open("wb") as said,
        subprocess.Popen([sys.executable, *words], env=environment, stdout=said, stderr=said, text=True) as process,
    ):
        try:
            yield process
            assert process.poll() in {None, -signal.SIGKILL}, f"{words} ended: {process.returncode}"
        finally:
            process.kill()


@pytest.fixture
def gpus() -> int:
    """Return how many GPUs a node has."""
    return 2


@pytest.fixture
def node(site: Site, tmp_path: Path, gpus: int) -> Iterator[Node]:
    """Give a node with a pod; what is left of it afterwards is taken away with the site."""
    machine = machines.build(tmp_path / "machine", count=gpus)
    machine.nvml()
    name = site.node()
    pod = {
        "metadata": {"name": f"train-{name}"},
        "spec": {
            "nodeName": name,
            "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "registry.example.com/train:1"}],
        },
    }
    site.api.post(path_of(PODS, namespace="default"), pod).ok()
    node = Node(site, machine, tmp_path, name)
    with node.kubelet():
        yield node


def test_a_sick_gpu_is_fenced_evacuated_repaired_proven_and_returned(node: Node) -> None:
    with node.controller("repair"), node.agent():
        until(lambda: node.api.get(path_of(GPU_NODES, node.name)).good, "the agent has told of its node")
        node.machine.inject(1, 48)
        until(lambda: node.taint() == "xid-48", "the node is tainted")
        until(lambda: node.pods() == [], "its pod is evicted")
        until(lambda: node.state() == "closed", "the case is closed")
        until(lambda: node.taint() is None, "the taint is gone")
    gpu = node.machine.state().gpus[1]
    assert (gpu.resets, gpu.drained, gpu.persistence) == (1, False, True)
    effects = [(one["kind"], one["outcome"]) for one in node.case()["status"]["effects"]]
    assert [kind for kind, outcome in effects if outcome == "done"][:3] == ["evidence", "drain", "taint"]
    assert {"evict", "reset", "verify", "untaint"} <= {kind for kind, outcome in effects if outcome == "done"}
    assert [one["pod"] for one in node.case()["status"]["victims"]] == [f"default/train-{node.name}"]


def test_in_observe_a_sick_gpu_is_told_of_and_left_alone(node: Node) -> None:
    with node.controller("observe"), node.agent():
        until(lambda: node.api.get(path_of(GPU_NODES, node.name)).good, "the agent has told of its node")
        node.machine.inject(1, 48)
        until(lambda: "would be taken out" in node.case().get("status", {}).get("because", ""), "it is said")
        assert (node.taint(), len(node.pods())) == (None, 1)
    gpu = node.machine.state().gpus[1]
    assert (gpu.resets, gpu.drained) == (0, False)


def test_a_fault_names_the_pod_that_has_the_gpu(node: Node) -> None:
    uuid, pod = node.machine.state().gpus[1].uuid, f"train-{node.name}"
    train = kubelet.pod("default", pod, kubelet.container("c", kubelet.devices("nvidia.com/gpu.shared", f"{uuid}::3")))
    idle = (kubelet.pod("default", f"idle-{number}", kubelet.container("c")) for number in range(250))
    with kubelet.telling(node.socket, train, *idle), node.agent(in_a_pod=True) as agent:
        until(lambda: node.api.get(path_of(GPU_NODES, node.name)).good, "the agent has told of its node")
        node.machine.inject(1, 48)
        until(lambda: "pods" in node.fault().get("status", {}), "the fault tells whose GPU it was")
        mapped = Path(f"/proc/{agent.pid}/maps").read_text("utf-8")
    told = node.fault()["status"]["pods"]
    assert told["pods"] == [
        {"namespace": "default", "name": pod, "containers": ["c"], "devices": [f"{uuid}::3"]},
    ]
    assert not told.get("trouble")
    assert "grpc" not in mapped


@pytest.mark.parametrize("gpus", [8])
@pytest.mark.parametrize("in_a_pod", [True, False], ids=["in a pod", "by a kubeconfig"])
def test_the_agent_stays_small_though_all_gpus_of_its_node_fall_ill(node: Node, gpus: int, *, in_a_pod: bool) -> None:
    with node.controller("isolate"), node.agent(in_a_pod=in_a_pod) as agent:
        until(lambda: node.api.get(path_of(GPU_NODES, node.name)).good, "the agent has told of its node")
        for gpu in range(gpus):
            node.machine.inject(gpu, 48)
        until(lambda: len(node.faults()) >= gpus, "each GPU's fault is told")
        until(lambda: _drained(node) >= gpus // 2, "as many as the brake lets are drained, with their evidence")
        resident = Path(f"/proc/{agent.pid}/status").read_text("utf-8").partition("VmRSS:")[2].split()[0]
    assert int(resident) * 1024 <= AGENT_BYTES, f"{resident} KiB"


def _drained(node: Node) -> int:
    return sum(one.drained for one in node.machine.state().gpus)


def test_both_work_on_when_what_they_say_can_no_longer_be_written(node: Node) -> None:
    with node.controller("isolate", "/dev/full"), node.agent("/dev/full"):
        until(lambda: node.api.get(path_of(GPU_NODES, node.name)).good, "the agent has told of its node")
        node.machine.inject(1, 48)
        until(lambda: node.taint() == "xid-48", "the node is tainted")
        until(lambda: node.pods() == [], "its pod is evicted")


def test_both_killed_in_the_middle_the_next_ones_finish(node: Node) -> None:
    with node.controller("repair") as controller, node.agent() as agent:
        until(lambda: node.api.get(path_of(GPU_NODES, node.name)).good, "the agent has told of its node")
        node.machine.inject(1, 48)
        until(lambda: node.taint() == "xid-48", "the node is tainted")
        controller.kill()
        agent.kill()
        controller.wait()
        agent.wait()
        with node.controller("repair"), node.agent():
            until(lambda: node.state() == "closed", "the case is closed")
            until(lambda: node.taint() is None, "the taint is gone")
    gpu = node.machine.state().gpus[1]
    assert (gpu.resets, gpu.drained, gpu.persistence) == (1, False, True)
