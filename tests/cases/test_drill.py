"""A drill: judged as a real fault, never in the way of one, counted by nobody, over by itself."""

from dataclasses import replace

import pytest

from gpuward.isolation import laws
from gpuward.isolation.brake import Brake
from gpuward.isolation.budget import Budget
from gpuward.isolation.decide import UNSEEN_SECONDS, Decision, Snapshot, decide
from gpuward.isolation.drill import Drill, drilled
from gpuward.isolation.lost import DUE
from gpuward.isolation.machine import Step, ask, forgo, settle
from gpuward.isolation.merge import Merger
from gpuward.isolation.packed import pack_case, unpack_case
from gpuward.isolation.table import MOVES
from gpuward.model.case import ENDED, ON_A_CLUSTER, ON_A_SERVER, Case, CaseState, EffectKind, Mode, Order, Outcome
from gpuward.model.level import FaultClass, Level
from gpuward.model.scene import GpuSight
from tests.kit.lives import Life, a_case, a_scene, asked
from tests.kit.merging import GPU_A, GPU_B, GPU_C, terms, told, xid

FREE = GpuSight(present=True, lost=False, work=(), display=False)
HELD = replace(FREE, work=("train (7)",))
NOW = 1_790_000_100.0
S = CaseState


def a_drill(code: int = 48, gpu: str = GPU_A, mode: Mode = Mode.REPAIR) -> Drill:
    fault = drilled(code, gpu, Merger(terms()), node="gpu-1", at=NOW)
    assert fault is not None
    return Drill(fault, mode)


def snapshot(*, mode: Mode = Mode.OBSERVE) -> Snapshot:
    gpus = {GPU_A: FREE, GPU_B: FREE, GPU_C: FREE}
    return Snapshot(now=NOW, mode=mode, node="gpu-1", cases=(), faults=(), gpus=gpus)


def lived(first: Snapshot, *, rounds: int = 20, said: list[str] | None = None) -> Decision:
    """Decide again and again, every effect done; the drill itself is asked for once. `said` gets the sentences."""
    decision = decide(first)
    said = [] if said is None else said
    for _ in range(rounds):
        cases = tuple(
            settle(case, pending.number, Outcome.DONE, at=first.now) if (pending := case.pending()) else case
            for case in decision.cases
        )
        said += [one.because for one in decision.happenings]
        decision = decide(replace(first, cases=cases, drills=()))
    return decision


def an_isolated_case() -> Case:
    """Return the case of GPU B, drained and parked."""
    faults = tuple(told([xid(48, 0, pci=GPU_B)]).faults)
    (case,) = lived(replace(snapshot(mode=Mode.ISOLATE), faults=faults)).cases
    assert (case.state, case.marks.drained) == (S.PARKED, True)
    return case


def kinds(case: Case) -> list[str]:
    return [str(effect.kind) for effect in case.effects]


@pytest.mark.parametrize(
    ("code", "level", "fault_class"),
    [
        (79, Level.P0, FaultClass.HARDWARE),
        (48, Level.P0, FaultClass.HARDWARE),
        (31, Level.P1, FaultClass.APPLICATION),
        (45, Level.P1, FaultClass.APPLICATION),
        (13, Level.P2, FaultClass.APPLICATION),
        (999, Level.P2, FaultClass.UNKNOWN),
    ],
)
def test_a_made_up_fault_is_graded_as_a_real_one_that_nothing_follows(
    code: int, level: Level, fault_class: FaultClass
) -> None:
    verdict = a_drill(code).fault.verdict
    assert (verdict.level, verdict.fault_class, verdict.waits) == (level, fault_class, False)


def test_a_made_up_fault_is_known_by_its_name_and_its_line() -> None:
    fault = a_drill().fault
    assert fault.id.startswith("gpu-1.drill.")
    assert "gpuward drill" in fault.evidence[0].text
    assert fault.pci == GPU_A


def test_a_drill_of_repair_goes_all_the_way_whatever_the_mode_of_the_agent() -> None:
    decision = lived(replace(snapshot(mode=Mode.OBSERVE), drills=(a_drill(),)))
    (case,) = decision.cases
    assert case.state is S.CLOSED
    assert kinds(case) == [
        *("evidence", "drain", "evidence", "pause", "undrain", "reset", "restore", "verify"),
    ]


@pytest.mark.parametrize(("mode", "last"), [(Mode.OBSERVE, S.WITHDRAWN), (Mode.ISOLATE, S.CLOSED)])
def test_a_drill_of_a_lesser_mode_ends_by_itself_too(mode: Mode, last: CaseState) -> None:
    (case,) = lived(replace(snapshot(mode=Mode.REPAIR), drills=(a_drill(mode=mode),))).cases
    assert case.state is last
    assert "reset" not in kinds(case)


