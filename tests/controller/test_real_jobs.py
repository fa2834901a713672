"""A job on the real API server, with the real Job controller and scheduler: told, evicted, and at home on the standby.

Nodes, their kubelets and agents are played. The Job is part of a JobSet, whose own controller nobody needs here.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes import KubernetesCluster
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.model.case import CaseState, Outcome
from gpuward.model.job import JOB, JOB_SET
from gpuward.model.objects.gpu_case import CaseStatus, as_case, read_gpu_case
from gpuward.model.objects.gpu_fault import gpu_fault, write_gpu_fault
from gpuward.model.objects.gpu_node import OrderAnswer, read_gpu_node
from gpuward.model.objects.notice import Verb, read_notice
from gpuward.model.objects.owned import FAULT_TAINT, NOTICE, RESERVED, STANDBY
from gpuward.model.objects.standby_pool import PoolStatus, read_standby_pool
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, PODS, STANDBY_POOLS
from gpuward.ports import Object
from tests.cluster.real_world import access_of, defined
from tests.controller.fleet import REPAIRING, Told, uuid_of
from tests.controller.test_real_server import OBSTACLE, installed
from tests.controller.told import one_gpu
from tests.kit.controlplane.fixtures import Cluster as Kit
from tests.kit.controlplane.fixtures import every_part
from tests.kit.controlplane.parts import Part
from tests.kit.merging import GPU_A, told, xid

__all__ = ["every_part"]
pytestmark = [pytest.mark.real, pytest.mark.long]
MODEL = "NVIDIA H100 80GB HBM3"
SAVE_SECONDS = 6.0
SETS = JOB_SET.resource("jobset.x-k8s.io/v1alpha2")
JOBS = JOB.resource("batch/v1")
_FLAGS = {Part.CONTROLLERS: ["--controllers=job-controller"]}
"""Not those that look after nodes: nobody renews their Leases here."""


class Site:
    """Three nodes with a GPU each, of which one stands by, and a job on the other two."""

    def __init__(self, kit: Kit, cluster: KubernetesCluster) -> None:
        self.kit = kit
        self.cluster = cluster
        self.space = kit.namespace()
        self.nodes = tuple(kit.name(word) for word in ("gpu-a", "gpu-b", "spare"))
        self.set_uid = ""

    async def make(self) -> None:
        """Make all of it."""
        for name in self.nodes:
            await self._make_node(name, stands_by=name == self.nodes[2])
        spec = {"shape": {"product": MODEL.replace(" ", "-"), "count": 1}, "size": 1}
        await self.cluster.create(STANDBY_POOLS, {"metadata": {"name": self.kit.name("h100")}, "spec": spec})
        body: dict[str, Any] = {"apiVersion": SETS.api_version, "kind": SETS.kind, "metadata": {"name": "llm"}}
        made = await self.cluster.create(SETS, body, namespace=self.space)
        self.set_uid = made["metadata"]["uid"]
        owner = {"apiVersion": SETS.api_version, "kind": "JobSet", "name": "llm", "uid": self.set_uid}
        labels = {
            "gpuward.io/checkpoint": "true",
            "jobset.sigs.k8s.io/jobset-name": "llm",
            "jobset.sigs.k8s.io/jobset-uid": self.set_uid,
        }
        container = {
            "name": "main",
            "image": "registry.example.com/it:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "restartPolicy": "Never"}}
        metadata = {"name": "llm-ranks", "ownerReferences": [{**owner, "controller": True}]}
        job = {
            "metadata": metadata,
            "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template},
        }
        await self.cluster.create(JOBS, job, namespace=self.space)

    async def fault(self) -> str:
        """Let the agent of the first node tell of a fault; return its name."""
        (one,) = told([xid(79, 0.0)]).faults
        fault = gpu_fault(replace(one, gpu_uuid=uuid_of(GPU_A)), self.nodes[0])
        await self.cluster.create(GPU_FAULTS, write_gpu_fault(fault))
        return fault.head.name

    async def act(self) -> None:
        """Answer every order as done, run the pods that were bound, and end those that are ending."""
        for name in self.nodes:
            await self._answer(name)
        for pod in await self.pods():
            name, phase = pod["metadata"]["name"], pod["status"].get("phase")
            if "deletionTimestamp" in pod["metadata"]:
                await self.cluster.delete(PODS, name, namespace=self.space, grace_seconds=0)
            elif phase == "Pending" and pod["spec"].get("nodeName"):
                operation = {"op": "add", "path": "/status/phase", "value": "Running"}
                await self.cluster.patch(PODS, name, [operation], namespace=self.space, subresource="status")

    async def pods(self, node: str | None = None) -> list[Object]:
        """Return the pods of the job that have not ended, or those on a node."""
        listed = await self.cluster.list(PODS, namespace=self.space)
        alive = [one for one in listed.items if one["status"].get("phase") not in {"Failed", "Succeeded"}]
        return [one for one in alive if node is None or one["spec"].get("nodeName") == node]

    async def taints(self, node: str) -> dict[str, str]:
        """Return the taints of a node."""
        found = await self.cluster.get(NODES, node)
        assert found is not None
        return {one["key"]: one.get("value", "") for one in found["spec"].get("taints", ())}

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Play until something is so."""
        for _ in range(300):
            if await holds():
                return
            await self.act()
            await asyncio.sleep(0.1)
        raise AssertionError(f"it never came to that: {what}")

    async def _make_node(self, name: str, *, stands_by: bool) -> None:
        taints = [{"key": STANDBY, "effect": "NoSchedule"}] if stands_by else []
        await self.cluster.create(NODES, {"metadata": {"name": name}})
        room = {"cpu": "8", "memory": "64Gi", "pods": "20", "nvidia.com/gpu": "1"}
        ready = {"type": "Ready", "status": "True", "reason": "Played", "message": "played"}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await self.cluster.patch(NODES, name, [{"op": "add", "path": "/status", "value": status}], subresource="status")
        # The server taints what is new as not ready.
        await self.cluster.patch(NODES, name, [{"op": "add", "path": "/spec/taints", "value": taints}])
        body = {"apiVersion": GPU_NODES.api_version, "kind": GPU_NODES.kind, "metadata": {"name": name}}
        await self.cluster.create(GPU_NODES, body)
        await self._answer(name)

    async def _answer(self, name: str) -> None:
        object_ = await self.cluster.get(GPU_NODES, name)
        assert object_ is not None
        found = read_gpu_node(object_)
        orders = () if found.spec is None else found.spec.orders
        answers = tuple(OrderAnswer(order.id, Outcome.DONE, order.asked_at) for order in orders)
        status = one_gpu(answers, model=MODEL, obstacle=OBSTACLE)
        if status != found.status:
            operation = {"op": "add", "path": "/status", "value": write(status)}
            await self.cluster.patch(GPU_NODES, name, [operation], subresource="status")


