"""Our condition on a node while others write conditions of theirs at the same time, on both clusters."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

from gpuward.adapters.clock import SystemClock
from gpuward.controller.agents import Agents
from gpuward.controller.conditions import Conditions
from gpuward.controller.loop import picture_of
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.controller.views import GpuNodeView
from gpuward.isolation.node_condition import condition_of
from gpuward.model.objects.gpu_node import GpuState, Health, NodeGpu
from gpuward.model.objects.owned import CONDITION
from gpuward.model.resource import NODES
from gpuward.model.scene import GpuSight
from gpuward.ports import Conflict, Object
from tests.cluster.world import World

GPU = NodeGpu(
    pci="0000:3b:00",
    state=GpuState.ACTIVE,
    health=Health.HEALTHY,
    sight=GpuSight(present=True, lost=False, work=(), display=False),
    index=0,
)
CHANGES = 12


class Telling:
    """The conditions of one node, whose GPUs are told by the test."""

    def __init__(self, world: World) -> None:
        self.cluster = world.cluster
        self.name = world.name("gpu")
        pace = Pace(SystemClock(), asyncio.sleep, lambda: 0.5)
        self.picture = picture_of(world.cluster, pace, Terms())
        agents = Agents(world.cluster, self.picture, pace=pace, terms=Terms())
        self.conditions = Conditions(world.cluster, self.picture, agents, pace=pace)

    async def make(self) -> None:
        """Make the node, with conditions of others."""
        node = await self.cluster.create(NODES, {"metadata": {"name": self.name}})
        entries = [{"type": f"Theirs{number}", "status": "True"} for number in range(3)]
        operation: dict[str, Any] = {"op": "add", "path": "/status/conditions", "value": entries}
        if "status" not in node:
            operation = {"op": "add", "path": "/status", "value": {"conditions": entries}}
        self.picture.nodes.learn(node)
        await self.cluster.patch(NODES, self.name, [operation], subresource="status")

    async def tell(self, *gpus: NodeGpu) -> None:
        """Let the node say how these GPUs are, as the voice does."""
        view = GpuNodeView(self.name, "1", spec=None, boot="b", driver="", gpus=gpus, answers={})
        self.picture.gpu_nodes.objects[self.name] = view
        self.conditions.due.add(self.name)
        while self.name in self.conditions.due:
            for name in await self.conditions.wanting([]):
                assert await self.conditions.write(name) == ""

    async def node(self) -> Object:
        """Return the node as it is."""
        found = await self.cluster.get(NODES, self.name)
        assert found is not None
        return found

    async def conditions_there(self) -> list[dict[str, Any]]:
        """Return all its conditions."""
        return list((await self.node())["status"]["conditions"])


async def test_ours_is_added_changed_at_its_place_and_written_only_when_it_says_something_else(world: World) -> None:
    telling = Telling(world)
    await telling.make()
    await telling.tell(GPU)
    assert [one["type"] for one in await telling.conditions_there()] == ["Theirs0", "Theirs1", "Theirs2", CONDITION]
    before = await telling.node()
    await telling.tell(GPU)
    assert await telling.node() == before
    await telling.tell(replace(GPU, health=Health.FAULTY))
    *others, ours = await telling.conditions_there()
    assert [one["type"] for one in others] == ["Theirs0", "Theirs1", "Theirs2"]
    assert (ours["type"], ours["status"], ours["reason"]) == (CONDITION, "True", "GPUFaulty")


async def test_a_node_that_is_no_server_of_ours_any_more_says_nothing(world: World) -> None:
    telling = Telling(world)
    await telling.make()
    await telling.tell(GPU)
    del telling.picture.gpu_nodes.objects[telling.name]
    telling.conditions.due.add(telling.name)
    for name in await telling.conditions.wanting([]):
        assert await telling.conditions.write(name) == ""
    assert condition_of(await telling.node()) is None
    assert len(await telling.conditions_there()) == 3


async def test_while_another_writes_conditions_both_keep_what_is_theirs(world: World) -> None:
    telling = Telling(world)
    await telling.make()

    async def another() -> None:
        for number in range(CHANGES):
            await put_in_front(telling, f"Moving{number}")

    async def ours() -> None:
        for number in range(CHANGES):
            await telling.tell(replace(GPU, health=Health.FAULTY if number % 2 else Health.HEALTHY))

    await asyncio.gather(another(), ours())
    types = [one["type"] for one in await telling.conditions_there()]
    wanted = {CONDITION, "Theirs0", "Theirs1", "Theirs2", *(f"Moving{number}" for number in range(CHANGES))}
    assert set(types) == wanted
    assert len(types) == len(wanted)
    found = condition_of(await telling.node())
    assert found is not None
    assert found["status"] == "True"


async def put_in_front(telling: Telling, word: str) -> None:
    """Let another controller add a condition before all others, so that ours moves, and reword one of its own."""
    while True:
        node = await telling.node()
        version = {"op": "test", "path": "/metadata/resourceVersion", "value": node["metadata"]["resourceVersion"]}
        entry = {"op": "add", "path": "/status/conditions/0", "value": {"type": word, "status": "True"}}
        with contextlib.suppress(Conflict):
            await telling.cluster.patch(NODES, telling.name, [version, entry], subresource="status")
            return
        await asyncio.sleep(0)
