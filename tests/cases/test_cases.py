"""What becomes of a case, in the words of the mission: fence before fix, proof before return, nothing left behind."""

from dataclasses import replace

import pytest

from gpuward.isolation import laws
from gpuward.isolation.machine import forgo, next_step
from gpuward.isolation.table import MOVES
from gpuward.model.case import ENDED, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import Scene
from tests.kit.all_lives import chance_life, directed_lives
from tests.kit.lives import PROBATION_SECONDS, Life, a_case, a_scene, asked
from tests.kit.node_lives import a_lost_node

S = CaseState
E = EffectKind
REPAIR = [E.EVIDENCE, E.DRAIN, E.EVIDENCE, E.PAUSE, E.UNDRAIN, E.RESET, E.RESTORE, E.VERIFY]


def state_of(life: Life) -> CaseState:
    return life.case.state


def test_an_urgent_fault_is_drained_repaired_proven_and_returned() -> None:
    life = Life().play(a_scene())
    assert life.case.state is S.PROBATION
    assert asked(life.case) == REPAIR
    life.play(a_scene(now=PROBATION_SECONDS))
    assert life.states == [
        S.FENCED,
        S.SAVING,
        S.EVACUATING,
        S.VACATED,
        S.REPAIRING,
        S.REPAIRING,
        S.REPAIRING,
        S.VERIFYING,
        S.PROBATION,
        S.CLOSED,
    ]
    assert not life.broken


def test_its_work_runs_out_before_the_repair() -> None:
    life = Life().play(a_scene(work=("train (7)",)))
    assert life.case.state is S.EVACUATING
    assert asked(life.case) == [E.EVIDENCE, E.DRAIN]
    assert "train (7)" in life.case.because
    assert Life().play(a_scene(work=None)).case.state is S.EVACUATING, "unknown is held"


def test_a_patient_fault_keeps_its_work_and_is_drained_when_that_has_ended() -> None:
    life = Life(case=a_case(level=Level.P1)).play(a_scene(level=Level.P1, work=("train (7)",)))
    assert state_of(life) is S.FENCED
    assert asked(life.case) == [E.EVIDENCE]
    life.play(a_scene(level=Level.P1))
    assert state_of(life) is S.PROBATION
    assert asked(life.case) == REPAIR


def test_a_patient_fault_that_worsens_is_drained_at_once() -> None:
    life = Life(case=a_case(level=Level.P1)).play(a_scene(level=Level.P1, work=("train (7)",)))
    life.play(a_scene(level=Level.P0, work=("train (7)",)))
    assert life.case.state is S.EVACUATING
    assert asked(life.case) == [E.EVIDENCE, E.DRAIN]
    assert life.case.level is Level.P0


def test_mode_observe_only_says() -> None:
    life = Life().play(a_scene(mode=Mode.OBSERVE))
    assert life.case.state is S.SUSPECT
    assert "would be taken out" in life.case.because
    life.play(a_scene(mode=Mode.OBSERVE, over=True))
    assert (life.case.state, life.case.effects) == (S.WITHDRAWN, ())


def test_an_agent_that_comes_back_in_mode_observe_does_nothing_more() -> None:
    life = Life(case=a_case(level=Level.P1)).play(a_scene(level=Level.P1, work=("train (7)",)))
    before = asked(life.case)
    life.play(a_scene(level=Level.P1, mode=Mode.OBSERVE))
    assert (life.case.state, asked(life.case)) == (S.FENCED, before)
    assert not life.broken


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ISOLATE])
def test_a_repair_that_was_begun_is_parked_in_a_lesser_mode(mode: Mode) -> None:
    life = Life()
    while life.case.state is not S.REPAIRING:
        life.see(a_scene())
        life.end(Outcome.DONE, at=0.0)
    life.play(a_scene(mode=mode))
    assert state_of(life) is S.PARKED
    assert E.RESET not in asked(life.case)
    assert "reset is due" in life.case.due.lower()
    assert not life.broken


