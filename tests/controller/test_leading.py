"""Leader election by Lease: one leads, another follows when it is gone, and never do two."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest

from gpuward.controller.leading import Leading, LeaseTerms, WhileLeading
from gpuward.controller.pace import Pace
from gpuward.model.objects.owned import LEADER_LEASE
from gpuward.model.resource import LEASES, NAMESPACES, NODES
from gpuward.ports import Unreachable
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.network import Presence
from gpuward.sim.cluster.weather import Odds, SeededWeather
from tests.kit.pretend_time import PretendTime

TERMS = LeaseTerms()


class Election:
    """Candidates for one Lease, each run as its own task."""

    def __init__(self, *, weather: Any = None, seed: int = 0) -> None:
        self.time = PretendTime()
        self.cluster = pretend_cluster(self.time, self.time.doze, weather=weather)
        self.cluster.server.create(NAMESPACES, {"metadata": {"name": TERMS.namespace}})
        self.dice = random.Random(seed)  # noqa: S311  the same seed must give the same election
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.candidates: dict[str, Leading] = {}

    def stand(self, name: str, *, cluster: PretendCluster | None = None) -> Leading:
        """Start a candidate."""
        pace = Pace(self.time, self.time.doze, self.dice.random)
        candidate = Leading(cluster or self.cluster, name, pace=pace, terms=TERMS)
        self.candidates[name] = candidate
        self.tasks[name] = asyncio.ensure_future(candidate.run())
        return candidate

    def leaders(self) -> list[str]:
        """Return who leads now."""
        return [name for name, one in self.candidates.items() if one.leads()]

    async def until(self, holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Let time pass in small steps, at each of which at most one leads."""
        for _ in range(int(seconds / 0.25)):
            assert len(self.leaders()) <= 1
            if holds():
                return
            await self.time.pass_by(0.25)
        raise AssertionError("it never came to that")

    async def end(self) -> None:
        """Stop all of them."""
        for task in self.tasks.values():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def lease(self) -> Any:
        """Return the Lease."""
        return self.cluster.server.get(LEASES, LEADER_LEASE, namespace=TERMS.namespace)


async def test_the_first_leads_and_goes_on_leading() -> None:
    election = Election()
    election.stand("a")
    await election.until(lambda: election.leaders() == ["a"])
    election.stand("b")
    for _ in range(400):
        await election.time.pass_by(0.25)
        assert election.leaders() == ["a"]
    assert election.lease()["spec"]["leaseTransitions"] == 0
    await election.end()


async def test_one_that_ends_without_a_word_is_followed_when_its_lease_is_stale() -> None:
    election = Election()
    election.stand("a")
    await election.until(lambda: election.leaders() == ["a"])
    election.stand("b")
    election.tasks["a"].cancel()
    began = election.time.passed
    await election.until(lambda: election.leaders() == ["b"])
    assert election.time.passed - began >= TERMS.lease_seconds - 2 * TERMS.retry_seconds
    assert election.lease()["spec"]["leaseTransitions"] == 1
    await election.end()


async def test_one_that_releases_is_followed_at_once() -> None:
    election = Election()
    first = election.stand("a")
    await election.until(lambda: election.leaders() == ["a"])
    election.tasks["a"].cancel()
    await first.release()
    assert not first.leads()
    election.stand("b")
    await election.until(lambda: election.leaders() == ["b"], seconds=4)
    await first.release()  # it is another's by now
    assert election.lease()["spec"]["holderIdentity"] == "b"
    await election.end()


async def test_a_server_that_freezes_ends_the_leading_before_anyone_else_may_begin() -> None:
    election = Election()
    election.stand("a")
    await election.until(lambda: election.leaders() == ["a"])
    election.stand("b")
    election.cluster.network.turn(Presence.FROZEN)
    await election.until(lambda: not election.leaders(), seconds=TERMS.lead_seconds + 1)
    election.cluster.network.turn(Presence.THERE)
    await election.until(lambda: len(election.leaders()) == 1)
    await election.end()


async def test_a_frozen_process_does_not_lead_when_it_wakes() -> None:
    election = Election()
    first = election.stand("a")
    await election.until(lambda: election.leaders() == ["a"])
    election.tasks["a"].cancel()  # it stands still, and its clock goes on
    election.stand("b")
    await election.until(lambda: election.leaders() == ["b"])
    assert not first.leads()
    held = WhileLeading(election.cluster, first.leads)
    with pytest.raises(Unreachable, match="another controller may lead"):
        await held.create(NODES, {"metadata": {"name": "n1"}})
    await election.end()


async def test_a_clock_set_wrong_changes_nothing() -> None:
    election = Election()
    election.stand("a")
    await election.until(lambda: election.leaders() == ["a"])
    ahead = PretendTime(start=1.0)
    pace = Pace(ahead, ahead.doze, election.dice.random)
    skewed = Leading(election.cluster, "b", pace=pace, terms=TERMS)
    for _ in range(5):
        await skewed.stand()
        assert not skewed.leads(), "the lease's own times say nothing"
    await election.end()


@pytest.mark.parametrize("seed", range(8))
async def test_never_two_lead_whatever_the_weather(seed: int) -> None:
    odds = Odds(lost=0.1, unanswered=0.1, late=0.15, conflict=0.1, slow=0.3, worst_delay_seconds=12.0)
    election = Election(weather=SeededWeather(seed, odds), seed=seed)
    for name in ("a", "b", "c"):
        election.stand(name)
    led: set[str] = set()
    for step in range(1600):
        await election.time.pass_by(0.25)
        leaders = election.leaders()
        assert len(leaders) <= 1
        led.update(leaders)
        if leaders and step % 200 == 199:
            election.tasks[leaders[0]].cancel()  # killed; another of a new name comes
            election.stand(f"{leaders[0]}{step}")
    assert led
    await election.end()
