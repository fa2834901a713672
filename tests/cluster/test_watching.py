"""The port Cluster, watching: what is told, in which order, from where, and how it ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from gpuward.model.resource import GPU_CASES, NAMESPACES, PODS
from gpuward.ports import Conflict, Happened, Unreachable, Watched
from tests.cluster.world import SILENCE_SECONDS, World

SOON = 20.0
_ADDED, _MODIFIED, _DELETED = Happened.ADDED, Happened.MODIFIED, Happened.DELETED


def name_of(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def gpu_of(item: Mapping[str, Any]) -> tuple[str, int]:
    return name_of(item), item["spec"]["gpu"]


async def make(world: World, word: str, gpu: int = 0, **labels: str) -> str:
    name = world.name(word)
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"gpu": gpu}}
    await world.cluster.create(GPU_CASES, body, deadline_seconds=SOON)
    return name


async def set_gpu(world: World, name: str, gpu: int) -> None:
    await world.cluster.patch(GPU_CASES, name, [{"op": "replace", "path": "/spec/gpu", "value": gpu}])


async def version_now(world: World) -> str:
    world.define(GPU_CASES)
    return (await world.cluster.list(GPU_CASES)).version


async def first(count: int, watch: AsyncIterator[Watched]) -> list[Watched]:
    """Return so many things that are told, bookmarks left out; the watch must not end before."""
    told: list[Watched] = []
    async with asyncio.timeout(SOON):
        async for one in watch:
            if one.happened is not Happened.BOOKMARK:
                told.append(one)
            if len(told) == count:
                return told
    raise AssertionError(f"the watch ended after {told}")


async def all_of(watch: AsyncIterator[Watched]) -> list[Watched]:
    """Return all that is told until the watch ends by itself."""
    async with asyncio.timeout(SOON):
        return [one async for one in watch]


async def test_a_watch_from_a_list_tells_every_change_in_order_and_nothing_before(world: World) -> None:
    await make(world, "before")
    since = await version_now(world)
    name = await make(world, "case", 1)
    await set_gpu(world, name, 2)
    await set_gpu(world, name, 3)
    await world.cluster.delete(GPU_CASES, name)
    other = await make(world, "other", 9)
    told = await first(5, world.cluster.watch(GPU_CASES, since=since, project=gpu_of))
    assert [(one.happened, one.item) for one in told] == [
        (_ADDED, (name, 1)),
        (_MODIFIED, (name, 2)),
        (_MODIFIED, (name, 3)),
        (_DELETED, (name, 3)),
        (_ADDED, (other, 9)),
    ]
    versions = [int(one.version) for one in told]
    assert versions == sorted(set(versions))
    assert int(since) < versions[0]


async def test_a_watch_goes_on_after_the_version_that_was_told_last(world: World) -> None:
    since = await version_now(world)
    name = await make(world, "case", 1)
    for gpu in range(2, 6):
        await set_gpu(world, name, gpu)
    told = await first(2, world.cluster.watch(GPU_CASES, since=since))
    rest = await first(3, world.cluster.watch(GPU_CASES, since=told[-1].version, project=gpu_of))
    assert [one.item for one in rest] == [(name, 3), (name, 4), (name, 5)]


async def test_a_watch_tells_what_happens_while_it_waits(world: World) -> None:
    since = await version_now(world)
    waiting = asyncio.create_task(first(1, world.cluster.watch(GPU_CASES, since=since, project=name_of)))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    name = await make(world, "case")
    (told,) = await waiting
    assert (told.happened, told.item) == (_ADDED, name)


async def test_the_version_of_a_deletion_is_newer_than_the_object_was(world: World) -> None:
    name = await make(world, "case")
    since = await version_now(world)
    await world.cluster.delete(GPU_CASES, name)
    (told,) = await first(1, world.cluster.watch(GPU_CASES, since=since))
    assert told.happened is _DELETED
    assert int(told.version) > int(since)


async def test_an_object_that_leaves_the_selection_is_told_as_deleted_and_one_that_enters_as_added(
    world: World,
) -> None:
    name = await make(world, "case", 4, level="P1")
    since = await version_now(world)
    for level in ("P0", "P1"):
        await world.cluster.patch(
            GPU_CASES, name, [{"op": "replace", "path": "/metadata/labels/level", "value": level}]
        )
    told = await first(2, world.cluster.watch(GPU_CASES, since=since, labels="level=P1", project=gpu_of))
    assert [(one.happened, one.item) for one in told] == [(_DELETED, (name, 4)), (_ADDED, (name, 4))]


async def test_a_watch_of_one_namespace_and_one_node_tells_nothing_else(world: World) -> None:
    here, there = world.namespace("here"), world.namespace("there")
    since = (await world.cluster.list(PODS)).version
    theirs, ours = world.pod(there, "theirs"), world.pod(here, "ours")
    (told,) = await first(1, world.cluster.watch(PODS, since=since, namespace=here, project=name_of))
    assert told.item == name_of(ours)
    fields = f"metadata.name={name_of(theirs)}"
    (told,) = await first(1, world.cluster.watch(PODS, since=since, fields=fields, project=name_of))
    assert told.item == name_of(theirs)


async def test_a_watch_has_bookmarks_that_are_newer_than_where_it_began_and_ends_by_itself(world: World) -> None:
    since = await version_now(world)
    watching = asyncio.create_task(all_of(world.cluster.watch(GPU_CASES, since=since, timeout_seconds=4)))
    world.namespace()  # the cluster goes on, although nothing happens to this kind
    newer = await version_now(world)  # and this makes the server learn of it
    told = await watching
    assert {(one.happened, one.item) for one in told} == {(Happened.BOOKMARK, None)}
    assert int(told[-1].version) >= int(newer) > int(since)


async def test_a_watch_of_what_is_idle_goes_on_after_long_silence_and_misses_nothing(world: World) -> None:
    since = await version_now(world)
    seconds = SILENCE_SECONDS + 2.5
    watching = asyncio.create_task(all_of(world.cluster.watch(GPU_CASES, since=since, timeout_seconds=seconds)))
    await asyncio.sleep(SILENCE_SECONDS + 0.5)
    name = await make(world, "case")
    assert [one.item["metadata"]["name"] for one in await watching if one.item] == [name]


async def test_a_watch_from_a_version_that_is_forgotten_is_a_conflict(world: World) -> None:
    world.define(GPU_CASES)
    with pytest.raises(Conflict, match="too old"):
        await first(1, world.cluster.watch(GPU_CASES, since=world.forgotten(GPU_CASES)))


async def lived_through(world: World, trouble: Callable[[World], Any]) -> None:
    """Watch while the trouble lasts."""
    since = (await world.cluster.list(NAMESPACES)).version
    watch = world.cluster.watch(NAMESPACES, since=since, project=name_of)
    name = world.namespace()
    told = await anext(watch)
    assert told.item == name
    async with asyncio.timeout(SILENCE_SECONDS + SOON):
        with trouble(world):
            async for _ in watch:
                pass


async def test_a_watch_that_is_silent_for_longer_than_bookmarks_are_is_unreachable(world: World) -> None:
    with pytest.raises(Unreachable):
        await lived_through(world, lambda world: world.frozen())


async def test_a_watch_whose_server_goes_away_is_unreachable_and_can_be_begun_again(world: World) -> None:
    with pytest.raises(Unreachable):
        await lived_through(world, lambda world: world.away())
    listed = await world.cluster.list(NAMESPACES, project=name_of)
    assert world.name("work") in listed.items
    later = world.namespace("later")
    (told,) = await first(1, world.cluster.watch(NAMESPACES, since=listed.version, project=name_of))
    assert told.item == later
