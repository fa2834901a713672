"""The controller on a pretend fleet: what becomes of a node whose GPU falls ill, and what is left alone."""

from dataclasses import replace

import pytest

from gpuward.cli.manifests.installation import CONTROLLER, Installation
from gpuward.cli.manifests.rights import rights
from gpuward.controller.loop import Controller
from gpuward.controller.outcomes import GONE, GONE_SECONDS
from gpuward.isolation.node_conditions import TAINT_TRIES
from gpuward.model.case import Case, CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_case import GpuCase, spec_of, write_gpu_case
from gpuward.model.objects.head import Head
from gpuward.model.resource import DAEMON_SETS, GPU_CASES, GPU_FAULTS, GPU_NODES, JOBS, NODES
from gpuward.sim.cluster.users import Rule, rules_of
from tests.controller.fleet import NOW, REPAIRING, Fleet
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A, GPU_B

OBSTACLE = "It fell off the bus: only a reboot brings it back."


def a_fleet(**terms: object) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))  # type: ignore[arg-type]  # the test names fields of Terms
    fleet.node("gpu-1")
    return fleet


async def test_an_urgent_fault_fences_evicts_and_parks_where_the_gpu_cannot_be_reset() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    fleet.pod("train-0")
    fleet.pod("web", gpus=0)
    fleet.pod("dns", space="kube-system", gpus=0)
    fleet.pod("static", gpus=0, annotations={"kubernetes.io/config.mirror": "x"})
    fleet.pod("exporter", gpus=0, ownerReferences=fleet.owner(DAEMON_SETS, "exporter"))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
        assert fleet.taint() == "xid-79", "tainted in the round in which the fault was seen"
        assert fleet.orders() == ["evidence", "drain"]
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert case.due == OBSTACLE
    assert fleet.pods() == ["kube-system/dns", "work/exporter", "work/static"]
    assert case.victims == ("work/train-0", "work/web")
    assert fleet.taint() == "xid-79"
    assert fleet.agents["gpu-1"].drained == {GPU_A}
    assert EffectKind.RESET not in [what for _, what in fleet.agents["gpu-1"].done]


async def test_a_fault_that_a_reset_repairs_returns_the_gpu_and_leaves_nothing_behind() -> None:
    fleet = a_fleet()
    before = fleet.get(NODES, "gpu-1")
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    agent = fleet.agents["gpu-1"]
    assert [what for _, what in agent.done].count(EffectKind.RESET) == 1
    assert len(agent.done) == len(set(agent.done))
    assert not agent.drained
    undone = [(effect.kind, effect.why) for effect in case.effects if effect.outcome is not Outcome.DONE]
    assert undone == [(EffectKind.PROMOTE, "no pool keeps nodes of its shape standing by")]
    after = fleet.get(NODES, "gpu-1")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert fleet.orders() == []
    assert fleet.get(GPU_NODES, "gpu-1")["spec"]["mode"] == "repair"


async def test_a_patient_fault_waits_tainted_and_undrained_until_its_work_ends() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=30)
        case = fleet.case(fault)
        assert (case.state, case.because) == (CaseState.FENCED, "Waits for its work to end: train-0")
        assert fleet.taint() == "xid-31"
        assert fleet.pods() == ["work/train-0"]
        assert not fleet.agents["gpu-1"].drained
        fleet.end_pod("train-0")
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert fleet.agents["gpu-1"].drained == {GPU_A}


async def test_a_false_alarm_that_was_fenced_is_taken_back_whole() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].silent = True  # so that it stays fenced
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.taint() == "xid-48"
        fleet.take_back(fault)
        fleet.agents["gpu-1"].silent = False
        case = await fleet.settled(controller, fault, CaseState.WITHDRAWN)
    assert fleet.taint() is None
    assert not fleet.agents["gpu-1"].drained
    assert case.because == "The fault was taken back: no mark is left."


async def test_a_lesser_fault_is_judged_and_opens_no_case() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(43)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
    assert fleet.gpu_cases() == []
    judged = fleet.gpu_fault(fault).status
    assert judged is not None
    assert judged.judged is not None
    assert judged.judged.case == ""


