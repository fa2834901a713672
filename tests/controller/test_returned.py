"""A node that left the cluster with a drained GPU, and is there again when the case of that has ended."""

from dataclasses import replace

import pytest

from gpuward.controller.loop import Controller
from gpuward.controller.outcomes import GONE_SECONDS, LEFT, UNDOES
from gpuward.controller.returned import owed_again
from gpuward.controller.views import gpu_node_view
from gpuward.isolation.budget import Budget
from gpuward.model.case import ON_A_SERVER, Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_node import GpuState
from gpuward.model.resource import GPU_NODES, NODES
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.fleet import REPAIRING, Fleet
from tests.controller.test_killed_anywhere import check_it_lives
from tests.kit.merging import GPU_A, GPU_B

FOREVER = 10_000


def a_fleet() -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, mode=Mode.ISOLATE))
    fleet.node("gpu-1")
    return fleet


async def left(fleet: Fleet, controller: Controller) -> Case:
    """Return the case of a GPU that was drained, and whose node has left since; a person released it."""
    fault = fleet.fault(48)
    await fleet.time.pass_by(0.1)
    case = await fleet.settled(controller, fault, CaseState.PARKED)
    fleet.agents["gpu-1"].silent = True
    fleet.server.delete(NODES, "gpu-1")
    fleet.order(case.id, what="release")
    await fleet.go(controller, rounds=3)
    await fleet.time.pass_by(GONE_SECONDS)
    await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.agents["gpu-1"].drained == {GPU_A}
    assert fleet.orders() == []
    return fleet.case(fault)


def comes_back(fleet: Fleet, *, boot: str = "") -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    fleet.server.create(NODES, {"metadata": {"name": "gpu-1"}, "spec": {}, "status": ready})
    agent = fleet.agents["gpu-1"]
    agent.silent = False
    if boot:
        agent.boots(boot)


async def test_one_that_comes_back_without_a_boot_is_undrained_and_nothing_else_is_done() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        case = await left(fleet, controller)
        before = len(agent.done)
        comes_back(fleet)
        await fleet.go(controller, rounds=8)
        assert [what for _, what in agent.done[before:]] == [EffectKind.UNDRAIN, EffectKind.RESTORE]
        assert agent.drained == set()
        assert fleet.orders() == []
        assert fleet.taint() is None
        assert fleet.case(case.fault) == case, "closed is closed"


async def test_one_that_comes_back_with_a_boot_is_ordered_nothing() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await left(fleet, controller)
        before = len(fleet.agents["gpu-1"].done)
        comes_back(fleet, boot="b2")
        await fleet.go(controller, rounds=8)
    assert len(fleet.agents["gpu-1"].done) == before
    assert fleet.orders() == []


async def silent_at(fleet: Fleet, controller: Controller, what: EffectKind) -> Case:
    """Return a case whose agent fell silent when it was to do this."""
    fault = fleet.fault(48)
    await fleet.time.pass_by(0.1)
    for _ in range(60):
        await fleet.time.run(controller.round())
        asked = [one.kind for one in fleet.case(fault).effects if one.outcome is Outcome.ASKED]
        if what in asked:
            fleet.agents["gpu-1"].silent = True
            return fleet.case(fault)
        fleet.move()
        await fleet.time.pass_by(1.0)
    raise AssertionError(f"{what} was never asked for")


@pytest.mark.parametrize("what", sorted(ON_A_SERVER))
@pytest.mark.parametrize("released_first", [True, False], ids=["released", "later"])
async def test_a_release_ends_whatever_was_under_way_when_the_node_left(
    what: EffectKind,
    released_first: bool,  # noqa: FBT001  a row
) -> None:
    fleet = Fleet(terms=replace(REPAIRING, budget=Budget(gpus=1)))
    fleet.node("gpu-1")
    fleet.node("gpu-2")
    async with fleet.running() as controller:
        case = await silent_at(fleet, controller, what)
        fleet.server.delete(NODES, "gpu-1")
        await fleet.time.pass_by(0.1)
        if released_first:
            fleet.order(case.id, what="release")
        for _ in range(4):
            await fleet.go(controller, rounds=3)
            await fleet.time.pass_by(GONE_SECONDS)
        if not released_first:
            assert not fleet.case(case.fault).ended, "nobody said that it may"
            fleet.order(case.id, what="release")
            await fleet.go(controller, rounds=3)
            await fleet.time.pass_by(GONE_SECONDS)
        await fleet.settled(controller, case.fault, CaseState.CLOSED)
        ended = fleet.case(case.fault)
        assert not ended.marks
        left = [one for one in case.effects if one.kind is what and one.outcome is Outcome.ASKED]
        assert what in UNDOES or {ended.effects[one.number - 1].why for one in left} == {LEFT}
        assert fleet.orders() == []
        other = fleet.fault(48, "gpu-2")
        await fleet.until(controller, lambda: fleet.case_state(other) is not CaseState.SUSPECT)


async def test_a_gpu_that_has_a_fault_again_stays_drained_for_its_new_case() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await left(fleet, controller)
        comes_back(fleet)
        fault = fleet.fault(62)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
        await fleet.go(controller, rounds=8)
    assert EffectKind.UNDRAIN not in [what for _, what in fleet.agents["gpu-1"].done]
    assert fleet.agents["gpu-1"].drained == {GPU_A}


async def test_what_a_person_drained_and_another_gpu_are_left_alone() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await left(fleet, controller)
    view = gpu_node_view(fleet.get(GPU_NODES, "gpu-1"))
    told = {state: replace(view, gpus=(replace(view.gpus[0], state=state),)) for state in GpuState}
    owed = {state for state, seen in told.items() if owed_again(fleet.gpu_cases(), (), seen)}
    assert owed == {GpuState.DRAINING, GpuState.IDLE}
    other = replace(view, gpus=(replace(view.gpus[0], pci=GPU_B, state=GpuState.IDLE),))
    assert owed_again(fleet.gpu_cases(), (), other) == []


async def _comes_back_while(fleet: Fleet, cluster: MortalCluster) -> None:
    """Let the node come back to a controller on `cluster`, and to another from when that dies."""
    comes_back(fleet)
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                check_it_lives(controller)
                await fleet.go(controller, rounds=8)
        except Died:
            continue
        break


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_it_is_undrained_once(after: bool) -> None:  # noqa: FBT001  a row
    async def begun() -> Fleet:
        fleet = a_fleet()
        async with fleet.running() as controller:
            await left(fleet, controller)
        return fleet

    fleet = await begun()
    whole = MortalCluster(fleet.cluster, last=FOREVER, after=False)
    await _comes_back_while(fleet, whole)
    assert whole.calls > 5
    for last in range(1, whole.calls + 1):
        fleet = await begun()
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        await _comes_back_while(fleet, cluster)
        assert cluster.is_dead
        assert fleet.agents["gpu-1"].drained == set(), f"killed at call {last}"
        assert [what for _, what in fleet.agents["gpu-1"].done].count(EffectKind.UNDRAIN) == 1
        assert fleet.orders() == []
