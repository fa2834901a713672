"""What must hold of every case and of the table, each law a named function. Tests, simulation and production ask them.

A law of a step is asked after each step in production: one that is broken parks that case and tells. A law of the table
is about all cases at once, and a test asks it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from gpuward.isolation.conditions import NOT_DONE
from gpuward.isolation.machine import REPAIRS, TOUCHES, Step
from gpuward.isolation.table import Move, moves_from
from gpuward.model.case import ENDED, Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import Scene

StepLaw = Callable[[Step, Scene], bool]
RESETS_A_DAY = 3
DAY_SECONDS = 86400.0


def fence_before_fix(step: Step, _scene: Scene) -> bool:
    """A reset is asked for only after a drain was, in the same case."""
    asked = [effect.kind for effect in step.after.effects]
    return EffectKind.RESET not in asked or EffectKind.DRAIN in asked[: asked.index(EffectKind.RESET)]


def evidence_before_drain(step: Step, _scene: Scene) -> bool:
    """Evidence is asked for before the first drain: what is drained is no longer seen."""
    asked = [effect.kind for effect in step.after.effects]
    return EffectKind.DRAIN not in asked or EffectKind.EVIDENCE in asked[: asked.index(EffectKind.DRAIN)]


def evidence_before_reset(step: Step, _scene: Scene) -> bool:
    """No reset is asked for before evidence was kept in the same repair."""
    if not any(effect.kind is EffectKind.RESET for effect in _new(step)):
        return True
    repair = step.after.effects[step.after.entered_with :]
    return any(effect.kind is EffectKind.EVIDENCE and effect.outcome is Outcome.DONE for effect in repair)


def prove_or_park_before_return(step: Step, _scene: Scene) -> bool:
    """A GPU that was reset returns only after its proof, or by a person's word."""
    if step.after.state is not CaseState.CLOSED or step.before.order is Order.RELEASE:
        return True
    reset = _last(step.after, EffectKind.RESET)
    proof = _last(step.after, EffectKind.VERIFY)
    return reset is None or (proof is not None and proof.number > reset.number and proof.outcome is Outcome.DONE)


def no_mark_left_behind(step: Step, _scene: Scene) -> bool:
    """A case that has ended leaves no drain, no stopped service and no changed persistence mode."""
    return step.after.state not in ENDED or (not step.after.marks and step.after.pending() is None)


def closed_is_closed(step: Step, _scene: Scene) -> bool:
    """A case that has ended does not move."""
    return step.before.state not in ENDED


def failure_parks_and_tells(step: Step, _scene: Scene) -> bool:
    """A reset or proof that failed leads to parked, with what is due, and never on."""
    newest = step.before.effects[-1] if step.before.effects else None
    if newest is None or newest.kind not in {EffectKind.RESET, EffectKind.VERIFY} or newest.outcome not in NOT_DONE:
        return True
    return step.after.state in {CaseState.PARKED, CaseState.CLOSED, CaseState.EVACUATING} or step.move.stays


def parked_says_what_is_due(step: Step, _scene: Scene) -> bool:
    """A case that waits for a person says for what."""
    return step.after.state is not CaseState.PARKED or bool(step.after.due)


def a_false_alarm_costs_nothing(step: Step, _scene: Scene) -> bool:
    """A fault that was taken back while suspect had nothing asked for."""
    return not (step.before.state is CaseState.SUSPECT and step.after.state is CaseState.WITHDRAWN) or (
        not step.after.effects
    )


def time_only_moves_forward(step: Step, _scene: Scene) -> bool:
    """No state begins, and no effect is asked for, before what came before it."""
    times = [effect.asked_at for effect in step.after.effects]
    return step.after.since >= step.before.since and times == sorted(times)


def bounded_resets(step: Step, scene: Scene) -> bool:
    """A GPU's case asks for at most three resets a day."""
    return step.after.resets_since(scene.now - DAY_SECONDS) <= RESETS_A_DAY


def observe_does_nothing(step: Step, scene: Scene) -> bool:
    """In mode observe nothing is asked for that changes the machine, but the undoing of what an earlier mode did."""
    return scene.mode is not Mode.OBSERVE or all(effect.kind not in TOUCHES for effect in _new(step))


def only_repair_resets(step: Step, scene: Scene) -> bool:
    """A service is stopped and a GPU is reset in mode repair only."""
    return scene.mode is Mode.REPAIR or all(effect.kind not in REPAIRS for effect in _new(step))


def work_of_a_patient_fault_may_end(step: Step, scene: Scene) -> bool:
    """A P1 is not drained while work holds the GPU, or may hold it."""
    if scene.fault.level is Level.P0 or step.before.level is Level.P0 or scene.gpu.work == ():
        return True
    return step.before.state is not CaseState.FENCED or not any(
        effect.kind is EffectKind.DRAIN for effect in _new(step)
    )


def reset_only_when_free(step: Step, scene: Scene) -> bool:
    """A repair is not begun while work holds the GPU, or may hold it."""
    return step.move.to is not CaseState.REPAIRING or step.move.stays or scene.gpu.work == ()


def displays_are_left_alone(step: Step, scene: Scene) -> bool:
    """A GPU that drives a display is not drained to begin with."""
    return not scene.gpu.display or step.before.state is not CaseState.SUSPECT or not _new(step)


STEP_LAWS: tuple[StepLaw, ...] = (
    fence_before_fix,
    evidence_before_drain,
    evidence_before_reset,
    prove_or_park_before_return,
    no_mark_left_behind,
    closed_is_closed,
    failure_parks_and_tells,
    parked_says_what_is_due,
    a_false_alarm_costs_nothing,
    time_only_moves_forward,
    bounded_resets,
    observe_does_nothing,
    only_repair_resets,
    work_of_a_patient_fault_may_end,
    reset_only_when_free,
    displays_are_left_alone,
)


def broken_by(step: Step, scene: Scene) -> list[str]:
    """Return the names of the laws that a step breaks."""
    return [law.__name__ for law in STEP_LAWS if not law(step, scene)]


# --- laws of the table ------------------------------------------------------------------------------------------------


def every_state_is_reachable(moves: Sequence[Move]) -> bool:
    """Every state can be come to from suspect."""
    return _reachable(CaseState.SUSPECT, moves) == set(CaseState)


def no_dead_ends(moves: Sequence[Move]) -> bool:
    """From every state a case can end."""
    return all(_reachable(state, moves) & ENDED for state in CaseState)


def one_case_a_gpu(cases: Iterable[Case]) -> bool:
    """No GPU has two cases that have not ended."""
    gpus = [(case.node, case.gpu) for case in cases if case.state not in ENDED]
    return len(gpus) == len(set(gpus))


def _reachable(start: CaseState, moves: Sequence[Move]) -> set[CaseState]:
    seen = {start}
    todo = [start]
    while todo:
        state = todo.pop()
        for move in _rows(state, moves):
            if move.to not in seen:
                seen.add(move.to)
                todo.append(move.to)
    return seen


def _rows(state: CaseState, moves: Sequence[Move]) -> Iterator[Move]:
    yield from moves_from(state, moves)


def _new(step: Step) -> tuple[Effect, ...]:
    return step.after.effects[len(step.before.effects) :]


def _last(case: Case, kind: EffectKind) -> Effect | None:
    return next((effect for effect in reversed(case.effects) if effect.kind is kind), None)
