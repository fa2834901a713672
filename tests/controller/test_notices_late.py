"""A job that nobody was there to tell in time: the controller was killed, or cut off, before it could."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind, Outcome
from gpuward.model.resource import PODS, Resource
from gpuward.ports import Unreachable
from tests.controller.test_notices import TERMS, Jobs, effect_of


@pytest.mark.parametrize("away", [False, True], ids=["killed", "cut off"])
async def test_a_job_that_nobody_was_there_to_tell_is_told_late_and_has_its_time_all_the_same(away: bool) -> None:  # noqa: FBT001  rows
    fleet = Jobs()
    fleet.job("train", ("gpu-1", "gpu-2"))
    real = fleet.server.patch

    def cut(resource: Resource, name: str, operations: Any, **how: Any) -> Any:
        if resource is PODS:
            raise Unreachable("the network is gone")
        return real(resource, name, operations, **how)

    async with fleet.running() as first:
        fleet.server.patch = cut  # type: ignore[method-assign]  # from when the case has it
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(first, lambda: fleet.case_state(fault) is CaseState.SAVING)
        await fleet.go(first, rounds=3)
        assert [one.generation for one in fleet.whole(fault).status.noticed] == [1]  # type: ignore[union-attr]  # it has one
        assert fleet.notice("train-0") is None
        async with fleet.running() as second:
            await fleet.time.pass_by(60.0)
            fleet.server.patch = real  # type: ignore[method-assign]  # it is there again
            controller = first if away else second
            await fleet.until(controller, lambda: fleet.notice("train-0") is not None)
            assert fleet.heard("train-1").deadline == fleet.heard("train-0").deadline >= fleet.time.now() + 28.0
            assert not fleet.is_going("train-0")
            await fleet.until(controller, lambda: fleet.is_going("train-0"))
            assert fleet.time.now() >= fleet.heard("train-1").deadline
            await fleet.settled(controller, fault, CaseState.CLOSED)
    assert effect_of(fleet.case(fault), EffectKind.NOTICE) == (
        Outcome.DONE,
        "Job work/train was told to save, 2 of its pods.",
    )


async def test_a_job_that_can_never_be_told_keeps_no_node_for_ever() -> None:
    fleet = Jobs(eviction=replace(TERMS.eviction, deadline_seconds=600.0))
    fleet.job("train", ("gpu-1",))
    real = fleet.server.patch

    def cut(resource: Resource, name: str, operations: Any, **how: Any) -> Any:
        if resource is PODS:
            raise Unreachable("a webhook does not answer")
        return real(resource, name, operations, **how)

    fleet.server.patch = cut  # type: ignore[method-assign]  # for good
    async with fleet.running() as controller:
        began = fleet.time.now()
        fleet.fault(79)
        await fleet.until(controller, lambda: fleet.is_going("train-0"), rounds=400)
    assert 300.0 <= fleet.time.now() - began < 340.0
