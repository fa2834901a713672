"""Every move of a case, as data. Nothing else moves one; the picture in the docs is drawn from here.

How to read it. A case stands in a state. Rows of that state are asked from the top; the first whose condition holds
fires: its effects are asked for, in order, and the case goes `to` the row's state. A row whose `to` is its own state
keeps the case there; with effects it fires once, since asking changes the answer; without, it only says why it waits.

One GPU's case goes the way of `CaseState` from top to bottom. An urgent fault (P0) is drained at once and its work runs
out. A patient one (P1) keeps its work, is drained when that has ended, and goes on from there. Repair needs the mode
that allows it; without, the case is parked when the GPU is free, and says what is due. Whatever fails parks. A person's
release ends a case in any state, every mark undone. A case of a whole node has rows of its own, in node_table, and
those here that say so; what a boot of the node does to a case is in boot_table.
"""

from collections.abc import Iterable, Iterator

from gpuward.isolation import conditions as when
from gpuward.isolation import drain_conditions as drain
from gpuward.isolation import node_conditions as whole
from gpuward.isolation.boot_table import BOOT_MOVES
from gpuward.isolation.move import Move, Of
from gpuward.isolation.node_table import NODE_MOVES
from gpuward.isolation.reboot_table import REBOOT_MOVES
from gpuward.model.case import ENDED, Case, CaseState, EffectKind

S = CaseState
E = EffectKind


UNDO = (E.UNDRAIN, E.RESTORE, E.UNTAINT)
UNTAINTED = "The node could not be tainted, so no pod is evicted: another would come in its place. {why}"
NOT_AGAIN = "The node boots again and again, so the GPU is not drained, programs may still start on it."
WAITS = "Waits for its work to end: {work}"
TAINT_IT = "Cordon the node by hand and move its pods, or see to it that gpuward may taint it and retry: {why}"

