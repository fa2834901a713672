"""A mirror shows what the cluster holds, through broken watches, forgotten versions and an absent server."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gpuward.controller.mirror import Mirror
from gpuward.controller.pace import Pace
from gpuward.model.objects.values import ObjectError
from gpuward.model.resource import NODES, PODS, Resource
from gpuward.ports import Object
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.network import Presence
from gpuward.sim.cluster.weather import Odds, SeededWeather
from tests.kit.pretend_time import PretendTime


def colour(found: Object) -> str:
    label = (found["metadata"].get("labels") or {}).get("colour", "none")
    if label == "odd":
        raise ObjectError("the colour is odd")
    return str(label)


def paint(cluster: PretendCluster, name: str, value: str) -> None:
    """Give a node a colour; make it if it is not there."""
    if cluster.server.get(NODES, name) is None:
        cluster.server.create(NODES, {"metadata": {"name": name, "labels": {"colour": value}}})
    else:
        cluster.server.patch(NODES, name, [{"op": "add", "path": "/metadata/labels/colour", "value": value}])


@asynccontextmanager
async def mirrored(
    time: PretendTime, cluster: PretendCluster, resource: Resource = NODES
) -> AsyncIterator[Mirror[str]]:
    dice = random.Random(1)  # noqa: S311  the same seed must give the same pauses
    mirror = Mirror(cluster, resource, colour, pace=Pace(time, time.doze, dice.random))
    task = asyncio.ensure_future(mirror.run())
    try:
        yield mirror
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def a_cluster(**changes: Any) -> tuple[PretendTime, PretendCluster]:
    time = PretendTime()
    return time, pretend_cluster(time, time.doze, **changes)


async def test_it_holds_what_is_there_and_what_comes_and_goes() -> None:
    time, cluster = a_cluster()
    paint(cluster, "n1", "red")
    async with mirrored(time, cluster) as mirror:
        assert not mirror.is_complete
        assert mirror.age_seconds() is None
        await time.pass_by(1)
        assert mirror.objects == {"n1": "red"}
        assert mirror.take_changed() == {"n1"}
        paint(cluster, "n1", "blue")
        paint(cluster, "n2", "green")
        await time.pass_by(1)
        assert mirror.objects == {"n1": "blue", "n2": "green"}
        cluster.server.delete(NODES, "n1")
        await time.pass_by(1)
        assert mirror.objects == {"n2": "green"}
        assert mirror.take_changed() == {"n1", "n2"}
        assert mirror.take_changed() == frozenset()


async def test_it_goes_on_for_days_over_the_ends_of_its_watches_without_listing_again() -> None:
    time, cluster = a_cluster()
    lists = 0
    real = cluster.server.list

    def counted(*args: Any, **asked: Any) -> Any:
        nonlocal lists
        lists += 1
        return real(*args, **asked)

    cluster.server.list = counted  # type: ignore[method-assign]  # only counted
    async with mirrored(time, cluster) as mirror:
        for number in range(50):
            paint(cluster, "n1", f"c{number}")
            await time.pass_by(400)
            assert mirror.objects == {"n1": f"c{number}"}
    assert lists == 1


async def test_while_the_server_is_away_the_picture_stays_and_grows_old() -> None:
    time, cluster = a_cluster()
    paint(cluster, "n1", "red")
    async with mirrored(time, cluster) as mirror:
        await time.pass_by(1)
        cluster.network.turn(Presence.AWAY)
        await time.pass_by(500)
        assert mirror.objects == {"n1": "red"}
        assert (mirror.age_seconds() or 0) >= 500
        assert "watch" in mirror.trouble
        paint(cluster, "n1", "blue")
        cluster.network.turn(Presence.THERE)
        await time.pass_by(40)
        assert mirror.objects == {"n1": "blue"}
        assert mirror.trouble == ""


async def test_a_version_that_is_forgotten_is_listed_anew_and_what_was_deleted_meanwhile_goes() -> None:
    time, cluster = a_cluster()
    paint(cluster, "n1", "red")
    paint(cluster, "n2", "red")
    async with mirrored(time, cluster) as mirror:
        await time.pass_by(1)
        cluster.network.turn(Presence.AWAY)
        await time.pass_by(1)
        cluster.server.delete(NODES, "n1")
        paint(cluster, "n3", "green")
        cluster.server.state.compact()
        cluster.network.turn(Presence.THERE)
        await time.pass_by(40)
        assert mirror.objects == {"n2": "red", "n3": "green"}


async def test_an_object_that_cannot_be_read_is_named_and_hides_no_other() -> None:
    time, cluster = a_cluster()
    paint(cluster, "n1", "odd")
    paint(cluster, "n2", "red")
    async with mirrored(time, cluster) as mirror:
        await time.pass_by(1)
        assert mirror.objects == {"n2": "red"}
        assert mirror.unreadable == {"n1": "the colour is odd"}
        paint(cluster, "n1", "green")
        await time.pass_by(1)
        assert mirror.unreadable == {}


async def test_what_an_own_write_returned_is_not_undone_by_what_is_told_late() -> None:
    time, cluster = a_cluster()
    paint(cluster, "n1", "red")
    before = cluster.server.get(NODES, "n1")
    assert before is not None
    async with mirrored(time, cluster) as mirror:
        await time.pass_by(1)
        paint(cluster, "n1", "blue")
        after = cluster.server.get(NODES, "n1")
        assert after is not None
        mirror.learn(after)
        assert mirror.objects == {"n1": "blue"}
        mirror.learn(before)
        assert mirror.objects == {"n1": "blue"}


async def test_an_answer_that_comes_after_the_end_of_its_object_was_told_brings_it_not_back() -> None:
    time, cluster = a_cluster()
    paint(cluster, "n1", "red")
    async with mirrored(time, cluster) as mirror:
        await time.pass_by(1)
        paint(cluster, "n1", "blue")
        answer = cluster.server.get(NODES, "n1")
        assert answer is not None
        cluster.server.delete(NODES, "n1")
        await time.pass_by(1)
        mirror.learn(answer)
        assert mirror.objects == {}


async def test_names_of_two_namespaces_are_two_objects() -> None:
    time, cluster = a_cluster()
    for space in ("default", "kube-public"):
        body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
        cluster.server.create(PODS, body, namespace=space)
    async with mirrored(time, cluster, PODS) as mirror:
        await time.pass_by(1)
        assert set(mirror.objects) == {"default/p", "kube-public/p"}


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_the_weather_it_shows_the_truth_when_it_is_calm(seed: int) -> None:
    odds = Odds(lost=0.2, conflict=0.1, slow=0.3, behind=0.3, breaks=0.5, silent=0.2, longest_watch_seconds=20.0)
    weather = SeededWeather(seed, odds)
    time, cluster = a_cluster(weather=weather)
    dice = random.Random(seed)  # noqa: S311  the same seed must give the same world
    async with mirrored(time, cluster) as mirror:
        for step in range(200):
            name = f"n{dice.randrange(5)}"
            if dice.random() < 0.2 and cluster.server.get(NODES, name) is not None:
                cluster.server.delete(NODES, name)
            else:
                paint(cluster, name, f"c{step}")
            await time.pass_by(dice.random() * 20)
        weather.odds = Odds()
        await time.pass_by(800)
        truth = {one["metadata"]["name"]: colour(one) for one in cluster.server.list(NODES).items}
        assert mirror.objects == truth
