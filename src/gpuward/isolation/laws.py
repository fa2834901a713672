"""What must hold of every case and of the table, each law a named function. Tests, simulation and production ask them.

A law of a step is asked after each step in production: one that is broken parks that case and tells. A law of the table
is about all cases at once, and a test asks it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from gpuward.isolation.boot_conditions import MOST_TRIES, is_of_an_earlier_boot
from gpuward.isolation.conditions import NOT_DONE
from gpuward.isolation.machine import REPAIRS, TOUCHES, Step
from gpuward.isolation.move import Move
from gpuward.isolation.node_conditions import MOST_RETURNS, is_tainting
from gpuward.isolation.rebooting import MOST_A_DAY
from gpuward.isolation.table import moves_from
from gpuward.model.case import ENDED, TO_A_NODE, Case, CaseState, Effect, EffectKind, Mode, Order, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import Scene

StepLaw = Callable[[Step, Scene], bool]
FIXES = frozenset({EffectKind.RESET, EffectKind.REBOOT})
RESETS_A_DAY = 3
DAY_SECONDS = 86400.0


def fence_before_fix(step: Step, _scene: Scene) -> bool:
    """A reset or reboot is asked for only after a drain was, in the same case."""
    asked = [effect.kind for effect in step.after.effects]
    fixes = [number for number, kind in enumerate(asked) if kind in FIXES]
    return not fixes or EffectKind.DRAIN in asked[: fixes[0]]


def fence_before_evict(step: Step, scene: Scene) -> bool:
    """A pod is evicted only after its node was tainted, and not in vain: else another would come in its place."""
    if not any(effect.kind is EffectKind.EVICT for effect in _new(step)):
        return True
    return is_tainting(step.before) or scene.node.gone


def victims_are_listed_first(step: Step, scene: Scene) -> bool:
    """When an eviction is asked for, every pod that has to go stands in the case."""
    if not any(effect.kind is EffectKind.EVICT for effect in _new(step)):
        return True
    return scene.victims is None or set(scene.victims) <= set(step.after.victims)


def work_of_a_patient_fault_is_not_evicted(step: Step, scene: Scene) -> bool:
    """For a P1 no pod is evicted: its work may end by itself."""
    urgent = scene.fault.level is Level.P0 or step.before.level is Level.P0
    return urgent or all(effect.kind is not EffectKind.EVICT for effect in _new(step))


def a_drill_moves_nobody(step: Step, _scene: Scene) -> bool:
    """For a drill no pod is asked to go, and none is deleted."""
    moving = {EffectKind.EVICT, EffectKind.CLEAR}
    return step.before.drill is None or all(effect.kind not in moving for effect in _new(step))


def only_what_is_off_is_cleared(step: Step, scene: Scene) -> bool:
    """Pods are deleted, not asked to end, only on a node that is known to be off: else two of one would run."""
    is_off = not scene.node.answers and (bool(scene.node.off) or step.before.off)
    return is_off or all(effect.kind is not EffectKind.CLEAR for effect in _new(step))


def a_node_is_not_drained(step: Step, _scene: Scene) -> bool:
    """For a whole node nothing is asked of the agent but its proof: it does not answer, and no GPU is named."""
    return not step.before.of_node or all(effect.kind in TO_A_NODE for effect in _new(step))


def a_lost_node_returns_proven(step: Step, _scene: Scene) -> bool:
    """A node whose pods were evicted returns only after its proof, or by a person's word, or has left the cluster."""
    gone = step.before.state is CaseState.VACATED
    if not step.before.of_node or step.after.state is not CaseState.CLOSED or gone:
        return True
    proof = _last(step.after, EffectKind.VERIFY)
    return step.before.order is Order.RELEASE or (proof is not None and proof.outcome is Outcome.DONE)


def bounded_returns(step: Step, _scene: Scene) -> bool:
    """A lost node returns by itself from parked a few times in one case; then a person decides."""
    proofs = sum(effect.kind is EffectKind.VERIFY for effect in step.after.effects)
    by_itself = step.before.of_node and step.before.state is CaseState.PARKED
    return not by_itself or not _new(step) or _new(step)[0].kind is not EffectKind.VERIFY or proofs <= MOST_RETURNS


def nothing_out_of_reach(step: Step, scene: Scene) -> bool:
    """Nothing is asked for that cannot be done here."""
    return all(effect.kind in scene.reach for effect in _new(step))


def a_person_is_asked_first(step: Step, scene: Scene) -> bool:
    """Where a person's word is needed, nothing is asked for before it was given."""
    return not scene.unapproved or step.before.state is not CaseState.SUSPECT or not _new(step)


def evidence_before_drain(step: Step, _scene: Scene) -> bool:
    """Evidence is asked for before the first drain: what is drained is no longer seen."""
    asked = [effect.kind for effect in step.after.effects]
    return EffectKind.DRAIN not in asked or EffectKind.EVIDENCE in asked[: asked.index(EffectKind.DRAIN)]


def evidence_before_reset(step: Step, _scene: Scene) -> bool:
    """No reset or reboot is asked for before evidence was kept in the same repair."""
    if not any(effect.kind in FIXES for effect in _new(step)):
        return True
    repair = step.after.effects[step.after.entered_with :]
    return any(effect.kind is EffectKind.EVIDENCE and effect.outcome is Outcome.DONE for effect in repair)


