"""The moves of a case whose node was booted meanwhile, by itself or by a person: what that ends, and what not.

An order is meant for the boot on which it was given, and is done on no other. A boot lifts drains, starts services and
resets every GPU; what it came before is asked for anew, but for the reset. A parked case waits for its person as ever.
"""

from gpuward.isolation import boot_conditions as boot
from gpuward.isolation.move import Move
from gpuward.model.case import CaseState, EffectKind

S = CaseState
E = EffectKind
_LIFTED = "The node was booted, and no drain outlives that: the GPU is to be drained again."
_KEEP_IT = "The node was booted before evidence was kept: it is tried again."
_TOO_OFTEN = "The node was booted again and again during the repair."
_WHY_IT_BOOTS = "Find out why the node boots again and again, then retry."

BOOT_MOVES: tuple[Move, ...] = (
    Move(
        S.FENCED,
        boot.evidence_and_urgent_drain_were_cut,
        S.FENCED,
        (E.EVIDENCE, E.DRAIN),
        say="The node was booted before evidence was kept, and no drain outlives that: both are to be had again.",
    ),
    Move(S.FENCED, boot.evidence_was_cut, S.FENCED, (E.EVIDENCE,), say=_KEEP_IT),
    Move(S.FENCED, boot.urgent_drain_was_lifted_by_a_boot, S.FENCED, (E.DRAIN,), say=_LIFTED),
    Move(S.EVACUATING, boot.drain_was_lifted_by_a_boot, S.EVACUATING, (E.DRAIN,), say=_LIFTED),
    Move(S.VACATED, boot.drain_was_lifted_by_a_boot, S.VACATED, (E.DRAIN,), say=_LIFTED),
    Move(
        S.REPAIRING,
        boot.booted_instead_of_the_reset,
        S.VERIFYING,
        (E.RESTORE, E.VERIFY),
        say="The node was booted before the reset was known to be done, which resets every GPU of it; proof begins.",
    ),
    Move(S.REPAIRING, boot.boots_too_often, S.PARKED, (E.RESTORE,), say=_TOO_OFTEN, due=_WHY_IT_BOOTS),
    Move(S.REPAIRING, boot.evidence_was_cut, S.REPAIRING, (E.EVIDENCE,), say=_KEEP_IT),
    Move(
        S.REPAIRING,
        boot.services_run_again,
        S.REPAIRING,
        (E.PAUSE,),
        say="The node was booted, which starts services: they are to be stopped again.",
    ),
    Move(
        S.VERIFYING,
        boot.proof_was_cut,
        S.VERIFYING,
        (E.VERIFY,),
        say="The node was booted before the proof, which is no failure of it: it is asked for again.",
    ),
    Move(S.VERIFYING, boot.boots_too_often, S.PARKED, (E.DRAIN, E.RESTORE), say=_TOO_OFTEN, due=_WHY_IT_BOOTS),
)
