"""The questions that the table asks of a case and its scene. Each is one fact; which move follows is not here."""

from collections.abc import Callable

from gpuward.model.case import Case, EffectKind, Mode, Order, Outcome
from gpuward.model.level import Level
from gpuward.model.scene import Scene

Condition = Callable[[Case, Scene], bool]
EVIDENCE_TRIES = 2
RESTORE_TRIES = 3
NOT_DONE = frozenset({Outcome.REFUSED, Outcome.FAILED})


def always(_case: Case, _scene: Scene) -> bool:
    """Return True."""
    return True


def released(case: Case, _scene: Scene) -> bool:
    """Return whether a person released the case."""
    return case.order is Order.RELEASE


def retried(case: Case, scene: Scene) -> bool:
    """Return whether a person asked for another try, in the mode that may repair."""
    return case.order is Order.RETRY and scene.mode is Mode.REPAIR


def settled(case: Case, _scene: Scene) -> bool:
    """Return whether every effect that was asked for has an outcome."""
    return case.pending() is None


def withdrawn(_case: Case, scene: Scene) -> bool:
    """Return whether it was nothing: the fault was taken back."""
    return scene.fault.cleared


def must_not_act(_case: Case, scene: Scene) -> bool:
    """Return whether the fault may not act, by its origin or age."""
    return bool(scene.fault.idle_reason)


def over(_case: Case, scene: Scene) -> bool:
    """Return whether the fault has stopped."""
    return scene.fault.over


def observing(_case: Case, scene: Scene) -> bool:
    """Return whether nothing may be done, only said."""
    return scene.mode is Mode.OBSERVE


def observed_over(case: Case, scene: Scene) -> bool:
    """Return whether a fault that was only observed has stopped."""
    return observing(case, scene) and over(case, scene)


def drives_display(_case: Case, scene: Scene) -> bool:
    """Return whether a person may be looking at this GPU's picture."""
    return scene.gpu.display


def braked(_case: Case, scene: Scene) -> bool:
    """Return whether the brake holds new isolation."""
    return bool(scene.brake)


def over_budget(_case: Case, scene: Scene) -> bool:
    """Return whether the budget holds new isolation."""
    return bool(scene.budget)


def unapproved(_case: Case, scene: Scene) -> bool:
    """Return whether a person's word is waited for."""
    return scene.unapproved


def without_standby(case: Case, scene: Scene) -> bool:
    """Return whether the work could not go on elsewhere, and the fault can wait."""
    return patient(case, scene) and bool(scene.standby)


def of_its_job(case: Case, scene: Scene) -> bool:
    """Return whether the fault is the fault of the job that runs there, and can wait."""
    return patient(case, scene) and bool(scene.job_fault)


def urgent(_case: Case, scene: Scene) -> bool:
    """Return whether the GPU goes out of service at once."""
    return scene.fault.level is Level.P0


def patient(_case: Case, scene: Scene) -> bool:
    """Return whether the current work may end first."""
    return scene.fault.level is Level.P1


def idle(_case: Case, scene: Scene) -> bool:
    """Return whether no work holds the GPU, and no pod is left that has to go, for certain."""
    return scene.gpu.work == () and scene.victims == ()


def held(case: Case, scene: Scene) -> bool:
    """Return whether work holds the GPU or a pod is left, or may be: unknown is held."""
    return not idle(case, scene)


def saving(case: Case, scene: Scene) -> bool:
    """Return whether those that were told still save their state, or are not told yet."""
    return bool(scene.saving) or not settled(case, scene)


def still_saving(_case: Case, scene: Scene) -> bool:
    """Return whether pods are left that are given time to save, while the others go."""
    return bool(scene.saving)


def pods_came(case: Case, scene: Scene) -> bool:
    """Return whether a pod has to go that was not listed, or came in place of one that was, when they were evicted.

    After an eviction that failed those that still save are waited for, and all are asked together: not again and again.
    """
    came = bool(set(scene.victims or ()) - set(case.victims))
    is_due = bool(scene.returned) and not (scene.saving and _newest_is(case, EffectKind.EVICT, *NOT_DONE))
    return settled(case, scene) and EffectKind.EVICT in scene.reach and (came or is_due)


def not_evicted(case: Case, scene: Scene) -> bool:
    """Return whether pods could not be evicted, and are still there; those that save are asked first."""
    is_over = settled(case, scene) and scene.victims != () and not scene.saving
    return is_over and _newest_is(case, EffectKind.EVICT, *NOT_DONE)


