"""A leader that was stopped before it opened a case sends it late, when another leader works on that GPU already."""

from typing import Any

import pytest

from gpuward.model.case import CaseState, EffectKind
from gpuward.model.resource import GPU_CASES, Resource
from gpuward.ports import Unreachable
from tests.controller.fleet import Fleet
from tests.kit.merging import GPU_B


async def late_case(fleet: Fleet, code: int, **where: Any) -> tuple[str, Any]:
    """Let a leader be stopped before it opens the case of a fault; return the fault, and what it was about to send."""
    real = fleet.server.create
    sent: list[Any] = []

    def stopped(resource: Resource, body: Any, **how: Any) -> Any:
        if resource is GPU_CASES:
            sent.append(body)
            raise Unreachable("it was stopped")
        return real(resource, body, **how)

    fleet.server.create = stopped  # type: ignore[method-assign]  # until another one leads
    async with fleet.running() as controller:
        fault = fleet.fault(code, **where)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
    fleet.server.create = real  # type: ignore[method-assign]  # it is as it was
    return fault, sent[0]


@pytest.mark.parametrize("rounds", [1, 2, 4, 8])
async def test_a_case_that_comes_late_is_taken_away_and_its_fault_is_the_others(rounds: int) -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    first, body = await late_case(fleet, 31)
    async with fleet.running() as controller:
        second = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=rounds)
        assert [one.spec.fault for one in fleet.gpu_cases()] == [second]
        fleet.server.create(GPU_CASES, body)
        await fleet.go(controller, rounds=2)
        assert [one.spec.fault for one in fleet.gpu_cases()] == [second]
        await fleet.settled(controller, second, CaseState.CLOSED)
        await fleet.go(controller, rounds=5)
    assert [one.spec.fault for one in fleet.gpu_cases()] == [second]
    assert fleet.gpu_fault(first).status.judged.case == f"c-{second}"  # type: ignore[union-attr]  # it has one
    done = [what for _, what in fleet.agents["gpu-1"].done]
    assert (done.count(EffectKind.RESET), done.count(EffectKind.DRAIN)) == (1, 1)
    assert fleet.agents["gpu-1"].drained == set()


async def test_a_case_that_comes_late_for_another_gpu_goes_on() -> None:
    fleet = Fleet()
    fleet.node("gpu-1")
    first, body = await late_case(fleet, 62, pci=GPU_B)
    fleet.server.create(GPU_CASES, body)
    async with fleet.running() as controller:
        second = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, first, CaseState.CLOSED)
        await fleet.settled(controller, second, CaseState.CLOSED)
