"""The port Cluster, reading: lists and single objects."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gpuward.model.resource import GPU_CASES, NAMESPACES, PODS, SELF_REVIEWS
from gpuward.ports import Refused
from tests.cluster.world import PAGE, World

SOON = 20.0


def case(name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def name_of(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


async def make_cases(world: World, count: int) -> list[str]:
    world.define(GPU_CASES)
    names = [world.name(f"case-{number:04}") for number in range(count)]
    await asyncio.gather(*(world.cluster.create(GPU_CASES, case(name), deadline_seconds=SOON) for name in names))
    return names


async def test_a_list_has_every_object_once_although_it_is_read_page_by_page(world: World) -> None:
    names = await make_cases(world, 3 * PAGE + 7)
    listed = await world.cluster.list(GPU_CASES, project=name_of)
    assert sorted(listed.items) == names


async def test_a_list_that_fills_its_last_page_has_every_object_once(world: World) -> None:
    names = await make_cases(world, PAGE)
    listed = await world.cluster.list(GPU_CASES, project=name_of)
    assert sorted(listed.items) == names


async def test_a_list_of_nothing_is_empty_and_has_a_version(world: World) -> None:
    world.define(GPU_CASES)
    listed = await world.cluster.list(GPU_CASES)
    assert listed.items == ()
    assert int(listed.version) > 0


async def test_a_list_keeps_of_each_object_what_the_projection_returns(world: World) -> None:
    world.define(GPU_CASES)
    for gpu in range(3):
        await world.cluster.create(GPU_CASES, case(world.name(f"case-{gpu}"), gpu=gpu), deadline_seconds=SOON)
    listed = await world.cluster.list(GPU_CASES, project=lambda item: item["spec"]["gpu"])
    assert sorted(listed.items) == [0, 1, 2]


async def test_a_list_without_a_projection_has_the_objects_as_they_are(world: World) -> None:
    (name,) = await make_cases(world, 1)
    (item,) = (await world.cluster.list(GPU_CASES)).items
    assert item["metadata"] == (await world.cluster.get(GPU_CASES, name) or {})["metadata"]


async def test_a_list_by_labels_has_only_those_that_match(world: World) -> None:
    world.define(GPU_CASES)
    for word, level in (("a", "P0"), ("b", "P1"), ("c", "P0")):
        body = case(world.name(word), labels={"level": level})
        await world.cluster.create(GPU_CASES, body, deadline_seconds=SOON)
    chosen = await world.cluster.list(GPU_CASES, labels="level=P0", project=name_of)
    others = await world.cluster.list(GPU_CASES, labels="level notin (P0)", project=name_of)
    assert sorted(chosen.items) == [world.name("a"), world.name("c")]
    assert others.items == (world.name("b"),)


async def test_a_list_by_fields_has_only_those_that_match(world: World) -> None:
    namespace = world.namespace()
    pod = world.pod(namespace, "worker")
    node = pod["spec"]["nodeName"]
    there = await world.cluster.list(PODS, fields=f"spec.nodeName={node}", project=name_of)
    elsewhere = await world.cluster.list(PODS, fields=f"spec.nodeName={node}-2", project=name_of)
    assert (there.items, elsewhere.items) == ((name_of(pod),), ())


async def test_a_list_of_one_namespace_has_nothing_of_another(world: World) -> None:
    here, there = world.namespace("here"), world.namespace("there")
    ours, theirs = world.pod(here, "ours"), world.pod(there, "theirs")
    one = await world.cluster.list(PODS, namespace=here, project=name_of)
    everywhere = await world.cluster.list(PODS, project=name_of)
    assert one.items == (name_of(ours),)
    assert {name_of(ours), name_of(theirs)} <= set(everywhere.items)


async def test_a_selector_that_is_none_is_refused(world: World) -> None:
    with pytest.raises(Refused):
        await world.cluster.list(PODS, labels="a=!b")


async def test_an_object_is_read_by_its_name(world: World) -> None:
    name = world.namespace()
    found = await world.cluster.get(NAMESPACES, name)
    assert found is not None
    assert (found["kind"], found["apiVersion"], name_of(found)) == ("Namespace", "v1", name)


async def test_an_object_that_is_not_there_is_none(world: World) -> None:
    assert await world.cluster.get(NAMESPACES, world.name("nowhere")) is None
    assert await world.cluster.get(PODS, world.name("nobody"), namespace=world.name("nowhere")) is None


async def test_an_object_of_another_namespace_is_none(world: World) -> None:
    pod = world.pod(world.namespace("there"), "worker")
    assert await world.cluster.get(PODS, name_of(pod), namespace=world.namespace("here")) is None


async def test_a_name_that_leads_elsewhere_is_refused(world: World) -> None:
    for name in ("", ".", "..", "../nodes", "a/b", "%2e%2e", "a\nb", "a\x1b[31mb", "a\x00b"):
        with pytest.raises(Refused):
            await world.cluster.get(NAMESPACES, name)


async def test_a_pod_without_its_namespace_is_refused(world: World) -> None:
    with pytest.raises(Refused):
        await world.cluster.get(PODS, world.name("worker"))


async def test_everyone_is_told_who_he_is_and_what_time_it_is_there(world: World) -> None:
    review = {"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind, "metadata": {}}
    for cluster in (world.cluster, world.forbidden):
        told = await cluster.create(SELF_REVIEWS, review)
        assert told["kind"] == SELF_REVIEWS.kind
        assert told["status"]["userInfo"]["username"]
        assert told["metadata"]["creationTimestamp"].endswith("Z")
