"""Standby nodes: one takes the place of a sick node, is kept for its job for a while, and serves one case only."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind, Outcome
from gpuward.model.job import JOB, JOB_SET
from gpuward.model.objects.owned import Taint
from gpuward.model.objects.standby_pool import PoolStatus, read_standby_pool
from gpuward.model.resource import JOBS, NODES, PODS, STANDBY_POOLS, Resource
from tests.controller.fleet import Fleet
from tests.kit.merging import GPU_A

STANDING_BY = ({"key": "gpuward.io/standby", "effect": "NoSchedule"},)
RESERVED = "gpuward.io/reserved-for"
OBSTACLE = "It fell off the bus: only a reboot brings it back."


def a_fleet(*spares: str) -> Fleet:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    for name in spares:
        fleet.node(name, taints=STANDING_BY)
    fleet.pool(size=len(spares))
    return fleet


def pool_of(fleet: Fleet) -> PoolStatus:
    status = read_standby_pool(fleet.get(STANDBY_POOLS, "h100")).status
    assert status is not None
    return status


def pending(fleet: Fleet, name: str, owner: list[dict[str, Any]]) -> None:
    labels = {"batch.kubernetes.io/job-name": owner[0]["name"]}
    metadata = {"name": name, "ownerReferences": owner, "labels": labels}
    body = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}
    fleet.server.create(PODS, body, namespace="work")


def tolerates(fleet: Fleet, name: str) -> bool:
    tolerations = fleet.get(PODS, name, space="work")["spec"]["tolerations"]
    return any(one["key"] == RESERVED for one in tolerations)


async def test_it_is_released_for_the_job_whose_pods_are_let_onto_it_and_is_free_when_one_is_bound() -> None:
    fleet = a_fleet("spare")
    owner = fleet.owner(JOBS, "train")
    fleet.pod("train-0", ownerReferences=owner)
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
        assert fleet.taints("spare")[RESERVED] == owner[0]["uid"]
        assert "gpuward.io/standby" not in fleet.taints("spare")
        assert "site/reserved" in fleet.taints("spare")
        (given,) = pool_of(fleet).promoted
        assert (given.node, given.case, given.job) == ("spare", case.id, owner[0]["uid"])
        pending(fleet, "train-0-again", owner)
        pending(fleet, "other", fleet.owner(JOBS, "other"))
        await fleet.go(controller, rounds=2)
        assert tolerates(fleet, "train-0-again")
        assert not tolerates(fleet, "other")
        fleet.server.bind("work", "train-0-again", "spare")
        await fleet.go(controller, rounds=2)
    assert RESERVED not in fleet.taints("spare")
    assert set(fleet.get(NODES, "spare")["metadata"]["annotations"]) == {"site/rack"}
    assert pool_of(fleet).promoted[0].freed_at is not None


async def test_what_nobody_comes_for_is_free_after_five_minutes() -> None:
    fleet = a_fleet("spare")
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
        await fleet.time.pass_by(200)
        await fleet.go(controller)
        assert RESERVED in fleet.taints("spare")
        await fleet.time.pass_by(100)
        await fleet.go(controller)
    assert RESERVED not in fleet.taints("spare")


async def test_each_serves_one_case_and_an_empty_pool_says_so() -> None:
    fleet = a_fleet("spare")
    fleet.node("gpu-2")
    fleet.agents["gpu-2"].obstacles[GPU_A] = OBSTACLE
    async with fleet.running() as controller:
        faults = [fleet.fault(79, name) for name in ("gpu-1", "gpu-2")]
        await fleet.time.pass_by(0.1)
        cases = [await fleet.settled(controller, fault, CaseState.PARKED) for fault in faults]
    outcomes = sorted(one.outcome for case in cases for one in case.effects if one.kind is EffectKind.PROMOTE)
    assert outcomes == [Outcome.DONE, Outcome.FAILED]
    status = pool_of(fleet)
    assert (len(status.promoted), status.ready, status.short) == (1, (), 1)
    assert "0 of 1 stand by" in status.because


@pytest.mark.parametrize(
    ("labels", "key"),
    [((), "network.topology.nvidia.com/leaf"), (("example.com/leaf", "example.com/spine"), "example.com/spine")],
    ids=["known", "set"],
)
async def test_one_of_the_same_block_of_the_fabric_is_preferred_and_any_other_does(
    labels: tuple[str, ...], key: str
) -> None:
    fleet = a_fleet("spare-1", "spare-2")
    if labels:
        fleet.terms = replace(fleet.terms, fabric_labels=labels)
    fleet.node("gpu-2")
    fleet.agents["gpu-2"].obstacles[GPU_A] = OBSTACLE
    for node, block in (("gpu-1", "b2"), ("gpu-2", "b2"), ("spare-1", "b1"), ("spare-2", "b2")):
        fleet.label(node, key, block)
    async with fleet.running() as controller:
        for node, spare in (("gpu-1", "spare-2"), ("gpu-2", "spare-1")):
            fault = fleet.fault(79, node)
            await fleet.time.pass_by(0.1)
            case = await fleet.settled(controller, fault, CaseState.PARKED)
            (given,) = [one.node for one in pool_of(fleet).promoted if one.case == case.id]
            assert given == spare, "spare-1 comes first by its name, and is of another block"


@pytest.mark.parametrize("key", ["gpu.infra.status/hardware-fault", "example.com/sick"])
async def test_one_that_a_person_marked_as_sick_takes_no_place_whatever_the_settings_call_that_mark(key: str) -> None:
    fleet = a_fleet("spare-2")
    fleet.node("spare-1", taints=(*STANDING_BY, {"key": key, "effect": "NoSchedule", "value": "by-hand"}))
    fleet.terms = replace(fleet.terms, taint=Taint(key, "NoSchedule"))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert [one.node for one in pool_of(fleet).promoted] == ["spare-2"]


async def test_a_patient_fault_waits_while_no_standby_is_fit() -> None:
    fleet = a_fleet("spare")
    fleet.server.patch(NODES, "spare", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        case = fleet.case(fault)
        assert case.state is CaseState.SUSPECT
        assert "spare is cordoned" in case.because
        assert fleet.taint() is None
        fleet.server.patch(NODES, "spare", [{"op": "remove", "path": "/spec/unschedulable"}])
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
    assert fleet.case(fault).state is CaseState.FENCED
    assert "gpuward.io/standby" not in fleet.taints("spare")


def repaired(*spares: str, **pool: Any) -> Fleet:
    """Return a fleet whose gpu-1 can be repaired, with a pool of these spares."""
    fleet = Fleet()
    fleet.node("gpu-1")
    for name in spares:
        fleet.node(name, taints=STANDING_BY)
    fleet.pool(size=len(spares), **pool)
    return fleet


async def test_a_repaired_node_stands_by_in_the_place_of_the_one_that_took_its_own() -> None:
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.PROBATION)
        await fleet.go(controller, rounds=3)
        assert fleet.case_state(fault) is CaseState.PROBATION
        assert "gpuward.io/standby" in fleet.taints("gpu-1"), "no work may slip in when its case is closed"
        await fleet.settled(controller, fault, CaseState.CLOSED)
        assert fleet.taint("gpu-1") is None
        assert "gpuward.io/standby:NoSchedule" in owned(fleet, "gpu-1")
        status = pool_of(fleet)
        assert (status.ready, status.short, status.because) == (("gpu-1",), 0, "")
        assert status.promoted[0].refilled_at is not None
        # It is released again like any other, and our note with it.
        fleet.node("gpu-2")
        fleet.pod("train-0", "gpu-2", ownerReferences=fleet.owner(JOBS, "train"))
        second = fleet.fault(79, "gpu-2")
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: "gpuward.io/standby" not in fleet.taints("gpu-1"))
        assert "standby" not in owned(fleet, "gpu-1")
        await fleet.settled(controller, second, CaseState.CLOSED)
    assert [one.node for one in pool_of(fleet).promoted] == ["spare", "gpu-1"]
    assert [one.because for one in fleet.told.happenings if "Standby pool" in one.because] == [
        "Standby pool h100: 0 of 1 stand by: nothing can take the place of a node that fails.",
        "Standby pool h100: 1 of 1 stands by again.",
        "Standby pool h100: 0 of 1 stand by: nothing can take the place of a node that fails.",
        "Standby pool h100: 1 of 1 stands by again.",
    ]


async def test_a_pool_that_is_deleted_while_another_is_looked_after_is_no_trouble() -> None:
    fleet = a_fleet("spare")
    fleet.pool("h100-2")
    cluster = fleet.cluster

    class Watched:
        """The cluster, where a person deletes the second pool when the status of the first is written."""

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

        async def patch(self, resource: Resource, name: str, *asked: Any, **how: Any) -> Any:
            made = await cluster.patch(resource, name, *asked, **how)
            if resource is STANDBY_POOLS and fleet.server.get(STANDBY_POOLS, "h100-2") is not None:
                fleet.server.delete(STANDBY_POOLS, "h100-2")
                await fleet.time.doze(0.1)
            return made

    async with fleet.running(Watched()) as controller:
        await fleet.go(controller)
        assert controller.newest.troubles == ()
        assert fleet.server.get(STANDBY_POOLS, "h100-2") is None
    assert pool_of(fleet).ready == ("spare",)


def owned(fleet: Fleet, node: str) -> str:
    return str(fleet.get(NODES, node)["metadata"]["annotations"].get("gpuward.io/owned", ""))


async def test_a_pool_that_has_enough_is_not_refilled() -> None:
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.VERIFYING)
        fleet.node("spare-2", taints=STANDING_BY)
        await fleet.settled(controller, fault, CaseState.CLOSED)
        await fleet.go(controller, rounds=5)
    assert "gpuward.io/standby" not in fleet.taints("gpu-1")
    assert pool_of(fleet).ready == ("spare-2",)


@pytest.mark.parametrize(
    "mark",
    [
        {"op": "add", "path": "/spec/unschedulable", "value": True},
        {"op": "add", "path": "/spec/taints/-", "value": {"key": "site/mine", "effect": "NoExecute", "value": "alice"}},
    ],
    ids=["cordoned", "tainted"],
)
async def test_a_node_that_a_person_keeps_for_himself_does_not_stand_by(mark: dict[str, Any]) -> None:
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.VERIFYING)
        fleet.server.patch(NODES, "gpu-1", [mark])
        await fleet.settled(controller, fault, CaseState.CLOSED)
        await fleet.go(controller, rounds=15)
    assert "gpuward.io/standby" not in fleet.taints("gpu-1")
    assert pool_of(fleet).short == 1


async def test_a_taint_that_the_node_in_its_place_wears_too_is_the_sites_own() -> None:
    fleet = repaired("spare")
    usual = {"key": "site/gpus", "effect": "NoSchedule", "value": "yes"}
    for name in ("gpu-1", "spare"):
        fleet.server.patch(NODES, name, [{"op": "add", "path": "/spec/taints/-", "value": usual}])
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert "gpuward.io/standby" in fleet.taints("gpu-1")


async def test_work_that_came_first_stays_and_the_node_stands_by_when_that_has_ended() -> None:
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.VERIFYING)
        fleet.pod("tolerant", "gpu-1", gpus=1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
        await fleet.go(controller, rounds=12)
        assert "gpuward.io/standby" not in fleet.taints("gpu-1")
        assert fleet.pods() == ["work/tolerant"]
        fleet.end_pod("tolerant")
        await fleet.until(controller, lambda: "gpuward.io/standby" in fleet.taints("gpu-1"))


async def test_work_that_slipped_in_beside_the_taint_keeps_its_node() -> None:
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: "gpuward.io/standby" in fleet.taints("gpu-1"))
        assert pool_of(fleet).promoted[0].refilled_at is None
        fleet.pod("quick", "gpu-1", gpus=1)
        await fleet.go(controller, rounds=2)
        assert "gpuward.io/standby" not in fleet.taints("gpu-1")
        assert fleet.case_state(fault) in {CaseState.PROBATION, CaseState.CLOSED}
    assert fleet.pods() == ["work/quick"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_standby_taint_that_a_person_took_off_is_not_put_back(at_once: bool) -> None:  # noqa: FBT001  both
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: "gpuward.io/standby" in fleet.taints("gpu-1"))
        if not at_once:
            await fleet.settled(controller, fault, CaseState.CLOSED)
        assert (pool_of(fleet).promoted[0].refilled_at is None) is at_once
        taints = fleet.get(NODES, "gpu-1")["spec"]["taints"]
        place = [one["key"] for one in taints].index("gpuward.io/standby")
        fleet.server.patch(NODES, "gpu-1", [{"op": "remove", "path": f"/spec/taints/{place}"}])
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
        await fleet.go(controller, rounds=15)
    assert "gpuward.io/standby" not in fleet.taints("gpu-1")
    assert pool_of(fleet).short == 1


async def test_a_node_of_another_shape_is_not_taken_into_the_pool() -> None:
    fleet = repaired("spare")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.VERIFYING)
        fleet.server.patch(
            NODES, "gpu-1", [{"op": "add", "path": "/metadata/labels/nvidia.com~1gpu.product", "value": "NVIDIA-L4"}]
        )
        await fleet.settled(controller, fault, CaseState.CLOSED)
        await fleet.go(controller, rounds=15)
    assert "gpuward.io/standby" not in fleet.taints("gpu-1")


async def test_a_pod_of_the_same_set_that_comes_in_another_job_finds_the_node_that_was_kept() -> None:
    fleet = a_fleet("spare")
    the_set = fleet.owner(JOB_SET.resource("jobset.x-k8s.io/v1alpha2"), "llm")

    def of_the_set(name: str) -> dict[str, Any]:
        body = {"metadata": {"name": name, "ownerReferences": the_set}, "spec": {}}
        made = fleet.server.create(JOB.resource("batch/v1"), body, namespace="work")["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["uid"], "controller": True}
        labels = {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/jobset-uid": the_set[0]["uid"]}
        return {"ownerReferences": [owner], "labels": labels}

    fleet.pod("llm-a-0", **of_the_set("llm-a"))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
        assert fleet.taints("spare")[RESERVED] == the_set[0]["uid"]
        body = {"metadata": {"name": "llm-b-0", **of_the_set("llm-b")}, "spec": {"containers": [{"name": "c"}]}}
        fleet.server.create(PODS, body, namespace="work")
        await fleet.go(controller, rounds=2)
        assert tolerates(fleet, "llm-b-0")