async def test_a_fault_is_judged_with_its_case_and_a_new_controller_judges_nothing_twice() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    status = fleet.gpu_fault(fault).status
    assert status is not None
    assert status.judged is not None
    assert status.judged.case == fleet.case(fault).id
    version = fleet.get(GPU_FAULTS, fault)["metadata"]["resourceVersion"]
    saved = fleet.get(GPU_CASES, fleet.case(fault).id)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=5)
    assert fleet.get(GPU_FAULTS, fault)["metadata"]["resourceVersion"] == version
    assert fleet.get(GPU_CASES, fleet.case(fault).id) == saved


async def test_the_case_is_created_with_its_plan_and_first_effects() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
        (case,) = fleet.gpu_cases()
    assert case.spec.fault == fault
    assert [effect.kind for effect in case.spec.effects] == ["evidence", "drain", "taint"]
    assert "reset" in case.spec.plan


async def test_in_mode_observe_nothing_is_done_but_said() -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    fleet.pod("train-0")
    before = fleet.get(NODES, "gpu-1")
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=10)
    after = fleet.get(NODES, "gpu-1")
    assert after["spec"] == before["spec"]
    assert after["metadata"] == {**before["metadata"], "resourceVersion": after["metadata"]["resourceVersion"]}
    assert fleet.pods() == ["work/train-0"]
    assert fleet.agents["gpu-1"].done == []
    assert "mode observe" in fleet.case(fault).because


async def test_nothing_is_done_before_a_person_approves() -> None:
    fleet = a_fleet(approval=True)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        case = fleet.case(fault)
        assert (case.state, fleet.taint(), case.effects) == (CaseState.SUSPECT, None, ())
        fleet.order(case.id, what="approve", by="alice")
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    assert case.approved
    (found,) = fleet.gpu_cases()
    assert found.status is not None
    assert found.status.heard == 1


async def test_a_person_releases_a_parked_case_and_every_mark_goes() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
        fleet.order(case.id, what="release", by="alice", because="replaced")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint() is None
    assert not fleet.agents["gpu-1"].drained


async def test_a_taint_that_a_person_takes_off_is_not_put_back_and_releases_the_case() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        taints = fleet.get(NODES, "gpu-1")["spec"]["taints"]
        place = [one["key"] for one in taints].index("gpu.infra.status/hardware-fault")
        fleet.server.patch(NODES, "gpu-1", [{"op": "remove", "path": f"/spec/taints/{place}"}])
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint() is None
    assert set(fleet.get(NODES, "gpu-1")["metadata"]["annotations"]) == {"site/rack"}


async def test_two_cases_share_one_taint_that_goes_with_the_last() -> None:
    fleet = a_fleet()
    before = fleet.taints()
    fleet.pod("train-0")
    async with fleet.running() as controller:
        patient = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.taint() == "xid-31"
        fleet.agents["gpu-1"].obstacles[GPU_B] = OBSTACLE
        urgent = fleet.fault(79, pci=GPU_B)
        await fleet.time.pass_by(0.1)
        parked = await fleet.settled(controller, urgent, CaseState.PARKED)
        assert fleet.taint() == "xid-79"
        await fleet.settled(controller, patient, CaseState.CLOSED)
        assert fleet.taint() == "xid-79"
        fleet.order(parked.id, what="release")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, urgent, CaseState.CLOSED)
    assert fleet.taint() is None
    assert fleet.taints() == before


async def test_a_second_fault_of_a_gpu_during_its_repair_is_of_the_same_case() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        first = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.case_state(first) is CaseState.REPAIRING)
        fleet.agents["gpu-1"].busy = True
        second = fleet.fault(62)
        await fleet.go(controller, rounds=3)
        assert fleet.judged_case(second) == f"c-{first}"
        fleet.agents["gpu-1"].busy = False
        await fleet.settled(controller, first, CaseState.CLOSED)
        await fleet.go(controller, rounds=5)
    assert [case.spec.fault for case in fleet.gpu_cases()] == [first]
    assert fleet.taint() is None


