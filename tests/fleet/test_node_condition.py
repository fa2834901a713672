"""The condition of a node: what it says of the GPUs, and that no condition of anybody else is ever touched."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuward.isolation.node_condition import (
    MOST_CHARACTERS,
    ConditionReason,
    ConditionStatus,
    Saying,
    condition_of,
    condition_operations,
    saying_of,
    says,
)
from gpuward.model.case import Case, CaseState, Effect, EffectKind, Mode, Outcome
from gpuward.model.level import FaultClass, Level
from gpuward.model.objects.gpu_node import GpuState, Health, NodeGpu
from gpuward.model.objects.owned import CONDITION
from gpuward.model.scene import GpuSight
from gpuward.sim.cluster.frozen import freeze, thaw
from gpuward.sim.cluster.jsonpatch import PatchFailed, apply
from tests.kit.lives import a_case

AT = 1_790_000_000.0
STAMP, LATER = "2026-09-21T14:13:20Z", "2026-09-21T14:14:20Z"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
PRESSURE = {"type": "MemoryPressure", "status": "False"}
WELL = Saying(ConditionStatus.FALSE, ConditionReason.GPUS_HEALTHY, "8 seen, none with a fault")
SICK = Saying(ConditionStatus.TRUE, ConditionReason.CASE_OPEN, "GPU 5 is lost")


def a_node(*conditions: dict[str, Any], version: str = "7") -> dict[str, Any]:
    node: dict[str, Any] = {"metadata": {"name": "gpu-1", "resourceVersion": version}}
    return {**node, "status": {"conditions": list(conditions)}} if conditions else {**node, "status": {}}


def said(node: dict[str, Any], saying: Saying | None, at: float = AT) -> dict[str, Any]:
    after = thaw(apply(freeze(node), condition_operations(node, saying, at=at)))
    assert isinstance(after, dict)
    return after


def a_gpu(index: int = 0, health: Health = Health.HEALTHY) -> NodeGpu:
    sight = GpuSight(present=True, lost=False, work=(), display=False)
    return NodeGpu(pci=f"0000:{index + 0x3B:02x}:00", state=GpuState.ACTIVE, health=health, sight=sight, index=index)


def marked(level: Level = Level.P0, **changes: Any) -> Case:
    effects = (Effect(1, EffectKind.TAINT, 0.0, Outcome.DONE),)
    return a_case(**{"level": level, "state": CaseState.FENCED, "effects": effects, **changes})


@pytest.mark.parametrize(
    "node", [{"metadata": {"resourceVersion": "7"}}, a_node(), a_node(READY), a_node(READY, PRESSURE)]
)
def test_a_node_that_wears_none_gets_ours_and_keeps_all_others(node: dict[str, Any]) -> None:
    after = said(node, SICK)
    *others, ours = after["status"]["conditions"]
    assert others == node.get("status", {}).get("conditions", [])
    assert ours == {
        "type": CONDITION,
        "status": "True",
        "reason": "CaseOpen",
        "message": "GPU 5 is lost",
        "lastHeartbeatTime": STAMP,
        "lastTransitionTime": STAMP,
    }
    assert condition_operations(after, SICK, at=AT + 60) == ()
    assert said(after, None)["status"]["conditions"] == others


def test_the_time_of_the_transition_moves_with_the_status_alone() -> None:
    node = said(a_node(READY), SICK)
    reworded = said(node, Saying(SICK.status, SICK.reason, "GPU 5 and 6 are lost"), at=AT + 60)
    ours = condition_of(reworded)
    assert ours is not None
    assert (ours["lastTransitionTime"], ours["lastHeartbeatTime"]) == (STAMP, LATER)
    well = condition_of(said(reworded, WELL, at=AT + 60))
    assert well is not None
    assert (well["status"], well["lastTransitionTime"]) == ("False", LATER)


@given(
    places=st.permutations([READY, PRESSURE, {"type": "NetworkUnavailable", "status": "False"}]),
    place=st.integers(0, 3),
)
def test_wherever_ours_stands_only_ours_changes(places: list[dict[str, Any]], place: int) -> None:
    ours = condition_of(said(a_node(), SICK))
    assert ours is not None
    conditions = [*places[:place], dict(ours), *places[place:]]
    after = said(a_node(*conditions), WELL)["status"]["conditions"]
    assert [one for one in after if one["type"] != CONDITION] == list(places)
    assert [one["status"] for one in after if one["type"] == CONDITION] == ["False"]
    assert said(a_node(*conditions), None)["status"]["conditions"] == list(places)


def test_a_change_that_rests_on_another_place_or_version_is_a_conflict() -> None:
    node = said(a_node(READY), SICK)
    moved = a_node(*node["status"]["conditions"][::-1])
    for saying in (WELL, None):
        with pytest.raises(PatchFailed):
            apply(freeze(moved), condition_operations(node, saying, at=AT))
    with pytest.raises(PatchFailed):
        apply(freeze(a_node(READY, version="8")), condition_operations(a_node(READY), SICK, at=AT))


def test_a_case_with_marks_is_told_with_its_gpu_its_code_and_whose_fault_it_is() -> None:
    told = saying_of([marked()], [a_gpu(0), a_gpu(1)], unseen="")
    assert told == Saying(
        ConditionStatus.TRUE,
        ConditionReason.CASE_OPEN,
        "GPU 0 (0000:3b:00): Xid 79, GPU lost: hardware, P0; c1",
    )
    parked = saying_of([marked(state=CaseState.PARKED, gpu="0000:ff:00")], [a_gpu()], unseen="")
    assert parked.message == "GPU at 0000:ff:00: Xid 79, GPU lost: hardware, P0; c1 waits for a person"


def test_it_says_the_same_at_every_step_of_a_case_until_a_person_is_needed() -> None:
    steps = (CaseState.FENCED, CaseState.SAVING, CaseState.EVACUATING, CaseState.REPAIRING, CaseState.PROBATION)
    assert len({saying_of([marked(state=state)], [a_gpu()], unseen="") for state in steps}) == 1


def test_the_worst_cases_are_named_first_and_no_more_than_three() -> None:
    levels = (Level.P1, Level.P1, Level.P0, Level.P1, Level.P1)
    cases = [marked(level, id=f"c{number}", gpu=f"0000:{number:02x}:00") for number, level in enumerate(levels)]
    message = saying_of(cases, [], unseen="").message
    assert message.index("c2") < message.index("c0") < message.index("c1")
    assert message.endswith("; and 2 more")
    long = [marked(id=f"c{number}", title="x" * 500) for number in range(3)]
    assert len(saying_of(long, [], unseen="").message) == MOST_CHARACTERS


@pytest.mark.parametrize(
    "case",
    [a_case(), marked(state=CaseState.CLOSED), marked(drill=Mode.REPAIR), marked(state=CaseState.WITHDRAWN)],
    ids=["without marks", "closed", "drill", "withdrawn"],
)
def test_a_case_that_has_no_mark_or_has_ended_or_is_a_drill_is_none(case: Case) -> None:
    assert saying_of([case], [a_gpu()], unseen="").status is ConditionStatus.FALSE


def test_a_faulty_gpu_is_told_where_no_case_has_marks() -> None:
    told = saying_of([a_case(fault_class=FaultClass.DRIVER)], [a_gpu(0), a_gpu(5, Health.FAULTY)], unseen="")
    assert told == Saying(ConditionStatus.TRUE, ConditionReason.GPU_FAULTY, "GPU 5 (0000:40:00): a fault goes on")


def test_unknown_is_not_healthy() -> None:
    unseen = saying_of([], [a_gpu()], unseen="nvidia-smi hangs")
    assert unseen == Saying(ConditionStatus.UNKNOWN, ConditionReason.GPUS_UNSEEN, "nvidia-smi hangs")
    assert saying_of([], [], unseen="").status is ConditionStatus.UNKNOWN
    one = saying_of([], [a_gpu(0), a_gpu(1, Health.UNKNOWN)], unseen="")
    assert (one.status, one.reason) == (ConditionStatus.UNKNOWN, ConditionReason.GPU_UNKNOWN)
    assert "GPU 1" in one.message
    assert saying_of([], [a_gpu(0, Health.FAULTY)], unseen="it hangs").status is ConditionStatus.TRUE


def test_it_says_what_it_says_whatever_its_times() -> None:
    ours = condition_of(said(a_node(), SICK))
    assert says(ours, SICK)
    assert not says(ours, WELL)
    assert not says(None, SICK)
