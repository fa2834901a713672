"""An event of ours as the API server takes it: made once, its count raised, on both clusters."""

import asyncio
from typing import Any

from gpuward.adapters.clock import SystemClock
from gpuward.controller.events import REPORTER, Events
from gpuward.controller.loop import picture_of
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.model.case import CaseState, Effect, EffectKind
from gpuward.model.happening import What
from gpuward.model.objects.gpu_case import (
    CaseStatus,
    GpuCase,
    TimelineEntry,
    Victim,
    spec_of,
    status_of,
)
from gpuward.model.objects.head import Head
from gpuward.model.resource import EVENTS, NODES
from gpuward.ports import Object
from tests.cluster.world import World
from tests.kit.lives import a_case


class Telling:
    """The events of one case on one node, told by a controller that may start anew."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = SystemClock()
        self.node = world.name("gpu")
        self.space = world.namespace()
        self.since = self.clock.now()

    async def tell(self, *parked: float, because: str = "The reset did not succeed.") -> Events:
        """Let a controller that has just started tell of a case that came to be parked at these times."""
        pace = Pace(self.clock, asyncio.sleep, lambda: 0.5)
        picture = picture_of(self.world.cluster, pace, Terms())
        node = await self.world.cluster.get(NODES, self.node)
        picture.nodes.learn(node or await self.world.cluster.create(NODES, {"metadata": {"name": self.node}}))
        case = self._case(parked, because)
        picture.cases.objects[case.head.name] = case
        events = Events(self.world.cluster, picture, pace=pace)
        events.look([case.head.name])
        while (draft := events.next()) is not None:
            assert await events.send(draft) == ""
        return events

    def _case(self, parked: tuple[float, ...], because: str) -> GpuCase:
        effects = (Effect(1, EffectKind.EVICT, self.since),)
        case = a_case(id=f"c-{self.node}", node=self.node, opened_at=self.since, effects=effects)
        entries = tuple(TimelineEntry(at, What.MOVED, because, CaseState.PARKED) for at in parked)
        victim = Victim(f"{self.space}/train-0", uid=f"uid-{self.node}", owner="Job/train", job=f"job-{self.node}")
        told = status_of(case)
        status = CaseStatus(told.state, told.since, told.level, effects=effects, victims=(victim,), timeline=entries)
        return GpuCase(Head(case.id), spec_of(case), status)

    async def told(self, namespace: str) -> dict[str, Object]:
        """Return the events of this test in a namespace by their reason."""
        listed = await self.world.cluster.list(EVENTS, namespace=namespace)
        ours = [one for one in listed.items if one.get("reportingController") == REPORTER]
        mine: dict[str, Any] = {}
        for one in ours:
            if one["related"]["name"] == f"c-{self.node}":
                assert one["reason"] not in mine, "told twice"
                mine[one["reason"]] = one
        return mine


async def test_events_are_taken_on_node_pod_and_job_and_made_once(world: World) -> None:
    telling = Telling(world)
    first = await telling.tell(telling.since)
    assert first.written == 5
    on_node, in_space = await telling.told("default"), await telling.told(telling.space)
    assert set(on_node) == {"GPUFault", "GPUPodsEvicted", "GPUCaseParked"}
    assert set(in_space) == {"GPUFaultEvicted", "GPUFaultMoved"}
    assert in_space["GPUFaultMoved"]["regarding"]["kind"] == "Job"
    assert on_node["GPUFault"]["regarding"]["kind"] == "Node"
    assert "series" not in on_node["GPUCaseParked"]
    await telling.tell(telling.since)
    assert (await telling.told("default"), await telling.told(telling.space)) == (on_node, in_space)


async def test_the_same_again_raises_the_count_and_says_when_it_came_last(world: World) -> None:
    telling = Telling(world)
    await telling.tell(telling.since)
    await telling.tell(telling.since, telling.since + 1, telling.since + 2)
    parked = (await telling.told("default"))["GPUCaseParked"]
    assert parked["series"]["count"] == 3
    assert parked["series"]["lastObservedTime"] > parked["eventTime"]
    await telling.tell(telling.since, telling.since + 1, telling.since + 2)
    assert (await telling.told("default"))["GPUCaseParked"] == parked


async def test_what_came_often_before_it_was_ever_told_is_told_with_its_count(world: World) -> None:
    telling = Telling(world)
    await telling.tell(telling.since, telling.since + 1)
    assert (await telling.told("default"))["GPUCaseParked"]["series"]["count"] == 2


async def test_a_note_that_is_too_long_is_cut_to_what_the_server_takes(world: World) -> None:
    telling = Telling(world)
    await telling.tell(telling.since, because="Ünverständlich. " * 200)
    assert (await telling.told("default"))["GPUCaseParked"]["note"].endswith("…")


async def test_an_event_for_a_namespace_that_is_gone_is_no_trouble(world: World) -> None:
    telling = Telling(world)
    telling.space = world.name("gone")
    await telling.tell(telling.since)
    assert set(await telling.told("default")) == {"GPUFault", "GPUPodsEvicted", "GPUCaseParked"}
