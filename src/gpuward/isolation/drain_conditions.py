"""The questions that the table asks about the drain: whether it stands, is under way, or does not and never will."""

from gpuward.isolation.boot_conditions import is_left, is_lifted, is_over
from gpuward.isolation.conditions import held, isolating, obstructed, settled, urgent
from gpuward.model.case import Case, EffectKind, Outcome
from gpuward.model.scene import Scene


def obstructed_while_draining(case: Case, scene: Scene) -> bool:
    """Return whether a GPU that is there cannot be reset, and what becomes of its drain is not known yet."""
    return obstructed(case, scene) and not scene.gpu.lost and _is_draining(case)


def obstructed_undrained(case: Case, scene: Scene) -> bool:
    """Return whether a GPU that is there cannot be reset, and the drain does not stand; no work gets to a lost one."""
    return obstructed(case, scene) and not scene.gpu.lost and _is_undrained(case, scene)


def isolating_while_draining(case: Case, scene: Scene) -> bool:
    """Return whether repair is not allowed, and what becomes of the drain is not known yet."""
    return isolating(case, scene) and _is_draining(case)


def isolating_undrained(case: Case, scene: Scene) -> bool:
    """Return whether repair is not allowed, and the drain does not stand."""
    return isolating(case, scene) and _is_undrained(case, scene)


def held_undrained(case: Case, scene: Scene) -> bool:
    """Return whether work holds the GPU, and the drain does not stand: more may come."""
    return held(case, scene) and _is_undrained(case, scene)


def held_and_boots_too_often(case: Case, scene: Scene) -> bool:
    """Return whether work holds the GPU, and boots have lifted the drain however often it was asked for."""
    return held(case, scene) and _was_lifted_too_often(case, scene)


def urgent_and_boots_too_often(case: Case, scene: Scene) -> bool:
    """Return whether boots have lifted the drain of an urgent case however often it was asked for."""
    goes_on = urgent(case, scene) and settled(case, scene) and not is_over(case, scene)
    return goes_on and _was_lifted_too_often(case, scene)


def _was_lifted_too_often(case: Case, scene: Scene) -> bool:
    return is_lifted(case, scene) and not is_left(case, EffectKind.DRAIN)


def _is_draining(case: Case) -> bool:
    return any(one.kind is EffectKind.DRAIN and one.outcome is Outcome.ASKED for one in case.effects)


def _is_undrained(case: Case, scene: Scene) -> bool:
    """Return whether the drain is known not to stand, or not known to: whatever is asked for has its outcome."""
    newest = next((one for one in reversed(case.effects) if one.kind is EffectKind.DRAIN), None)
    # One that was lifted by a boot, and then refused, is marked all the same.
    stands = case.marks.drained and newest is not None and newest.outcome is Outcome.DONE
    return not _is_draining(case) and (not stands or is_lifted(case, scene))
