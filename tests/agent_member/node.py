"""A node of a pretend cluster with the agent of this process: its loop in a thread, a round at a time; time is pretend.

The node's machine, its disk and the cluster outlive the agent.
"""

import asyncio
import contextlib
import random
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from gpuward.agent.bench import Tools
from gpuward.agent.connection import Connection, Place
from gpuward.agent.liaison import serve
from gpuward.agent.member import Chest, Member
from gpuward.agent.outfit import Plan, Senses
from gpuward.agent.post import Post
from gpuward.agent.watch import Outside
from gpuward.isolation.merge import Merger
from gpuward.model.case import EffectKind, Mode
from gpuward.model.happening import What
from gpuward.model.objects.gpu_fault import GpuFault, read_gpu_fault
from gpuward.model.objects.gpu_node import GpuNode, GpuOrder, NodeGpu, NodeStatus, OrderAnswer, read_gpu_node
from gpuward.model.objects.kinds import KINDS, object_schema
from gpuward.model.objects.owned import LEADER_LEASE, agent_lease
from gpuward.model.objects.values import read, write
from gpuward.model.resource import GPU_FAULTS, GPU_NODES, LEASES, NAMESPACES
from gpuward.model.signal import Gap, Signal
from gpuward.ports import Clock, Conflict, Origin, PodDevices
from gpuward.sim.cluster.cluster import PretendCluster, pretend_cluster
from gpuward.sim.cluster.network import Presence
from tests.kit.at_once import AtOnce
from tests.kit.merging import GPU_A, terms
from tests.kit.pretend import PretendInventory, PretendProcesses, PretendStore
from tests.kit.pretend_driver import PretendDriver
from tests.kit.pretend_time import PretendTime
from tests.kit.served import Room

NODE = "gpu-1"
NAMESPACE = "gpuward"
BOOT = "5f2c1a9e"
STEP_SECONDS = 0.5
_PATIENCE_SECONDS = 20.0


class Ring:
    """Implements KernelLog over lines in memory; a read waits for nothing, time passes elsewhere."""

    def __init__(self, lines: list[str], time: Clock, boot: str) -> None:
        self._lines = lines
        self._time = time
        self._boot = boot
        self._next = 0

    def origin(self) -> Origin:
        """Return what is known of the lines."""
        return Origin(
            source="/dev/kmsg", boot=self._boot, boot_time=self._time.now() - self._time.monotonic(), node=None
        )

    def seek(self, cursor: str) -> bool:
        """Go on after a line."""
        self._next = int(cursor.removeprefix("k")) + 1
        return self._next <= len(self._lines)

    def read(self, timeout_seconds: float) -> Sequence[Signal | Gap]:
        """Return what was not read yet."""
        del timeout_seconds
        begin, self._next = self._next, len(self._lines)
        return [
            Signal(source="/dev/kmsg", line=number, cursor=f"k{number}", text=text)
            for number, text in enumerate(self._lines[begin:], begin)
        ]

    def close(self) -> None:
        """Hold nothing."""


