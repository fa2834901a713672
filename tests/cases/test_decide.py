"""From a snapshot to a decision: which faults open cases, what holds them, what is written down."""

from dataclasses import replace
from typing import Any

import pytest

from gpuward.isolation import decide as waist
from gpuward.isolation.brake import Brake
from gpuward.isolation.decide import Decision, Snapshot, decide
from gpuward.isolation.machine import advance, ask, settle
from gpuward.isolation.table import MOVES
from gpuward.model.case import CaseState, EffectKind, Mode, Order, Outcome
from gpuward.model.fault import Fault
from gpuward.model.happening import What
from gpuward.model.record import Record
from gpuward.model.scene import GpuSight
from tests.kit.lives import a_case
from tests.kit.merging import GPU_A, GPU_B, GPU_C, HOUR, told, xid

FREE = GpuSight(present=True, lost=False, work=(), display=False)
HELD = replace(FREE, work=("train (7)",))
GPUS = {GPU_A: FREE, GPU_B: FREE, GPU_C: FREE}
NOW = 1_790_000_100.0


def faults(*records: Record) -> tuple[Fault, ...]:
    return tuple(told(list(records)).faults)


def snapshot(*records: Record, **changes: Any) -> Snapshot:
    first = Snapshot(now=NOW, mode=Mode.REPAIR, node="gpu-1", cases=(), faults=faults(*records), gpus=GPUS)
    return replace(first, **changes)


def lived(first: Snapshot, *, rounds: int = 20) -> Decision:
    """Decide again and again, every effect done, as the agent would."""
    decision = decide(first)
    for _ in range(rounds):
        cases = tuple(
            settle(case, pending.number, Outcome.DONE, at=first.now) if (pending := case.pending()) else case
            for case in decision.cases
        )
        decision = decide(replace(first, cases=cases))
    return decision


@pytest.mark.parametrize("code", [79, 48, 31])
def test_a_fault_at_p0_or_p1_opens_a_case(code: int) -> None:
    decision = decide(snapshot(xid(code, 0)))
    assert [(case.code, case.gpu) for case in decision.cases] == [(code, GPU_A)]
    assert decision.happenings[0].what is What.VERDICT


@pytest.mark.parametrize("code", [43, 14])
def test_a_lesser_fault_opens_none(code: int) -> None:
    assert decide(snapshot(xid(code, 0))).cases == ()


def test_a_verdict_that_waits_opens_none() -> None:
    waiting = told([xid(45, 0)], finish=False).faults
    assert decide(replace(snapshot(), faults=tuple(waiting))).cases == ()


def test_a_gpu_has_one_case_and_the_worst_fault_opens_it() -> None:
    decision = decide(snapshot(xid(31, 0), xid(48, 1)))
    assert [case.code for case in decision.cases] == [48]


def test_what_came_with_an_incident_opens_no_second_case() -> None:
    action = {"recovery_from_label": "None", "recovery_to_label": "GPU Reset Required"}
    one = snapshot(xid(48, 0), xid(154, 0.1, pid=None, details=action))
    (case,) = decide(one).cases
    assert case.code == 48, "the root, not the driver's advice that follows it"
    closed = replace(case, state=CaseState.CLOSED, since=NOW)
    assert decide(replace(one, cases=(closed,))).cases == (closed,)
    later = replace(one, cases=(closed,), faults=(*one.faults, *faults(xid(62, 500))), now=NOW + 500)
    assert [case.code for case in decide(later).cases] == [48, 62]


def test_a_fault_opens_one_case_ever() -> None:
    one = snapshot(xid(79, 0))
    closed = replace(decide(one).cases[0], state=CaseState.CLOSED)
    assert decide(replace(one, cases=(closed,))).cases == (closed,)


def test_every_gpu_goes_its_own_way() -> None:
    records = [xid(79, 0), xid(31, 0, pci=GPU_B)]
    decision = lived(snapshot(*records, gpus={**GPUS, GPU_B: HELD}, brake=Brake(share=1.0)))
    assert {case.gpu: case.state for case in decision.cases} == {
        GPU_A: CaseState.PROBATION,
        GPU_B: CaseState.FENCED,
    }


def test_a_gpu_that_nobody_saw_is_not_free() -> None:
    (case,) = lived(snapshot(xid(79, 0), gpus={})).cases
    assert case.state is CaseState.EVACUATING


def test_the_brake_holds_the_third_of_four_gpus() -> None:
    records = [xid(48, 0, pci=pci) for pci in (GPU_A, GPU_B, GPU_C)]
    decision = lived(snapshot(*records, mode=Mode.ISOLATE, gpus={**GPUS, "0000:c4:00": FREE}))
    states = sorted(case.state for case in decision.cases)
    assert states == [CaseState.PARKED, CaseState.PARKED, CaseState.SUSPECT]
    held = next(case for case in decision.cases if case.state is CaseState.SUSPECT)
    assert "2 of 4 GPUs were taken out" in held.because
    later = replace(snapshot(*records), mode=Mode.ISOLATE, cases=decision.cases, now=NOW + 601)
    assert all(case.state is not CaseState.SUSPECT for case in lived(later).cases)


def test_the_brake_never_holds_the_first() -> None:
    assert Brake(share=0.01).holds(gpus=8, isolated_at=[], now=NOW) == ""


