"""The loop as it runs: alone, in two replicas of which one leads, through a crash of the leader, and to its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gpuward.controller.leading import Leading, LeaseTerms
from gpuward.controller.loop import Controller, Round
from gpuward.controller.pace import Pace
from gpuward.model.case import CaseState, EffectKind
from gpuward.model.level import Level
from gpuward.model.objects.gpu_case import as_case
from gpuward.model.resource import GPU_CASES, GPU_NODES, LEASES, NODES
from gpuward.sim.cluster.network import Presence
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.fleet import REPAIRING, Fleet, Told


class Replica:
    """One process of the controller: it stands for election, follows the cluster, and goes round while it leads."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        pace = Pace(fleet.time, fleet.time.doze, lambda: 0.5)
        self.told = Told()
        self.leading = Leading(fleet.cluster, name, pace=pace, terms=LeaseTerms())
        self.controller = Controller(
            fleet.cluster, pace=pace, terms=fleet.terms, tell=self.told.hear, leads=self.leading.leads
        )
        self.leading.ring = self.controller.ring
        self.tasks = [asyncio.ensure_future(self.leading.run()), asyncio.ensure_future(self.controller.run())]

    async def end(self) -> None:
        """Stop it; what it awaited is given back."""
        for task in self.tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def live(fleet: Fleet, seconds: int) -> None:
    for _ in range(seconds):
        fleet.move()
        await fleet.time.pass_by(1.0)


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    return fleet


async def test_it_goes_round_by_itself_and_at_once_when_a_fault_comes() -> None:
    fleet = a_fleet(round_seconds=600.0)
    replica = Replica(fleet, "a")
    await live(fleet, 610)
    fault = fleet.fault(48)
    await fleet.time.pass_by(0.01)
    assert fleet.taint() == "xid-48"
    await live(fleet, 40)
    assert fleet.case(fault).state in {CaseState.PROBATION, CaseState.CLOSED}
    await replica.end()


async def test_of_two_replicas_one_acts_and_the_other_goes_on_when_it_is_killed() -> None:
    fleet = a_fleet()
    first = Replica(fleet, "a")
    await live(fleet, 5)
    second = Replica(fleet, "b")
    await live(fleet, 5)
    fault = fleet.fault(48)
    await live(fleet, 2)
    assert first.told.happenings
    assert second.told.happenings == []
    assert fleet.taint() == "xid-48"
    await first.end()
    await live(fleet, 60)
    assert fleet.case(fault).state is CaseState.CLOSED
    assert second.told.happenings
    done = fleet.agents["gpu-1"].done
    assert len(done) == len(set(done))
    assert [what for _, what in done].count(EffectKind.RESET) == 1
    await second.end()


async def test_who_begins_to_lead_goes_to_work_at_once() -> None:
    fleet = a_fleet(round_seconds=600.0)
    first = Replica(fleet, "a")
    await live(fleet, 5)
    second = Replica(fleet, "b")
    await live(fleet, 5)
    await first.end()
    fleet.fault(48)
    await live(fleet, 3)
    assert fleet.taint() is None, "nobody leads"
    while not second.leading.leads():
        await fleet.time.pass_by(0.25)
    assert fleet.taint() == "xid-48"
    await second.end()