@pytest.mark.parametrize("reach", [ON_A_SERVER, ON_A_CLUSTER], ids=["server", "cluster"])
def test_a_drill_of_a_lost_gpu_takes_the_road_of_a_real_one_which_no_reset_can_reach(
    reach: frozenset[EffectKind],
) -> None:
    said: list[str] = []
    (case,) = lived(replace(snapshot(), drills=(a_drill(79),), reach=reach), said=said).cases
    assert case.state is S.CLOSED
    assert {"reset", "reboot"}.isdisjoint(kinds(case))
    assert f"Drill: The drill ends here; now a person's turn would come: {DUE}" in said


def test_a_drill_that_would_wait_for_a_person_ends_and_says_for_what() -> None:
    shown = replace(snapshot(), drills=(a_drill(48),), obstacles={GPU_A: "Reboot the node."})
    first = decide(shown)
    said = [one.because for one in first.happenings]
    for _ in range(20):
        cases = tuple(
            settle(case, pending.number, Outcome.DONE, at=NOW) if (pending := case.pending()) else case
            for case in first.cases
        )
        first = decide(replace(shown, cases=cases, drills=()))
        said += [one.because for one in first.happenings]
    assert first.cases[0].state is S.CLOSED
    assert "Drill: The drill ends here; now a person's turn would come: Reboot the node." in said


def test_every_line_of_a_drill_says_that_it_is_one() -> None:
    decision = decide(replace(snapshot(), drills=(a_drill(),)))
    assert decision.happenings
    for one in decision.happenings:
        assert ".drill." in one.case
        assert not one.because or one.because.startswith("Drill: ")


def test_a_real_fault_ends_the_drill_on_its_gpu_and_is_dealt_with_at_once() -> None:
    begun = decide(replace(snapshot(mode=Mode.REPAIR), drills=(a_drill(31),), gpus={GPU_A: HELD}))
    real = tuple(told([xid(48, 0)]).faults)
    decision = decide(replace(snapshot(mode=Mode.REPAIR), cases=begun.cases, faults=real))
    drill, case = decision.cases
    assert (drill.state, drill.drill) == (S.WITHDRAWN, Mode.REPAIR)
    assert drill.pending() is None
    assert (case.state, case.drill) == (S.FENCED, None)
    assert laws.one_case_a_gpu(decision.cases)
    assert laws.a_drill_gives_way(decision.cases)


def test_the_law_that_a_drill_gives_way_can_be_broken() -> None:
    assert not laws.a_drill_gives_way([a_case(), a_case(id="c2", drill=Mode.REPAIR)])
    assert laws.a_drill_gives_way([a_case(), a_case(id="c2", drill=Mode.REPAIR, state=S.WITHDRAWN)])


def test_a_drill_takes_no_turn_from_a_real_fault_of_the_same_moment() -> None:
    real = tuple(told([xid(48, 0)]).faults)
    decision = decide(replace(snapshot(mode=Mode.REPAIR), drills=(a_drill(),), faults=real))
    assert [case.drill for case in decision.cases] == [None]


def test_a_drill_of_the_past_does_not_hide_a_real_fault() -> None:
    over = lived(replace(snapshot(), drills=(a_drill(48),)))
    real = tuple(told([xid(48, 0)]).faults)
    later = replace(snapshot(mode=Mode.REPAIR), now=NOW + 5, cases=over.cases, faults=real)
    assert [case.drill for case in decide(later).cases] == [Mode.REPAIR, None]


def test_a_drill_counts_neither_for_the_brake_nor_for_the_budget_nor_as_a_reset() -> None:
    drills = (a_drill(48, GPU_B), a_drill(48, GPU_C))
    begun = decide(replace(snapshot(mode=Mode.REPAIR), drills=drills))
    assert {case.drill for case in begun.cases} == {Mode.REPAIR}
    assert S.FENCED in {case.state for case in begun.cases}
    real = tuple(told([xid(48, 0)]).faults)
    decision = decide(replace(snapshot(mode=Mode.REPAIR), cases=begun.cases, faults=real, budget=Budget(gpus=1)))
    assert [case.state for case in decision.cases if case.drill is None] == [S.FENCED]
    (over,) = lived(replace(snapshot(), drills=(a_drill(),))).cases
    assert "reset" in kinds(over)
    assert over.resets_since(0.0) == 0


def test_a_drill_shows_the_brake_and_the_budget() -> None:
    out = an_isolated_case()
    shown = replace(
        snapshot(mode=Mode.REPAIR), cases=(out,), drills=(a_drill(),), budget=Budget(gpus=1), brake=Brake(share=1.0)
    )
    drill = decide(shown).cases[-1]
    assert drill.state is S.SUSPECT
    assert "the budget is 1" in drill.because


def test_a_release_ends_a_drill_that_waits_for_work() -> None:
    waits = decide(replace(snapshot(), drills=(a_drill(31),), gpus={GPU_A: HELD}))
    (case,) = waits.cases
    case = settle(case, 1, Outcome.DONE, at=NOW)
    assert case.state is S.FENCED
    released = decide(replace(snapshot(), cases=(ask(case, Order.RELEASE),), gpus={GPU_A: HELD}))
    assert released.cases[0].state in ENDED


ON_CLUSTER = replace(snapshot(), reach=ON_A_CLUSTER)
UNSEEN_WORK = replace(FREE, work=None)


