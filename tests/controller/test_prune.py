"""Housekeeping: what is old goes, a bounded lot at a time, and nothing that anybody may still need."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.controller import prune
from gpuward.controller.prune import MOST_OF_A_SWEEP, SLACK_SECONDS, SWEEP_SECONDS, is_spent
from gpuward.controller.terms import Terms
from gpuward.isolation.catalogue.load import load_rules
from gpuward.model.case import CaseState
from gpuward.model.objects.gpu_fault import FaultEvidence
from gpuward.model.objects.owned import agent_lease
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, LEASES, NODES
from tests.controller.fleet import REPAIRING, Fleet
from tests.controller.test_loop import Replica, live
from tests.kit.merging import GPU_A, GPU_B

DAY = 86_400.0
TERMS = Terms()
PAST_WINDOWS = TERMS.fault_seconds + SLACK_SECONDS
PAST_ALL = TERMS.case_seconds + PAST_WINDOWS


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    return fleet


def names(fleet: Fleet, resource: Any) -> list[str]:
    return sorted(one["metadata"]["name"] for one in fleet.server.list(resource).items)


def over(fleet: Fleet, name: str) -> None:
    """Let the agent say that the lines of a fault have stopped."""
    fault = fleet.gpu_fault(name)
    spec = fault.spec
    evidence = FaultEvidence(
        at=fleet.time.now(),
        level=spec.level,
        fault_class=spec.fault_class,
        verdict=spec.verdict,
        last=spec.last,
        count=spec.count,
        over=True,
    )
    path = "/status/evidence" if fault.status is not None else "/status"
    value = write(evidence) if fault.status is not None else {"evidence": write(evidence)}
    fleet.server.patch(GPU_FAULTS, name, [{"op": "add", "path": path, "value": value}], subresource="status")


async def swept(fleet: Fleet) -> int:
    """Let a controller that has just started sweep once; return how much it took."""
    async with fleet.running() as controller:
        return await fleet.time.run(controller.pruner.sweep())


async def judged(fleet: Fleet, code: int = 43, **fault: Any) -> str:
    """Let a fault come, be judged and stop; return its name."""
    name = fleet.fault(code, **fault)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
    over(fleet, name)
    return name


async def closed(fleet: Fleet) -> str:
    """Let a fault come, be repaired and stop; return its name."""
    name = fleet.fault(48)
    async with fleet.running() as controller:
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, name, CaseState.CLOSED)
    over(fleet, name)
    return name


async def test_a_fault_goes_when_it_is_past_every_window_by_a_day_and_not_before() -> None:
    fleet = a_fleet()
    await judged(fleet)
    fleet.time.passed += PAST_WINDOWS - 60.0
    assert await swept(fleet) == 0
    fleet.time.passed += 60.0
    assert await swept(fleet) == 1
    assert names(fleet, GPU_FAULTS) == []


async def test_a_fault_that_was_never_judged_stays_for_ever() -> None:
    fleet = a_fleet()
    name = fleet.fault(43)
    over(fleet, name)
    fleet.time.passed += 10 * PAST_ALL
    assert await swept(fleet) == 0
    assert names(fleet, GPU_FAULTS) == [name]


async def test_a_fault_that_rose_since_it_was_judged_stays() -> None:
    fleet = a_fleet()
    name = await judged(fleet)
    worse = {"op": "add", "path": "/status/evidence/level", "value": "P1"}
    fleet.server.patch(GPU_FAULTS, name, [worse], subresource="status")
    fleet.time.passed += PAST_ALL
    assert fleet.gpu_fault(name).is_due
    assert await swept(fleet) == 0


async def test_a_fault_that_goes_on_stays() -> None:
    fleet = a_fleet()
    name = fleet.fault(43)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
    fleet.time.passed += PAST_ALL
    assert await swept(fleet) == 0
    assert names(fleet, GPU_FAULTS) == [name]


async def test_a_case_and_its_fault_stay_as_long_as_people_may_ask_and_go_then() -> None:
    fleet = a_fleet()
    name = await closed(fleet)
    fleet.time.passed += TERMS.case_seconds - 60.0
    assert await swept(fleet) == 0
    fleet.time.passed += 60.0
    assert await swept(fleet) == 1
    assert (names(fleet, GPU_CASES), names(fleet, GPU_FAULTS)) == ([], [name])
    assert await swept(fleet) == 1
    assert names(fleet, GPU_FAULTS) == []


async def test_a_case_that_goes_on_stays_however_old_it_is() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = "It needs a reboot."
    name = fleet.fault(79)
    async with fleet.running() as controller:
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, name, CaseState.PARKED)
    over(fleet, name)
    fleet.time.passed += 10 * PAST_ALL
    assert await swept(fleet) == 0
    assert len(names(fleet, GPU_CASES)) == 1


async def test_a_case_stays_while_a_fault_is_there_that_would_open_it_anew() -> None:
    fleet = a_fleet()
    name = fleet.fault(48)
    async with fleet.running() as controller:
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, name, CaseState.CLOSED)
    fleet.time.passed += PAST_ALL
    async with fleet.running() as controller:
        assert await fleet.time.run(controller.pruner.sweep()) == 0
        await fleet.go(controller, rounds=5)
    assert len(fleet.gpu_cases()) == 1
    assert fleet.case_state(name) is CaseState.CLOSED


async def test_a_controller_that_restarts_after_a_sweep_judges_nothing_twice_and_opens_nothing() -> None:
    fleet = a_fleet()
    await closed(fleet)
    await judged(fleet, pci=GPU_B)
    fleet.time.passed += PAST_ALL
    while await swept(fleet):
        pass
    assert (names(fleet, GPU_CASES), names(fleet, GPU_FAULTS)) == ([], [])
    told = len(fleet.told.happenings)
    done = list(fleet.agents["gpu-1"].done)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=5)
    assert (names(fleet, GPU_CASES), fleet.taint()) == ([], None)
    assert (len(fleet.told.happenings), fleet.agents["gpu-1"].done) == (told, done)


async def test_a_sweep_takes_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "MOST_OF_A_SWEEP", 3)
    fleet = a_fleet()
    every = [fleet.fault(43, pci=pci) for pci in (GPU_A, GPU_B) for _ in range(4)]
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
    for name in every:
        over(fleet, name)
    fleet.time.passed += PAST_ALL
    assert [await swept(fleet) for _ in range(4)] == [3, 3, 2, 0]
    assert MOST_OF_A_SWEEP > 3


async def test_nothing_is_taken_while_a_case_or_a_fault_cannot_be_read() -> None:
    fleet = a_fleet()
    await judged(fleet)
    fleet.time.passed += PAST_ALL
    async with fleet.running() as controller:
        controller.picture.cases.unreadable["c-gpu-1.b1.k9"] = "a newer version wrote it"
        assert await fleet.time.run(controller.pruner.sweep()) == 0
        controller.picture.cases.unreadable.clear()
        assert await fleet.time.run(controller.pruner.sweep()) == 1


async def test_nothing_is_taken_by_a_picture_that_is_old() -> None:
    fleet = a_fleet()
    await judged(fleet)
    async with fleet.running() as controller:
        fleet.time.passed += PAST_ALL
        assert await fleet.time.run(controller.pruner.sweep()) == 0


def gone(fleet: Fleet) -> None:
    """Let a server be taken out of the cluster for good: its Node goes, and its agent with it."""
    fleet.server.delete(NODES, "gpu-1", uid=fleet.get_node("gpu-1")["metadata"]["uid"])
    fleet.agents["gpu-1"].silent = True


def renewed(fleet: Fleet, at: str) -> None:
    body = {"metadata": {"name": agent_lease("gpu-1")}, "spec": {"renewTime": at, "leaseDurationSeconds": 60}}
    fleet.server.create(LEASES, body, namespace="gpuward")


async def test_a_server_that_is_gone_goes_with_all_that_is_its_after_the_same_time() -> None:
    fleet = a_fleet()
    fleet.node("gpu-2")
    await closed(fleet)
    renewed(fleet, "2026-09-21T14:15:00.000000Z")
    gone(fleet)
    fleet.time.passed += TERMS.case_seconds - DAY
    assert await swept(fleet) == 0
    fleet.time.passed += 2 * DAY
    taken = 0
    while more := await swept(fleet):
        taken += more
    assert taken == 4
    assert names(fleet, GPU_NODES) == ["gpu-2"]
    assert names(fleet, NODES) == ["gpu-2"]
    for resource in (GPU_CASES, GPU_FAULTS, LEASES):
        assert names(fleet, resource) == []


async def test_a_server_whose_agent_still_speaks_stays_though_its_node_is_gone() -> None:
    fleet = a_fleet()
    gone(fleet)
    fleet.time.passed += PAST_ALL
    renewed(fleet, "2026-12-28T00:00:00.000000Z")
    assert await swept(fleet) == 0
    assert names(fleet, GPU_NODES) == ["gpu-1"]


async def test_a_server_with_an_open_case_or_an_unjudged_fault_stays_though_it_is_gone() -> None:
    fleet = a_fleet()
    name = fleet.fault(43)
    gone(fleet)
    fleet.time.passed += PAST_ALL
    assert await swept(fleet) == 0
    assert (names(fleet, GPU_NODES), names(fleet, GPU_FAULTS)) == (["gpu-1"], [name])


async def test_a_node_that_is_there_keeps_its_objects() -> None:
    fleet = a_fleet()
    fleet.time.passed += 10 * PAST_ALL
    assert await swept(fleet) == 0
    assert names(fleet, GPU_NODES) == ["gpu-1"]


async def test_only_the_leader_sweeps_and_it_goes_on_by_itself() -> None:
    fleet = a_fleet()
    await judged(fleet)
    fleet.time.passed += PAST_ALL
    first = Replica(fleet, "a")
    await live(fleet, 5)
    second = Replica(fleet, "b")
    await live(fleet, 5)
    await fleet.time.pass_by(2 * SWEEP_SECONDS)
    assert names(fleet, GPU_FAULTS) == []
    assert first.controller.pruner.taken == {"gpufaults": 1}
    assert (second.controller.pruner.taken, second.controller.pruner.trouble) == ({}, "")
    for replica in (first, second):
        await replica.end()


def test_the_longest_window_is_that_of_the_rules() -> None:
    book = load_rules()
    windows = [rule.before_seconds + rule.after_seconds for rule in book.rules]
    assert book.longest_seconds == max(*windows, *(row.gap_seconds for row in book.identities))
    assert book.longest_seconds >= DAY
    longer = book.tuned({"R31-same-gpu": {"before_seconds": 40 * DAY}})
    assert longer.longest_seconds >= 40 * DAY


async def test_what_was_judged_lately_stays_however_old_its_lines_are() -> None:
    fleet = a_fleet()
    name = fleet.fault(43)
    over(fleet, name)
    fleet.time.passed += PAST_ALL
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
    fault = fleet.gpu_fault(name)
    assert not fault.is_due
    assert not is_spent(fault, now=fleet.time.now(), window_seconds=TERMS.fault_seconds)
    assert is_spent(fault, now=fleet.time.now() + PAST_WINDOWS, window_seconds=TERMS.fault_seconds)
