"""A pool's terms on a pretend fleet: its mode, its brakes, its budget, and the node that people keep out of it."""

from collections import Counter
from dataclasses import replace

import pytest

from gpuward.controller.terms import Terms
from gpuward.isolation.budget import Budget
from gpuward.isolation.fleet import FleetBrake, FleetBrakes
from gpuward.model.case import CaseState, Mode
from gpuward.model.resource import GPU_NODES, NODES
from gpuward.settings.pools import PoolTerms
from tests.controller.fleet import REPAIRING, Fleet

POOLED = FleetBrakes(
    pool=FleetBrake(share=0.25, least=2, window_seconds=60.0), rack=FleetBrake(least=99), kind=FleetBrake(least=99)
)


def a_fleet(nodes: int = 8, *, labels: tuple[str, ...] = (), **terms: object) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))  # type: ignore[arg-type]  # the test names fields of Terms
    for number in range(nodes):
        fleet.node(f"gpu-{number}")
        fleet.label(f"gpu-{number}", "pool", labels[number] if number < len(labels) else "other")
    return fleet


def states(fleet: Fleet) -> Counter[CaseState]:
    return Counter(one.status.state if one.status else one.spec.state for one in fleet.gpu_cases())


async def test_more_sick_nodes_than_a_pool_may_have_are_held_and_let_through_one_by_one() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE, brakes=POOLED)
    async with fleet.running() as controller:
        for number in range(5):
            fleet.fault(79, f"gpu-{number}")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=10)
        tainted = [name for name in fleet.agents if fleet.taint(name)]
        assert len(tainted) == 1, "all at once are doubted: one is a trial"
        assert states(fleet)[CaseState.SUSPECT] == 4
        (because,) = {
            one.status.because for one in fleet.gpu_cases() if one.status and one.status.state is CaseState.SUSPECT
        }
        assert because.startswith(
            "Held by the brake: of the 8 nodes of pool default more than 2 look sick within 1 min"
        )
        held = fleet.get(GPU_NODES, "gpu-7")["spec"]["held"]
        assert "more than 2 look sick" in held, "agents alone are held too"
        await fleet.go(controller, rounds=65)
        assert sum(bool(fleet.taint(name)) for name in fleet.agents) == 2


async def test_each_that_comes_alone_within_the_share_is_taken_out_at_once() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE, brakes=POOLED)
    async with fleet.running() as controller:
        for number in range(3):
            fleet.fault(79, f"gpu-{number}")
            await fleet.time.pass_by(0.1)
            await fleet.go(controller, rounds=3)
        assert [bool(fleet.taint(f"gpu-{number}")) for number in range(3)] == [True, True, False]


async def test_when_fewer_look_sick_the_brake_lets_go_and_agents_are_told() -> None:
    fleet = a_fleet(mode=Mode.ISOLATE, brakes=POOLED)
    async with fleet.running() as controller:
        faults = [fleet.fault(79, f"gpu-{number}") for number in range(4)]
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        assert fleet.get(GPU_NODES, "gpu-7")["spec"].get("held")
        waiting = [one for one in faults if fleet.case_state(one) is CaseState.SUSPECT]
        for one in waiting:
            fleet.take_back(one)
        await fleet.go(controller, rounds=65)
        assert states(fleet)[CaseState.WITHDRAWN] == 3
        assert not fleet.get(GPU_NODES, "gpu-7")["spec"].get("held")


async def test_a_recovery_passes_a_brake_that_holds() -> None:
    fleet = a_fleet(brakes=POOLED)
    async with fleet.running() as controller:
        first = fleet.fault(48, "gpu-0")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
        for number in range(1, 5):
            fleet.fault(79, f"gpu-{number}")
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, first, CaseState.CLOSED)
        assert fleet.taint("gpu-0") is None


async def test_a_pool_goes_as_far_as_its_own_mode() -> None:
    pools = (PoolTerms("training", {"pool": "training"}, mode=Mode.ISOLATE, brake=REPAIRING.brake),)
    fleet = a_fleet(2, labels=("training",), mode=Mode.OBSERVE, pools=pools)
    async with fleet.running() as controller:
        for number in range(2):
            fleet.fault(79, f"gpu-{number}")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
    assert fleet.taint("gpu-0") == "xid-79"
    assert fleet.taint("gpu-1") is None
    assert [fleet.get(GPU_NODES, f"gpu-{number}")["spec"]["mode"] for number in range(2)] == ["isolate", "observe"]


async def test_a_node_that_people_keep_out_is_only_observed() -> None:
    fleet = a_fleet(1, mode=Mode.REPAIR)
    fleet.label("gpu-0", "gpuward.io/mode", "observe")
    async with fleet.running() as controller:
        fault = fleet.fault(79, "gpu-0")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        assert fleet.case(fault).because.startswith("In mode observe")
        assert fleet.taint("gpu-0") is None
        fleet.label("gpu-0", "gpuward.io/mode", "repair")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.taint("gpu-0") == "xid-79"


async def test_a_budget_counts_the_gpus_of_its_pool_and_of_no_other() -> None:
    pools = (
        PoolTerms("a", {"pool": "a"}, mode=Mode.ISOLATE, budget=Budget(gpus=1), brake=REPAIRING.brake),
        PoolTerms("b", {"pool": "b"}, mode=Mode.ISOLATE, budget=Budget(gpus=1), brake=REPAIRING.brake),
    )
    fleet = a_fleet(3, labels=("a", "a", "b"), pools=pools)
    async with fleet.running() as controller:
        for number in range(3):
            fleet.fault(79, f"gpu-{number}")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
    assert [bool(fleet.taint(f"gpu-{number}")) for number in range(3)] == [True, False, True]
    (held,) = [one for one in fleet.gpu_cases() if one.spec.node == "gpu-1"]
    assert held.status is not None
    assert held.status.because == "Held by the budget: 1 GPU is out of service, and the budget is 1"


@pytest.mark.parametrize("labels", [(), ("training",)])
async def test_a_node_that_changes_its_pool_goes_by_the_new_one(labels: tuple[str, ...]) -> None:
    pools = (PoolTerms("training", {"pool": "training"}, mode=Mode.ISOLATE),)
    fleet = a_fleet(1, labels=labels, mode=Mode.OBSERVE, pools=pools)
    async with fleet.running() as controller:
        await fleet.go(controller, rounds=2)
        assert fleet.get(GPU_NODES, "gpu-0")["spec"]["mode"] == ("isolate" if labels else "observe")
        fleet.label("gpu-0", "pool", "other" if labels else "training")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=2)
        assert fleet.get(GPU_NODES, "gpu-0")["spec"]["mode"] == ("observe" if labels else "isolate")
        assert fleet.get(NODES, "gpu-0")["metadata"]["labels"]["pool"] == ("other" if labels else "training")


def test_terms_that_are_changed_count_for_a_node_of_no_pool() -> None:
    terms = replace(Terms(mode=Mode.REPAIR), probation_seconds=7.0, mode=Mode.ISOLATE)
    assert (terms.of({}).mode, terms.of({}).probation_seconds) == (Mode.ISOLATE, 7.0)
