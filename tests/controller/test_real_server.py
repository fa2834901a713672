"""The controller on a real API server, with the schemas that are installed: fenced, evicted, parked, released."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes import KubernetesCluster
from gpuward.cli.manifests.definitions import definition
from gpuward.controller.desk.reading import UNJUDGED
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.isolation.node_condition import condition_of
from gpuward.model.case import CaseState, Outcome
from gpuward.model.objects.gpu_case import as_case, read_gpu_case
from gpuward.model.objects.gpu_fault import gpu_fault, write_gpu_fault
from gpuward.model.objects.gpu_node import (
    OrderAnswer,
    read_gpu_node,
)
from gpuward.model.objects.kinds import KINDS
from gpuward.model.objects.owned import FAULT_TAINT, GPUS, GPUS_PRESENT
from gpuward.model.objects.values import write
from gpuward.model.resource import EVENTS, GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, PODS
from gpuward.ports import Cluster, Object
from tests.cluster.real_world import access_of
from tests.controller.fleet import REPAIRING, Told, uuid_of
from tests.controller.told import one_gpu
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.merging import GPU_A, told, xid
from tests.kit.ward import until as seen

pytestmark = [pytest.mark.real, pytest.mark.long]
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBSTACLE = "It fell off the bus: only a reboot brings it back."


@contextlib.contextmanager
def installed(kit: Kit) -> Iterator[None]:
    """Serve our kinds as they are installed while the body runs."""
    api = kit.plane.admin.api
    bodies = [definition(kind) for kind in KINDS]
    for body in bodies:
        api.post(_DEFINITIONS, body).ok()
    try:
        for kind in KINDS:
            path = f"/apis/{kind.resource.api_version}/{kind.resource.plural}"
            seen(lambda path=path: api.get(path).good, f"{path} is served")  # type: ignore[misc]  # bound now
        yield
    finally:
        for body in bodies:
            api.delete(f"{_DEFINITIONS}/{body['metadata']['name']}").ok()
        for body in bodies:
            place = f"{_DEFINITIONS}/{body['metadata']['name']}"
            seen(lambda place=place: api.get(place).code == 404, f"{place} is gone")  # type: ignore[misc]  # bound now


class RealNode:
    """A node on the real server with one pod, whose agent and kubelet are played."""

    def __init__(self, kit: Kit, cluster: Cluster) -> None:
        self.name = kit.name("gpu")
        self.space = kit.namespace()
        self.cluster = cluster
        self.api = kit.plane.admin.api

    async def make(self) -> str:
        """Make all of it, and a fault that its agent tells; return the fault's name."""
        metadata = {
            "name": self.name,
            "annotations": {"site/rack": "r1"},
            "labels": {"site/pool": "a", GPUS: GPUS_PRESENT},
        }
        taints = [{"key": "site/reserved", "value": "x", "effect": "PreferNoSchedule"}]
        await self.cluster.create(NODES, {"metadata": metadata, "spec": {"taints": taints}})
        spec = {"nodeName": self.name, "containers": [{"name": "c", "image": "registry.example.com/it:1"}]}
        await self.cluster.create(PODS, {"metadata": {"name": "train-0"}, "spec": spec}, namespace=self.space)
        body = {"apiVersion": GPU_NODES.api_version, "kind": GPU_NODES.kind, "metadata": {"name": self.name}}
        await self.cluster.create(GPU_NODES, body)
        await self.act()
        (one,) = told([xid(79, 0.0)]).faults
        fault = gpu_fault(replace(one, gpu_uuid=uuid_of(GPU_A)), self.name)
        await self.cluster.create(GPU_FAULTS, write_gpu_fault(fault))
        return fault.head.name

    async def act(self) -> None:
        """Answer every order as done, and end the pods that are ending."""
        found = read_gpu_node(await self.get(GPU_NODES, self.name))
        orders = () if found.spec is None else found.spec.orders
        answers = tuple(OrderAnswer(order.id, Outcome.DONE, order.asked_at) for order in orders)
        status = one_gpu(answers, model="NVIDIA H100 80GB HBM3", obstacle=OBSTACLE)
        if status != found.status:
            operation = {"op": "add", "path": "/status", "value": write(status)}
            await self.cluster.patch(GPU_NODES, self.name, [operation], subresource="status")
        pod = await self.cluster.get(PODS, "train-0", namespace=self.space)
        if pod is not None and "deletionTimestamp" in pod["metadata"]:
            await self.cluster.delete(PODS, "train-0", namespace=self.space, grace_seconds=0)

    async def get(self, resource: Any, name: str) -> Object:
        """Return what must be there."""
        found = await self.cluster.get(resource, name)
        assert found is not None
        return found

    async def until(self, holds: Callable[[], Any]) -> None:
        """Play until something is so."""
        for _ in range(300):
            if await holds():
                return
            await self.act()
            await asyncio.sleep(0.1)
        raise AssertionError("it never came to that")


