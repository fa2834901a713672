"""The moves of the next rung after a reset: the node of a GPU is rebooted, where that is enabled and nobody is hit.

A reboot is due when a reset cannot help and a reboot may, or when the reset has failed. It waits until all work with
GPUs has left the node, for it hits every GPU. What it does not cure, or where it is not allowed, goes to a person.
"""

from gpuward.isolation import reboot_conditions as reboot
from gpuward.isolation.move import Move
from gpuward.model.case import CaseState, EffectKind

S = CaseState
E = EffectKind

REBOOT_MOVES: tuple[Move, ...] = (
    Move(S.VACATED, reboot.waits, S.VACATED, say="A reboot of the node is due, and waits: {waits}"),
    Move(
        S.VACATED, reboot.is_due, S.REPAIRING, (E.EVIDENCE,), say="Evidence is to be kept, and the node to be rebooted."
    ),
    Move(
        S.REPAIRING,
        reboot.is_next,
        S.VACATED,
        (E.DRAIN, E.RESTORE),
        say="The reset did not succeed; a reboot of the node is next: {why}",
    ),
    Move(S.REPAIRING, reboot.was_rebooted, S.VERIFYING, (E.VERIFY,), say="The node was rebooted; proof begins."),
    Move(
        S.REPAIRING,
        reboot.not_rebooted,
        S.PARKED,
        say="The node could not be rebooted: {why}",
        due="{ticket}",
    ),
    Move(S.REPAIRING, reboot.is_held, S.VACATED, say="The node is not rebooted now."),
    Move(S.REPAIRING, reboot.to_do, S.REPAIRING, (E.REBOOT,), say="The node is to be rebooted."),
)
