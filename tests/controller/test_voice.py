"""What people are told on the cluster's own objects: once each, in UTC, and never in the way of the work."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpuward.controller import events
from gpuward.controller.events import FRESH_SECONDS, MOST_OF_A_CASE
from gpuward.controller.voice import Voice
from gpuward.isolation.announcing import MOST_BYTES, MOST_PODS
from gpuward.isolation.brake import Brake
from gpuward.model.case import CaseState, Mode
from gpuward.model.objects.gpu_case import GpuCase, spec_of, write_gpu_case
from gpuward.model.objects.head import Head
from gpuward.model.objects.owned import CONDITION, agent_lease
from gpuward.model.resource import EVENTS, GPU_CASES, JOBS, LEASES, NODES
from gpuward.ports import Object
from gpuward.sim.cluster.users import Asked
from gpuward.sim.cluster.weather import FAIR, Spell, Trouble
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.fleet import NOW, REPAIRING, Fleet, uuid_of
from tests.controller.test_loop import Replica, live
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A, GPU_B

OBSTACLE = "It fell off the bus: only a reboot brings it back."


class NoEvents:
    """Implements Weather: no event can be written, all else can."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble: Trouble | None = trouble
        self.asked = 0

    def spell(self, user: str, asked: Asked) -> Spell:  # noqa: ARG002  all are alike
        """Return trouble for what is about events."""
        if asked.resource != EVENTS:
            return FAIR
        self.asked += 1
        return Spell(trouble=self.trouble)


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    return fleet


def told_on(fleet: Fleet, kind: str) -> list[Object]:
    return [one for one in fleet.events() if one["regarding"]["kind"] == kind]


def reasons(told: list[Object]) -> list[str]:
    return [one["reason"] for one in told]


async def parked(fleet: Fleet) -> str:
    """Let a GPU fall off the bus under a job of two pods, until its case is parked; return the fault."""
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    owner = fleet.owner(JOBS, "train")
    for name in ("train-0", "train-1"):
        fleet.pod(name, ownerReferences=owner)
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
    return fault


async def test_each_step_that_a_person_on_call_cares_about_is_told_on_the_node() -> None:
    fleet = a_fleet()
    fault = await parked(fleet)
    told = told_on(fleet, "Node")
    assert reasons(told) == ["GPUFault", "GPUFenced", "GPUPodsEvicted", "GPUCaseParked"]
    assert {one["regarding"]["uid"] for one in told} == {fleet.get_node("gpu-1")["metadata"]["uid"]}
    assert {one["metadata"]["namespace"] for one in told} == {"default"}
    assert {one["type"] for one in told} == {"Warning"}
    assert {one["related"]["name"] for one in told} == {fleet.case(fault).id}
    assert told[0]["note"].startswith(f"GPU at {GPU_A} of gpu-1: Xid 79, ")
    assert ": hardware, P0. " in told[0]["note"]
    assert "work/train-0, work/train-1" in told[2]["note"]
    assert OBSTACLE in told[3]["note"]


async def test_times_are_in_utc_and_say_so() -> None:
    fleet = a_fleet()
    await parked(fleet)
    notes = [one["note"] for one in fleet.events()]
    assert notes
    assert all(", at 14:15:00 UTC: " in note for note in notes), notes


async def test_each_pod_and_its_job_are_told_that_they_go_and_why() -> None:
    fleet = a_fleet()
    await parked(fleet)
    on_pods, (on_job,) = told_on(fleet, "Pod"), told_on(fleet, "Job")
    assert {one["regarding"]["name"] for one in on_pods} == {"train-0", "train-1"}
    assert reasons(on_pods) == ["GPUFaultEvicted", "GPUFaultEvicted"]
    assert all(one["metadata"]["namespace"] == "work" and one["regarding"]["uid"] for one in on_pods)
    job = fleet.get(JOBS, "train", space="work")
    wanted = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "work", "name": "train"}
    assert on_job["regarding"] == {**wanted, "uid": job["metadata"]["uid"]}
    assert on_job["note"].endswith("Your job is moved, away go: train-0, train-1.")


