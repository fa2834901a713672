"""The questions that the table asks of the case of a whole node, and of the taint. Each is one fact."""

from gpuward.isolation.conditions import NOT_DONE, idle, marked, not_evicted, observing, pods_came, settled, unmarked
from gpuward.model.case import Case, Effect, EffectKind, Order
from gpuward.model.scene import Scene

MOST_RETURNS = 3
"""So often a node that was lost returns by itself in one case; then a person decides."""
PROVE_AGAIN_SECONDS = 600.0
MOST_CLEARINGS = 3
TAINT_TRIES = 3
TAINT_AGAIN_SECONDS = 20.0


def comes_back(case: Case, scene: Scene) -> bool:
    """Return whether the node has answered again for a while, and nothing is under way."""
    return settled(case, scene) and scene.node.back


def returns(case: Case, scene: Scene) -> bool:
    """Return whether a node that answers again may be proven by itself once more; not soon after that failed."""
    proofs = [effect for effect in case.effects if effect.kind is EffectKind.VERIFY]
    failed_at = proofs[-1].ended_at if proofs and proofs[-1].outcome in NOT_DONE else None
    is_soon = failed_at is not None and scene.now - failed_at < PROVE_AGAIN_SECONDS
    return comes_back(case, scene) and len(proofs) < MOST_RETURNS and not is_soon


def is_off(case: Case, scene: Scene) -> bool:
    """Return whether pods are left on a node that is known to be off, and were not deleted since it is in its state."""
    return _may_be_cleared(case, scene) and case.newest(EffectKind.CLEAR) is None


def is_off_now(case: Case, scene: Scene) -> bool:
    """Return whether a node that nobody knew to be off is off, and its pods were not tried to be deleted too often."""
    return _may_be_cleared(case, scene) and _count(case, EffectKind.CLEAR) < MOST_CLEARINGS


def not_cleared(case: Case, scene: Scene) -> bool:
    """Return whether pods could not be deleted, and are still there."""
    newest = case.newest(EffectKind.CLEAR)
    left = settled(case, scene) and scene.victims != ()
    return left and newest is not None and newest.outcome in NOT_DONE


def pods_stay(case: Case, scene: Scene) -> bool:
    """Return whether pods were asked to end in vain, since no kubelet is there to end them."""
    return not_evicted(case, scene)


def gone(case: Case, scene: Scene) -> bool:
    """Return whether the cluster has no such node any more, and a mark of ours was not taken back yet."""
    return scene.node.gone and marked(case, scene)


def gone_unmarked(case: Case, scene: Scene) -> bool:
    """Return whether the cluster has no such node any more, and no mark of ours stands."""
    return scene.node.gone and unmarked(case, scene)


def gone_meanwhile(case: Case, scene: Scene) -> bool:
    """Return whether the node of a case that waits for a person has left the cluster."""
    return settled(case, scene) and scene.node.gone and idle(case, scene)


def asked_again(case: Case, scene: Scene) -> bool:
    """Return whether a person wants the case of a node to be tried again."""
    return settled(case, scene) and case.order is Order.RETRY


def tainted_in_vain(case: Case, scene: Scene) -> bool:
    """Return whether the node could not be tainted for the case: who is evicted from it may come back to it."""
    newest = newest_taint(case)
    return _may_be_tainted(scene) and newest is not None and newest.outcome in NOT_DONE


def to_evict_in_vain(case: Case, scene: Scene) -> bool:
    """Return whether pods would be evicted now from a node that could not be tainted."""
    return tainted_in_vain(case, scene) and pods_came(case, scene)


def untainted(case: Case, scene: Scene) -> bool:
    """Return whether the taint was taken back, or tried to be, and is wanted all the same."""
    return settled(case, scene) and _may_be_tainted(scene) and not is_tainting(case)


def to_evict_untainted(case: Case, scene: Scene) -> bool:
    """Return whether pods would be evicted now from a node whose taint was taken back, or tried to be."""
    return pods_came(case, scene) and _may_be_tainted(scene) and not is_tainting(case)


def is_tainting(case: Case) -> bool:
    """Return whether the taint stands, or is asked for, for all that is known."""
    newest = newest_taint(case)
    return newest is not None and newest.outcome not in NOT_DONE


def taint_wanted_again(case: Case, scene: Scene) -> bool:
    """Return whether a person wants the taint tried again, in a mode that may taint."""
    return asked_again(case, scene) and tainted_in_vain(case, scene) and not observing(case, scene)


def taint_tried_again(case: Case, scene: Scene) -> bool:
    """Return whether a taint that failed is due to be tried again."""
    newest = newest_taint(case)
    ended_at = None if newest is None else newest.ended_at
    return taint_waits(case, scene) and ended_at is not None and scene.now - ended_at >= TAINT_AGAIN_SECONDS


def taint_waits(case: Case, scene: Scene) -> bool:
    """Return whether a taint that failed has tries left."""
    tries = sum(effect.kind is EffectKind.TAINT for effect in case.effects)
    return tainted_in_vain(case, scene) and tries < TAINT_TRIES


def newest_taint(case: Case) -> Effect | None:
    """Return the newest taint or its undoing, whichever came later."""
    kinds = (EffectKind.TAINT, EffectKind.UNTAINT)
    newest = next((effect for effect in reversed(case.effects) if effect.kind in kinds), None)
    return None if newest is None or newest.kind is EffectKind.UNTAINT else newest


def _may_be_tainted(scene: Scene) -> bool:
    # On a node that has left the cluster no pod comes any more.
    return EffectKind.TAINT in scene.reach and not scene.node.gone


def _may_be_cleared(case: Case, scene: Scene) -> bool:
    is_known_off = not scene.node.answers and (bool(scene.node.off) or case.off)
    return settled(case, scene) and is_known_off and bool(scene.victims) and not observing(case, scene)


def _count(case: Case, kind: EffectKind) -> int:
    return sum(effect.kind is kind for effect in case.effects)
