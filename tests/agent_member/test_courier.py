"""In which order a node's faults are written to its cluster."""

import asyncio
import contextlib
import random

from gpuward.agent.connection import Connection, Place
from gpuward.agent.courier import Courier
from gpuward.agent.post import Parcel, Post
from gpuward.model.level import Level
from gpuward.model.objects.gpu_fault import FaultEvidence, GpuFault
from gpuward.model.objects.values import write
from tests.agent_member.node import NAMESPACE, NODE, Node


async def test_of_faults_that_are_equally_bad_a_new_one_is_written_before_news_of_the_others(node: Node) -> None:
    for code in (79, 48, 62):
        node.xid(code)
    await node.live(3)
    post, dice = Post(), random.Random(1)  # noqa: S311  the same jitter each time
    connection = Connection(node.cluster, post, node.time, sleep=node.time.doze, dice=dice)
    courier = Courier(connection, Place(NODE, NAMESPACE), worry=lambda _worried: None)
    known = [one for one in node.faults() if one.level is Level.P0]
    assert len(known) > 1
    for one in known:
        post.send(Parcel(one.head.name, 2, level=int(Level.P0), body=None, evidence=write(news_of(one))))
    new = {"metadata": {"name": f"{known[0].head.name}9"}, "spec": write(known[0].spec)}
    post.send(Parcel(new["metadata"]["name"], 1, level=int(Level.P0), body=new))
    task = asyncio.create_task(courier.carry())
    await node.time.pass_by(3)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    written = {one.head.name: int(one.head.version) for one in node.faults()}
    assert written[new["metadata"]["name"]] < min(written[one.head.name] for one in known)


def news_of(fault: GpuFault) -> FaultEvidence:
    spec = fault.spec
    return FaultEvidence(3.0, spec.level, spec.fault_class, verdict=spec.verdict, last=spec.last, count=spec.count + 1)