async def says(real: RealNode, status: str) -> bool:
    """Return whether our condition on the node says this."""
    condition = condition_of(await real.get(NODES, real.name))
    return condition is not None and condition["status"] == status


@pytest.fixture
async def real(cluster: Kit) -> AsyncIterator[RealNode]:
    """Give a node on the real server."""
    with installed(cluster):
        connected = KubernetesCluster(access_of(cluster.plane, cluster.plane.admin))
        try:
            yield RealNode(cluster, connected)
        finally:
            await connected.close()


async def test_a_node_is_fenced_evacuated_parked_and_released_on_a_real_server(real: RealNode) -> None:
    fault = await real.make()
    unjudged = await real.cluster.list(GPU_FAULTS, fields=UNJUDGED, project=lambda one: one["metadata"]["name"])
    assert list(unjudged.items) == [fault]
    before = await real.get(NODES, real.name)
    heard = Told()
    pace = Pace(SystemClock(), asyncio.sleep, random.random)
    terms = replace(REPAIRING, round_seconds=0.5)
    controller = Controller(real.cluster, pace=pace, terms=terms, tell=heard.hear)
    running = asyncio.ensure_future(controller.run())
    name = f"c-{fault}"

    async def is_in(state: CaseState) -> bool:
        found = await real.cluster.get(GPU_CASES, name)
        return found is not None and as_case(read_gpu_case(found)).state is state

    try:
        await real.until(lambda: is_in(CaseState.PARKED))
        case = read_gpu_case(await real.get(GPU_CASES, name))
        assert case.status is not None
        assert [victim.pod for victim in case.status.victims] == [f"{real.space}/train-0"]
        assert case.status.due == OBSTACLE
        node = await real.get(NODES, real.name)
        taints = {one["key"]: one.get("value") for one in node["spec"]["taints"]}
        assert taints[FAULT_TAINT] == "xid-79"
        assert taints["site/reserved"] == "x"
        await real.until(lambda: says(real, "True"))
        order = {"number": 1, "what": "release", "by": "alice"}
        await real.cluster.patch(GPU_CASES, name, [{"op": "add", "path": "/spec/orders", "value": [order]}])
        await real.until(lambda: is_in(CaseState.CLOSED))
        assert not (await real.cluster.list(GPU_FAULTS, fields=UNJUDGED)).items
        await real.until(lambda: says(real, "False"))
        listed = await real.cluster.list(EVENTS, project=lambda one: (one["related"]["name"], one["reason"]))
        told = sorted(reason for case, reason in listed.items if case == name)
        assert told == ["GPUCaseClosed", "GPUCaseParked", "GPUFault", "GPUFaultEvicted", "GPUFenced", "GPUPodsEvicted"]
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    after = await real.get(NODES, real.name)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert await real.cluster.get(PODS, "train-0", namespace=real.space) is None
    assert controller.newest.troubles == ()
    assert heard.happenings
