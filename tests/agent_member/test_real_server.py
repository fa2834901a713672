"""The agent on a real API server, with the token that its pod would have: what it writes is allowed and accepted."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gpuward.adapters.clock import SystemClock
from gpuward.adapters.kubernetes import KubernetesCluster
from gpuward.agent.connection import Connection, Place
from gpuward.agent.liaison import Thread, beside
from gpuward.agent.post import Post
from gpuward.cli.manifests.installation import AGENT
from gpuward.model.case import EffectKind
from gpuward.model.objects.gpu_fault import GpuFault, read_gpu_fault
from gpuward.model.objects.owned import agent_lease
from gpuward.model.objects.values import write
from gpuward.model.resource import GPU_FAULTS, GPU_NODES, LEASES, OURS
from tests.agent_member.node import BOOT, Lockstep, Node
from tests.cluster.real_world import access_of
from tests.install.site import Site, path_of
from tests.kit.controlplane.rest import JSON_PATCH
from tests.kit.merging import GPU_A

pytestmark = [pytest.mark.real, pytest.mark.long]
_PATIENCE_SECONDS = 60.0


@dataclass
class Living:
    """An agent that lives, and its node's place on the server."""

    site: Site
    name: str
    machine: Node
    member: Lockstep
    thread: Thread
    clock: SystemClock

    def until(self, come: Callable[[], Any], what: str) -> None:
        """Let it do its rounds until something has come."""
        end = self.clock.monotonic() + _PATIENCE_SECONDS
        while not come():
            assert self.clock.monotonic() < end, f"not within {_PATIENCE_SECONDS:.0f} s: {what}"
            assert not self.thread.ended.is_set(), self.thread.error
            self.member.step()
            self.clock.sleep(0.02)

    def object(self) -> dict[str, Any]:
        """Return the node's object as the server has it."""
        reply = self.site.api.get(path_of(GPU_NODES, self.name))
        found: dict[str, Any] = reply.ok() if reply.good else {}
        return found

    def outcomes(self) -> dict[str, str]:
        """Return what became of orders, by id."""
        return {one["id"]: one["outcome"] for one in self.object().get("status", {}).get("orders", [])}

    def faults(self) -> dict[int | None, GpuFault]:
        """Return its faults by code; none while a server that has just started cannot tell."""
        reply = self.site.api.get(path_of(GPU_FAULTS))
        found = [read_gpu_fault(one) for one in reply.ok()["items"]] if reply.good else []
        return {one.spec.code: one for one in found if one.spec.node_name == self.name}


@contextmanager
def _living(site: Site) -> Iterator[Living]:
    name, clock, post, machine = site.node(), SystemClock(), Post(), Node()
    uid = site.api.get(f"/api/v1/nodes/{name}").ok()["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    user = site.plane.service_account(site.installation.namespace, AGENT, bound_to=bound)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Connection]:
        cluster = KubernetesCluster(access_of(site.plane, user))
        try:
            dice = random.Random(1)  # noqa: S311  jitter
            yield Connection(cluster, post, clock, sleep=asyncio.sleep, dice=dice)
        finally:
            await cluster.close()

    with beside(connect, Place(name, site.installation.namespace)) as thread:
        member = Lockstep(machine.agent(post, clock, name))
        try:
            yield Living(site, name, machine, member, thread, clock)
        finally:
            member.end()


def test_all_that_an_agent_writes_is_accepted_under_its_own_token(site: Site) -> None:
    with _living(site) as agent:
        agent.until(lambda: agent.object().get("status"), "its status")
        assert agent.object()["status"]["summary"] == "3 of 3 active"
        lease = path_of(LEASES, agent_lease(agent.name), namespace=site.installation.namespace)
        agent.until(lambda: site.api.get(lease).good, "its Lease")

        agent.machine.xid(45, clock=agent.clock)
        agent.until(lambda: 45 in agent.faults(), "a fault")
        agent.machine.xid(79, clock=agent.clock)
        agent.until(lambda: agent.faults()[45].newest, "evidence of a fault that another one explains")
        assert agent.faults()[79].head.name == f"{agent.name}.{BOOT}.k1"

        orders = [
            write(agent.machine.order(number, kind))
            for number, kind in enumerate((EffectKind.EVIDENCE, EffectKind.DRAIN), 1)
        ]
        spec = {"op": "add", "path": "/spec", "value": {"mode": "isolate", "orders": orders}}
        path = path_of(GPU_NODES, agent.name)
        assert site.controller().patch(path, [spec], content=JSON_PATCH).good
        agent.until(lambda: list(agent.outcomes().values()) == ["done", "done"], "its answers")
        assert agent.machine.driver.drained == {GPU_A}
        assert agent.object()["status"]["mode"] == "isolate"
        told = [warning for warning in agent.machine.warnings if "cannot be" in warning or "not accepted" in warning]
        assert told == []


def test_while_the_api_server_is_gone_it_drains_alone_and_tells_it_afterwards(site: Site) -> None:
    with _living(site) as agent:
        agent.until(lambda: agent.object().get("status"), "its status")
        spec = {"op": "add", "path": "/spec", "value": {"mode": "isolate"}}
        assert site.controller().patch(path_of(GPU_NODES, agent.name), [spec], content=JSON_PATCH).good
        agent.until(lambda: agent.object()["status"]["mode"] == "isolate", "its mode")
        with site.plane.away():
            agent.machine.xid(48, clock=agent.clock)
            agent.until(lambda: agent.machine.driver.drained, "the drain that nobody ordered")
        agent.until(
            lambda: all(site.api.get(path_of(one)).good for one in OURS), "a server that has all its kinds again"
        )
        agent.until(lambda: 48 in agent.faults(), "the fault")
        name = agent.faults()[48].head.name
        agent.until(lambda: agent.outcomes().get(f"lone.{name}.drain") == "done", "what was done alone")