async def test_a_leader_that_is_cut_off_writes_nothing_when_it_comes_back() -> None:
    fleet = a_fleet()
    replica = Replica(fleet, "a")
    await live(fleet, 5)
    fleet.cluster.network.turn(Presence.AWAY)
    await live(fleet, 30)
    assert not replica.leading.leads()
    other = {"holderIdentity": "b", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    fleet.server.patch(
        LEASES, "gpuward-controller", [{"op": "add", "path": "/spec", "value": other}], namespace="gpuward"
    )
    fleet.cluster.network.turn(Presence.THERE)
    fleet.fault(48)
    await live(fleet, 5)
    assert fleet.server.list(GPU_CASES).items == ()
    assert fleet.taint() is None
    await replica.end()


async def test_a_mirror_that_dies_ends_the_controller_and_leaves_nothing_running() -> None:
    fleet = a_fleet()
    cluster = MortalCluster(fleet.cluster, last=1, after=False)
    task = asyncio.ensure_future(fleet.controller(cluster).run())
    await fleet.time.pass_by(5)
    with pytest.raises(Died):
        await asyncio.wait_for(task, timeout=5)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_case_that_cannot_be_read_stops_the_work_on_its_node_alone_and_is_told() -> None:
    fleet = a_fleet()
    fleet.node("gpu-2")
    async with fleet.running() as controller:
        first = fleet.fault(48)
        fleet.agents["gpu-1"].busy = True
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        assert fleet.orders()
        case = fleet.case(first)
        fleet.server.schemas = {}
        operation = {"op": "add", "path": "/status/state", "value": "of-a-newer-version"}
        fleet.server.patch(GPU_CASES, case.id, [operation], subresource="status")
        await fleet.time.pass_by(0.1)
        second = fleet.fault(48, "gpu-2")
        await fleet.time.pass_by(0.1)
        asked = fleet.get(GPU_NODES, "gpu-1")["spec"]
        await fleet.go(controller, rounds=5)
        assert fleet.taint() == "xid-48", "what is there stays"
        assert fleet.get(GPU_NODES, "gpu-1")["spec"] == asked
        assert any(case.id in trouble for trouble in controller.newest.troubles)
        assert fleet.taint("gpu-2") == "xid-48"
    names = [one["metadata"]["name"] for one in fleet.server.list(GPU_CASES).items]
    assert sorted(names) == sorted([case.id, f"c-{second}"])


async def test_a_rack_that_falls_ill_at_once_is_fenced_in_one_round() -> None:
    fleet = Fleet()
    names = [f"gpu-{number}" for number in range(60)]
    for name in names:
        fleet.node(name)
        fleet.fault(79, name)
    async with fleet.running() as controller:
        await fleet.time.run(controller.round())
    assert {fleet.taint(name) for name in names} == {"xid-79"}
    assert {as_case(one).level for one in fleet.gpu_cases()} == {Level.P0}


async def test_a_node_that_is_gone_is_no_obstacle_to_the_others() -> None:
    fleet = a_fleet()
    fleet.node("gpu-2")
    async with fleet.running() as controller:
        faults = [fleet.fault(48), fleet.fault(48, "gpu-2")]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
        fleet.server.delete(NODES, "gpu-1")
        await fleet.time.pass_by(0.1)
        for fault in faults:
            await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint("gpu-2") is None


def counting(controller: Controller) -> list[float]:
    """Return a list that gets an entry with each round of the controller."""
    rounds: list[float] = []
    real = controller.round

    async def counted() -> Round:
        rounds.append(0.0)
        return await real()

    controller.round = counted  # type: ignore[method-assign]  # only counted
    return rounds


@contextlib.asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[None]:
    task = asyncio.ensure_future(controller.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_cluster_that_rings_all_the_time_does_not_keep_it_going_round() -> None:
    fleet = a_fleet(breath_seconds=0.5)
    controller = fleet.controller()
    rounds = counting(controller)
    async with running(controller):
        await fleet.time.pass_by(1)
        before = len(rounds)
        for number in range(100):
            operation = {"op": "add", "path": "/spec/unschedulable", "value": number % 2 == 0}
            fleet.server.patch(NODES, "gpu-1", [operation])
            await fleet.time.pass_by(0.1)
        assert 15 <= len(rounds) - before <= 25


async def test_heartbeats_of_kubelets_are_no_reason_for_a_round() -> None:
    fleet = a_fleet(round_seconds=600.0)
    controller = fleet.controller()
    rounds = counting(controller)
    async with running(controller):
        await fleet.time.pass_by(5)
        before = len(rounds)
        for number in range(100):
            beat = {"op": "add", "path": "/status/conditions/0/lastHeartbeatTime", "value": f"2026-11-30T10:{number}"}
            fleet.server.patch(NODES, "gpu-1", [beat], subresource="status")
            await fleet.time.pass_by(0.1)
        assert len(rounds) == before
        node = fleet.get(NODES, "gpu-1")
        assert controller.picture.nodes.objects["gpu-1"].version == node["metadata"]["resourceVersion"]
        fleet.fault(48)
        await fleet.time.pass_by(0.1)
        assert fleet.taint() == "xid-48"


async def test_a_new_fault_is_not_kept_waiting_by_the_breath_after_a_round() -> None:
    fleet = a_fleet(breath_seconds=60.0)
    async with running(fleet.controller()):
        await fleet.time.pass_by(90)
        fleet.server.patch(NODES, "gpu-1", [{"op": "add", "path": "/spec/unschedulable", "value": True}])
        await fleet.time.pass_by(0.1)
        fleet.fault(48)
        await fleet.time.pass_by(0.1)
        assert fleet.taint() == "xid-48"


async def test_a_flood_of_new_faults_does_not_keep_it_going_round() -> None:
    fleet = a_fleet(breath_seconds=0.5)
    controller = fleet.controller()
    rounds = counting(controller)
    async with running(controller):
        await fleet.time.pass_by(1)
        before = len(rounds)
        for _ in range(100):
            fleet.fault(31)
            await fleet.time.pass_by(0.1)
        assert 20 <= len(rounds) - before <= 40
