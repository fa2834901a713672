"""What a controller and agents cost on a real API server: line to taint, a fleet at once, memory. Nothing is asserted.

The API server, etcd and all clients share the processors of this machine, so that every figure stands beside what the
bare server does in the same run.
"""

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_rows import Row, _begin_at_the_end, _memory_mb, _move
from cluster_site import (
    AT_ONCE,
    PATCHES,
    SOON_SECONDS,
    are_known,
    connected,
    fault_of,
    is_complete,
    is_led,
    make_fleet,
    patch_node,
    patch_rate,
    same_writes_rate,
    spread,
    timed,
    until,
    wears,
)
from gpu_server import GPUS, node_of, status_of
from ring import DEVICE, kmsg_writer, why_no_kmsg

from gpuward.adapters.clock import SystemClock
from gpuward.cli.manifests.installation import AGENT, CONTROLLER
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.isolation.decide import decide
from gpuward.isolation.fleet import UNBRAKED
from gpuward.model.case import Mode
from gpuward.model.objects.gpu_fault import write_gpu_fault
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, GPU_NODES, NODES
from gpuward.ports import Cluster, Conflict
from gpuward.sim.machines import machine as machines
from gpuward.sim.machines.machine import Machine

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))  # the real control plane is the tests' kit

from tests.install.site import Site, installed  # noqa: E402  only from there
from tests.kit.controlplane.binaries import Unbuilt, find_binaries  # noqa: E402
from tests.kit.controlplane.plane import FIRST, ControlPlane  # noqa: E402

SERVERS = 1
CODES = (48, 62, 119, 48, 62, 119)
STORM = 1_000
FLEET = 10_000
TAINT_MS = 250
PATCH_TIMES = 8
RATE_SHARE = 0.7
MEMORY_MB = 300
DECIDE_MS = 5
_REQUEST = re.compile(r"apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$")
_LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
_COUNTED = {
    ("POST", "gpufaults", ""),
    ("POST", "gpucases", ""),
    ("PATCH", "gpucases", "status"),
    ("PATCH", "nodes", ""),
}
"""The writes that may stand between a fault and its taint."""
_OPEN = """
[controller]
mode = "isolate"
[brake]
share = 1.0
[brake.pool]
least = 1000000
[brake.rack]
least = 1000000
[brake.kind]
least = 1000000
"""


def cluster_rows() -> Iterator[Row]:
    """Measure on a control plane of its own; yield the rows of the table, none where there is no control plane."""
    try:
        binaries = find_binaries(FIRST)
    except Unbuilt as error:
        sys.stderr.write(f"nothing is measured on a control plane: {error}\n")
        return
    with ControlPlane(binaries) as plane, installed(plane) as site:
        yield from _line_rows(site)
    with ControlPlane(binaries) as plane, installed(plane) as site:
        yield from asyncio.run(_storm_rows(site))
    with ControlPlane(binaries) as plane, installed(plane) as site:
        yield from asyncio.run(_fleet_rows(site))


# --- one kernel line to the taint -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A pretend GPU server that is a node of the cluster."""

    name: str
    machine: Machine
    folder: Path


def _line_rows(site: Site) -> Iterator[Row]:
    why_not = why_no_kmsg()
    if why_not:
        sys.stderr.write(f"line -> taint is not measured: {why_not}\n")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuward-bench-")))
        servers = [_server(site, folder / str(number), number) for number in range(SERVERS)]
        for server in servers:
            stack.enter_context(_agent(site, server))
        stack.enter_context(_controller(site, folder))
        writer = stack.enter_context(kmsg_writer())
        taints, patches = asyncio.run(_lines(site, servers, writer))
    ratio = taints[0] / patches[0]
    count = SERVERS * GPUS * len(CODES)
    yield (
        f"line in {DEVICE} -> taint seen on a watch of a real API server, {count} faults on {SERVERS} servers (ms)",
        _said(taints),
        _target(taints[1] * 1000, TAINT_MS, "p99 "),
    )
    yield f"one bare PATCH of a node in the same run, {PATCHES // 5} times (ms)", _said(patches), "-"
    yield "p50 of the first / p50 of the second", f"{ratio:.1f}", _target(ratio, PATCH_TIMES)


def _server(site: Site, folder: Path, number: int) -> Server:
    folder.mkdir()
    machine = machines.build(folder / "machine")
    machine.nvml()
    _move(machine, 0x1000 + os.getpid() % 0x4000 + number)
    _begin_at_the_end(folder / "state")
    name = f"gpu-line-{number}"
    site.api.post("/api/v1/nodes", node_of(name)).ok()
    site.api.patch(f"/api/v1/nodes/{name}/status", {"status": status_of(name)}).ok()
    return Server(name, machine, folder)


