"""The label that keeps an agent on its node: on nodes whose GPUs were seen, as long as gpuward is there."""

from dataclasses import replace

from gpuward.model.case import Mode
from gpuward.model.objects.owned import GPUS, Label, read_owned
from gpuward.model.resource import NODES
from tests.controller.fleet import REPAIRING, Fleet

PATH = f"/metadata/labels/{GPUS.replace('/', '~1')}"


def a_fleet(mode: Mode = Mode.ISOLATE) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, mode=mode))
    for name in ("gpu-1", "gpu-2"):
        fleet.node(name, gpus=() if name == "gpu-2" else ("0000:3b:00",))
        fleet.server.patch(NODES, name, [{"op": "remove", "path": PATH}])
    return fleet


def label(fleet: Fleet, node: str = "gpu-1") -> str | None:
    found: str | None = fleet.get(NODES, node)["metadata"]["labels"].get(GPUS)
    return found


async def test_a_node_whose_agent_has_seen_gpus_is_marked_with_a_note_and_others_are_not() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=3)
    assert (label(fleet), label(fleet, "gpu-2")) == ("present", None)
    assert read_owned(fleet.get(NODES, "gpu-1")).labels == {GPUS: Label("present", None)}


async def test_it_stays_when_the_gpus_vanish() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        fleet.agents["gpu-1"].gpus = ()
        await fleet.go(controller, rounds=3)
    assert label(fleet) == "present"


async def test_one_that_a_person_took_off_is_not_put_back() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        fleet.server.patch(NODES, "gpu-1", [{"op": "remove", "path": PATH}])
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
    assert label(fleet) is None


async def test_in_mode_observe_no_node_is_marked() -> None:
    fleet = a_fleet(Mode.OBSERVE)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=3)
    assert label(fleet) is None


async def test_a_node_that_is_marked_already_is_written_no_more() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        version = fleet.get(NODES, "gpu-1")["metadata"]["resourceVersion"]
        await fleet.go(controller, rounds=5)
    assert fleet.get(NODES, "gpu-1")["metadata"]["resourceVersion"] == version