def prove_or_park_before_return(step: Step, _scene: Scene) -> bool:
    """A GPU that was reset or rebooted returns only after its proof, or by a person's word; a drill resets nothing."""
    if step.after.state is not CaseState.CLOSED or step.before.order is Order.RELEASE or step.before.drill:
        return True
    reset = _last(step.after, *FIXES)
    proof = _last(step.after, EffectKind.VERIFY)
    return reset is None or (proof is not None and proof.number > reset.number and proof.outcome is Outcome.DONE)


def no_mark_left_behind(step: Step, _scene: Scene) -> bool:
    """A case that has ended leaves no drain, stopped service, changed persistence mode or taint; a drill made none."""
    if step.after.state not in ENDED:
        return True
    return step.after.pending() is None and (step.after.drill is not None or not step.after.marks)


def closed_is_closed(step: Step, _scene: Scene) -> bool:
    """A case that has ended does not move."""
    return step.before.state not in ENDED


def failure_parks_and_tells(step: Step, scene: Scene) -> bool:
    """A reset, reboot or proof that failed leads to parked, with what is due, and never on.

    From a reset the ladder may lead to a reboot, where one is allowed; from one that a boot of the node came before,
    to its proof. A drill may be over at any time.
    """
    if step.before.drill is not None and step.after.state in ENDED:
        return True
    # What failed in an earlier state has led to parked, and was told.
    here = step.before.effects[step.before.entered_with :]
    newest = here[-1] if here else None
    if newest is None or newest.kind not in FIXES | {EffectKind.VERIFY} or newest.outcome not in NOT_DONE:
        return True
    if newest.kind is EffectKind.RESET and is_of_an_earlier_boot(newest, scene):
        return step.after.state in {CaseState.VERIFYING, CaseState.PARKED, CaseState.CLOSED} or step.move.stays
    if newest.kind is EffectKind.RESET and not scene.reboot.why_not and step.after.state is CaseState.VACATED:
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


def bounded_over_boots(step: Step, _scene: Scene) -> bool:
    """What a boot of the node comes before is asked for a few times in one state, however often it boots."""
    here = [effect.kind for effect in step.after.effects[step.after.entered_with :]]
    kinds = (EffectKind.EVIDENCE, EffectKind.DRAIN, EffectKind.PAUSE, EffectKind.VERIFY)
    return all(here.count(kind) <= MOST_TRIES for kind in kinds)


def bounded_reboots(step: Step, scene: Scene) -> bool:
    """A case asks for at most three reboots of its node a day."""
    asked = [one for one in step.after.effects if one.kind is EffectKind.REBOOT]
    return sum(one.asked_at >= scene.now - DAY_SECONDS for one in asked) <= MOST_A_DAY


def nobody_is_hit_by_a_reboot(step: Step, scene: Scene) -> bool:
    """A node is rebooted only where that is allowed, and when no work with GPUs is left on it."""
    if all(effect.kind is not EffectKind.REBOOT for effect in _new(step)):
        return True
    return not (scene.reboot.why_not or scene.reboot.waits) and scene.gpu.work == () and scene.victims == ()


def observe_does_nothing(step: Step, scene: Scene) -> bool:
    """In mode observe nothing is asked for that changes the machine, but the undoing of what an earlier mode did."""
    return scene.mode is not Mode.OBSERVE or all(effect.kind not in TOUCHES for effect in _new(step))


def only_repair_resets(step: Step, scene: Scene) -> bool:
    """A service is stopped and a GPU is reset in mode repair only."""
    return scene.mode is Mode.REPAIR or all(effect.kind not in REPAIRS for effect in _new(step))


def work_of_a_patient_fault_may_end(step: Step, scene: Scene) -> bool:
    """A P1 is not drained while work holds the GPU, or may hold it, or a pod has it and may go on."""
    has_ended = scene.gpu.work == () and scene.keepers == ()
    if scene.fault.level is Level.P0 or step.before.level is Level.P0 or has_ended:
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
    fence_before_evict,
    victims_are_listed_first,
    work_of_a_patient_fault_is_not_evicted,
    a_drill_moves_nobody,
    only_what_is_off_is_cleared,
    a_node_is_not_drained,
    a_lost_node_returns_proven,
    bounded_returns,
    nothing_out_of_reach,
    a_person_is_asked_first,
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
    bounded_over_boots,
    bounded_reboots,
    nobody_is_hit_by_a_reboot,
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
    """No GPU has two cases that have not ended, and no node two of its own."""
    gpus = [(case.node, case.gpu) for case in cases if case.state not in ENDED and case.drill is None]
    return len(gpus) == len(set(gpus))


def a_drill_gives_way(cases: Iterable[Case]) -> bool:
    """No drill goes on for a GPU that has a real case."""
    cases = [case for case in cases if case.state not in ENDED]
    real = {(case.node, case.gpu) for case in cases if case.drill is None}
    return all((case.node, case.gpu) not in real for case in cases if case.drill is not None)


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


def _last(case: Case, *kinds: EffectKind) -> Effect | None:
    return next((effect for effect in reversed(case.effects) if effect.kind in kinds), None)
