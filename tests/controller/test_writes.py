"""What the controller writes, and what it leaves: counted at the pretend server, some of it refused on the way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuward.model.case import CaseState, Mode
from gpuward.model.objects.owned import FAULT_TAINT
from gpuward.model.resource import GPU_CASES, NODES, PODS, Resource
from gpuward.ports import Conflict, Unreachable
from gpuward.sim.cluster.users import Asked
from gpuward.sim.cluster.weather import FAIR, Spell, Trouble
from tests.controller.fleet import REPAIRING, Fleet
from tests.kit.merging import GPU_A

Chosen = Callable[[Asked], bool]
READS = frozenset({"get", "list", "watch"})
OBSTACLE = "It fell off the bus: only a reboot brings it back."


class Noted:
    """Implements Weather: notes each write, and lets those conflict that are chosen."""

    def __init__(self) -> None:
        self.writes: list[Asked] = []
        self.conflicts: Chosen = lambda _: False

    def spell(self, user: str, asked: Asked) -> Spell:  # noqa: ARG002  all are alike
        """Return fair weather, or a conflict."""
        if asked.verb in READS:
            return FAIR
        self.writes.append(asked)
        return Spell(trouble=Trouble.CONFLICT) if self.conflicts(asked) else FAIR

    def evictions(self) -> int:
        """Return how many evictions were asked for."""
        return sum(one.subresource == "eviction" for one in self.writes)


def a_fleet(**terms: object) -> tuple[Fleet, Noted]:
    noted = Noted()
    fleet = Fleet(terms=replace(REPAIRING, **terms), weather=noted)  # type: ignore[arg-type]  # fields of Terms
    fleet.node("gpu-1")
    fleet.agents["gpu-1"].obstacles[GPU_A] = OBSTACLE
    return fleet, noted


async def test_where_nothing_changes_nothing_is_written() -> None:
    fleet, noted = a_fleet()
    fleet.pool(size=0)
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.settled(controller, fault, CaseState.PARKED)
        noted.writes.clear()
        await fleet.go(controller, rounds=10)
    assert noted.writes == []


async def test_a_taint_is_visible_after_the_second_write_for_a_fault() -> None:
    fleet, noted = a_fleet()
    async with fleet.running() as controller:
        await fleet.go(controller)
        noted.writes.clear()
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.time.run(controller.round())
    assert [one.resource for one in noted.writes[:2]] == [GPU_CASES, NODES]


async def test_a_pod_that_is_ending_is_not_asked_again() -> None:
    fleet, noted = a_fleet()
    fleet.pod("train-0")
    fleet.frozen_pods.add("train-0")
    async with fleet.running() as controller:
        fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=20)
        assert "deletionTimestamp" in fleet.get(PODS, "train-0", space="work")["metadata"]
    assert noted.evictions() == 1


async def test_a_budget_is_not_asked_at_every_round() -> None:
    fleet, noted = a_fleet(evict_again_seconds=5.0)
    fleet.pod("train-0", labels={"app": "x"})
    fleet.budget("b", labels={"app": "x"}, least=1)
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: noted.evictions() > 0)
        await fleet.go(controller, rounds=20)
        assert fleet.case(fault).state is CaseState.EVACUATING
    assert 4 <= noted.evictions() <= 6


async def test_a_pod_is_evicted_only_when_the_case_that_names_it_is_saved() -> None:
    fleet, noted = a_fleet()
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.until(controller, lambda: fleet.case_state(fault) is CaseState.FENCED)
        noted.conflicts = lambda asked: asked.resource is GPU_CASES
        await fleet.go(controller, rounds=10)
        assert noted.evictions() == 0
        noted.conflicts = lambda _: False
        await fleet.settled(controller, fault, CaseState.PARKED)
    assert noted.evictions() == 1


async def test_a_fault_whose_case_could_not_be_saved_is_judged_when_it_is() -> None:
    fleet, noted = a_fleet()
    noted.conflicts = lambda asked: asked.resource is GPU_CASES
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.judged_case(fault) is None
        assert fleet.taint() is None
        noted.conflicts = lambda _: False
        await fleet.go(controller, rounds=2)
    assert fleet.judged_case(fault) == fleet.case(fault).id


async def test_a_taint_that_a_person_took_off_stays_off_also_while_the_release_cannot_be_saved() -> None:
    fleet, noted = a_fleet(mode=Mode.ISOLATE)
    fleet.pod("train-0")
    async with fleet.running() as controller:
        fault = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        keys = [one["key"] for one in fleet.get_node("gpu-1")["spec"]["taints"]]
        noted.conflicts = lambda asked: asked.resource is GPU_CASES
        fleet.server.patch(NODES, "gpu-1", [{"op": "remove", "path": f"/spec/taints/{keys.index(FAULT_TAINT)}"}])
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=3)
        assert fleet.taint() is None
        noted.conflicts = lambda _: False
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint() is None


async def test_no_pod_is_evicted_before_the_taint_stands_and_no_case_closes_before_it_is_gone() -> None:
    fleet, noted = a_fleet()
    fleet.pod("train-0")
    noted.conflicts = lambda asked: asked.resource is NODES
    async with fleet.running() as controller:
        fault = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        assert fleet.taint() is None
        assert fleet.case_state(fault) is CaseState.FENCED
        assert noted.evictions() == 0
        noted.conflicts = lambda _: False
        case = await fleet.settled(controller, fault, CaseState.PARKED)
        noted.conflicts = lambda asked: asked.resource is NODES
        fleet.order(case.id, what="release")
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=5)
        assert fleet.taint() == "xid-79"
        assert fleet.case_state(fault) is CaseState.PARKED
        noted.conflicts = lambda _: False
        await fleet.settled(controller, fault, CaseState.CLOSED)
    assert fleet.taint() is None


@pytest.mark.parametrize("lands", [True, False], ids=["late", "never"])
async def test_a_case_that_nobody_answered_for_is_settled_before_another_of_its_gpu(lands: bool) -> None:  # noqa: FBT001  rows
    fleet = Fleet()
    fleet.node("gpu-1")
    real = fleet.server.create
    sent: list[Any] = []

    def unsure(resource: Resource, body: Any, **how: Any) -> Any:
        if resource is GPU_CASES and not sent:
            sent.append(body)
            raise Unreachable("no answer")
        return real(resource, body, **how)

    fleet.server.create = unsure  # type: ignore[method-assign]  # the first is on its way for long
    async with fleet.running() as controller:
        first = fleet.fault(31)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller)
        assert fleet.gpu_cases() == []
        second = fleet.fault(79)
        await fleet.time.pass_by(0.1)
        await fleet.go(controller, rounds=1 if lands else 8)
        if lands:
            with pytest.raises(Conflict):
                real(GPU_CASES, sent[0])
        await fleet.go(controller, rounds=8)
    assert [one.spec.fault for one in fleet.gpu_cases()] == [first]
    assert {fleet.gpu_fault(one).status.judged.case for one in (first, second)} == {f"c-{first}"}  # type: ignore[union-attr]