async def test_the_taint_of_another_is_left_as_it_is() -> None:
    fleet = Fleet()
    fleet.node("gpu-1", taints=({"key": "gpu.infra.status/hardware-fault", "value": "me", "effect": "NoSchedule"},))
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint() == "me"


async def test_a_taint_of_ours_that_no_case_asks_for_is_swept_away() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        assert fleet.taint() == "xid-48"
        fleet.server.delete(GPU_CASES, fleet.case(fault).id)
        fleet.server.delete(GPU_FAULTS, fault)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
    assert fleet.taint() is None
    assert fleet.orders() == []


async def test_an_agent_that_fails_a_reset_parks_the_case_in_its_words() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].fails[EffectKind.RESET] = "the tool says no"
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert case.due == "A person must look: the tool says no"
    assert fleet.taint() == "xid-48"


async def test_an_order_that_was_given_before_a_reboot_is_not_done_after_it() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    agent.silent = True
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        agent.boot, agent.silent, agent.busy = "b2", False, True
        await fleet.go(controller, rounds=3)
        agent.busy = False
        await fleet.go(controller, rounds=3)
        outcomes = {effect.kind: effect.outcome for effect in fleet.case(fault).effects[:2]}
    assert outcomes == {EffectKind.EVIDENCE: Outcome.REFUSED, EffectKind.DRAIN: Outcome.REFUSED}


async def parked_and_off(fleet: Fleet, controller: Controller) -> tuple[str, Case]:
    """Return the fault and the case of a GPU that only a reboot cures, parked, its node switched off."""
    agent = fleet.agents["gpu-1"]
    agent.obstacles[GPU_A] = OBSTACLE
    fault = fleet.fault(79)
    await fleet.time.pass_by(0.1)
    case = await fleet.settled(controller, fault, CaseState.PARKED)
    agent.silent = True
    return fault, case


async def test_a_release_while_the_node_is_off_is_followed_when_it_boots() -> None:
    fleet = a_fleet()
    agent = fleet.agents["gpu-1"]
    async with fleet.running() as controller:
        fault, case = await parked_and_off(fleet, controller)
        fleet.order(case.id, what="release", by="alice", because="the card was replaced")
        await fleet.go(controller, rounds=5)
        assert fleet.case(fault).because == "Released by a person: the undoing is under way."
        agent.boots("b2")
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    undone = {one.kind: one for one in case.effects if one.kind in {EffectKind.UNDRAIN, EffectKind.RESTORE}}
    assert {one.outcome for one in undone.values()} == {Outcome.DONE}
    assert undone[EffectKind.UNDRAIN].why == "the node was booted since: no drain outlives a boot"
    assert not case.marks
    assert EffectKind.UNDRAIN not in [what for _, what in agent.done], "nothing of it is done on the new boot"
    assert fleet.taint() is None


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_release_ends_where_the_node_has_left_the_cluster_and_waits_where_it_is_only_off(
    *, is_gone: bool
) -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault, case = await parked_and_off(fleet, controller)
        if is_gone:
            fleet.server.delete(NODES, "gpu-1")
        fleet.order(case.id, what="release", by="alice", because="it was scrapped")
        await fleet.go(controller, rounds=3)
        await fleet.time.pass_by(GONE_SECONDS / 2)
        await fleet.go(controller, rounds=3)
        assert fleet.case_state(fault) is CaseState.PARKED, "its agent may answer yet"
        await fleet.time.pass_by(GONE_SECONDS / 2)
        await fleet.go(controller, rounds=6)
        case = fleet.case(fault)
    assert (case.state is CaseState.CLOSED) is is_gone
    assert bool(case.marks) is not is_gone
    assert any(one.why == GONE for one in case.effects) is is_gone


