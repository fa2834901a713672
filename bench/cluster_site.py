"""Clients of a real API server: pretend nodes and faults on it, writes that are counted and timed."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpu_server import GPUS, node_of, status_of

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes import KubernetesCluster, from_kubeconfig
from gpuward.controller.loop import Controller
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode
from gpuward.model.fault import Verdict
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_case import GpuCase, spec_of, write_gpu_case
from gpuward.model.objects.gpu_fault import FaultSpec, GpuFault, write_gpu_fault
from gpuward.model.objects.gpu_node import GpuState, Health, NodeGpu, NodeStatus
from gpuward.model.objects.head import Head
from gpuward.model.objects.owned import FAULT_TAINT
from gpuward.model.objects.owned import GPUS as GPUS_LABEL
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, Resource
from gpuward.model.scene import GpuSight
from gpuward.model.signal import Moment
from gpuward.ports import Cluster

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))  # the real control plane is the tests' kit

from tests.install.site import Site  # noqa: E402  only from there

AT_ONCE = 32
PATCHES = 1_500
SOON_SECONDS = 60.0


async def make_fleet(cluster: Cluster, count: int) -> list[str]:
    """Make nodes, each with the GPUNode that its agent would have written."""
    names = [f"gpu-{number:05d}" for number in range(count)]
    await spread([make_node(cluster, name) for name in names])
    return names


async def make_node(cluster: Cluster, name: str) -> None:
    """Make one of them."""
    await cluster.create(NODES, node_of(name))
    await cluster.create(GPU_NODES, {"metadata": {"name": name}})
    await set_status(cluster, NODES, name, status_of(name))
    await set_status(cluster, GPU_NODES, name, write(status_of_node()))


def status_of_node() -> NodeStatus:
    """Return what an agent of a healthy node tells."""
    gpus = tuple(map(gpu_of, range(GPUS)))
    return NodeStatus(agent_version="0.1", boot="b1", mode=Mode.OBSERVE, driver_version="575.51.02", gpus=gpus)


def gpu_of(index: int) -> NodeGpu:
    """Return one of its GPUs."""
    return NodeGpu(
        pci=f"0000:{0x10 + index:02x}:00",
        state=GpuState.ACTIVE,
        health=Health.HEALTHY,
        sight=GpuSight(present=True, lost=False, work=(), display=False),
        index=index,
        uuid=f"GPU-5a1b2c3d-0000-1111-2222-{index:012d}",
        model="NVIDIA H100 80GB HBM3",
        minor=index,
        memory_mib=81559,
        mig=False,
        persistence=True,
    )


def fault_of(name: str) -> GpuFault:
    """Return a fault of its first GPU, an urgent one."""
    gpu, now = gpu_of(0), Moment(wall=SystemClock().now(), uptime=None)
    verdict = Verdict(
        level=Level.P0,
        fault_class=FaultClass.HARDWARE,
        action="reset",
        because="Xid 48: a memory error that cannot be corrected.",
        rules=(),
        waits=False,
        parks=False,
        explained_by=None,
    )
    spec = FaultSpec(
        node_name=name,
        boot="b1",
        cursor="k1",
        kind="xid",
        title="Xid 48",
        level=Level.P0,
        fault_class=FaultClass.HARDWARE,
        verdict=verdict,
        first=now,
        last=now,
        count=1,
        code=48,
        gpu=gpu.pci,
        gpu_uuid=gpu.uuid,
    )
    return GpuFault(Head(f"{name}.b1.k1"), spec)


def case_of(name: str) -> GpuCase:
    """Return the case of that fault as a controller opens it."""
    spec, now = fault_of(name).spec, SystemClock().now()
    first = (EffectKind.EVIDENCE, EffectKind.DRAIN, EffectKind.TAINT)
    case = Case(
        id=f"c-{name}.b1.k1",
        node=name,
        gpu=spec.gpu or "",
        gpu_uuid=spec.gpu_uuid,
        fault=f"{name}.b1.k1",
        code=spec.code,
        kind=spec.kind,
        title=spec.title,
        level=spec.level,
        fault_class=spec.fault_class,
        parks=False,
        opened_at=now,
        state=CaseState.FENCED,
        effects=tuple(Effect(number, kind, now) for number, kind in enumerate(first, 1)),
        because="Evidence is kept, and the GPU is to be drained.",
    )
    plan = (*first, EffectKind.PROMOTE, EffectKind.NOTICE, EffectKind.EVICT, EffectKind.RESTORE)
    return GpuCase(Head(case.id), spec_of(case, mode=Mode.ISOLATE, plan=plan))


async def set_status(cluster: Cluster, resource: Resource, name: str, status: Any) -> None:
    """Write the whole status of an object."""
    operation = {"op": "add", "path": "/status", "value": status}
    await cluster.patch(resource, name, [operation], subresource="status")


async def patch_node(cluster: Cluster, name: str) -> None:
    """Make a bare PATCH of a node: one annotation."""
    operation = {"op": "add", "path": "/metadata/annotations", "value": {"bench/at": str(time.monotonic())}}
    await cluster.patch(NODES, name, [operation])


async def patch_rate(cluster: Cluster, names: Sequence[str]) -> float:
    """Return how many bare PATCHes a second the server takes."""
    began = time.monotonic()
    await spread([patch_node(cluster, names[number % len(names)]) for number in range(PATCHES)])
    return PATCHES / (time.monotonic() - began)


async def same_writes_rate(cluster: Cluster, names: Sequence[str]) -> float:
    """Return how many writes a second the server takes of the kinds that a storm is made of: two creations, one PATCH.

    To create an object of a kind of our own is more work for the server than to PATCH a node. What was created is taken
    away again.
    """

    async def three(name: str) -> None:
        await cluster.create(GPU_FAULTS, write_gpu_fault(fault_of(name)))
        await cluster.create(GPU_CASES, write_gpu_case(case_of(name)))
        await patch_node(cluster, name)

    began = time.monotonic()
    await spread([three(name) for name in names])
    took = time.monotonic() - began
    await spread([cluster.delete(GPU_FAULTS, fault_of(name).head.name) for name in names])
    await spread([cluster.delete(GPU_CASES, case_of(name).head.name) for name in names])
    return 3 * len(names) / took


async def is_complete(controller: Controller) -> bool:
    """Return whether the controller has read all that it follows."""
    return controller.picture.is_complete


async def are_known(cluster: Cluster) -> bool:
    """Return whether the controller has marked every node as one with GPUs: then nothing else is left to do."""
    return all(GPUS_LABEL in one["metadata"]["labels"] for one in (await cluster.list(NODES)).items)


async def is_led(cluster: Cluster, name: str) -> bool:
    """Return whether the controller has told the agent of a node its mode: then it has seen the whole fleet."""
    found = await cluster.get(GPU_NODES, name)
    return bool(found and found.get("spec", {}).get("mode"))


async def spread(calls: Sequence[Coroutine[Any, Any, Any]]) -> None:
    """Make all calls, so many at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(call: Coroutine[Any, Any, Any]) -> None:
        async with gate:
            await call

    await asyncio.gather(*map(one, calls))


async def timed(call: Coroutine[Any, Any, Any]) -> float:
    """Return how many seconds a call took."""
    began = time.monotonic()
    await call
    return time.monotonic() - began


async def until(holds: Callable[[], Coroutine[Any, Any, bool]], *, seconds: float = SOON_SECONDS) -> None:
    """Wait until it holds. Raises SystemExit when it does not within so many seconds."""
    end = time.monotonic() + seconds
    while not await holds():
        if time.monotonic() > end:
            raise SystemExit("what is measured never began")
        await asyncio.sleep(0.1)


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[Cluster]:
    """Give a client with the rights of an admin."""
    cluster = KubernetesCluster(await from_kubeconfig(str(site.plane.admin.kubeconfig)))
    try:
        yield cluster
    finally:
        await cluster.close()


def wears(node: Mapping[str, Any]) -> bool:
    """Return whether a node has our taint."""
    return any(one["key"] == FAULT_TAINT for one in node.get("spec", {}).get("taints", ()))
