"""That the agent lives its Lease says; what the leader's says is judged by this machine's own clock."""

import re

from gpuward.agent.lone import Contact
from gpuward.sim.cluster.network import Presence
from tests.agent_member.node import NODE, Node


async def test_the_lease_is_renewed_within_its_duration(node: Node) -> None:
    first = node.lease()
    assert (first["holderIdentity"], first["leaseDurationSeconds"]) == (NODE, 60)
    renewals = {first["renewTime"]}
    for _ in range(8):
        await node.live(15)
        renewals.add(node.lease()["renewTime"])
    assert 5 <= len(renewals) <= 9
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", one) for one in renewals)
    assert node.lease()["acquireTime"] == first["acquireTime"]


async def test_the_lease_is_renewed_again_soon_after_the_api_is_back(node: Node) -> None:
    node.turn(Presence.AWAY)
    await node.live(120)
    stale = node.lease()["renewTime"]
    node.turn(Presence.THERE)
    await node.live(10)
    assert node.lease()["renewTime"] > stale


def test_a_leader_is_stale_by_how_long_its_lease_was_seen_unchanged() -> None:
    seen = Contact(leader="one 10:00", leader_since=100.0, leader_seen=110.0, leader_seconds=15.0)
    assert not seen.why_alone(500.0)
    unchanged = Contact(leader="one 10:00", leader_since=100.0, leader_seen=131.0, leader_seconds=15.0)
    assert "has not renewed" in unchanged.why_alone(131.0)


def test_a_server_that_does_not_answer_for_a_moment_is_not_gone() -> None:
    assert not Contact(lost_since=100.0).why_alone(105.0)
    assert Contact(lost_since=100.0).why_alone(111.0)
