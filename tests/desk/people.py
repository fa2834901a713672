"""A person at the pretend fleet: gives a command as he types it, and reads the answer; the fleet moves meanwhile."""

import asyncio
import io
from datetime import UTC, datetime
from typing import Any

from gpuward.cli.args import build_parser
from gpuward.cli.fleet.commands import COMMANDS
from gpuward.cli.fleet.voice import Voice
from gpuward.controller.desk.reading import Desk, whoami
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.model.objects.owned import LEADER_LEASE, agent_lease
from gpuward.model.resource import GPU_NODES, LEASES
from gpuward.ports import Cluster
from tests.controller.fleet import Fleet
from tests.kit.commands import Answer

SPACE = "gpuward"


async def ask(
    fleet: Fleet, *words: str, controller: Controller | None = None, cluster: Cluster | None = None
) -> Answer:
    """Return what a command of a cluster answers; `controller` goes round while it waits."""
    asked = build_parser().parse_args([*words, "--namespace", SPACE, "--timezone", "UTC"])
    if asked.command == "drill":
        asked.number = int(asked.code)
    used, out = cluster or fleet.cluster, io.StringIO()
    pace = Pace(fleet.time, fleet.time.doze, lambda: 0.5)

    async def answered() -> int:
        desk = Desk(used, pace=pace, namespace=SPACE, myself=await whoami(used, pace))
        return await COMMANDS[asked.command](desk, asked, Voice(out, as_json=asked.json))

    task = asyncio.ensure_future(answered())
    try:
        while not task.done():
            for _ in range(50):
                await asyncio.sleep(0)
            if not task.done():
                await _move(fleet, controller)
    finally:
        task.cancel()
    return Answer(await task, out.getvalue(), "")


async def _move(fleet: Fleet, controller: Controller | None) -> None:
    if controller is None:
        fleet.move()
        await fleet.time.pass_by(1.0)
    else:
        await fleet.go(controller)


async def told(fleet: Fleet, *words: str, **more: Any) -> str:
    """Return what a command tells a person."""
    return (await ask(fleet, *words, **more)).out


def beat(fleet: Fleet, *, but: tuple[str, ...] = (), leader: str = "controller-a") -> None:
    """Let the controller and the agents say that they live."""
    for name in (LEADER_LEASE, *(agent_lease(node) for node in fleet.agents if node not in but)):
        stamp = datetime.fromtimestamp(fleet.time.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        holder = leader if name == LEADER_LEASE else name.removeprefix("agent.")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": stamp, "acquireTime": stamp}
        if fleet.server.get(LEASES, name, namespace=SPACE) is None:
            fleet.server.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace=SPACE)
        else:
            fleet.server.patch(LEASES, name, [{"op": "add", "path": "/spec", "value": spec}], namespace=SPACE)


def in_mode(fleet: Fleet, node: str, mode: str) -> None:
    """Let the controller have said how far it goes on a node."""
    fleet.server.patch(GPU_NODES, node, [{"op": "add", "path": "/spec", "value": {"mode": mode}}])