async def test_a_drill_is_ordered_as_one_and_nothing_is_done_to_node_or_pods() -> None:
    fleet = a_fleet()
    fleet.pod("train-0")
    before = fleet.get(NODES, "gpu-1")
    case = replace(a_case(), id="c-drill", node="gpu-1", gpu=GPU_A, drill=Mode.REPAIR, opened_at=NOW, since=NOW)
    body = write_gpu_case(GpuCase(Head(case.id), spec_of(case)))
    fleet.server.create(GPU_CASES, body)
    given = []
    async with fleet.running() as controller:
        for _ in range(30):
            await fleet.time.run(controller.round())
            given += [one.get("drill") for one in fleet.get(GPU_NODES, "gpu-1")["spec"].get("orders", ())]
            assert fleet.get(NODES, "gpu-1") == before
            fleet.move()
            await fleet.time.pass_by(1.0)
    assert given
    assert set(given) == {True}
    assert fleet.pods() == ["work/train-0"]


async def test_a_cordon_and_what_others_wrote_meanwhile_stay() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
        cordon = {"op": "add", "path": "/spec/unschedulable", "value": True}
        other = {"op": "add", "path": "/spec/taints/0", "value": {"key": "site/late", "effect": "NoExecute"}}
        label = {"op": "add", "path": "/metadata/labels/site", "value": "x"}
        fleet.server.patch(NODES, "gpu-1", [cordon, other, label])
        fleet.order(case.id, what="release")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    node = fleet.get(NODES, "gpu-1")
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["labels"]["site"] == "x"
    assert fleet.taint() is None
    assert {"site/late", "site/reserved"} <= set(fleet.taints())


async def test_no_pod_is_evicted_from_a_node_that_may_not_be_tainted() -> None:
    fleet = a_fleet()
    fleet.pod("train-0")
    everything = frozenset({"*"})
    rules = (
        Rule(frozenset({"get", "list", "watch", "create"}), everything, everything),
        Rule(everything, frozenset({"gpuward.io"}), everything),
    )
    async with fleet.running(fleet.cluster.as_user("weak", rules)) as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        taint = next(one for one in fleet.case(fault).effects if one.kind is EffectKind.TAINT)
        assert taint.outcome is Outcome.FAILED
        assert "forbidden" in taint.why
        case = await fleet.settled(controller, fault, CaseState.PARKED)
        assert [one.kind for one in case.effects].count(EffectKind.TAINT) == TAINT_TRIES
        assert "forbidden" in case.due
        assert "another would come in its place" in case.because
        assert fleet.agents["gpu-1"].drained == {GPU_A}, "no program starts on it all the same"
        assert fleet.pods() == ["work/train-0"]
    async with fleet.running() as controller:
        fleet.order(case.id, what="retry")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.pods() == []


async def test_a_taint_that_failed_once_is_tried_again_before_a_pod_is_evicted() -> None:
    fleet = a_fleet()
    fleet.pod("train-0")
    rules = (Rule(frozenset({"get", "list", "watch", "create"}), frozenset({"*"}), frozenset({"*"})),)
    ours = (*rules, Rule(frozenset({"*"}), frozenset({"gpuward.io"}), frozenset({"*"})))
    async with fleet.running(fleet.cluster.as_user("weak", ours)) as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        assert fleet.case(fault).because.startswith("The node could not be tainted yet")
    async with fleet.running() as controller:
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
    kinds = [one.kind for one in case.effects]
    assert kinds.count(EffectKind.TAINT) == 2
    assert kinds.index(EffectKind.EVICT) > len(kinds) - 1 - kinds[::-1].index(EffectKind.TAINT)


async def test_the_rights_that_are_installed_are_enough() -> None:
    fleet = a_fleet()
    fleet.node("spare", taints=({"key": "gpuward.io/standby", "effect": "NoSchedule"},))
    fleet.pool()
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    roles = [one for one in rights(Installation(namespace="gpuward")) if one["metadata"]["name"] == CONTROLLER]
    granted = [
        rule for one in roles if "rules" in one for rule in rules_of(one, namespace=one["metadata"].get("namespace"))
    ]
    async with fleet.running(fleet.cluster.as_user("controller", tuple(granted))) as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.CLOSED)
        assert controller.newest.troubles == ()
    assert all(effect.outcome is Outcome.DONE for effect in case.effects)
    assert fleet.pods() == []
