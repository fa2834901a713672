"""A thousand faults at once on the real API server, and the leader killed among them: none is lost.

First the brakes are as they are without settings, and hold most of it; then a person has opened them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpuward.adapters.kubernetes import KubernetesCluster, from_kubeconfig
from gpuward.cli.manifests.installation import CONTROLLER
from gpuward.isolation.fleet import FleetBrake
from gpuward.model.resource import EVENTS, GPU_CASES, GPU_FAULTS, GPU_NODES, NODES, Resource
from gpuward.ports import Cluster
from tests.install.site import Site, gpu_fault, gpu_node, node_status, path_of
from tests.kit import ward
from tests.kit.nursery import Child, Nursery, nursery
from tests.kit.ward import SLOWEST_SECONDS
from tests.together.test_node_and_controller import KEY

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.xdist_group("controllers")]
GPUS = ("0000:18:00", "0000:3b:00", "0000:86:00", "0000:af:00")
NAMES = [f"gpu-{number:04d}" for number in range(250)]
FAULTS = len(NAMES) * len(GPUS)
KILLED_AT = FAULTS // 4
"""At so many cases the leader is killed."""
LEASE_SECONDS = 6
"""A leader that has a thousand cases to write on a busy machine must not lose its lease over it."""
_OPEN = "\n".join(
    ["[brake]", "share = 1.0", *(f"[brake.{what}]\nleast = 1000000" for what in ("pool", "rack", "kind")), ""]
)
until = partial(ward.until, seconds=180.0, every_seconds=0.5)


@dataclass(frozen=True, slots=True)
class Storm:
    """The fleet, and who works on it."""

    site: Site
    folder: Path
    place: Nursery

    def controller(self, settings: str) -> Child:
        """Start a controller in mode isolate with these settings."""
        chosen = self.folder / f"{len(self.place.born)}.toml"
        chosen.write_text(settings, "utf-8")
        user = self.site.account(CONTROLLER)
        words = ("controller", "--mode", "isolate", "--lease-seconds", str(LEASE_SECONDS), "--config", str(chosen))
        return self.place.bear([*words, "--kubeconfig", str(user.kubeconfig)])

    def all(self, resource: Resource) -> dict[str, Any]:
        """Return all objects of a kind by name."""
        items = self.site.api.get(path_of(resource)).ok()["items"]
        return {one["metadata"]["name"]: one for one in items}

    def count(self, resource: Resource) -> int:
        """Return how many objects of a kind there are, without reading them."""
        page = self.site.api.get(f"{path_of(resource)}?limit=1").ok()
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    def tainted(self) -> set[str]:
        """Return the nodes that wear our taint."""
        worn = {name: one["spec"].get("taints", ()) for name, one in self.all(NODES).items()}
        return {name for name, taints in worn.items() if any(map(is_ours, taints))}


def is_ours(taint: Mapping[str, str]) -> bool:
    return (taint["key"], taint.get("value")) == (KEY, "xid-48")


def gpu(pci: str) -> dict[str, object]:
    """Return what an agent tells of a GPU that is well."""
    sight = {"present": True, "lost": False, "work": [], "display": False}
    uuid = f"GPU-{pci.replace(':', '-')}"
    return {"pci": pci, "state": "active", "health": "healthy", "sight": sight, "uuid": uuid}


def a_fault(name: str, number: int) -> dict[str, Any]:
    """Return a fault of a GPU that came now."""
    moment = {"wall": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}  # noqa: TID251  an agent has a clock of its own
    return gpu_fault(name, f"k{number}", code=48, title="Xid 48", gpu=GPUS[number], first=moment, last=moment)


def at_once(site: Site, *asked: Callable[[Cluster], Any]) -> None:
    """Ask the server for all of this at the same time."""

    async def work() -> None:
        cluster = KubernetesCluster(await from_kubeconfig(str(site.plane.admin.kubeconfig)))
        try:
            await asyncio.gather(*(one(cluster) for one in asked))
        finally:
            await cluster.close()

    asyncio.run(work())


def create(resource: Resource, body: Mapping[str, Any]) -> Callable[[Cluster], Any]:
    return lambda cluster: cluster.create(resource, body, deadline_seconds=SLOWEST_SECONDS)


def tell(name: str) -> Callable[[Cluster], Any]:
    """Let the agent of a node tell of its GPUs."""
    status = [{"op": "add", "path": "/status", "value": node_status(gpus=[gpu(pci) for pci in GPUS])}]
    return lambda cluster: cluster.patch(
        GPU_NODES, name, status, subresource="status", deadline_seconds=SLOWEST_SECONDS
    )


@pytest.fixture
def storm(site: Site, tmp_path: Path) -> Iterator[Storm]:
    """Give a fleet that is well, and nobody who works on it."""
    at_once(site, *(create(NODES, {"metadata": {"name": name}}) for name in NAMES))
    at_once(site, *(create(GPU_NODES, gpu_node(name)) for name in NAMES))
    at_once(site, *map(tell, NAMES))
    with nursery(tmp_path / "controllers.log") as place:
        yield Storm(site, tmp_path, place)
    # All of a kind at once: one by one would take longer than the test.
    for resource in (GPU_CASES, GPU_FAULTS, GPU_NODES, NODES):
        site.api.delete(path_of(resource)).ok()
    site.api.delete(path_of(EVENTS, namespace="default")).ok()


def test_of_a_thousand_faults_at_once_none_is_lost(storm: Storm) -> None:
    first = storm.controller("")
    until(lambda: all("spec" in one for one in storm.all(GPU_NODES).values()), "the fleet is known")
    second = storm.controller("")
    faults = [a_fault(name, number) for number in range(len(GPUS)) for name in NAMES]
    at_once(storm.site, *(create(GPU_FAULTS, one) for one in faults))
    until(lambda: storm.count(GPU_CASES) >= KILLED_AT, "the first cases are opened")
    first.kill()
    cases = {f"c-{one['metadata']['name']}": one for one in faults}
    until(lambda: all_judged(storm) and all_told(storm), "every fault is judged, and every case tells of itself")
    assert second.lives()
    found = storm.all(GPU_CASES)
    assert {name: one["spec"]["fault"] for name, one in found.items()} == {
        name: one["metadata"]["name"] for name, one in cases.items()
    }
    assert {judged_by(one) for one in storm.all(GPU_FAULTS).values()} == cases.keys()
    held_as_configured(storm, found)

    second.kill()
    third = storm.controller(_OPEN)
    until(lambda: {one["status"]["state"] for one in storm.all(GPU_CASES).values()} == {"fenced"}, "all are fenced")
    assert storm.tainted() == set(NAMES)
    until(lambda: all(map(is_to_drain, storm.all(GPU_NODES).values())), "every agent has its orders")
    assert storm.all(GPU_CASES).keys() == cases.keys(), "none has come twice"
    assert third.lives()


def all_judged(storm: Storm) -> bool:
    return all(judged_by(one) for one in storm.all(GPU_FAULTS).values())


def judged_by(fault: Mapping[str, Any]) -> str:
    """Return the case that works on a fault."""
    return str(fault.get("status", {}).get("judged", {}).get("case", ""))


def all_told(storm: Storm) -> bool:
    found = storm.all(GPU_CASES)
    return len(found) == FAULTS and all("because" in one.get("status", {}) for one in found.values())


def held_as_configured(storm: Storm, cases: Mapping[str, Any]) -> None:
    """Ask that the brake has let no more nodes be taken out than it may, and that all others say that it holds."""
    tainted = storm.tainted()
    assert 1 <= len(tainted) <= FleetBrake().most(len(NAMES))
    others = [one["status"] for one in cases.values() if one["spec"]["node"] not in tainted]
    assert {one["state"] for one in others} == {"suspect"}
    assert all("Held by the brake" in one["because"] for one in others)
    assert not any(is_to_drain(one) for name, one in storm.all(GPU_NODES).items() if name not in tainted)


def is_to_drain(node: Mapping[str, Any]) -> bool:
    """Return whether an agent is asked to drain each of its GPUs, each once."""
    orders = node.get("spec", {}).get("orders", ())
    return sorted(one["pci"] for one in orders if one["what"] == "drain") == sorted(GPUS)
