"""Whoever follows a watch from a list ends with what a new list shows, whatever happens in between."""

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gpuward.model.resource import GPU_CASES, PODS
from gpuward.ports import Conflict, Happened, Unreachable
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.server import Server
from gpuward.sim.cluster.shelf import Watcher  # noqa: TC001  as everywhere here
from gpuward.sim.cluster.weather import Odds, SeededWeather
from tests.kit.pretend_time import PretendTime

NAMES = st.sampled_from(["a", "b", "c"])
SPACES = ("default", "kube-system")
CHOICES: list[dict[str, Any]] = [
    {},
    {"labels": "level=P0"},
    {"labels": "level!=P0"},
    {"fields": "metadata.name=a"},
    {"fields": "spec.nodeName=n1"},
    {"fields": "status.phase!=Running"},
    {"namespace": "default"},
    {"namespace": "default", "fields": "metadata.name=b"},
    {"fields": "spec.nodeName=", "labels": "level"},
]


class Follower:
    """Holds what it believes is there, by a list once and by watches since."""

    def __init__(self, server: Server, chosen: dict[str, Any]) -> None:
        self.server = server
        self.chosen = chosen
        self.watcher: Watcher | None = None
        self.relisted = 0
        self.begin()

    def begin(self) -> None:
        """List and watch."""
        listed = self.server.list(PODS, **self.chosen)
        self.known = {key(one): dict(one) for one in listed.items}
        self.version = listed.version
        self.follow()

    def follow(self) -> None:
        """Go on from the last version; list again where that is too old."""
        self.leave()
        try:
            self.watcher = self.server.watch(PODS, since=self.version, ring=lambda: None, **self.chosen)
        except Conflict:
            self.relisted += 1
            self.begin()

    def leave(self) -> None:
        """Watch no more."""
        if self.watcher is not None:
            self.server.leave(PODS, self.watcher)
            self.watcher = None

    def hear(self) -> None:
        """Take all that is told."""
        assert self.watcher is not None
        while self.watcher.waiting:
            told = self.watcher.waiting.popleft()
            assert int(told.version) > int(self.version), "versions only grow"
            self.version = told.version
            if told.happened is Happened.DELETED:
                del self.known[key(told.obj)]
            else:
                assert (key(told.obj) in self.known) is (told.happened is Happened.MODIFIED)
                self.known[key(told.obj)] = dict(told.obj)


def key(found: Any) -> tuple[str, str]:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