MOVES: tuple[Move, ...] = (
    *BOOT_MOVES,
    *REBOOT_MOVES,
    # --- suspect: is it to be believed, and may anything be done? -------------------------------------------------
    Move(S.SUSPECT, when.withdrawn, S.WITHDRAWN, say="The fault was taken back before anything was done.", of=Of.ANY),
    Move(S.SUSPECT, when.must_not_act, S.WITHDRAWN, say="{idle_reason}", of=Of.ANY),
    Move(
        S.SUSPECT,
        when.drilled_only_to_say,
        S.WITHDRAWN,
        say="In mode observe: the {it} would be taken out of service now, and nothing is done.",
    ),
    Move(S.SUSPECT, when.observed_over, S.WITHDRAWN, say="The fault has stopped; it was only observed.", of=Of.ANY),
    Move(
        S.SUSPECT,
        when.observing,
        S.SUSPECT,
        say="In mode observe: the {it} would be taken out of service now.",
        of=Of.ANY,
    ),
    Move(
        S.SUSPECT,
        when.drives_display,
        S.PARKED,
        say="The GPU drives a display, so it is left alone.",
        due="Move the display to another GPU, or repair this one by hand.",
    ),
    Move(S.SUSPECT, when.of_its_job_and_over, S.WITHDRAWN, say="The fault has stopped: {job}."),
    Move(S.SUSPECT, when.of_its_job, S.SUSPECT, say="Left alone: {job}."),
    Move(S.SUSPECT, when.braked, S.SUSPECT, say="Held by the brake: {brake}", of=Of.ANY),
    Move(S.SUSPECT, when.over_budget, S.SUSPECT, say="Held by the budget: {budget}", of=Of.ANY),
    Move(S.SUSPECT, when.unapproved, S.SUSPECT, say="Waits for a person's word: approve it.", of=Of.ANY),
    Move(S.SUSPECT, when.without_standby, S.SUSPECT, say="It waits, for its work could not go on elsewhere: {standby}"),
    Move(
        S.SUSPECT,
        when.urgent,
        S.FENCED,
        (E.EVIDENCE, E.DRAIN, E.TAINT),
        say="Evidence is to be kept, and the GPU to be drained.",
    ),
    Move(
        S.SUSPECT,
        when.patient,
        S.FENCED,
        (E.EVIDENCE, E.TAINT, E.PROMOTE),
        say="No drain while work holds it; it waits until that ends.",
    ),
    # --- fenced: no new work --------------------------------------------------------------------------------------
    Move(S.FENCED, when.taken_back_unmarked, S.WITHDRAWN, say="The fault was taken back: no mark is left.", of=Of.ANY),
    Move(
        S.FENCED,
        when.taken_back_not_undone,
        S.PARKED,
        say="The fault was taken back, and a mark could not be undone: {why}",
        due="Undo it by hand, then release: {why}",
        of=Of.ANY,
    ),
    Move(
        S.FENCED,
        when.taken_back,
        S.FENCED,
        UNDO,
        say="The fault was taken back: every mark is to be undone.",
        of=Of.ANY,
    ),
    Move(
        S.FENCED,
        when.observing,
        S.FENCED,
        say="In mode observe nothing more is done; a release undoes what was.",
        of=Of.ANY,
    ),
    Move(S.FENCED, when.fenced_for_its_job_unmarked, S.WITHDRAWN, say="No mark is left: {job}."),
    Move(
        S.FENCED,
        when.fenced_for_its_job_not_undone,
        S.PARKED,
        say="A mark could not be undone, and {job}: {why}",
        due="Undo it by hand, then release: {why}",
    ),
    Move(S.FENCED, when.fenced_for_its_job, S.FENCED, (E.UNTAINT,), say="The taint is to be taken away: {job}."),
    Move(
        S.FENCED,
        whole.taint_tried_again,
        S.FENCED,
        (E.TAINT,),
        say="The node is to be tainted again, which failed before: {why}",
        of=Of.ANY,
    ),
    Move(S.FENCED, whole.taint_waits, S.FENCED, say="The node could not be tainted yet: {why}", of=Of.ANY),
    Move(
        S.FENCED,
        whole.tainted_in_vain,
        S.PARKED,
        (E.RESTORE,),
        say=UNTAINTED,
        due=TAINT_IT,
        of=Of.ANY,
    ),
    Move(S.FENCED, whole.untainted, S.FENCED, (E.TAINT,), say="The node is to be tainted again.", of=Of.ANY),
    Move(S.FENCED, when.now_urgent, S.FENCED, (E.DRAIN,), say="The fault worsened: the GPU is to be drained."),
    Move(S.FENCED, drain.urgent_and_boots_too_often, S.SAVING, (E.PROMOTE, E.NOTICE), say=NOT_AGAIN),
    Move(
        S.FENCED,
        when.drained_in_vain,
        S.SAVING,
        (E.PROMOTE, E.NOTICE),
        say="It could not be drained, programs may still start on it: {why}",
    ),
    Move(S.FENCED, when.fenced_and_urgent, S.SAVING, (E.PROMOTE, E.NOTICE), say="Fenced."),
    Move(S.FENCED, when.patient_and_idle, S.VACATED, (E.DRAIN,), say="{ended} The GPU is to be drained."),
    Move(S.FENCED, when.patient, S.FENCED, say=WAITS),
    # --- saving, evacuating: the work that runs -------------------------------------------------------------------
    Move(S.SAVING, whole.untainted, S.FENCED, (E.TAINT,), say="The node is to be tainted first.", of=Of.ANY),
    Move(S.SAVING, when.saving, S.SAVING, say="{saves}"),
    Move(S.SAVING, when.always, S.EVACUATING, (E.EVICT,), say="{saved}"),
    Move(S.EVACUATING, when.idle, S.VACATED, say="{free}"),
    Move(
        S.EVACUATING,
        whole.to_evict_in_vain,
        S.PARKED,
        (E.RESTORE,),
        say=UNTAINTED,
        due=TAINT_IT,
        of=Of.ANY,
    ),
    Move(
        S.EVACUATING,
        whole.to_evict_untainted,
        S.EVACUATING,
        (E.TAINT,),
        say="The node is to be tainted again before pods are evicted from it.",
        of=Of.ANY,
    ),
    Move(S.EVACUATING, when.pods_came, S.EVACUATING, (E.EVICT,), say="More pods have to go: {victims}"),
    Move(
        S.EVACUATING,
        when.not_evicted,
        S.PARKED,
        say="Its pods could not be evicted: {why}",
        due="End them by hand, then retry: {why}",
    ),
    Move(
        S.EVACUATING,
        when.unseen_and_obstructed,
        S.PARKED,
        (E.RESTORE,),
        say="Nobody can see what holds it, and it cannot be reset: {obstacle}",
        due="{obstacle}",
    ),
    Move(S.EVACUATING, drain.held_and_boots_too_often, S.EVACUATING, say=f"{NOT_AGAIN} {WAITS}"),
    Move(
        S.EVACUATING,
        drain.held_undrained,
        S.EVACUATING,
        say=f"It is not known to be drained, programs may still start on it. {WAITS}",
    ),
    Move(S.EVACUATING, when.still_saving, S.EVACUATING, say="Jobs save their state: {saving}"),
    Move(S.EVACUATING, when.held, S.EVACUATING, say=WAITS),
    # --- vacated: may it be repaired? -----------------------------------------------------------------------------
    Move(S.VACATED, when.held, S.EVACUATING, say="Work holds the GPU again."),
    Move(
        S.VACATED,
        drain.obstructed_while_draining,
        S.VACATED,
        say="The GPU is free, and it is being drained; it cannot be reset: {obstacle}",
    ),
    Move(
        S.VACATED,
        drain.obstructed_undrained,
        S.PARKED,
        (E.RESTORE,),
        say="It is not known to be drained, and it cannot be reset: {obstacle}",
        due="Keep work off it by hand: it may not be drained. {obstacle}",
    ),
    Move(
        S.VACATED,
        when.obstructed,
        S.PARKED,
        (E.RESTORE,),
        say="It cannot be reset: {obstacle}",
        due="{obstacle}",
    ),
    Move(
        S.VACATED,
        drain.isolating_while_draining,
        S.VACATED,
        say="The GPU is free, and it is being drained; the mode does not allow a repair.",
    ),
    Move(
        S.VACATED,
        drain.isolating_undrained,
        S.PARKED,
        (E.RESTORE,),
        say="The GPU is free, it is not known to be drained, and the mode does not allow a repair.",
        due="Keep work off it by hand: it may not be drained. A reset is due: by hand, or change the mode and retry.",
    ),
    Move(
        S.VACATED,
        when.isolating,
        S.PARKED,
        (E.RESTORE,),
        say="The GPU is free, and the mode does not allow a repair.",
        due="A reset is due: change the mode to repair and retry, or reset it by hand and release.",
    ),
    Move(S.VACATED, when.unfenced, S.VACATED, (E.EVIDENCE, E.DRAIN), say="It is to be fenced again before the repair."),
    Move(
        S.VACATED,
        when.ready,
        S.REPAIRING,
        (E.EVIDENCE, E.PAUSE),
        say="Evidence is to be kept, services are to be stopped.",
    ),
    # --- repairing: evidence, services stopped, undrain, reset ----------------------------------------------------
    Move(
        S.REPAIRING,
        when.halted,
        S.PARKED,
        (E.DRAIN, E.RESTORE),
        say="The mode no longer allows the repair that was begun.",
        due="A reset is due: change the mode to repair and retry, or reset it by hand and release.",
    ),
    Move(
        S.REPAIRING,
        when.without_evidence,
        S.PARKED,
        (E.RESTORE,),
        say="No evidence could be kept: {why}",
        due="No evidence, no reset: make room for it and retry.",
    ),
    Move(S.REPAIRING, when.evidence_failed, S.REPAIRING, (E.EVIDENCE,), say="Evidence is tried again: {why}"),
    Move(
        S.REPAIRING,
        when.reset_was_held,
        S.EVACUATING,
        (E.DRAIN, E.RESTORE),
        say="Work came back before the reset: {work}",
    ),
    Move(
        S.REPAIRING,
        when.not_reset,
        S.PARKED,
        (E.DRAIN, E.RESTORE),
        say="The reset did not succeed: {why}",
        due="A person must look: {why}",
    ),
    Move(
        S.REPAIRING,
        when.was_reset,
        S.VERIFYING,
        (E.RESTORE, E.VERIFY),
        say="Reset; services are to be started, proof begins.",
    ),
    Move(
        S.REPAIRING,
        when.not_paused,
        S.PARKED,
        (E.RESTORE,),
        say="The services that hold the GPU could not be stopped: {why}",
        due="Stop them by hand and retry: {why}",
    ),
    Move(
        S.REPAIRING,
        when.not_undrained,
        S.PARKED,
        (E.RESTORE,),
        say="The drain could not be lifted for the reset: {why}",
        due="Lift it by hand, then release: {why}",
    ),
    Move(S.REPAIRING, when.free_but_drained, S.REPAIRING, (E.UNDRAIN,), say="The drain is to be lifted for the reset."),
    Move(S.REPAIRING, when.free, S.REPAIRING, (E.RESET,), say="Nothing holds it: the GPU is to be reset."),
    # --- verifying, probation: proof before return ----------------------------------------------------------------
    Move(
        S.VERIFYING,
        when.not_verified,
        S.PARKED,
        (E.DRAIN, E.RESTORE),
        say="The proof failed: {why}",
        due="A person must look: {why}",
        of=Of.ANY,
    ),
    Move(S.VERIFYING, when.not_restored, S.VERIFYING, (E.RESTORE,), say="Starting services is tried again: {why}"),
    Move(
        S.VERIFYING,
        when.never_restored,
        S.PARKED,
        say="Services or persistence mode could not be put back: {why}",
        due="Put them back by hand, then release: {why}",
    ),
    Move(
        S.VERIFYING,
        when.needs_diagnostics,
        S.PARKED,
        (E.DRAIN, E.RESTORE),
        say="Healthy now, but it keeps failing: it does not return by itself.",
        due="Run DCGM EUD, then field diagnostics; release it when they pass.",
    ),
    Move(S.VERIFYING, when.verified, S.PROBATION, say="Proven healthy; on probation.", of=Of.ANY),
    Move(
        S.PROBATION,
        when.relapsed,
        S.PARKED,
        (E.EVIDENCE, E.DRAIN, E.RESTORE),
        say="It failed again on probation: {relapse}",
        due="It failed again after its repair: run diagnostics, replace it if they fail.",
        of=Of.ANY,
    ),
    Move(
        S.PROBATION, when.proven_and_tainted, S.PROBATION, (E.UNTAINT,), say="The taint is to be taken away.", of=Of.ANY
    ),
    Move(
        S.PROBATION,
        when.proven_in_vain,
        S.PARKED,
        say="It is proven, and its taint could not be taken away: {why}",
        due="Take it away by hand, then release: {why}",
        of=Of.ANY,
    ),
    Move(S.PROBATION, when.proven, S.CLOSED, say="Returned to service.", of=Of.ANY),
    # --- parked: a person's turn ----------------------------------------------------------------------------------
    Move(S.PARKED, when.drill_leaves_marks, S.PARKED, UNDO, say="The drill is over: the undoing is rehearsed too."),
    Move(S.PARKED, when.drill_ends, S.CLOSED, say="The drill ends here; now a person's turn would come: {due}"),
    Move(S.PARKED, when.not_restored, S.PARKED, (E.RESTORE,), say="Starting services is tried again: {why}"),
    Move(S.PARKED, when.retried, S.VACATED, (E.TAINT,), say="A person asked for another try."),
    Move(S.PARKED, whole.taint_wanted_again, S.VACATED, (E.TAINT,), say="A person asked for another try."),
    *NODE_MOVES,
)


def moves_from(state: CaseState, moves: Iterable[Move] = MOVES, *, case: Case | None = None) -> Iterator[Move]:
    """Yield the rows of a state in order: a drill's end and a person's release go before all others.

    With a case, only those that move one of its kind.
    """
    if state in ENDED:
        return
    yield from _BEFORE_ALL[state]
    yield from (move for move in moves if move.state is state and (case is None or move.of.takes(case)))


def _before_all(state: CaseState) -> Iterator[Move]:
    yield Move(state, when.overtaken, S.WITHDRAWN, say="A real fault came, {overtaken}: the drill is over.", of=Of.ANY)
    yield Move(state, when.released_unmarked, S.CLOSED, say="Released by a person; no mark is left.")
    yield Move(
        state,
        when.release_not_undone,
        S.PARKED,
        say="A person released it, and a mark could not be undone: {why}",
        due="Undo it by hand, then release again: {why}",
    )
    yield Move(state, when.released_marked, state, UNDO, say="Released by a person: every mark is to be undone.")
    yield Move(state, when.released, state, say="Released by a person: the undoing is under way.")


_BEFORE_ALL = {state: tuple(_before_all(state)) for state in CaseState}
"""The rows that every state has, before its own."""
