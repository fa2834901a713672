"""The port Cluster, writing: create, patch and delete."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gpuward.model.resource import GPU_CASES, NAMESPACES, NODES, PODS
from gpuward.ports import Conflict, Object, Refused
from tests.cluster.world import World

SOON = 20.0
TAINT = {"key": "gpu.infra.status/hardware-fault", "value": "xid-79", "effect": "NoSchedule"}


async def make(world: World, word: str = "case", **body: Any) -> Object:
    world.define(GPU_CASES)
    metadata = {"name": world.name(word), **body.pop("metadata", {})}
    whole = {"metadata": metadata, "spec": {"gpu": 3}, **body}
    return await world.cluster.create(GPU_CASES, whole, deadline_seconds=SOON)


async def now(world: World, word: str = "case") -> Object:
    found = await world.cluster.get(GPU_CASES, world.name(word))
    assert found is not None
    return found


async def tainted_node(world: World) -> str:
    name = world.name("tainted")
    await world.cluster.create(NODES, {"metadata": {"name": name}, "spec": {"taints": [TAINT]}})
    return name


def uid_of(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["uid"])


async def test_what_is_created_is_returned_and_there(world: World) -> None:
    made = await make(world)
    assert (made["kind"], made["apiVersion"], made["spec"]) == ("GPUCase", "gpuward.io/v1alpha1", {"gpu": 3})
    assert made["metadata"] == (await now(world))["metadata"]
    assert uid_of(made)


async def test_what_is_created_twice_is_a_conflict_and_the_first_stays(world: World) -> None:
    made = await make(world)
    with pytest.raises(Conflict, match="exists"):
        await make(world, spec={"gpu": 4})
    assert await now(world) == made


async def test_of_many_that_create_one_name_at_once_one_does(world: World) -> None:
    world.define(GPU_CASES)
    came = await asyncio.gather(*(make(world, spec={"gpu": gpu}) for gpu in range(8)), return_exceptions=True)
    (made,) = (one for one in came if not isinstance(one, BaseException))
    assert sum(isinstance(one, Conflict) for one in came) == 7
    assert await now(world) == made


async def test_what_is_created_in_a_namespace_that_is_not_there_is_a_conflict(world: World) -> None:
    body = {"metadata": {"name": world.name("pod")}, "spec": {"containers": [{"name": "main", "image": "it:1"}]}}
    with pytest.raises(Conflict, match="not found"):
        await world.cluster.create(PODS, body, namespace=world.name("nowhere"))


def is_said_to_be_invalid(error: Refused) -> bool:
    """Return whether a server that is asked over the wire names the right code; without a wire there is none."""
    return "the API server answers 422 Invalid: " in str(error) or "answers" not in str(error)


async def test_what_is_not_valid_is_refused_in_the_servers_words_and_not_created(world: World) -> None:
    with pytest.raises(Refused, match=r"spec\.gpu") as caught:
        await make(world, spec={"gpu": 16})
    assert is_said_to_be_invalid(caught.value)
    assert await world.cluster.get(GPU_CASES, world.name("case")) is None


async def test_a_status_is_dropped_when_an_object_is_created(world: World) -> None:
    made = await make(world, status={"state": "closed"})
    assert "status" not in made
    assert "status" not in await now(world)


async def test_a_patch_of_the_object_leaves_its_status_and_one_of_the_status_all_else(world: World) -> None:
    await make(world)
    both: list[dict[str, Any]] = [
        {"op": "add", "path": "/spec/gpu", "value": 5},
        {"op": "add", "path": "/status", "value": {"state": "fenced"}},
    ]
    status = await world.cluster.patch(GPU_CASES, world.name("case"), both, subresource="status")
    assert (status["spec"], status["status"]) == ({"gpu": 3}, {"state": "fenced"})
    both[1]["value"] = {"state": "closed"}
    main = await world.cluster.patch(GPU_CASES, world.name("case"), both)
    assert (main["spec"], main["status"]) == ({"gpu": 5}, {"state": "fenced"})
    assert await now(world) == main


async def test_a_patch_does_all_its_operations_in_their_order(world: World) -> None:
    await make(world)
    done = await world.cluster.patch(
        GPU_CASES,
        world.name("case"),
        [
            {"op": "test", "path": "/spec/gpu", "value": 3},
            {"op": "add", "path": "/spec/orders", "value": []},
            {"op": "add", "path": "/spec/orders/-", "value": "drain"},
            {"op": "add", "path": "/spec/orders/0", "value": "look"},
            {"op": "add", "path": "/metadata/annotations", "value": {"gpuward.io/owner": "a/b"}},
            {"op": "replace", "path": "/metadata/annotations/gpuward.io~1owner", "value": "us"},
        ],
    )
    assert done["spec"] == {"gpu": 3, "orders": ["look", "drain"]}
    assert done["metadata"]["annotations"] == {"gpuward.io/owner": "us"}


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param({"op": "test", "path": "/spec/gpu", "value": 4}, id="another value"),
        pytest.param({"op": "test", "path": "/spec/absent", "value": 4}, id="no value"),
        pytest.param({"op": "test", "path": "/metadata/resourceVersion", "value": "1"}, id="another version"),
        pytest.param({"op": "add", "path": "/spec/absent/-", "value": "one"}, id="no list to add to"),
        pytest.param({"op": "remove", "path": "/spec/absent"}, id="nothing to remove"),
        pytest.param({"op": "replace", "path": "/spec/absent/0", "value": 1}, id="nothing to replace"),
    ],
)
async def test_a_patch_that_rests_on_what_is_not_so_is_a_conflict_and_does_nothing(
    world: World, failing: Mapping[str, Any]
) -> None:
    made = await make(world)
    operations = [{"op": "add", "path": "/spec/gpu", "value": 7}, failing]
    with pytest.raises(Conflict):
        await world.cluster.patch(GPU_CASES, world.name("case"), operations)
    assert await now(world) == made


async def test_a_patch_with_an_old_version_in_it_is_a_conflict(world: World) -> None:
    made = await make(world)
    gpu = {"op": "replace", "path": "/spec/gpu", "value": 8}
    changed = await world.cluster.patch(GPU_CASES, world.name("case"), [gpu])
    old = {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    with pytest.raises(Conflict):
        await world.cluster.patch(GPU_CASES, world.name("case"), [{**gpu, "value": 9}, old])
    assert await now(world) == changed


async def test_of_many_patches_that_test_one_version_at_once_one_is_done(world: World) -> None:
    made = await make(world)
    guard = {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    came = await asyncio.gather(
        *(
            world.cluster.patch(
                GPU_CASES, world.name("case"), [guard, {"op": "add", "path": "/spec/gpu", "value": gpu}]
            )
            for gpu in range(4, 12)
        ),
        return_exceptions=True,
    )
    (done,) = (one for one in came if not isinstance(one, BaseException))
    assert sum(isinstance(one, Conflict) for one in came) == 7
    assert await now(world) == done


async def test_a_patch_of_what_is_not_there_is_a_conflict(world: World) -> None:
    world.define(GPU_CASES)
    with pytest.raises(Conflict, match="not found"):
        await world.cluster.patch(GPU_CASES, world.name("nobody"), [{"op": "add", "path": "/spec", "value": {}}])


async def test_a_patch_to_what_is_not_valid_is_refused_and_does_nothing(world: World) -> None:
    made = await make(world)
    with pytest.raises(Refused, match=r"spec\.gpu") as caught:
        await world.cluster.patch(GPU_CASES, world.name("case"), [{"op": "add", "path": "/spec/gpu", "value": 16}])
    assert is_said_to_be_invalid(caught.value)
    with pytest.raises(Refused, match=r"spec\.gpu"):
        await world.cluster.patch(GPU_CASES, world.name("case"), [{"op": "add", "path": "/spec/gpu", "value": "3"}])
    assert await now(world) == made


async def test_an_operation_that_is_none_is_refused_and_does_nothing(world: World) -> None:
    made = await make(world)
    for wrong in ({"op": "set", "path": "/spec/gpu", "value": 1}, {"op": "add", "path": "spec/gpu", "value": 1}):
        with pytest.raises(Refused):
            await world.cluster.patch(GPU_CASES, world.name("case"), [wrong])
    assert await now(world) == made


async def test_a_taint_of_a_key_and_effect_that_is_there_is_a_conflict_and_another_effect_is_not(world: World) -> None:
    name = await tainted_node(world)
    worse = {"op": "add", "path": "/spec/taints/-", "value": {**TAINT, "value": "xid-48"}}
    with pytest.raises(Conflict, match="unique by key and effect"):
        await world.cluster.patch(NODES, name, [worse])
    other = {"op": "add", "path": "/spec/taints/-", "value": {**TAINT, "effect": "NoExecute"}}
    node = await world.cluster.patch(NODES, name, [other])
    ours = [taint for taint in node["spec"]["taints"] if taint["key"] == TAINT["key"]]
    assert ours == [TAINT, {**TAINT, "effect": "NoExecute"}]


async def test_a_taint_with_an_effect_that_is_none_is_refused(world: World) -> None:
    name = await tainted_node(world)
    wrong = {"op": "add", "path": "/spec/taints/-", "value": {"key": "a", "value": "1", "effect": "Never"}}
    with pytest.raises(Refused, match="Never") as caught:
        await world.cluster.patch(NODES, name, [wrong])
    assert is_said_to_be_invalid(caught.value)


async def test_what_is_deleted_is_gone_and_cannot_be_deleted_again(world: World) -> None:
    await make(world)
    assert await world.cluster.delete(GPU_CASES, world.name("case")) is True
    assert await world.cluster.get(GPU_CASES, world.name("case")) is None
    assert await world.cluster.delete(GPU_CASES, world.name("case")) is False


async def test_another_object_of_the_name_is_not_deleted(world: World) -> None:
    first = await make(world)
    await world.cluster.delete(GPU_CASES, world.name("case"), uid=uid_of(first))
    second = await make(world)
    assert await world.cluster.delete(GPU_CASES, world.name("case"), uid=uid_of(first)) is False
    assert await now(world) == second
    assert await world.cluster.delete(GPU_CASES, world.name("case"), uid=uid_of(second)) is True


async def test_an_object_with_a_finalizer_goes_when_that_is_taken_off(world: World) -> None:
    await make(world, metadata={"finalizers": ["gpuward.io/marks"]})
    assert await world.cluster.delete(GPU_CASES, world.name("case")) is True
    assert (await now(world))["metadata"]["deletionTimestamp"]
    await world.cluster.patch(GPU_CASES, world.name("case"), [{"op": "remove", "path": "/metadata/finalizers"}])
    assert await world.cluster.get(GPU_CASES, world.name("case")) is None


async def test_a_pod_is_deleted_with_the_grace_that_is_given(world: World) -> None:
    namespace = world.namespace()
    pod = world.pod(namespace, "worker")
    name = pod["metadata"]["name"]
    assert await world.cluster.delete(PODS, name, namespace=namespace, uid=uid_of(pod), grace_seconds=17) is True
    ending = await world.cluster.get(PODS, name, namespace=namespace)
    assert ending is not None
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 17


async def test_a_pod_without_grace_is_gone_at_once(world: World) -> None:
    namespace = world.namespace()
    name = world.pod(namespace, "worker")["metadata"]["name"]
    assert await world.cluster.delete(PODS, name, namespace=namespace, grace_seconds=0) is True
    assert await world.cluster.get(PODS, name, namespace=namespace) is None


async def test_a_namespace_can_be_created_by_what_it_is_called_alone(world: World) -> None:
    made = await world.cluster.create(NAMESPACES, {"metadata": {"name": world.name("made")}})
    assert made["kind"] == "Namespace"
