"""The port Cluster in trouble: what is not allowed, and a server that does not answer, or is away and comes back."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from gpuward.model.resource import NAMESPACES, NODES
from gpuward.ports import Cluster, EdgeError, Refused, Unreachable
from tests.cluster.world import World

SOON = 20.0
LABEL = [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]


def calls(cluster: Cluster, namespace: str, name: str, seconds: float) -> dict[str, Awaitable[Any]]:
    """Return one call of each sort."""
    return {
        "list": cluster.list(NODES, deadline_seconds=seconds),
        "get": cluster.get(NODES, name, deadline_seconds=seconds),
        "create": cluster.create(NODES, {"metadata": {"name": name}}, deadline_seconds=seconds),
        "patch": cluster.patch(NODES, name, LABEL, deadline_seconds=seconds),
        "delete": cluster.delete(NODES, name, deadline_seconds=seconds),
        "evict": cluster.evict(name, namespace=namespace, uid="x", deadline_seconds=seconds),
    }


async def begin_watch(cluster: Cluster, seconds: float) -> None:
    """Watch for the first thing that is told."""
    await anext(cluster.watch(NODES, since="0", timeout_seconds=seconds))


async def answer(call: Awaitable[Any]) -> Any:
    """Return what comes of a call, its error included; it must end long before the test would."""
    async with asyncio.timeout(SOON):
        try:
            return await call
        except EdgeError as error:
            return error


async def answers(cluster: Cluster, namespace: str, name: str, seconds: float = SOON) -> dict[str, Any]:
    """Return what comes of each call, all asked at once."""
    asked = calls(cluster, namespace, name, seconds)
    came = await asyncio.gather(*map(answer, asked.values()))
    return dict(zip(asked, came, strict=True))


async def test_who_is_not_allowed_is_refused_whatever_is_asked(world: World) -> None:
    namespace = world.namespace()
    came = await answers(world.forbidden, namespace, world.name("node"))
    assert not {word: one for word, one in came.items() if not isinstance(one, Refused)}
    assert isinstance(await answer(begin_watch(world.forbidden, 2.0)), Refused)
    assert await world.cluster.get(NODES, world.name("node")) is None


async def test_a_server_that_does_not_answer_is_unreachable_by_the_deadline_whatever_is_asked(world: World) -> None:
    namespace = world.namespace()
    with world.frozen():
        came = await answers(world.cluster, namespace, world.name("node"), 0.5)
    assert not {word: one for word, one in came.items() if not isinstance(one, Unreachable)}


async def test_a_server_that_does_not_answer_a_watch_is_unreachable(world: World) -> None:
    with world.frozen():
        came = await answer(begin_watch(world.cluster, 300.0))
    assert isinstance(came, Unreachable)


async def test_a_server_that_is_away_is_unreachable_and_the_first_call_after_it_is_back_is_answered(
    world: World,
) -> None:
    namespace = world.namespace()
    with world.away():
        came = await answers(world.cluster, namespace, world.name("node"), 0.5)
    assert not {word: one for word, one in came.items() if not isinstance(one, Unreachable)}
    assert await world.cluster.get(NAMESPACES, namespace) is not None


async def test_a_server_that_goes_on_answers_again(world: World) -> None:
    namespace = world.namespace()
    with world.frozen(), pytest.raises(Unreachable):
        await world.cluster.get(NAMESPACES, namespace, deadline_seconds=0.3)
    assert await world.cluster.get(NAMESPACES, namespace) is not None


async def test_an_error_says_what_was_to_be_done_and_to_what(world: World) -> None:
    with pytest.raises(Refused, match=r"Node [a-z0-9-]*node-17"):
        await world.forbidden.get(NODES, world.name("node-17"))