class Lockstep:
    """Runs a member in a thread, which stands still between its rounds."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._stands = threading.Semaphore(0)
        self._may_go = threading.Semaphore(0)
        self._ending = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._wait()

    def step(self) -> None:
        """Let it do one round. Raises what it died of."""
        self._may_go.release()
        self._wait()

    def end(self) -> None:
        """Let it end as a signal does."""
        self._ending = True
        self._may_go.release()
        self._thread.join(_PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._member.run(self._stopped)
        except BaseException as error:  # noqa: BLE001  the test must hear of it
            self._error = error
        finally:
            self._stands.release()

    def _stopped(self) -> bool:
        self._stands.release()
        self._may_go.acquire()
        return self._ending

    def _wait(self) -> None:
        assert self._stands.acquire(timeout=_PATIENCE_SECONDS), "the node's loop hangs"
        if self._error is not None:
            raise self._error


@dataclass
class Node:
    """A node, its disk, and the cluster around it."""

    time: PretendTime = field(default_factory=PretendTime)
    driver: PretendDriver = field(default_factory=PretendDriver)
    room: Room = field(default_factory=Room)
    lines: list[str] = field(default_factory=list)
    orders: PretendStore = field(default_factory=PretendStore)
    outbox: PretendStore = field(default_factory=PretendStore)
    pauses: PretendStore = field(default_factory=PretendStore)
    place: PretendStore = field(default_factory=PretendStore)
    warnings: list[str] = field(default_factory=list)
    boot: str = BOOT
    cluster: PretendCluster = field(init=False)
    kubelet: PodDevices | None = None
    hands: Executor = field(default_factory=AtOnce)
    member: Lockstep | None = None
    task: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        """Build the cluster."""
        schemas = {kind.resource.plural: object_schema(kind) for kind in KINDS}
        self.cluster = pretend_cluster(self.time, self.time.doze, schemas=schemas)
        self.cluster.server.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})

    async def start(self) -> "Node":
        """Start the agent, both of its sides."""
        post = Post()
        dice = random.Random(1)  # noqa: S311  the same jitter each time
        connection = Connection(self.cluster, post, self.time, sleep=self.time.doze, dice=dice)
        self.task = asyncio.create_task(serve(connection, Place(NODE, NAMESPACE)))
        self.member = Lockstep(self.agent(post, self.time, NODE))
        return self

    def agent(self, post: Post, clock: Clock, name: str) -> Member:
        """Return an agent over this node's machine and disk."""
        return Member(
            Outside(
                log=Ring(self.lines, clock, self.boot),
                processes=PretendProcesses(),
                inventory=PretendInventory(),
                clock=clock,
                store=self.place,
            ),
            lambda: Merger(terms()),
            tools=Tools(
                driver=self.driver,
                holders=self.driver,
                services=self.driver,
                evidence=self.room,
                clock=clock,
                kernel_log=lambda: b"the kernel log",
            ),
            chest=Chest(orders=self.orders, outbox=self.outbox, pauses=self.pauses, chronicle=self.room),
            post=post,
            plan=Plan(poll_seconds=5.0),
            senses=Senses(kubelet=self.kubelet),
            hands=self.hands,
            say=lambda _happening: None,
            warn=self.warnings.append,
            timezone=UTC,
            node=name,
        )

    async def live(self, seconds: float) -> "Node":
        """Let time pass on both sides."""
        assert self.member is not None
        end = self.time.passed + seconds
        while self.time.passed < end:
            self.member.step()
            await self.time.pass_by(STEP_SECONDS)
            self._check()
        return self

    async def end(self) -> None:
        """End the agent as a signal does; the cluster's side ends with it."""
        await self.kill()
        if self.member is not None:
            self.member.end()
            self.member = None

    async def kill(self) -> None:
        """End the cluster's side; the node's is left where it stands, and does no more."""
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    async def restart(self) -> "Node":
        """Start anew over what the disk holds; whoever stood still is gone."""
        await self.kill()
        self.member = None
        return await self.start()

    def _check(self) -> None:
        if self.task is not None and self.task.done():
            self.task.result()

    # --- what happens around the agent ----------------------------------------------------------------------------

    def writes(self, body: str, clock: Clock | None = None) -> None:
        """Let the kernel write a line now."""
        number, usec = len(self.lines), round((clock or self.time).monotonic() * 1e6)
        self.lines.append(f"3,{number},{usec},-;{body}")

    def xid(self, code: int, pci: str = GPU_A, *, clock: Clock | None = None) -> None:
        """Let the driver tell of an Xid."""
        self.writes(f"NVRM: Xid (PCI:{pci}): {code}, pid=77, name=train, GPU has failed", clock)

    def order(self, number: int, what: EffectKind, *, pci: str = GPU_A, case: str = "case-1", **more: Any) -> GpuOrder:
        """Return an order as the controller gives it."""
        uuid = more.pop("uuid", self.driver.gpus[pci].uuid if pci in self.driver.gpus else None)
        boot = more.pop("boot", BOOT)
        asked_at = self.time.now()
        return GpuOrder(f"{case}.{number}", case, boot=boot, pci=pci, what=what, asked_at=asked_at, uuid=uuid, **more)

    def want(self, *orders: GpuOrder, mode: Mode = Mode.REPAIR, **more: Any) -> None:
        """Write the spec, as the controller does."""
        spec = {"mode": str(mode), "orders": [write(order) for order in orders], **more}
        operation = {"op": "add", "path": "/spec", "value": spec}
        try:
            self.cluster.server.patch(GPU_NODES, NODE, [operation])
        except Conflict:
            self.cluster.server.create(GPU_NODES, {"metadata": {"name": NODE}, "spec": spec})

    def lead(self) -> None:
        """Let a controller lead, and renew its Lease now."""
        stamp = f"2026-11-30T10:{int(self.time.passed) // 60 % 60:02d}:{int(self.time.passed) % 60:02d}.000000Z"
        spec = {"holderIdentity": "controller-1", "leaseDurationSeconds": 15, "renewTime": stamp, "acquireTime": stamp}
        try:
            self.cluster.server.patch(
                LEASES, LEADER_LEASE, [{"op": "add", "path": "/spec", "value": spec}], namespace=NAMESPACE
            )
        except Conflict:
            self.cluster.server.create(LEASES, {"metadata": {"name": LEADER_LEASE}, "spec": spec}, namespace=NAMESPACE)

    async def live_led(self, seconds: float) -> None:
        """Let time pass while a leader renews its Lease."""
        for _ in range(int(seconds / 5)):
            self.lead()
            await self.live(5)

    def turn(self, presence: Presence) -> None:
        """Let the API server come or go."""
        self.cluster.network.turn(presence)

    # --- what came of it --------------------------------------------------------------------------------------------

    def object(self) -> GpuNode:
        """Return the node's object."""
        found = self.cluster.server.get(GPU_NODES, NODE)
        assert found is not None
        return read_gpu_node(found)

    def gpu(self, pci: str = GPU_A) -> NodeGpu:
        """Return a GPU as the node's object tells it."""
        status = self.object().status
        assert status is not None
        return next(gpu for gpu in status.gpus if gpu.pci == pci)

    def answers(self) -> dict[str, OrderAnswer]:
        """Return the answers in the node's object, by the order's id."""
        found = self.cluster.server.get(GPU_NODES, NODE)
        assert found is not None
        status = read(NodeStatus, found["status"], "status")
        return {answer.id: answer for answer in status.orders}

    def version(self) -> str:
        """Return the version of the node's object: it changes with every write."""
        return self.object().head.version

    def faults(self) -> list[GpuFault]:
        """Return the faults in the cluster, in order of their name."""
        found = self.cluster.server.list(GPU_FAULTS, project=lambda one: one)
        return sorted((read_gpu_fault(one) for one in found.items), key=lambda one: one.head.name)

    def lease(self) -> Mapping[str, Any]:
        """Return what the node's Lease says."""
        found = self.cluster.server.get(LEASES, agent_lease(NODE), namespace=NAMESPACE)
        assert found is not None
        spec: Mapping[str, Any] = found["spec"]
        return spec

    def done(self, call: str) -> int:
        """Return how often a call was made to the driver."""
        return self.driver.calls.count(call)

    def said(self) -> str:
        """Return what the journal says."""
        return " ".join(one.because for one in self.room.written if one.what is What.SAID)