def test_a_cleared_fault_withdraws_its_case() -> None:
    action = {"recovery_from_label": "None", "recovery_to_label": "GPU Reset Required"}
    wanted = snapshot(xid(154, 0, pid=None, details=action), mode=Mode.OBSERVE)
    (case,) = decide(wanted).cases
    none = {"recovery_from_label": "GPU Reset Required", "recovery_to_label": "None"}
    records = [xid(154, 0, pid=None, details=action, cursor="f1"), xid(154, 1, pid=None, details=none, cursor="f2")]
    cleared = [replace(fault, id=case.fault) for fault in faults(*records)]
    (after,) = decide(replace(wanted, cases=(case,), faults=tuple(cleared), mode=Mode.REPAIR)).cases
    assert after.state is CaseState.WITHDRAWN


def test_a_fault_that_may_not_act_is_withdrawn_with_the_reason() -> None:
    one = snapshot(xid(79, 0))
    fault = one.faults[0].id
    (case,) = decide(replace(one, idle_reasons={fault: "It is three weeks old."})).cases
    assert (case.state, case.because, case.effects) == (CaseState.WITHDRAWN, "It is three weeks old.", ())


def test_repeated_hardware_faults_end_parked_for_diagnostics() -> None:
    one = snapshot(xid(31, 0), xid(31, 5 * HOUR))
    first, second = one.faults
    assert second.verdict.parks
    done = a_case(fault=first.id, state=CaseState.CLOSED, since=(first.last.wall or 0.0) + 60)
    case = next(case for case in lived(replace(one, cases=(done,))).cases if case.fault == second.id)
    assert case.state is CaseState.PARKED
    assert "EUD" in case.due


def test_a_new_fault_on_probation_is_a_relapse() -> None:
    one = snapshot(xid(79, 0))
    decision = lived(one)
    later = [xid(48, 200)]
    again = replace(one, cases=decision.cases, faults=(*one.faults, *faults(*later)), now=NOW + 200)
    (case,) = decide(again).cases
    assert case.state is CaseState.PARKED


def test_the_same_xid_again_on_probation_is_a_relapse() -> None:
    line = xid(119, 0)
    one = snapshot(line)
    decision = lived(one)
    assert decision.cases[0].state is CaseState.PROBATION
    again = replace(one, cases=decision.cases, faults=faults(line, xid(119, 200)), now=NOW + 200)
    (fault,) = again.faults
    (case,) = decide(again).cases
    assert case.fault == fault.id, "both lines are one fault"
    assert case.state is CaseState.PARKED
    assert "failed again" in case.because


def test_the_same_xid_again_after_its_case_was_closed_opens_another() -> None:
    line = xid(119, 0)
    one = snapshot(line)
    closed = replace(lived(one).cases[0], state=CaseState.CLOSED, since=NOW + 50)
    again = replace(one, cases=(closed,), faults=faults(line, xid(119, 200)), now=NOW + 200)
    first, second = decide(again).cases
    assert first == closed
    assert second.state is CaseState.FENCED
    assert second.id == f"{first.id}-2"
    quiet = replace(one, cases=(closed,), now=NOW + 200)
    assert decide(quiet).cases == (closed,)


def test_a_clock_that_was_set_back_holds_up_no_release() -> None:
    one = snapshot(xid(79, 0))
    parked = lived(replace(one, mode=Mode.ISOLATE)).cases[0]
    released = ask(parked, Order.RELEASE)
    decision = lived(replace(one, mode=Mode.ISOLATE, cases=(released,), now=NOW - 3600))
    assert decision.cases[0].state is CaseState.CLOSED
    assert not [one for one in decision.happenings if one.what is What.LAW]


def test_the_same_snapshot_is_the_same_decision() -> None:
    one = snapshot(xid(79, 0), xid(31, 0, pci=GPU_B))
    assert decide(one) == decide(one)


def test_what_happens_is_written_down_in_order() -> None:
    decision = decide(snapshot(xid(79, 0)))
    written = [(one.what, one.before, one.after, one.effect) for one in decision.happenings]
    assert written == [
        (What.VERDICT, "", "", ""),
        (What.MOVED, "suspect", "fenced", ""),
        (What.EFFECT, "", "", "evidence"),
        (What.EFFECT, "", "", "drain"),
    ]
    assert decision.happenings[0].rule == "xid:79"


def test_a_waiting_case_says_why_once() -> None:
    one = snapshot(xid(79, 0), mode=Mode.OBSERVE)
    decision = decide(one)
    assert [happening.what for happening in decision.happenings] == [What.VERDICT, What.SAID]
    assert decide(replace(one, cases=decision.cases)).happenings == ()


def test_a_broken_law_parks_its_case_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    urgent = next(move for move in MOVES if (move.state, move.to) == (CaseState.SUSPECT, CaseState.FENCED))
    reset_at_once = replace(urgent, effects=(EffectKind.RESET,))
    wrong = tuple(reset_at_once if move is urgent else move for move in MOVES)
    monkeypatch.setattr(waist, "advance", lambda case, scene: advance(case, scene, moves=wrong))
    decision = decide(snapshot(xid(79, 0), xid(31, 0, pci=GPU_B), gpus={**GPUS, GPU_B: HELD}))
    states = {case.gpu: case.state for case in decision.cases}
    assert states == {GPU_A: CaseState.PARKED, GPU_B: CaseState.FENCED}
    law = next(happening for happening in decision.happenings if happening.what is What.LAW)
    assert "fence_before_fix" in law.rule
