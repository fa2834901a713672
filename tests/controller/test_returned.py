"""A node that left the cluster with a drained GPU, and is there again when the case of that has ended."""

from dataclasses import replace

import pytest

from gpuward.controller.loop import Controller
from gpuward.controller.outcomes import GONE_SECONDS, LEFT, UNDOES, is_taken_for_undone
from gpuward.controller.returned import owed_again
from gpuward.controller.views import gpu_node_view
from gpuward.isolation.budget import Budget
from gpuward.model.case import ON_A_SERVER, Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_node import GpuState, OrderAnswer
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
        after = fleet.case(case.fault)
        assert replace(after, effects=()) == replace(case, effects=()), "closed is closed"
        assert [(one.kind, one.outcome) for one in after.effects] == [(one.kind, one.outcome) for one in case.effects]
        assert not any(map(is_taken_for_undone, after.effects)), "what came of it is written down"


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
    owed = {state: asked_of(owed_again(fleet.gpu_cases(), (), seen)) for state, seen in told.items()}
    both, restore = {EffectKind.UNDRAIN, EffectKind.RESTORE}, {EffectKind.RESTORE}
    assert {state: kinds for state, kinds in owed.items() if kinds} == {
        GpuState.DRAINING: both,
        GpuState.IDLE: both,
        GpuState.ACTIVE: restore,
    }
    other = replace(view, gpus=(replace(view.gpus[0], pci=GPU_B, state=GpuState.IDLE),))
    assert owed_again(fleet.gpu_cases(), (), other) == []


def asked_of(cases: list[Case]) -> set[EffectKind]:
    return {one.kind for case in cases for one in case.effects if one.outcome is Outcome.ASKED}


async def test_a_newer_case_that_drained_nothing_does_not_hide_that_the_drain_stands() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await left(fleet, controller)
    async with fleet.running(terms=replace(REPAIRING, mode=Mode.OBSERVE)) as controller:
        fault = fleet.fault(31)
        comes_back(fleet)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        assert fleet.case_state(fault) is CaseState.SUSPECT
        assert fleet.agents["gpu-1"].drained == {GPU_A}, "a case works on it"
        fleet.end_fault(fault)
        await fleet.go(controller, rounds=8)
        assert fleet.case_state(fault) is CaseState.WITHDRAWN
    assert fleet.agents["gpu-1"].drained == set()
    assert fleet.orders() == []


async def test_a_newer_case_that_drained_it_and_lifted_that_leaves_nothing_owed() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await left(fleet, controller)
        comes_back(fleet)
        fault = fleet.fault(62)
        await fleet.time.pass_by(0.1)
        newer = await fleet.settled(controller, fault, CaseState.PARKED)
        fleet.order(newer.id, what="release")
        await fleet.settled(controller, fault, CaseState.CLOSED)
        before = len(fleet.agents["gpu-1"].done)
        fleet.agents["gpu-1"].drained.add(GPU_A)  # by the agent alone, and its fault has not come yet
        await fleet.go(controller, rounds=4)
    assert fleet.agents["gpu-1"].done[before:] == []
    assert fleet.agents["gpu-1"].drained == {GPU_A}


async def test_what_the_agent_drained_alone_on_a_later_boot_is_not_lifted_for_an_old_case() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        await left(fleet, controller)
        comes_back(fleet, boot="b2")
        await fleet.go(controller, rounds=8)
        before = len(agent.done)
        agent.drained.add(GPU_A)  # its status comes before the object of its fault does
        await fleet.go(controller, rounds=4)
    assert agent.done[before:] == []
    assert agent.drained == {GPU_A}
    assert fleet.orders() == []


@pytest.mark.parametrize("is_refused", [False, True], ids=["failed", "refused"])
async def test_an_undrain_that_does_not_succeed_is_tried_once_and_told_with_its_remedy(*, is_refused: bool) -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        case = await left(fleet, controller)
        await fleet.time.pass_by(86400.0)
        agent.fails[EffectKind.UNDRAIN] = "nvidia-smi: the GPU is in use"
        if is_refused:
            agent.refuses.add(EffectKind.UNDRAIN)
        comes_back(fleet)
        told = len(fleet.told.happenings)
        await fleet.go(controller, rounds=12)
        assert fleet.orders() == [], "it stays with nobody"
        remedy = "`nvidia-smi drain -p 0000:3B:00.0 -m 0`"
        (happening,) = fleet.told.happenings[told:]
        events = [one for one in fleet.events() if one["reason"] == "GPUMarkStays"]
        assert len(events) == 1
        for said in (happening.because, events[0]["note"], fleet.case(case.fault).because):
            assert remedy in said
            assert "the GPU is in use" in said
        assert events[0]["type"] == "Warning"
        assert fleet.case(case.fault).state is CaseState.CLOSED
    async with fleet.running() as controller:
        await fleet.time.pass_by(86400.0)
        await fleet.go(controller, rounds=6)
        assert len(fleet.told.happenings) == told + 1, "and never again"
        assert controller.newest.troubles == ()
    assert fleet.orders() == []


async def test_an_agent_that_tried_it_when_nobody_heard_its_answer_is_ordered_it_anew() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        case = await left(fleet, controller)
        for effect in case.effects:  # it knows each of these, and does none of them again
            agent.answers[f"{case.id}.{effect.number}"] = OrderAnswer(
                f"{case.id}.{effect.number}", Outcome.FAILED, fleet.time.now(), "nvidia-smi: the GPU was in use"
            )
        comes_back(fleet)
        await fleet.go(controller, rounds=8)
    assert agent.drained == set()
    assert fleet.orders() == []


async def stopped_and_left(fleet: Fleet, controller: Controller) -> Case:
    """Return the case that was released after its node left: its services were stopped, and its drain was lifted."""
    agent = fleet.agents["gpu-1"]
    fault = fleet.fault(48)
    await fleet.time.pass_by(0.1)
    agent.fails[EffectKind.RESTORE] = "nvidia-persistenced does not start"
    await fleet.until(controller, lambda: EffectKind.VERIFY in [what for _, what in agent.done])
    agent.silent = True
    agent.fails.clear()
    fleet.server.delete(NODES, "gpu-1")
    for _ in range(4):
        await fleet.go(controller, rounds=3)
        await fleet.time.pass_by(GONE_SECONDS)
    case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert case.marks.altered, "it is not returned to service"
    fleet.order(case.id, what="release")
    await fleet.go(controller, rounds=3)
    await fleet.time.pass_by(GONE_SECONDS)
    await fleet.settled(controller, fault, CaseState.CLOSED)
    return fleet.case(fault)


@pytest.mark.parametrize(("boot", "done"), [("", [EffectKind.RESTORE]), ("b2", [])], ids=["same boot", "booted"])
async def test_services_that_were_stopped_are_started_once_when_the_node_is_back(
    boot: str, done: list[EffectKind]
) -> None:
    fleet = Fleet()
    agent = fleet.node("gpu-1")
    async with fleet.running() as controller:
        await stopped_and_left(fleet, controller)
        before = len(agent.done)
        comes_back(fleet, boot=boot)
        await fleet.go(controller, rounds=6)
        assert [what for _, what in agent.done[before:]] == done
    async with fleet.running() as controller:
        agent.answers.clear()
        await fleet.go(controller, rounds=6)
    assert [what for _, what in agent.done[before:]] == done, "another controller knows it, too"
    assert fleet.orders() == []


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