@pytest.fixture
async def site(cluster: Kit) -> AsyncIterator[Site]:
    """Give the site on the real server."""
    with installed(cluster), defined(cluster.plane, SETS):
        connected = KubernetesCluster(access_of(cluster.plane, cluster.plane.admin))
        try:
            yield Site(cluster, connected)
        finally:
            await connected.close()


@pytest.mark.usefixtures("every_part")
async def test_a_job_is_told_on_all_its_nodes_and_comes_home_on_the_standby(site: Site) -> None:  # noqa: PLR0915  one life
    pace = Pace(SystemClock(), asyncio.sleep, random.random)
    eviction = replace(REPAIRING.eviction, save_seconds=SAVE_SECONDS, grace_seconds=1)
    terms = replace(REPAIRING, round_seconds=0.5, eviction=eviction)
    heard = Told()
    controller = Controller(site.cluster, pace=pace, terms=terms, tell=heard.hear)
    sick, well, spare = site.nodes

    async def status_of(fault: str) -> CaseStatus | None:
        found = await site.cluster.get(GPU_CASES, f"c-{fault}")
        return None if found is None else read_gpu_case(found).status

    async def pool_status() -> PoolStatus | None:
        found = await site.cluster.get(STANDBY_POOLS, site.kit.name("h100"))
        return None if found is None else read_standby_pool(found).status

    with site.kit.plane.running(Part.SCHEDULER, Part.CONTROLLERS, flags=_FLAGS):
        await site.make()

        async def both_run() -> bool:
            places = {one["spec"].get("nodeName") for one in await site.pods()}
            return places == {sick, well}

        await site.until(both_run, "a rank on each node")
        (first,), (other,) = await site.pods(sick), await site.pods(well)
        running = asyncio.ensure_future(controller.run())
        try:
            fault = await site.fault()

            async def all_told() -> bool:
                status = await status_of(fault)
                return status is not None and bool(status.noticed) and status.noticed[0].told_at is not None

            await site.until(all_told, "every pod of the job is told")
            notices = {}
            for pod in (first, other):
                found = await site.cluster.get(PODS, pod["metadata"]["name"], namespace=site.space)
                assert found is not None
                assert "deletionTimestamp" not in found["metadata"]
                notices[pod["metadata"]["name"]] = read_notice(found["metadata"]["annotations"][NOTICE])
            mine, others = notices[first["metadata"]["name"]], notices[other["metadata"]["name"]]
            assert (mine.verb, others.verb) == (Verb.PERSIST, Verb.SAVE)
            assert mine.job == others.job == site.set_uid
            assert others.bad[0].node == sick
            assert (await site.taints(spare)).get(RESERVED) == site.set_uid
            assert STANDBY not in await site.taints(spare)

            async def is_home() -> bool:
                return bool(await site.pods(spare))

            await site.until(is_home, "the rank that was evicted runs on the standby")
            (again,) = await site.pods(spare)
            assert any(one.get("key") == RESERVED for one in again["spec"]["tolerations"])
            status = await status_of(fault)
            assert status is not None
            (victim,) = status.victims
            assert victim.uid == first["metadata"]["uid"]
            assert victim.owner == "JobSet/llm"
            assert victim.job == site.set_uid
            assert victim.asked_at is not None
            assert victim.asked_at >= mine.deadline

            async def is_free() -> bool:
                return RESERVED not in await site.taints(spare)

            await site.until(is_free, "the standby is anybody's when the rank is bound")

            async def is_parked() -> bool:
                found = await site.cluster.get(GPU_CASES, f"c-{fault}")
                pool = await pool_status()
                noted = pool is not None and bool(pool.promoted) and pool.promoted[0].freed_at is not None
                return found is not None and as_case(read_gpu_case(found)).state is CaseState.PARKED and noted

            await site.until(is_parked, "the case is parked")
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
    (left,) = await site.pods(well)
    assert left["metadata"]["uid"] == other["metadata"]["uid"], "the rank on the healthy node is left alone"
    assert (await site.taints(sick))[FAULT_TAINT] == "xid-79"
    assert controller.newest.troubles == ()
