"""The cluster's side in a thread of its own, in real time; and what the agent's process does not load."""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuward.adapters.clock import SystemClock
from gpuward.agent.connection import Connection, Paces, Place
from gpuward.agent.liaison import beside
from gpuward.agent.post import Post, Report, Wanted
from gpuward.model.resource import GPU_NODES, NAMESPACES
from gpuward.ports import Refused
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster

_PLACE = Place("gpu-1", "gpuward")
_PATIENCE_SECONDS = 10.0


def _cluster() -> PretendCluster:
    cluster = pretend_cluster(SystemClock(), asyncio.sleep)
    cluster.server.create(NAMESPACES, {"metadata": {"name": "gpuward"}})
    return cluster


def test_what_the_node_sends_from_its_thread_is_written_and_what_is_wanted_comes_back() -> None:
    cluster, post, clock = _cluster(), Post(), SystemClock()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Connection]:
        dice = random.Random(1)  # noqa: S311  the same jitter each time
        yield Connection(cluster, post, clock, sleep=asyncio.sleep, dice=dice, paces=Paces(status_seconds=0.1))

    heard: list[object] = []
    with beside(connect, _PLACE) as thread:
        post.send(Report({"mode": "isolate"}))
        end = clock.monotonic() + _PATIENCE_SECONDS
        while clock.monotonic() < end and not (_status(cluster) and any(isinstance(one, Wanted) for one in heard)):
            heard += post.heard()
            clock.sleep(0.02)
    assert _status(cluster) == {"mode": "isolate"}
    assert any(isinstance(one, Wanted) for one in heard)
    assert thread.ended.wait(_PATIENCE_SECONDS)
    assert thread.error is None
    post.send(Report({}))  # nobody hears it any more, and nobody is hurt


def test_what_ends_the_clusters_side_before_its_time_is_known_to_the_agent() -> None:
    cluster, post, missing = _cluster(), Post(), True

    @asynccontextmanager
    async def connect() -> AsyncIterator[Connection]:
        if missing:
            raise Refused("the kubeconfig names no cluster; name another")
        yield Connection(cluster, post, SystemClock(), sleep=asyncio.sleep, dice=random.Random(1))  # noqa: S311  jitter

    with beside(connect, _PLACE) as thread:
        assert thread.ended.wait(_PATIENCE_SECONDS)
    assert isinstance(thread.error, Refused)


def test_the_agent_loads_no_library_that_costs_memory_and_is_not_needed() -> None:
    code = (
        "import sys, gpuward.agent.member, gpuward.agent.liaison, gpuward.adapters.kubernetes; "
        "print(*({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    names = ("kubernetes_asyncio", "kubernetes", "grpc", "pydantic", "sqlalchemy", "rich", "yaml")
    found = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def _status(cluster: PretendCluster) -> object:
    found = cluster.server.get(GPU_NODES, "gpu-1")
    return None if found is None else found.get("status")