class Life(RuleBasedStateMachine):
    """Pods come, change and go, while some follow them, sleep, and the past is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.time = PretendTime()
        self.server = Server(now=self.time.now, most_changes=6)
        self.followers = [Follower(self.server, chosen) for chosen in CHOICES]
        self.asleep: set[int] = set()

    @rule(space=st.sampled_from(SPACES), name=NAMES, level=st.sampled_from(["P0", "P1"]), node=st.booleans())
    def create(self, space: str, name: str, *, level: str, node: bool) -> None:
        """Create a pod unless it is there."""
        spec = {"containers": [{"name": "c"}], **({"nodeName": "n1"} if node else {})}
        body = {"metadata": {"name": name, "labels": {"level": level}}, "spec": spec}
        if self.server.get(PODS, name, namespace=space) is None:
            self.server.create(PODS, body, namespace=space)
        else:
            with pytest.raises(Conflict):
                self.server.create(PODS, body, namespace=space)

    @rule(space=st.sampled_from(SPACES), name=NAMES, level=st.sampled_from(["P0", "P1", None]))
    def relabel(self, space: str, name: str, *, level: str | None) -> None:
        """Change what selects a pod."""
        value = {} if level is None else {"level": level}
        self.change(space, name, {"op": "add", "path": "/metadata/labels", "value": value})

    @rule(space=st.sampled_from(SPACES), name=NAMES, phase=st.sampled_from(["Running", "Failed"]))
    def run(self, space: str, name: str, *, phase: str) -> None:
        """Change the phase of a pod."""
        operation = {"op": "add", "path": "/status/phase", "value": phase}
        self.change(space, name, operation, subresource="status")

    @rule(space=st.sampled_from(SPACES), name=NAMES)
    def bind(self, space: str, name: str) -> None:
        """Put a pod on a node."""
        try:
            self.server.bind(space, name, "n1")
        except Conflict:
            found = self.server.get(PODS, name, namespace=space)
            assert found is None or found["spec"]["nodeName"]

    @rule(space=st.sampled_from(SPACES), name=NAMES, grace=st.sampled_from([None, 0, 5]))
    def delete(self, space: str, name: str, *, grace: int | None) -> None:
        """Delete a pod."""
        there = self.server.get(PODS, name, namespace=space) is not None
        assert self.server.delete(PODS, name, namespace=space, grace_seconds=grace) is there

    @rule()
    def compact(self) -> None:
        """Forget the past."""
        self.server.compact()

    @rule(who=st.integers(0, len(CHOICES) - 1))
    def sleep(self, who: int) -> None:
        """Let one watch no more for a while."""
        self.followers[who].hear() if who not in self.asleep else None
        self.followers[who].leave()
        self.asleep.add(who)

    @rule(who=st.integers(0, len(CHOICES) - 1))
    def wake(self, who: int) -> None:
        """Let one go on from where it was; one that is awake begins a new watch."""
        if who not in self.asleep:
            self.followers[who].hear()
        self.asleep.discard(who)
        self.followers[who].follow()

    def change(self, space: str, name: str, operation: Any, *, subresource: str = "") -> None:
        """Patch a pod that may be there."""
        try:
            self.server.patch(PODS, name, [operation], namespace=space, subresource=subresource)
        except Conflict:
            assert self.server.get(PODS, name, namespace=space) is None

    @invariant()
    def all_who_follow_know_what_a_list_shows(self) -> None:
        """Compare."""
        everything = self.server.list(PODS).items
        for who, follower in enumerate(self.followers):
            if who in self.asleep:
                continue
            follower.hear()
            listed = self.server.list(PODS, **follower.chosen).items
            assert follower.known == {key(one): one for one in listed}
            assert [one for one in everything if one in listed] == list(listed), "and in the same order"


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


async def follow_through(cluster: PretendCluster, known: dict[str, Any], done: asyncio.Event) -> None:
    """Follow all cases through any weather, as a controller does, until it is done and nothing more came."""
    version = ""
    while not (done.is_set() and version == "caught up"):
        try:
            listed = await cluster.list(GPU_CASES)
            known.clear()
            known.update((one["metadata"]["name"], one) for one in listed.items)
            version = listed.version
            while True:
                async for told in cluster.watch(GPU_CASES, since=version, timeout_seconds=20):
                    version = told.version
                    if told.happened is Happened.DELETED:
                        known.pop(told.item["metadata"]["name"], None)
                    elif told.item is not None:
                        known[told.item["metadata"]["name"]] = dict(told.item)
                if done.is_set():
                    version = "caught up"
                    break
        except (Conflict, Unreachable):
            await cluster.network.sleep(1)


@pytest.mark.parametrize("seed", range(25))
async def test_through_any_weather_who_follows_ends_with_what_is_there_and_nothing_is_done_by_halves(
    seed: int,
) -> None:
    time = PretendTime()
    odds = Odds(lost=0.1, unanswered=0.1, late=0.05, conflict=0.1, slow=0.2, behind=0.3, breaks=0.3, silent=0.1)
    weather = SeededWeather(seed, odds)
    cluster = pretend_cluster(time, time.doze, seed=seed, weather=weather)
    known: dict[str, Any] = {}
    done = asyncio.Event()

    async def act() -> None:
        for step in range(120):
            name = f"c{step % 7}"
            try:
                match step % 3:
                    case 0:
                        await cluster.create(GPU_CASES, {"metadata": {"name": name}, "spec": {"step": step}})
                    case 1:
                        both = [{"op": "add", "path": path, "value": step} for path in ("/spec/step", "/spec/twin")]
                        await cluster.patch(GPU_CASES, name, both)
                    case _:
                        await cluster.delete(GPU_CASES, f"c{step % 5}")
            except (Conflict, Unreachable):
                await time.doze(0.5)
            if step % 40 == 39:
                cluster.server.compact()
            await time.doze(1)
        weather.odds = Odds()
        await time.doze(60)
        done.set()

    async def both() -> None:
        await asyncio.gather(act(), follow_through(cluster, known, done))

    await time.run(both())
    listed = (await cluster.list(GPU_CASES)).items
    assert known == {one["metadata"]["name"]: one for one in listed}
    assert all(one["spec"].get("twin", one["spec"]["step"]) == one["spec"]["step"] for one in listed)