def marked(case: Case, scene: Scene) -> bool:
    """Return whether a mark of ours stands, and no undo of it is under way."""
    return settled(case, scene) and bool(case.marks)


def unmarked(case: Case, scene: Scene) -> bool:
    """Return whether no mark of ours stands, for certain."""
    return settled(case, scene) and not case.marks


def not_undone(case: Case, scene: Scene) -> bool:
    """Return whether an undo was refused or failed since the case entered its state."""
    kinds = (EffectKind.UNDRAIN, EffectKind.RESTORE, EffectKind.UNTAINT)
    return settled(case, scene) and any(
        effect.kind in kinds and effect.outcome in NOT_DONE for effect in case.effects[case.entered_with :]
    )


def unseen(_case: Case, scene: Scene) -> bool:
    """Return whether nobody can see what holds the GPU."""
    return scene.gpu.work is None


def undrained(case: Case, _scene: Scene) -> bool:
    """Return whether no drain was asked for since the case was fenced."""
    return not any(effect.kind is EffectKind.DRAIN for effect in case.effects)


def now_urgent(case: Case, scene: Scene) -> bool:
    """Return whether a fault that could wait has worsened."""
    return urgent(case, scene) and undrained(case, scene)


def fenced_and_urgent(case: Case, scene: Scene) -> bool:
    """Return whether the drain of an urgent case has its outcome; refused or failed, the case goes on all the same."""
    return urgent(case, scene) and settled(case, scene) and not undrained(case, scene)


def patient_and_idle(case: Case, scene: Scene) -> bool:
    """Return whether a case that let the work end may go on: nothing runs, and no pod has the GPU that may go on."""
    return patient(case, scene) and settled(case, scene) and idle(case, scene) and scene.keepers == ()


def halted(case: Case, scene: Scene) -> bool:
    """Return whether a repair that was begun may not go on, and nothing was reset."""
    return settled(case, scene) and scene.mode is not Mode.REPAIR and case.newest(EffectKind.RESET) is None


def drained_in_vain(case: Case, scene: Scene) -> bool:
    """Return whether the drain of an urgent case was refused or failed."""
    return fenced_and_urgent(case, scene) and _newest_is(case, EffectKind.DRAIN, *NOT_DONE)


def isolating(_case: Case, scene: Scene) -> bool:
    """Return whether repair is not allowed."""
    return scene.mode is not Mode.REPAIR


def obstructed(_case: Case, scene: Scene) -> bool:
    """Return whether this GPU cannot or must not be reset."""
    return bool(scene.obstacle)


def unfenced(case: Case, scene: Scene) -> bool:
    """Return whether the drain does not stand, and was not asked for since the case was vacated."""
    return settled(case, scene) and not case.marks.drained and case.newest(EffectKind.DRAIN) is None


def ready(case: Case, scene: Scene) -> bool:
    """Return whether nothing is under way any more, so that the repair may begin."""
    return settled(case, scene)


def without_evidence(case: Case, scene: Scene) -> bool:
    """Return whether the evidence before a repair could not be kept, however often it was tried."""
    tries = sum(effect.kind is EffectKind.EVIDENCE for effect in case.effects[case.entered_with :])
    return tries >= EVIDENCE_TRIES and evidence_failed(case, scene)


def evidence_failed(case: Case, scene: Scene) -> bool:
    """Return whether the newest evidence was not kept."""
    return settled(case, scene) and _newest_is(case, EffectKind.EVIDENCE, *NOT_DONE)


def free_but_drained(case: Case, scene: Scene) -> bool:
    """Return whether services are stopped and only our own drain is still in the way of the reset."""
    return settled(case, scene) and _newest_is(case, EffectKind.PAUSE, Outcome.DONE) and case.marks.drained


def free(case: Case, scene: Scene) -> bool:
    """Return whether services are stopped, no drain stands, and the reset was not asked for yet."""
    paused = settled(case, scene) and _newest_is(case, EffectKind.PAUSE, Outcome.DONE)
    return paused and not case.marks.drained and case.newest(EffectKind.RESET) is None


def not_undrained(case: Case, scene: Scene) -> bool:
    """Return whether the drain could not be lifted for the reset."""
    return settled(case, scene) and _newest_is(case, EffectKind.UNDRAIN, *NOT_DONE)


def not_paused(case: Case, scene: Scene) -> bool:
    """Return whether the services could not be stopped."""
    return settled(case, scene) and _newest_is(case, EffectKind.PAUSE, *NOT_DONE)


def was_reset(case: Case, scene: Scene) -> bool:
    """Return whether the reset was done."""
    return settled(case, scene) and _newest_is(case, EffectKind.RESET, Outcome.DONE)


