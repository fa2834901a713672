"""The moves of the case of a whole node, which has stopped answering: rows as those of the table, which takes them in.

Nobody is there to keep evidence, to drain or to reset. The node is tainted, its pods are asked to end; they do not as
long as no kubelet ends them, and are deleted only when the node is known to be off. It returns by its own doing only:
when it answers again for a while, its agent proves the GPUs.
"""

from gpuward.isolation import conditions as when
from gpuward.isolation import node_conditions as whole
from gpuward.isolation.move import Move, Of
from gpuward.model.case import CaseState, EffectKind

S = CaseState
E = EffectKind
_OFF = (
    "If it is off, say so: `gpuward off CASE`, or the taint node.kubernetes.io/out-of-service on the node. "
    "Its pods are deleted then, and may run elsewhere. If it answers again, it returns by itself."
)

NODE_MOVES: tuple[Move, ...] = (
    Move(
        S.SUSPECT, when.always, S.FENCED, (E.TAINT,), say="The node does not answer: it gets no new work.", of=Of.NODE
    ),
    Move(S.FENCED, when.ready, S.SAVING, (E.PROMOTE, E.NOTICE), say="Fenced.", of=Of.NODE),
    Move(S.FENCED, when.always, S.FENCED, say="The node is being tainted.", of=Of.NODE),
    Move(S.SAVING, whole.comes_back, S.VERIFYING, (E.VERIFY,), say="The node answers again; proof begins.", of=Of.NODE),
    Move(S.SAVING, when.saving, S.SAVING, say="{saves}", of=Of.NODE),
    Move(S.SAVING, when.always, S.EVACUATING, (E.EVICT,), say="{saved}", of=Of.NODE),
    # --- evacuating: a pod is not gone before it is known that it cannot run ---------------------------------------
    Move(S.EVACUATING, when.idle, S.VACATED, say="No pod is left on the node.", of=Of.NODE),
    Move(
        S.EVACUATING,
        whole.comes_back,
        S.VERIFYING,
        (E.VERIFY,),
        say="The node answers again; proof begins.",
        of=Of.NODE,
    ),
    Move(
        S.EVACUATING,
        whole.not_cleared,
        S.PARKED,
        say="Its pods could not be deleted: {why}",
        due="Delete them by hand, then retry: {why}",
        of=Of.NODE,
    ),
    Move(
        S.EVACUATING,
        whole.is_off,
        S.EVACUATING,
        (E.CLEAR,),
        say="The node is off, so its pods are deleted: {off}",
        of=Of.NODE,
    ),
    Move(S.EVACUATING, when.pods_came, S.EVACUATING, (E.EVICT,), say="More pods have to go: {victims}", of=Of.NODE),
    Move(
        S.EVACUATING,
        whole.pods_stay,
        S.PARKED,
        say="Its pods are asked to end and cannot, for the node does not answer: {why}",
        due=_OFF,
        of=Of.NODE,
    ),
    Move(S.EVACUATING, when.held, S.EVACUATING, say="Waits for its pods to end: {work}", of=Of.NODE),
    # --- vacated: nothing is left to be done from here -------------------------------------------------------------
    Move(S.VACATED, when.held, S.EVACUATING, say="Pods are on the node again.", of=Of.NODE),
    Move(S.VACATED, whole.gone_unmarked, S.CLOSED, say="The node has left the cluster.", of=Of.NODE),
    Move(S.VACATED, whole.gone, S.VACATED, (E.UNTAINT,), say="The node has left the cluster.", of=Of.NODE),
    Move(
        S.VACATED, whole.comes_back, S.VERIFYING, (E.VERIFY,), say="The node answers again; proof begins.", of=Of.NODE
    ),
    Move(
        S.VACATED,
        when.ready,
        S.PARKED,
        say="No pod is left on the node, and it does not answer.",
        due="Look at its power and its console, and start it again: it returns by itself when its agent proves the "
        "GPUs. If it is gone for good, delete its Node.",
        of=Of.NODE,
    ),
    # --- parked: what happens to the node itself needs no person's word ----------------------------------------------
    Move(S.PARKED, whole.gone_meanwhile, S.VACATED, say="The node has left the cluster.", of=Of.NODE),
    Move(S.PARKED, whole.returns, S.VERIFYING, (E.VERIFY,), say="The node answers again; proof begins.", of=Of.NODE),
    Move(S.PARKED, whole.is_off_now, S.EVACUATING, (E.CLEAR,), say="The node is off: {off}", of=Of.NODE),
    Move(S.PARKED, whole.asked_again, S.VACATED, (E.TAINT,), say="A person asked for another try.", of=Of.NODE),
)
