"""The controller killed at each of its calls while a node is lost, off, and back: the same end, nothing left."""

from typing import Any

import pytest

from gpuward.controller.loop import Controller
from gpuward.model.case import CaseState
from gpuward.model.objects.owned import FAULT_TAINT
from gpuward.model.resource import JOBS
from gpuward.ports import Cluster
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.losing import LosingFleet

FOREVER = 10_000
STEPS = 4


def a_fleet() -> LosingFleet:
    fleet = LosingFleet()
    fleet.node("gpu-1")
    fleet.answer("gpu-1")
    fleet.node("spare", taints=({"key": "gpuward.io/standby", "effect": "NoSchedule"},))
    fleet.pool()
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    return fleet


async def lived(fleet: LosingFleet, cluster: Cluster) -> None:
    """Let a node be lost, said to be off, and answer again, whoever controls; another begins where one has died."""
    begun = fleet.time.passed
    acts = {2: "lose", 22: "off", 34: "answer"}
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                _check_it_lives(controller)
                while fleet.time.passed - begun < 75 and not _is_over(fleet):
                    _act(fleet, acts, fleet.time.passed - begun)
                    await fleet.go(controller)
                await fleet.go(controller, rounds=6)
        except Died:
            continue
        return


def _check_it_lives(controller: Controller) -> None:
    if not controller.picture.is_complete:
        raise Died


def _is_over(fleet: LosingFleet) -> bool:
    return any(case.ended for case in fleet.of_nodes())


def _act(fleet: LosingFleet, acts: dict[int, str], passed: float) -> None:
    """Do what is due by now, once; a person waits until there is a case to speak of."""
    for at, what in sorted(acts.items()):
        cases = fleet.of_nodes()
        if passed < at or (what == "off" and not (cases and cases[0].state is CaseState.PARKED)):
            return
        del acts[at]
        match what:
            case "lose":
                fleet.lose("gpu-1")
            case "off":
                fleet.order(cases[0].id, what="off")
            case _:
                fleet.answer("gpu-1")


def ended(fleet: LosingFleet) -> Any:
    """Return what the fleet has come to, but for times."""
    (case,) = fleet.of_nodes()
    effects = [(effect.kind, effect.outcome) for effect in case.effects]
    return case.state, effects, case.victims, fleet.taints("gpu-1"), fleet.taints("spare"), fleet.pods()


async def undisturbed() -> tuple[int, Any]:
    fleet = a_fleet()
    cluster = MortalCluster(fleet.cluster, last=FOREVER, after=False)
    await lived(fleet, cluster)
    return cluster.calls, ended(fleet)


async def test_left_alone_it_is_emptied_returned_and_leaves_nothing() -> None:
    _, (state, effects, victims, taints, _, pods) = await undisturbed()
    assert state is CaseState.CLOSED
    assert [str(kind) for kind, _ in effects] == [
        *("taint", "promote", "notice", "evict", "clear", "verify", "untaint"),
    ]
    assert victims == ("work/train-0",)
    assert FAULT_TAINT not in taints
    assert "gpuward.io/standby" in taints, "it stands by in the place of the one that took its own"
    assert pods == []


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("part", range(STEPS))
async def test_killed_at_every_call_it_comes_to_the_same_end(after: bool, part: int) -> None:  # noqa: FBT001  a row
    calls, end = await undisturbed()
    assert calls > 40
    for last in range(1 + part, calls + 1, STEPS):
        fleet = a_fleet()
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        await lived(fleet, cluster)
        assert cluster.is_dead
        assert ended(fleet) == end, f"killed at call {last}"
