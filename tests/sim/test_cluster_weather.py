"""The pretend cluster as one asks it through weather, outages and rights; time passes only as the test lets it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gpuward.model.resource import GPU_CASES, NODES, PODS
from gpuward.ports import Cluster, Conflict, Happened, Refused, Unreachable, Watched
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.network import Presence
from gpuward.sim.cluster.users import Asked, Rule, rules_of
from gpuward.sim.cluster.weather import FAIR, Odds, SeededWeather, Spell, Trouble
from tests.kit.pretend_time import PretendTime


class Fixed:
    """Implements Weather: one spell for the calls of a verb, fair for all others."""

    def __init__(self, verb: str, **spell: Any) -> None:
        self.verb = verb
        self.bad = Spell(**spell)

    def spell(self, user: str, asked: Asked) -> Spell:  # noqa: ARG002  it is the same for all
        """Return the spell."""
        return self.bad if asked.verb == self.verb else FAIR


def opened(weather: Any = None, **options: Any) -> tuple[PretendTime, PretendCluster]:
    time = PretendTime()
    return time, pretend_cluster(time, time.doze, weather=weather, **options)


def node(name: str = "n1") -> dict[str, Any]:
    return {"metadata": {"name": name}}


async def all_of(watch: AsyncIterator[Watched]) -> list[tuple[str, Any]]:
    return [(one.happened, one.item) async for one in watch]


def name_of(found: Any) -> str:
    return str(found["metadata"]["name"])


def test_the_pretend_cluster_is_a_cluster() -> None:
    cluster: Cluster = opened()[1]
    assert cluster is not None


@pytest.mark.parametrize(("trouble", "done"), [(Trouble.LOST, False), (Trouble.UNANSWERED, True)])
async def test_a_call_that_fails_was_done_or_not_and_says_neither(trouble: Trouble, *, done: bool) -> None:
    _, cluster = opened(Fixed("create", trouble=trouble))
    with pytest.raises(Unreachable):
        await cluster.create(NODES, node())
    assert (await cluster.get(NODES, "n1") is not None) is done


async def test_a_call_that_is_late_is_done_when_nobody_waits_for_it_any_more() -> None:
    time, cluster = opened(Fixed("create", trouble=Trouble.LATE, late_seconds=7))
    with pytest.raises(Unreachable):
        await cluster.create(NODES, node())
    await time.pass_by(6)
    assert await cluster.get(NODES, "n1") is None
    await time.pass_by(2)
    assert await cluster.get(NODES, "n1") is not None


async def test_what_is_late_and_no_longer_right_does_nothing() -> None:
    time, cluster = opened(Fixed("create", trouble=Trouble.LATE, late_seconds=7))
    with pytest.raises(Unreachable):
        await cluster.create(NODES, node())
    cluster.server.create(NODES, node())
    await time.pass_by(8)
    assert len((await cluster.list(NODES)).items) == 1


async def test_a_conflict_of_the_weather_does_nothing_and_reading_knows_none() -> None:
    _, cluster = opened(Fixed("create", trouble=Trouble.CONFLICT))
    with pytest.raises(Conflict):
        await cluster.create(NODES, node())
    _, cluster = opened(Fixed("get", trouble=Trouble.CONFLICT))
    assert await cluster.get(NODES, "n1") is None


@pytest.mark.parametrize(("delay", "good"), [(4.0, True), (6.0, False)])
async def test_a_slow_call_ends_by_its_deadline(delay: float, *, good: bool) -> None:
    time, cluster = opened(Fixed("create", delay_seconds=delay))
    try:
        await time.run(cluster.create(NODES, node(), deadline_seconds=5))
        done = True
    except Unreachable:
        done = False
    assert (done, time.passed) == (good, min(delay, 5))


async def test_a_list_may_be_old_and_a_watch_from_there_catches_up() -> None:
    time, cluster = opened(Fixed("list", behind_seconds=10))
    cluster.server.create(NODES, node("old"))
    time.sleep(20)
    cluster.server.create(NODES, node("new"))
    cluster.server.delete(NODES, "old")
    listed = await cluster.list(NODES, project=name_of)
    assert listed.items == ("old",)
    told = await time.run(all_of(cluster.watch(NODES, since=listed.version, project=name_of, timeout_seconds=5)))
    assert told == [(Happened.ADDED, "new"), (Happened.DELETED, "old")]
    time.sleep(11)
    assert (await cluster.list(NODES, project=name_of)).items == ("new",)


async def test_a_list_is_never_older_than_what_is_remembered() -> None:
    time, cluster = opened(Fixed("list", behind_seconds=1000))
    cluster.server.create(NODES, node("a"))
    time.sleep(5)
    cluster.server.compact()
    cluster.server.create(NODES, node("b"))
    listed = await cluster.list(NODES, project=name_of)
    assert listed.items == ("a",)
    watch = cluster.watch(NODES, since=listed.version, project=name_of, timeout_seconds=5)
    assert await time.run(all_of(watch)) == [(Happened.ADDED, "b")]


async def test_a_watch_may_lag() -> None:
    time, cluster = opened(Fixed("watch", behind_seconds=10))
    watch = cluster.watch(NODES, since="1", timeout_seconds=100)
    cluster.server.create(NODES, node())
    first = asyncio.ensure_future(anext(watch))
    await time.pass_by(9)
    assert not first.done()
    await time.pass_by(2)
    assert first.done()
    await watch.aclose()  # type: ignore[attr-defined]  # a generator


async def test_an_idle_watch_has_a_bookmark_each_minute_and_ends_at_its_timeout() -> None:
    time, cluster = opened()
    told = await time.run(all_of(cluster.watch(NODES, since="1", timeout_seconds=200)))
    assert told == [(Happened.BOOKMARK, None)] * 3
    assert time.passed == 200


async def test_a_watch_breaks_after_it_was_silent() -> None:
    time, cluster = opened(Fixed("watch", breaks_after_seconds=50, silent_seconds=30))
    cluster.server.create(NODES, node("a"))

    async def follow() -> Any:
        watch = cluster.watch(NODES, since="1", project=name_of)
        first = await anext(watch)
        with pytest.raises(Unreachable, match="broke"):
            await anext(watch)
        return first.item

    following = asyncio.ensure_future(follow())
    await time.pass_by(30)
    cluster.server.create(NODES, node("b"))
    assert await time.run(asyncio.wait_for(following, None)) == "a"
    assert time.passed == 50


async def test_a_watch_on_a_server_that_is_frozen_is_given_up_and_one_that_goes_on_in_time_is_not() -> None:
    time, cluster = opened()
    following = asyncio.ensure_future(all_of(cluster.watch(NODES, since="1", project=name_of, timeout_seconds=130)))
    await time.pass_by(10)
    cluster.network.turn(Presence.FROZEN)
    cluster.server.create(NODES, node("while-frozen"))
    await time.pass_by(40)
    cluster.network.turn(Presence.THERE)
    assert (Happened.ADDED, "while-frozen") in await time.run(asyncio.wait_for(following, None))
    following = asyncio.ensure_future(all_of(cluster.watch(NODES, since="1", timeout_seconds=1000)))
    await time.pass_by(1)
    cluster.network.turn(Presence.FROZEN)
    with pytest.raises(Unreachable, match="nothing came for 90 s"):
        await time.run(asyncio.wait_for(following, None))


async def test_a_frozen_server_answers_when_it_goes_on_and_one_that_is_away_at_once() -> None:
    time, cluster = opened()
    cluster.network.turn(Presence.FROZEN)
    waiting = asyncio.ensure_future(cluster.create(NODES, node(), deadline_seconds=10))
    await time.pass_by(9)
    cluster.network.turn(Presence.THERE)
    assert name_of(await time.run(asyncio.wait_for(waiting, None))) == "n1"
    cluster.network.turn(Presence.FROZEN)
    with pytest.raises(Unreachable):
        await time.run(cluster.get(NODES, "n1"))
    assert time.passed == 19
    cluster.network.turn(Presence.AWAY)
    with pytest.raises(Unreachable):
        await cluster.get(NODES, "n1")
    assert time.passed == 19


async def test_a_watch_breaks_when_the_server_goes_away() -> None:
    time, cluster = opened()
    following = asyncio.ensure_future(all_of(cluster.watch(NODES, since="1")))
    await time.pass_by(1)
    cluster.network.turn(Presence.AWAY)
    with pytest.raises(Unreachable):
        await time.run(asyncio.wait_for(following, None))
    assert time.passed == 1


async def test_a_watch_of_all_begins_with_what_is_there_and_one_of_no_version_is_an_error() -> None:
    time, cluster = opened()
    cluster.server.create(NODES, node())
    for since in ("0", ""):
        assert await time.run(all_of(cluster.watch(NODES, since=since, project=name_of, timeout_seconds=1))) == [
            (Happened.ADDED, "n1")
        ]
    with pytest.raises(Unreachable):
        await time.run(all_of(cluster.watch(NODES, since="abc")))


async def test_a_watch_that_nobody_reads_any_more_is_told_nothing() -> None:
    _, cluster = opened()
    cluster.server.create(NODES, node())
    for fields in ("", "metadata.name=n1"):
        watch = cluster.watch(NODES, since="1", fields=fields)
        await anext(watch)
        await watch.aclose()  # type: ignore[attr-defined]  # a generator
    shelf = cluster.server.state.shelf(NODES)
    assert (shelf._others, shelf._by_name) == ({}, {})  # noqa: SLF001  nothing else shows a leak


async def test_the_same_seed_gives_the_same_weather_and_odds_are_kept() -> None:
    def sky(seed: int) -> list[Spell]:
        weather = SeededWeather(
            seed, Odds(lost=0.1, unanswered=0.1, late=0.1, conflict=0.1, broken=0.1, slow=0.3, breaks=0.5)
        )
        return [weather.spell("u", Asked("get", NODES)) for _ in range(2000)]

    assert sky(1) == sky(1)
    assert sky(1) != sky(2)
    spells = sky(3)
    for trouble in Trouble:
        assert 130 < sum(one.trouble is trouble for one in spells) < 270
    assert 500 < sum(one.delay_seconds > 0 for one in spells) < 700
    assert SeededWeather(1, Odds()).spell("u", Asked("get", NODES)).trouble is None


ROLE = {
    "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {
            "apiGroups": ["gpuward.io"],
            "resources": ["gpucases"],
            "verbs": ["get", "list", "patch"],
            "resourceNames": ["mine"],
        },
        {"apiGroups": ["gpuward.io"], "resources": ["*/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
}
ALLOWED: list[Callable[[Cluster], Awaitable[Any]]] = [
    lambda cluster: cluster.get(NODES, "n1"),
    lambda cluster: cluster.list(NODES),
    lambda cluster: cluster.get(GPU_CASES, "mine"),
    lambda cluster: cluster.list(GPU_CASES, fields="metadata.name=mine"),
    lambda cluster: cluster.patch(GPU_CASES, "mine", []),
    lambda cluster: cluster.patch(GPU_CASES, "theirs", [], subresource="status"),
    lambda cluster: cluster.evict("p", namespace="default", uid="x"),
]
FORBIDDEN: list[Callable[[Cluster], Awaitable[Any]]] = [
    lambda cluster: cluster.create(NODES, node("n2")),
    lambda cluster: cluster.patch(NODES, "n1", []),
    lambda cluster: cluster.patch(NODES, "n1", [], subresource="status"),
    lambda cluster: cluster.delete(NODES, "n1"),
    lambda cluster: cluster.get(GPU_CASES, "theirs"),
    lambda cluster: cluster.list(GPU_CASES),
    lambda cluster: cluster.list(GPU_CASES, fields="metadata.name!=mine"),
    lambda cluster: cluster.create(GPU_CASES, node("mine")),
    lambda cluster: cluster.list(PODS),
    lambda cluster: cluster.get(PODS, "p", namespace="default"),
    lambda cluster: all_of(cluster.watch(GPU_CASES, since="1")),
]


@pytest.mark.parametrize("ask", ALLOWED)
async def test_a_user_may_do_what_the_rules_allow(ask: Callable[[Cluster], Awaitable[Any]]) -> None:
    _, cluster = opened()
    for resource, name in ((NODES, "n1"), (GPU_CASES, "mine"), (GPU_CASES, "theirs")):
        await cluster.create(resource, node(name))
    await ask(cluster.as_user("agent", rules_of(ROLE)))


@pytest.mark.parametrize("ask", FORBIDDEN)
async def test_a_user_may_do_nothing_else(ask: Callable[[Cluster], Awaitable[Any]]) -> None:
    _, cluster = opened()
    for resource, name in ((NODES, "n1"), (GPU_CASES, "mine"), (GPU_CASES, "theirs")):
        await cluster.create(resource, node(name))
    version = cluster.server.state.version
    with pytest.raises(Refused, match="agent"):
        await ask(cluster.as_user("agent", rules_of(ROLE)))
    assert cluster.server.state.version == version


def test_a_rule_of_one_namespace_is_not_one_of_all() -> None:
    (rule,) = rules_of({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}, namespace="a")
    assert isinstance(rule, Rule)
    assert [rule.allows(Asked("list", PODS, space)) for space in ("a", "b", None)] == [True, False, False]