@pytest.mark.parametrize(
    ("mode", "forgone"),
    [
        (Mode.OBSERVE, {E.DRAIN, E.PAUSE, E.RESET, E.TAINT, E.PROMOTE, E.NOTICE, E.EVICT, E.CLEAR, E.REBOOT}),
        (Mode.ISOLATE, {E.PAUSE, E.RESET, E.REBOOT}),
        (Mode.REPAIR, set()),
    ],
)
def test_what_was_asked_for_in_a_greater_mode_is_forgone_in_a_lesser(mode: Mode, forgone: set[EffectKind]) -> None:
    case = a_case(effects=tuple(Effect(number, kind, 0.0) for number, kind in enumerate(EffectKind, 1)))
    after = forgo(case, mode, at=5.0)
    assert {effect.kind for effect in after.effects if effect.outcome is Outcome.FAILED} == forgone
    assert all(effect.outcome in {Outcome.FAILED, Outcome.ASKED} for effect in after.effects)
    assert after.marks.altered, "it is not known whether it was done"


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_a_drain_that_failed_is_said_and_asks_a_person_to_keep_work_off(outcome: Outcome) -> None:
    life = Life().see(a_scene(mode=Mode.ISOLATE))
    life.end(Outcome.DONE, at=0.0)
    life.end(outcome, at=0.0, why="in use")
    life.see(a_scene(mode=Mode.ISOLATE, work=("train (7)",)))
    assert any("could not be drained" in said and "in use" in said for said in life.said)
    life.play(a_scene(mode=Mode.ISOLATE))
    assert state_of(life) is S.PARKED
    if outcome is Outcome.REFUSED:
        assert "Keep work off it by hand" in life.case.due


def test_a_retry_does_not_undo_a_release() -> None:
    life = Life().play(a_scene(mode=Mode.ISOLATE))
    life.order(Order.RELEASE)
    life.see(a_scene())
    life.order(Order.RETRY)
    assert life.play(a_scene()).case.state is S.CLOSED


def test_mode_isolate_parks_a_free_gpu_with_what_is_due() -> None:
    life = Life().play(a_scene(mode=Mode.ISOLATE))
    assert life.case.state is S.PARKED
    assert asked(life.case) == [E.EVIDENCE, E.DRAIN, E.RESTORE]
    assert "reset is due" in life.case.due.lower()
    assert life.case.marks.drained


def test_a_retry_in_mode_repair_goes_on_from_parked() -> None:
    life = Life().play(a_scene(mode=Mode.ISOLATE))
    life.order(Order.RETRY)
    assert life.play(a_scene(mode=Mode.ISOLATE)).case.state is S.PARKED
    life.order(Order.RETRY)
    assert life.play(a_scene()).case.state is S.PROBATION


@pytest.mark.parametrize(
    ("change", "word"), [({"brake": "six nodes at once"}, "six nodes"), ({"budget": "one at a time"}, "one at a time")]
)
def test_brake_and_budget_hold_and_say_so(change: dict[str, str], word: str) -> None:
    life = Life().play(a_scene(**change))
    assert (life.case.state, life.case.effects) == (S.SUSPECT, ())
    assert word in life.case.because
    assert life.play(a_scene()).case.state is S.PROBATION


def test_a_fault_taken_back_leaves_no_mark() -> None:
    assert Life().play(a_scene(cleared=True)).case.effects == ()
    life = Life(case=a_case(level=Level.P1)).play(a_scene(level=Level.P1, work=("train (7)",)))
    life.play(a_scene(level=Level.P1, work=("train (7)",), cleared=True))
    assert life.case.state is S.WITHDRAWN
    assert not life.case.marks


def test_a_fenced_fault_taken_back_is_undrained() -> None:
    life = Life().see(a_scene())
    life.end(Outcome.DONE, at=0.0)
    life.play(a_scene(cleared=True))
    assert life.case.state in {S.WITHDRAWN, S.EVACUATING, S.PROBATION}
    assert not life.broken


