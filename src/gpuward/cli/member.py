"""`gpuward agent --node NAME`: the agent of a node of a cluster, started and ended. The loop is in agent.member."""

import argparse
import asyncio
import gc
import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gpuward.agent.board import board_object
from gpuward.agent.connection import Connection, Place
from gpuward.agent.liaison import beside
from gpuward.agent.member import Member
from gpuward.agent.post import Post
from gpuward.cli import wiring
from gpuward.cli.watch import stop_on_signals
from gpuward.cli.wiring.cluster import access_of, load_client
from gpuward.cli.wiring.gear import Gear
from gpuward.ports import EdgeError, Refused

TURN_SECONDS = 0.0005
"""How long one thread may work on while another waits for its turn."""
TIDINESS = (700, 5, 2)
"""After how many new objects garbage is looked for, and after how many looks in what is older."""


def serve_node(asked: argparse.Namespace, gear: Gear, new_member: Callable[[Post, str], Member]) -> int:
    """Work for the cluster until a signal ends it; return the exit code. Raises what ended the cluster's side."""
    node = asked.node or wiring.host_name()
    # The node's loop and the cluster's are two threads: a fault must not wait 5 ms, Python's turn, at each hand-over.
    sys.setswitchinterval(TURN_SECONDS)
    load_client()
    _tidy_often()
    post, stop = Post(), stop_on_signals()
    member = new_member(post, node)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Connection]:
        async with access_of(asked.kubeconfig) as cluster:
            yield Connection(cluster, post, gear.outside.clock, sleep=asyncio.sleep, dice=random.Random())  # noqa: S311  jitter

    with beside(connect, Place(node, asked.namespace)) as cluster, gear.door(lambda request: _answer(member, request)):
        member.run(lambda: stop.asked or cluster.ended.is_set())
    if isinstance(cluster.error, EdgeError):
        raise cluster.error
    if cluster.error is not None:
        raise Refused(f"the cluster's side of the agent broke: {cluster.error!r}; report this as a fault")
    return 0


def _tidy_often() -> None:
    """Let garbage go soon: what is here stays to the end and is not looked through again, and so each look is short."""
    gc.collect()
    gc.freeze()
    gc.collect()  # all is looked through only after a quarter more came than was there the last time: that is 0 now
    gc.set_threshold(*TIDINESS)


def _answer(member: Member, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the agent's answer to a request from its door: how its GPUs are; all else is the cluster's."""
    if request.get("ask") == "status":
        return board_object(member.board())
    raise Refused("this agent works for a cluster, whose cases they are: see `kubectl get gpucases`")
