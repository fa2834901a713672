"""What stands between a line of the kernel log and the taint of its node, as real processes on a real API server."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_rows import Row, _begin_at_the_end, _memory_mb, _move
from cluster_site import PATCHES, SOON_SECONDS, connected, patch_node, timed, until, wears
from figures import at_most, quantiles, said
from gpu_server import GPUS, node_of, status_of
from programs import controlling, running
from ring import DEVICE, kmsg_writer, why_no_kmsg

from gpuward.cli.manifests.installation import AGENT
from gpuward.model.resource import GPU_CASES, GPU_NODES, NODES
from gpuward.ports import Cluster
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import Machine

if TYPE_CHECKING:
    import subprocess

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))  # the real control plane is the tests' kit

from tests.install.site import Site  # noqa: E402  only from there

CODES = (48, 62, 119) * 2
NAME = "gpu-line"
TAINT_MS = 250
PATCH_TIMES = 8
AGENT_MB = 50


@dataclass(frozen=True, slots=True)
class Server:
    """A pretend GPU server that is a node of the cluster; only one, for the kernel log of this machine is one log."""

    machine: Machine
    folder: Path


def line_rows(site: Site) -> Iterator[Row]:
    """Yield the rows of the table; none where this machine's kernel log cannot be written to."""
    why_not = why_no_kmsg()
    if why_not:
        sys.stderr.write(f"line -> taint is not measured: {why_not}\n")
        return
    with tempfile.TemporaryDirectory(prefix="gpuward-bench-") as folder:
        server = _server(site, Path(folder))
        with _agent(site, server) as agent, controlling(site, Path(folder)), kmsg_writer() as writer:
            asyncio.run(_begun(site))
            before = _memory_mb(agent.pid)
            taints, patches = asyncio.run(_lines(site, server, writer))
            after = _memory_mb(agent.pid)
    ratio = taints[0] / patches[0]
    yield (
        f"line in {DEVICE} -> taint seen on a watch of a real API server, {GPUS * len(CODES)} faults (ms)",
        said(taints),
        at_most(taints[1] * 1000, TAINT_MS, "p99 "),
    )
    yield f"one bare PATCH of that node in the same run, {PATCHES // 5} times (ms)", said(patches), "-"
    yield "p50 of the first / p50 of the second", f"{ratio:.1f}", at_most(ratio, PATCH_TIMES)
    yield "memory of that agent before those faults (MB)", f"{before:.1f}", "-"
    yield "memory of that agent after those faults (MB)", f"{after:.1f}", at_most(after, AGENT_MB)


def _server(site: Site, folder: Path) -> Server:
    machine = machines.build(folder / "machine")
    machine.nvml()
    _move(machine, 0x1000 + os.getpid() % 0x4000)
    _begin_at_the_end(folder / "state")
    site.api.post("/api/v1/nodes", node_of(NAME)).ok()
    site.api.patch(f"/api/v1/nodes/{NAME}/status", {"status": status_of(NAME)}).ok()
    return Server(machine, folder)


@contextmanager
def _agent(site: Site, server: Server) -> Iterator["subprocess.Popen[bytes]"]:
    uid = site.api.get(f"/api/v1/nodes/{NAME}").ok()["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Node", "name": NAME, "uid": uid}
    user = site.plane.service_account(site.installation.namespace, AGENT, bound_to=bound)
    words = (
        *("agent", "--node", NAME, "--kubeconfig", str(user.kubeconfig), "--accept-user-records"),
        *("--kernel-log", DEVICE, "--state-dir", str(server.folder / "state")),
        *("--proc-root", str(server.machine.proc), "--dev-root", str(server.machine.dev)),
    )
    with running(words, server.folder / "agent.log", server.machine.environment()) as process:
        yield process


async def _begun(site: Site) -> None:
    async with connected(site) as cluster:
        await until(lambda: _is_told(cluster))


async def _lines(
    site: Site, server: Server, write_line: Callable[[str], None]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Let each GPU of the server fall ill in turn; return the quantiles of line -> taint, and of a bare PATCH."""
    taken: list[float] = []
    async with connected(site) as cluster:
        for code in CODES:
            for gpu in range(GPUS):
                taken.append(await _line(cluster, server, (gpu, code), write_line))
                await _release(cluster)
        patched = [await timed(patch_node(cluster, NAME)) for _ in range(PATCHES // 5)]
    return quantiles(taken), quantiles(patched)


async def _line(cluster: Cluster, server: Server, fault: tuple[int, int], write_line: Callable[[str], None]) -> float:
    """Write the lines of a fault, and return how long it took until a watch of the node told of the taint."""
    listed = await cluster.list(NODES, fields=f"metadata.name={NAME}")
    seen = asyncio.ensure_future(_tainted(cluster, listed.version))
    await asyncio.sleep(0.3)
    lines = server.machine.inject(*fault)
    began = time.monotonic()
    for line in lines:
        write_line(line)
    try:
        return await asyncio.wait_for(seen, SOON_SECONDS) - began
    except TimeoutError:
        raise SystemExit(f"{NAME} was not tainted for {fault}") from None


async def _tainted(cluster: Cluster, since: str) -> float:
    while True:
        async for told in cluster.watch(NODES, since=since, fields=f"metadata.name={NAME}"):
            since = told.version
            if told.item is not None and wears(told.item):
                return time.monotonic()


async def _release(cluster: Cluster) -> None:
    """Let a person release each case of the node, one that a counter opens meanwhile too; return when none is left."""

    async def is_free() -> bool:
        cases = [one for one in (await cluster.list(GPU_CASES)).items if one["spec"]["node"] == NAME]
        left = [one for one in cases if one.get("status", {}).get("state") != "closed"]
        for case in left:
            if not case["spec"].get("orders"):
                order = {"op": "add", "path": "/spec/orders", "value": [{"number": 1, "what": "release"}]}
                await cluster.patch(GPU_CASES, case["metadata"]["name"], [order])
        node = await cluster.get(NODES, NAME)
        return node is not None and not wears(node) and not left

    await until(is_free)


async def _is_told(cluster: Cluster) -> bool:
    found = await cluster.get(GPU_NODES, NAME) or {}
    return {found.get(part, {}).get("mode") for part in ("spec", "status")} == {"isolate"}