async def test_a_pod_that_nobody_owns_is_told_once() -> None:
    fleet = a_fleet()
    fleet.pod("alone")
    async with fleet.running() as controller:
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=6)
    assert reasons(told_on(fleet, "Pod")) == ["GPUFaultEvicted"]


async def test_a_gpu_that_comes_back_is_told_and_is_no_warning() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    last = told_on(fleet, "Node")[-1]
    assert (last["reason"], last["type"]) == ("GPUReturned", "Normal")
    assert last["note"] == f"GPU at {GPU_A} of gpu-1 is back in service. Returned to service."


async def test_what_was_nothing_and_what_a_person_released_are_told_as_that() -> None:
    fleet = a_fleet()
    fault = await parked(fleet)
    async with fleet.running() as controller:
        fleet.order(fleet.case(fault).id, what="release", by="alice")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.CLOSED)
    last = told_on(fleet, "Node")[-1]
    assert last["reason"] == "GPUCaseClosed"
    assert "Released by a person" in last["note"]
    other = a_fleet()
    other.agents["gpu-1"].silent = True
    async with other.running() as controller:
        fault = other.fault(48)
        await other.time.pass_by(0.1)
        await other.go(controller, rounds=3)
        other.take_back(fault)
        other.agents["gpu-1"].silent = False
        await other.settled(controller, fault, CaseState.WITHDRAWN)
    assert reasons(told_on(other, "Node"))[-1] == "GPUCaseWithdrawn"


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"brake": Brake(share=0.01)}, "Held by the brake"),
        ({"approval": True}, "Waits for a person's word"),
        ({"mode": Mode.OBSERVE}, "In mode observe"),
    ],
    ids=["brake", "approval", "observe"],
)
async def test_a_case_that_is_held_says_on_its_node_that_nothing_is_done_and_why(
    terms: Mapping[str, Any], said: str
) -> None:
    fleet = a_fleet()
    async with fleet.running(terms=replace(fleet.terms, **terms)) as controller:
        fleet.fault(48)
        if "brake" in terms:
            fleet.fault(48, pci=GPU_B)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=6)
    held = [one for one in told_on(fleet, "Node") if one["reason"] == "GPUCaseHeld"]
    assert len(held) == 1
    assert f"Nothing is done yet. {said}" in held[0]["note"]


async def test_parked_again_for_the_same_reason_raises_the_count_of_the_event_that_is_there() -> None:
    fleet = a_fleet()
    fault = await parked(fleet)
    async with fleet.running() as controller:
        for count in (2, 3):
            before = fleet.case(fault).since
            fleet.order(fleet.case(fault).id, what="retry", by="alice")
            await fleet.time.pass_by(0.1)
            await fleet.until(controller, lambda before=before: fleet.case(fault).since > before)  # type: ignore[misc]  # bound now
            await fleet.settled(controller, fault, CaseState.PARKED)
            (one,) = (one for one in told_on(fleet, "Node") if one["reason"] == "GPUCaseParked")
            assert one["series"]["count"] == count
            assert one["series"]["lastObservedTime"] > one["eventTime"]


async def test_a_controller_that_restarts_and_two_that_tell_at_once_tell_nothing_twice() -> None:
    fleet = a_fleet()
    await parked(fleet)
    before = fleet.events()
    for _ in range(2):
        async with fleet.running() as controller:
            await fleet.go(controller, rounds=3)
            assert controller.voice.troubles == ()
    async with fleet.running() as first, fleet.running() as second:
        await fleet.time.run(_both(first.voice, second.voice))
    assert fleet.events() == before


async def _both(*voices: Voice) -> None:
    await asyncio.gather(*(one.speak() for one in voices))


async def test_what_is_long_past_is_not_told_by_a_controller_that_starts() -> None:
    fleet = a_fleet()
    await parked(fleet)
    for one in fleet.events():
        fleet.server.delete(EVENTS, one["metadata"]["name"], namespace=one["metadata"]["namespace"])
    await fleet.time.pass_by(FRESH_SECONDS + 1)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=3)
    assert fleet.events() == []


