"""A node that stops answering with work on its GPUs: fenced, emptied when it is off for certain, then proven."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.isolation import laws
from gpuward.isolation.node_conditions import PROVE_AGAIN_SECONDS
from gpuward.model.case import Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_case import as_case
from gpuward.model.objects.gpu_node import Health
from gpuward.model.resource import DAEMON_SETS, GPU_CASES, JOBS, NODES, PODS
from tests.controller.losing import LOSING, LOST, LosingFleet
from tests.kit.merging import GPU_A, GPU_B

S = CaseState


def a_fleet(*others: str, **terms: Any) -> LosingFleet:
    fleet = LosingFleet(terms=replace(LOSING, **terms))
    for name in ("gpu-1", *others):
        fleet.node(name)
        fleet.answer(name)
    fleet.pod("train-0")
    return fleet


async def test_a_node_with_work_that_stops_answering_is_fenced_and_its_pods_are_asked_to_end() -> None:
    fleet = a_fleet()
    fleet.pod("web", gpus=0)
    fleet.pod("exporter", gpus=0, ownerReferences=fleet.owner(DAEMON_SETS, "exporter"))
    async with fleet.running() as controller:
        await fleet.lived(controller, 3)
        fleet.lose("gpu-1")
        await fleet.lived(controller, LOSING.lost_seconds)
        assert fleet.of_nodes() == []
        case = await fleet.in_state(controller, S.PARKED)
    assert (case.kind, case.gpu, case.title) == (LOST.replace("-", "_"), "", "the node does not answer")
    assert "5 s" in case_verdict(fleet)
    assert "work/train-0" in case_verdict(fleet)
    assert fleet.taint() == "node-lost"
    assert case.victims == ("work/train-0", "work/web")
    assert [effect.kind for effect in case.effects] == ["taint", "promote", "notice", "evict"]
    assert "node.kubernetes.io/out-of-service" in case.due
    pod = fleet.get(PODS, "train-0", space="work")
    assert "deletionTimestamp" in pod["metadata"]
    assert fleet.orders() == []


def case_verdict(fleet: LosingFleet) -> str:
    (found,) = fleet.gpu_cases()
    return found.spec.because + " ".join(one.because for one in fleet.told.happenings)


async def test_its_pods_take_their_standby_with_them() -> None:
    fleet = a_fleet()
    fleet.node("spare", taints=({"key": "gpuward.io/standby", "effect": "NoSchedule"},))
    fleet.pool()
    fleet.pod("train-1", ownerReferences=fleet.owner(JOBS, "train"))
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        case = await fleet.in_state(controller, S.PARKED)
    promoted = next(effect for effect in case.effects if effect.kind is EffectKind.PROMOTE)
    assert promoted.outcome is Outcome.DONE
    assert "gpuward.io/standby" not in fleet.taints("spare")


async def test_a_node_without_work_on_its_gpus_is_no_case() -> None:
    fleet = LosingFleet()
    fleet.node("gpu-1")
    fleet.pod("web", gpus=0)
    fleet.pod("plugin", ownerReferences=fleet.owner(DAEMON_SETS, "plugin"))
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.lived(controller, 20)
    assert fleet.gpu_cases() == []
    assert fleet.taint() is None


async def test_a_node_that_a_person_cordoned_is_in_his_hands() -> None:
    fleet = a_fleet()
    fleet.cordon("gpu-1")
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.lived(controller, 20)
    assert fleet.gpu_cases() == []


@pytest.mark.parametrize("skew_seconds", [-3600.0, 3600.0])
async def test_a_short_absence_is_none_whatever_other_clocks_say(skew_seconds: float) -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1", since=fleet.time.now() + skew_seconds)
        await fleet.lived(controller, LOSING.lost_seconds - 1)
        fleet.answer("gpu-1")
        await fleet.lived(controller, 10)
    assert fleet.gpu_cases() == []


async def test_a_controller_that_has_just_started_waits_the_whole_time() -> None:
    fleet = a_fleet()
    fleet.lose("gpu-1", since=fleet.time.now() - 600.0)
    async with fleet.running() as controller:
        await fleet.lived(controller, LOSING.lost_seconds)
        assert fleet.gpu_cases() == []
        await fleet.in_state(controller, S.PARKED)


async def test_one_that_stands_by_for_election_has_looked_all_along() -> None:
    fleet = a_fleet()
    async with fleet.running() as leader, fleet.running() as follower:
        await fleet.lived(leader, 2)
        fleet.lose("gpu-1")
        for _ in range(int(LOSING.lost_seconds) + 1):
            follower.watch_nodes()
            await fleet.time.pass_by(1.0)
        await fleet.go(follower, rounds=2)
    assert [case.kind for case in fleet.of_nodes()] == ["node_lost"]


async def test_a_node_that_leaves_the_cluster_holds_up_no_fence_of_another() -> None:
    fleet = a_fleet("gpu-2", "gpu-3")
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        await fleet.time.run(controller.round())
        fleet.server.delete(NODES, "gpu-3")
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        newest = await fleet.time.run(controller.round())
        assert newest.troubles == ()
        assert fleet.case_state(fault) is S.FENCED


async def test_when_half_the_fleet_does_not_answer_nobody_is_lost() -> None:
    names = [f"gpu-{number}" for number in range(2, 9)]
    fleet = a_fleet(*names)
    for name in names:
        fleet.pod(f"work-of-{name}", name)
    before = fleet.get(NODES, "gpu-1")["spec"]
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1", *names[:4])
        await fleet.lived(controller, 20)
        held = fleet.of_nodes()
        assert [(case.state, case.effects) for case in held] == [(S.SUSPECT, ())] * 5
        assert "5 of 8 GPU nodes do not answer" in held[0].because
        fleet.answer("gpu-1", *names[:4])
        await fleet.until(controller, lambda: all(case.ended for case in fleet.of_nodes()))
    assert {case.state for case in fleet.of_nodes()} == {S.WITHDRAWN}
    assert fleet.get(NODES, "gpu-1")["spec"] == before


async def test_the_brake_lets_go_when_fewer_are_away() -> None:
    fleet = a_fleet("gpu-2", "gpu-3")
    fleet.pod("train-1", "gpu-2")
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1", "gpu-2")
        await fleet.lived(controller, 10)
        assert {case.state for case in fleet.of_nodes()} == {S.SUSPECT}
        fleet.answer("gpu-2")
        await fleet.in_state(controller, S.PARKED)
    assert sorted((case.node, case.state) for case in fleet.of_nodes()) == [("gpu-1", S.PARKED), ("gpu-2", S.WITHDRAWN)]


@pytest.mark.parametrize("boot", ["", "b2"])
async def test_a_node_that_answers_again_is_proven_and_returned_and_nothing_is_left(boot: str) -> None:
    fleet = a_fleet()
    before = fleet.get(NODES, "gpu-1")
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.in_state(controller, S.PARKED)
        fleet.answer("gpu-1", boot=boot)
        case = await fleet.in_state(controller, S.CLOSED)
    assert [effect.kind for effect in case.effects][-2:] == ["verify", "untaint"]
    assert fleet.pods() == [], "what was asked to end has ended"
    after = fleet.get(NODES, "gpu-1")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


async def test_one_that_answers_before_a_pod_was_touched_leaves_no_mark() -> None:
    fleet = a_fleet(approval=True)
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.lived(controller, 8)
        fleet.answer("gpu-1")
        case = await fleet.in_state(controller, S.WITHDRAWN)
    assert case.effects == ()


async def test_without_its_agent_it_stays_out_of_service() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.in_state(controller, S.PARKED)
        fleet.answer("gpu-1", agent=False)
        await fleet.in_state(controller, S.VERIFYING)
        case = await fleet.in_state(controller, S.PARKED)
        assert "has not renewed its Lease" in case.due
        assert fleet.taint() == LOST
        fleet.agents["gpu-1"].silent = False
        await fleet.time.pass_by(PROVE_AGAIN_SECONDS)
        await fleet.in_state(controller, S.CLOSED)


async def test_a_sick_gpu_keeps_it_out_unless_the_gpu_has_its_own_case() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].health[GPU_B] = Health.FAULTY
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.in_state(controller, S.PARKED)
        fleet.answer("gpu-1")
        await fleet.in_state(controller, S.VERIFYING)
        case = await fleet.in_state(controller, S.PARKED)
        assert f"GPU {GPU_B} is faulty" in case.due
        fleet.agents["gpu-1"].obstacles[GPU_B] = "reboot the node"
        fleet.fault(79, pci=GPU_B)
        await fleet.time.pass_by(PROVE_AGAIN_SECONDS)
        await fleet.in_state(controller, S.CLOSED)
    assert fleet.taint() == "xid-79", "the GPU's own case goes on"


async def test_one_that_is_lost_again_and_again_waits_for_a_person() -> None:
    fleet = a_fleet(probation_seconds=60.0)
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        for _ in range(3):
            fleet.lose("gpu-1")
            await fleet.in_state(controller, S.PARKED)
            fleet.answer("gpu-1")
            await fleet.in_state(controller, S.PROBATION)
        fleet.lose("gpu-1")
        await fleet.in_state(controller, S.PARKED)
        fleet.answer("gpu-1")
        await fleet.lived(controller, 20)
        (case,) = fleet.of_nodes()
        assert case.state is S.PARKED
        assert case.because == "It failed again on probation: the node stopped answering again"
        fleet.order(case.id, what="retry")
        await fleet.in_state(controller, S.PROBATION)


# --- pods are deleted only where nothing runs any more ------------------------------------------------------------


async def parked(fleet: LosingFleet, controller: Any) -> Case:
    await fleet.lived(controller, 2)
    fleet.lose("gpu-1")
    case = await fleet.in_state(controller, S.PARKED)
    await fleet.lived(controller, 20)
    assert fleet.pods() == ["work/train-0"], "it may still run"
    return case


async def test_pods_are_deleted_when_a_person_says_that_the_node_is_off() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        case = await parked(fleet, controller)
        fleet.order(case.id, what="off", by="alice")
        await fleet.until(controller, lambda: fleet.pods() == [])
        case = await fleet.in_state(controller, S.PARKED)
    assert case.effects[-1].kind is EffectKind.CLEAR
    assert case.effects[-1].outcome is Outcome.DONE
    assert "power" in case.due


async def test_pods_are_deleted_when_the_node_is_put_out_of_service() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await parked(fleet, controller)
        fleet.put_out_of_service("gpu-1")
        await fleet.until(controller, lambda: fleet.pods() == [])


async def test_a_node_that_answers_is_not_off_whatever_was_said() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        case = await parked(fleet, controller)
        fleet.answer("gpu-1", agent=False)
        fleet.frozen_pods.add("train-0")
        fleet.order(case.id, what="off")
        fleet.put_out_of_service("gpu-1")
        await fleet.lived(controller, 10)
        assert fleet.pods() == ["work/train-0"]
        assert not fleet.of_nodes()[-1].off
        assert EffectKind.CLEAR not in [effect.kind for effect in fleet.of_nodes()[-1].effects]


async def test_a_node_that_has_left_the_cluster_ends_its_case() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await parked(fleet, controller)
        fleet.server.delete(NODES, "gpu-1")
        case = await fleet.in_state(controller, S.CLOSED)
    assert case.because == "The node has left the cluster."
    assert fleet.pods() == []


# --- people, modes, and other cases -------------------------------------------------------------------------------


async def test_a_release_ends_it_while_the_node_is_away_and_this_loss_opens_no_other() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        case = await parked(fleet, controller)
        fleet.order(case.id, what="release")
        await fleet.in_state(controller, S.CLOSED)
        await fleet.lived(controller, 20)
        assert len(fleet.of_nodes()) == 1
    async with fleet.running() as controller:
        await fleet.lived(controller, 20)
        assert len(fleet.of_nodes()) == 1
        fleet.answer("gpu-1")
        fleet.pod("train-1")
        await fleet.lived(controller, 3)
        fleet.lose("gpu-1")
        await fleet.until(controller, lambda: len(fleet.of_nodes()) == 2)


async def test_in_mode_observe_it_is_only_said() -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    before = fleet.get(NODES, "gpu-1")["spec"]
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        await fleet.lived(controller, 12)
        (case,) = fleet.of_nodes()
        assert (case.state, case.effects) == (S.SUSPECT, ())
        assert case.because == "In mode observe: the node would be taken out of service now."
        fleet.answer("gpu-1")
        await fleet.in_state(controller, S.WITHDRAWN)
    assert fleet.get(NODES, "gpu-1")["spec"] == before


async def test_a_node_is_in_one_case_of_its_own_and_in_one_for_each_gpu() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = "reboot the node"
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.fault(79)
        fleet.fault(31, pci=GPU_B)
        await fleet.lived(controller, 1)
        fleet.pod("train-2")
        fleet.lose("gpu-1")
        await fleet.in_state(controller, S.PARKED)
        await fleet.lived(controller, 20)
        cases = [as_case(one) for one in fleet.gpu_cases()]
        assert sorted(case.gpu for case in cases) == sorted(["", GPU_A, GPU_B])
        assert laws.one_case_a_gpu(cases)
        assert fleet.taint() == "xid-79", "of equal ones the oldest"
        fleet.answer("gpu-1")
        await fleet.in_state(controller, S.CLOSED)
    assert len(fleet.server.list(GPU_CASES).items) == 3
    assert fleet.taint() == "xid-79"