def not_reset(case: Case, scene: Scene) -> bool:
    """Return whether the reset was refused or failed."""
    return settled(case, scene) and _newest_is(case, EffectKind.RESET, *NOT_DONE)


def reset_was_held(case: Case, scene: Scene) -> bool:
    """Return whether the reset was refused because work came back."""
    return settled(case, scene) and _newest_is(case, EffectKind.RESET, Outcome.REFUSED) and held(case, scene)


def verified(case: Case, scene: Scene) -> bool:
    """Return whether the GPU was proven healthy."""
    return settled(case, scene) and _newest_is(case, EffectKind.VERIFY, Outcome.DONE)


def not_verified(case: Case, scene: Scene) -> bool:
    """Return whether the proof failed."""
    return settled(case, scene) and _newest_is(case, EffectKind.VERIFY, *NOT_DONE)


def needs_diagnostics(case: Case, scene: Scene) -> bool:
    """Return whether a verified GPU must still not return by itself."""
    return verified(case, scene) and (case.parks or scene.fault.parks)


def relapsed(_case: Case, scene: Scene) -> bool:
    """Return whether a new fault came since the repair."""
    return bool(scene.relapse)


def not_restored(case: Case, scene: Scene) -> bool:
    """Return whether services or persistence mode could not be put back, and another try is left."""
    tries = sum(effect.kind is EffectKind.RESTORE for effect in case.effects[case.entered_with :])
    return settled(case, scene) and _newest_is(case, EffectKind.RESTORE, *NOT_DONE) and tries < RESTORE_TRIES


def never_restored(case: Case, scene: Scene) -> bool:
    """Return whether they could not be put back, however often it was tried."""
    return settled(case, scene) and _newest_is(case, EffectKind.RESTORE, *NOT_DONE) and not not_restored(case, scene)


def overtaken(case: Case, scene: Scene) -> bool:
    """Return whether this is a drill, and a real fault came on its GPU."""
    return case.drill is not None and bool(scene.overtaken)


def drilled_only_to_say(case: Case, scene: Scene) -> bool:
    """Return whether this is a drill of the mode in which nothing is done."""
    return case.drill is not None and observing(case, scene)


def drill_leaves_marks(case: Case, scene: Scene) -> bool:
    """Return whether a drill has come to its end, and the undoing is still to be rehearsed."""
    return case.drill is not None and marked(case, scene) and not not_undone(case, scene)


def drill_ends(case: Case, scene: Scene) -> bool:
    """Return whether a drill has come to its end."""
    return case.drill is not None and settled(case, scene)


def proven(case: Case, scene: Scene) -> bool:
    """Return whether probation is over without a new fault, and no mark is left."""
    return _is_over(case, scene) and not case.marks


def proven_and_tainted(case: Case, scene: Scene) -> bool:
    """Return whether probation is over, and the taint still stands."""
    return _is_over(case, scene) and case.marks.tainted and case.newest(EffectKind.UNTAINT) is None


def proven_in_vain(case: Case, scene: Scene) -> bool:
    """Return whether probation is over, and the taint could not be taken away."""
    return _is_over(case, scene) and _newest_is(case, EffectKind.UNTAINT, *NOT_DONE)


def _is_over(case: Case, scene: Scene) -> bool:
    return settled(case, scene) and scene.now - case.since >= scene.probation_seconds


def _newest_is(case: Case, kind: EffectKind, *outcomes: Outcome) -> bool:
    last = case.newest(kind)
    return last is not None and last.outcome in outcomes


def _both(*conditions: Condition) -> Condition:
    """Return the condition that holds when all of these do."""

    def holds(case: Case, scene: Scene) -> bool:
        return all(condition(case, scene) for condition in conditions)

    holds.__name__ = "_and_".join(condition.__name__ for condition in conditions)
    return holds


released_unmarked = _both(released, unmarked)
release_not_undone = _both(released, not_undone)
released_marked = _both(released, marked)
unseen_and_obstructed = _both(settled, unseen, obstructed)
of_its_job_and_over = _both(of_its_job, over)
fenced_for_its_job = _both(of_its_job, undrained, marked)
fenced_for_its_job_unmarked = _both(of_its_job, unmarked)
fenced_for_its_job_not_undone = _both(of_its_job, undrained, not_undone)
taken_back = _both(withdrawn, marked)
taken_back_unmarked = _both(withdrawn, unmarked)
taken_back_not_undone = _both(withdrawn, not_undone)
