"""A P1 lets its work end: whose work it is, whether that may go on, and when it has ended for good."""

from dataclasses import replace

import pytest

from gpuward.model.case import CaseState, Mode
from gpuward.model.resource import PODS
from tests.controller.fleet import REPAIRING, Fleet
from tests.kit.merging import GPU_A


def a_fleet() -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, mode=Mode.ISOLATE))
    fleet.node("gpu-1")
    fleet.pod("train-0")
    return fleet


async def test_a_pod_between_two_of_its_processes_keeps_its_gpu() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].work = ()
    async with fleet.running() as controller:
        fault = fleet.fault(31, pods=("train-0",))
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=10)
        case = fleet.case(fault)
        assert case.state is CaseState.FENCED
        assert case.because == "Waits for its work to end: work/train-0, which has it and may go on"
        assert not fleet.agents["gpu-1"].drained
        fleet.end_pod("train-0")
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert fleet.agents["gpu-1"].drained == {GPU_A}


async def test_a_pod_that_crashes_again_and_again_has_ended() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        fault = fleet.fault(31, pods=("train-0",))
        await fleet.time.pass_by(0.1)
        for restarts in range(1, 6):
            agent.work = ("python (7)",)
            fleet.crash_pod("train-0", restarts=restarts, waits=False)
            await fleet.go(controller, rounds=3)
            assert fleet.case_state(fault) is CaseState.FENCED, "it runs"
            agent.work = ()
            fleet.crash_pod("train-0", restarts=restarts + 1)
            await fleet.go(controller, rounds=3)
            if restarts + 1 >= 3:
                break
            assert fleet.case_state(fault) is CaseState.FENCED, "it may have been an accident"
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert agent.drained == {GPU_A}
    assert fleet.pods() == ["work/train-0"], "it is nobody's business to evict it"


async def test_another_pod_of_the_node_is_not_waited_for() -> None:
    fleet = a_fleet()
    fleet.pod("other")
    fleet.agents["gpu-1"].work = ()
    async with fleet.running() as controller:
        fault = fleet.fault(31, pods=("train-0",))
        await fleet.time.pass_by(0.1)
        fleet.server.delete(PODS, "train-0", namespace="work", grace_seconds=0)
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert fleet.pods() == ["work/other"]


@pytest.mark.parametrize("beside", [{"running": {}}, {"waiting": {"reason": "ContainerCreating"}}])
async def test_one_of_two_containers_with_gpus_that_may_go_on_keeps_the_gpu(beside: dict[str, object]) -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].work = ()
    asks = {"limits": {"nvidia.com/gpu": 1}}
    spec = {"nodeName": "gpu-1", "containers": [{"name": name, "resources": asks} for name in ("a", "b")]}
    fleet.server.create(PODS, {"metadata": {"name": "two"}, "spec": spec}, namespace="work")
    crashed = {"name": "a", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    states = [crashed, {"name": "b", "restartCount": 0, "state": beside}]
    fleet.server.patch(
        PODS,
        "two",
        [{"op": "add", "path": "/status", "value": {"phase": "Running", "containerStatuses": states}}],
        namespace="work",
        subresource="status",
    )
    async with fleet.running() as controller:
        fault = fleet.fault(31, pods=("two",))
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=10)
    assert fleet.case_state(fault) is CaseState.FENCED
