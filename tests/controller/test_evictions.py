"""Which pods the controller evicts, how long it asks, and what it says of those that stay."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind, Mode
from gpuward.model.pod import pod_of
from gpuward.model.resource import JOBS, PODS, Resource
from tests.controller.fleet import REPAIRING, Fleet


def a_fleet(**terms: object) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))  # type: ignore[arg-type]  # the test names fields of Terms
    fleet.node("gpu-1")
    return fleet


async def test_a_pod_that_a_budget_holds_is_asked_again_and_goes_when_it_may() -> None:
    fleet = a_fleet()
    fleet.pod("train-0", labels={"app": "x"})
    fleet.budget("b", labels={"app": "x"}, least=1)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=8)
        assert fleet.case(fault).state is CaseState.EVACUATING
        assert fleet.pods() == ["work/train-0"]
        fleet.pod("train-1", "gpu-2", labels={"app": "x"})
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.pods() == []


async def test_a_pod_that_a_budget_holds_to_the_deadline_parks_the_case_and_names_the_budget() -> None:
    fleet = a_fleet()
    fleet.pod("train-0", labels={"app": "x"})
    fleet.budget("precious", labels={"app": "x"}, least=1)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert "precious" in case.due
    assert "work/train-0" in case.due
    assert fleet.pods() == ["work/train-0"]
    assert fleet.taint() == "xid-48"


async def test_with_force_a_pod_that_is_held_to_the_deadline_is_deleted() -> None:
    fleet = a_fleet(eviction=replace(REPAIRING.eviction, force=True))
    fleet.pod("train-0", labels={"app": "x"})
    fleet.budget("precious", labels={"app": "x"}, least=1)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.pods() == []
    assert fleet.time.passed >= REPAIRING.eviction.deadline_seconds


def held_by_two_budgets(fleet: Fleet, pod: str) -> None:
    """Let a pod stand under two PodDisruptionBudgets, one and two: it cannot be evicted."""
    fleet.pod(pod, labels={"app": "x"})
    for name in ("one", "two"):
        fleet.budget(name, labels={"app": "x"}, least=0)


async def test_two_budgets_on_one_pod_are_told_at_once() -> None:
    fleet = a_fleet()
    held_by_two_budgets(fleet, "train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert "more than one PodDisruptionBudget" in case.due
    assert "They are one, two: delete one" in case.due
    assert fleet.time.passed < REPAIRING.eviction.deadline_seconds


async def test_an_eviction_that_failed_is_not_tried_again_and_again_while_others_save() -> None:
    fleet = a_fleet(eviction=replace(REPAIRING.eviction, save_seconds=30.0))
    labels = {"batch.kubernetes.io/job-name": "train", "gpuward.io/checkpoint": "true"}
    fleet.pod("train-0", labels=labels, ownerReferences=fleet.owner(JOBS, "train"))
    held_by_two_budgets(fleet, "held-0")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=20)
        case = fleet.case(fault)
        assert (case.state, "Jobs save their state" in case.because) == (CaseState.EVACUATING, True)
        assert [one.kind for one in case.effects].count(EffectKind.EVICT) == 1
        assert "work/train-0" in fleet.pods()
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert "They are one, two: delete one" in case.due
    assert [one.kind for one in case.effects].count(EffectKind.EVICT) == 2
    assert fleet.pods() == ["work/held-0"], "who saved was asked to go when his time was over"


async def test_a_pod_that_does_not_end_is_told_with_its_finalizers() -> None:
    fleet = a_fleet()
    fleet.pod("train-0", finalizers=["site/slow"])
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        case = await fleet.settled(controller, fault, CaseState.PARKED)
    assert "site/slow" in case.due


@pytest.mark.parametrize("gone", [True, False])
async def test_a_pod_of_the_same_name_that_comes_again_is_named_before_it_is_evicted(gone: bool) -> None:  # noqa: FBT001  both
    fleet = a_fleet()
    fleet.pod("train-0")
    fleet.frozen_pods.add("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(
            controller, lambda: "deletionTimestamp" in fleet.get(PODS, "train-0", space="work")["metadata"]
        )
        fleet.frozen_pods.clear()
        fleet.server.delete(PODS, "train-0", namespace="work", grace_seconds=0)
        if not gone:
            fleet.pod("train-0")
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.pods() == []


async def test_only_the_pods_of_nodes_that_are_vacated_are_ever_read() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE)
    fleet.node("gpu-2")
    fleet.pod("train-0")
    fleet.pod("train-1", "gpu-2")
    asked: list[str] = []
    real = fleet.server.list

    def noted(resource: Resource, **how: Any) -> Any:
        if resource is PODS and how.get("project") is pod_of:
            asked.append(how["fields"])
        return real(resource, **how)

    async with fleet.running() as controller:
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        fleet.server.list = noted  # type: ignore[method-assign]  # only noted
        for _ in range(10):
            await fleet.time.run(controller.round())
    assert set(asked) == {"spec.nodeName=gpu-1"}
