"""A clock that is set, an hour ahead or back, ends no wait early, and makes none longer; nor does another leader's."""

import dataclasses
from typing import Any

import pytest

from gpuward.controller.steady import CATCH_UP, MOST_SECONDS, SteadyClock
from gpuward.model.case import CaseState, EffectKind
from gpuward.model.objects.standby_pool import read_standby_pool
from gpuward.model.resource import JOBS, STANDBY_POOLS
from tests.controller.fleet import REPAIRING, Fleet
from tests.controller.losing import LOSING, LosingFleet
from tests.controller.test_notices import Jobs
from tests.kit.merging import GPU_A
from tests.kit.pretend_time import PretendTime, SetClock

HOUR = 3600.0
RESERVED = "gpuward.io/reserved-for"
jumps = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["ahead", "back"])


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=dataclasses.replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    return fleet


def kept_fleet() -> Fleet:
    """Return a fleet whose only standby will be kept for a job."""
    fleet = a_fleet()
    fleet.agents["gpu-1"].obstacles[GPU_A] = "It fell off the bus."
    fleet.node("spare", taints=({"key": "gpuward.io/standby", "effect": "NoSchedule"},))
    fleet.pool()
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    return fleet


@jumps
async def test_a_standby_is_kept_for_five_minutes(jump: float) -> None:
    fleet = kept_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
        fleet.clock.set(jump)
        await fleet.go(controller)
        await fleet.time.pass_by(250)
        await fleet.go(controller)
        assert RESERVED in fleet.taints("spare")
        await fleet.time.pass_by(60)
        await fleet.go(controller)
    assert RESERVED not in fleet.taints("spare")
    (given,) = (read_standby_pool(fleet.get(STANDBY_POOLS, "h100")).status or pytest.fail("no status")).promoted
    assert given.freed_at is not None


@jumps
async def test_pods_have_until_their_deadline_and_no_longer(jump: float) -> None:
    fleet = a_fleet()
    fleet.pod("train-0", ownerReferences=fleet.owner(JOBS, "train"))
    fleet.frozen_pods.add("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.EVACUATING)
        fleet.clock.set(jump)
        await fleet.go(controller, rounds=20)
        assert fleet.case_state(fault) is CaseState.EVACUATING
        await fleet.go(controller, rounds=15)
    assert fleet.case_state(fault) is CaseState.PARKED


@jumps
async def test_a_job_that_is_told_has_its_time_to_save(jump: float) -> None:
    fleet = Jobs()
    fleet.job("train", ("gpu-1",))
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.SAVING)
        await fleet.go(controller, rounds=3)
        fleet.clock.set(jump)
        await fleet.go(controller, rounds=20)
        assert fleet.pods() == ["work/train-0"]
        await fleet.go(controller, rounds=20)
    assert fleet.pods() == []


@jumps
async def test_probation_lasts_as_long_as_it_is_set(jump: float) -> None:
    fleet = a_fleet(probation_seconds=20.0)
    async with fleet.running() as controller:
        fault = fleet.fault(48)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.PROBATION)
        fleet.clock.set(jump)
        await fleet.go(controller, rounds=12)
        assert fleet.case_state(fault) is CaseState.PROBATION
        await fleet.go(controller, rounds=15)
    assert fleet.case_state(fault) is CaseState.CLOSED
    assert [what for _, what in fleet.agents["gpu-1"].done].count(EffectKind.RESET) == 1


@jumps
async def test_a_node_is_lost_after_its_whole_time_without_an_answer(jump: float) -> None:
    fleet = LosingFleet()
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        fleet.node(name)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        await fleet.lived(controller, 2)
        fleet.lose("gpu-1")
        fleet.clock.set(jump)
        await fleet.lived(controller, LOSING.lost_seconds - 1)
        assert fleet.gpu_cases() == []
        await fleet.lived(controller, 4)
    assert len(fleet.of_nodes()) == 1


async def test_who_leads_next_waits_no_hour_when_its_clock_is_behind_that_of_who_led_before() -> None:
    fleet = kept_fleet()
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
    fleet.clock.set(-HOUR)
    async with fleet.running() as controller:
        await fleet.go(controller)
        assert RESERVED in fleet.taints("spare")
        await fleet.time.pass_by(310)
        await fleet.go(controller)
    assert RESERVED not in fleet.taints("spare")


@jumps
def test_it_goes_on_as_time_does_and_comes_back_to_the_clock(jump: float) -> None:
    time = PretendTime()
    real = SetClock(time)
    clock = SteadyClock(real)
    begun = clock.now()
    real.set(jump)
    for _ in range(60):
        time.sleep(1.0)
        clock.now()
    assert clock.now() - begun == pytest.approx(60, abs=60 * CATCH_UP + 0.001)
    time.sleep(HOUR / CATCH_UP)
    assert clock.now() == pytest.approx(real.now())


def test_a_clock_that_is_slewed_is_followed() -> None:
    time = PretendTime()
    real = SetClock(time)
    clock = SteadyClock(real)
    for _ in range(100):
        time.sleep(1.0)
        real.set(0.0005)
        assert clock.now() == pytest.approx(real.now(), abs=1e-6)


def test_a_time_that_no_controller_wrote_is_not_followed() -> None:
    clock = SteadyClock(PretendTime())
    now = clock.now()
    clock.reach([now - 5.0, now + MOST_SECONDS + 60.0])
    assert clock.now() == now
    clock.reach([now + 60.0])
    assert clock.now() == now + 60.0
