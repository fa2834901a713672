"""A person pauses the fleet: nothing new is taken out until the word to go on, and what was begun goes on."""

from gpuward.model.case import CaseState
from gpuward.model.objects.pause import PAUSE, Pause, pause_object, write_pause
from gpuward.model.resource import CONFIG_MAPS, NODES
from tests.controller.fleet import Fleet

HELD = "paused by alice since 2026-09-21 14:15:00 UTC: a new driver; `gpuward resume` goes on"


def paused(fleet: Fleet) -> None:
    pause = Pause(on=True, by="alice", at=1_790_000_100.0, because="a new driver")
    if fleet.server.get(CONFIG_MAPS, PAUSE, namespace="gpuward") is None:
        fleet.server.create(CONFIG_MAPS, pause_object(pause), namespace="gpuward")
        return
    operation = {"op": "add", "path": "/data", "value": write_pause(pause)}
    fleet.server.patch(CONFIG_MAPS, PAUSE, [operation], namespace="gpuward")


def resumed(fleet: Fleet) -> None:
    fleet.server.patch(CONFIG_MAPS, PAUSE, [{"op": "remove", "path": "/data"}], namespace="gpuward")


async def test_nothing_new_is_isolated_until_the_word_to_go_on() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    paused(fleet)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.go(controller, rounds=20)
        case = fleet.case(fault)
        assert (case.state, case.effects, fleet.taint()) == (CaseState.SUSPECT, (), None)
        assert HELD in case.because
        resumed(fleet)
        await fleet.until(controller, lambda: fleet.taint() == "xid-48")


async def test_what_was_begun_goes_on_to_its_end() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.pod("train-0")
    async with fleet.running() as controller:
        first = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() is not None)
        paused(fleet)
        case = await fleet.settled(controller, first, CaseState.CLOSED)
        assert case.because == "Returned to service."
        assert fleet.taint() is None
        second = fleet.fault(79)
        await fleet.go(controller, rounds=5)
        assert fleet.case_state(second) is CaseState.SUSPECT


async def test_a_controller_that_has_not_seen_whether_it_is_paused_takes_nothing_out() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    paused(fleet)
    fault = fleet.fault(48)
    controller = fleet.controller()
    for mirror in controller.picture.mirrors[:-1]:
        await fleet.time.run(mirror._list())  # noqa: SLF001  all but the pause
    await fleet.time.run(controller.round())
    assert fleet.case_state(fault) is None
    assert "gpuward.io/owned" not in fleet.get(NODES, "gpu-1")["metadata"]["annotations"]


async def test_another_object_of_that_name_elsewhere_pauses_nothing() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    fleet.server.create(CONFIG_MAPS, pause_object(Pause(on=True, by="mallory")), namespace="work")
    async with fleet.running() as controller:
        fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() == "xid-48")