async def test_only_the_leader_tells() -> None:
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    first = Replica(fleet, "a")
    await live(fleet, 5)
    second = Replica(fleet, "b")
    await live(fleet, 5)
    fleet.fault(79)
    await live(fleet, 10)
    assert "GPUCaseParked" in reasons(fleet.events())
    assert first.controller.voice.events.written == len(fleet.events())
    assert (second.controller.voice.events.written, second.controller.voice.troubles) == (0, ())
    for replica in (first, second):
        await replica.end()


@pytest.mark.parametrize("trouble", [Trouble.LOST, Trouble.CONFLICT], ids=str)
async def test_events_that_cannot_be_written_hold_up_nothing(trouble: Trouble) -> None:
    weather = NoEvents(trouble)
    fleet = Fleet(weather=weather)
    fleet.node("gpu-1")
    fault = await parked(fleet)
    assert weather.asked
    assert fleet.events() == []
    assert fleet.case(fault).state is CaseState.PARKED
    assert fleet.taint() == "xid-79"
    condition = fleet.condition()
    assert condition is not None
    assert condition["status"] == "True"


async def test_events_wait_while_they_cannot_be_written_and_are_told_when_they_can() -> None:
    weather = NoEvents(Trouble.LOST)
    fleet = Fleet(weather=weather)
    fleet.node("gpu-1")
    async with fleet.running() as controller:
        fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        assert fleet.events() == []
        (trouble,) = controller.voice.troubles
        assert "it waits to be told" in trouble
        weather.trouble = None
        await fleet.go(controller)
        assert not controller.voice.troubles
    assert reasons(fleet.events())[:2] == ["GPUFault", "GPUFenced"]


async def test_of_too_many_events_the_oldest_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_WAITING", 2)
    fleet = a_fleet()
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    async with fleet.running() as controller:
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        for _ in range(6):
            await fleet.time.run(controller.round())
            fleet.move()
            await fleet.time.pass_by(1.0)
        await fleet.time.run(controller.voice.speak())
        dropped = controller.voice.events.dropped
    assert len(fleet.events()) == 2
    assert dropped >= 3
    assert "GPUFault" not in reasons(fleet.events())


async def test_a_case_with_many_pods_tells_no_more_than_its_share() -> None:
    fleet = a_fleet()
    owner = fleet.owner(JOBS, "many")
    for number in range(MOST_PODS + 40):
        fleet.pod(f"p-{number}", gpus=0, ownerReferences=owner)
    async with fleet.running() as controller:
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=8)
    assert len(told_on(fleet, "Pod")) == MOST_PODS
    assert len(fleet.events()) < MOST_OF_A_CASE
    assert len(told_on(fleet, "Job")) == 1
    assert all(len(one["note"].encode()) <= MOST_BYTES for one in fleet.events())


async def test_a_drill_is_told_as_one_and_on_no_pod() -> None:
    fleet = a_fleet()
    fleet.pod("web", gpus=0)
    drill = a_case(id="c-drill", gpu=GPU_A, gpu_uuid=uuid_of(GPU_A), drill=Mode.REPAIR, opened_at=NOW)
    fleet.server.create(GPU_CASES, write_gpu_case(GpuCase(Head(drill.id), spec_of(drill))))
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=30)
    told = fleet.events()
    assert reasons(told)[0] == "GPUFault"
    assert reasons(told)[-1] in {"GPUReturned", "GPUCaseClosed"}
    assert all(one["note"].startswith("Drill: ") and one["note"].count("Drill: ") == 1 for one in told)
    assert {one["regarding"]["kind"] for one in told} == {"Node"}
    condition = fleet.condition()
    assert condition is not None
    assert condition["status"] == "False"


