"""A lost node and a reboot on a real API server: pods that no kubelet ends, a person's word, a Job made once."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes import KubernetesCluster
from gpuward.controller.loop import Controller
from gpuward.controller.outcomes import Heard
from gpuward.controller.pace import Pace
from gpuward.controller.reboot import Rebooter
from gpuward.controller.views import node_view
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode
from gpuward.model.objects.gpu_case import as_case, read_gpu_case
from gpuward.model.objects.gpu_node import GpuState, Health, NodeGpu, NodeStatus
from gpuward.model.objects.owned import FAULT_TAINT, GPUS, GPUS_PRESENT, agent_lease
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES, GPU_NODES, JOBS, LEASES, NODES, PODS
from gpuward.model.scene import GpuSight
from gpuward.ports import Cluster, Conflict
from gpuward.settings.reboot import RebootTerms
from tests.cluster.real_world import access_of
from tests.controller.fleet import Told
from tests.controller.losing import LOSING
from tests.controller.test_real_server import installed
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A

pytestmark = [pytest.mark.real, pytest.mark.long]
_CLOCK = SystemClock()
BOOT = "0a1b2c3d-0000-4000-8000-000000000000"


def _now() -> datetime:
    return datetime.fromtimestamp(_CLOCK.now(), UTC)


class AwayNode:
    """A node on the real server with one pod that has a GPU; its kubelet, if it is there, is played."""

    def __init__(self, kit: Kit, cluster: Cluster) -> None:
        self.name = kit.name("gpu")
        self.space = kit.namespace()
        self.cluster = cluster
        self.answers = True

    async def make(self) -> None:
        """Make all of it."""
        metadata = {"name": self.name, "labels": {GPUS: GPUS_PRESENT}}
        await self.cluster.create(NODES, {"metadata": metadata})
        container = {"name": "c", "image": "registry.example.com/it:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        spec = {"nodeName": self.name, "containers": [container]}
        await self.cluster.create(PODS, {"metadata": {"name": "train-0"}, "spec": spec}, namespace=self.space)
        body = {"apiVersion": GPU_NODES.api_version, "kind": GPU_NODES.kind, "metadata": {"name": self.name}}
        await self.cluster.create(GPU_NODES, body)
        sight = GpuSight(present=True, lost=False, work=(), display=False)
        gpu = NodeGpu(pci=GPU_A, state=GpuState.ACTIVE, health=Health.HEALTHY, sight=sight)
        status = NodeStatus(agent_version="1", boot=BOOT[:8], mode=Mode.REPAIR, gpus=(gpu,))
        operation = {"op": "add", "path": "/status", "value": write(status)}
        await self.cluster.patch(GPU_NODES, self.name, [operation], subresource="status")
        await self.tell("True")

    async def tell(self, status: str) -> None:
        """Let the cluster say whether the node is Ready."""
        self.answers = status == "True"
        stamp = f"{_now():%Y-%m-%dT%H:%M:%SZ}"
        condition = {"type": "Ready", "status": status, "lastTransitionTime": stamp, "reason": "x", "message": ""}
        body: list[dict[str, Any]] = [
            {"op": "add", "path": "/status/conditions", "value": [condition]},
            {"op": "add", "path": "/status/nodeInfo/bootID", "value": BOOT},
        ]
        await self.cluster.patch(NODES, self.name, body, subresource="status")

    async def act(self) -> None:
        """Renew the agent's Lease, as long as the node answers."""
        if not self.answers:
            return
        spec = {"holderIdentity": self.name, "renewTime": f"{_now():%Y-%m-%dT%H:%M:%S.%fZ}"}
        lease = agent_lease(self.name)
        try:
            operation = {"op": "add", "path": "/spec", "value": spec}
            await self.cluster.patch(LEASES, lease, [operation], namespace=self.space)
        except Conflict:
            await self.cluster.create(LEASES, {"metadata": {"name": lease}, "spec": spec}, namespace=self.space)

    async def case(self, state: CaseState) -> Case:
        """Wait until the case of the node is in a state, and return it."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            listed = await self.cluster.list(GPU_CASES, project=lambda found: as_case(read_gpu_case(found)))
            found: Case | None = next(
                (one for one in listed.items if one.node == self.name and one.state is state), None
            )
            if found is not None:
                return found
            await self.act()
            await asyncio.sleep(0.2)
        raise AssertionError(f"it never came to {state}")

    async def is_there(self) -> bool:
        """Return whether its pod is there."""
        return await self.cluster.get(PODS, "train-0", namespace=self.space) is not None


@pytest.fixture
async def away(cluster: Kit) -> AsyncIterator[AwayNode]:
    """Give a node on the real server."""
    with installed(cluster):
        connected = KubernetesCluster(access_of(cluster.plane, cluster.plane.admin))
        try:
            yield AwayNode(cluster, connected)
        finally:
            await connected.close()


async def test_a_node_that_stops_answering_is_emptied_by_a_persons_word_only_and_returns_proven(away: AwayNode) -> None:
    await away.make()
    before = (await away.cluster.get(NODES, away.name) or {})["spec"]
    terms = replace(
        LOSING,
        mode=Mode.ISOLATE,
        lost_seconds=2.0,
        back_seconds=2.0,
        probation_seconds=1.0,
        round_seconds=0.5,
        namespace=away.space,
    )
    pace, heard = Pace(_CLOCK, asyncio.sleep, random.random), Told()
    controller = Controller(away.cluster, pace=pace, terms=terms, tell=heard.hear)
    running = asyncio.ensure_future(controller.run())
    try:
        await asyncio.sleep(1.0)
        await away.tell("Unknown")
        case = await away.case(CaseState.PARKED)
        assert (case.kind, case.gpu) == ("node_lost", "")
        node = await away.cluster.get(NODES, away.name) or {}
        assert {one["key"]: one.get("value") for one in node["spec"]["taints"]}[FAULT_TAINT] == "node-lost"
        pod = await away.cluster.get(PODS, "train-0", namespace=away.space) or {}
        assert "deletionTimestamp" in pod["metadata"], "it was asked to end, and no kubelet ends it"
        order = {"number": 1, "what": "off", "by": "alice"}
        await away.cluster.patch(GPU_CASES, case.id, [{"op": "add", "path": "/spec/orders", "value": [order]}])
        until = time.monotonic() + 30
        while await away.is_there():
            assert time.monotonic() < until
            await asyncio.sleep(0.2)
        await away.tell("True")
        case = await away.case(CaseState.CLOSED)
        assert case.effects[-1].kind is EffectKind.UNTAINT
        assert controller.newest.troubles == ()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert (await away.cluster.get(NODES, away.name) or {})["spec"] == before


async def test_the_built_in_job_is_taken_by_the_server_and_made_once(away: AwayNode) -> None:
    await away.make()
    view = node_view(await away.cluster.get(NODES, away.name) or {})
    effect = Effect(3, EffectKind.REBOOT, asked_at=0.0)
    case = a_case(id=f"c-{away.name}.x.k1", node=away.name, boot=view.boot)
    for _ in range(2):  # as two controllers, one after the other
        heard = Heard()
        terms = RebootTerms(enabled=True, image="registry.example.com/gpuward:1")
        await Rebooter(away.cluster, heard, namespace=away.space, terms=terms).reboot(case, effect, view)
        assert heard.refused == {}
    listed = await away.cluster.list(JOBS, namespace=away.space)
    (job,) = listed.items
    assert job["spec"]["template"]["spec"]["nodeName"] == away.name
    assert job["spec"]["activeDeadlineSeconds"] == 300
