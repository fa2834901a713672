"""The GPU Operator's programs on the real API server, with the real DaemonSet controller and scheduler.

They are kept off a node for a reset by its labels, and let back as they were: whoever else writes the node meanwhile,
and wherever the controller dies. The node, its kubelet and its agent are played.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes import KubernetesCluster
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.isolation.clients import GATES
from gpuward.model.case import CaseState, EffectKind, Outcome
from gpuward.model.objects.gpu_case import as_case, read_gpu_case
from gpuward.model.objects.gpu_fault import gpu_fault, write_gpu_fault
from gpuward.model.objects.gpu_node import OrderAnswer, read_gpu_node
from gpuward.model.objects.owned import FAULT_TAINT, GPUS, GPUS_PRESENT, OWNED, PAUSED, Label, read_owned
from gpuward.model.objects.values import write
from gpuward.model.resource import DAEMON_SETS, GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, PODS, Resource
from gpuward.ports import Cluster, Object
from gpuward.sim.fleet.mortal import Died
from tests.cluster.real_world import access_of
from tests.controller.fleet import REPAIRING, Told, uuid_of
from tests.controller.operated import DCGM, PLUGIN
from tests.controller.test_real_server import installed
from tests.controller.told import one_gpu
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.controlplane.fixtures import every_part
from tests.kit.controlplane.parts import Part
from tests.kit.merging import GPU_A, told, xid

__all__ = ["every_part"]
pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.usefixtures("every_part")]
EXPORTER = "nvidia.com/gpu.deploy.dcgm-exporter"
DISCOVERY = "nvidia.com/gpu.deploy.gpu-feature-discovery"
BEAT = "site/beat"
"""A label that another controller writes all the time."""
SET = {PLUGIN: "true", DCGM: "true", EXPORTER: "true", DISCOVERY: "kept-off-by-alice"}
"""What people have set before: one of the programs is not wanted on this node."""
_FLAGS = {Part.CONTROLLERS: ["--controllers=daemonset-controller"]}
"""Not those that look after nodes: nobody renews their Leases here."""


class OperatedNode:
    """A node on the real server with the GPU Operator's DaemonSets, and one that has nothing to do with GPUs."""

    def __init__(self, kit: Kit, cluster: Cluster) -> None:
        self.name = kit.name("gpu")
        self.space = kit.namespace()
        self.cluster = cluster
        self.done: list[tuple[EffectKind, tuple[str, ...], dict[str, str]]] = []
        """What the agent did, and which programs and labels were on the node then."""
        self.beats = 0
        self._answers: dict[str, OrderAnswer] = {}

    async def make(self) -> None:
        """Make all of it."""
        labels = {**SET, GPUS: GPUS_PRESENT, "site/pool": "a", BEAT: "0"}
        await self.cluster.create(NODES, {"metadata": {"name": self.name, "labels": labels}})
        room = {"cpu": "8", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": "1"}
        ready = {"type": "Ready", "status": "True", "reason": "Played", "message": "played"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await self._patch(NODES, self.name, {"op": "add", "path": "/status", "value": status}, of="status")
        # The server taints what is new as not ready; somebody else has reserved the node.
        foreign = [{"key": "site/reserved", "value": "x", "effect": "PreferNoSchedule"}]
        await self._patch(NODES, self.name, {"op": "add", "path": "/spec/taints", "value": foreign})
        for name, chosen in (
            ("plugin", {PLUGIN: "true"}),
            ("dcgm", {DCGM: "true"}),
            ("exporter", {EXPORTER: "true"}),
            ("discovery", {DISCOVERY: "true"}),
            ("logs", {"site/pool": "a"}),
        ):
            await self._make_daemon(name, chosen)
        await self.cluster.create(GPU_NODES, {"metadata": {"name": self.name}})
        await self.act()

    async def fault(self) -> str:
        """Let the agent tell of a fault; return the name of its case."""
        (one,) = told([xid(48, 0.0)]).faults
        fault = gpu_fault(replace(one, gpu_uuid=uuid_of(GPU_A)), self.name)
        await self.cluster.create(GPU_FAULTS, write_gpu_fault(fault))
        return f"c-{fault.head.name}"

    async def act(self) -> None:
        """Let the kubelet run and end pods, another controller write its label, and the agent do what is ordered."""
        self.beats += 1
        await self._patch(
            NODES, self.name, {"op": "add", "path": "/metadata/labels/site~1beat", "value": str(self.beats)}
        )
        for pod in (await self.cluster.list(PODS, namespace=self.space)).items:
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                await self.cluster.delete(PODS, name, namespace=self.space, grace_seconds=0)
            elif pod["status"].get("phase") == "Pending" and pod["spec"].get("nodeName"):
                runs = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                await self._patch(PODS, name, {"op": "add", "path": "/status", "value": runs}, of="status")
        await self._answer()

    async def node(self) -> Object:
        """Return the node."""
        found = await self.cluster.get(NODES, self.name)
        assert found is not None
        return found

    async def gates(self) -> dict[str, str]:
        """Return what the labels of the node say about the programs."""
        labels = (await self.node())["metadata"]["labels"]
        return {key: value for key, value in labels.items() if key in GATES}

    async def programs(self) -> dict[str, str]:
        """Return the DaemonSets that have a pod on the node which runs, each with the pod's UID."""
        found = (await self.cluster.list(PODS, namespace=self.space)).items
        return {
            pod["metadata"]["ownerReferences"][0]["name"]: pod["metadata"]["uid"]
            for pod in found
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Play until something is so."""
        for _ in range(200):
            if await holds():
                return
            await self.act()
            await asyncio.sleep(0.05)
        raise AssertionError(f"it never came to that: {what}")

    async def ended(self, case: str) -> bool:
        """Return whether a case is closed; it must not be parked."""
        found = await self.cluster.get(GPU_CASES, case)
        seen = None if found is None else as_case(read_gpu_case(found))
        assert seen is None or seen.state is not CaseState.PARKED, seen
        return seen is not None and seen.state is CaseState.CLOSED

    async def _make_daemon(self, name: str, chosen: Mapping[str, str]) -> None:
        pod = {
            "nodeSelector": dict(chosen),
            "tolerations": [{"key": FAULT_TAINT, "operator": "Exists"}],
            "containers": [{"name": "c", "image": "registry.example.com/it:1"}],
        }
        template = {"metadata": {"labels": {"app": name}}, "spec": pod}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        await self.cluster.create(DAEMON_SETS, {"metadata": {"name": name}, "spec": spec}, namespace=self.space)

    async def _answer(self) -> None:
        object_ = await self.cluster.get(GPU_NODES, self.name)
        assert object_ is not None
        found = read_gpu_node(object_)
        orders = () if found.spec is None else found.spec.orders
        for order in orders:
            if order.id not in self._answers:
                self.done.append((order.what, tuple(sorted(await self.programs())), await self.gates()))
                self._answers[order.id] = OrderAnswer(order.id, Outcome.DONE, order.asked_at)
        answers = tuple(self._answers[order.id] for order in orders)
        status = one_gpu(answers)
        if status != found.status:
            operation = {"op": "add", "path": "/status", "value": write(status)}
            await self._patch(GPU_NODES, self.name, operation, of="status")

    async def _patch(self, resource: Resource, name: str, operation: Mapping[str, Any], *, of: str = "") -> None:
        space = self.space if resource.namespaced else None
        await self.cluster.patch(resource, name, [operation], namespace=space, subresource=of)


class DiesAtLabels:
    """The cluster, at whose patch of the programs' labels the controller dies: before it is sent, or unanswered."""

    def __init__(self, cluster: Cluster, *, after: bool) -> None:
        self._cluster = cluster
        self._after = after
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        if self.is_dead:
            raise Died
        return getattr(self._cluster, name)

    async def patch(
        self, resource: Resource, name: str, operations: Sequence[Mapping[str, Any]], **asked: Any
    ) -> Object:
        """Change, or die."""
        dies = any("gpu.deploy" in str(one.get("path", "")) for one in operations)
        if self.is_dead or (dies and not self._after):
            self.is_dead = True
            raise Died
        made = await self._cluster.patch(resource, name, operations, **asked)
        if dies:
            self.is_dead = True
            raise Died
        return made


@contextlib.asynccontextmanager
async def controlled(cluster: Any) -> AsyncIterator["asyncio.Future[None]"]:
    """Let a controller run as long as the context lasts, or until it dies."""
    terms = replace(REPAIRING, round_seconds=0.2, probation_seconds=0.5)
    pace = Pace(SystemClock(), asyncio.sleep, random.random)
    running = asyncio.ensure_future(Controller(cluster, pace=pace, terms=terms, tell=Told().hear).run())
    try:
        yield running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, Died):
            await running


@pytest.fixture
async def site(cluster: Kit) -> AsyncIterator[OperatedNode]:
    """Give a node on the real server whose programs run."""
    with installed(cluster), cluster.plane.running(Part.SCHEDULER, Part.CONTROLLERS, flags=_FLAGS):
        connected = KubernetesCluster(access_of(cluster.plane, cluster.plane.admin))
        try:
            node = OperatedNode(cluster, connected)
            await node.make()

            async def all_run() -> bool:
                return sorted(await node.programs()) == ["dcgm", "exporter", "logs", "plugin"]

            await node.until(all_run, "the programs that are wanted run")
            yield node
        finally:
            await connected.close()


async def test_they_go_for_the_reset_and_what_others_write_meanwhile_stays(site: OperatedNode) -> None:
    before, programs = await site.node(), await site.programs()
    async with controlled(site.cluster):
        case = await site.fault()

        async def paused() -> bool:
            return (await site.gates())[PLUGIN] == PAUSED

        await site.until(paused, "the labels say that they are kept away")
        assert read_owned(await site.node()).labels == {
            key: Label(PAUSED, "true") for key in (PLUGIN, DCGM, EXPORTER)
        }, "and our note says what they said before"
        # A person does not want one of them any more, whatever gpuward does.
        await site.cluster.patch(
            NODES,
            site.name,
            [{"op": "replace", "path": f"/metadata/labels/{DCGM.replace('/', '~1')}", "value": "false"}],
        )
        await site.until(lambda: site.ended(case), "the case is closed")
    away = {PLUGIN: PAUSED, EXPORTER: PAUSED, DCGM: "false", DISCOVERY: SET[DISCOVERY]}
    for kind, there, gates in site.done:
        if kind in {EffectKind.PAUSE, EffectKind.RESET}:
            assert (there, gates) == (("logs",), away), kind
    assert EffectKind.RESET in [kind for kind, _, _ in site.done]

    async def back() -> bool:
        return sorted(await site.programs()) == ["exporter", "logs", "plugin"]

    await site.until(back, "those that are wanted are back")
    assert await site.gates() == {**SET, DCGM: "false"}
    assert (await site.programs())["logs"] == programs["logs"], "it was never asked to go"
    after = await site.node()
    assert after["spec"].get("taints") == before["spec"].get("taints")
    assert OWNED not in after["metadata"].get("annotations", {})
    assert after["metadata"]["labels"][BEAT] == str(site.beats), "another controller's label is its own"


async def test_wherever_the_controller_dies_the_next_one_puts_them_back(site: OperatedNode) -> None:
    case = await site.fault()
    deaths = 0
    # At the pause unsent, at the pause unanswered, at the end of it unsent, at the end of it unanswered.
    for after in (False, True, False, True):
        mortal = DiesAtLabels(site.cluster, after=after)
        async with controlled(mortal) as running:

            async def is_dead(running: "asyncio.Future[None]" = running) -> bool:
                return running.done()

            await site.until(is_dead, f"it dies, {deaths} have before")
            assert isinstance(running.exception(), Died)
            deaths += 1
    async with controlled(site.cluster):
        await site.until(lambda: site.ended(case), "the case is closed")
    assert await site.gates() == SET
    assert [kind for kind, _, _ in site.done].count(EffectKind.RESET) == 1
    assert all(there == ("logs",) for kind, there, _ in site.done if kind is EffectKind.RESET)
    assert sorted(await site.programs()) == ["dcgm", "exporter", "logs", "plugin"]
    assert OWNED not in (await site.node())["metadata"].get("annotations", {})
