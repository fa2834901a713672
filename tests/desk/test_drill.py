"""`gpuward drill NODE GPU CODE` on a cluster: a made-up fault from the line to the end, and nothing is changed."""

from dataclasses import replace
from typing import Any, cast

import pytest

from gpuward.model.case import CaseState, EffectKind, Mode, Outcome
from gpuward.model.objects.gpu_case import GpuCase, as_case
from gpuward.model.resource import GPU_CASES, GPU_FAULTS, NODES, PODS, Resource
from gpuward.ports import Cluster, Object, Refused, Unreachable
from tests.controller.fleet import REPAIRING, Fleet, uuid_of
from tests.desk.people import ask, beat, in_mode
from tests.kit.merging import GPU_A, GPU_B


def a_fleet(**terms: Any) -> Fleet:
    fleet = Fleet(terms=replace(REPAIRING, **terms))
    fleet.node("gpu-1")
    fleet.pod("train-0")
    in_mode(fleet, "gpu-1", str(fleet.terms.mode))
    return fleet


def only_case(fleet: Fleet) -> GpuCase:
    (case,) = fleet.gpu_cases()
    return case


@pytest.mark.parametrize("mode", ["isolate", "repair"])
@pytest.mark.parametrize("code", ["48", "79"])
async def test_it_is_told_live_to_its_end_and_changes_nothing(mode: str, code: str) -> None:
    fleet = a_fleet()
    fleet.end_pod("train-0")
    async with fleet.running() as controller:
        beat(fleet)
        await fleet.go(controller, rounds=3)
        before = [fleet.server.list(kind).items for kind in (NODES, PODS)]
        answer = await ask(fleet, "drill", "gpu-1", GPU_A, code, "--mode", mode, controller=controller)
    assert answer.code == 0, answer.out
    lines = answer.out.splitlines()
    assert "a drill of mode " + mode in lines[0]
    assert "the drill is over as it should be" in lines[-1]
    assert any("step" in line and "drain done" in line for line in lines)
    assert any("taint done: it was rehearsed" in line for line in lines)
    assert [fleet.server.list(kind).items for kind in (NODES, PODS)] == before
    assert fleet.server.list(GPU_FAULTS).items == ()
    assert (fleet.agents["gpu-1"].done, fleet.agents["gpu-1"].drained) == ([], set())
    case = only_case(fleet)
    assert (case.spec.drill, as_case(case).state) == (Mode(mode), CaseState.CLOSED)
    assert case.head.name == f"c-{case.spec.fault}"
    assert case.spec.fault.startswith("gpu-1.drill.xid-")
    assert case.spec.gpu_uuid == uuid_of(GPU_A)
    resets = EffectKind.RESET in {effect.kind for effect in as_case(case).effects}
    assert resets == (EffectKind.RESET in case.spec.plan) == ((mode, code) == ("repair", "48"))


@pytest.mark.parametrize("code", ["48", "79", "31"])
async def test_on_a_gpu_with_work_it_ends_by_itself_and_nobody_is_evicted(code: str) -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        beat(fleet)
        await fleet.go(controller, rounds=3)
        before = [fleet.server.list(kind).items for kind in (NODES, PODS)]
        answer = await ask(fleet, "drill", "gpu-1", GPU_A, code, controller=controller)
        assert answer.code == 0, answer.out
        await fleet.go(controller, rounds=3)
    assert "In a drill nobody is waited for; a real case would wait for its work here: " in answer.out
    assert [fleet.server.list(kind).items for kind in (NODES, PODS)] == before
    assert fleet.agents["gpu-1"].done == []
    case = as_case(only_case(fleet))
    assert case.state is CaseState.CLOSED
    assert EffectKind.EVICT not in {effect.kind for effect in case.effects}


async def test_the_mode_is_that_of_the_node_and_in_observe_it_is_only_said() -> None:
    fleet = a_fleet(mode=Mode.OBSERVE)
    async with fleet.running() as controller:
        beat(fleet)
        answer = await ask(fleet, "drill", "gpu-1", "0000:3b:00", "79", "--json", controller=controller)
    value = answer.object()
    assert answer.code == 0, value
    assert (value["state"], value["drill"], value["over"], value["well"]) == ("withdrawn", "observe", True, True)
    assert value["effects"] == []