def test_what_may_not_act_is_withdrawn_with_its_reason() -> None:
    life = Life().play(a_scene(idle_reason="The line is three weeks old."))
    assert (life.case.state, life.case.because, life.case.effects) == (S.WITHDRAWN, "The line is three weeks old.", ())


def test_a_display_is_left_alone() -> None:
    life = Life().play(a_scene(display=True))
    assert (life.case.state, life.case.effects) == (S.PARKED, ())
    assert life.case.due


def test_a_gpu_that_cannot_be_reset_is_parked_with_what_is_due() -> None:
    life = Life().play(a_scene(obstacle="reboot the node"))
    assert (life.case.state, life.case.due) == (S.PARKED, "reboot the node")
    assert E.RESET not in asked(life.case)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
@pytest.mark.parametrize("kind", [E.PAUSE, E.RESET, E.VERIFY])
def test_what_fails_in_the_repair_parks_drained_with_services_back(kind: EffectKind, outcome: Outcome) -> None:
    life = _until(kind, outcome)
    assert life.case.state is S.PARKED
    assert "it said no" in life.case.due
    assert life.case.marks.drained
    assert asked(life.case)[-1] is E.RESTORE
    assert not life.broken


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_a_drain_that_is_refused_is_said_and_the_case_goes_on(outcome: Outcome) -> None:
    life = _until(E.DRAIN, outcome)
    assert life.case.state is S.PROBATION
    assert not life.broken


def test_no_evidence_no_reset() -> None:
    life = Life()
    for _ in range(12):
        life.see(a_scene())
        effect = life.case.pending()
        repairing = life.case.state is S.REPAIRING
        failed = effect is not None and effect.kind is E.EVIDENCE and repairing
        life.end(Outcome.FAILED if failed else Outcome.DONE, at=0.0, why="the disk is full")
    assert life.case.state is S.PARKED
    assert "the disk is full" in life.case.because
    assert E.RESET not in asked(life.case)


def test_work_that_comes_back_before_the_reset_is_let_run() -> None:
    life = Life()
    for _ in range(20):
        life.see(a_scene())
        effect = life.case.pending()
        if effect is not None and effect.kind is E.RESET:
            break
        life.end(Outcome.DONE, at=0.0)
    life.end(Outcome.REFUSED, at=0.0, why="in use")
    life.play(a_scene(work=("train (7)",)))
    assert state_of(life) is S.EVACUATING
    assert life.case.marks.drained
    life.play(a_scene())
    assert state_of(life) is S.PROBATION


def test_a_relapse_on_probation_parks() -> None:
    life = Life().play(a_scene())
    life.play(a_scene(now=10.0, relapse="Xid 48"))
    assert life.case.state is S.PARKED
    assert "Xid 48" in life.case.because
    assert life.case.marks.drained


def test_what_needs_diagnostics_does_not_return_by_itself() -> None:
    life = Life(case=a_case(parks=True)).play(a_scene())
    assert life.case.state is S.PARKED
    assert "EUD" in life.case.due


def test_services_that_do_not_start_are_tried_again_then_a_person_is_told() -> None:
    life = Life()
    for _ in range(30):
        life.see(a_scene())
        effect = life.case.pending()
        failed = effect is not None and effect.kind is E.RESTORE
        life.end(Outcome.FAILED if failed else Outcome.DONE, at=0.0, why="unit not found")
    assert life.case.state is S.PARKED
    assert "unit not found" in life.case.due
    assert asked(life.case).count(E.RESTORE) >= 3


@pytest.mark.parametrize("state", [state for state in S if state not in ENDED])
def test_a_release_ends_a_case_in_any_state_with_every_mark_undone(state: CaseState) -> None:
    life = _in_state(state)
    life.order(Order.RELEASE)
    life.play(a_scene())
    assert life.case.state is S.CLOSED
    assert not life.case.marks
    assert not life.broken


