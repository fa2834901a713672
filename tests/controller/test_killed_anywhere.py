"""The controller killed at each of its calls, before it and after it: the same end, nothing twice, nothing left."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from gpuward.controller.loop import Controller
from gpuward.controller.promote import RESERVED_SECONDS
from gpuward.model.case import CaseState, EffectKind
from gpuward.model.objects.gpu_case import as_case
from gpuward.model.resource import GPU_CASES, JOBS, STANDBY_POOLS
from gpuward.ports import Cluster
from gpuward.sim.cluster.weather import Odds, SeededWeather, Weather
from gpuward.sim.fleet.mortal import Died, MortalCluster
from tests.controller.fleet import Fleet
from tests.kit.merging import GPU_A, GPU_B

ROUNDS = 26
SPARES = ("spare-1", "spare-2", "spare-3")
FOREVER = 10_000
OBSTACLE = "It fell off the bus: only a reboot brings it back."


def a_fleet(weather: Weather | None = None) -> tuple[Fleet, dict[str, str]]:
    """Return a fleet with a P0 that parks, one that is repaired, a P1 that waits, a standby, and a false alarm."""
    fleet = Fleet(weather=weather)
    for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
        fleet.node(name)
    for name in SPARES:
        fleet.node(name, taints=({"key": "gpuward.io/standby", "effect": "NoSchedule"},))
    fleet.pool(size=len(SPARES))
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    fleet.pod("train-0", "gpu-1", ownerReferences=fleet.owner(JOBS, "train"))
    fleet.pod("web-0", "gpu-1", gpus=0)
    fleet.pod("train-1", "gpu-2")
    fleet.pod("train-2", "gpu-3")
    faults = {
        "parked": fleet.fault(79, "gpu-1"),
        "repaired": fleet.fault(48, "gpu-2"),
        "waits": fleet.fault(31, "gpu-3", pci=GPU_A),
        "false": fleet.fault(48, "gpu-4", pci=GPU_B),
    }
    fleet.agents["gpu-4"].silent = True
    return fleet, faults


def check_it_lives(controller: Controller) -> None:
    """Raise Died when it ended while it looked at the cluster for the first time."""
    if not controller.picture.is_complete:
        raise Died


async def lived(fleet: Fleet, faults: Mapping[str, str], cluster: Cluster) -> None:
    """Let the fleet live with a controller on `cluster`, and with another from when that dies."""
    for number in range(2):
        try:
            async with fleet.running(cluster if number == 0 else fleet.cluster) as controller:
                check_it_lives(controller)
                for _ in range(ROUNDS):
                    fleet_has_fenced = fleet.taint("gpu-4") is not None
                    if fleet_has_fenced and fleet.agents["gpu-4"].silent:
                        fleet.take_back(faults["false"])
                        fleet.agents["gpu-4"].silent = False
                    await fleet.go(controller)
                await fleet.time.pass_by(RESERVED_SECONDS)
                await fleet.go(controller, rounds=3)
        except Died:
            continue
        return


def ended(fleet: Fleet, faults: Mapping[str, str]) -> Any:
    """Return what the fleet has come to, but for times."""
    cases = {
        name: (case.state, [(one.kind, one.outcome) for one in case.effects], case.victims)
        for name, case in ((name, fleet.case(fault)) for name, fault in faults.items())
    }
    nodes = {
        name: (fleet.taints(name), fleet.pods(name), sorted(agent.drained), fleet.orders(name))
        for name, agent in fleet.agents.items()
    }
    notes = {
        name: fleet.get_node(name)["metadata"]["annotations"].get("gpuward.io/owned") for name in sorted(fleet.agents)
    }
    promoted = sorted(one["node"] for one in fleet.get(STANDBY_POOLS, "h100")["status"]["promoted"])
    judged = {name: fleet.judged_case(fault) for name, fault in faults.items()}
    return cases, nodes, notes, promoted, judged


def check_nothing_twice(fleet: Fleet) -> None:
    """Raise AssertionError when an order was done twice, or a GPU was reset more than once."""
    for agent in fleet.agents.values():
        assert len(agent.done) == len(set(agent.done))
        assert Counter(what for _, what in agent.done)[EffectKind.RESET] <= 1


async def undisturbed() -> tuple[int, Any]:
    fleet, faults = a_fleet()
    cluster = MortalCluster(fleet.cluster, last=FOREVER, after=False)
    await lived(fleet, faults, cluster)
    check_nothing_twice(fleet)
    return cluster.calls, ended(fleet, faults)


async def test_left_alone_each_comes_to_its_end() -> None:
    fleet, faults = a_fleet()
    await lived(fleet, faults, fleet.cluster)
    states = {name: fleet.case(fault).state for name, fault in faults.items()}
    assert states == {
        "parked": CaseState.PARKED,
        "repaired": CaseState.CLOSED,
        "waits": CaseState.FENCED,
        "false": CaseState.WITHDRAWN,
    }
    assert [fleet.taint(name) for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4")] == ["xid-79", None, "xid-31", None]
    assert fleet.pods("gpu-3") == ["work/train-2"]
    for name in SPARES:
        assert not {"gpuward.io/standby", "gpuward.io/reserved-for"} & set(fleet.taints(name))
    assert len(fleet.server.list(GPU_CASES).items) == len(faults)


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(6))
async def test_through_bad_weather_it_comes_to_the_same_ends(seed: int) -> None:
    odds = Odds(lost=0.05, unanswered=0.05, late=0.05, conflict=0.1, slow=0.2, breaks=0.3, longest_watch_seconds=30.0)
    weather = SeededWeather(seed, odds)
    fleet, faults = a_fleet(weather)
    await lived(fleet, faults, fleet.cluster)
    weather.odds = Odds()
    await lived(fleet, faults, fleet.cluster)
    assert {name: fleet.case(fault).state for name, fault in faults.items()} == {
        "parked": CaseState.PARKED,
        "repaired": CaseState.CLOSED,
        "waits": CaseState.FENCED,
        "false": CaseState.WITHDRAWN,
    }
    assert [fleet.taint(name) for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4")] == ["xid-79", None, "xid-31", None]
    check_nothing_twice(fleet)
    assert len(fleet.server.list(GPU_CASES).items) == len(faults)


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("part", range(4))
async def test_killed_at_every_call_it_comes_to_the_same_end(after: bool, part: int) -> None:  # noqa: FBT001  a row
    calls, end = await undisturbed()
    assert calls > 60
    for last in range(1 + part, calls + 1, 4):
        fleet, faults = a_fleet()
        cluster = MortalCluster(fleet.cluster, last=last, after=after)
        await lived(fleet, faults, cluster)
        assert cluster.is_dead
        assert ended(fleet, faults) == end, f"killed at call {last}"
        check_nothing_twice(fleet)
        assert len(fleet.server.list(GPU_CASES).items) == len(faults)
        assert all(as_case(one).drill is None for one in fleet.gpu_cases())