@pytest.mark.parametrize("code", [48, 31])
def test_on_a_cluster_a_drill_waits_for_no_work_and_says_who_would_be_waited_for(code: int) -> None:
    shown = replace(ON_CLUSTER, drills=(a_drill(code),), gpus={GPU_A: HELD})
    said: list[str] = []
    decision = lived(shown, said=said)
    (case,) = decision.cases
    assert case.state is S.CLOSED
    assert not {"evict", "clear", "reboot"} & set(kinds(case)), "nobody has to go for a drill"
    assert any("a real case would wait for its work here: train (7)." in one for one in said)
    assert not any("No work holds the GPU" in one or "has ended" in one for one in said)


def test_a_drill_waits_a_minute_for_what_holds_its_gpu_to_be_seen() -> None:
    shown = replace(ON_CLUSTER, drills=(a_drill(48),), gpus={GPU_A: UNSEEN_WORK})
    waits = lived(shown)
    assert [case.state for case in waits.cases] == [S.EVACUATING]
    seen = replace(shown, cases=waits.cases, drills=(), gpus={GPU_A: HELD})
    assert [case.state for case in lived(seen).cases] == [S.CLOSED]
    said: list[str] = []
    later = lived(replace(shown, cases=waits.cases, drills=(), now=NOW + UNSEEN_SECONDS), said=said)
    assert [case.state for case in later.cases] == [S.CLOSED]
    assert any("for its work here: not known." in one for one in said)


def test_a_drill_evicts_nobody_whatever_it_is_told_of_pods_and_the_law_that_says_so_can_be_broken() -> None:
    scene = a_scene(reach=ON_A_CLUSTER, victims=("ml/a",), work=("train (7)",))
    life = Life(case=a_case(drill=Mode.REPAIR)).play(scene)
    assert life.broken == []
    assert not {EffectKind.EVICT, EffectKind.CLEAR} & set(asked(life.case))
    real = Life(case=a_case()).play(scene).case
    assert EffectKind.EVICT in asked(real)
    before = replace(real, effects=(), drill=Mode.REPAIR)
    step = Step(MOVES[0], before, replace(real, drill=Mode.REPAIR))
    assert not laws.a_drill_moves_nobody(step, scene)
    assert laws.a_drill_moves_nobody(replace(step, before=replace(before, drill=None)), scene)


@pytest.mark.parametrize("code", [48, 31])
def test_the_work_of_a_real_case_is_waited_for_all_the_same(code: int) -> None:
    real = tuple(told([xid(code, 0)]).faults)
    (case,) = lived(replace(ON_CLUSTER, mode=Mode.REPAIR, faults=real, gpus={GPU_A: HELD}, victims={})).cases
    assert case.state in {S.FENCED, S.EVACUATING}
    assert "reset" not in kinds(case)


def test_a_drill_survives_a_restart_in_a_mode_that_does_less() -> None:
    (case,) = decide(replace(snapshot(), drills=(a_drill(),))).cases
    again = forgo(unpack_case(pack_case(case)), Mode.OBSERVE, at=NOW)
    assert again == case
    assert any(effect.kind is EffectKind.DRAIN and effect.outcome is Outcome.ASKED for effect in again.effects)


def test_a_case_that_an_older_version_saved_is_read() -> None:
    packed = pack_case(a_case())
    del packed["drill"], packed["forced"]
    assert unpack_case(packed) == a_case()


# --- the budget -------------------------------------------------------------------------------------------------------

HARDWARE, APPLICATION = FaultClass.HARDWARE, FaultClass.APPLICATION


@pytest.mark.parametrize(
    ("budget", "out", "held"),
    [
        (Budget(), [HARDWARE] * 100, ""),
        (Budget(gpus=2), [HARDWARE], ""),
        (Budget(gpus=2), [HARDWARE, APPLICATION], "2 GPUs are out of service, and the budget is 2"),
        (Budget(by_class={APPLICATION: 1}), [APPLICATION], ""),
        (
            Budget(by_class={HARDWARE: 1}),
            [APPLICATION, HARDWARE],
            "1 GPU is out of service for hardware faults, and the budget for these is 1",
        ),
    ],
)
def test_a_budget_counts_what_is_out_of_service(budget: Budget, out: list[FaultClass], held: str) -> None:
    assert budget.holds(HARDWARE, out) == held


def test_a_case_that_the_budget_holds_goes_on_when_another_has_ended() -> None:
    out = an_isolated_case()
    real = tuple(told([xid(48, 0)]).faults)
    shown = replace(
        snapshot(mode=Mode.ISOLATE), cases=(out,), faults=real, budget=Budget(gpus=1), brake=Brake(share=1.0)
    )
    held = decide(shown)
    assert held.cases[-1].state is S.SUSPECT
    assert held.cases[-1].because.startswith("Held by the budget: 1 GPU is out")
    ended = tuple(replace(case, state=S.CLOSED) if case.gpu == GPU_B else case for case in held.cases)
    assert decide(replace(shown, cases=ended)).cases[-1].state is S.FENCED
