"""What a controller and agents cost on a real API server: line to taint, a fleet at once, memory. Nothing is asserted.

The API server, etcd and all clients share the processors of this machine, so that every figure stands beside what the
bare server does in the same run.
"""

import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_rows import Row, _cpu_seconds, _memory_mb
from cluster_site import (
    AT_ONCE,
    are_known,
    connected,
    fault_of,
    is_complete,
    is_led,
    make_fleet,
    patch_rate,
    same_writes_rate,
    spread,
    until,
    wears,
)
from figures import at_least, at_most, quantiles
from gpu_server import GPUS
from line_rows import line_rows
from programs import controlling

from gpuward.adapters.clock import SystemClock
from gpuward.controller.loop import Controller
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.isolation.decide import decide
from gpuward.isolation.fleet import UNBRAKED
from gpuward.model.case import Mode
from gpuward.model.objects.gpu_fault import write_gpu_fault
from gpuward.model.resource import GPU_FAULTS, NODES
from gpuward.ports import Cluster, Conflict

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))  # the real control plane is the tests' kit

from tests.install.site import Site, installed  # noqa: E402  only from there
from tests.kit.controlplane.binaries import Unbuilt, find_binaries  # noqa: E402
from tests.kit.controlplane.plane import FIRST, ControlPlane  # noqa: E402

STORM = 1_000
FLEET = 10_000
RATE_SHARE = 0.7
BEAT_SECONDS = 300.0
"""How often a kubelet writes the status of its node where nothing has changed: its nodeStatusReportFrequency."""
BEATING_SECONDS = 15.0
RESTING = 0.1
"""Seconds of CPU a second: what a controller that has nothing to do stays below."""
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


def cluster_rows() -> Iterator[Row]:
    """Measure on a control plane of its own; yield the rows of the table, none where there is no control plane."""
    try:
        binaries = find_binaries(FIRST)
    except Unbuilt as error:
        sys.stderr.write(f"nothing is measured on a control plane: {error}\n")
        return
    with ControlPlane(binaries) as plane, installed(plane) as site:
        yield from line_rows(site)
    with ControlPlane(binaries) as plane, installed(plane) as site:
        yield from asyncio.run(_storm_rows(site))
    with ControlPlane(binaries) as plane, installed(plane) as site:
        yield from asyncio.run(_fleet_rows(site))


# --- a thousand nodes at once -----------------------------------------------------------------------------------------


async def _storm_rows(site: Site) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gpuward-bench-") as folder:
        async with connected(site) as cluster:
            names = await make_fleet(cluster, STORM)
            rate = await patch_rate(cluster, names)
            same = await same_writes_rate(cluster, names)
            with controlling(site, Path(folder)):
                await until(lambda: are_known(cluster), seconds=600.0)
                before = _written(site)
                took = await _storm(cluster, names)
                written = _written(site) - before
    writes, ours = written / STORM, written / took
    return [
        (f"{STORM} nodes fail at once -> all tainted (s)", f"{took:.1f}", "-"),
        (f"bare PATCHes a second of that server, {AT_ONCE} at once", f"{rate:.0f}", "-"),
        ("writes of faults, cases and nodes until all are tainted, each node", f"{writes:.2f}", at_most(writes, 3)),
        (
            "writes a second of the storm / bare PATCHes a second",
            f"{ours / rate:.2f}",
            at_least(ours / rate, RATE_SHARE),
        ),
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
            with controlling(site, Path(folder)) as process:
                await until(lambda: is_led(cluster, names[-1]), seconds=600.0)
                await until(lambda: _rests(process.pid), seconds=600.0)
                memory = _memory_mb(process.pid)
                used, beats = _cpu_seconds(process.pid), FLEET / BEAT_SECONDS
                await _beat(cluster, names, beats)
                used = (_cpu_seconds(process.pid) - used) / BEATING_SECONDS
            decided, rounds = await _decide(cluster, names[0])
    return [
        (f"memory of a controller of {FLEET} nodes x {GPUS} GPUs (MB)", f"{memory:.0f}", at_most(memory, MEMORY_MB)),
        (
            "one decide() over a change there (ms)",
            f"p50 {decided[0] * 1000:.2f}, p99 {decided[1] * 1000:.2f}",
            at_most(decided[1] * 1000, DECIDE_MS, "p99 "),
        ),
        (
            f"CPU of that controller while {beats:.0f} kubelets a second write their node's status (ms/s)",
            f"{used * 1000:.0f}",
            "-",
        ),
        ("a whole round there with one node that has something to decide (ms)", f"{rounds * 1000:.0f}", "-"),
    ]


async def _rests(pid: int) -> bool:
    """Return whether the controller has nothing left to do: it writes a label on each node that it comes to know."""
    used = _cpu_seconds(pid)
    await asyncio.sleep(3.0)
    return (_cpu_seconds(pid) - used) / 3.0 < RESTING


async def _beat(cluster: Cluster, names: Sequence[str], rate: float) -> None:
    """Let kubelets write when they last looked, so many a second."""
    for number in range(int(rate * BEATING_SECONDS)):
        at = f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z"
        beat = {"op": "add", "path": "/status/conditions/3/lastHeartbeatTime", "value": at}
        began = time.monotonic()
        await cluster.patch(NODES, names[number % len(names)], [beat], subresource="status")
        await asyncio.sleep(max(0.0, began + 1 / rate - time.monotonic()))


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
    return quantiles(taken), statistics.median(rounds)
