"""The front of the pretend cluster: the commands of a cluster on the fleet of the demonstration, and how it ends.

That our client gets the same answers by it as from a real server, the tests of the port ask (tests/cluster).
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from gpuward.adapters.clock import SystemClock
from gpuward.model.resource import NODES
from gpuward.ports import Unreachable
from gpuward.sim.cluster import front
from gpuward.sim.cluster.cluster import pretend_cluster
from tests.cluster.front_world import client_of

_SPEED = "6"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Give the kubeconfig of a demonstration that runs."""
    words = [sys.executable, "-m", "gpuward.sim", "fleet", "--speed", _SPEED]
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=own) as demo:
        try:
            assert demo.stdout is not None
            named = (re.search(r"status --kubeconfig (\S+)", line) for line in demo.stdout)
            yield Path(next(found[1] for found in named if found))
        finally:
            demo.kill()


def gpuward(*words: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuward", *words, "--kubeconfig", str(kubeconfig)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_drill_and_the_state_of_the_fleet_are_had_from_a_second_terminal(kubeconfig: Path) -> None:
    on_work = gpuward("drill", "node-01", "0", "48", kubeconfig=kubeconfig)
    assert on_work.returncode == 0, on_work.stdout + on_work.stderr
    assert re.search(r"a real case would wait for its work here: (serve|train)", on_work.stdout), on_work.stdout
    drill = gpuward("drill", "node-16", "5", "79", kubeconfig=kubeconfig)
    assert drill.returncode == 0, drill.stdout + drill.stderr
    assert "the drill is over as it should be" in drill.stdout
    status = gpuward("status", kubeconfig=kubeconfig)
    assert re.search(r"leader +controller-", status.stdout), status.stdout + status.stderr
    assert re.search(r"nodes +16\n", status.stdout)
    assert status.returncode in {0, 1}, "1 says that something needs a person, or is not as it should be"


def test_preflight_tells_who_lives_by_the_clock_of_the_cluster_and_each_reason_once(kubeconfig: Path) -> None:
    found = json.loads(gpuward("preflight", "--json", kubeconfig=kubeconfig).stdout)["findings"]
    assert "P-no-leader" not in {one["id"] for one in found}, "the Lease is months old by the clock of this machine"
    unseen = [one["what"] for one in found if one["id"] == "P-unseen"]
    assert len(unseen) == 1, "what is not served is named together"
    assert re.search(r"cannot read CustomResourceDefinition .* and \d+ more: the API server answers 404", unseen[0])


def test_who_looks_at_a_drill_no_longer_is_told_how_it_goes_on(kubeconfig: Path) -> None:
    words = [sys.executable, "-m", "gpuward", "drill", "node-16", "5", "79", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as drill:
        assert drill.stdout is not None
        name = drill.stdout.readline().partition(":")[0]
        drill.send_signal(signal.SIGINT)
        _, said = drill.communicate(timeout=30)
    assert drill.returncode == 130
    assert said == f"gpuward: the drill goes on: `gpuward why {name}` tells how, `gpuward release {name}` ends it\n"


async def test_who_is_connected_when_it_ends_is_told_so_and_who_comes_later_finds_nobody() -> None:
    async with front.opened(pretend_cluster(SystemClock(), asyncio.sleep)) as door:
        client = client_of(door.url)
        since = (await client.list(NODES)).version
        watch = client.watch(NODES, since=since)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.2)
        assert not waiting.done(), "the watch is open, and nothing happens"
    with pytest.raises(Unreachable):
        await waiting
    with pytest.raises(Unreachable, match="cannot be reached"):
        await client.list(NODES, deadline_seconds=2.0)
    await client.close()


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/secrets", "/apis/gpuward.io/v9/gpucases", "/api/v1/nodes/a/b/c", "/api/v1/nodes/a/log"]
)
async def test_what_is_not_served_is_not_found(path: str) -> None:
    async with front.opened(pretend_cluster(SystemClock(), asyncio.sleep)) as door, ClientSession() as session:
        answer = await session.get(f"{door.url}{path}")
        assert answer.status == 404
        assert (await answer.json())["kind"] == "Status"


_BAD = "Invalid"
TAINT = {"key": "a", "value": "1", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("operation", "code", "reason", "causes"),
    [
        (
            {"op": "add", "path": "/spec/taints", "value": [{**TAINT, "effect": "Never"}]},
            422,
            "Invalid",
            ["NotSupported"],
        ),
        ({"op": "add", "path": "/spec/taints", "value": [{**TAINT, "key": "/"}]}, 422, _BAD, ["Invalid"]),
        ({"op": "add", "path": "/spec/taints", "value": [TAINT, TAINT]}, 422, _BAD, ["Duplicate"]),
        ({"op": "test", "path": "/metadata/name", "value": "another"}, 422, _BAD, []),
        ({"op": "set", "path": "/spec", "value": {}}, 400, "BadRequest", []),
    ],
)
async def test_a_refusal_has_the_code_the_reason_and_the_causes_of_a_real_one(
    operation: dict[str, Any], code: int, reason: str, causes: list[str]
) -> None:
    async with front.opened(pretend_cluster(SystemClock(), asyncio.sleep)) as door, ClientSession() as session:
        nodes = f"{door.url}/api/v1/nodes"
        body = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
        assert (await session.post(nodes, json=body)).status == 201
        again = await session.post(nodes, json=body)
        assert (again.status, (await again.json())["reason"]) == (409, "AlreadyExists")
        content = {"Content-Type": "application/json-patch+json"}
        answer = await session.patch(f"{nodes}/n1", data=json.dumps([operation]), headers=content)
        said = await answer.json()
        assert (answer.status, said["code"], said["reason"]) == (code, code, reason)
        found = said["details"].get("causes", [])
        assert [one["reason"] for one in found] == [f"FieldValue{word}" for word in causes]
        assert all(one["field"].startswith("metadata.taints[") for one in found)


async def test_what_makes_no_sense_is_a_bad_request() -> None:
    async with front.opened(pretend_cluster(SystemClock(), asyncio.sleep)) as door, ClientSession() as session:
        for answer in (
            await session.get(f"{door.url}/api/v1/nodes?limit=many"),
            await session.get(f"{door.url}/api/v1/nodes?watch=true&timeoutSeconds=soon"),
            await session.post(f"{door.url}/api/v1/nodes", data=b"{"),
        ):
            assert answer.status == 400