async def test_a_job_whose_own_fault_it_is_is_told_so_once_for_all_its_gpus() -> None:
    fleet = Fleet(terms=replace(REPAIRING, mode=Mode.ISOLATE))
    owner = fleet.owner(JOBS, "train")
    async with fleet.running() as controller:
        for number in range(4):
            fleet.node(f"gpu-{number}")
            fleet.pod(f"train-{number}", f"gpu-{number}", ownerReferences=owner)
            fleet.fault(31, f"gpu-{number}", pods=(f"train-{number}",))
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
    (one,) = told_on(fleet, "Job")
    assert (one["reason"], one["regarding"]["name"]) == ("GPUFaultOfJob", "train")
    assert one["regarding"]["uid"] == fleet.get(JOBS, "train", space="work")["metadata"]["uid"]
    assert ": application, P1. Left alone: xid:31 came on " in one["note"]


async def test_the_condition_is_unknown_while_the_agent_is_silent_and_is_written_no_more_than_that() -> None:
    fleet = a_fleet()
    body = {"metadata": {"name": agent_lease("gpu-1")}, "spec": {"renewTime": "2026-09-21T14:15:00.000000Z"}}
    fleet.server.create(LEASES, body, namespace="gpuward")
    said = []
    async with fleet.running() as controller:
        for renewed in ("2026-09-21T14:15:59.000000Z", "", "", "", "", "2026-09-21T14:22:00.000000Z"):
            change = [{"op": "add", "path": "/spec/renewTime", "value": renewed}] if renewed else []
            if change:
                fleet.server.patch(LEASES, agent_lease("gpu-1"), change, namespace="gpuward")
            await fleet.time.pass_by(60.0)
            await fleet.go(controller)
            said.append(fleet.condition())
        silent = len(controller.voice.agents.silent)
    seen = [(one["status"], one["message"]) for one in said if one is not None]
    well, unknown = ("False", "2 seen, none with a fault"), ("Unknown", "its agent is silent since 14:15:59 UTC")
    assert seen == [well, well, well, unknown, unknown, well]
    assert said[3] == said[4]
    assert silent == 0


async def test_the_condition_follows_the_node_from_well_to_sick_and_back() -> None:
    fleet = a_fleet()
    said = []
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        said.append(fleet.condition())
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        said.append(fleet.condition())
        await fleet.settled(controller, fault, CaseState.CLOSED)
        said.append(fleet.condition())
    statuses = [(one["status"], one["reason"]) for one in said if one is not None]
    assert statuses == [("False", "GPUsHealthy"), ("True", "CaseOpen"), ("False", "GPUsHealthy")]
    assert said[1] is not None
    assert fleet.case(fault).id in said[1]["message"]
    conditions = fleet.get(NODES, "gpu-1")["status"]["conditions"]
    assert [one["type"] for one in conditions] == ["Ready", CONDITION]


async def test_a_condition_that_somebody_took_away_is_there_again() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        remove = {"op": "remove", "path": "/status/conditions/1"}
        fleet.server.patch(NODES, "gpu-1", [remove], subresource="status")
        assert fleet.condition() is None
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
        assert fleet.condition() is not None


async def test_killed_at_any_call_what_it_tells_is_told_once_each() -> None:
    whole = a_fleet()
    await parked(whole)
    wanted = Counter((one["reason"], one["regarding"]["name"]) for one in whole.events())
    for last in range(6, 60, 5):
        fleet = a_fleet()
        fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
        owner = fleet.owner(JOBS, "train")
        for name in ("train-0", "train-1"):
            fleet.pod(name, ownerReferences=owner)
        fault = fleet.fault(79)
        for cluster in (MortalCluster(fleet.cluster, last=last, after=True), fleet.cluster):
            try:
                async with fleet.running(cluster) as controller:
                    for _ in range(20):
                        await fleet.go(controller)
            except Died:
                continue
        assert fleet.case(fault).state is CaseState.PARKED
        told = Counter((one["reason"], one["regarding"]["name"]) for one in fleet.events())
        assert told == wanted, f"killed at call {last}"
        assert all("series" not in one for one in fleet.events())