async def test_a_gpu_is_named_by_uuid_too_and_a_wrong_one_is_told_which_there_are() -> None:
    fleet = a_fleet()
    with pytest.raises(Refused, match=f"gpu-1 has no GPU 9; it has .*{GPU_A}"):
        await ask(fleet, "drill", "gpu-1", "9", "79")
    with pytest.raises(Refused, match="there is no GPU node gpu-2 of which an agent has told; `gpuward nodes`"):
        await ask(fleet, "drill", "gpu-2", "0", "79")
    await ask(fleet, "drill", "gpu-1", uuid_of(GPU_B), "79", "--wait-seconds", "0")
    assert only_case(fleet).spec.gpu == GPU_B


async def test_a_code_that_opens_no_case_opens_none() -> None:
    fleet = a_fleet()
    answer = await ask(fleet, "drill", "gpu-1", GPU_A, "13")
    assert (answer.code, fleet.gpu_cases()) == (0, [])
    assert "no case would be opened" in answer.out


async def test_one_that_nobody_leads_goes_on_by_itself_after_the_command_was_killed() -> None:
    fleet = a_fleet()
    fleet.end_pod("train-0")
    answer = await ask(fleet, "drill", "gpu-1", GPU_A, "48", "--wait-seconds", "2")
    assert answer.code == 1
    assert "no controller leads: the drill begins as soon as one does" in answer.out
    case = only_case(fleet)
    assert f"`gpuward release {case.head.name}` ends it" in answer.out
    with pytest.raises(Refused, match="a drill waits until it has ended"):
        await ask(fleet, "drill", "gpu-1", GPU_A, "48")
    async with fleet.running() as controller:
        await fleet.until(controller, lambda: as_case(only_case(fleet)).state is CaseState.CLOSED)


async def test_a_real_fault_ends_it_and_goes_first() -> None:
    fleet = a_fleet()
    async with fleet.running() as controller:
        beat(fleet)
        await ask(fleet, "drill", "gpu-1", GPU_A, "31", "--wait-seconds", "0")
        drill = only_case(fleet).head.name
        fault = fleet.fault(48)
        await fleet.until(controller, lambda: fleet.taint() == "xid-48")
        (ended,) = [as_case(one) for one in fleet.gpu_cases() if one.head.name == drill]
        assert ended.state is CaseState.WITHDRAWN
        assert fleet.case(fault).drill is None


async def test_what_is_rehearsed_in_vain_is_said_and_is_not_as_it_should_be() -> None:
    fleet = a_fleet()
    fleet.end_pod("train-0")
    fleet.agents["gpu-1"].fails[EffectKind.RESET] = "it would be refused here"
    async with fleet.running() as controller:
        beat(fleet)
        answer = await ask(fleet, "drill", "gpu-1", GPU_A, "48", controller=controller)
    assert answer.code == 1
    assert "over, and not as it should be" in answer.out
    assert "it would be refused here" in answer.out
    assert any(one.outcome is Outcome.FAILED for one in as_case(only_case(fleet)).effects)


async def test_a_drill_that_is_taken_away_is_told_so() -> None:
    fleet = a_fleet()
    await ask(fleet, "drill", "gpu-1", GPU_A, "48", "--wait-seconds", "0")
    fleet.server.delete(GPU_CASES, only_case(fleet).head.name)
    assert fleet.gpu_cases() == []


class _Gone:
    """A cluster that stops answering about cases after so many looks, for good."""

    def __init__(self, cluster: Cluster, looks: int) -> None:
        self._cluster = cluster
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        if resource == GPU_CASES:
            self._looks -= 1
            if self._looks < 0:
                raise Unreachable("the server cannot be reached")
        return await self._cluster.get(resource, name, namespace=namespace)


async def test_a_server_that_stops_answering_is_told_once_and_how_the_drill_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet = a_fleet()
    beat(fleet)
    gone = cast("Cluster", _Gone(fleet.cluster, 1))
    with pytest.raises(Unreachable):
        await ask(fleet, "drill", "gpu-1", GPU_A, "79", "--wait-seconds", "20", cluster=gone)
    errors = capsys.readouterr().err
    assert errors.count("no answer now, and it is asked again until the time is over: the server cannot be") == 1
    assert f"the drill goes on, for all that is known: `gpuward why {only_case(fleet).head.name}`" in errors
