"""The port Cluster, evicting: asked, held by a budget, tangled in two, gone."""

from typing import Any

from gpuward.model.resource import PODS
from gpuward.ports import Evicted, Eviction
from tests.cluster.world import World

LABELS = {"app": "train"}


class Job:
    """Pods with the same labels, in a namespace of their own."""

    def __init__(self, world: World, *words: str) -> None:
        self.world = world
        self.namespace = world.namespace()
        self.pods = [world.pod(self.namespace, word, labels=LABELS) for word in words]

    async def evict(self, index: int = 0, **changes: Any) -> Eviction:
        """Evict one of the pods."""
        metadata = self.pods[index]["metadata"]
        asked = {"namespace": self.namespace, "uid": metadata["uid"], **changes}
        return await self.world.cluster.evict(metadata["name"], **asked)

    async def grace(self, index: int = 0) -> int | None:
        """Return the grace in which a pod is ending, None while it runs."""
        name = self.pods[index]["metadata"]["name"]
        pod = await self.world.cluster.get(PODS, name, namespace=self.namespace)
        assert pod is not None
        grace: int | None = pod["metadata"].get("deletionGracePeriodSeconds")
        return grace


async def test_an_evicted_pod_ends_in_the_grace_that_is_given(world: World) -> None:
    job = Job(world, "worker")
    assert (await job.evict(grace_seconds=60)).outcome is Evicted.ASKED
    assert await job.grace() == 60


async def test_an_evicted_pod_ends_in_its_own_grace_when_none_is_given(world: World) -> None:
    job = Job(world, "worker")
    assert (await job.evict()).outcome is Evicted.ASKED
    assert await job.grace() == 30


async def test_an_eviction_may_be_asked_for_again(world: World) -> None:
    job = Job(world, "worker")
    assert [(await job.evict(grace_seconds=60)).outcome for _ in range(2)] == [Evicted.ASKED, Evicted.ASKED]
    assert await job.grace() == 60


async def test_a_budget_that_allows_none_holds_the_pod_and_is_named(world: World) -> None:
    job = Job(world, "worker")
    budget = world.budget(job.namespace, "budget", labels=LABELS, allowed=0)
    held = await job.evict()
    assert held.outcome is Evicted.HELD
    assert budget in held.why
    assert await job.grace() is None


async def test_a_budget_that_allows_one_lets_one_go_and_holds_the_next(world: World) -> None:
    job = Job(world, "worker-0", "worker-1")
    world.budget(job.namespace, "budget", labels=LABELS, allowed=1)
    assert [(await job.evict(index)).outcome for index in range(2)] == [Evicted.ASKED, Evicted.HELD]
    assert (await job.grace(0), await job.grace(1)) == (30, None)


async def test_a_budget_of_other_pods_holds_nothing(world: World) -> None:
    job = Job(world, "worker")
    world.budget(job.namespace, "budget", labels={"app": "serve"}, allowed=0)
    assert (await job.evict()).outcome is Evicted.ASKED


async def test_two_budgets_over_one_pod_tangle_it_although_both_would_allow_it(world: World) -> None:
    job = Job(world, "worker")
    for word in ("one", "two"):
        world.budget(job.namespace, word, labels=LABELS, allowed=5)
    tangled = await job.evict()
    assert tangled.outcome is Evicted.TANGLED
    assert "more than one" in tangled.why
    assert await job.grace() is None


async def test_a_pod_that_is_not_there_is_gone(world: World) -> None:
    job = Job(world, "worker")
    evict = world.cluster.evict
    assert (await evict(world.name("nobody"), namespace=job.namespace, uid="x")).outcome is Evicted.GONE
    assert (await evict(world.name("nobody"), namespace=world.name("nowhere"), uid="x")).outcome is Evicted.GONE


async def test_a_pod_that_another_one_of_its_name_replaced_is_gone_and_the_other_runs_on(world: World) -> None:
    job = Job(world, "worker")
    assert (await job.evict(uid="0cb95796-a4e4-4c26-b171-efabc4ace59d")).outcome is Evicted.GONE
    assert await job.grace() is None