def test_a_release_that_cannot_undo_parks_and_says_what_to_do() -> None:
    life = Life().play(a_scene(mode=Mode.ISOLATE))
    life.order(Order.RELEASE)
    life.see(a_scene(mode=Mode.ISOLATE))
    life.end(Outcome.FAILED, at=0.0, why="nvidia-smi does not answer")
    life.end(Outcome.DONE, at=0.0)
    life.see(a_scene(mode=Mode.ISOLATE))
    assert life.case.state is S.PARKED
    assert "nvidia-smi does not answer" in life.case.due
    life.order(Order.RELEASE)
    assert life.play(a_scene(mode=Mode.ISOLATE)).case.state is S.CLOSED


def test_nothing_moves_while_an_effect_is_under_way() -> None:
    life = Life().see(a_scene())
    before = life.case
    assert life.see(a_scene()).case == before


def test_every_plan_goes_on_from_every_prefix() -> None:
    whole = Life().play(a_scene())
    for done in range(len(REPAIR)):
        life = Life()
        for _ in range(done):
            life.see(a_scene())
            life.end(Outcome.DONE, at=0.0)
        again = Life(case=life.case).play(a_scene())
        assert (again.case.state, asked(again.case)) == (whole.case.state, asked(whole.case))


# --- laws and chance ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 2000, 250))
def test_no_law_is_broken_in_lives_of_chance(first: int) -> None:
    for seed in range(first, first + 250):
        assert chance_life(seed).broken == [], f"seed {seed}"


def test_the_same_seed_is_the_same_life() -> None:
    assert chance_life(7) == chance_life(7)


def test_chance_reaches_every_row() -> None:
    fired: set[int] = set().union(*(live().fired for live in directed_lives()))
    for seed in range(1000):
        fired |= chance_life(seed).fired
    assert set(range(len(MOVES))) <= fired


def test_every_state_is_reachable_and_none_is_a_dead_end() -> None:
    assert laws.every_state_is_reachable(MOVES)
    assert laws.no_dead_ends(MOVES)


def test_a_gpu_has_one_case() -> None:
    assert laws.one_case_a_gpu([a_case(), a_case(id="c2", gpu="0000:86:00"), a_case(id="c3", state=S.CLOSED)])
    assert not laws.one_case_a_gpu([a_case(), a_case(id="c2")])


def test_a_node_has_one_case_of_its_own_beside_those_of_its_gpus() -> None:
    whole = a_lost_node(id="c2")
    assert laws.one_case_a_gpu([a_case(), whole, replace(whole, id="c3", node="gpu-2")])
    assert not laws.one_case_a_gpu([a_case(), whole, replace(whole, id="c3")])


def _until(kind: EffectKind, outcome: Outcome) -> Life:
    """Return a life in which one effect had this outcome and all others were done."""
    life = Life()
    once = False
    for _ in range(30):
        life.see(a_scene())
        effect = life.case.pending()
        hit = effect is not None and effect.kind is kind and not once
        once = once or hit
        life.end(outcome if hit else Outcome.DONE, at=0.0, why="it said no" if hit else "")
    assert once
    return life


def _in_state(state: CaseState) -> Life:
    if state is S.PARKED:
        return Life().play(a_scene(mode=Mode.ISOLATE))
    if state is S.SUSPECT:
        return Life()
    life = Life()
    scene = a_scene(work=("train (7)",)) if state is S.EVACUATING else a_scene()
    for _ in range(30):
        for step_state in _steps(life, scene):
            if step_state is state:
                return life
        life.end(Outcome.DONE, at=0.0)
    raise AssertionError(state)


def _steps(life: Life, scene: Scene) -> list[CaseState]:
    """Take one step at a time, so that a life can be stopped in a state that is passed through."""
    step = next_step(life.case, scene)
    if step is None:
        return [life.case.state]
    life.case = step.after
    return [step.after.state]
