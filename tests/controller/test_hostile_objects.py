"""Any objects at all for one node, as the schemas let them pass: the other nodes are helped, and left alone."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuward.controller.heed import DEFECT
from gpuward.model.objects.gpu_case import CaseSpec, CaseStatus, GpuCase, as_case, write_gpu_case
from gpuward.model.objects.gpu_fault import FaultSpec, FaultStatus, GpuFault, fault_name, write_gpu_fault
from gpuward.model.objects.gpu_node import NodeStatus
from gpuward.model.objects.head import Head
from gpuward.model.objects.shapes import shape_of
from gpuward.model.objects.standby_pool import PoolSpec, PoolStatus, StandbyPool, write_standby_pool
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, STANDBY_POOLS
from tests.controller.fleet import NOW, Fleet
from tests.controller.test_hostile import a_fleet, help_comes, put_status
from tests.kit.merging import GPU_A, GPU_B
from tests.kit.objects import TIMES, values_of

FIRST, LAST = "0001-01-01T00:00:00Z", "9899-12-31T23:59:59Z"
"""The first and the last time that is read; a later one is refused by name."""
ANY_TIMES = st.sampled_from([FIRST, LAST]) | (st.sampled_from([0.0, NOW]) | TIMES).map(
    lambda at: datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
)
CASES = st.lists(st.tuples(values_of(shape_of(CaseSpec)), values_of(shape_of(CaseStatus))), max_size=3)
FAULTS = st.lists(st.tuples(values_of(shape_of(FaultSpec)), st.none() | values_of(shape_of(FaultStatus))), max_size=3)
POOLS = st.lists(st.tuples(values_of(shape_of(PoolSpec)), st.none() | values_of(shape_of(PoolStatus))), max_size=2)


@settings(max_examples=15, deadline=None)
@given(CASES, FAULTS, values_of(shape_of(NodeStatus)), POOLS, ANY_TIMES)
def test_whatever_stands_there_for_a_node_the_others_are_helped_and_left_alone(
    cases: list[tuple[CaseSpec, CaseStatus]],
    faults: list[tuple[FaultSpec, FaultStatus | None]],
    node: NodeStatus,
    pools: list[tuple[PoolSpec, PoolStatus | None]],
    at: str,
) -> None:
    fleet = a_fleet("gpu-2", "gpu-3")
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        fleet.pod(f"on-{name}", name)
    for number, (spec, status) in enumerate(cases):
        head = Head(f"c-gpu-1.b1.k{900 + number}")
        gpu = (GPU_A, GPU_B, spec.gpu)[number % 3]
        mine = replace(spec, node="gpu-1", fault=f"gpu-1.b1.k{900 + number}", gpu=gpu)
        whole = write_gpu_case(GpuCase(head, mine))
        fleet.server.create(GPU_CASES, {**whole, "spec": {**whole["spec"], "openedAt": at}})
        put_status(fleet, GPU_CASES, head.name, {**write(status), "since": at})
    for number, (told, said) in enumerate(faults):
        name = fault_name("gpu-1", told.boot, f"k{number}")
        fault = GpuFault(Head(name), replace(told, node_name="gpu-1", cursor=f"k{number}"))
        fleet.server.create(GPU_FAULTS, write_gpu_fault(fault))
        if said is not None:
            put_status(fleet, GPU_FAULTS, name, write(said))
    for number, (wanted, has) in enumerate(pools):
        fleet.server.create(STANDBY_POOLS, write_standby_pool(StandbyPool(Head(f"pool-{number}"), wanted)))
        if has is not None:
            put_status(fleet, STANDBY_POOLS, f"pool-{number}", write(has))
    fleet.agents["gpu-1"].silent = True
    put_status(fleet, GPU_NODES, "gpu-1", write(node))
    asyncio.run(_they_are_helped(fleet))


async def _they_are_helped(fleet: Fleet) -> None:
    async with fleet.running() as controller:
        await help_comes(fleet, controller)
        for _ in range(8):
            await fleet.go(controller)
            assert not [one for one in controller.newest.troubles if DEFECT in one]
    assert fleet.pods("gpu-2") == []
    assert (fleet.taint("gpu-3"), fleet.pods("gpu-3")) == (None, ["work/on-gpu-3"])
    for case in map(as_case, fleet.gpu_cases()):
        assert case.node != "gpu-3"