@contextmanager
def _agent(site: Site, server: Server) -> Iterator[None]:
    uid = site.api.get(f"/api/v1/nodes/{server.name}").ok()["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Node", "name": server.name, "uid": uid}
    user = site.plane.service_account(site.installation.namespace, AGENT, bound_to=bound)
    words = (
        *("agent", "--node", server.name, "--kubeconfig", str(user.kubeconfig), "--accept-user-records"),
        *("--kernel-log", DEVICE, "--state-dir", str(server.folder / "state")),
        *("--proc-root", str(server.machine.proc), "--dev-root", str(server.machine.dev)),
    )
    with _running(words, server.folder / "agent.log", server.machine.environment()):
        yield


@contextmanager
def _controller(site: Site, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    settings = folder / "gpuward.toml"
    settings.write_text(_OPEN, encoding="utf-8")
    user = site.account(CONTROLLER)
    words = ("controller", "--kubeconfig", str(user.kubeconfig), "--config", str(settings))
    with _running(words, folder / "controller.log", None) as process:
        yield process


@contextmanager
def _running(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None
) -> Iterator["subprocess.Popen[bytes]"]:
    with (
        log.open("wb") as said,
        subprocess.Popen(  # noqa: S603  our own command
            [sys.executable, "-m", "gpuward", *words], env=environment, stdout=said, stderr=said
        ) as process,
    ):
        try:
            yield process
            if process.poll() is not None:
                raise SystemExit(f"gpuward {words[0]} ended: {log.read_text('utf-8')[-2000:]}")
        finally:
            process.kill()


async def _lines(
    site: Site, servers: Sequence[Server], write_line: Callable[[str], None]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Let each GPU of each server fall ill in turn; return the quantiles of line -> taint, and of a bare PATCH."""
    taken: list[float] = []
    async with connected(site) as cluster:
        await until(lambda: _all_told(cluster, servers))
        for code in CODES:
            for gpu in range(GPUS):
                for server in servers:
                    taken.append(await _line(cluster, server, (gpu, code), write_line))
                    await _release(cluster, server)
        patched = [await timed(patch_node(cluster, servers[number % SERVERS].name)) for number in range(PATCHES // 5)]
    return _quantiles(taken), _quantiles(patched)


async def _line(cluster: Cluster, server: Server, fault: tuple[int, int], write_line: Callable[[str], None]) -> float:
    """Write the lines of a fault, and return how long it took until a watch of the node told of the taint."""
    listed = await cluster.list(NODES, fields=f"metadata.name={server.name}")
    seen = asyncio.ensure_future(_tainted(cluster, server.name, listed.version))
    await asyncio.sleep(0.3)
    lines = server.machine.inject(*fault)
    began = time.monotonic()
    for line in lines:
        write_line(line)
    try:
        return await asyncio.wait_for(seen, SOON_SECONDS) - began
    except TimeoutError:
        raise SystemExit(f"{server.name} was not tainted for {fault}") from None


async def _tainted(cluster: Cluster, node: str, since: str) -> float:
    while True:
        async for told in cluster.watch(NODES, since=since, fields=f"metadata.name={node}"):
            since = told.version
            if told.item is not None and wears(told.item):
                return time.monotonic()


async def _release(cluster: Cluster, server: Server) -> None:
    """Let a person release each case of the node, one that a counter opens meanwhile too; return when none is left."""

    async def is_free() -> bool:
        cases = [one for one in (await cluster.list(GPU_CASES)).items if one["spec"]["node"] == server.name]
        left = [one for one in cases if one.get("status", {}).get("state") != "closed"]
        for case in left:
            if not case["spec"].get("orders"):
                order = {"op": "add", "path": "/spec/orders", "value": [{"number": 1, "what": "release"}]}
                await cluster.patch(GPU_CASES, case["metadata"]["name"], [order])
        node = await cluster.get(NODES, server.name)
        return node is not None and not wears(node) and not left

    await until(is_free)


async def _all_told(cluster: Cluster, servers: Sequence[Server]) -> bool:
    found = {one["metadata"]["name"]: one for one in (await cluster.list(GPU_NODES)).items}
    return all(
        found.get(server.name, {}).get("spec", {}).get("mode") == "isolate"
        and found[server.name].get("status", {}).get("mode") == "isolate"
        for server in servers
    )


# --- a thousand nodes at once -----------------------------------------------------------------------------------------


async def _storm_rows(site: Site) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gpuward-bench-") as folder:
        async with connected(site) as cluster:
            names = await make_fleet(cluster, STORM)
            rate = await patch_rate(cluster, names)
            same = await same_writes_rate(cluster, names)
            with _controller(site, Path(folder)):
                await until(lambda: are_known(cluster), seconds=600.0)
                before = _written(site)
                took = await _storm(cluster, names)
                written = _written(site) - before
    writes, ours = written / STORM, written / took
    return [
        (f"{STORM} nodes fail at once -> all tainted (s)", f"{took:.1f}", "-"),
        (f"bare PATCHes a second of that server, {AT_ONCE} at once", f"{rate:.0f}", "-"),
        ("writes of faults, cases and nodes until all are tainted, each node", f"{writes:.2f}", _target(writes, 3)),
        ("writes a second of the storm / bare PATCHes a second", f"{ours / rate:.2f}", _least(ours / rate, RATE_SHARE)),
        ("the same three writes a node by a client that does nothing else, a second", f"{same:.0f}", "-"),
        ("writes a second of the storm / those", f"{ours / same:.2f}", "-"),
    ]


async def _storm(cluster: Cluster, names: Sequence[str]) -> float:
    listed = await cluster.list(NODES)
    waiting = set(names)
    tainted = asyncio.ensure_future(_all_tainted(cluster, listed.version, waiting))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    await spread([cluster.create(GPU_FAULTS, write_gpu_fault(fault_of(name))) for name in names])
    try:
        ended = await asyncio.wait_for(tainted, 600.0)
    except TimeoutError:
        raise SystemExit(f"{len(waiting)} of {len(names)} nodes were not tainted") from None
    return ended - began


def _written(site: Site) -> int:
    """Return how many writes of faults, cases and nodes the API server has answered well."""
    text = site.plane.admin.api.get("/metrics").text
    found = (_REQUEST.match(line) for line in text.splitlines() if line.startswith("apiserver_request_total{"))
    return sum(int(float(one["count"])) for one in found if one and _is_write(dict(_LABEL.findall(one["labels"]))))


def _is_write(told: Mapping[str, str]) -> bool:
    ours = told["verb"], told["resource"], told["subresource"]
    return ours in _COUNTED and told["code"].startswith("2")


async def _all_tainted(cluster: Cluster, since: str, waiting: set[str]) -> float:
    while True:
        try:
            async for told in cluster.watch(NODES, since=since):
                since = told.version
                if told.item is not None and wears(told.item):
                    waiting.discard(told.item["metadata"]["name"])
                    if not waiting:
                        return time.monotonic()
        except Conflict:
            since = (await cluster.list(NODES)).version


# --- ten thousand nodes -----------------------------------------------------------------------------------------------


async def _fleet_rows(site: Site) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gpuward-bench-") as folder:
        async with connected(site) as cluster:
            names = await make_fleet(cluster, FLEET)
            with _controller(site, Path(folder)) as process:
                await until(lambda: is_led(cluster, names[-1]), seconds=600.0)
                await asyncio.sleep(20.0)
                memory = _memory_mb(process.pid)
            decided, rounds = await _decide(cluster, names[0])
    return [
        (f"memory of a controller of {FLEET} nodes x {GPUS} GPUs (MB)", f"{memory:.0f}", _target(memory, MEMORY_MB)),
        (
            "one decide() over a change there (ms)",
            f"p50 {decided[0] * 1000:.2f}, p99 {decided[1] * 1000:.2f}",
            _target(decided[1] * 1000, DECIDE_MS, "p99 "),
        ),
        ("a whole round there with one node that has something to decide (ms)", f"{rounds * 1000:.0f}", "-"),
    ]


async def _decide(cluster: Cluster, name: str) -> tuple[tuple[float, float], float]:
    """Run a controller here that sees the fleet, let one node fail, and time what it does then."""
    taken: list[float] = []
    terms = Terms(mode=Mode.OBSERVE, brakes=UNBRAKED)
    pace = Pace(SystemClock(), asyncio.sleep, lambda: 0.5)
    controller = Controller(cluster, pace=pace, terms=terms, tell=lambda _told: None)
    async with controller.following():
        await until(lambda: is_complete(controller), seconds=600.0)
        await cluster.create(GPU_FAULTS, write_gpu_fault(fault_of(name)))
        await asyncio.sleep(1.0)
        snapshot = await controller.look(name)
        for _ in range(200):
            began = time.perf_counter()
            decide(snapshot)
            taken.append(time.perf_counter() - began)
        rounds = []
        for _ in range(7):
            began = time.perf_counter()
            await controller.round()
            rounds.append(time.perf_counter() - began)
    return _quantiles(taken), statistics.median(rounds)


# --- how it is said --------------------------------------------------------------------------------------------------


def _quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(seconds)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]


def _said(quantiles: tuple[float, float]) -> str:
    return f"p50 {quantiles[0] * 1000:.0f}, p99 {quantiles[1] * 1000:.0f}"


def _target(measured: float, most: float, what: str = "") -> str:
    return f"{what}<= {most:g}: {'met' if measured <= most else 'not met'}"


def _least(measured: float, least: float) -> str:
    return f">= {least:g}: {'met' if measured >= least else 'not met'}"
